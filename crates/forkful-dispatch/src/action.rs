//! The inputs and outputs of a [`Dispatcher`](crate::Dispatcher).

use std::collections::VecDeque;

use forkful_core::spec::Balance;
use forkful_core::steering::evenness::Connections;

use crate::channel::Pushed;
use crate::id::{ConnectionId, ListeningId, ReplyId, WorkerId};
use crate::worker::Schedule;

/// An input of the dispatcher.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event {
    /// The supervisor allows new connections for the worker as soon as it listens.
    Open(WorkerId),
    /// No new connections for the worker; the connections in its queue go to other workers.
    CloseTraffic(WorkerId),
    /// The worker must finish its connections and leave.
    Drain(WorkerId),
    /// The worker was told to stop.
    Stopping(WorkerId),
    /// The worker's channel can no longer be used, see [`Dispatcher::evidence`](crate::Dispatcher::evidence).
    Gone {
        worker: WorkerId,
        /// The worker may have served the connection that it has not acknowledged.
        may_have_served: bool,
    },
    /// The worker has closed its channel and lives on: it goes on serving the sockets that it has, and nothing else can be
    /// given to it, see [`Dispatcher::serves_without_channel`](crate::Dispatcher::serves_without_channel).
    Muted {
        worker: WorkerId,
        /// As in [`Self::Gone`].
        may_have_served: bool,
    },
    /// No worker is left and none will be started.
    CloseAll,
    /// New connections are distributed with another balance mode from now on.
    Balance(Balance),
    /// The app has this many slots, with those whose worker has ended.
    Slots(u16),
    /// The worker must prove that its event loop is responsive, unless it already owes a reply.
    Ask(WorkerId),
    /// A connection is for exactly this worker.
    Deliver {
        worker: WorkerId,
        listening: ListeningId,
        connection: ConnectionId,
    },
    /// A line with a descriptor is for the worker's agent. It is dropped where the worker is about to end.
    Pass {
        worker: WorkerId,
        reply: ReplyId,
    },

    /// The worker's agent has echoed a [`Message::Echo`]: it has replied to everything sent before.
    Echoed(WorkerId),
    /// The worker's agent is loaded.
    Greeted(WorkerId),
    /// The worker received the reply that it holds an address. `member` is its own socket in a group, `reply`
    /// is the queued reply with a socket, `ack` the `seq` of the query.
    Held {
        worker: WorkerId,
        ack: u64,
        listening: ListeningId,
        member: Option<usize>,
        reply: Option<ReplyId>,
    },
    /// A query for this address failed.
    NotHeld(ListeningId),
    /// The app listens on another address of the same port, which cannot be bound beside this one.
    GiveWay(ListeningId),
    /// Clients no longer reach the address, because the file of its unix socket was removed.
    Lost(ListeningId),
    /// The worker reports that it is listening.
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
    /// The worker's agent has finished draining.
    Drained {
        worker: WorkerId,
        /// Its app handles its stop.
        stops: bool,
    },
    /// The reply to a pushed connection.
    Answered {
        worker: WorkerId,
        seq: u64,
        accepted: bool,
    },
    /// A handle arrived at the worker.
    HandleTaken(WorkerId),
    /// A handle line arrived without its handle: the reply to a probe, or the handle was lost.
    HandleMissed(WorkerId),
    /// The worker's agent reports the number of connections that stay.
    Counted {
        worker: WorkerId,
        connections: Connections,
    },

    /// A watched socket has connections in its queue.
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
    /// [`Action::Steer`] failed.
    SteerFailed(ListeningId),
    /// [`Action::Watch`] failed; the socket's watch is unchanged.
    WatchFailed {
        listening: ListeningId,
        member: usize,
        before: Watch,
    },

    /// Time has passed: one event for each chore.
    Due(Chore),
    /// An [`Action::Later`] has reached the head of the outbox.
    Now(Later),
}

/// Periodic work. The driver feeds all of [`Self::ALL`], and performs the actions of each before the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chore {
    /// The ends of pauses: in accepting, in writing, and before retrying replies.
    Resume,
    /// Addresses that no worker holds, and workers whose last words are over.
    Leave,
    /// Queue lengths of sockets to which the kernel assigns connections.
    Sample,
    /// Waiting connections, and overdue pushes.
    Dispatch,
    /// Whether the kernel should still assign connections, and whether connections are evenly distributed.
    Rebalance,
}

impl Chore {
    /// All of them, in the order of execution.
    pub const ALL: [Self; 5] = [Self::Resume, Self::Leave, Self::Sample, Self::Dispatch, Self::Rebalance];
}

/// An instruction to the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Write to the channel: call [`Channel::next_write`](crate::Channel::next_write) until it returns
    /// nothing.
    Flush(WorkerId),
    /// Send a line to the worker.
    Tell(WorkerId, Message),
    /// Take connections out of a socket's queue, as many as [`Dispatcher::room_left`](crate::Dispatcher::room_left).
    Accept { listening: ListeningId, member: usize, rescued: bool },
    /// Close the driver's copy of a connection.
    Close(ConnectionId),
    /// Take a pushed connection out of the worker's end of the channel, if the worker has not read it.
    TakeBack { worker: WorkerId, pushed: Pushed },
    /// Answer a query again: the answer of the previous daemon may be lost. `member`: with this socket, passed by
    /// [`Event::Pass`].
    AnswerAgain { worker: WorkerId, ack: u64, listening: ListeningId, member: Option<usize> },
    /// Drop a reply with a socket: it was delivered, or will not be.
    DropReply { worker: WorkerId, reply: ReplyId },
    /// Watch a socket for connections in its queue.
    Watch { listening: ListeningId, member: usize, watch: Watch },
    /// Set which sockets of an address get new connections from the kernel.
    Steer { listening: ListeningId, steer: Steer },
    /// Read the lengths of all queues of an address.
    ReadQueues(ListeningId),
    /// Read the scheduling statistics of a worker's process.
    ReadSchedule { worker: WorkerId, suspected: Option<ListeningId> },
    /// Close all sockets of an address. `told`: tell the user that it was given up.
    Unbind { listening: ListeningId, told: bool },
    /// Feed [`Event::Now`] after the actions before this one are performed.
    Later(Later),
}

/// A step that needs the results of earlier actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Later {
    /// Take back overdue pushes, then hand over waiting connections.
    Dispatch,
    /// Hand over waiting connections.
    HandOver,
    /// Adapt the turns of an address to the lengths of its queues.
    Level(ListeningId),
}

/// A message that the driver encodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// The worker's agent must drain, and close this address, which the app has given up.
    Drain { closes: Option<ListeningId> },
    /// The worker must close its servers and its channel.
    Disconnect { seq: u64 },
    /// Acknowledges that the worker leaves by itself.
    Acknowledge { ack: u64, seq: u64 },
    /// Asks the worker's agent for the number of connections that stay.
    Count,
    /// Tells the worker's agent to give up this many connections.
    Move(u32),
    /// Asks the worker's agent for an echo.
    Echo,
}

/// How a socket is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Watch {
    #[default]
    Not,
    /// Report the first connection only.
    Once,
    /// Report every connection.
    Always,
}

/// Which sockets of a group get new connections, by member number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Steer {
    /// The daemon's own socket.
    Daemon,
    /// These members in turn.
    RoundRobin(Vec<u16>),
    /// One of these members, by the client's address.
    BySource(Vec<u16>),
}

/// The result of taking back a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakenBack {
    /// The worker has not read it and never will.
    Unread,
    /// The worker has just read it.
    Read,
    /// The system does not permit it, now or for good.
    Refused { for_good: bool },
}

/// Actions to perform, in order. One outbox is reused for all steps, so that a step does not allocate.
#[derive(Debug, Default)]
pub struct Outbox(VecDeque<Action>);

impl Outbox {
    pub fn push(&mut self, action: Action) {
        self.0.push_back(action);
    }

    /// The next action.
    pub fn pop(&mut self) -> Option<Action> {
        self.0.pop_front()
    }
}
