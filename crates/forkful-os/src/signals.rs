//! Signals as a descriptor, for a loop without signal handlers.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Signals that are blocked in this thread and read instead. Create it before other threads, which inherit
/// the block; programs started by [`crate::process`] do not.
#[derive(Debug)]
pub struct SignalQueue(OwnedFd);

impl SignalQueue {
    pub fn of(signals: &[i32]) -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set is initialised by sigemptyset before it is used, and valid for the calls.
        let raw = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in signals {
                libc::sigaddset(set.as_mut_ptr(), *signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else has.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(raw) }))
    }

    /// The next pending signal, if any.
    pub fn next(&self) -> Option<i32> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the kernel writes at most `size` bytes of a plain structure.
        let read = unsafe { libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        // SAFETY: a structure of integers, for which zeros are valid.
        (usize::try_from(read) == Ok(size)).then(|| unsafe { info.assume_init() }.ssi_signo as i32)
    }
}

impl AsFd for SignalQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_signal_is_read_once() {
        // SIGWINCH is ignored by default, so it does not disturb other tests' threads.
        let queue = SignalQueue::of(&[libc::SIGWINCH]).unwrap();
        assert_eq!(queue.next(), None);
        // SAFETY: a signal to this thread, which blocks it.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGWINCH) };
        assert_eq!(queue.next(), Some(libc::SIGWINCH));
        assert_eq!(queue.next(), None);
    }
}
