//! Waits for changes of many descriptors in a loop that counts instructions: the thinnest form of epoll's edge-triggered
//! mode, and of kqueue on systems without it. [`crate::reactor`] is for everything else.

#[cfg(target_os = "linux")]
mod by_epoll;
#[cfg(not(target_os = "linux"))]
mod by_kqueue;

#[cfg(target_os = "linux")]
pub use by_epoll::{Edges, MECHANISM, Ready};
#[cfg(not(target_os = "linux"))]
pub use by_kqueue::{Edges, MECHANISM, Ready};

/// What has changed about a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The token passed to [`Edges::add`].
    pub token: u64,
    pub readable: bool,
    pub writable: bool,
    /// The other side writes no more, or the descriptor has an error.
    pub ended: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    #[test]
    fn each_change_is_told_once_and_an_end_as_such() {
        let edges = Edges::new().unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        edges.add(&ours, 7, false).unwrap();
        let mut events = Vec::with_capacity(4);
        let mut changes = |timeout| {
            events.clear();
            edges.wait(&mut events, timeout).unwrap();
            events.iter().map(Change::from).collect::<Vec<_>>()
        };
        assert_eq!(changes(Some(Duration::ZERO)), []);
        theirs.write_all(b"x").unwrap();
        let readable = Change { token: 7, readable: true, writable: false, ended: false };
        assert_eq!(changes(None), [readable]);
        assert_eq!(changes(Some(Duration::ZERO)), []);
        edges.modify(&ours, 8, true).unwrap();
        assert_eq!(changes(None), [Change { token: 8, writable: true, ..readable }]);
        theirs.shutdown(std::net::Shutdown::Both).unwrap();
        assert!(changes(None).iter().any(|change| change.ended));
    }
}
