//! Changes on systems with kqueue. What can be read and room to write are two changes.

use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::time::Duration;

use rustix::event::kqueue::{Event, EventFilter, EventFlags, kevent, kqueue};
use rustix::io::Errno;

use super::Change;

/// What waits, as reports name it.
pub const MECHANISM: &str = "kqueue";

/// A change in the kernel's form, from which [`Change`] is made.
pub type Ready = Event;

/// A set of watched descriptors.
#[derive(Debug)]
pub struct Edges(OwnedFd);

impl Edges {
    pub fn new() -> Result<Self, Errno> {
        let queue = kqueue()?;
        rustix::io::fcntl_setfd(&queue, rustix::io::FdFlags::CLOEXEC)?;
        Ok(Self(queue))
    }

    /// Watches a descriptor until it is closed: for what can be read, and for room to write if `writes`.
    pub fn add(&self, fd: impl AsFd, token: u64, writes: bool) -> Result<(), Errno> {
        let fd = fd.as_fd().as_raw_fd();
        let data = std::ptr::without_provenance_mut(token as usize);
        let flags = EventFlags::ADD | EventFlags::CLEAR;
        let read = Event::new(EventFilter::Read(fd), flags, data);
        let write = Event::new(EventFilter::Write(fd), flags, data);
        let changes = [read, write];
        let mut none: [Event; 0] = [];
        // SAFETY: the descriptor is open; the kernel forgets it when it is closed.
        unsafe { kevent(&self.0, &changes[..1 + usize::from(writes)], &mut none, Some(Duration::ZERO)) }
            .map(drop)
    }

    /// Changes what a descriptor is watched for; what is so now is told again.
    pub fn modify(&self, fd: impl AsFd, token: u64, writes: bool) -> Result<(), Errno> {
        self.add(fd, token, writes)
    }

    /// Appends changes to the vector's spare capacity. `None` waits indefinitely.
    pub fn wait(&self, events: &mut Vec<Ready>, timeout: Option<Duration>) -> Result<(), Errno> {
        // SAFETY: no change is made.
        unsafe { kevent(&self.0, &[], rustix::buffer::spare_capacity(events), timeout) }.map(drop)
    }
}

impl From<&Ready> for Change {
    fn from(ready: &Ready) -> Self {
        let writable = matches!(ready.filter(), EventFilter::Write(_));
        Self {
            token: ready.udata().addr() as u64,
            readable: !writable,
            writable,
            ended: ready.flags().intersects(EventFlags::EOF | EventFlags::ERROR),
        }
    }
}
