//! One worker's IPC channel: lines in, lines and handles out.
//!
//! **Invariant:** at most one `NODE_HANDLE` line (handle or probe) is unanswered at any time. Node
//! keeps one received descriptor as "pending" and gives it to the next `NODE_HANDLE` line that it
//! parses, so a second one in flight could steal or overwrite the first (`docs/PROTOCOL.md`).

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use forkful_core::Time;
use forkful_os::channel::{self as socket, RemoteEnd};
use forkful_os::connection;

use crate::protocol::frame::LineDecoder;
use crate::protocol::incoming::{Incoming, is_log4js, is_report, parse};
use crate::protocol::outgoing;

/// Bytes read from one worker in one turn of the loop, so that a chatty worker does not starve others: 300 of them
/// cost a few milliseconds.
const READ_BYTES_PER_TURN: usize = 32 * 1024;
/// Messages to the primary taken from one worker in one turn, and no more than one further piece brings: binding an
/// address costs about 50 µs. The app's own messages are passed over without a look.
const MESSAGES_PER_TURN: usize = 32;
/// Bytes of one read.
const PIECE_BYTES: usize = 8 * 1024;
/// Handle lines that wait for their turn, beyond one for each address that the worker holds: one that listens and closes
/// in a loop, and does not read, would cost us a descriptor each time.
const SPARE_HANDLES_MAX: usize = 64;
/// Unsent bytes for a worker that does not read; beyond, it is not following the protocol. Some thousand replies.
const UNSENT_BYTES_MAX: usize = 1 << 20;

/// Pieces that are taken out of the end of a worker that is given up: each ends with a handle, and few are unread.
const PIECES_OUT_MAX: usize = 32;

/// A handle line that awaits its answer, or its turn.
#[derive(Debug)]
pub(crate) enum HandleLine {
    /// A line without a handle, answered by `HandleNack` when the loop turns.
    Probe,
    /// A reply to `queryServer` with a listening socket.
    Reply {
        /// The line, for another try when the worker could not take the handle.
        line: Vec<u8>,
        handle: OwnedFd,
    },
    Connection(Pushed),
}

/// A connection on its way to a worker.
#[derive(Debug)]
pub(crate) struct Pushed {
    /// Our dup, kept until the worker has answered: until then the connection can go elsewhere.
    pub(crate) connection: OwnedFd,
    /// The kernel's name of the socket, when its end will be told.
    pub(crate) cookie: Option<u64>,
    /// Which listening it came in by.
    pub(crate) listening: usize,
    /// Whether that is a unix socket.
    pub(crate) unix: bool,
    /// The line's `seq`.
    pub(crate) seq: u64,
    /// Whether it was taken out of another worker's queue.
    pub(crate) rescued: bool,
    /// It is for this worker and no other, and dropped when that one does not take it.
    pub(crate) pinned: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: OwnedFd,
    decoder: LineDecoder,
    /// The rest of a line that the socket took only in part.
    partial: Vec<u8>,
    lines: VecDeque<Vec<u8>>,
    /// What `lines` holds.
    unsent_bytes: usize,
    handles: VecDeque<HandleLine>,
    in_flight: Option<(HandleLine, Time)>,
    /// Since when something waits for room in the socket, and none came.
    unsent_since: Option<Time>,
    /// This user has too many handles under way in all; time, not the socket, says when to go on.
    handles_full: bool,
    broken: bool,
    /// Since the last handle was sent, the worker has written more than was read at once. Then it may keep answers
    /// back until there is room; otherwise it writes them before it does anything with a handle.
    crowded: bool,
    /// The worker's own end, for taking back what it has not read.
    remote: Option<RemoteEnd>,
    /// The push in flight is unread as far as we know, and nothing was sent behind it, so it can be taken back whole.
    /// Lines wait meanwhile: the worker could not read them before it, and taken out with it they could come back in
    /// another order, or torn.
    recallable: bool,
    /// Since when a line waits for that.
    held_since: Option<Time>,
    /// Somebody reads what the app says to its primary.
    hears: bool,
    /// The worker has been told to disconnect. Node answers a handle line by its channel, and throws in the app when it
    /// has closed it meanwhile, so that none may follow.
    ending: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Received {
    /// Lines, understood, in order.
    pub(crate) messages: Vec<Incoming>,
    /// What the app said to its primary, as far as anybody wants to know; JSON, in order.
    pub(crate) said: Vec<Vec<u8>>,
    /// The app said something, whether or not anybody wants to know.
    pub(crate) app_spoke: bool,
    /// The worker closed its end.
    pub(crate) closed: bool,
    /// The bound of a turn was reached: more may be there.
    pub(crate) more: bool,
}

/// What becomes of a channel's other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OtherEnd {
    /// It is closed: what was not read from it never will be.
    Closed,
    /// It may still be read, by a worker that is given up.
    Open,
}

/// Connections of a channel that is of no more use.
#[derive(Debug, Default)]
pub(crate) struct Unanswered {
    /// The worker has not touched these, and never will.
    pub(crate) free: Vec<Pushed>,
    /// The worker may have had this one.
    pub(crate) lost: Option<Pushed>,
}

impl Channel {
    pub(crate) fn new(socket: OwnedFd, remote: Option<RemoteEnd>) -> Self {
        Self {
            socket,
            decoder: LineDecoder::default(),
            partial: Vec::new(),
            lines: VecDeque::new(),
            unsent_bytes: 0,
            handles: VecDeque::new(),
            in_flight: None,
            unsent_since: None,
            handles_full: false,
            broken: false,
            crowded: false,
            remote,
            recallable: false,
            held_since: None,
            hears: false,
            ending: false,
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads what is there, within the bound of a turn.
    pub(crate) fn read(&mut self) -> Received {
        let mut received = Received::default();
        let mut chunk = [0_u8; PIECE_BYTES];
        let mut handles = Vec::new();
        let mut left = READ_BYTES_PER_TURN;
        loop {
            if left == 0 || received.messages.len() >= MESSAGES_PER_TURN {
                received.more = true;
                self.crowded = true;
                break;
            }
            match socket::receive(self.socket.as_fd(), &mut chunk, &mut handles) {
                Ok(0) => {
                    received.closed = true;
                    break;
                }
                Ok(n) => {
                    // A message with handles ends a read early; what is behind it may be there already.
                    let all = n < chunk.len() && handles.is_empty();
                    // A worker's own handles have no receiver here: closed, and acknowledged by their line.
                    handles.clear();
                    left = left.saturating_sub(n);
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
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    received.closed = true;
                    break;
                }
            }
        }
        received
    }

    /// Queues a line and sends what can be sent.
    pub(crate) fn send(&mut self, line: Vec<u8>, now: Time) {
        self.unsent_bytes += line.len();
        if self.unsent_bytes > UNSENT_BYTES_MAX {
            self.broken = true;
        } else if !self.broken {
            self.lines.push_back(line);
            self.flush(now);
        }
    }

    /// Queues the line at which the worker closes its channel: no handle line is sent any more. Gives the connections
    /// that waited for their turn.
    pub(crate) fn send_last(&mut self, line: Vec<u8>, now: Time) -> Vec<Pushed> {
        self.ending = true;
        let waiting = std::mem::take(&mut self.handles);
        self.send(line, now);
        waiting.into_iter().filter_map(HandleLine::into_connection).collect()
    }

    /// Says whether what the app says to its primary is wanted. Metrics and answers to actions always are.
    pub(crate) fn hear(&mut self, hears: bool) {
        self.hears = hears;
    }

    /// Queues a message for the app, unless too much waits already: one that does not read its messages keeps
    /// its channel for the protocol.
    pub(crate) fn send_message(&mut self, line: Vec<u8>, now: Time) -> bool {
        let fits = !self.broken && self.unsent_bytes + line.len() <= UNSENT_BYTES_MAX / 2;
        if fits {
            self.send(line, now);
        }
        fits
    }

    /// Queues a reply with a socket for a worker that holds so many addresses.
    pub(crate) fn send_reply(&mut self, line: Vec<u8>, handle: OwnedFd, holds: usize, now: Time) {
        self.broken |= self.handles.len() >= SPARE_HANDLES_MAX + holds;
        self.send_handle(HandleLine::Reply { line, handle }, now);
    }

    /// Queues a handle line and sends what can be sent; nothing for a worker that has been told to disconnect.
    pub(crate) fn send_handle(&mut self, line: HandleLine, now: Time) {
        if !self.ending {
            self.handles.push_back(line);
            self.flush(now);
        }
    }

    /// Whether a probe or a connection sent now would leave at once.
    pub(crate) fn idle(&self) -> bool {
        self.in_flight.is_none()
            && self.handles.is_empty()
            && self.lines.is_empty()
            && self.partial.is_empty()
            && !self.broken
            && !self.ending
    }

    /// Whether an answer will come without a further probe.
    pub(crate) fn asks(&self) -> bool {
        self.in_flight.is_some() || !self.handles.is_empty()
    }

    /// Since when an answer is awaited, or the worker has not read what was sent before.
    pub(crate) fn waiting_since(&self) -> Option<Time> {
        self.in_flight.as_ref().map(|(_, since)| *since).into_iter().chain(self.unsent_since).min()
    }

    /// Since when an answer is awaited.
    pub(crate) fn answer_since(&self) -> Option<Time> {
        self.in_flight.as_ref().map(|(_, since)| *since)
    }

    pub(crate) fn in_flight(&self) -> Option<&HandleLine> {
        self.in_flight.as_ref().map(|(line, _)| line)
    }

    /// The awaited answer has come: gives back what it was about. [`Self::flush`] then sends what waited for it.
    pub(crate) fn answered(&mut self) -> Option<(HandleLine, Time)> {
        self.recallable = false;
        self.in_flight.take()
    }

    /// The pushed connection stays with the worker, which has read it or had its time; the lines behind it go.
    pub(crate) fn leave_push(&mut self, now: Time) {
        self.recallable = false;
        self.flush(now);
    }

    /// Since when a line waits because a push may be taken back.
    pub(crate) fn held_since(&self) -> Option<Time> {
        self.held_since
    }

    /// Takes back a pushed connection that the worker has not read, and sends a probe in its place, so
    /// that the worker is heard of when its loop turns again. What was unread before it is sent anew, first.
    pub(crate) fn recall(&mut self, now: Time) -> Option<Pushed> {
        let (HandleLine::Connection(pushed), since) = self.in_flight.as_ref()? else { return None };
        let (ours, since) = (pushed.line(), *since);
        if !std::mem::take(&mut self.recallable) {
            return None;
        }
        let mut handles = Vec::new();
        let mut unread = match self.remote.as_ref()?.take_back(&mut handles) {
            Ok(unread) => unread,
            Err(error) => {
                if error.kind() != io::ErrorKind::WouldBlock {
                    // Not permitted, or not a channel any more: no use to ask again.
                    self.remote = None;
                }
                self.flush(now);
                return None;
            }
        };
        // Nothing was sent behind the push, so it is the last of what is there. It may begin with the rest of a line.
        let found = unread.ends_with(&ours);
        if found {
            unread.truncate(unread.len() - ours.len());
        }
        self.partial = unread;
        if !found {
            // The worker has read the beginning of the push this very moment.
            self.flush(now);
            return None;
        }
        let (line, _) = self.in_flight.take()?;
        if !self.ending {
            self.handles.push_front(HandleLine::Probe);
        }
        self.flush(now);
        if let Some((HandleLine::Probe, sent)) = &mut self.in_flight {
            *sent = since;
        }
        line.into_connection()
    }

    /// Whether lines wait for the socket to become writable.
    pub(crate) fn wants_write(&self) -> bool {
        !self.broken
            && !self.handles_full
            && (!self.partial.is_empty()
                || (!self.lines.is_empty() && !self.recallable)
                || (self.in_flight.is_none() && !self.handles.is_empty()))
    }

    /// Whether sending goes on by time.
    pub(crate) fn handles_full(&self) -> bool {
        self.handles_full
    }

    /// Whether the worker stopped reading its channel for good.
    pub(crate) fn broken(&self) -> bool {
        self.broken
    }

    /// Everything that has not been answered; the channel is of no more use. A connection is served at most once:
    /// it is free only if the worker provably had nothing of it.
    pub(crate) fn into_unanswered(mut self, other_end: OtherEnd) -> Unanswered {
        let mut unanswered = Unanswered::default();
        if let Some(pushed) = self.in_flight.take().and_then(|(line, _)| line.into_connection()) {
            let is_free = match other_end {
                // Without a crowd the missing answer is proof; with one, the kernel's count of bytes.
                OtherEnd::Closed => {
                    !self.crowded || connection::is_untouched(pushed.connection.as_fd()).unwrap_or(false)
                }
                OtherEnd::Open => self.takes_out(&pushed.line()),
            };
            if is_free {
                unanswered.free.push(pushed);
            } else {
                unanswered.lost = Some(pushed);
            }
        }
        unanswered.free.extend(self.handles.into_iter().filter_map(HandleLine::into_connection));
        unanswered
    }

    /// Empties the worker's end of what it has not read; whether a line was among that.
    fn takes_out(&self, line: &[u8]) -> bool {
        let Some(remote) = &self.remote else { return false };
        let (mut unread, mut handles) = (Vec::new(), Vec::new());
        for _ in 0..PIECES_OUT_MAX {
            let Ok(mut piece) = remote.take_back(&mut handles) else { break };
            unread.append(&mut piece);
            handles.clear();
        }
        unread.split_inclusive(|byte| *byte == b'\n').any(|found| found == line)
    }

    /// Sends as much as the socket takes.
    pub(crate) fn flush(&mut self, now: Time) {
        self.handles_full = false;
        while !self.broken {
            let sent = if !self.partial.is_empty() {
                self.send_partial(now)
            } else if self.in_flight.is_none() && !self.handles.is_empty() && !self.handles_full {
                // Before lines, which may never end.
                self.send_next_handle(now)
            } else if let Some(line) = self.next_line() {
                self.unsent_bytes = self.unsent_bytes.saturating_sub(line.len());
                self.partial = line;
                self.send_partial(now)
            } else {
                if !self.handles_full {
                    self.unsent_since = None;
                }
                self.held_since =
                    if self.lines.is_empty() { None } else { Some(self.held_since.unwrap_or(now)) };
                return;
            };
            match sent {
                Ok(()) => {}
                Err(error) if is_temporary(&error) => {
                    self.unsent_since.get_or_insert(now);
                    if error.raw_os_error() != Some(ETOOMANYREFS) {
                        return;
                    }
                    self.handles_full = true;
                }
                Err(_) => self.broken = true,
            }
        }
    }

    /// The next line that may go now.
    fn next_line(&mut self) -> Option<Vec<u8>> {
        if self.recallable { None } else { self.lines.pop_front() }
    }

    fn send_partial(&mut self, now: Time) -> io::Result<()> {
        let n = socket::send(self.socket.as_fd(), &self.partial, None)?;
        self.partial.drain(..n);
        // There was no room, and now there is: the worker reads, however much still waits.
        self.unsent_since = self.unsent_since.map(|_| now);
        Ok(())
    }

    fn send_next_handle(&mut self, now: Time) -> io::Result<()> {
        let Some(next) = self.handles.front() else { return Ok(()) };
        let connection_line;
        let (bytes, handle): (&[u8], Option<BorrowedFd<'_>>) = match next {
            HandleLine::Probe => (outgoing::probe(), None),
            HandleLine::Reply { line, handle } => (line, Some(handle.as_fd())),
            HandleLine::Connection(pushed) => {
                connection_line = pushed.line();
                (&connection_line, Some(pushed.connection.as_fd()))
            }
        };
        let n = socket::send(self.socket.as_fd(), bytes, handle)?;
        self.partial = bytes[n..].to_vec();
        if let Some(line) = self.handles.pop_front() {
            let returns = matches!(&line, HandleLine::Connection(pushed) if !pushed.pinned);
            self.recallable = returns && self.partial.is_empty() && self.remote.is_some();
            self.crowded = false;
            self.in_flight = Some((line, now));
        }
        Ok(())
    }
}

impl HandleLine {
    fn into_connection(self) -> Option<Pushed> {
        match self {
            Self::Connection(pushed) => Some(pushed),
            Self::Probe | Self::Reply { .. } => None,
        }
    }
}

impl Pushed {
    fn line(&self) -> Vec<u8> {
        outgoing::new_connection(&worker_key(self.listening), self.seq, self.unix)
    }
}

/// The key under which a worker knows a listening. Opaque to the worker; Node only asks that it is
/// not live twice in one worker, which [`crate::primary`] sees to.
pub(crate) fn worker_key(listening: usize) -> String {
    format!("forkful:{listening}")
}

/// Which listening a worker means by a key.
pub(crate) fn listening_of(key: &str) -> Option<usize> {
    key.strip_prefix("forkful:")?.parse().ok()
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
        || error.raw_os_error() == Some(ETOOMANYREFS)
}

/// `ETOOMANYREFS` on Linux.
const ETOOMANYREFS: i32 = 109;
