//! Connections that workers have opened themselves, by the kernel's tables and the agents' reports. Which ones
//! these are, and what follows from them, is decided by `forkful_core::outgoing`. How many connections workers
//! have accepted is counted by the same tables, less often.
//!
//! The table of all connections is read once for all apps. A reading takes microseconds, or milliseconds with
//! many thousands of connections; the pauses between two readings grow with it.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use forkful_cluster::WorkerId;
use forkful_core::Time;
use forkful_core::outgoing::{
    HostLoad, HostUse, Limits, Opened, Outgoing, Peers, is_outgoing, loads, pause_after,
};
use forkful_core::supervisor::SlotRecord;
use forkful_os::procinfo;

use super::app::{App, AppId, Place, Process};
use super::apps::Apps;
use super::metrics::ProcessMetrics;

/// Maximum connections that are kept of the table.
const CONNECTIONS_MAX: usize = 65_536;
/// A table of this age is used for other apps, too.
const TABLE_FRESH: Duration = Duration::from_millis(500);

/// How often accepted connections are counted: that reads all descriptors of a process.
const COUNT_EVERY: Duration = Duration::from_secs(10);

/// The connections of all processes of this network namespace, when the table was read last.
#[derive(Default)]
pub(super) struct SharedTable {
    at: Option<Time>,
    cost: Duration,
    /// The server by the socket's inode, and whether the connection was there at the reading before.
    servers: HashMap<u64, (SocketAddr, bool)>,
    /// Connections that were accepted, by the socket's inode; `None` if not all of them are known.
    accepted: Option<HashSet<u64>>,
    /// The number of this reading.
    number: u64,
    /// The first reading with exactly these connections.
    same_since: u64,
}

/// The readings for one app.
#[derive(Default)]
pub(super) struct AppOutgoing {
    /// When its connections are read next.
    next: Option<Time>,
    /// When those that were accepted are counted next.
    count_next: Option<Time>,
    limits: Limits,
}

impl SharedTable {
    fn read(&mut self, now: Time) {
        if self.at.is_some_and(|at| now.since(at) < TABLE_FRESH) {
            return;
        }
        let began = Instant::now();
        // Where the kernel has no such table, there are none.
        let listening = procinfo::listening_ports();
        let (ports, mut are_all_known) = (listening.as_ref().ok(), true);
        let mut servers = HashMap::new();
        let mut accepted = HashSet::new();
        let read = procinfo::each_connection(|connection| {
            if connection.inode == 0 {
                return;
            }
            if ports.is_some_and(|ports| !is_outgoing(connection.local, ports)) {
                are_all_known &= accepted.len() < CONNECTIONS_MAX;
                if are_all_known {
                    accepted.insert(connection.inode);
                }
            } else if servers.len() < CONNECTIONS_MAX {
                let is_kept = self.servers.contains_key(&connection.inode);
                servers.insert(connection.inode, (connection.remote, is_kept));
            }
        });
        let accepted = (are_all_known && ports.is_some() && read.is_ok()).then_some(accepted);
        let number = self.number + 1;
        let is_same = servers.len() == self.servers.len() && servers.values().all(|(_, is_kept)| *is_kept);
        let same_since = if is_same { self.same_since } else { number };
        *self = Self { at: Some(now), cost: began.elapsed(), servers, accepted, number, same_since };
    }

    /// The connections of a process. Those that it has accepted are counted if that is wanted, or costs nothing more.
    fn of(&self, pid: u32, counts_accepted: bool) -> Held {
        let mut held = Held::default();
        let accepted = self.accepted.as_ref();
        let is_any = accepted.is_some_and(|accepted| counts_accepted && !accepted.is_empty());
        if self.servers.is_empty() && !is_any {
            held.accepted = accepted.filter(|accepted| accepted.is_empty()).map(|_| 0);
            return held;
        }
        let Ok(inodes) = procinfo::socket_inodes(pid) else { return held };
        for (server, is_kept) in inodes.iter().filter_map(|inode| self.servers.get(inode)) {
            held.all.count(*server);
            if *is_kept {
                held.kept.count(*server);
            }
        }
        let count = |accepted: &HashSet<u64>| inodes.iter().filter(|inode| accepted.contains(inode)).count();
        held.accepted = accepted.map(|accepted| u32::try_from(count(accepted)).unwrap_or(u32::MAX));
        held
    }
}

/// The connections of a process.
#[derive(Default)]
struct Held {
    /// Those that it has opened.
    all: Outgoing,
    /// Those of them that were there at the reading before.
    kept: Outgoing,
    /// How many it has accepted, if they were counted.
    accepted: Option<u32>,
}

impl Apps {
    /// Reads which connections an app's processes have opened, if it is time.
    pub(super) fn look_outgoing(&mut self, app: AppId, now: Time) {
        let is_due = |entry: &App| entry.metrics.outgoing.next.is_none_or(|next| next <= now);
        if !self.get(&app).is_some_and(is_due) {
            return;
        }
        self.outgoing.read(now);
        let table = std::mem::take(&mut self.outgoing);
        if let Some(entry) = self.get_mut(app) {
            entry.read_outgoing(&table, now);
        }
        self.outgoing = table;
    }
}

impl App {
    fn read_outgoing(&mut self, table: &SharedTable, now: Time) {
        let began = Instant::now();
        let is_due = self.metrics.outgoing.count_next.is_none_or(|next| next <= now);
        let processes = self.places.values_mut().flat_map(|place| place.processes.values_mut());
        let mut by_worker = Vec::new();
        for process in processes.filter(|process| process.ended.is_none()) {
            let metrics = &mut process.metrics;
            let counts_accepted = is_due || metrics.table.is_none();
            let is_same = metrics.table.is_some_and(|number| number >= table.same_since);
            let accepted = if is_same && !counts_accepted {
                // No connection that a process has opened is new or closed, so each still belongs to the same process.
                metrics.kept = metrics.outgoing.clone();
                None
            } else {
                let Held { all, kept, accepted } = table.of(process.child.pid, counts_accepted);
                (metrics.outgoing, metrics.kept) = (all, kept);
                accepted
            };
            metrics.table = Some(table.number);
            metrics.note_connections(accepted);
            by_worker.push(process.opened());
        }
        let pause = pause_after(table.cost + began.elapsed());
        let outgoing = &mut self.metrics.outgoing;
        outgoing.limits.learn(&by_worker);
        outgoing.next = Some(now + pause);
        if is_due {
            outgoing.count_next = Some(now + pause.max(COUNT_EVERY));
        }
    }

    /// The servers that a worker's agent knows.
    pub(super) fn note_peers(&mut self, worker: WorkerId, peers: Peers) {
        if let Some(process) = self.process_of(worker) {
            process.metrics.peers = peers;
        }
    }

    /// The hosts to which its workers are connected, with the limits of those that have refused connections.
    pub(super) fn hosts(&self) -> Vec<HostLoad> {
        let workers: Vec<Opened> = self
            .slots()
            .filter_map(|(_, record, place)| current(record, place).map(Process::opened))
            .collect();
        loads(&workers, &self.metrics.outgoing.limits)
    }
}

/// The hosts to which a worker is connected.
pub(super) fn hosts_of(record: &SlotRecord, place: &Place) -> Vec<HostUse> {
    current(record, place)
        .map(|process| process.metrics.outgoing.hosts(&process.metrics.peers))
        .unwrap_or_default()
}

fn current<'a>(record: &SlotRecord, place: &'a Place) -> Option<&'a Process> {
    place.current(record).filter(|process| process.ended.is_none())
}

impl Process {
    fn opened(&self) -> Opened {
        let ProcessMetrics { outgoing, kept, peers, .. } = &self.metrics;
        Opened { all: outgoing.hosts(peers), kept: kept.hosts(peers) }
    }
}
