//! Connections in the simulated world: sockets filled by the kernel, channels between the daemon and its
//! workers, the workers' event loops, and clients.
//!
//! ```text
//! client ─▶ address (queues of sockets, bounded) ──▶ worker's loop ──▶ served
//!               │ watched                               ▲  │
//!               ▼                                       │  ▼ messages
//!           primary: forkful_dispatch's decisions ──▶ channel
//! ```
//!
//! - `address`: the sockets of one address in the kernel · `channel`: one worker's channel, both ends
//! - `primary`: performs the dispatcher's actions, like `forkful_cluster` · `reactor`: ready descriptors and
//!   timers
//! - `hearing`: messages of workers
//! - `worker`: a worker's event loop · `group`: an app's CPU limit · `client`: connections, from the first
//!   packet to the end
//! - `pinned`: connections of health checks · `faults`: faults · `checks`: the checks after each event

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

use crate::by_pid::ByPid;
use crate::machine::Pid;

pub(crate) use client::{Connection, Rush};
pub(crate) use faults::{Faults, Trouble};
pub(crate) use group::Group;
pub(crate) use pinned::Asking;
pub(crate) use primary::Primary;
pub(crate) use worker::{Manner, Worker};

/// An address, as apps distinguish them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Port {
    /// A port of one app: its clients' port, or another.
    Tcp(usize, u8),
    /// A unix socket of one app.
    Unix(usize),
    /// A port that several apps want.
    Common,
    /// A port used by another program.
    Taken,
    /// A path that contains a process id.
    Own(u64),
}

impl Port {
    fn is_unix(self) -> bool {
        matches!(self, Self::Unix(_) | Self::Own(_))
    }
}

/// The state of connections in a world.
#[derive(Debug, Default)]
pub(crate) struct Net {
    pub(crate) primaries: BTreeMap<AppId, Primary>,
    /// Processes with a channel.
    pub(crate) workers: ByPid<Worker>,
    /// All connections of the run; the index is the number.
    pub(crate) connections: Vec<Connection>,
    pub(crate) faults: Faults,
    /// The control groups of apps that have had a CPU limit.
    pub(crate) groups: BTreeMap<AppId, Group>,
    /// Apps with events since the last check.
    touched: BTreeSet<AppId>,
    /// The daemon's timer for primaries.
    timer: Option<Time>,
    /// The number of connection events so far.
    pub(crate) happened: usize,
}

impl Net {
    /// A new daemon has no timer yet.
    pub(crate) fn forget_timer(&mut self) {
        self.timer = None;
        self.touched.extend(self.primaries.keys());
    }

    /// After a crash of the daemon: no workers are left, and every client sees its connection end.
    pub(crate) fn crash(&mut self) {
        self.primaries.clear();
        self.workers.clear();
        self.groups.clear();
        self.touched.clear();
        self.timer = None;
        self.connections.iter_mut().for_each(Connection::crash);
    }
}

/// A primary identifies a worker by its process number.
fn worker_of(pid: Pid) -> WorkerId {
    WorkerId(u32::try_from(pid.0).expect("a world has few processes"))
}

fn pid_of(worker: WorkerId) -> Pid {
    Pid(u64::from(worker.0))
}
