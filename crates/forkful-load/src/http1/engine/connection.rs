//! One connection, and the requests under way on it.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustls::ClientConnection;

use crate::clock::Nanos;
use crate::http1::Reader;
use crate::recorder::Timing;

/// A place for a connection; the connection in it may end and be made anew.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    pub(super) fd: Option<OwnedFd>,
    pub(super) stage: Stage,
    /// Counts the descriptors of this place, to tell late events from its own.
    pub(super) generation: u32,
    pub(super) tls: Option<Box<ClientConnection>>,
    pub(super) reader: Reader,
    pub(super) under_way: VecDeque<Pending>,
    /// What a send left over.
    pub(super) unsent: Vec<u8>,
    pub(super) unsent_from: usize,
    /// Why nothing more can be sent. An answer that came before is read yet; the end of receiving judges.
    pub(super) send_error: Option<Errno>,
    /// The interest in writing is armed.
    pub(super) wants_write: bool,
    /// Answers on this connection.
    pub(super) answers: u32,
    /// Made, or last answered.
    pub(super) idle_since: Nanos,
    /// It is in the queue of idle ones (open loop).
    pub(super) queued: bool,
    /// Not to be used again.
    pub(super) ends: bool,
    /// Attempts that failed since the last success.
    pub(super) failures: u32,
    /// The worker that answered last.
    pub(super) worker: Option<u16>,
    /// Segments sent again that are counted already.
    pub(super) retransmits: u64,
}

/// How far a connection is.
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
    /// `sent` is 0 until its bytes are on their way.
    pub(super) timing: Timing,
    pub(super) id: u64,
    /// It was sent before, on a connection that the server had just closed.
    pub(super) retried: bool,
}

/// When bytes came: between these two moments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    /// The thread was woken, and the socket had something to read already; or the same as `read`.
    pub(super) woken: Nanos,
    /// They were read.
    pub(super) read: Nanos,
}

impl Arrival {
    /// When an answer to this request came. What lay there when the thread was woken does not become slower by being
    /// read after others; what was asked for at that moment or later was not there.
    #[inline]
    pub(super) fn of(self, pending: &Pending) -> Nanos {
        if self.woken > pending.timing.sent { self.woken } else { self.read }
    }
}

impl Connection {
    /// Ends the connection; requests under way stay with the place.
    pub(super) fn reset(&mut self) -> Option<OwnedFd> {
        self.stage = Stage::Closed;
        self.tls = None;
        self.reader = Reader::default();
        self.unsent.clear();
        self.unsent_from = 0;
        self.send_error = None;
        self.wants_write = false;
        self.answers = 0;
        self.ends = false;
        self.worker = None;
        self.retransmits = 0;
        self.generation = self.generation.wrapping_add(1);
        self.fd.take()
    }

    /// Segments sent again since this was last asked; none over unix sockets.
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
