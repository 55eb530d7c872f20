//! The workers of an app, and which of them rest: nothing is in flight with them, and none of their recent
//! events still matters. A connection concerns only the workers that do not rest and the first one that
//! rests, so its cost does not grow with the number of workers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use forkful_core::Time;

use crate::id::{ListeningId, WorkerId};
use crate::worker::{Counting, Stage, Worker};

/// The order in which resting workers get connections: by number of connections, then by last assignment.
type Rank = (u32, u64, WorkerId);

/// See the module's documentation. The workers can be read as a map, but are changed only by the functions
/// here.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    all: BTreeMap<WorkerId, Worker>,
    /// The number of the app's slots, with those that have no worker now.
    pub(crate) slots: u16,
    /// Workers that may not rest, in order.
    active: Vec<WorkerId>,
    /// Resting workers, by the addresses that they serve.
    resting: BTreeMap<ListeningId, BTreeSet<Rank>>,
}

impl Deref for Workers {
    type Target = BTreeMap<WorkerId, Worker>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as the functions of a map")]
impl Workers {
    /// A worker, to change it.
    pub(crate) fn get_mut(&mut self, id: &WorkerId) -> Option<&mut Worker> {
        self.rouse(*id);
        self.all.get_mut(id)
    }

    /// The same for all workers.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&WorkerId, &mut Worker)> {
        self.active = self.all.keys().copied().collect();
        self.resting.clear();
        self.all.iter_mut()
    }

    /// The same without identifiers.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Worker> {
        self.iter_mut().map(|(_, worker)| worker)
    }

    /// All workers, for the questions to their agents about connections: resting does not depend on these.
    pub(crate) fn counting_mut(&mut self) -> impl Iterator<Item = (WorkerId, Stage, &mut Counting)> {
        self.all.iter_mut().map(|(id, worker)| (*id, worker.stage, &mut worker.counting))
    }

    pub(crate) fn insert(&mut self, id: WorkerId, worker: Worker) {
        self.rouse(id);
        self.all.insert(id, worker);
        self.rouse(id);
    }

    pub(crate) fn remove(&mut self, id: &WorkerId) -> Option<Worker> {
        self.rouse(*id);
        self.active.retain(|active| active != id);
        self.all.remove(id)
    }

    /// An address is given up.
    pub(crate) fn forget_address(&mut self, listening: ListeningId) {
        self.resting.remove(&listening);
    }

    /// Determines which workers rest. Pauses that have ended by `now` were handled.
    pub(crate) fn settle(&mut self, now: Time) {
        let Self { all, active, resting, .. } = self;
        active.retain(|id| {
            let Some(worker) = all.get_mut(id) else { return false };
            let rests = worker.rests(now);
            if rests {
                for listening in worker.serves_on() {
                    resting.entry(listening).or_default().insert(rank(*id, worker));
                }
            }
            !rests
        });
        debug_assert!(self.is_consistent(), "{self:#?}");
    }

    /// Whether workers in the resting set do rest, and are listed exactly where they serve.
    fn is_consistent(&self) -> bool {
        let mut ranks = 0;
        let are_known =
            self.all.iter().filter(|(id, _)| self.active.binary_search(id).is_err()).all(|(id, worker)| {
                worker.channel.rests()
                    && worker.serves_on().all(|listening| {
                        ranks += 1;
                        self.resting.get(&listening).is_some_and(|known| known.contains(&rank(*id, worker)))
                    })
            });
        are_known && ranks == self.resting.values().map(BTreeSet::len).sum::<usize>()
    }

    /// The workers that may not rest.
    pub(crate) fn active(&self) -> impl Iterator<Item = (&WorkerId, &Worker)> {
        self.active.iter().filter_map(|id| self.all.get_key_value(id))
    }

    /// The first of the resting workers of an address by [`Rank`], and their number.
    pub(crate) fn resting(&self, listening: ListeningId) -> (Option<(&WorkerId, &Worker)>, usize) {
        let Some(ranks) = self.resting.get(&listening) else { return (None, 0) };
        (ranks.first().and_then(|(_, _, id)| self.all.get_key_value(id)), ranks.len())
    }

    /// Removes a worker from the resting set; its data is still that from when it was added.
    fn rouse(&mut self, id: WorkerId) {
        let Err(place) = self.active.binary_search(&id) else { return };
        let Some(worker) = self.all.get(&id) else { return };
        for listening in worker.serves_on() {
            if let Some(ranks) = self.resting.get_mut(&listening) {
                ranks.remove(&rank(id, worker));
            }
        }
        self.active.insert(place, id);
    }
}

fn rank(id: WorkerId, worker: &Worker) -> Rank {
    (worker.connections, worker.last_assigned, id)
}
