//! Clients' connections, from the first packet to the end.

use std::time::Duration;

use forkful_core::supervisor::AppId;
use forkful_dispatch::ListeningId;

use super::Port;
use super::channel::Said;
use crate::machine::{Phase, Pid};
use crate::queue::Happening;
use crate::watch::Invariant;
use crate::world::World;

/// If a client's first packet finds no room in a queue, it is sent again after this time.
const KNOCK_AGAIN: Duration = Duration::from_secs(1);

/// Workers report the number of served requests after this many.
const REPORT_EVERY: u64 = 4;

/// Clients that arrive at the same time, or nearly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rush {
    pub(crate) port: Port,
    pub(crate) clients: u32,
    /// The time within which they arrive.
    pub(crate) within: Duration,
    /// How long a connection stays open after a worker has accepted it.
    pub(crate) stays: Duration,
    /// How long a client waits for a worker.
    pub(crate) patience: Duration,
}

/// A client's connection.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    pub(super) port: Port,
    pub(super) place: ConnectionState,
    stays: Duration,
    pub(super) client_is_gone: bool,
    /// A worker has read from it or written to it.
    pub(super) is_touched: bool,
    /// The daemon has a descriptor of it.
    pub(super) is_held: bool,
    /// The address through which the daemon has accepted it.
    pub(super) came_by: Option<(AppId, ListeningId)>,
    /// The daemon counts it as lost.
    pub(super) is_lost: bool,
    /// It is a health check of exactly this worker.
    pub(super) pinned_to: Option<Pid>,
}

/// The place of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// Not in a queue yet.
    Knocks,
    /// In the queue of a socket.
    Queued(AppId, ListeningId, usize),
    /// In the daemon, or on its way to a worker.
    Daemon(AppId, ListeningId),
    /// A worker has accepted it.
    Taken(Pid),
    Ended(End),
}

/// How a connection has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Served,
    /// There was no listener.
    Refused,
    /// Its address was given up while it waited.
    GivenUp,
    /// The client gave up waiting.
    NotWaited,
    /// Its worker ended after accepting it.
    WithWorker,
    /// Its worker ended and may have had it; the daemon has counted it as lost.
    Lost,
    /// The daemon has crashed.
    Crash,
}

impl Connection {
    pub(super) fn new(port: Port, place: ConnectionState, stays: Duration) -> Self {
        Self {
            port,
            place,
            stays,
            client_is_gone: false,
            is_touched: false,
            is_held: false,
            came_by: None,
            is_lost: false,
            pinned_to: None,
        }
    }

    pub(super) fn crash(&mut self) {
        self.is_held = false;
        if !matches!(self.place, ConnectionState::Ended(_) | ConnectionState::Knocks) {
            self.place = ConnectionState::Ended(End::Crash);
        }
    }
}

impl World {
    /// Clients connect.
    pub(crate) fn rush(&mut self, rush: Rush) {
        let Rush { port, clients, within, stays, patience } = rush;
        for _ in 0..clients {
            let number = self.net.connections.len() as u32;
            self.net.connections.push(Connection::new(port, ConnectionState::Knocks, stays));
            let after = within.mul_f64(self.dice.below(1_000) as f64 / 1_000.0);
            self.after(after, Happening::Connect(number));
            self.after(after + patience, Happening::GiveUp(number));
        }
    }

    /// A client sends its first packet, or repeats it. Returns whether it still wants to connect.
    pub(crate) fn connect(&mut self, number: u32) -> bool {
        let connection = &mut self.net.connections[number as usize];
        if connection.place != ConnectionState::Knocks || connection.client_is_gone {
            return false;
        }
        let port = connection.port;
        let found = self.net.primaries.iter_mut().find_map(|(app, primary)| {
            let listening = primary.listening_of(port)?;
            Some((*app, listening, primary.addresses.get_mut(&listening)?))
        });
        let Some((app, listening, address)) = found else {
            connection.place = ConnectionState::Ended(End::Refused);
            return true;
        };
        match address.connect(number) {
            Some(member) => {
                connection.place = ConnectionState::Queued(app, listening, member);
                self.net.touched.insert(app);
                self.wake_acceptors(app, listening, member);
            }
            None => self.after(KNOCK_AGAIN, Happening::Connect(number)),
        }
        true
    }

    /// A client gives up waiting. Returns whether it was waiting.
    pub(crate) fn client_gives_up(&mut self, number: u32) -> bool {
        let connection = &mut self.net.connections[number as usize];
        if self.calm || connection.client_is_gone {
            return false;
        }
        match connection.place {
            ConnectionState::Taken(_) | ConnectionState::Ended(_) => return false,
            ConnectionState::Knocks => connection.place = ConnectionState::Ended(End::NotWaited),
            // The current holder sees the end when it reads.
            ConnectionState::Queued(..) | ConnectionState::Daemon(..) => {}
        }
        connection.client_is_gone = true;
        true
    }

    /// A worker accepts a connection.
    pub(super) fn take(&mut self, pid: Pid, number: u32) {
        let connection = &mut self.net.connections[number as usize];
        if let ConnectionState::Taken(other) = connection.place {
            let lives = |pid| self.machine.processes.get(pid).is_some_and(|p| p.phase == Phase::Alive);
            if connection.is_touched || lives(other) {
                let seen = format!("connection {number} is taken by process {} and by {}", other.0, pid.0);
                self.watch.fail(Invariant::GivenOnce, seen);
            }
        }
        if let ConnectionState::Ended(end) = connection.place
            && !matches!(end, End::GivenUp | End::Lost)
        {
            let seen = format!("connection {number} is taken by process {} after its end: {end:?}", pid.0);
            self.watch.fail(Invariant::GivenOnce, seen);
        }
        if connection.pinned_to.is_some_and(|own| own != pid) {
            let seen =
                format!("connection {number} asks {:?}, and process {} answers", connection.pinned_to, pid.0);
            self.watch.fail(Invariant::HealthTruly, seen);
        }
        connection.place = ConnectionState::Taken(pid);
        connection.is_touched = true;
        let stays = if connection.client_is_gone { Duration::ZERO } else { connection.stays };
        if let Some(worker) = self.net.workers.get_mut(pid) {
            worker.open.insert(number);
        }
        self.after(stays, Happening::Finish(number));
    }

    /// A connection of a worker ends. Returns whether a worker had it.
    pub(crate) fn finish(&mut self, number: u32) -> bool {
        let connection = &mut self.net.connections[number as usize];
        let ConnectionState::Taken(pid) = connection.place else { return false };
        let Some(worker) = self.net.workers.get_mut(pid) else { return false };
        if !worker.open.remove(&number) {
            return false;
        }
        worker.served += 1;
        let served = worker.served;
        connection.place = ConnectionState::Ended(End::Served);
        let app = worker.app;
        if let Some(primary) = self.net.primaries.get_mut(&app) {
            primary.dispatcher.connection_closed(u64::from(number));
            self.net.touched.insert(app);
        }
        self.wake_loop(pid);
        if !self.calm && served.is_multiple_of(REPORT_EVERY) {
            self.say(pid, Said::Served(served));
        }
        true
    }

    /// A process has ended: its connections end, except those whose acknowledgement the daemon still expects.
    pub(super) fn end_connections(&mut self, pid: Pid) {
        let Some(worker) = self.net.workers.get_mut(pid) else { return };
        let app = worker.app;
        for number in std::mem::take(&mut worker.open) {
            let connection = &mut self.net.connections[number as usize];
            if !connection.is_held {
                connection.place = ConnectionState::Ended(End::WithWorker);
            }
            if let Some(primary) = self.net.primaries.get_mut(&app) {
                primary.dispatcher.connection_closed(u64::from(number));
            }
        }
    }

    /// Clients of an address that is given up see their connections end.
    pub(super) fn give_up(&mut self, numbers: impl IntoIterator<Item = u32>) {
        for number in numbers {
            self.net.connections[number as usize].place = ConnectionState::Ended(End::GivenUp);
        }
    }
}
