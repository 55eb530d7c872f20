//! The addresses of workers, so that the supervisor can tell whether a new worker listens on all addresses of
//! its predecessor.

use forkful_core::supervisor::Sockets;

use crate::dispatcher::Dispatcher;
use crate::id::{ListeningId, WorkerId};
use crate::listening::Listening;
use crate::worker::{Stage, Worker};

impl Dispatcher {
    /// Addresses on which `old` listens and its successor does not (yet). Empty if the successor listens on
    /// as many addresses, because then it has moved. Addresses that only `old` has, while other workers of
    /// the app serve, are not expected of another process: a port or path may contain a process id.
    pub fn missing_of(&self, new: WorkerId, old: WorkerId) -> Vec<ListeningId> {
        let (Some(new), Some(of_old)) = (self.workers.get(&new), self.workers.get(&old)) else {
            return Vec::new();
        };
        if new.listens() >= of_old.listens() {
            return Vec::new();
        }
        let serving = self.workers.iter().filter(|(id, worker)| **id != old && worker.stage == Stage::Open);
        let others: Vec<&Worker> =
            serving.map(|(_, worker)| worker).filter(|worker| !worker.holds.is_empty()).collect();
        let is_missing = |id: &ListeningId| {
            let shared = others.is_empty() || others.iter().any(|other| other.listens_on(*id));
            shared && !new.listens_on(*id)
        };
        of_old.listening_on().filter(is_missing).collect()
    }

    /// What a supervisor needs to know about a starting worker that may replace another. Sockets of its own
    /// are not included.
    pub fn sockets_of(&self, worker: WorkerId, old: Option<WorkerId>) -> Sockets {
        Sockets {
            has_asked: self.has_asked(worker),
            shares: self.listening_on(worker).next().is_some(),
            own: None,
            lacks_address: old.is_some_and(|old| !self.missing_of(worker, old).is_empty()),
            follows_listener: old.is_some_and(|old| self.has_asked(old)),
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
        self.listenings.values().any(|listening| listening.unheld_until.is_none())
    }
}
