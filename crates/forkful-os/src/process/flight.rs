//! A start under way, as other threads see it.
//!
//! The thread that starts a process is suspended until the program is executed, and what the child does before that (to
//! change the user, to enter the working directory, to read the program) can take for ever: on a file system that does
//! not answer, or when somebody with the child's user id stops it. So another thread can see how far a start is, and can
//! end the child while its parent is still suspended.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{SpawnStep, pidfd_signal};

/// See the module's documentation. One flight serves one start.
#[derive(Debug)]
pub struct Flight {
    /// Written by the kernel before the child runs, −1 before that and once the start is over.
    pidfd: AtomicI32,
    /// Written by the child, first of all.
    pid: AtomicU32,
    /// The step that the child takes now.
    step: AtomicI32,
    cancelled: AtomicBool,
    /// Held while the descriptor is used or given up, so that its number is nobody else's.
    hold: Mutex<()>,
}

impl Default for Flight {
    fn default() -> Self {
        Self {
            pidfd: AtomicI32::new(-1),
            pid: AtomicU32::new(0),
            step: AtomicI32::new(0),
            cancelled: AtomicBool::new(false),
            hold: Mutex::new(()),
        }
    }
}

impl Flight {
    /// The process that is being started, or was; 0 before there is one. Whoever reaps all children must leave this one
    /// to the start.
    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::SeqCst)
    }

    /// What the start is busy with, or was when it ended.
    pub fn step(&self) -> SpawnStep {
        super::spawn::step_of(self.step.load(Ordering::SeqCst)).unwrap_or(SpawnStep::Clone)
    }

    /// Kills the child, if there is one that has not been handed over, and keeps one from being made. A child that waits
    /// uninterruptibly in the kernel ends when that wait does.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        let _held = self.hold.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.pidfd.load(Ordering::SeqCst);
        if number >= 0 {
            // SAFETY: the start gives its descriptor up only while it holds the lock, so that it is open now; it is not
            // closed here.
            let pidfd = std::mem::ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) });
            // It may have ended this moment.
            let _gone = pidfd_signal(&pidfd, libc::SIGKILL);
            debug_assert_eq!(pidfd.as_raw_fd(), number);
        }
    }

    /// Whether no child is to be made any more.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    /// Where the kernel puts the new process's descriptor.
    pub(super) fn pidfd_slot(&self) -> *mut RawFd {
        self.pidfd.as_ptr()
    }

    /// Takes the descriptor that the kernel has made.
    pub(super) fn take_pidfd(&self) -> RawFd {
        let _held = self.hold.lock().unwrap_or_else(PoisonError::into_inner);
        self.pidfd.swap(-1, Ordering::SeqCst)
    }

    /// For the child: no lock, no allocation.
    pub(super) fn note_pid(&self, pid: u32) {
        self.pid.store(pid, Ordering::SeqCst);
    }

    /// For the child: no lock, no allocation.
    pub(super) fn note_step(&self, step: i32) {
        self.step.store(step, Ordering::SeqCst);
    }
}
