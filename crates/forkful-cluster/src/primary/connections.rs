//! The daemon's copies of accepted connections, by number.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use forkful_dispatch::ConnectionId;
use forkful_os::closing::close_aside;

/// Entries are reused, so that a connection causes no allocation.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    places: Vec<Option<OwnedFd>>,
    free: Vec<u32>,
    /// Workers are another user's: they may have the daemon wait for a close.
    pub(super) are_foreign: bool,
}

impl Connections {
    pub(super) fn insert(&mut self, connection: OwnedFd) -> ConnectionId {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            u32::try_from(self.places.len() - 1).expect("a process has fewer descriptors")
        });
        self.places[place as usize] = Some(connection);
        ConnectionId(place)
    }

    pub(crate) fn get(&self, id: ConnectionId) -> Option<BorrowedFd<'_>> {
        self.places.get(id.0 as usize)?.as_ref().map(AsFd::as_fd)
    }

    /// Closes the copy.
    pub(super) fn close(&mut self, id: ConnectionId) {
        let Some(connection) = self.places.get_mut(id.0 as usize).and_then(Option::take) else { return };
        self.free.push(id.0);
        if self.are_foreign {
            close_aside(connection);
        }
    }

    /// The number of copies.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        if self.are_foreign {
            self.places.drain(..).flatten().for_each(close_aside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_used_again_after_its_connection_is_closed() {
        let descriptor = || OwnedFd::from(fs_err::File::open("/dev/null").unwrap().into_parts().0);
        let mut connections = Connections::default();
        let (first, second) = (connections.insert(descriptor()), connections.insert(descriptor()));
        connections.close(first);
        connections.close(first);
        assert!(connections.get(first).is_none());
        assert_eq!(connections.insert(descriptor()), first);
        assert!(connections.get(first).is_some() && connections.get(second).is_some());
        assert_eq!(connections.len(), 2);
    }
}
