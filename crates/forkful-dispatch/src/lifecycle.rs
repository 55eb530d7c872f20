//! Workers start, reply and exit.

use std::time::Duration;

use forkful_core::Time;
use forkful_core::spec::Balance;
use forkful_core::steering::slow_start::Rise;

use crate::action::{Action, Later, Message, Outbox, TakenBack};
use crate::channel::{HandleLine, Pushed};
use crate::dispatcher::{Dispatcher, EXITED_GRACE};
use crate::id::{ConnectionId, ListeningId, WorkerId};
use crate::listening::Listening;
use crate::worker::Stage;

/// A listening socket that a worker could not accept (no free descriptors) is offered again after this time.
const REPLY_RETRY: Duration = Duration::from_millis(100);

/// Workers start and exit, and their replies.
impl Dispatcher {
    pub(crate) fn set_stage(&mut self, id: WorkerId, from: Stage, to: Stage, now: Time, out: &mut Outbox) {
        if let Some(worker) = self.workers.get_mut(&id).filter(|worker| worker.stage == from) {
            worker.stage = to;
            worker.rise = Rise::begin(now, self.slow_start).filter(|_| to == Stage::Open);
            if to != Stage::Open {
                // Queued connections would otherwise reach a worker that gets no more connections.
                for pushed in worker.channel.take_waiting() {
                    self.take_back(pushed, out);
                }
            }
            self.after_change(now, out);
        }
    }

    /// The set of workers that may get connections has changed.
    pub(crate) fn after_change(&mut self, now: Time, out: &mut Outbox) {
        self.begin_looks(now);
        self.refresh_all(now, out);
        out.push(Action::Later(Later::Dispatch));
    }

    pub(crate) fn drain(&mut self, id: WorkerId, now: Time, out: &mut Outbox) {
        self.set_stage(id, Stage::Open, Stage::Closed, now, out);
        let Some(worker) = self.workers.get_mut(&id).filter(|worker| worker.stage < Stage::Draining) else {
            return;
        };
        worker.stage = Stage::Draining;
        // A worker stops accepting from a shared socket only by closing it, which `disconnect` does; until
        // then it would keep accepting, and never finish.
        let shares = worker.holds.keys().any(|id| self.listenings.get(id).is_some_and(Listening::is_shared));
        if worker.agent && !shares {
            out.push(Action::Tell(id, Message::Drain { closes: None }));
        } else {
            self.disconnect(id, out);
        }
        self.give_up_left(id, out);
        self.after_change(now, out);
    }

    /// A worker is disconnected, which may end it at once. One that handles its stop is told to stop first.
    pub(crate) fn on_drained(&mut self, id: WorkerId, stops: bool, now: Time, out: &mut Outbox) {
        let Some(worker) = self.workers.get_mut(&id).filter(|worker| worker.stage == Stage::Draining) else {
            return;
        };
        if stops {
            worker.farewell.drained = true;
            worker.await_last_words(now);
        } else {
            self.disconnect(id, out);
        }
    }

    /// Tells a worker to disconnect, once. Its queued connections go to other workers.
    pub(crate) fn disconnect(&mut self, id: WorkerId, out: &mut Outbox) {
        if let Some(worker) = self.workers.get_mut(&id).filter(|worker| worker.stage != Stage::Disconnecting)
        {
            worker.stage = Stage::Disconnecting;
            let seq = worker.next_seq();
            self.end_channel(id, Message::Disconnect { seq }, out);
        }
    }

    pub(crate) fn on_leaves(&mut self, id: WorkerId, ack: u64, now: Time, out: &mut Outbox) {
        if let Some(worker) = self.workers.get_mut(&id) {
            let before = std::mem::replace(&mut worker.stage, Stage::Disconnecting);
            let seq = worker.next_seq();
            self.end_channel(id, Message::Acknowledge { ack, seq }, out);
            if before != Stage::Disconnecting {
                self.after_change(now, out);
            }
        }
    }

    /// Sends the line at which a worker closes its channel. Its queued connections go to other workers.
    fn end_channel(&mut self, id: WorkerId, last: Message, out: &mut Outbox) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let waiting = worker.channel.end();
        out.push(Action::Tell(id, last));
        let some = waiting.iter().any(|line| line.connection().is_some());
        waiting.into_iter().for_each(|line| self.give_up_line(id, line, out));
        if some {
            out.push(Action::Later(Later::Dispatch));
        }
    }

    /// A handle line will not be sent to its worker.
    fn give_up_line(&mut self, worker: WorkerId, line: HandleLine, out: &mut Outbox) {
        match line {
            HandleLine::Probe => {}
            HandleLine::Reply(reply) => out.push(Action::DropReply { worker, reply }),
            HandleLine::Connection(pushed) => self.take_back(pushed, out),
        }
    }

    pub(crate) fn on_gone(&mut self, id: WorkerId, may_have_served: bool, now: Time, out: &mut Outbox) {
        let Some(worker) = self.workers.get(&id) else { return };
        let held: Vec<ListeningId> = worker.holds.keys().copied().collect();
        for listening in held {
            self.release(id, listening, EXITED_GRACE, now);
        }
        let Some(worker) = self.workers.remove(&id) else { return };
        let (in_flight, waiting) = worker.channel.into_unanswered();
        self.redirect(in_flight, waiting, may_have_served, out);
        // Its connections end with its process, and their closes are reported like all others. Searching all
        // open connections would block the loop for milliseconds if there are a million.
        self.retries.retain(|(_, owner, _)| *owner != id);
        self.after_change(now, out);
    }

    pub(crate) fn on_muted(&mut self, id: WorkerId, may_have_served: bool, now: Time, out: &mut Outbox) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        worker.agent = false;
        let (in_flight, waiting) = worker.channel.mute();
        self.redirect(in_flight, waiting, may_have_served, out);
        self.retries.retain(|(_, owner, _)| *owner != id);
        self.after_change(now, out);
    }

    /// Connections that were on their way to a worker which takes no more go to others.
    fn redirect(
        &mut self,
        in_flight: Option<Pushed>,
        waiting: impl Iterator<Item = Pushed>,
        may_have_served: bool,
        out: &mut Outbox,
    ) {
        if let Some(pushed) = in_flight {
            if may_have_served {
                self.lose(pushed, out);
            } else {
                self.take_back(pushed, out);
            }
        }
        for pushed in waiting {
            self.take_back(pushed, out);
        }
    }

    /// A connection that an ended worker may have served goes to no other worker.
    fn lose(&mut self, pushed: Pushed, out: &mut Outbox) {
        // A connection for exactly this worker, such as a health check's, does not count as lost.
        if let Some(listening) = self.listenings.get_mut(&pushed.listening).filter(|_| !pushed.pinned) {
            listening.counters.lost += 1;
        }
        out.push(Action::Close(pushed.connection));
    }

    pub(crate) fn set_balance(&mut self, balance: Balance, now: Time, out: &mut Outbox) {
        if self.balance == balance {
            return;
        }
        self.balance = balance;
        for (id, listening) in &mut self.listenings {
            let is_held = self.workers.values().any(|worker| worker.holds.contains_key(id));
            listening.set_balance(balance, is_held, now);
        }
        self.after_change(now, out);
    }

    pub(crate) fn on_greeted(&mut self, id: WorkerId, now: Time) {
        if let Some(worker) = self.workers.get_mut(&id)
            && !std::mem::replace(&mut worker.agent, true)
        {
            self.begin_looks(now);
        }
    }

    pub(crate) fn on_handle_taken(&mut self, id: WorkerId, now: Time, out: &mut Outbox) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        match worker.channel.in_flight() {
            Some(HandleLine::Reply(reply)) => {
                worker.answered(now);
                out.push(Action::DropReply { worker: id, reply });
            }
            Some(HandleLine::Connection(_)) => worker.channel.leave_push(),
            // A reply without a question.
            Some(HandleLine::Probe) | None => return,
        }
        out.push(Action::Flush(id));
        self.on_turned(id, now, out);
        out.push(Action::Later(Later::Dispatch));
    }

    pub(crate) fn on_handle_missed(&mut self, id: WorkerId, now: Time, out: &mut Outbox) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let Some(line) = worker.answered(now) else { return };
        out.push(Action::Flush(id));
        if matches!(line, HandleLine::Probe) {
            worker.evidence.proof = Some(now);
        }
        self.on_turned(id, now, out);
        match line {
            HandleLine::Probe => {}
            HandleLine::Reply(reply) => self.retries.push((now + REPLY_RETRY, id, reply)),
            HandleLine::Connection(pushed) => self.on_refused(id, pushed, now, out),
        }
        out.push(Action::Later(Later::Dispatch));
    }

    pub(crate) fn on_taken_back(&mut self, id: WorkerId, outcome: TakenBack, out: &mut Outbox) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let recalled = match outcome {
            TakenBack::Unread => worker.channel.recalled(),
            TakenBack::Read | TakenBack::Refused { for_good: false } => None,
            TakenBack::Refused { for_good: true } => {
                worker.channel.forbid_recalls();
                None
            }
        };
        if let Some(pushed) = recalled {
            self.take_back(pushed, out);
        }
        out.push(Action::Flush(id));
    }

    pub(crate) fn flush_again(&mut self, now: Time, out: &mut Outbox) {
        if self.flush_at.is_some_and(|at| at <= now) {
            self.flush_at = None;
            self.looked_at = now;
            let held_up = self.workers.iter().filter(|(_, worker)| worker.channel.handles_full());
            held_up.for_each(|(id, _)| out.push(Action::Flush(*id)));
        }
    }

    pub(crate) fn retry_replies(&mut self, now: Time, out: &mut Outbox) {
        let (due, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.retries).into_iter().partition(|(at, ..)| *at <= now);
        self.retries = rest;
        for (_, id, reply) in due {
            self.queue(id, HandleLine::Reply(reply), now, out);
        }
    }

    /// Queues a handle line for a worker.
    pub(crate) fn queue(&mut self, id: WorkerId, line: HandleLine, now: Time, out: &mut Outbox) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if worker.channel.queue(line, now) {
            out.push(Action::Flush(id));
        } else {
            self.give_up_line(id, line, out);
        }
    }
}

/// The supervisor's requests to single workers.
impl Dispatcher {
    /// Asks a worker to prove that its event loop is responsive.
    pub(crate) fn probe(&mut self, id: WorkerId, now: Time, out: &mut Outbox) {
        self.queue(id, HandleLine::Probe, now, out);
    }

    pub(crate) fn ask(&mut self, id: WorkerId, now: Time, out: &mut Outbox) {
        if self.workers.get(&id).is_some_and(|worker| worker.channel.is_idle()) {
            self.probe(id, now, out);
        }
    }

    /// The TCP address through which [`Event::Deliver`](crate::Event::Deliver) can give a worker a connection
    /// now.
    pub fn delivers_by(&self, worker: WorkerId) -> Option<ListeningId> {
        let worker = self.workers.get(&worker).filter(|worker| worker.channel.is_idle())?;
        worker.listening_on().find(|id| self.listenings.get(id).is_some_and(Listening::is_tcp))
    }

    pub(crate) fn deliver(
        &mut self,
        id: WorkerId,
        listening: ListeningId,
        connection: ConnectionId,
        now: Time,
        out: &mut Outbox,
    ) {
        let Some(worker) = self.workers.get_mut(&id) else { return out.push(Action::Close(connection)) };
        worker.evidence.proof = None;
        let seq = worker.next_seq();
        let pushed =
            Pushed { connection, cookie: None, listening, unix: false, seq, rescued: false, pinned: true };
        self.queue(id, HandleLine::Connection(pushed), now, out);
    }
}
