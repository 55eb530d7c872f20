//! Moves kept connections to workers that have fewer.
//!
//! This file selects the workers to compare, asks their agents for the number of connections that stay, and
//! tells an agent how many to give up. [`forkful_core::steering::evenness`] decides when and how many.

use forkful_core::Time;
use forkful_core::spec::Balance;
use forkful_core::steering::evenness::{Connections, is_uneven};

use crate::action::{Action, Message, Outbox};
use crate::dispatcher::Dispatcher;
use crate::id::WorkerId;
use crate::worker::{Counting, Stage, Worker};

impl Dispatcher {
    /// Asks the workers, when due, how many connections stay with them.
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

    /// Whether connections may move between the serving workers: there are several, each has an agent and its
    /// full share, and all listen on the same addresses. Not with `sticky`, where each client has its worker,
    /// and not with `shared`, where a reconnecting client gets any worker.
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

    /// An agent reports the number of connections that stay; once all have, some workers may have to give up
    /// a few.
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

    /// New connections arrive: if the workers were not asked for a long time, they are asked. An app without
    /// connections has no timer for this.
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

    /// A worker was handed a connection: the daemon's own counts may already show unevenness.
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

    /// The set of serving workers has changed, or connections are uneven: replies to earlier questions are no
    /// longer useful.
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
