//! Connections of health checks: each is for exactly one worker.

use std::time::Duration;

use forkful_core::spec::HealthProbe;
use forkful_core::supervisor::AppId;
use forkful_dispatch::{ConnectionId, Event};

use super::client::{Connection, ConnectionState};
use super::{Port, worker_of};
use crate::machine::Pid;
use crate::world::World;

/// How a worker's health is checked.
pub(crate) enum Asking {
    /// By this connection, which it must accept within this time.
    ByConnection(u32, Duration),
    /// Its channel has no room for a connection now.
    Busy,
    Otherwise,
}

impl World {
    /// Checks a worker by a connection, if its app is configured so and it shares a port.
    pub(crate) fn ask_by_connection(&mut self, app: AppId, pid: Pid) -> Asking {
        let worker = worker_of(pid);
        let check = self.daemon.apps.get(&app).and_then(|entry| entry.supervisor.spec().health.as_ref());
        let Some(check) = check.filter(|check| matches!(check.probe, HealthProbe::Tcp { .. })) else {
            return Asking::Otherwise;
        };
        let timeout = check.timeout;
        let primary = self.net.primaries.get(&app);
        let Some(primary) = primary.filter(|primary| primary.dispatcher.shares_tcp(worker)) else {
            return Asking::Otherwise;
        };
        let Some(listening) = primary.dispatcher.delivers_by(worker) else { return Asking::Busy };
        let number = self.net.connections.len() as u32;
        let stays = Duration::from_millis(1);
        let mut connection = Connection::new(Port::Own(0), ConnectionState::Daemon(app, listening), stays);
        connection.is_held = true;
        connection.pinned_to = Some(pid);
        self.net.connections.push(connection);
        let connection = ConnectionId(number);
        self.dispatch(app, Event::Deliver { worker, listening, connection });
        Asking::ByConnection(number, timeout)
    }

    /// Whether a worker has accepted a connection.
    pub(crate) fn was_taken(&self, number: u32) -> bool {
        self.net.connections[number as usize].is_touched
    }
}
