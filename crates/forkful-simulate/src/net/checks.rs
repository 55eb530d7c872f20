//! The checks of connections after each event and at the end.

use forkful_core::spec::Balance;
use forkful_core::supervisor::AppId;
use forkful_dispatch::{ListeningId, Pushed};

use super::client::ConnectionState;
use super::{Primary, Worker, worker_of};
use crate::machine::Pid;
use crate::watch::Invariant;
use crate::world::World;

type Broken = (Invariant, String);

impl World {
    /// The workers that serve an address: they listen, their event loops are responsive, they may get
    /// connections, and the daemon has their channels.
    pub(super) fn serving_workers(
        &self,
        app: AppId,
        listening: ListeningId,
    ) -> impl Iterator<Item = Pid> + '_ {
        let workers = self.net.primaries.get(&app).map(|primary| &primary.workers);
        let serves = move |pid: &&Pid| {
            let worker = &self.net.workers[pid];
            let process = self.machine.processes.get(**pid);
            worker.servers.contains_key(&listening)
                && !worker.has_closed
                && process.is_some_and(|process| process.is_well() && process.has_traffic)
        };
        workers.into_iter().flatten().filter(serves).copied()
    }

    /// A connection is being sent to a worker.
    pub(super) fn check_given(&mut self, app: AppId, pid: Pid, pushed: Pushed) {
        let process = self.machine.processes.get(pid);
        if process.is_some_and(|process| !process.has_traffic) {
            let seen = format!(
                "{:?} of app {} is given to process {}, which gets no new connections",
                pushed.connection, app.0, pid.0
            );
            self.watch.fail(Invariant::GivenToReady, seen);
        }
    }

    /// Checks the primaries that have had an event.
    pub(crate) fn check_net(&mut self) {
        while let Some(app) = self.watch.net_touched.pop_first() {
            let Some(primary) = self.net.primaries.get(&app) else { continue };
            let checked = self.check_primary(primary).and_then(|()| self.check_room_told(app, primary));
            if let Err((invariant, seen)) = checked {
                self.watch.fail(invariant, seen);
            }
        }
    }

    fn check_primary(&self, primary: &Primary) -> Result<(), Broken> {
        for (listening, address) in &primary.addresses {
            let counters = primary.dispatcher.counters(*listening).map(|(_, counters)| counters);
            let Some(counters) = counters else {
                return Err((Invariant::NoneDropped, format!("{listening:?} is bound, and nobody knows it")));
            };
            if (counters.handed_over, counters.lost) != (address.handed_over, address.lost) {
                let seen = format!(
                    "{} connections were handed over and {} lost: {counters:?}",
                    address.handed_over, address.lost
                );
                return Err((Invariant::CountersAgree, seen));
            }
            if !address.steer_failed {
                for member in address.steered() {
                    self.check_steered(primary, *listening, usize::from(*member))?;
                }
            }
        }
        for pid in &primary.workers {
            self.check_listens(primary, *pid, &self.net.workers[pid])?;
        }
        Ok(())
    }

    /// The reactor reports channels that have room for waiting lines.
    fn check_room_told(&self, app: AppId, primary: &Primary) -> Result<(), Broken> {
        if primary.rings {
            return Ok(());
        }
        match self.writable(app).next() {
            Some(pid) => {
                let seen =
                    format!("lines wait for the channel of process {}, of whose room nobody tells", pid.0);
                Err((Invariant::NoneWaits, seen))
            }
            None => Ok(()),
        }
    }

    /// The kernel assigns connections only to workers that may get them.
    fn check_steered(&self, primary: &Primary, listening: ListeningId, member: usize) -> Result<(), Broken> {
        let mut is_held = false;
        let mut some_moves = false;
        for pid in &primary.workers {
            let worker = &self.net.workers[pid];
            let own = worker.servers.get(&listening).is_some_and(|(own, _)| *own == Some(member));
            let has_traffic = self.machine.processes.get(*pid).is_some_and(|process| process.has_traffic);
            if own && has_traffic {
                return Ok(());
            }
            is_held |= own;
            some_moves |= has_traffic && (!worker.is_in_step() || worker.has_closed);
        }
        if some_moves && !is_held {
            return Ok(());
        }
        let seen =
            format!("{listening:?}: the kernel gives connections to socket {member}, which nobody serves");
        Err((Invariant::GivenToReady, seen))
    }

    /// The daemon's view of a worker's addresses is correct.
    fn check_listens(&self, primary: &Primary, pid: Pid, worker: &Worker) -> Result<(), Broken> {
        if !worker.is_in_step() || worker.has_closed || !self.is_alive(pid) {
            return Ok(());
        }
        let told = primary.dispatcher.listening_on(worker_of(pid));
        if told.eq(worker.servers.keys().copied()) {
            return Ok(());
        }
        let told: Vec<ListeningId> = primary.dispatcher.listening_on(worker_of(pid)).collect();
        let seen =
            format!("process {} listens on {:?}, and counts as listening on {told:?}", pid.0, worker.servers);
        Err((Invariant::ListensTruly, seen))
    }

    /// No connection waits while there is a worker with room, and no line waits while its channel has room.
    pub(crate) fn check_waiting(&mut self) {
        let clients =
            self.net.connections.iter().enumerate().filter(|(_, connection)| connection.pinned_to.is_none());
        let waiting = { clients }.find_map(|(number, connection)| {
            let (app, listening, member) = match connection.place {
                ConnectionState::Queued(app, listening, member) => (app, listening, Some(member)),
                ConnectionState::Daemon(app, listening) => (app, listening, None),
                ConnectionState::Knocks | ConnectionState::Taken(_) | ConnectionState::Ended(_) => {
                    return None;
                }
            };
            let has_room = |pid: &Pid| self.net.workers[pid].has_room();
            let pid = self.serving_workers(app, listening).find(has_room)?;
            let is_pinned = member.is_some_and(|member| self.is_sticky_to(app, listening, member));
            let is_with_hung = self.is_stuck_with(app, number as u32);
            (!is_pinned && !is_with_hung).then(|| {
                format!("connection {number} waits ({:?}), and process {} serves", connection.place, pid.0)
            })
        });
        let unsent = || {
            let waits = |app: &AppId| self.writable(*app).next();
            let pid = self.net.primaries.keys().find_map(waits)?;
            Some(format!("lines wait for the channel of process {}, which has room", pid.0))
        };
        if let Some(seen) = waiting.or_else(unsent) {
            self.watch.fail(Invariant::NoneWaits, seen);
        }
    }

    /// Whether a queue belongs to a worker whose clients stay with it although its event loop is blocked.
    fn is_sticky_to(&self, app: AppId, listening: ListeningId, member: usize) -> bool {
        let Some(primary) = self.net.primaries.get(&app) else { return false };
        let is_sticky =
            primary.dispatcher.counters(listening).is_some_and(|(balance, _)| balance == Balance::Sticky);
        is_sticky && primary.dispatcher.is_owned(listening, member)
    }

    /// Whether a connection was pushed to a hanging worker from which nothing can be taken back.
    fn is_stuck_with(&self, app: AppId, number: u32) -> bool {
        let Some(primary) = self.net.primaries.get(&app) else { return false };
        primary.workers.iter().any(|pid| {
            let worker = &self.net.workers[pid];
            !worker.recalls && worker.channel.holds(number)
        })
    }
}
