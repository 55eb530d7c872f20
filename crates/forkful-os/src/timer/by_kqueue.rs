//! The timer of systems with kqueue.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

use rustix::event::kqueue::{Event, EventFilter, EventFlags, kevent, kqueue};
use rustix::io::Errno;

/// A one-shot timer on the monotonic clock. Register it with `READ | EDGE`; after it has fired it only needs
/// to be set again.
#[derive(Debug)]
pub struct Timer(OwnedFd);

impl Timer {
    /// A timer that is not set.
    pub fn new() -> io::Result<Self> {
        let queue = kqueue()?;
        rustix::io::fcntl_setfd(&queue, rustix::io::FdFlags::CLOEXEC)?;
        Ok(Self(queue))
    }

    /// Becomes readable `after` from now, replacing any earlier setting; `None` is never.
    pub fn set(&self, after: Option<Duration>) -> io::Result<()> {
        let flags = if after.is_some() { EventFlags::ADD | EventFlags::ONESHOT } else { EventFlags::DELETE };
        // rustix takes a time without whole milliseconds in its fraction for whole seconds, and would be early.
        let after = after
            .map(|after| if after.subsec_millis() == 0 { after + Duration::from_millis(1) } else { after });
        let change = [Event::new(EventFilter::Timer { ident: 0, timer: after }, flags, ptr::null_mut())];
        let mut none: [Event; 0] = [];
        // SAFETY: a timer names no descriptor.
        match unsafe { kevent(&self.0, &change, &mut none, Some(Duration::ZERO)) } {
            // It was not set.
            Err(Errno::NOENT) if after.is_none() => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
