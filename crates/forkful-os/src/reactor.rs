//! Waits for the readiness of many descriptors: a thin, safe epoll.
//!
//! It owns no descriptor except its own. The code that adds a descriptor must remove it before closing it;
//! otherwise a descriptor that is also open in another process would be reported for ever.

use std::io;
use std::ops::BitOr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventFlags};
use rustix::time::Timespec;

/// Maximum events of one [`Reactor::wait`], so that the work after it is not starved.
pub const EVENTS_MAX: usize = 256;

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

/// A ready descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The token passed to [`Reactor::add`].
    pub token: u64,
    /// A read will not block: data, end of file or an error.
    pub readable: bool,
    /// A write will not block: room, or an error.
    pub writable: bool,
    /// The other side is gone (in both directions), or the descriptor has an error.
    pub hangup: bool,
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use crate::testing::wait_until;

    const SOON: Option<Duration> = Some(Duration::from_secs(60));

    fn tokens(reactor: &Reactor, timeout: Option<Duration>) -> Vec<Event> {
        let mut events = Vec::new();
        reactor.wait(&mut events, timeout).unwrap();
        events
    }

    #[test]
    fn reports_data_room_and_hangup_under_the_given_token() {
        let reactor = Reactor::new().unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        reactor.add(ours.as_fd(), 7, Interest::READ).unwrap();
        assert_eq!(tokens(&reactor, Some(Duration::ZERO)), []);
        theirs.write_all(b"x").unwrap();
        let event = Event { token: 7, readable: true, writable: false, hangup: false };
        assert_eq!(tokens(&reactor, SOON), [event]);
        reactor.modify(ours.as_fd(), 8, Interest::READ | Interest::WRITE).unwrap();
        let event = Event { token: 8, readable: true, writable: true, hangup: false };
        assert_eq!(tokens(&reactor, SOON), [event]);
        drop(theirs);
        // A child of another test may briefly hold a copy.
        wait_until("the hangup", || tokens(&reactor, SOON)[0].hangup);
        reactor.remove(ours.as_fd()).unwrap();
        assert_eq!(tokens(&reactor, Some(Duration::ZERO)), []);
    }

    #[test]
    fn a_one_shot_is_silent_until_armed_again_and_an_edge_reports_changes_only() {
        let reactor = Reactor::new().unwrap();
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"x").unwrap();
        reactor.add(ours.as_fd(), 1, Interest::READ | Interest::ONESHOT).unwrap();
        assert_eq!(tokens(&reactor, SOON).len(), 1);
        assert_eq!(tokens(&reactor, Some(Duration::ZERO)), []);
        reactor.modify(ours.as_fd(), 1, Interest::READ | Interest::EDGE).unwrap();
        assert_eq!(tokens(&reactor, SOON).len(), 1);
        assert_eq!(tokens(&reactor, Some(Duration::ZERO)), []);
        theirs.write_all(b"y").unwrap();
        assert_eq!(tokens(&reactor, SOON).len(), 1);
        let mut both = [0; 2];
        ours.read_exact(&mut both).unwrap();
        assert_eq!(&both, b"xy");
    }

    #[test]
    fn hands_over_at_most_256_events_and_can_itself_be_watched() {
        let inner = Reactor::new().unwrap();
        let pairs: Vec<_> = (0..300).map(|_| UnixStream::pair().unwrap()).collect();
        for (token, (ours, _)) in pairs.iter().enumerate() {
            inner.add(ours.as_fd(), token as u64, Interest::WRITE | Interest::ONESHOT).unwrap();
        }
        let outer = Reactor::new().unwrap();
        outer.add(inner.as_fd(), 99, Interest::READ).unwrap();
        assert_eq!(tokens(&outer, SOON)[0].token, 99);
        assert_eq!(tokens(&inner, SOON).len(), EVENTS_MAX);
        assert_eq!(tokens(&inner, SOON).len(), 300 - EVENTS_MAX);
        assert_eq!(tokens(&outer, Some(Duration::ZERO)), []);
    }
}
