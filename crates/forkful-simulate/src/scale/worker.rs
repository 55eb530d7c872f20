//! A worker: one core, a channel that it reads, a queue from which it accepts, and requests that it answers.

use std::collections::VecDeque;
use std::time::Duration;

use forkful_dispatch::{HandleLine, ListeningId, Message, Pushed};

use super::costs;

/// A line written by the daemon.
#[derive(Debug, Clone, Copy)]
pub(super) enum Line {
    Handle(HandleLine),
    Told(Message),
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) slot: u16,
    /// Its own socket of the address, if it has one.
    pub(super) member: Option<usize>,
    pub(super) lines: VecDeque<Line>,
    /// Queued lines of the daemon for the channel.
    pub(super) unsent: VecDeque<Message>,
    pub(super) requests: VecDeque<u32>,
    pub(super) runs: bool,
    pub(super) busy: Duration,
    /// Open connections, the new ones among them since the last count, and the number to give up.
    pub(super) kept: Vec<u32>,
    pub(super) fresh: usize,
    pub(super) drains: bool,
    /// It no longer accepts from its queue.
    pub(super) is_closed: bool,
}

impl Worker {
    pub(super) fn new(slot: u16) -> Self {
        Self {
            slot,
            member: None,
            lines: VecDeque::new(),
            unsent: VecDeque::new(),
            requests: VecDeque::new(),
            runs: false,
            busy: Duration::ZERO,
            kept: Vec::new(),
            fresh: 0,
            drains: false,
            is_closed: false,
        }
    }

    pub(super) fn keeps(&mut self, connection: u32) {
        self.kept.push(connection);
        self.fresh += 1;
    }
}

/// The results of a turn of a worker's event loop, with their times.
#[derive(Debug, Clone, Copy)]
pub(super) enum Done {
    ProbeAnswered,
    Took(Pushed),
    Accepted(u32),
    Answered(u32),
    Counted { staying: u32 },
    Moves(u32),
    Drains,
    Ends,
}

/// The cost of reading a line, and its result.
pub(super) fn read(worker: &mut Worker, line: Line) -> (Duration, Option<Done>) {
    match line {
        Line::Handle(HandleLine::Probe) => (costs::ANSWER_PROBE, Some(Done::ProbeAnswered)),
        Line::Handle(HandleLine::Connection(pushed)) => (costs::TAKE_HANDED_OVER, Some(Done::Took(pushed))),
        Line::Handle(HandleLine::Reply(_)) => (costs::ANSWER_PROBE, None),
        Line::Told(Message::Count) => {
            let staying = (worker.kept.len() - worker.fresh) as u32;
            worker.fresh = 0;
            (costs::COUNT_EACH * worker.kept.len() as u32, Some(Done::Counted { staying }))
        }
        Line::Told(Message::Move(count)) => (costs::ANSWER_PROBE, Some(Done::Moves(count))),
        Line::Told(Message::Drain { .. }) => (costs::ANSWER_PROBE, Some(Done::Drains)),
        Line::Told(Message::Disconnect { .. } | Message::Acknowledge { .. }) => {
            (costs::ANSWER_PROBE, Some(Done::Ends))
        }
        Line::Told(Message::Echo) => (Duration::ZERO, None),
    }
}

/// The address in the kernel.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) id: ListeningId,
    pub(super) queues: Vec<VecDeque<u32>>,
    pub(super) watched: Vec<forkful_dispatch::Watch>,
    pub(super) disarmed: Vec<bool>,
    pub(super) steer: forkful_dispatch::Steer,
}
