//! Identifiers of objects that the driver owns.

use serde::{Deserialize, Serialize};

/// A worker of an app: the number of its start, counted over the app's life. The app sees it as
/// `cluster.worker.id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkerId(pub u32);

/// An address that the app listens on; not reused after the address was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ListeningId(pub usize);

/// A connection whose descriptor the driver holds, until [`Action::Close`](crate::Action::Close).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

/// A reply that carries a listening socket, or another line with a descriptor, until [`Action::DropReply`](crate::Action::DropReply) or the worker's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyId(pub u64);

impl ListeningId {
    /// The next identifier.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}
