//! The progress of a start, visible to other threads.
//!
//! The thread that starts a process is suspended until the program is executed. The child's steps before that
//! (changing the user, entering the working directory, reading the program) can take for ever: on a file
//! system that does not respond, or if somebody with the child's user id stops it. Therefore another thread
//! can see the current step, and can kill the child while its parent is still suspended.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{SpawnStep, pidfd_signal};

/// See the module's documentation. One flight is for one start.
#[derive(Debug)]
pub struct Flight {
    /// Written by the kernel before the child runs; −1 before that and after the start. Without pidfds, the child's pid.
    pidfd: AtomicI32,
    /// Written by the child as its first action.
    pid: AtomicU32,
    /// The child's current step.
    step: AtomicI32,
    cancelled: AtomicBool,
    /// Held while the descriptor is used or given up, so that its number is not reused meanwhile.
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
    /// The process that is being started, or was; 0 before it exists. Code that reaps all children must leave
    /// this one to the start.
    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::SeqCst)
    }

    /// The current step of the start, or its last step.
    pub fn step(&self) -> SpawnStep {
        super::spawn::step_of(self.step.load(Ordering::SeqCst)).unwrap_or(SpawnStep::Clone)
    }

    /// Kills the child if it exists and was not handed over, and prevents one from being created. A child in
    /// an uninterruptible wait ends when the wait does.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        let _held = self.hold.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.pidfd.load(Ordering::SeqCst);
        if number >= 0 && crate::portable::is_on() {
            // It is not reaped before the start gives it up.
            let _gone = rustix::process::Pid::from_raw(number)
                .map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
        } else if number >= 0 {
            // SAFETY: the start gives up its descriptor only while it holds the lock, so it is open now; it
            // is not closed here.
            let pidfd = std::mem::ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) });
            // It may have just ended.
            let _gone = pidfd_signal(&pidfd, libc::SIGKILL);
            debug_assert_eq!(pidfd.as_raw_fd(), number);
        }
    }

    /// Whether the start was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    /// Where the kernel stores the new process's descriptor.
    #[cfg(target_os = "linux")]
    pub(super) fn pidfd_slot(&self) -> *mut RawFd {
        self.pidfd.as_ptr()
    }

    /// Takes the descriptor that the kernel has created.
    pub(super) fn take_pidfd(&self) -> RawFd {
        let _held = self.hold.lock().unwrap_or_else(PoisonError::into_inner);
        self.pidfd.swap(-1, Ordering::SeqCst)
    }

    /// Notes the child of a start without pidfds.
    pub(super) fn begin(&self, pid: i32) {
        self.note_pid(pid.cast_unsigned());
        self.pidfd.store(pid, Ordering::SeqCst);
        // The steps of a copy of this process cannot be seen.
        self.note_step(super::spawn::LAST_STEP);
    }

    /// Gives up the child; returns what [`Self::begin`] noted.
    pub(super) fn end(&self) -> i32 {
        self.take_pidfd()
    }

    /// Called in the child: no locks, no allocation.
    pub(super) fn note_pid(&self, pid: u32) {
        self.pid.store(pid, Ordering::SeqCst);
    }

    /// Called in the child: no locks, no allocation.
    pub(super) fn note_step(&self, step: i32) {
        self.step.store(step, Ordering::SeqCst);
    }
}
