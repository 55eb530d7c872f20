//! Changes on Linux.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::Change;

/// What waits, as reports name it.
pub const MECHANISM: &str = "epoll";

/// A change in the kernel's form, from which [`Change`] is made.
pub type Ready = epoll::Event;

/// A set of watched descriptors.
#[derive(Debug)]
pub struct Edges(OwnedFd);

impl Edges {
    pub fn new() -> Result<Self, Errno> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Watches a descriptor until it is closed: for what can be read, and for room to write if `writes`.
    #[inline]
    pub fn add(&self, fd: impl AsFd, token: u64, writes: bool) -> Result<(), Errno> {
        epoll::add(&self.0, fd, EventData::new_u64(token), flags(writes))
    }

    /// Changes what a descriptor is watched for; what is so now is told again.
    #[inline]
    pub fn modify(&self, fd: impl AsFd, token: u64, writes: bool) -> Result<(), Errno> {
        epoll::modify(&self.0, fd, EventData::new_u64(token), flags(writes))
    }

    /// Appends changes to the vector's spare capacity. `None` waits indefinitely.
    #[inline]
    pub fn wait(&self, events: &mut Vec<Ready>, timeout: Option<Duration>) -> Result<(), Errno> {
        let timeout = timeout
            .map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) });
        epoll::wait(&self.0, rustix::buffer::spare_capacity(events), timeout.as_ref()).map(drop)
    }
}

#[inline]
fn flags(writes: bool) -> EventFlags {
    let reads = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
    if writes { reads | EventFlags::OUT } else { reads }
}

impl From<&Ready> for Change {
    #[inline]
    fn from(ready: &Ready) -> Self {
        let (flags, data) = (ready.flags, ready.data);
        Self {
            token: data.u64(),
            readable: flags.contains(EventFlags::IN),
            writable: flags.contains(EventFlags::OUT),
            ended: flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR),
        }
    }
}
