//! What a long-lived process does once at its start, so that it stays small and is not killed by a limit on files.

use std::io;

/// Buffers of this size and more go back to the kernel when they are freed; glibc otherwise raises the bound with the
/// first large one (`mallopt(3)`, `M_MMAP_THRESHOLD`).
const LARGE_BUFFER_BYTES: i32 = 128 * 1024;

/// Has large buffers given back to the kernel, and a write beyond a file-size limit fail instead of ending the process.
pub fn prepare_long_life() -> io::Result<()> {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two integers and changes only how later allocations are made.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BUFFER_BYTES);
    }
    ignore(libc::SIGXFSZ)
}

fn ignore(signal: i32) -> io::Result<()> {
    // SAFETY: ignoring a signal installs no handler; children have all dispositions reset by `spawn`.
    match unsafe { libc::signal(signal, libc::SIG_IGN) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Signals whose default action ends a process and that nobody has a reason to send to a supervisor: a mistyped `kill`,
/// a timer that it inherited, or a profiler aimed at the wrong process. Not those that a fault of its own raises.
const STRAY_SIGNALS: [i32; 9] = [
    libc::SIGUSR1,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGXCPU,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
    libc::SIGSYS,
];

/// Ignores signals that would end the process by their default action and mean nothing to it. To be called before
/// handlers are installed, which then replace this for their signals.
pub fn ignore_stray_signals() -> io::Result<()> {
    STRAY_SIGNALS.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX()).try_for_each(ignore)
}

/// Has a daemon outlive the end of the terminal session that it was started from.
pub fn ignore_hangup() -> io::Result<()> {
    ignore(libc::SIGHUP)
}
