//! What the supervisor asks of single workers beside their traffic: reports of the agent, whether the
//! loop turns, and a connection for exactly this worker (a health check).

use std::os::fd::OwnedFd;
use std::time::Duration;

use forkful_core::Time;

use super::{Primary, PrimaryEvent, WorkerId};
use crate::channel::{HandleLine, Pushed};
use crate::protocol::incoming::{AgentReport, NodeVersion};
use crate::protocol::outgoing;

impl Primary {
    /// Has the agents of all workers report so often; `None` ends it. Workers without an agent stay silent.
    pub fn want_reports(&mut self, every: Option<Duration>, now: Time) {
        if self.reports_every == every {
            return;
        }
        self.reports_every = every;
        let workers: Vec<WorkerId> =
            self.workers.iter().filter(|(_, worker)| worker.agent).map(|(id, _)| *id).collect();
        for id in workers {
            self.order_reports(id, now);
        }
    }

    /// An agent has said hello.
    pub(super) fn on_hello(&mut self, id: WorkerId, node: Option<NodeVersion>, now: Time) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if !std::mem::replace(&mut worker.agent, true) {
            self.events.push_back(PrimaryEvent::Greeted { worker: id, node });
            self.begin_looks(now);
        }
        if self.reports_every.is_some() {
            self.order_reports(id, now);
        }
    }

    fn order_reports(&mut self, id: WorkerId, now: Time) {
        let every_ms = self.reports_every.map_or(0, |every| every.as_millis() as u64);
        self.with_channel(id, |channel| channel.send(outgoing::agent_report(every_ms), now));
    }

    pub(super) fn on_report(&mut self, worker: WorkerId, report: AgentReport) {
        self.events.push_back(PrimaryEvent::Report { worker, report });
    }

    /// Hands a connection to this worker and no other, as if it had come in by a TCP address that it
    /// listens on. Gives it back when the worker has none, or has not answered the last line yet. One
    /// that the worker refuses is closed.
    pub fn hand_to(&mut self, id: WorkerId, connection: OwnedFd, now: Time) -> Result<(), OwnedFd> {
        let Some(worker) = self.workers.get_mut(&id).filter(|worker| worker.channel.idle()) else {
            return Err(connection);
        };
        let listens = worker.holds.iter().filter(|(_, hold)| hold.listening).map(|(index, _)| *index);
        let tcp = |index: &usize| self.listenings.get(index).is_some_and(super::listening::Listening::is_tcp);
        let Some(listening) = listens.into_iter().find(tcp) else { return Err(connection) };
        let seq = worker.next_seq();
        worker.proof = None;
        let pushed =
            Pushed { connection, cookie: None, listening, unix: false, seq, rescued: false, pinned: true };
        worker.channel.send_handle(HandleLine::Connection(pushed), now);
        self.watch_write(id);
        Ok(())
    }

    /// Whether the worker listens on a TCP address that it shares.
    pub fn shares_tcp(&self, id: WorkerId) -> bool {
        let holds = self.workers.get(&id).into_iter().flat_map(|worker| &worker.holds);
        holds
            .filter(|(_, hold)| hold.listening)
            .any(|(index, _)| self.listenings.get(index).is_some_and(super::listening::Listening::is_tcp))
    }

    /// Since when the worker owes an answer, if it does.
    pub fn owes_since(&self, id: WorkerId) -> Option<Time> {
        self.workers.get(&id)?.channel.waiting_since()
    }

    /// Asks the worker to prove that its loop turns, unless an answer is owed already. Gives since when
    /// one has been owed: the longest that the loop can have been stuck.
    pub fn ask_whether_it_turns(&mut self, id: WorkerId, now: Time) -> Option<Time> {
        if self.workers.get(&id)?.channel.idle() {
            self.probe(id, now);
        }
        self.workers.get(&id)?.channel.waiting_since()
    }
}
