//! The reactor of Linux.

use std::io;
use std::ops::BitOr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventFlags};
use rustix::time::Timespec;

use super::{EVENTS_MAX, Event};

/// What to report about a descriptor; combine with `|`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interest(EventFlags);

impl Interest {
    /// Data, a connection or an end of file can be read.
    pub const READ: Self = Self(EventFlags::IN.union(EventFlags::RDHUP));
    /// Writing is possible.
    pub const WRITE: Self = Self(EventFlags::OUT);
    /// Report once, then stay silent until [`Reactor::modify`].
    pub const ONESHOT: Self = Self(EventFlags::ONESHOT);
    /// [`Self::READ`] and [`Self::ONESHOT`].
    pub const READ_ONCE: Self = Self(Self::READ.0.union(EventFlags::ONESHOT));
    /// Report changes only, not states.
    pub const EDGE: Self = Self(EventFlags::ET);
    /// Only hang-ups and errors, which are always reported.
    pub const NONE: Self = Self(EventFlags::empty());
}

impl BitOr for Interest {
    type Output = Self;
    fn bitor(self, rhs: Self) -> Self {
        Self(self.0 | rhs.0)
    }
}

/// A set of watched descriptors. Its own descriptor is readable while any of them is ready.
#[derive(Debug)]
pub struct Reactor {
    epoll: OwnedFd,
}

impl Reactor {
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Watches `fd`; its events carry `token`.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), interest.0)?)
    }

    /// Changes what is reported about `fd`, and re-arms a one-shot.
    pub fn modify(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(token), interest.0)?)
    }

    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Replaces `events` by the ready descriptors, at most [`EVENTS_MAX`]; empty if `timeout` expired. `None`
    /// waits indefinitely. Interruptions by signals are not reported and do not extend the wait.
    pub fn wait(&self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<()> {
        events.clear();
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        let mut buffer = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; EVENTS_MAX];
        let mut remaining = timeout;
        loop {
            let timespec = remaining.and_then(|left| Timespec::try_from(left).ok());
            match epoll::wait(&self.epoll, &mut buffer, timespec.as_ref()) {
                Ok((ready, _)) => {
                    events.extend(ready.iter().map(to_event));
                    return Ok(());
                }
                Err(rustix::io::Errno::INTR) => {
                    remaining = deadline.map(|d| d.saturating_duration_since(Instant::now()));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Reactor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn to_event(raw: &epoll::Event) -> Event {
    use EventFlags as F;
    let (flags, data) = (raw.flags, raw.data);
    Event {
        token: data.u64(),
        readable: flags.intersects(F::IN | F::RDHUP | F::HUP | F::ERR),
        writable: flags.intersects(F::OUT | F::HUP | F::ERR),
        hangup: flags.intersects(F::HUP | F::ERR),
    }
}
