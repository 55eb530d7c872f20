//! The reactor of systems with kqueue. A descriptor that is both readable and writable gives two events.

use std::ffi::c_void;
use std::io;
use std::ops::BitOr;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::kqueue::{Event as Change, EventFilter, EventFlags, kevent, kqueue};
use rustix::io::Errno;

use super::{EVENTS_MAX, Event};

/// What to report about a descriptor; combine with `|`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interest(u8);

impl Interest {
    /// Data, a connection or an end of file can be read.
    pub const READ: Self = Self(1);
    /// Writing is possible.
    pub const WRITE: Self = Self(2);
    /// Report once, then stay silent until [`Reactor::modify`].
    pub const ONESHOT: Self = Self(4);
    /// [`Self::READ`] and [`Self::ONESHOT`].
    pub const READ_ONCE: Self = Self(1 | 4);
    /// Report changes only, not states.
    pub const EDGE: Self = Self(8);
    /// Nothing: a hang-up is found when the descriptor is read or written.
    pub const NONE: Self = Self(0);

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
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
    queue: OwnedFd,
}

impl Reactor {
    pub fn new() -> io::Result<Self> {
        let queue = kqueue()?;
        rustix::io::fcntl_setfd(&queue, rustix::io::FdFlags::CLOEXEC)?;
        Ok(Self { queue })
    }

    /// Watches `fd`; its events carry `token`.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.modify(fd, token, interest)
    }

    /// Changes what is reported about `fd`, and re-arms a one-shot.
    pub fn modify(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        let mut flags = EventFlags::ADD | EventFlags::ENABLE;
        flags.set(EventFlags::ONESHOT, interest.has(Interest::ONESHOT));
        flags.set(EventFlags::CLEAR, interest.has(Interest::EDGE));
        let flags_of = |wanted| if interest.has(wanted) { flags } else { EventFlags::DELETE };
        self.change(EventFilter::Read(fd.as_raw_fd()), flags_of(Interest::READ), token)?;
        self.change(EventFilter::Write(fd.as_raw_fd()), flags_of(Interest::WRITE), token)
    }

    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.modify(fd, 0, Interest::NONE)
    }

    fn change(&self, filter: EventFilter, flags: EventFlags, token: u64) -> io::Result<()> {
        let data = std::ptr::without_provenance_mut::<c_void>(token as usize);
        let mut none: [Change; 0] = [];
        let change = [Change::new(filter, flags, data)];
        // SAFETY: the descriptor is borrowed, and its owner removes it before closing it.
        match unsafe { kevent(&self.queue, &change, &mut none, Some(Duration::ZERO)) } {
            // It was not watched for this.
            Err(Errno::NOENT) if flags.contains(EventFlags::DELETE) => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }

    /// Replaces `events` by the ready descriptors, at most [`EVENTS_MAX`]; empty if `timeout` expired. `None`
    /// waits indefinitely. Interruptions by signals are not reported and do not extend the wait.
    pub fn wait(&self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<()> {
        events.clear();
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        let mut buffer = Vec::with_capacity(EVENTS_MAX);
        let mut remaining = timeout;
        loop {
            // SAFETY: no change is made.
            let outcome =
                unsafe { kevent(&self.queue, &[], rustix::buffer::spare_capacity(&mut buffer), remaining) };
            match outcome {
                Ok(_ready) => {
                    events.extend(buffer.iter().map(to_event));
                    return Ok(());
                }
                Err(Errno::INTR) => {
                    remaining = deadline.map(|d| d.saturating_duration_since(Instant::now()));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Reactor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

fn to_event(raw: &Change) -> Event {
    let writable = matches!(raw.filter(), EventFilter::Write(_));
    let ended = raw.flags().contains(EventFlags::EOF);
    Event {
        token: raw.udata().addr() as u64,
        readable: !writable || ended,
        writable,
        // The end of what can be read leaves the other direction open.
        hangup: ended && writable || raw.flags().contains(EventFlags::ERROR),
    }
}
