//! The workers of an app, and which of them rest: nothing is under way with them, and nothing that they did lately still
//! counts. A connection concerns the workers that do not rest, and the first of those that do, so that it costs the same
//! with two workers and with hundreds.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use forkful_core::Time;

use crate::id::{ListeningId, WorkerId};
use crate::worker::{Counting, Stage, Worker};

/// The order in which workers that rest are given connections: how many they have, and when they were last given one.
type Rank = (u32, u64, WorkerId);

/// See the module's documentation. Everybody may read the workers as a map; they change through the functions here.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    all: BTreeMap<WorkerId, Worker>,
    /// Those that may not rest, in order.
    active: Vec<WorkerId>,
    /// Those that rest, by the addresses that they serve.
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
    /// A worker to be changed.
    pub(crate) fn get_mut(&mut self, id: &WorkerId) -> Option<&mut Worker> {
        self.rouse(*id);
        self.all.get_mut(id)
    }

    /// The same of all workers.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&WorkerId, &mut Worker)> {
        self.active = self.all.keys().copied().collect();
        self.resting.clear();
        self.all.iter_mut()
    }

    /// The same without their names.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Worker> {
        self.iter_mut().map(|(_, worker)| worker)
    }

    /// All workers, for what their agents are asked about their connections: whether a worker rests does not depend on it.
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

    /// Finds out which workers rest. Pauses that have ended by `now` have been dealt with.
    pub(crate) fn settle(&mut self, now: Time) {
        let Self { all, active, resting } = self;
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

    /// Whether those that count as resting do so, and are known where they serve and nowhere else.
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

    /// The first of the workers that rest and serve an address, by [`Rank`], and how many there are.
    pub(crate) fn resting(&self, listening: ListeningId) -> (Option<(&WorkerId, &Worker)>, usize) {
        let Some(ranks) = self.resting.get(&listening) else { return (None, 0) };
        (ranks.first().and_then(|(_, _, id)| self.all.get_key_value(id)), ranks.len())
    }

    /// A worker may not rest any more; what is known of it is still what was when it began to.
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
