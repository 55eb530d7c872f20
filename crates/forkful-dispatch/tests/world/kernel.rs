//! The kernel and the workers as the dispatcher sees them: socket queues, pipes, event loops.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use forkful_dispatch::{HandleLine, ListeningId, Message, Pushed, ReplyId, Steer, Watch};

/// Capacity of a pipe in items.
const PIPE_MAX: usize = 6;

/// The state of a client's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It waits in a queue of the kernel, in the daemon, or in a pipe.
    Waits,
    ServedBy(u32),
    /// A worker that ended may have served it: no other worker does.
    Lost,
    /// Its address was given up. A leaving worker may still serve it.
    GivenUp,
}

/// A line in a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item {
    Handle(HandleLine),
    /// A reply without a handle.
    Pushes(ListeningId),
    Told(Message),
    /// A message for the app, with its sequence number.
    Chatter(u64),
}

impl Item {
    /// Whether the worker closes its channel when it reads this.
    pub(crate) fn is_last(self) -> bool {
        matches!(self, Self::Told(Message::Disconnect { .. } | Message::Acknowledge { .. }))
    }
}

/// What a worker does with handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Serves,
    Refuses,
    LosesHandles,
}

/// A worker's process, and the driver's end of its channel.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) manner: Manner,
    /// Lines that were written but not read.
    pub(crate) pipe: VecDeque<Item>,
    /// The last item of the pipe is incomplete.
    pub(crate) torn: bool,
    /// Taken back with a push, to be written again before all others.
    pub(crate) again: VecDeque<Item>,
    /// Lines of the driver that wait for room.
    pub(crate) lines: VecDeque<Item>,
    pub(crate) replies: BTreeMap<ReplyId, (ListeningId, usize)>,
    /// Handle lines that were written but not answered.
    pub(crate) unanswered: usize,
    /// Probes that were written.
    pub(crate) probes: usize,
    /// The line at which the worker closes its channel was written.
    pub(crate) ending: bool,
    /// The app's servers, each with the socket from which it accepts, if any.
    pub(crate) servers: BTreeMap<ListeningId, Option<usize>>,
    /// The next sequence number sent to the app, and the next it expects.
    pub(crate) chatter: (u64, u64),
}

impl Process {
    pub(crate) fn new() -> Self {
        Self {
            manner: Manner::Serves,
            pipe: VecDeque::new(),
            torn: false,
            again: VecDeque::new(),
            lines: VecDeque::new(),
            replies: BTreeMap::new(),
            unanswered: 0,
            probes: 0,
            ending: false,
            servers: BTreeMap::new(),
            chatter: (0, 0),
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.pipe.len() + self.again.len() < PIPE_MAX
    }

    /// Writes a line to the pipe, and checks the channel's invariants.
    pub(crate) fn write(&mut self, item: Item) {
        assert!(!self.torn && self.again.is_empty(), "nothing goes between two parts of a line");
        if let Item::Handle(line) = item {
            assert!(!self.ending, "no handle line follows the line at which a worker disconnects: {line:?}");
            self.unanswered += 1;
            self.probes += usize::from(line == HandleLine::Probe);
            assert_eq!(self.unanswered, 1, "at most one handle line is unanswered");
        }
        self.ending |= item.is_last();
        self.pipe.push_back(item);
    }

    /// The next complete line.
    pub(crate) fn read(&mut self) -> Option<Item> {
        if self.torn && self.pipe.len() == 1 {
            return None;
        }
        self.pipe.pop_front()
    }

    /// Takes out the unread data, if it ends with a push.
    pub(crate) fn take_back(&mut self, pushed: Pushed) -> bool {
        let found = self.pipe.back() == Some(&Item::Handle(HandleLine::Connection(pushed)));
        if found {
            self.pipe.pop_back();
            self.unanswered -= 1;
        }
        self.again.append(&mut self.pipe);
        found
    }
}

/// The sockets of one address.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) group: bool,
    /// Clients in the queue of each socket.
    pub(crate) queues: Vec<VecDeque<u32>>,
    pub(crate) watched: Vec<Watch>,
    /// One-shot watches that have fired.
    pub(crate) disarmed: BTreeSet<usize>,
    steer: Steer,
    turn: usize,
}

impl Address {
    pub(crate) fn new(group: bool) -> Self {
        Self {
            group,
            queues: vec![VecDeque::new()],
            watched: vec![Watch::Not],
            disarmed: BTreeSet::new(),
            steer: Steer::Daemon,
            turn: 0,
        }
    }

    pub(crate) fn add_member(&mut self) -> usize {
        self.queues.push(VecDeque::new());
        self.watched.push(Watch::Not);
        self.queues.len() - 1
    }

    pub(crate) fn watch(&mut self, member: usize, watch: Watch) {
        self.watched[member] = watch;
        self.disarmed.remove(&member);
    }

    pub(crate) fn steer(&mut self, steer: Steer) {
        assert!(self.group, "one socket for all is not steered");
        if let Steer::RoundRobin(members) | Steer::BySource(members) = &steer {
            assert!(!members.is_empty(), "the kernel gives connections to somebody");
        }
        self.steer = steer;
    }

    /// A client connects: the kernel chooses a queue.
    pub(crate) fn connect(&mut self, client: u32) {
        let member = match &self.steer {
            Steer::Daemon => 0,
            Steer::RoundRobin(members) => {
                self.turn += 1;
                members[self.turn % members.len()]
            }
            Steer::BySource(members) => members[client as usize % members.len()],
        };
        self.queues[usize::from(member)].push_back(client);
    }

    /// A socket that the reactor would report now.
    pub(crate) fn ready(&self) -> Option<usize> {
        (0..self.queues.len()).find(|member| {
            !self.queues[*member].is_empty()
                && match self.watched[*member] {
                    Watch::Not => false,
                    Watch::Once => !self.disarmed.contains(member),
                    Watch::Always => true,
                }
        })
    }
}
