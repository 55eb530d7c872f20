//! Wakes a thread that waits for descriptors: an eventfd, or a pipe on systems without it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A descriptor that becomes readable when another thread calls [`Wake::wake`].
#[derive(Debug)]
pub struct Wake {
    read: OwnedFd,
    #[cfg(not(target_os = "linux"))]
    write: OwnedFd,
}

impl Wake {
    #[cfg(target_os = "linux")]
    pub fn new() -> io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        Ok(Self { read: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    #[cfg(not(target_os = "linux"))]
    pub fn new() -> io::Result<Self> {
        let (read, write) = io::pipe()?;
        rustix::io::ioctl_fionbio(&read, true)?;
        rustix::io::ioctl_fionbio(&write, true)?;
        Ok(Self { read: read.into(), write: write.into() })
    }

    /// Makes it readable. Does not wait: if there is no room for another wake-up, one is already there.
    pub fn wake(&self) {
        #[cfg(target_os = "linux")]
        let to = &self.read;
        #[cfg(not(target_os = "linux"))]
        let to = &self.write;
        let _awake = rustix::io::write(to, &1_u64.to_ne_bytes());
    }

    /// Makes it silent until the next wake-up.
    pub fn clear(&self) {
        // Several wake-ups are one number in an eventfd; in a pipe the rest is read the next time.
        let _silent = rustix::io::read(&self.read, &mut [0; 8]);
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reactor::{Interest, Reactor};
    use std::time::Duration;

    #[test]
    fn it_is_readable_from_a_wake_up_until_it_is_cleared() {
        let (wake, reactor, mut events) = (Wake::new().unwrap(), Reactor::new().unwrap(), Vec::new());
        reactor.add(wake.as_fd(), 7, Interest::READ).unwrap();
        reactor.wait(&mut events, Some(Duration::ZERO)).unwrap();
        assert!(events.is_empty());
        wake.wake();
        reactor.wait(&mut events, None).unwrap();
        assert_eq!(events.iter().map(|event| event.token).collect::<Vec<_>>(), [7]);
        wake.clear();
        reactor.wait(&mut events, Some(Duration::ZERO)).unwrap();
        assert!(events.is_empty());
    }
}
