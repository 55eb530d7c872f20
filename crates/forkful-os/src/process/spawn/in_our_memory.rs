//! Starts a process with `clone` as in `vfork`, so that the cost does not grow with our memory.
//!
//! Until it executes the program, the child runs on its own stack in *our* memory, while the calling thread
//! is suspended. In return it can leave its error in a variable, without a pipe.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::ptr;

use super::{BlockedSignals, Failed, FailedStep, Kernel, Orders, STACK_BYTES, follow, step_of};
use crate::process::{RunAs, SpawnStep};

/// The highest signal number.
const SIGNAL_MAX: c_int = 64;

/// Creates the process on a stack of [`STACK_BYTES`], see [`super::new_stack`]. Does not allocate.
pub(super) fn start(
    mut orders: Orders<'_>,
    stack: &mut Vec<MaybeUninit<u8>>,
) -> Result<(u32, OwnedFd), Failed> {
    debug_assert!(stack.capacity() >= STACK_BYTES);
    // SAFETY: one past the end of the allocation, rounded down to the alignment of all our targets' stacks.
    let top = unsafe { stack.as_mut_ptr().add(STACK_BYTES) };
    let top = top.map_addr(|address| address & !15);
    let flight = orders.flight;
    let parent = if orders.child_of_keeper { libc::CLONE_PARENT } else { 0 };
    let orders_pointer: *mut Orders<'_> = &raw mut orders;
    let blocked = BlockedSignals::all();
    // SAFETY: the child shares our memory and we are suspended until it executes or exits
    // (CLONE_VM with CLONE_VFORK), so that the stack and the orders outlive it. It runs `child_main`, which
    // makes system calls only. No signal handler of ours can run in it, because all signals are blocked
    // and it resets the dispositions (its own copy, without CLONE_SIGHAND) before it unblocks them.
    // Descriptors are its own copy, without CLONE_FILES.
    let pid = unsafe {
        libc::clone(
            child_main,
            top.cast::<c_void>(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD | parent,
            orders_pointer.cast::<c_void>(),
            flight.pidfd_slot(),
        )
    };
    let clone_error = io::Error::last_os_error();
    drop(blocked);
    let pidfd = flight.take_pidfd();
    if pid < 0 {
        return Err(Failed { step: SpawnStep::Clone, source: clone_error, zombie: None });
    }
    // SAFETY: the kernel stored a new descriptor here, which nobody else has.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    // SAFETY: initialised by us to zero; the child may have written it, and no longer runs in our memory.
    // Volatile because the compiler cannot know that it was written.
    let failure = unsafe { ptr::read_volatile((&raw const orders.failure).cast::<FailedStep>()) };
    let Some(step) = step_of(failure.step) else { return Ok((pid as u32, pidfd)) };
    let source = io::Error::from_raw_os_error(failure.errno);
    Err(Failed { step, source, zombie: Some((pid as u32, pidfd)) })
}

/// The child's code before it executes the program.
extern "C" fn child_main(orders: *mut c_void) -> c_int {
    let orders = orders.cast::<Orders<'_>>();
    // SAFETY: the parent passes a valid pointer and is suspended, so we are alone with it. Only system calls
    // follow, on data that the parent prepared.
    unsafe {
        (*orders).flight.note_pid(libc::syscall(libc::SYS_getpid) as u32);
        if (*orders).flight.is_cancelled() {
            libc::syscall(libc::SYS_kill, libc::syscall(libc::SYS_getpid), libc::SIGKILL);
        }
        let step = follow(&*orders, &OfLinux);
        let failure = FailedStep { step, errno: super::errno() };
        ptr::write_volatile((&raw mut (*orders).failure).cast::<FailedStep>(), failure);
        libc::_exit(127)
    }
}

/// A child in our memory. It avoids glibc where glibc would reach the parent's threads or refuse.
struct OfLinux;

impl Kernel for OfLinux {
    unsafe fn reset_dispositions(&self) {
        // SAFETY: all zeros are the kernel's sigaction with the default disposition, in every field order, and the
        // buffer is longer than the structure on any target. What cannot be set (SIGKILL, SIGSTOP) fails without effect.
        // Not by way of glibc, which refuses its own two signals even when they come to us ignored.
        unsafe {
            let default = [0_u64; 8];
            for signal in 1..=SIGNAL_MAX {
                libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), ptr::null_mut::<u64>(), 8);
            }
        }
    }

    /// So that a child that hangs in one of the next steps does not keep others' listeners open.
    unsafe fn close_from(&self, first: RawFd) {
        // SAFETY: plain integers. Before Linux 5.9 the call does not exist; then exec closes all descriptors with
        // the flag, which all of ours have.
        unsafe {
            libc::syscall(libc::SYS_close_range, first, u32::MAX, 0);
        }
    }

    unsafe fn set_attributes(&self, orders: &Orders<'_>) {
        // SAFETY: the structures outlive the calls.
        unsafe { set_attributes(orders) }
    }

    /// glibc's `setuid` changes every thread of the process, which here would be the parent's threads.
    unsafe fn become_user(&self, run_as: &RunAs) -> bool {
        // SAFETY: plain integers, and a list that outlives the call.
        unsafe {
            libc::syscall(libc::SYS_setgroups, run_as.groups.len(), run_as.groups.as_ptr()) >= 0
                && libc::syscall(libc::SYS_setresgid, run_as.gid, run_as.gid, run_as.gid) >= 0
                && libc::syscall(libc::SYS_setresuid, run_as.uid, run_as.uid, run_as.uid) >= 0
        }
    }
}

/// Sets the mark and the scheduling of the calling process.
///
/// # Safety
/// Must be called only in the child.
pub(super) unsafe fn set_attributes(orders: &Orders<'_>) {
    // SAFETY: the structures outlive the calls.
    unsafe {
        if let Some(mark) = &orders.mark {
            // If it is refused, the environment must suffice.
            libc::setrlimit(libc::RLIMIT_LOCKS, mark);
        }
        if let Some(attributes) = &orders.scheduling {
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const *attributes, 0);
        }
    }
}
