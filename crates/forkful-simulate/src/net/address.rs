//! The sockets of one address in the kernel.

use std::collections::{BTreeSet, VecDeque};

use forkful_dispatch::{Kind, NewListening, Steer, Watch};

use super::Port;

/// Maximum connections in the queue of a socket.
const BACKLOG: usize = 12;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Address {
    pub(super) port: Port,
    group: bool,
    /// Connections in the queue of each socket; the first is the daemon's own.
    pub(super) queues: Vec<VecDeque<u32>>,
    pub(super) watched: Vec<Watch>,
    /// One-shot watches that have fired.
    disarmed: BTreeSet<usize>,
    pub(super) steer: Steer,
    turn: usize,
    /// Connections that the daemon has handed over, and lost, as observed by the world.
    pub(super) handed_over: u64,
    pub(super) lost: u64,
    /// The kernel has refused the last steering.
    pub(super) steer_failed: bool,
}

impl Address {
    pub(super) fn new(port: Port, group: bool) -> Self {
        Self {
            port,
            group,
            queues: vec![VecDeque::new()],
            watched: vec![Watch::Not],
            disarmed: BTreeSet::new(),
            steer: Steer::Daemon,
            turn: 0,
            handed_over: 0,
            lost: 0,
            steer_failed: false,
        }
    }

    pub(super) fn as_new(&self) -> NewListening {
        let kind = if self.port.is_unix() { Kind::Unix } else { Kind::Tcp };
        NewListening { kind, group: self.group }
    }

    pub(super) fn add_member(&mut self) -> usize {
        self.queues.push(VecDeque::new());
        self.watched.push(Watch::Not);
        self.queues.len() - 1
    }

    pub(super) fn watch(&mut self, member: usize, watch: Watch) {
        self.watched[member] = watch;
        self.disarmed.remove(&member);
    }

    /// The members to which the kernel assigns connections, without the daemon's own.
    pub(super) fn steered(&self) -> &[u16] {
        match &self.steer {
            Steer::Daemon => &[],
            Steer::RoundRobin(members) | Steer::BySource(members) => members,
        }
    }

    /// A client connects: returns the socket in whose queue it waits, if there is room.
    pub(super) fn connect(&mut self, connection: u32) -> Option<usize> {
        let member = match &self.steer {
            Steer::Daemon => 0,
            Steer::RoundRobin(members) => {
                self.turn += 1;
                members[self.turn % members.len()]
            }
            Steer::BySource(members) => members[connection as usize % members.len()],
        };
        let queue = &mut self.queues[usize::from(member)];
        (queue.len() < BACKLOG).then(|| {
            queue.push_back(connection);
            usize::from(member)
        })
    }

    /// The sockets that the reactor would report now.
    pub(super) fn ready(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.queues.len()).filter(|member| {
            !self.queues[*member].is_empty()
                && match self.watched[*member] {
                    Watch::Not => false,
                    Watch::Once => !self.disarmed.contains(member),
                    Watch::Always => true,
                }
        })
    }

    /// The reactor reports a socket. Returns whether it must be reported again.
    pub(super) fn tell(&mut self, member: usize) -> bool {
        let is_ready = self.ready().any(|ready| ready == member);
        self.disarmed.insert(member);
        is_ready
    }
}
