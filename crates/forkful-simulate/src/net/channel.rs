//! One worker's channel: lines of the daemon, and messages of the worker.

use std::collections::{BTreeMap, VecDeque};

use forkful_dispatch::{HandleLine, ListeningId, Message, Pushed, ReplyId, Unsent};

use super::Port;

/// Capacity for lines towards the worker.
const ROOM: usize = 6;
/// Capacity for lines towards the daemon; further lines stay in the worker's memory.
const ROOM_BACK: usize = 12;

/// A line for a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item {
    Handle(HandleLine),
    /// The reply to a query: connections will be pushed.
    Pushes(ListeningId, Port),
    /// The reply to a query: listening failed.
    Refused(Port),
    Told(Message),
    /// A message for the app.
    Chatter,
}

impl Item {
    /// Whether the worker closes its channel when it reads this.
    fn is_last(self) -> bool {
        matches!(self, Self::Told(Message::Disconnect { .. } | Message::Acknowledge { .. }))
    }
}

/// A line from a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    Hello,
    Query(Port),
    Listening(Port),
    Ready,
    Closed(ListeningId),
    Leaves,
    HandleTaken,
    HandleMissed,
    Answered {
        seq: u64,
        accepted: bool,
    },
    Counted(u32),
    /// It received a [`Message::Echo`].
    Echoed,
    Drained {
        stops: bool,
    },
    /// The number of requests it has served.
    Served(u64),
    Chatter,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    /// Lines that were written but not read.
    pipe: VecDeque<Item>,
    /// The last line of the pipe is incomplete.
    pub(super) torn: bool,
    /// Taken back with a push, to be written again before all others.
    pub(super) again: VecDeque<Item>,
    /// Lines of the daemon that wait for room.
    pub(super) lines: VecDeque<Item>,
    /// Sockets in transit to the worker.
    pub(super) replies: BTreeMap<ReplyId, (ListeningId, usize, Port)>,
    /// Handle lines that were written but not answered.
    unanswered: usize,
    /// The line at which the worker closes its channel was written.
    is_ending: bool,
    /// Messages of the worker that the daemon has not read.
    pub(super) said: VecDeque<Said>,
    /// Messages of the worker that wait for room.
    kept: VecDeque<Said>,
}

/// The daemon's end.
impl Channel {
    pub(super) fn has_room(&self) -> bool {
        self.pipe.len() + self.again.len() < ROOM
    }

    pub(super) fn unsent(&self) -> Unsent {
        Unsent { rest: self.torn || !self.again.is_empty(), lines: !self.lines.is_empty() }
    }

    /// Writes a line to the channel; returns a violated rule, if any.
    pub(super) fn write(&mut self, item: Item, tears: bool) -> Result<(), String> {
        let mut fault = Ok(());
        if self.torn || !self.again.is_empty() {
            fault = Err(format!("{item:?} is written into the middle of another line"));
        }
        if let Item::Handle(line) = item {
            self.unanswered += 1;
            if self.is_ending {
                fault = Err(format!("{line:?} follows the line at which the worker disconnects"));
            } else if self.unanswered > 1 {
                fault = Err(format!("{line:?} is sent while another handle line is not answered"));
            }
        }
        self.is_ending |= item.is_last();
        self.pipe.push_back(item);
        self.torn = tears;
        fault
    }

    /// Writes the rest of a line, or what was taken back.
    pub(super) fn write_rest(&mut self) {
        self.torn = false;
        self.pipe.append(&mut self.again);
    }

    /// Takes out the unread data, if it ends with a push. `forgets`, a planted fault: the push stays
    /// nevertheless.
    pub(super) fn take_back(&mut self, pushed: Pushed, forgets: bool) -> bool {
        let found = self.pipe.back() == Some(&Item::Handle(HandleLine::Connection(pushed)));
        if found && forgets {
            self.unanswered -= 1;
            return true;
        }
        if found {
            self.pipe.pop_back();
            self.unanswered -= 1;
        }
        self.again.append(&mut self.pipe);
        found
    }

    /// Takes out all unread data. Returns whether it contained the push.
    pub(super) fn take_out(&mut self, pushed: Pushed) -> bool {
        let found = self.pipe.contains(&Item::Handle(HandleLine::Connection(pushed)));
        self.pipe.clear();
        found
    }

    /// Whether this connection is in transit in it.
    pub(super) fn holds(&self, number: u32) -> bool {
        let is_it = |item: &Item| matches!(item, Item::Handle(HandleLine::Connection(pushed)) if pushed.connection.0 == number);
        self.pipe.iter().any(is_it)
    }

    /// Reads some lines of the worker. Returns whether there are more.
    pub(super) fn hear(&mut self, most: usize) -> (Vec<Said>, bool) {
        let count = most.min(self.said.len());
        (self.said.drain(..count).collect(), count == most)
    }
}

/// The worker's end.
impl Channel {
    /// Whether there is a complete line to read.
    pub(super) fn is_readable(&self) -> bool {
        self.pipe.len() > usize::from(self.torn)
    }

    pub(super) fn read(&mut self) -> Option<Item> {
        if !self.is_readable() {
            return None;
        }
        let item = self.pipe.pop_front();
        if matches!(item, Some(Item::Handle(_))) {
            self.unanswered = self.unanswered.saturating_sub(1);
        }
        item
    }

    pub(super) fn say(&mut self, said: Said) {
        self.kept.push_back(said);
        self.say_kept();
    }

    /// Whether it has a message for which there is room.
    pub(super) fn has_more_to_say(&self) -> bool {
        !self.kept.is_empty() && self.said.len() < ROOM_BACK
    }

    /// Writes messages that waited for room. Returns whether some still wait.
    pub(super) fn say_kept(&mut self) -> bool {
        while self.said.len() < ROOM_BACK
            && let Some(said) = self.kept.pop_front()
        {
            self.said.push_back(said);
        }
        !self.kept.is_empty()
    }
}
