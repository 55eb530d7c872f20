//! Settings of a long-lived process at its start: it should stay small and not be killed by a file size
//! limit.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Freed buffers of this size and more are returned to the kernel; otherwise glibc raises the threshold with
/// the first large buffer (`mallopt(3)`, `M_MMAP_THRESHOLD`).
#[cfg(target_env = "gnu")]
const LARGE_BUFFER_BYTES: i32 = 128 * 1024;

/// Returns large buffers to the kernel, and makes a write beyond the file size limit fail instead of killing
/// the process.
pub fn prepare_long_life() -> io::Result<()> {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two integers and changes only how later allocations are made.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BUFFER_BYTES);
    }
    ignore(libc::SIGXFSZ)
}

fn ignore(signal: i32) -> io::Result<()> {
    // SAFETY: ignoring a signal installs no handler; `spawn` resets all dispositions in children.
    match unsafe { libc::signal(signal, libc::SIG_IGN) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Signals whose default action ends a process and that have no use for a supervisor: a mistyped `kill`, an
/// inherited timer, or a profiler attached to the wrong process. Signals raised by the process's own faults
/// are not included.
const STRAY_SIGNALS: &[i32] = &[
    libc::SIGUSR1,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGXCPU,
    libc::SIGIO,
    #[cfg(target_os = "linux")]
    libc::SIGPWR,
    #[cfg(target_os = "linux")]
    libc::SIGSTKFLT,
    libc::SIGSYS,
];

/// Ignores signals that would end the process by default but have no meaning for it. Call it before
/// installing handlers, which then override it for their signals.
pub fn ignore_stray_signals() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
    #[cfg(not(target_os = "linux"))]
    let real_time = std::iter::empty();
    STRAY_SIGNALS.iter().copied().chain(real_time).try_for_each(ignore)
}

/// Lets a daemon survive the end of the terminal session that started it.
pub fn ignore_hangup() -> io::Result<()> {
    ignore(libc::SIGHUP)
}

/// Whether this process ignores a signal, such as SIGHUP under `nohup`.
pub fn is_ignored(signal: i32) -> io::Result<bool> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: it changes nothing, and writes a structure of this size, of which zeros are a valid value.
    let (result, action) =
        unsafe { (libc::sigaction(signal, ptr::null(), action.as_mut_ptr()), action.assume_init()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(action.sa_sigaction == libc::SIG_IGN) }
}

/// Gives a signal its default action again.
pub fn reset(signal: i32) -> io::Result<()> {
    // SAFETY: the default action installs no handler.
    match unsafe { libc::signal(signal, libc::SIG_DFL) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_signal_is_ignored_until_it_is_reset() {
        // SIGURG is ignored by default, so it does not disturb other tests' threads.
        assert!(!is_ignored(libc::SIGURG).unwrap());
        ignore(libc::SIGURG).unwrap();
        assert!(is_ignored(libc::SIGURG).unwrap());
        reset(libc::SIGURG).unwrap();
        assert!(!is_ignored(libc::SIGURG).unwrap());
        assert!(is_ignored(10_000).is_err() && reset(10_000).is_err());
    }
}
