//! What workers listen on, so that the supervisor can tell whether a new worker listens on all that its predecessor does.

use forkful_core::supervisor::Sockets;

use crate::dispatcher::Dispatcher;
use crate::id::{ListeningId, WorkerId};
use crate::listening::Listening;
use crate::worker::{Stage, Worker};

impl Dispatcher {
    /// What `old` listens on and its successor does not (yet). Nothing when the successor listens on as many
    /// addresses, for then it has moved. What `old` has to itself, while others of the app serve, is not expected of
    /// another process: a port or a path may be made of a process's number.
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

    /// What a supervisor asks about a worker that starts, and that may follow another. Sockets of their own are not
    /// among it.
    pub fn sockets_of(&self, worker: WorkerId, old: Option<WorkerId>) -> Sockets {
        Sockets {
            has_asked: self.has_asked(worker),
            shares: self.listening_on(worker).next().is_some(),
            own: None,
            lacks_address: old.is_some_and(|old| !self.missing_of(worker, old).is_empty()),
            follows_listener: old.is_some_and(|old| self.has_asked(old)),
        }
    }

    /// What a worker listens on.
    pub fn listening_on(&self, worker: WorkerId) -> impl Iterator<Item = ListeningId> {
        self.workers.get(&worker).into_iter().flat_map(Worker::listening_on)
    }

    /// Whether a worker has asked to listen on anything.
    pub fn has_asked(&self, worker: WorkerId) -> bool {
        self.workers.get(&worker).is_some_and(|worker| !worker.holds.is_empty())
    }

    /// Whether the worker has listened, and listens on nothing any more.
    pub fn has_closed_all(&self, worker: WorkerId) -> bool {
        self.workers.get(&worker).is_some_and(Worker::has_closed_all)
    }

    /// Whether the worker listens on a TCP address that it shares.
    pub fn shares_tcp(&self, worker: WorkerId) -> bool {
        self.listening_on(worker).any(|id| self.listenings.get(&id).is_some_and(Listening::is_tcp))
    }

    /// Whether any worker holds any address.
    pub fn listens(&self) -> bool {
        self.listenings.values().any(|listening| listening.unheld_until.is_none())
    }
}
