//! What goes into a [`Dispatcher`](crate::Dispatcher) and what comes out.

use std::collections::VecDeque;

use forkful_core::spec::Balance;
use forkful_core::steering::evenness::Connections;

use crate::channel::Pushed;
use crate::id::{ConnectionId, ListeningId, ReplyId, WorkerId};
use crate::worker::Schedule;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event {
    /// The supervisor lets new connections go to the worker as soon as it listens.
    Open(WorkerId),
    /// No new connections for the worker; those in its queue go to others.
    CloseTraffic(WorkerId),
    /// The worker is to finish what it has and leave.
    Drain(WorkerId),
    /// The worker has been told to end.
    Stopping(WorkerId),
    /// The worker's channel is of no more use, see [`Dispatcher::evidence`](crate::Dispatcher::evidence).
    Gone {
        worker: WorkerId,
        /// The worker may have had the connection whose answer is missing.
        may_have_served: bool,
    },
    /// No worker is left and none will come.
    CloseAll,
    /// New connections are spread in another way from now on.
    Balance(Balance),
    /// The worker is to prove that its event loop turns, unless it owes an answer.
    Ask(WorkerId),
    /// A connection is for this worker and no other.
    Deliver {
        worker: WorkerId,
        listening: ListeningId,
        connection: ConnectionId,
    },

    /// The worker's agent has echoed a [`Message::Echo`]: everything that it was sent before is answered.
    Echoed(WorkerId),
    /// The worker's agent is loaded.
    Greeted(WorkerId),
    /// The worker was answered that it holds an address. `member` is its own socket in a group, `reply` the reply that
    /// carries a socket and waits for its turn in the channel.
    Held {
        worker: WorkerId,
        listening: ListeningId,
        member: Option<usize>,
        reply: Option<ReplyId>,
    },
    /// A query for this address failed.
    NotHeld(ListeningId),
    /// The worker reports that it listens.
    Listens {
        worker: WorkerId,
        listening: ListeningId,
    },
    /// The app in the worker has closed a server.
    Closed {
        worker: WorkerId,
        listening: ListeningId,
    },
    /// The worker leaves by itself, and waits for an acknowledgement of this message.
    Leaves {
        worker: WorkerId,
        ack: u64,
    },
    /// The worker's agent has nothing left to finish.
    Drained(WorkerId),
    /// The answer to a pushed connection.
    Answered {
        worker: WorkerId,
        seq: u64,
        accepted: bool,
    },
    /// A handle arrived at the worker.
    HandleTaken(WorkerId),
    /// A handle line arrived without its handle: a probe is answered, or the handle is lost.
    HandleMissed(WorkerId),
    /// The worker's agent says how many connections stay.
    Counted {
        worker: WorkerId,
        connections: Connections,
    },

    /// A socket that is watched has connections in its queue.
    MemberReady {
        listening: ListeningId,
        member: usize,
    },
    /// A connection was accepted; [`Self::AcceptEnded`] follows.
    Arrived {
        listening: ListeningId,
        connection: ConnectionId,
        cookie: Option<u64>,
        rescued: bool,
    },
    /// The result of [`Action::Accept`].
    AcceptEnded {
        listening: ListeningId,
        count: u32,
        rescued: bool,
        failed: bool,
    },
    /// The result of [`Action::TakeBack`].
    TakenBack {
        worker: WorkerId,
        outcome: TakenBack,
    },
    /// The result of [`Action::ReadQueues`], once for each socket of the address; [`Self::QueuesRead`] follows.
    Queue {
        listening: ListeningId,
        member: usize,
        length: u32,
    },
    QueuesRead(ListeningId),
    /// The result of [`Action::ReadSchedule`].
    Scheduled {
        worker: WorkerId,
        suspected: Option<ListeningId>,
        schedule: Option<Schedule>,
    },
    /// [`Action::Steer`] has failed.
    SteerFailed(ListeningId),
    /// [`Action::Watch`] has failed; the socket is watched as before.
    WatchFailed {
        listening: ListeningId,
        member: usize,
        before: Watch,
    },

    /// Time has passed: each chore in turn.
    Due(Chore),
    /// An [`Action::Later`] has come to the head of the outbox.
    Now(Later),
}

/// What is looked at when time has passed. The driver feeds all of [`Self::ALL`], and performs what each of them asks for
/// before the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chore {
    /// Pauses end: of accepting, of writing, of replies that could not be delivered.
    Resume,
    /// Addresses that nobody holds and workers that have said their last words.
    Leave,
    /// The queues of sockets that the kernel fills.
    Sample,
    /// Connections that wait, and pushes that are overdue.
    Dispatch,
    /// Whether the kernel still chooses, and whether connections are even.
    Rebalance,
}

impl Chore {
    /// All of them, in the order in which they are done.
    pub const ALL: [Self; 5] = [Self::Resume, Self::Leave, Self::Sample, Self::Dispatch, Self::Rebalance];
}

/// What the driver is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Write what the channel may write now: [`Channel::next_write`](crate::Channel::next_write) until there is nothing.
    Flush(WorkerId),
    /// Send a line to the worker.
    Tell(WorkerId, Message),
    /// Take connections out of a socket's queue, as many as [`Dispatcher::room_left`](crate::Dispatcher::room_left).
    Accept { listening: ListeningId, member: usize, rescued: bool },
    /// Close the driver's copy of a connection.
    Close(ConnectionId),
    /// Take a pushed connection out of the worker's end of the channel, if the worker has not read it.
    TakeBack { worker: WorkerId, pushed: Pushed },
    /// Forget a reply with a socket: it was delivered, or will not be.
    DropReply { worker: WorkerId, reply: ReplyId },
    /// Watch a socket for connections in its queue.
    Watch { listening: ListeningId, member: usize, watch: Watch },
    /// Tell the kernel which sockets of an address get new connections.
    Steer { listening: ListeningId, steer: Steer },
    /// Read the lengths of all queues of an address.
    ReadQueues(ListeningId),
    /// Read what the scheduler has done with a worker's process.
    ReadSchedule { worker: WorkerId, suspected: Option<ListeningId> },
    /// Close all sockets of an address. `told` says whether people are told that it was given up.
    Unbind { listening: ListeningId, told: bool },
    /// Come back with [`Event::Now`] when the actions before this one are performed.
    Later(Later),
}

/// A step that waits for the results of actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Later {
    /// Overdue pushes are taken back, then connections that wait are handed over.
    Dispatch,
    /// Connections that wait are handed over.
    HandOver,
    /// Turns of an address follow the lengths of its queues.
    Level(ListeningId),
}

/// A line that the driver puts into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// The worker's agent is to finish, and to close this address, which the app has given up.
    Drain { closes: Option<ListeningId> },
    /// The worker is to close its servers and its channel.
    Disconnect { seq: u64 },
    /// The worker's own leave-taking was heard.
    Acknowledge { ack: u64, seq: u64 },
    /// The worker's agent is to say how many connections stay.
    Count,
    /// The worker's agent is to give up so many connections.
    Move(u32),
    /// The worker's agent is to echo this.
    Echo,
}

/// How a socket is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Watch {
    #[default]
    Not,
    /// For the first connection.
    Once,
    /// For every connection.
    Always,
}

/// Which sockets of a group get new connections; numbers are members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Steer {
    /// The daemon's own.
    Daemon,
    /// These in turn.
    RoundRobin(Vec<u16>),
    /// One of these, by the client's address.
    BySource(Vec<u16>),
}

/// What became of a push that was to be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakenBack {
    /// The worker has not read it, and never will.
    Unread,
    /// The worker has read it at this moment.
    Read,
    /// The system does not permit it, now or ever.
    Refused { for_good: bool },
}

/// Actions that are still to be performed, in order. One is used for all steps, so that a step allocates nothing.
#[derive(Debug, Default)]
pub struct Outbox(VecDeque<Action>);

impl Outbox {
    pub fn push(&mut self, action: Action) {
        self.0.push_back(action);
    }

    /// The next one.
    pub fn pop(&mut self) -> Option<Action> {
        self.0.pop_front()
    }
}
