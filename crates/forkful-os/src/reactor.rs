//! Waits for the readiness of many descriptors: a thin, safe epoll, and kqueue on systems without it.
//!
//! It owns no descriptor except its own. The code that adds a descriptor must remove it before closing it;
//! otherwise a descriptor that is also open in another process would be reported for ever.

#[cfg(target_os = "linux")]
mod by_epoll;
#[cfg(not(target_os = "linux"))]
mod by_kqueue;

#[cfg(target_os = "linux")]
pub use by_epoll::{Interest, Reactor};
#[cfg(not(target_os = "linux"))]
pub use by_kqueue::{Interest, Reactor};

/// Maximum events of one [`Reactor::wait`], so that the work after it is not starved.
pub const EVENTS_MAX: usize = 256;

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

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
