//! The supervisor's requests to single workers, apart from traffic: reports of the agent, whether the event
//! loop is responsive or was blocked, and a connection for exactly this worker (a health check).

use std::os::fd::OwnedFd;
use std::time::Duration;

use forkful_core::Time;
use forkful_core::profile::ProfileOrder;
use forkful_dispatch::{Event, ListeningId, ReplyId, WorkerId};
use forkful_os::listener::queue_length;

use super::listening::Listening;
use super::{MessageRefused, Primary, PrimaryEvent, ReportPace};
use crate::channel::Reply;
use crate::protocol::incoming::{AgentReport, NodeVersion};
use crate::protocol::outgoing;

impl Primary {
    /// Makes all agents report at this pace; `None` stops them. Workers without an agent do not report.
    pub fn want_reports(&mut self, pace: Option<ReportPace>, now: Time) {
        if self.times.reports == pace {
            return;
        }
        self.times.reports = pace;
        for id in self.dispatcher.with_agent().collect::<Vec<_>>() {
            self.order_reports(id, now);
        }
        self.perform_all(now);
    }

    /// Makes all agents report event-loop stalls of at least this length; `None` stops them.
    pub fn want_stalls(&mut self, from: Option<Duration>, now: Time) {
        if self.times.stalls_from == from {
            return;
        }
        self.times.stalls_from = from;
        for id in self.dispatcher.with_agent().collect::<Vec<_>>() {
            self.order_stalls(id, now);
        }
        self.perform_all(now);
    }

    /// An agent has said hello.
    pub(super) fn on_hello(&mut self, id: WorkerId, node: Option<NodeVersion>, now: Time) {
        if !self.dispatcher.has_agent(id) {
            self.events.push_back(PrimaryEvent::Greeted { worker: id, node });
            self.step(Event::Greeted(id), now);
        }
        if self.times.reports.is_some() {
            self.order_reports(id, now);
        }
        if self.times.stalls_from.is_some() {
            self.order_stalls(id, now);
        }
    }

    fn order_stalls(&mut self, id: WorkerId, now: Time) {
        let min_ms = self.times.stalls_from.map_or(0, |from| from.as_millis() as u64);
        self.send(id, outgoing::agent_stalls(min_ms), now);
    }

    fn order_reports(&mut self, id: WorkerId, now: Time) {
        let in_ms = |time: Option<Duration>| time.map_or(0, |time| time.as_millis() as u64);
        let (every, quiet) =
            (self.times.reports.map(|pace| pace.every), self.times.reports.and_then(|pace| pace.quiet));
        let at_once = self.times.reports.is_some_and(|pace| pace.at_once);
        self.send(id, outgoing::agent_report(in_ms(every), in_ms(quiet), at_once), now);
    }

    /// Tells an agent that the thread pool of its process exists, so that it may measure how long jobs wait.
    pub fn tell_of_pool(&mut self, id: WorkerId, now: Time) {
        if self.dispatcher.has_agent(id) {
            self.send(id, outgoing::agent_pool().to_vec(), now);
            self.perform_all(now);
        }
    }

    /// Asks an agent for the app's prom-client metrics; [`PrimaryEvent::Metrics`] is the answer.
    pub fn ask_for_metrics(&mut self, id: WorkerId, now: Time) {
        self.send(id, outgoing::agent_metrics().to_vec(), now);
        self.perform_all(now);
    }

    /// Answers an agent that wants the merged metrics (JSON in one line). One that cannot have them is told so.
    pub fn tell_merged(
        &mut self,
        id: WorkerId,
        question: u64,
        metrics: &str,
        now: Time,
    ) -> Result<(), MessageRefused> {
        let told = self.send_line(id, outgoing::agent_merged(question, Some(metrics)), now);
        if told.is_err() {
            // When this does not fit either, the agent goes on without an answer.
            let _unread = self.send_line(id, outgoing::agent_merged(question, None), now);
        }
        told
    }

    /// The number of connections in the queues of a worker's own sockets.
    pub fn queued(&self, id: WorkerId) -> u32 {
        let members = |(of, listening): (&ListeningId, &Listening)| {
            let own =
                (1..listening.watched.len()).filter(|member| self.dispatcher.is_owner(*of, *member, id));
            own.map(|member| queue_length(listening.socket(member)).unwrap_or(0)).sum::<u32>()
        };
        self.listenings.iter().map(members).sum()
    }

    /// Connections in queues that belong to no worker: they wait until one has room.
    pub fn waiting(&self) -> u32 {
        let waiting = |listening: &Listening| queue_length(listening.socket(0)).unwrap_or(0);
        self.listenings.values().map(waiting).sum()
    }

    pub(super) fn on_report(&mut self, worker: WorkerId, report: Box<AgentReport>) {
        self.events.push_back(PrimaryEvent::Report { worker, report });
    }

    /// Hands a connection to exactly this worker, as if it had arrived through a TCP address on which it
    /// listens. Returns it if there is no such address, or if the worker has not replied to the last line. If
    /// the worker refuses it, it is closed.
    pub fn hand_to(&mut self, id: WorkerId, connection: OwnedFd, now: Time) -> Result<(), OwnedFd> {
        let Some(listening) = self.dispatcher.delivers_by(id) else { return Err(connection) };
        let connection = self.connections.insert(connection);
        self.step(Event::Deliver { worker: id, listening, connection }, now);
        Ok(())
    }

    /// Has an agent take a profile and write it to `stream`, see [`protocol::profile`](crate::protocol::profile). Where the worker is about to
    /// end, the stream is closed.
    pub fn order_profile(&mut self, id: WorkerId, order: &ProfileOrder, stream: OwnedFd, now: Time) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        let reply = ReplyId(self.next_reply);
        self.next_reply += 1;
        channel.keep_reply(reply, Reply { line: outgoing::agent_profile(order), handle: stream });
        self.step(Event::Pass { worker: id, reply }, now);
    }

    /// Whether the worker listens on a shared TCP address.
    pub fn shares_tcp(&self, id: WorkerId) -> bool {
        self.dispatcher.shares_tcp(id)
    }

    /// Since when the worker owes a reply, if it does; not counted while other messages of the worker are
    /// read.
    pub fn owes_since(&self, id: WorkerId) -> Option<Time> {
        self.dispatcher.owes_since(id)
    }

    /// Asks the worker to prove that its event loop is responsive, unless it already owes a reply. Returns
    /// since when it has owed one: the longest time that the event loop can have been stuck.
    pub fn ask_whether_it_turns(&mut self, id: WorkerId, now: Time) -> Option<Time> {
        self.step(Event::Ask(id), now);
        self.dispatcher.owes_since(id)
    }
}
