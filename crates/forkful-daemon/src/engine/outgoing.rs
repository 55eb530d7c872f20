//! Connections that workers have opened themselves, by the kernel's tables and the agents' reports. Which ones
//! these are, and what follows from them, is decided by `forkful_core::outgoing`.
//!
//! The table of all connections is read once for all apps. A reading takes microseconds, or milliseconds with
//! many thousands of connections; the pauses between two readings grow with it.

use std::collections::HashMap;
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

/// The outgoing connections of all processes of this network namespace, when the table was read last.
#[derive(Default)]
pub(super) struct SharedTable {
    at: Option<Time>,
    cost: Duration,
    /// The server by the socket's inode, and whether the connection was there at the reading before.
    servers: HashMap<u64, (SocketAddr, bool)>,
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
    limits: Limits,
}

impl SharedTable {
    fn read(&mut self, now: Time) {
        if self.at.is_some_and(|at| now.since(at) < TABLE_FRESH) {
            return;
        }
        let began = Instant::now();
        // Where the kernel has no such table, there are none.
        let listening = procinfo::listening_ports().unwrap_or_default();
        let mut servers = HashMap::new();
        let _unreadable = procinfo::each_connection(|connection| {
            if connection.inode != 0
                && servers.len() < CONNECTIONS_MAX
                && is_outgoing(connection.local, &listening)
            {
                let is_kept = self.servers.contains_key(&connection.inode);
                servers.insert(connection.inode, (connection.remote, is_kept));
            }
        });
        let number = self.number + 1;
        let is_same = servers.len() == self.servers.len() && servers.values().all(|(_, is_kept)| *is_kept);
        let same_since = if is_same { self.same_since } else { number };
        *self = Self { at: Some(now), cost: began.elapsed(), servers, number, same_since };
    }

    /// The connections of a process: all, and those that were there at the reading before.
    fn of(&self, pid: u32) -> (Outgoing, Outgoing) {
        let (mut all, mut kept) = (Outgoing::default(), Outgoing::default());
        if !self.servers.is_empty() {
            let inodes = procinfo::socket_inodes(pid).unwrap_or_default();
            for (server, is_kept) in inodes.iter().filter_map(|inode| self.servers.get(inode)) {
                all.count(*server);
                if *is_kept {
                    kept.count(*server);
                }
            }
        }
        (all, kept)
    }
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
        let processes = self.places.values_mut().flat_map(|place| place.processes.values_mut());
        let mut by_worker = Vec::new();
        for process in processes.filter(|process| process.ended.is_none()) {
            let metrics = &mut process.metrics;
            if metrics.table.is_some_and(|number| number >= table.same_since) {
                // No connection of the table has opened or closed since, so each still belongs to the same process.
                metrics.kept = metrics.outgoing.clone();
            } else {
                (metrics.outgoing, metrics.kept) = table.of(process.child.pid);
            }
            metrics.table = Some(table.number);
            metrics.note_outgoing();
            by_worker.push(process.opened());
        }
        self.metrics.outgoing.limits.learn(&by_worker);
        self.metrics.outgoing.next = Some(now + pause_after(table.cost + began.elapsed()));
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
