//! Connections in the simulated world: sockets that the kernel fills, channels between the daemon and its workers, the
//! event loops of workers, and clients.
//!
//! ```text
//! client ─▶ address (queues of sockets, bounded) ──▶ worker's loop ──▶ served
//!               │ watched                               ▲  │
//!               ▼                                       │  ▼ said
//!           primary: forkful_dispatch's decisions ──▶ channel
//! ```
//!
//! - `address`: the sockets of one address, as the kernel keeps them · `channel`: one worker's channel, both ends
//! - `primary`: performs what the dispatcher decides, as `forkful_cluster` does · `reactor`: what is ready, and what is due
//! - `hearing`: what workers say
//! - `worker`: the event loop of a worker · `group`: how much CPU time an app gets · `client`: connections, from the first packet to their end
//! - `pinned`: connections of health checks · `faults`: what goes wrong · `checks`: what must hold after each event

mod address;
mod channel;
mod checks;
mod client;
mod faults;
mod group;
mod hearing;
mod pinned;
mod primary;
mod reactor;
mod worker;

use std::collections::{BTreeMap, BTreeSet};

use forkful_core::Time;
use forkful_core::supervisor::AppId;
use forkful_dispatch::WorkerId;

use crate::machine::Pid;

pub(crate) use client::{Connection, Rush};
pub(crate) use faults::{Faults, Trouble};
pub(crate) use group::Group;
pub(crate) use pinned::Asking;
pub(crate) use primary::Primary;
pub(crate) use worker::{Manner, Worker};

/// An address, as far as apps tell it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Port {
    /// Of one app: its clients' port, or a further one.
    Tcp(usize, u8),
    /// A unix socket of one app.
    Unix(usize),
    /// A port that several apps want.
    Common,
    /// A port that another program has.
    Taken,
    /// A path that is made of the number of a process.
    Own(u64),
}

impl Port {
    fn is_unix(self) -> bool {
        matches!(self, Self::Unix(_) | Self::Own(_))
    }
}

/// What there is of connections in a world.
#[derive(Debug, Default)]
pub(crate) struct Net {
    pub(crate) primaries: BTreeMap<AppId, Primary>,
    /// Processes with a channel.
    pub(crate) workers: BTreeMap<Pid, Worker>,
    /// All that ever were; the place is the number.
    pub(crate) connections: Vec<Connection>,
    pub(crate) faults: Faults,
    /// The control groups of apps that have had a CPU limit.
    pub(crate) groups: BTreeMap<AppId, Group>,
    /// Apps of which something has happened since the last look.
    touched: BTreeSet<AppId>,
    /// When the daemon is to be woken for a primary.
    timer: Option<Time>,
    /// How many things have happened here.
    pub(crate) happened: usize,
}

impl Net {
    /// Another daemon has no timer yet.
    pub(crate) fn forget_timer(&mut self) {
        self.timer = None;
        self.touched.extend(self.primaries.keys());
    }

    /// After a crash of the daemon: no worker is left, and every client sees its connection end.
    pub(crate) fn crash(&mut self) {
        self.primaries.clear();
        self.workers.clear();
        self.groups.clear();
        self.touched.clear();
        self.timer = None;
        self.connections.iter_mut().for_each(Connection::crash);
    }
}

/// A worker is known to its primary by the number of its process.
fn worker_of(pid: Pid) -> WorkerId {
    WorkerId(u32::try_from(pid.0).expect("a world has few processes"))
}

fn pid_of(worker: WorkerId) -> Pid {
    Pid(u64::from(worker.0))
}
