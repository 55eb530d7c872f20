//! The state of one worker's channel: which handle line awaits its reply, and what may be written now. The
//! driver handles the bytes.
//!
//! **Invariant:** at most one `NODE_HANDLE` line (handle or probe) is unanswered at any time. Node keeps one
//! received descriptor as "pending" and assigns it to the next `NODE_HANDLE` line that it parses, so a second
//! one in flight could take or overwrite the first (`docs/PROTOCOL.md`).
//! **Invariant:** no handle line follows the line at which the worker closes its channel.

use std::collections::VecDeque;

use forkful_core::Time;

use crate::id::{ConnectionId, ListeningId, ReplyId};

/// Queued handle lines beyond one for each address that the worker holds. Without a limit, a worker that
/// listens and closes in a loop without reading would cost a descriptor each time.
const SPARE_HANDLES_MAX: usize = 64;

/// A handle line that awaits its reply, or its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandleLine {
    /// A line without a handle; `HandleNack` is the reply when the event loop is responsive.
    Probe,
    /// A reply to `queryServer` with a listening socket, or a line to the agent with a stream.
    Reply(ReplyId),
    Connection(Pushed),
}

/// A connection on its way to a worker. The driver keeps its copy until the worker has acknowledged it; until
/// then the connection can go to another worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pushed {
    pub connection: ConnectionId,
    /// The kernel's cookie of the socket, if it has one.
    pub cookie: Option<u64>,
    /// The address through which it was accepted.
    pub listening: ListeningId,
    /// Whether that address is a unix socket.
    pub unix: bool,
    /// The line's `seq`.
    pub seq: u64,
    /// Whether it was taken from another worker's queue.
    pub rescued: bool,
    /// It is for exactly this worker, and is dropped if that worker does not accept it.
    pub pinned: bool,
}

/// The driver's buffered output for a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unsent {
    /// The rest of a partly written line.
    pub rest: bool,
    /// Complete lines without a handle.
    pub lines: bool,
}

/// The next write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// The rest of a line.
    Rest,
    /// A line with a handle, or a probe.
    Handle(HandleLine),
    /// The oldest line without a handle.
    Line,
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrote {
    Whole,
    /// A part was written; the driver keeps the rest as [`Unsent::rest`].
    Part,
    /// Nothing was written: the socket is full.
    NoRoom,
    /// Nothing was written: this user has too many handles in flight. Writing continues after a pause, not
    /// when the socket becomes writable.
    HandlesFull,
    /// The channel can no longer be used.
    Failed,
}

/// How to find out whether an ending worker has had the connection in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// Nothing is needed: there is no connection in flight, or the missing reply is proof.
    None,
    /// The kernel's count of bytes read from and written to the connection.
    Traffic(ConnectionId),
    /// Whether the worker's end of the channel still contains the push.
    Unread(Pushed),
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Channel {
    stage: Stage,
    unanswered: Option<Unanswered>,
    /// Queued handle lines, in order.
    waiting: VecDeque<HandleLine>,
    room: Room,
    /// The output that was left after the last [`Self::settle`].
    unsent: Unsent,
    /// Since when a line waits behind a push that may be taken back.
    held_since: Option<Time>,
    /// The system permits taking back what the worker has not read.
    recalls: bool,
    /// Since when replies to lines of the previous daemon may still arrive. Until all have arrived, no handle
    /// line is sent.
    settling: Option<Time>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    /// The worker was told to disconnect. Node replies to a handle line through its channel, and throws an
    /// exception in the app if the channel is closed by then; so no handle line may follow.
    Ending,
    /// The worker has closed the channel and lives on.
    Muted,
    /// The worker violated the protocol, or has hung up.
    Broken,
}

/// The one handle line in flight.
#[derive(Debug, Clone, Copy)]
struct Unanswered {
    line: HandleLine,
    since: Time,
    delivery: Delivery,
    /// The last time, since the line was sent, that the worker had written more than one read accepts. Then
    /// the worker may be unable to write replies until there is room; otherwise it writes them before it uses
    /// the handle.
    crowded: Option<Time>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delivery {
    /// The driver writes it next.
    Unwritten,
    /// An unread push, as far as known, with nothing sent after it, so that it can be taken back in full.
    /// Other lines wait meanwhile: the worker could not read them earlier anyway, and if they were taken out
    /// together with the push they could be reordered or torn.
    Recallable,
    /// It stays with the worker.
    Left,
}

/// Whether the socket accepts output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Clear,
    /// Output waits for room in the socket; full since this time.
    Full(Time),
    /// Handles wait until fewer are in flight.
    HandlesFull(Time),
}

impl Room {
    fn since(self) -> Option<Time> {
        match self {
            Self::Clear => None,
            Self::Full(since) | Self::HandlesFull(since) => Some(since),
        }
    }

    /// There is room again: the worker reads, however much is still queued.
    fn progress(&mut self, now: Time) {
        match self {
            Self::Clear => {}
            Self::Full(since) | Self::HandlesFull(since) => *since = now,
        }
    }
}

impl Unanswered {
    fn new(line: HandleLine, since: Time) -> Self {
        Self { line, since, delivery: Delivery::Unwritten, crowded: None }
    }
}

/// Called by the driver to write.
impl Channel {
    /// Writing starts or continues.
    pub fn begin_write(&mut self) {
        if let Room::HandlesFull(since) = self.room {
            self.room = Room::Full(since);
        }
    }

    /// What may be written now. Handle lines precede other lines, of which there may always be more.
    pub fn next_write(&mut self, unsent: Unsent, now: Time) -> Option<Write> {
        if self.stage == Stage::Broken {
            return None;
        }
        if unsent.rest {
            return Some(Write::Rest);
        }
        if !self.handles_full() && self.settling.is_none() {
            if self.unanswered.is_none() {
                self.unanswered = self.waiting.pop_front().map(|line| Unanswered::new(line, now));
            }
            if let Some(Unanswered { line, delivery: Delivery::Unwritten, .. }) = self.unanswered {
                return Some(Write::Handle(line));
            }
        }
        (unsent.lines && !self.is_recallable()).then_some(Write::Line)
    }

    /// Records the result of a [`Write`]; returns whether to continue.
    pub fn wrote(&mut self, write: Write, wrote: Wrote, now: Time) -> bool {
        let since = self.room.since().unwrap_or(now);
        match wrote {
            Wrote::Whole | Wrote::Part => match write {
                Write::Handle(line) => self.delivered(line, wrote == Wrote::Whole),
                Write::Rest | Write::Line => self.room.progress(now),
            },
            Wrote::NoRoom => {
                self.put_off();
                if !self.handles_full() {
                    self.room = Room::Full(since);
                }
            }
            Wrote::HandlesFull => {
                self.put_off();
                self.room = Room::HandlesFull(since);
            }
            Wrote::Failed => {
                self.put_off();
                self.stage = Stage::Broken;
            }
        }
        !matches!(wrote, Wrote::NoRoom | Wrote::Failed)
    }

    /// Ends writing, with this much left; `all`: [`Self::next_write`] returned nothing more.
    pub fn settle(&mut self, unsent: Unsent, all: bool, now: Time) {
        self.unsent = unsent;
        if all && self.stage != Stage::Broken {
            if !self.handles_full() {
                self.room = Room::Clear;
            }
            self.held_since = unsent.lines.then(|| self.held_since.unwrap_or(now));
        }
    }

    /// Whether lines wait for the socket to become writable.
    pub fn wants_write(&self) -> bool {
        let Unsent { rest, lines } = self.unsent;
        let handles = self.unanswered.is_none() && self.settling.is_none() && !self.waiting.is_empty();
        self.stage != Stage::Broken
            && !self.handles_full()
            && (rest || (lines && !self.is_recallable()) || handles)
    }

    /// The worker has written more than one read accepts.
    pub fn crowd(&mut self, now: Time) {
        if let Some(unanswered) = &mut self.unanswered {
            unanswered.crowded = Some(now);
        }
    }

    /// The worker violated the protocol.
    pub fn break_off(&mut self) {
        self.stage = Stage::Broken;
    }

    /// Whether the channel can no longer be used.
    pub fn is_broken(&self) -> bool {
        self.stage == Stage::Broken
    }

    fn delivered(&mut self, line: HandleLine, whole: bool) {
        let returns = matches!(line, HandleLine::Connection(pushed) if !pushed.pinned);
        if let Some(unanswered) = &mut self.unanswered {
            let recallable = returns && whole && self.recalls;
            unanswered.delivery = if recallable { Delivery::Recallable } else { Delivery::Left };
        }
    }

    /// Puts a line that could not be written at the head of the queue.
    fn put_off(&mut self) {
        if let Some(unanswered) = self.unanswered.take_if(|line| line.delivery == Delivery::Unwritten) {
            self.waiting.push_front(unanswered.line);
        }
    }
}

/// Used by the dispatcher.
impl Channel {
    /// `recalls`: what the worker has not read can be taken back.
    pub(crate) fn new(recalls: bool) -> Self {
        Self {
            stage: Stage::Open,
            unanswered: None,
            waiting: VecDeque::new(),
            room: Room::Clear,
            unsent: Unsent::default(),
            held_since: None,
            recalls,
            settling: None,
        }
    }

    /// Replies to lines of the previous daemon may still arrive.
    pub(crate) fn settle_first(&mut self, now: Time) {
        self.settling = Some(now);
    }

    /// All of them have arrived; returns whether they were awaited.
    pub(crate) fn settled(&mut self) -> bool {
        self.settling.take().is_some()
    }

    /// Since when they are awaited.
    pub(crate) fn settling_since(&self) -> Option<Time> {
        self.settling
    }

    /// Queues a handle line; returns false for a worker that was told to disconnect.
    pub(crate) fn queue(&mut self, line: HandleLine, now: Time) -> bool {
        if matches!(self.stage, Stage::Ending | Stage::Muted) {
            return false;
        }
        if self.is_idle() {
            self.unanswered = Some(Unanswered::new(line, now));
        } else {
            self.waiting.push_back(line);
        }
        true
    }

    /// Queues a reply with a socket for a worker that holds this many addresses, and has not accepted `retried` others yet.
    pub(crate) fn queue_reply(&mut self, reply: ReplyId, retried: usize, holds: usize, now: Time) -> bool {
        if self.waiting.len() + retried >= SPARE_HANDLES_MAX + holds {
            self.stage = Stage::Broken;
        }
        self.queue(HandleLine::Reply(reply), now)
    }

    /// The line at which the worker closes its channel follows: no handle line is sent from now on. Returns
    /// the queued ones.
    pub(crate) fn end(&mut self) -> VecDeque<HandleLine> {
        if self.stage == Stage::Open {
            self.stage = Stage::Ending;
        }
        std::mem::take(&mut self.waiting)
    }

    /// Removes the queued connections that can go to another worker.
    pub(crate) fn take_waiting(&mut self) -> Vec<Pushed> {
        let may_go = |line: &HandleLine| line.connection().filter(|pushed| !pushed.pinned);
        let going = self.waiting.iter().filter_map(may_go).collect();
        self.waiting.retain(|line| may_go(line).is_none());
        going
    }

    /// Whether a probe or a connection would be sent at once.
    pub(crate) fn is_idle(&self) -> bool {
        self.unanswered.is_none()
            && self.waiting.is_empty()
            && self.settling.is_none()
            && self.unsent == Unsent::default()
            && self.stage == Stage::Open
    }

    /// Whether nothing is in flight or queued.
    pub(crate) fn rests(&self) -> bool {
        self.is_idle() && self.room == Room::Clear && self.held_since.is_none()
    }

    /// Whether a reply will arrive without another probe.
    pub(crate) fn asks(&self) -> bool {
        self.unanswered.is_some() || !self.waiting.is_empty()
    }

    /// Since when a reply is awaited, or earlier output is unread.
    pub(crate) fn waiting_since(&self) -> Option<Time> {
        let unanswered = self.unanswered.as_ref().map(|line| line.since);
        unanswered.into_iter().chain(self.room.since()).chain(self.settling).min()
    }

    /// The same, but not before the worker had last written more than one read accepts: its reply may be
    /// behind that.
    pub(crate) fn silent_since(&self) -> Option<Time> {
        let crowded = self.unanswered.as_ref().and_then(|unanswered| unanswered.crowded);
        self.waiting_since().map(|since| crowded.map_or(since, |at| since.max(at)))
    }

    /// The line that awaits its reply.
    pub(crate) fn in_flight(&self) -> Option<HandleLine> {
        self.unanswered.as_ref().map(|unanswered| unanswered.line)
    }

    /// Whether a probe awaits its reply.
    pub(crate) fn is_probed(&self) -> bool {
        matches!(self.unanswered, Some(Unanswered { line: HandleLine::Probe, .. }))
    }

    /// Since when a pushed connection that can go to another worker is unacknowledged.
    pub(crate) fn pushed_since(&self) -> Option<Time> {
        match &self.unanswered {
            Some(Unanswered { line: HandleLine::Connection(pushed), since, .. }) if !pushed.pinned => {
                Some(*since)
            }
            Some(_) | None => None,
        }
    }

    /// The awaited reply has arrived: returns its line, and since when it was awaited.
    pub(crate) fn answered(&mut self) -> Option<(HandleLine, Time)> {
        self.unanswered.take().map(|unanswered| (unanswered.line, unanswered.since))
    }

    /// The pushed connection stays with the worker, which has read it or whose time is over; the lines behind
    /// it are sent.
    pub(crate) fn leave_push(&mut self) {
        if let Some(unanswered) =
            self.unanswered.as_mut().filter(|line| line.delivery == Delivery::Recallable)
        {
            unanswered.delivery = Delivery::Left;
        }
    }

    /// Since when a line waits because a push may be taken back.
    pub(crate) fn held_since(&self) -> Option<Time> {
        self.held_since
    }

    /// The push to take back, if possible; this is tried once.
    pub(crate) fn recall(&mut self) -> Option<Pushed> {
        let HandleLine::Connection(pushed) = self.in_flight().filter(|_| self.is_recallable())? else {
            return None;
        };
        self.leave_push();
        Some(pushed)
    }

    /// The push was taken back. A probe replaces it, so that we notice when the worker's event loop is
    /// responsive again.
    pub(crate) fn recalled(&mut self) -> Option<Pushed> {
        let (HandleLine::Connection(pushed), since) = self.answered()? else { return None };
        if self.stage == Stage::Open {
            self.unanswered = Some(Unanswered::new(HandleLine::Probe, since));
        }
        Some(pushed)
    }

    /// Whether what this worker has not read can be taken back.
    pub(crate) fn recalls(&self) -> bool {
        self.recalls
    }

    /// Nothing can be taken back from this worker.
    pub(crate) fn forbid_recalls(&mut self) {
        self.recalls = false;
    }

    /// Whether writing continues after a pause.
    pub(crate) fn handles_full(&self) -> bool {
        matches!(self.room, Room::HandlesFull(_))
    }

    /// How to find out whether the worker has had the connection in flight. `is_closed`: the worker's end is
    /// closed and will not be read.
    pub(crate) fn evidence(&self, is_closed: bool) -> Evidence {
        let Some(Unanswered { line: HandleLine::Connection(pushed), crowded, .. }) = self.unanswered else {
            return Evidence::None;
        };
        match (is_closed, crowded) {
            (false, _) => Evidence::Unread(pushed),
            // If the channel was not crowded, the missing reply is proof.
            (true, None) => Evidence::None,
            (true, Some(_)) => Evidence::Traffic(pushed.connection),
        }
    }

    /// All unacknowledged connections: the one in flight, and the queued ones.
    /// The worker has closed the channel and lives on. Returns the connection in flight and those that wait, as
    /// [`Self::into_unanswered`].
    pub(crate) fn mute(&mut self) -> (Option<Pushed>, impl Iterator<Item = Pushed> + use<>) {
        let muted = Self { stage: Stage::Muted, ..Self::new(false) };
        std::mem::replace(self, muted).into_unanswered()
    }

    /// Whether the worker lives on without it.
    pub(crate) fn is_muted(&self) -> bool {
        self.stage == Stage::Muted
    }

    pub(crate) fn into_unanswered(self) -> (Option<Pushed>, impl Iterator<Item = Pushed>) {
        let in_flight = self.in_flight().and_then(HandleLine::connection);
        (in_flight, self.waiting.into_iter().filter_map(HandleLine::connection))
    }

    fn is_recallable(&self) -> bool {
        self.unanswered.as_ref().is_some_and(|line| line.delivery == Delivery::Recallable)
    }
}

impl HandleLine {
    pub(crate) fn connection(self) -> Option<Pushed> {
        match self {
            Self::Connection(pushed) => Some(pushed),
            Self::Probe | Self::Reply(_) => None,
        }
    }
}
