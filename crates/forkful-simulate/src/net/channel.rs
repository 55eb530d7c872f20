//! One worker's channel: what the daemon writes, and what the worker says.

use std::collections::{BTreeMap, VecDeque};

use forkful_dispatch::{HandleLine, ListeningId, Message, Pushed, ReplyId, Unsent};

use super::Port;

/// Lines that the channel holds towards the worker.
const ROOM: usize = 6;
/// Lines that it holds towards the daemon; what comes after them stays in the worker's memory.
const ROOM_BACK: usize = 12;

/// A line for a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item {
    Handle(HandleLine),
    /// The answer to a query: connections will be pushed.
    Pushes(ListeningId, Port),
    /// The answer to a query: it cannot listen there.
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

/// A line of a worker.
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
    /// It got an [`Message::Echo`].
    Echoed,
    Drained,
    /// How many requests it has served.
    Served(u64),
    Chatter,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    /// Lines that were written and not read.
    pipe: VecDeque<Item>,
    /// The last line of the pipe is there in part.
    pub(super) torn: bool,
    /// Taken back with a push, to be written again before all others.
    pub(super) again: VecDeque<Item>,
    /// Lines of the daemon that wait for room.
    pub(super) lines: VecDeque<Item>,
    /// Sockets on their way to the worker.
    pub(super) replies: BTreeMap<ReplyId, (ListeningId, usize, Port)>,
    /// Handle lines that were written and not answered.
    unanswered: usize,
    /// The line at which the worker closes its channel was written.
    is_ending: bool,
    /// What the worker has said and the daemon has not read.
    pub(super) said: VecDeque<Said>,
    /// What it will say when there is room.
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

    /// Puts a line into the channel; what is wrong with that, if anything.
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

    /// The rest of a line, or what was taken back, is written.
    pub(super) fn write_rest(&mut self) {
        self.torn = false;
        self.pipe.append(&mut self.again);
    }

    /// Takes out what was not read, if it ends with a push. `forgets`, a planted fault: the push stays all the same.
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

    /// Takes out all that was not read; whether a push was among it.
    pub(super) fn take_out(&mut self, pushed: Pushed) -> bool {
        let found = self.pipe.contains(&Item::Handle(HandleLine::Connection(pushed)));
        self.pipe.clear();
        found
    }

    /// Whether a connection is on its way in it.
    pub(super) fn holds(&self, number: u32) -> bool {
        let is_it = |item: &Item| matches!(item, Item::Handle(HandleLine::Connection(pushed)) if pushed.connection.0 == number);
        self.pipe.iter().any(is_it)
    }

    /// Takes a few lines of the worker; whether there are more.
    pub(super) fn hear(&mut self, most: usize) -> (Vec<Said>, bool) {
        let count = most.min(self.said.len());
        (self.said.drain(..count).collect(), count == most)
    }
}

/// The worker's end.
impl Channel {
    /// Whether there is a whole line to read.
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

    /// Whether it has something to say for which there is room.
    pub(super) fn has_more_to_say(&self) -> bool {
        !self.kept.is_empty() && self.said.len() < ROOM_BACK
    }

    /// Says what waits for room; whether something still does.
    pub(super) fn say_kept(&mut self) -> bool {
        while self.said.len() < ROOM_BACK
            && let Some(said) = self.kept.pop_front()
        {
            self.said.push_back(said);
        }
        !self.kept.is_empty()
    }
}
