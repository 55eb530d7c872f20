//! One connection, and the requests under way on it.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustls::ClientConnection;

use crate::clock::Nanos;
use crate::http1::Reader;
use crate::recorder::Timing;

/// A place for a connection. When its connection ends, the place gets a new connection.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    pub(super) fd: Option<OwnedFd>,
    pub(super) stage: Stage,
    /// Incremented for each descriptor of this place, to detect late events of an older descriptor.
    pub(super) generation: u32,
    pub(super) tls: Option<Box<ClientConnection>>,
    pub(super) reader: Reader,
    pub(super) under_way: VecDeque<Pending>,
    /// Bytes that a send did not accept.
    pub(super) unsent: Vec<u8>,
    pub(super) unsent_from: usize,
    /// Why sending failed. Answers that arrived before are still read; the end of receiving decides the
    /// cause.
    pub(super) send_error: Option<Errno>,
    /// The engine is registered for writability.
    pub(super) wants_write: bool,
    /// Answers received on this connection.
    pub(super) answers: u32,
    /// When the connection was made or last had an answer.
    pub(super) idle_since: Nanos,
    /// The server sends nothing more after what the socket holds.
    pub(super) peer_ended: bool,
    /// The connection is in the list of [`super::unread::Unread`].
    pub(super) unread: bool,
    /// The connection is in the queue of idle connections (open loop).
    pub(super) queued: bool,
    /// The place waits for a time (closed loop): it is in the list of [`super::pacing::Pacing`] once.
    pub(super) waits: bool,
    /// The connection must not be used again.
    pub(super) ends: bool,
    /// Failed attempts since the last success.
    pub(super) failures: u32,
    /// The worker that answered last.
    pub(super) worker: Option<u16>,
    /// Retransmitted segments that are already counted.
    pub(super) retransmits: u64,
}

/// State of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Stage {
    #[default]
    Closed,
    Connecting {
        since: Nanos,
    },
    Handshaking {
        since: Nanos,
    },
    Open,
}

/// A request that was started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    /// `sent` is 0 until the first byte is sent.
    pub(super) timing: Timing,
    pub(super) id: u64,
    /// The request was already sent once, on a connection that the server had just closed.
    pub(super) retried: bool,
}

/// Bytes arrived between these two times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    /// The thread was woken and the socket was already readable; otherwise equal to `read`.
    pub(super) woken: Nanos,
    /// The bytes were read.
    pub(super) read: Nanos,
}

impl Arrival {
    /// When an answer to this request arrived. An answer that was already there at the wake-up must not look
    /// slower because others are read first; an answer to a request sent at the wake-up or later cannot have
    /// been there.
    #[inline]
    pub(super) fn of(self, pending: &Pending) -> Nanos {
        if self.woken > pending.timing.sent { self.woken } else { self.read }
    }
}

impl Connection {
    /// Closes the connection; the requests under way stay with the place.
    pub(super) fn reset(&mut self) -> Option<OwnedFd> {
        self.stage = Stage::Closed;
        self.tls = None;
        self.reader = Reader::default();
        self.unsent.clear();
        self.unsent_from = 0;
        self.send_error = None;
        self.wants_write = false;
        self.peer_ended = false;
        self.unread = false;
        self.answers = 0;
        self.ends = false;
        self.worker = None;
        self.retransmits = 0;
        self.generation = self.generation.wrapping_add(1);
        self.fd.take()
    }

    /// Retransmitted segments since the last call; 0 for unix sockets.
    pub(super) fn new_retransmits(&mut self) -> u64 {
        let Some(fd) = &self.fd else { return 0 };
        let all = forkful_os::connection::retransmits(fd.as_fd()).map_or(0, u64::from);
        all.saturating_sub(std::mem::replace(&mut self.retransmits, all))
    }

    pub(super) fn is_idle(&self) -> bool {
        self.stage == Stage::Open && self.under_way.is_empty() && !self.ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_came_at_the_wake_up_unless_it_was_asked_for_later() {
        let at = Arrival { woken: 1_000, read: 1_700 };
        let sent = |sent| Pending {
            timing: Timing { intended: sent, begun: sent, sent, first_byte: 0, measured: true, request: 0 },
            id: 0,
            retried: false,
        };
        assert_eq!(at.of(&sent(400)), 1_000);
        assert_eq!(at.of(&sent(1_000)), 1_700);
        assert_eq!(at.of(&sent(1_200)), 1_700);
    }
}
