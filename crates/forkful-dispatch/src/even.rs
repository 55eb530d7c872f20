//! Moves connections that clients keep to workers that have fewer.
//!
//! This file chooses the workers that are compared, asks their agents for the number of connections that stay, and tells
//! an agent how many of them to give up. [`forkful_core::steering::evenness`] decides when, and how many.

use forkful_core::Time;
use forkful_core::spec::Balance;
use forkful_core::steering::evenness::{Connections, is_uneven};

use crate::action::{Action, Message, Outbox};
use crate::dispatcher::Dispatcher;
use crate::id::WorkerId;
use crate::worker::{Counting, Stage, Worker};

impl Dispatcher {
    /// Asks the workers, when it is time, how many connections stay with them.
    pub(crate) fn look_at_evenness(&mut self, now: Time, out: &mut Outbox) {
        if !self.evenness.on_time(now) {
            return;
        }
        let compared = self.are_compared();
        if !compared {
            self.evenness.stop(now);
        }
        self.uncounted = 0;
        for (id, stage, counting) in self.workers.counting_mut() {
            if compared && stage == Stage::Open {
                self.uncounted += 1;
                *counting = Counting::Asked;
                out.push(Action::Tell(id, Message::Count));
            } else {
                *counting = Counting::Unasked;
            }
        }
    }

    /// Whether a connection may move between the workers that serve: there are several, each has an agent and its full share,
    /// and all listen on the same addresses. `sticky` has a place for each client, and in `shared` a connection
    /// that is made again goes to any worker.
    fn are_compared(&self) -> bool {
        if !matches!(self.balance, Balance::Auto | Balance::Exact | Balance::Least | Balance::Direct) {
            return false;
        }
        let mut serving = self.workers.values().filter(|worker| worker.stage == Stage::Open);
        if serving.clone().any(|worker| worker.rise.is_some()) {
            return false;
        }
        let Some(first) = serving.next() else { return false };
        let mut others = serving.peekable();
        others.peek().is_some()
            && first.agent
            && first.listens() > 0
            && others.all(|other| other.agent && other.listening_on().eq(first.listening_on()))
    }

    /// An agent says how many connections stay; once all have, some may have to give up a few.
    pub(crate) fn on_counted(&mut self, id: WorkerId, connections: Connections, now: Time, out: &mut Outbox) {
        let Some(worker) = self.workers.get_mut(&id).filter(|worker| worker.counting == Counting::Asked)
        else {
            return;
        };
        worker.counting = Counting::Told(connections);
        self.uncounted = self.uncounted.saturating_sub(1);
        if self.uncounted > 0 {
            return;
        }
        let mut told = Vec::new();
        let mut counts = Vec::new();
        for (id, worker) in self.workers.iter() {
            if let Counting::Told(connections) = worker.counting {
                told.push(*id);
                counts.push(connections);
            }
        }
        let moved = self.evenness.on_answers(now, &counts);
        for (id, moved) in told.into_iter().zip(moved).filter(|(_, moved)| *moved > 0) {
            out.push(Action::Tell(id, Message::Move(moved)));
        }
    }

    /// Connections come: where workers have not been asked for long, they are. An app without connections has no timer for that.
    pub(crate) fn glance(&mut self, now: Time) {
        if !self.evenness.may_glance(now) {
            return;
        }
        if self.are_compared() {
            self.evenness.glance(now);
        } else {
            self.evenness.stop(now);
        }
    }

    /// A worker was handed a connection: the counts of the daemon itself may show what to look into.
    pub(crate) fn note_unevenness(&mut self, id: WorkerId, now: Time) {
        let given = self.workers.get(&id).map_or(0, |worker| worker.connections);
        if given < 2 || !self.evenness.may_begin(now) {
            return;
        }
        let serving = self.workers.values().filter(|worker| worker.stage == Stage::Open);
        if is_uneven(serving.map(|worker: &Worker| worker.connections)) {
            self.begin_looks(now);
        }
    }

    /// Others serve than before, or connections are uneven: answers to earlier questions are of no use any more.
    pub(crate) fn begin_looks(&mut self, now: Time) {
        if self.are_compared() {
            self.evenness.on_change(now);
        } else {
            self.evenness.stop(now);
        }
        self.uncounted = 0;
        for (_, _, counting) in self.workers.counting_mut() {
            *counting = Counting::Unasked;
        }
    }
}
