//! One worker's IPC channel: its socket, incoming lines, outgoing bytes. [`forkful_dispatch::Channel`]
//! decides what may be written and when.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use forkful_dispatch::{HandleLine, ListeningId, Pushed, ReplyId, TakenBack, Unsent, WorkerId, Write, Wrote};
use forkful_os::channel::{self as socket, RemoteEnd};
use forkful_os::closing::close_aside;
use forkful_os::keeper::Hold;

use crate::output::{Output, WrittenOutput};
use crate::primary::connections::Connections;
use crate::protocol::frame::LineDecoder;
use crate::protocol::incoming::{Incoming, is_log4js, is_report, parse};
use crate::protocol::outgoing;

/// Bytes read from a worker in one turn of the loop, so that a worker with many messages does not starve
/// others; 300 such workers cost a few milliseconds.
const READ_BYTES_PER_TURN: usize = 32 * 1024;
/// Messages to the primary handled from a worker in one turn, plus at most those of one more read; binding an
/// address costs about 50 µs. The app's own messages are skipped without parsing.
const MESSAGES_PER_TURN: usize = 32;
/// Bytes per read.
const PIECE_BYTES: usize = 8 * 1024;
/// Maximum unsent bytes for a worker that does not read, several thousand replies; a worker above it violates
/// the protocol.
const UNSENT_BYTES_MAX: usize = 1 << 20;

/// Descriptors of a worker's that are open at a time, plus at most those of one more read.
const FOREIGN_MAX: usize = 64;

/// Pieces taken out of the end of a worker that is given up: each ends with a handle, and few are unread.
const PIECES_OUT_MAX: usize = 32;

/// Errnos on Linux.
const ENOMEM: i32 = 12;
const ENOBUFS: i32 = 105;
const ETOOMANYREFS: i32 = 109;

/// A reply to `queryServer` with a listening socket, or a line to the agent with a stream.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The line, for a retry if the worker could not accept the handle.
    pub(crate) line: Vec<u8>,
    pub(crate) handle: OwnedFd,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: OwnedFd,
    decoder: LineDecoder,
    output: Output,
    /// Replies that the worker has not acknowledged.
    replies: BTreeMap<ReplyId, Reply>,
    /// The worker's end, for taking back what it has not read.
    remote: Option<RemoteEnd>,
    /// Whether there is a reader for the app's messages to its primary.
    hears: bool,
    /// The worker's pid, once known.
    pub(crate) pid: Option<u32>,
    /// If this process runs below another worker's process: that worker, see
    /// [`Primary::belongs_to`](crate::Primary::belongs_to).
    pub(crate) leader: Option<WorkerId>,
    /// Whether the reactor watches for writability.
    pub(crate) watches_write: bool,
    /// What was handled but is still in the socket, where another daemon would find it. `None` without a
    /// keeper: then bytes are removed when read.
    looked_at: Option<LookedAt>,
    /// The worker has closed its end and lives on: nothing is read or written any more.
    is_muted: bool,
    /// Descriptors that came with those bytes.
    foreign: Vec<OwnedFd>,
    /// Dropped with the socket, so that the worker sees its end.
    _hold: Hold,
}

/// What was handled and not saved.
#[derive(Debug, Default)]
struct LookedAt {
    bytes: usize,
    /// There is a query in it.
    asks: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Received {
    /// Parsed messages, in order.
    pub(crate) messages: Vec<Incoming>,
    /// The app's messages to its primary, if there is a reader; JSON, in order.
    pub(crate) said: Vec<Vec<u8>>,
    /// The app sent a message, with or without a reader.
    pub(crate) app_spoke: bool,
    /// The worker closed its end.
    pub(crate) closed: bool,
    /// The limit of a turn was reached: there may be more.
    pub(crate) more: bool,
}

impl Channel {
    pub(crate) fn new((socket, hold): (OwnedFd, Hold), remote: Option<RemoteEnd>, hears: bool) -> Self {
        // The previous daemon may have read bytes and died before saving their effect.
        let looks = hold.is_kept() && socket::look_from_the_beginning(socket.as_fd()).is_ok();
        Self {
            socket,
            decoder: LineDecoder::default(),
            output: Output::default(),
            replies: BTreeMap::new(),
            remote,
            hears,
            pid: None,
            leader: None,
            watches_write: false,
            looked_at: looks.then(LookedAt::default),
            is_muted: false,
            foreign: Vec::new(),
            _hold: hold,
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The worker has closed its end and lives on.
    pub(crate) fn mute(&mut self) {
        self.is_muted = true;
        self.replies.clear();
    }

    pub(crate) fn is_muted(&self) -> bool {
        self.is_muted
    }

    /// A query was read, and nothing is written until its answer is saved: another daemon would read the
    /// query again, and answer it with another socket.
    pub(crate) fn save_first(&mut self) {
        if let Some(looked_at) = &mut self.looked_at {
            looked_at.asks = true;
        }
    }

    pub(crate) fn saves_first(&self) -> bool {
        self.looked_at.as_ref().is_some_and(|looked_at| looked_at.asks)
    }

    /// Removes the read bytes from the socket, after their effect is saved. Returns whether answers wait to be
    /// written.
    pub(crate) fn take_read(&mut self) -> bool {
        let looked_at = self.looked_at.as_mut().map(std::mem::take).unwrap_or_default();
        if looked_at.bytes > 0 {
            // If this fails, the next read reports the error.
            let _taken = socket::take(self.socket.as_fd(), looked_at.bytes);
            self.foreign.drain(..).for_each(close_aside);
        }
        looked_at.asks
    }

    /// Reads available data, within the limit of a turn; see [`Self::take_read`].
    pub(crate) fn read(&mut self) -> Received {
        let mut received = Received::default();
        let mut chunk = [0_u8; PIECE_BYTES];
        let mut handles = Vec::new();
        let mut left = READ_BYTES_PER_TURN;
        loop {
            let is_full = self.foreign.len() >= FOREIGN_MAX;
            if left == 0 || is_full || received.messages.len() >= MESSAGES_PER_TURN {
                received.more = true;
                break;
            }
            let fd = self.socket.as_fd();
            let outcome = match self.looked_at {
                Some(_) => socket::look(fd, &mut chunk, &mut handles),
                None => socket::receive(fd, &mut chunk, &mut handles),
            };
            match outcome {
                Ok(0) => {
                    received.closed = true;
                    break;
                }
                Ok(n) => {
                    // A message with handles ends a read early; more data may already be there.
                    let all = n < chunk.len() && handles.is_empty();
                    // A worker's own handles have no receiver here: they are closed, and acknowledged when
                    // their line arrives.
                    match self.looked_at {
                        Some(_) => self.foreign.append(&mut handles),
                        None => handles.drain(..).for_each(close_aside),
                    }
                    left = left.saturating_sub(n);
                    if let Some(looked_at) = &mut self.looked_at {
                        looked_at.bytes += n;
                    }
                    let hears = self.hears;
                    self.decoder.feed(&chunk[..n], |line| {
                        let message = parse(line);
                        let is_wanted = hears || is_report(line) || is_log4js(line);
                        if matches!(message, Incoming::User | Incoming::Ready) && is_wanted {
                            received.said.push(line.to_vec());
                        }
                        match message {
                            Incoming::User => received.app_spoke = true,
                            Incoming::Ignored => {}
                            message => received.messages.push(message),
                        }
                    });
                    if all {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock || lacks_kernel_memory(&error) => {
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    received.closed = true;
                    break;
                }
            }
        }
        received
    }

    /// Sets whether the app's messages to its primary are wanted. Metrics and replies to actions always are.
    pub(crate) fn hear(&mut self, hears: bool) {
        self.hears = hears;
    }

    /// Queues a line. Returns false if too much is queued already: the worker then violates the protocol.
    pub(crate) fn queue(&mut self, line: Vec<u8>) -> bool {
        let bytes = self.output.bytes + line.len();
        let fits = bytes <= UNSENT_BYTES_MAX;
        if fits {
            self.output.bytes = bytes;
            self.output.lines.push_back(line);
            self.output.changes += 1;
        }
        fits
    }

    /// Writing has ended for now; returns whether the saved state has to change: another daemon goes on with
    /// what is left, in the middle of a line.
    pub(crate) fn note_output(&mut self) -> bool {
        self.output.note() && self.looked_at.is_some()
    }

    /// What is left, for another daemon.
    pub(crate) fn written_output(&self) -> Option<WrittenOutput> {
        self.output.saved.is_some().then(|| self.output.write_down())
    }

    /// Goes on with what another daemon has left.
    pub(crate) fn resume_output(&mut self, written: &WrittenOutput) {
        self.output = Output::resume(written);
    }

    /// Whether a message for the app may be queued. An app that does not read its messages must not fill the
    /// queue: room is reserved for protocol lines.
    pub(crate) fn fits_message(&self, bytes: usize) -> bool {
        self.output.bytes + bytes <= UNSENT_BYTES_MAX / 2
    }

    /// Keeps a reply until it is dropped.
    pub(crate) fn keep_reply(&mut self, id: ReplyId, reply: Reply) {
        self.replies.insert(id, reply);
    }

    pub(crate) fn drop_reply(&mut self, id: ReplyId) {
        self.replies.remove(&id);
    }

    /// The output that waits for the socket.
    pub(crate) fn unsent(&self) -> Unsent {
        Unsent { rest: !self.output.rest.is_empty(), lines: !self.output.lines.is_empty() }
    }

    /// Writes what the dispatcher has chosen.
    pub(crate) fn write(&mut self, write: Write, connections: &Connections) -> Wrote {
        match write {
            Write::Rest => self.write_rest(),
            Write::Line => {
                if let Some(line) = self.output.lines.pop_front() {
                    self.output.bytes = self.output.bytes.saturating_sub(line.len());
                    self.output.rest = line;
                }
                self.write_rest()
            }
            Write::Handle(line) => self.write_handle(line, connections),
        }
    }

    fn write_rest(&mut self) -> Wrote {
        match socket::send(self.socket.as_fd(), &self.output.rest, None) {
            Ok(n) => {
                self.output.rest.drain(..n);
                self.output.changes += 1;
                if self.output.rest.is_empty() { Wrote::Whole } else { Wrote::Part }
            }
            Err(error) if is_temporary(&error) => Wrote::NoRoom,
            Err(_) => Wrote::Failed,
        }
    }

    fn write_handle(&mut self, line: HandleLine, connections: &Connections) -> Wrote {
        let connection_line;
        let (bytes, handle): (&[u8], Option<BorrowedFd<'_>>) = match line {
            HandleLine::Probe => (outgoing::probe(), None),
            HandleLine::Reply(id) => {
                let Some(reply) = self.replies.get(&id) else { return Wrote::Failed };
                (&reply.line, Some(reply.handle.as_fd()))
            }
            HandleLine::Connection(pushed) => {
                let Some(connection) = connections.get(pushed.connection) else { return Wrote::Failed };
                connection_line = push_line(pushed);
                (&connection_line, Some(connection))
            }
        };
        match socket::send(self.socket.as_fd(), bytes, handle) {
            Ok(n) => {
                self.output.rest = bytes[n..].to_vec();
                self.output.changes += 1;
                if self.output.rest.is_empty() { Wrote::Whole } else { Wrote::Part }
            }
            Err(error) if lacks_kernel_memory(&error) || error.raw_os_error() == Some(ETOOMANYREFS) => {
                Wrote::HandlesFull
            }
            Err(error) if is_temporary(&error) => Wrote::NoRoom,
            Err(_) => Wrote::Failed,
        }
    }

    /// Takes a push, if it is the last line sent, out of the worker's end, unless the worker has read it.
    /// Unread data before it is sent again.
    pub(crate) fn take_back(&mut self, pushed: Pushed) -> TakenBack {
        let Some(remote) = &self.remote else { return TakenBack::Refused { for_good: true } };
        let mut handles = Vec::new();
        match remote.take_back(&mut handles) {
            Ok(mut unread) => {
                // It may begin with the rest of a line.
                let line = push_line(pushed);
                let found = unread.ends_with(&line);
                if found {
                    unread.truncate(unread.len() - line.len());
                }
                self.output.rest = unread;
                self.output.changes += 1;
                // Otherwise the worker has just read the beginning of the push.
                if found { TakenBack::Unread } else { TakenBack::Read }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => TakenBack::Refused { for_good: false },
            Err(_) => {
                // Not permitted, or no longer a channel: do not try again.
                self.remote = None;
                TakenBack::Refused { for_good: true }
            }
        }
    }

    /// Removes all unread data from the worker's end. Returns whether it contained a push.
    pub(crate) fn takes_out(&self, pushed: Pushed) -> bool {
        let Some(remote) = &self.remote else { return false };
        let (mut unread, mut handles) = (Vec::new(), Vec::new());
        for _ in 0..PIECES_OUT_MAX {
            let Ok(mut piece) = remote.take_back(&mut handles) else { break };
            unread.append(&mut piece);
            handles.clear();
        }
        let line = push_line(pushed);
        unread.split_inclusive(|byte| *byte == b'\n').any(|found| found == line)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        socket::close_with_all(self.socket.as_fd());
        self.foreign.drain(..).for_each(close_aside);
    }
}

fn push_line(pushed: Pushed) -> Vec<u8> {
    outgoing::new_connection(&worker_key(pushed.listening), pushed.seq, pushed.unix)
}

/// The key by which a worker knows a listening. Opaque to the worker; Node only requires that a key is not
/// used twice at the same time in a worker, which [`crate::primary`] ensures.
pub(crate) fn worker_key(listening: ListeningId) -> String {
    format!("forkful:{}", listening.0)
}

/// The listening of a worker's key.
pub(crate) fn listening_of(key: &str) -> Option<ListeningId> {
    key.strip_prefix("forkful:")?.parse().ok().map(ListeningId)
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
        || error.raw_os_error() == Some(ETOOMANYREFS)
        || lacks_kernel_memory(error)
}

/// Whether the kernel had no memory for a message, which says nothing about the channel.
fn lacks_kernel_memory(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(ENOBUFS | ENOMEM))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A channel as with a keeper.
    fn kept(socket: &OwnedFd) -> Channel {
        let socket = socket.try_clone().unwrap();
        socket::look_from_the_beginning(socket.as_fd()).unwrap();
        let mut channel = Channel::new((socket, Hold::default()), None, false);
        channel.looked_at = Some(LookedAt::default());
        channel
    }

    #[test]
    fn what_a_daemon_has_read_and_not_written_down_is_read_by_the_next_one() {
        let (ours, theirs) = socket::pair().unwrap();
        let online = |channel: &mut Channel| channel.read().messages.len();
        socket::send(theirs.as_fd(), b"{\"cmd\":\"NODE_CLUSTER\",\"act\":\"online\"}\n", None).unwrap();
        let mut killed = kept(&ours);
        assert_eq!((online(&mut killed), online(&mut killed)), (1, 0));
        // Nothing of it is dropped.
        std::mem::forget(killed);
        let mut next = kept(&ours);
        assert_eq!(online(&mut next), 1);
        next.take_read();
        std::mem::forget(next);
        assert_eq!(online(&mut kept(&ours)), 0);
    }

    #[test]
    fn answers_wait_until_they_are_saved_where_another_daemon_would_read_the_query() {
        let (ours, _theirs) = socket::pair().unwrap();
        let mut channel = kept(&ours);
        channel.save_first();
        assert!(channel.saves_first());
        assert!(channel.take_read());
        assert!(!channel.saves_first() && !channel.take_read());
        let mut alone = Channel::new((ours, Hold::default()), None, false);
        alone.save_first();
        assert!(!alone.saves_first());
    }
}
