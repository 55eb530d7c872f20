//! The addresses of workers, so that the supervisor can tell whether a new process listens on all addresses of
//! its predecessor. In fork mode a process and those below it may be several workers, which listen together.

use std::collections::BTreeSet;

use forkful_core::supervisor::Sockets;

use crate::dispatcher::Dispatcher;
use crate::id::{ListeningId, WorkerId};
use crate::listening::Listening;
use crate::worker::{Stage, Worker};

impl Dispatcher {
    /// Addresses on which `old` listens and its successor does not (yet). Empty if the successor listens on
    /// as many addresses, because then it has moved. Addresses that only `old` has, while other workers of
    /// the app serve, are not expected of another process: a port or path may contain a process id.
    pub fn missing_of(&self, new: &[WorkerId], old: &[WorkerId]) -> Vec<ListeningId> {
        let (of_new, of_old) = (self.addresses_of(new), self.addresses_of(old));
        if of_new.len() >= of_old.len() {
            return Vec::new();
        }
        let is_other = |id: &WorkerId| !old.contains(id) && !new.contains(id);
        let serving = self.workers.iter().filter(|(id, worker)| is_other(id) && worker.stage == Stage::Open);
        let others: Vec<&Worker> =
            serving.map(|(_, worker)| worker).filter(|worker| !worker.holds.is_empty()).collect();
        let is_shared =
            |id: &ListeningId| others.is_empty() || others.iter().any(|other| other.listens_on(*id));
        of_old.difference(&of_new).copied().filter(is_shared).collect()
    }

    /// The addresses on which some workers listen together.
    fn addresses_of(&self, workers: &[WorkerId]) -> BTreeSet<ListeningId> {
        workers.iter().flat_map(|worker| self.listening_on(*worker)).collect()
    }

    /// What a supervisor needs to know about a starting process that may replace another. Sockets of its own
    /// are not included.
    pub fn sockets_of(&self, new: &[WorkerId], old: &[WorkerId]) -> Sockets {
        Sockets {
            has_asked: new.iter().any(|worker| self.has_asked(*worker)),
            shares: !self.addresses_of(new).is_empty(),
            shares_tcp: new.iter().any(|worker| self.shares_tcp(*worker)),
            own: None,
            lacks_address: !self.missing_of(new, old).is_empty(),
            follows_listener: old.iter().any(|worker| self.has_asked(*worker)),
        }
    }

    /// The addresses on which a worker listens.
    pub fn listening_on(&self, worker: WorkerId) -> impl Iterator<Item = ListeningId> {
        self.workers.get(&worker).into_iter().flat_map(Worker::listening_on)
    }

    /// Whether a worker has asked to listen on any address.
    pub fn has_asked(&self, worker: WorkerId) -> bool {
        self.workers.get(&worker).is_some_and(|worker| !worker.holds.is_empty())
    }

    /// Whether the worker has listened before, and now listens on no address.
    pub fn has_closed_all(&self, worker: WorkerId) -> bool {
        self.workers.get(&worker).is_some_and(Worker::has_closed_all)
    }

    /// Whether the worker listens on a shared TCP address.
    pub fn shares_tcp(&self, worker: WorkerId) -> bool {
        self.listening_on(worker).any(|id| self.listenings.get(&id).is_some_and(Listening::is_tcp))
    }

    /// Whether any worker holds any address.
    pub fn listens(&self) -> bool {
        self.listenings.values().any(|listening| listening.holders.unheld_until.is_none())
    }
}
