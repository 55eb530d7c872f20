//! Moves connections that clients keep to workers that have fewer.
//!
//! This file chooses the workers that are compared, asks their agents for the number of connections that stay, and tells
//! an agent how many of them to give up. [`forkful_core::steering::evenness`] decides when, and how many.

use forkful_core::Time;
use forkful_core::spec::Balance;
use forkful_core::steering::evenness::{Connections, is_uneven};

use super::Primary;
use super::worker::{Counting, Stage, Worker, WorkerId};
use crate::protocol::outgoing;

impl Primary {
    /// Asks the workers, when it is time, how many connections stay with them.
    pub(super) fn look_at_evenness(&mut self, now: Time) {
        if !self.evenness.on_time(now) {
            return;
        }
        let compared = self.compared();
        if compared.is_empty() {
            self.evenness.stop(now);
        }
        for worker in self.workers.values_mut() {
            worker.counting = Counting::Unasked;
        }
        for id in compared {
            if let Some(worker) = self.workers.get_mut(&id) {
                worker.counting = Counting::Asked;
            }
            self.with_channel(id, |channel| channel.send(outgoing::agent_count().to_vec(), now));
        }
    }

    /// The workers among which a connection may move: all that serve, if there are several, each has an agent, and
    /// all listen on the same; else none. `sticky` has a place for each client, and the other modes leave
    /// the choice to the kernel.
    fn compared(&self) -> Vec<WorkerId> {
        if !matches!(self.config.balance, Balance::Auto | Balance::Exact) {
            return Vec::new();
        }
        let serving: Vec<(&WorkerId, &Worker)> =
            self.workers.iter().filter(|(_, worker)| worker.stage == Stage::Open).collect();
        let listens = |worker: &Worker| -> Vec<usize> {
            worker.holds.iter().filter(|(_, hold)| hold.listening).map(|(index, _)| *index).collect()
        };
        let Some(((_, first), others)) = serving.split_first() else { return Vec::new() };
        let of_first = listens(first);
        let alike = others.iter().all(|(_, other)| listens(other) == of_first);
        if others.is_empty()
            || of_first.is_empty()
            || !alike
            || !serving.iter().all(|(_, worker)| worker.agent)
        {
            return Vec::new();
        }
        serving.iter().map(|(id, _)| **id).collect()
    }

    /// An agent says how many connections stay; once all have, some may have to give up a few.
    pub(super) fn on_count(&mut self, id: WorkerId, connections: Connections, now: Time) {
        let Some(worker) = self.workers.get_mut(&id).filter(|worker| worker.counting == Counting::Asked)
        else {
            return;
        };
        worker.counting = Counting::Told(connections);
        let mut told = Vec::new();
        for (id, worker) in &self.workers {
            match worker.counting {
                Counting::Told(connections) => told.push((*id, connections)),
                Counting::Asked => return,
                Counting::Unasked => {}
            }
        }
        let counts: Vec<Connections> = told.iter().map(|(_, connections)| *connections).collect();
        let moved = self.evenness.on_answers(now, &counts);
        for ((id, _), moved) in told.iter().zip(moved).filter(|(_, moved)| *moved > 0) {
            self.with_channel(*id, |channel| channel.send(outgoing::agent_move(moved), now));
        }
    }

    /// A worker was handed a connection: the counts of the primary itself may show what to look into.
    pub(super) fn note_unevenness(&mut self, id: WorkerId, now: Time) {
        let given = self.workers.get(&id).map_or(0, |worker| worker.connections);
        if given < 2 || !self.evenness.may_begin(now) {
            return;
        }
        let serving = self.workers.values().filter(|worker| worker.stage == Stage::Open);
        if is_uneven(serving.map(|worker| worker.connections)) {
            self.begin_looks(now);
        }
    }

    /// Others serve than before, or connections are uneven: answers to earlier questions are of no use any more.
    pub(super) fn begin_looks(&mut self, now: Time) {
        if self.compared().is_empty() {
            self.evenness.stop(now);
        } else {
            self.evenness.on_change(now);
        }
        for worker in self.workers.values_mut() {
            worker.counting = Counting::Unasked;
        }
    }
}
