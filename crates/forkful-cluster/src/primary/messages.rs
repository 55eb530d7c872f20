//! What workers say and are told: their channels read, understood and written.

use std::time::Duration;

use forkful_core::Time;
use forkful_os::reactor::Interest;

use super::worker::{Stage, WorkerId};
use super::{EINVAL, Primary, PrimaryEvent, Token};
use crate::channel::{Channel, HandleLine, OtherEnd, Pushed};
use crate::protocol::incoming::{AgentMessage, Incoming};
use crate::protocol::outgoing;

/// A worker that could not take a listening socket (out of descriptors) is offered it again after this.
const REPLY_RETRY: Duration = Duration::from_millis(100);
/// The kernel limits how many handles a user may have under way; after that, sending goes on in so long.
const FLUSH_AGAIN: Duration = Duration::from_millis(10);

impl Primary {
    /// Takes a turn's worth of what a worker says; whether there may be more.
    pub(super) fn read_channel(&mut self, id: WorkerId, now: Time) -> bool {
        let Some(worker) = self.workers.get_mut(&id) else { return false };
        let received = worker.channel.read();
        if received.app_spoke
            && let Some(words) = &mut worker.last_words
        {
            words.heard = now;
        }
        self.note_said(id, received.said);
        for message in received.messages {
            self.on_message(id, message, now);
        }
        if received.closed && self.workers.contains_key(&id) {
            self.events.push_back(PrimaryEvent::Disconnected(id));
            self.remove(id, OtherEnd::Closed, now);
        }
        self.watch_write(id);
        received.more
    }

    pub(super) fn on_message(&mut self, id: WorkerId, message: Incoming, now: Time) {
        match message {
            Incoming::Online => self.events.push_back(PrimaryEvent::Online(id)),
            Incoming::QueryServer { query, seq } => self.on_query(id, &query, seq, now),
            Incoming::BadQuery { seq } => self.refuse_query(id, seq, EINVAL, None, now),
            Incoming::Listening(query) => self.on_listening(id, &query, now),
            Incoming::Close { key } => self.on_close(id, &key, now),
            Incoming::ExitedAfterDisconnect { seq } => self.on_leaving(id, seq, now),
            Incoming::Accepted { ack, accepted } => self.on_accepted(id, ack, accepted, now),
            Incoming::HandleAck => self.on_handle_ack(id, now),
            Incoming::HandleNack => self.on_handle_nack(id, now),
            Incoming::HandleSent => {
                self.with_channel(id, |channel| channel.send(outgoing::handle_acknowledge().to_vec(), now));
            }
            Incoming::SocketsClosed { key } => {
                self.with_channel(id, |channel| channel.send(outgoing::sockets_all_closed(&key), now));
            }
            Incoming::SocketsCounted { key } => {
                self.with_channel(id, |channel| channel.send(outgoing::sockets_count(&key), now));
            }
            Incoming::Agent(AgentMessage::Hello(node)) => self.on_hello(id, node, now),
            Incoming::Agent(AgentMessage::Report(report)) => self.on_report(id, report),
            Incoming::Agent(AgentMessage::LacksWorkers) => {
                self.events.push_back(PrimaryEvent::LacksWorkers(id));
            }
            Incoming::Agent(AgentMessage::Count(connections)) => self.on_count(id, connections, now),
            Incoming::Agent(AgentMessage::Drained) => {
                if self.workers.get(&id).is_some_and(|worker| worker.stage == Stage::Draining) {
                    self.disconnect(id, now);
                }
            }
            Incoming::Ready => self.events.push_back(PrimaryEvent::Ready(id)),
            Incoming::User | Incoming::Ignored => {}
        }
    }

    /// Tells a worker to disconnect, once. What waited for its turn goes to others.
    pub(super) fn disconnect(&mut self, id: WorkerId, now: Time) {
        if let Some(worker) = self.workers.get_mut(&id).filter(|worker| worker.stage != Stage::Disconnecting)
        {
            worker.stage = Stage::Disconnecting;
            let seq = worker.next_seq();
            let waiting = worker.channel.send_last(outgoing::disconnect(seq), now);
            self.give_to_others(waiting, now);
            self.watch_write(id);
        }
    }

    pub(super) fn on_leaving(&mut self, id: WorkerId, ack: u64, now: Time) {
        if let Some(worker) = self.workers.get_mut(&id) {
            let before = std::mem::replace(&mut worker.stage, Stage::Disconnecting);
            let seq = worker.next_seq();
            let waiting = worker.channel.send_last(outgoing::acknowledge(ack, seq), now);
            self.give_to_others(waiting, now);
            if before != Stage::Disconnecting {
                self.after_change(now);
            }
        }
    }

    fn give_to_others(&mut self, waiting: Vec<Pushed>, now: Time) {
        if !waiting.is_empty() {
            for pushed in waiting {
                self.take_back(pushed);
            }
            self.dispatch_all(now);
        }
    }

    pub(super) fn on_handle_ack(&mut self, id: WorkerId, now: Time) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        match worker.channel.in_flight() {
            Some(HandleLine::Reply { .. }) => {
                worker.answered(now);
                self.with_channel(id, |channel| channel.flush(now));
            }
            Some(HandleLine::Connection(_)) => self.with_channel(id, |channel| channel.leave_push(now)),
            // An answer to nothing.
            Some(HandleLine::Probe) | None => return,
        }
        self.on_turned(id, now);
        self.dispatch_all(now);
    }

    /// A handle did not arrive, or a probe was answered.
    pub(super) fn on_handle_nack(&mut self, id: WorkerId, now: Time) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        match worker.answered(now) {
            None => return,
            Some((HandleLine::Probe, _)) => {
                worker.proof = Some(now);
                worker.channel.flush(now);
                self.on_turned(id, now);
            }
            Some((reply @ HandleLine::Reply { .. }, _)) => {
                self.retries.push((now + REPLY_RETRY, id, reply));
                self.on_turned(id, now);
            }
            Some((HandleLine::Connection(pushed), _)) => {
                self.with_channel(id, |channel| channel.flush(now));
                self.on_refused(id, pushed, now);
            }
        }
        self.dispatch_all(now);
    }

    pub(super) fn flush_again(&mut self, now: Time) {
        if self.flush_at.is_some_and(|at| at <= now) {
            self.flush_at = None;
            self.looked_at = now;
            let held = self.workers.iter().filter(|(_, worker)| worker.channel.handles_full());
            for id in held.map(|(id, _)| *id).collect::<Vec<_>>() {
                self.with_channel(id, |channel| channel.flush(now));
            }
        }
    }

    pub(super) fn retry_replies(&mut self, now: Time) {
        let retries = std::mem::take(&mut self.retries);
        let (due, rest): (Vec<_>, Vec<_>) = retries.into_iter().partition(|(at, _, _)| *at <= now);
        self.retries = rest;
        for (_, id, reply) in due {
            self.with_channel(id, |channel| channel.send_handle(reply, now));
        }
    }

    pub(super) fn with_channel(&mut self, id: WorkerId, act: impl FnOnce(&mut Channel)) {
        if let Some(worker) = self.workers.get_mut(&id) {
            act(&mut worker.channel);
        }
        self.watch_write(id);
    }

    /// Keeps the reactor's interest in writability true to whether there is something to write.
    pub(super) fn watch_write(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        self.some_broken |= worker.channel.broken();
        if worker.channel.handles_full() {
            self.flush_at.get_or_insert(self.looked_at + FLUSH_AGAIN);
        }
        let wants = worker.channel.wants_write();
        if wants != worker.watches_write {
            let interest = if wants { Interest::READ | Interest::WRITE } else { Interest::READ };
            let token = Token::Channel(id).encode(self.config.token_base);
            if self.reactor.modify(worker.channel.fd(), token, interest).is_ok() {
                worker.watches_write = wants;
            }
        }
    }
}
