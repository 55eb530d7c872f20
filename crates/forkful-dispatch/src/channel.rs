//! One worker's channel: which handle line awaits its answer, and what may be written now. Bytes are the driver's.
//!
//! **Invariant:** at most one `NODE_HANDLE` line (handle or probe) is unanswered at any time. Node
//! keeps one received descriptor as "pending" and gives it to the next `NODE_HANDLE` line that it
//! parses, so a second one in flight could steal or overwrite the first (`docs/PROTOCOL.md`).
//! **Invariant:** no handle line follows the line at which the worker closes its channel.

use std::collections::VecDeque;

use forkful_core::Time;

use crate::id::{ConnectionId, ListeningId, ReplyId};

/// Handle lines that wait for their turn, beyond one for each address that the worker holds: one that listens and closes
/// in a loop, and does not read, would cost us a descriptor each time.
const SPARE_HANDLES_MAX: usize = 64;

/// A handle line that awaits its answer, or its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandleLine {
    /// A line without a handle, answered by `HandleNack` when the loop turns.
    Probe,
    /// A reply to `queryServer` with a listening socket.
    Reply(ReplyId),
    Connection(Pushed),
}

/// A connection on its way to a worker. The driver keeps its copy until the worker has answered: until then the
/// connection can go elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pushed {
    pub connection: ConnectionId,
    /// The kernel's name of the socket, if it has one.
    pub cookie: Option<u64>,
    /// Which address it came in by.
    pub listening: ListeningId,
    /// Whether that is a unix socket.
    pub unix: bool,
    /// The line's `seq`.
    pub seq: u64,
    /// Whether it was taken out of another worker's queue.
    pub rescued: bool,
    /// It is for this worker and no other, and dropped when that one does not take it.
    pub pinned: bool,
}

/// What the driver holds for the socket of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unsent {
    /// The rest of a line that the socket took only in part.
    pub rest: bool,
    /// Whole lines without a handle.
    pub lines: bool,
}

/// What is written next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// The rest of a line.
    Rest,
    /// A line with a handle, or a probe.
    Handle(HandleLine),
    /// The oldest line without a handle.
    Line,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrote {
    Whole,
    /// A part; the rest is the driver's [`Unsent::rest`].
    Part,
    /// Nothing: the socket is full.
    NoRoom,
    /// Nothing: this user has too many handles under way in all; time, not the socket, says when to go on.
    HandlesFull,
    /// The channel is of no more use.
    Failed,
}

/// What says whether a worker that ends has had the connection in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// Nothing is needed: there is none, or the missing answer is proof.
    None,
    /// The kernel's count of the bytes that were read from and written to the connection.
    Traffic(ConnectionId),
    /// The worker's end of the channel still holds the push.
    Unread(Pushed),
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Channel {
    stage: Stage,
    unanswered: Option<Unanswered>,
    /// Handle lines in the order of their turns.
    waiting: VecDeque<HandleLine>,
    room: Room,
    /// What was left at the end of the last [`Self::settle`].
    unsent: Unsent,
    /// Since when a line waits behind a push that may be taken back.
    held_since: Option<Time>,
    /// The system permits to take back what the worker has not read.
    recalls: bool,
    /// Since when answers may still come to what a daemon before this one has sent; until it is certain that all have
    /// come, no handle line goes out.
    settling: Option<Time>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    /// The worker has been told to disconnect. Node answers a handle line by its channel, and throws in the app when it
    /// has closed it meanwhile, so that none may follow.
    Ending,
    /// The worker does not follow the protocol, or has hung up.
    Broken,
}

/// The one handle line that is out.
#[derive(Debug, Clone, Copy)]
struct Unanswered {
    line: HandleLine,
    since: Time,
    delivery: Delivery,
    /// When, since the line was sent, the worker last had written more than was read at once. Then it may keep answers
    /// back until there is room; otherwise it writes them before it does anything with a handle.
    crowded: Option<Time>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delivery {
    /// The driver writes it next.
    Unwritten,
    /// A push that is unread as far as we know, with nothing sent behind it, so that it can be taken back whole.
    /// Lines wait meanwhile: the worker could not read them before it, and taken out with it they could come back in
    /// another order, or torn.
    Recallable,
    /// It stays with the worker.
    Left,
}

/// Whether the socket takes what is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Clear,
    /// Something waits for room in the socket, and none came since.
    Full(Time),
    /// Handles wait for a time at which fewer are under way.
    HandlesFull(Time),
}

impl Room {
    fn since(self) -> Option<Time> {
        match self {
            Self::Clear => None,
            Self::Full(since) | Self::HandlesFull(since) => Some(since),
        }
    }

    /// There was no room, and now there is: the worker reads, however much still waits.
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

/// What the driver calls to write.
impl Channel {
    /// Writing begins, or goes on.
    pub fn begin_write(&mut self) {
        if let Room::HandlesFull(since) = self.room {
            self.room = Room::Full(since);
        }
    }

    /// What may be written now. Handle lines go before other lines, which may never end.
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

    /// Takes the outcome of a [`Write`]; whether to go on.
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

    /// Writing ends, with so much left; `all` says that [`Self::next_write`] gave nothing more.
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

    /// More came in than is read at once.
    pub fn crowd(&mut self, now: Time) {
        if let Some(unanswered) = &mut self.unanswered {
            unanswered.crowded = Some(now);
        }
    }

    /// The worker does not follow the protocol.
    pub fn break_off(&mut self) {
        self.stage = Stage::Broken;
    }

    /// Whether the channel is of no more use.
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

    /// A line that could not be written waits for another try, before all others.
    fn put_off(&mut self) {
        if let Some(unanswered) = self.unanswered.take_if(|line| line.delivery == Delivery::Unwritten) {
            self.waiting.push_front(unanswered.line);
        }
    }
}

/// What the dispatcher asks and decides.
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

    /// Answers to lines of a daemon before this one may still come.
    pub(crate) fn settle_first(&mut self, now: Time) {
        self.settling = Some(now);
    }

    /// All of them have come; whether they were awaited.
    pub(crate) fn settled(&mut self) -> bool {
        self.settling.take().is_some()
    }

    /// Since when they are awaited.
    pub(crate) fn settling_since(&self) -> Option<Time> {
        self.settling
    }

    /// Queues a handle line; false for a worker that has been told to disconnect.
    pub(crate) fn queue(&mut self, line: HandleLine, now: Time) -> bool {
        if self.stage == Stage::Ending {
            return false;
        }
        if self.is_idle() {
            self.unanswered = Some(Unanswered::new(line, now));
        } else {
            self.waiting.push_back(line);
        }
        true
    }

    /// Queues a reply with a socket for a worker that holds so many addresses.
    pub(crate) fn queue_reply(&mut self, reply: ReplyId, holds: usize, now: Time) -> bool {
        if self.waiting.len() >= SPARE_HANDLES_MAX + holds {
            self.stage = Stage::Broken;
        }
        self.queue(HandleLine::Reply(reply), now)
    }

    /// The line at which the worker closes its channel follows: no handle line is sent any more. Gives those that waited
    /// for their turn.
    pub(crate) fn end(&mut self) -> VecDeque<HandleLine> {
        if self.stage == Stage::Open {
            self.stage = Stage::Ending;
        }
        std::mem::take(&mut self.waiting)
    }

    /// Takes out the connections that wait for their turn and can go elsewhere.
    pub(crate) fn take_waiting(&mut self) -> Vec<Pushed> {
        let may_go = |line: &HandleLine| line.connection().filter(|pushed| !pushed.pinned);
        let going = self.waiting.iter().filter_map(may_go).collect();
        self.waiting.retain(|line| may_go(line).is_none());
        going
    }

    /// Whether a probe or a connection sent now would leave at once.
    pub(crate) fn is_idle(&self) -> bool {
        self.unanswered.is_none()
            && self.waiting.is_empty()
            && self.settling.is_none()
            && self.unsent == Unsent::default()
            && self.stage == Stage::Open
    }

    /// Whether nothing is under way in it.
    pub(crate) fn rests(&self) -> bool {
        self.is_idle() && self.room == Room::Clear && self.held_since.is_none()
    }

    /// Whether an answer will come without a further probe.
    pub(crate) fn asks(&self) -> bool {
        self.unanswered.is_some() || !self.waiting.is_empty()
    }

    /// Since when an answer is awaited, or the worker has not read what was sent before.
    pub(crate) fn waiting_since(&self) -> Option<Time> {
        let unanswered = self.unanswered.as_ref().map(|line| line.since);
        unanswered.into_iter().chain(self.room.since()).chain(self.settling).min()
    }

    /// The same, but not before the worker last had sent more than was read at once: its answer may be behind that.
    pub(crate) fn silent_since(&self) -> Option<Time> {
        let crowded = self.unanswered.as_ref().and_then(|unanswered| unanswered.crowded);
        self.waiting_since().map(|since| crowded.map_or(since, |at| since.max(at)))
    }

    /// The line that awaits its answer.
    pub(crate) fn in_flight(&self) -> Option<HandleLine> {
        self.unanswered.as_ref().map(|unanswered| unanswered.line)
    }

    /// Whether a probe awaits its answer.
    pub(crate) fn is_probed(&self) -> bool {
        matches!(self.unanswered, Some(Unanswered { line: HandleLine::Probe, .. }))
    }

    /// Since when a pushed connection that can go elsewhere is unanswered.
    pub(crate) fn pushed_since(&self) -> Option<Time> {
        match &self.unanswered {
            Some(Unanswered { line: HandleLine::Connection(pushed), since, .. }) if !pushed.pinned => {
                Some(*since)
            }
            Some(_) | None => None,
        }
    }

    /// The awaited answer has come: gives back what it was about, and since when it was awaited.
    pub(crate) fn answered(&mut self) -> Option<(HandleLine, Time)> {
        self.unanswered.take().map(|unanswered| (unanswered.line, unanswered.since))
    }

    /// The pushed connection stays with the worker, which has read it or had its time; the lines behind it go.
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

    /// The push that is to be taken back, if it can be; this is tried once.
    pub(crate) fn recall(&mut self) -> Option<Pushed> {
        let HandleLine::Connection(pushed) = self.in_flight().filter(|_| self.is_recallable())? else {
            return None;
        };
        self.leave_push();
        Some(pushed)
    }

    /// The push was taken back. A probe goes in its place, so that the worker is heard of when its loop turns again.
    pub(crate) fn recalled(&mut self) -> Option<Pushed> {
        let (HandleLine::Connection(pushed), since) = self.answered()? else { return None };
        if self.stage == Stage::Open {
            self.unanswered = Some(Unanswered::new(HandleLine::Probe, since));
        }
        Some(pushed)
    }

    /// Nothing can be taken back from this worker.
    pub(crate) fn forbid_recalls(&mut self) {
        self.recalls = false;
    }

    /// Whether writing goes on by time.
    pub(crate) fn handles_full(&self) -> bool {
        matches!(self.room, Room::HandlesFull(_))
    }

    /// What says whether the worker has had the connection in flight. `is_closed`: the worker's end is closed, and will
    /// not be read any more.
    pub(crate) fn evidence(&self, is_closed: bool) -> Evidence {
        let Some(Unanswered { line: HandleLine::Connection(pushed), crowded, .. }) = self.unanswered else {
            return Evidence::None;
        };
        match (is_closed, crowded) {
            (false, _) => Evidence::Unread(pushed),
            // Without a crowd the missing answer is proof.
            (true, None) => Evidence::None,
            (true, Some(_)) => Evidence::Traffic(pushed.connection),
        }
    }

    /// All connections that have not been answered: the one in flight, and those that waited for their turn.
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
