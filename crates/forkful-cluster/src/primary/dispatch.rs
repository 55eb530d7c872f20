//! The daemon hands connections to workers: exact mode, and connections rescued from a queue.
//!
//! A push cannot be recalled, so a connection goes only to a worker that has just proved that its
//! loop turns, and that has nothing unanswered: the proof is a probe answered *after* the last push
//! was acknowledged. The acknowledgement itself proves nothing: it comes before the pushed
//! connection's request is read, and that request may block the loop.
//!
//! Among workers that answer, the one with the fewest open connections gets the next one, so that
//! few long-lived connections are spread evenly. A worker that does not answer within [`LATE`]
//! counts for nothing until it does.

use std::os::fd::AsFd;
use std::time::Duration;

use forkful_core::Time;
use forkful_os::listener;

use super::listening::Pending;
use super::worker::{LATE, Stage, Worker, WorkerId};
use super::{Owned, Primary, Token};
use crate::channel::{HandleLine, Pushed};

/// A push that the worker has not read for so long is taken back and goes to another.
const RECALL_AFTER: Duration = Duration::from_millis(2);
/// Lines for a worker wait behind a push that may be taken back. One that reads gets to them by reading the push, which
/// it answers at once; this is for whoever does not follow the protocol.
const HELD_MAX: Duration = Duration::from_millis(100);
/// A proof is good for so long: less than a request takes to arrive behind its connection.
const PROOF_FRESH: Duration = Duration::from_micros(100);
/// Accepted connections that wait in the daemon, per address; the rest waits in the kernel's queue.
const PENDING_MAX: usize = 64;
/// After a failed accept (no descriptors, no memory) connections are left in the kernel's queue for so long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// First pause after a worker refused a connection (full, closing, out of descriptors); doubles up to 64 times.
const REFUSED_PAUSE: Duration = Duration::from_millis(5);

/// A silent worker is waited for a [`LATE`] longer for each connection that the next one would be ahead of it, up to
/// so many: on a busy machine a healthy worker is silent for milliseconds, and passing it over each time would make
/// long-lived connections uneven. Short connections give nobody a lead, so they wait no longer than [`LATE`].
const PATIENCE_MAX: u32 = 5;

enum Choice {
    Push(WorkerId),
    Probe(WorkerId),
    Wait,
}

impl Primary {
    /// Takes connections out of a socket's queue and hands them on.
    pub(super) fn accept_from(&mut self, index: usize, member: usize, rescued: bool, now: Time) {
        let room = self.room(index, now);
        let Some(listening) = self.listenings.get_mut(&index) else { return };
        let mut accepted = 0_u32;
        while listening.pending.len() < room {
            let connection = match listener::accept(listening.socket(member)) {
                Ok(Some(connection)) => connection,
                Ok(None) => break,
                Err(_) => {
                    listening.accept_again = Some(now + ACCEPT_PAUSE);
                    break;
                }
            };
            listening.pending.push_back(Pending { connection, rescued });
            accepted += 1;
        }
        if accepted > 0 {
            if !rescued {
                self.count_arrivals(index, accepted, now);
            }
            self.dispatch(index, now);
        }
        self.watch_members(index, now);
    }

    /// How many connections may wait in the daemon: none without a worker to serve them, one while
    /// all workers are silent (it goes to the first that answers), else the bound.
    pub(super) fn room(&self, index: usize, now: Time) -> usize {
        let mut serving = self.workers.values().filter(|worker| worker.serves(index)).peekable();
        if serving.peek().is_none() {
            0
        } else if serving.any(|worker| worker.responsive(now)) {
            PENDING_MAX
        } else {
            1
        }
    }

    /// Pauses after failed accepts end.
    pub(super) fn accept_again(&mut self, now: Time) {
        let mut next = 0;
        while let Some((&index, listening)) = self.listenings.range_mut(next..).next() {
            next = index + 1;
            if listening.accept_again.is_some_and(|at| at <= now) {
                listening.accept_again = None;
                self.watch_members(index, now);
            }
        }
    }

    pub(super) fn dispatch_all(&mut self, now: Time) {
        self.looked_at = now;
        self.recall_overdue(now);
        let mut next = 0;
        while let Some((&index, listening)) = self.listenings.range(next..).next() {
            next = index + 1;
            if !listening.pending.is_empty() {
                self.dispatch(index, now);
                self.watch_members(index, now);
            }
        }
    }

    fn dispatch(&mut self, index: usize, now: Time) {
        loop {
            match self.choose(index, now) {
                Choice::Push(id) => self.push(index, id, now),
                Choice::Probe(id) => self.probe(id, now),
                Choice::Wait => return,
            }
        }
    }

    fn choose(&mut self, index: usize, now: Time) -> Choice {
        let waiting = self.listenings.get(&index).map_or(0, |listening| listening.pending.len());
        if waiting == 0 {
            return Choice::Wait;
        }
        let serving = || self.workers.iter().filter(|(_, w)| w.serves(index) && w.responsive(now));
        let Some(fewest) = serving().map(|(_, worker)| worker.burden(now)).min() else {
            return Choice::Wait;
        };
        // More connections than workers: a rush, in which taking turns matters more than one probe each.
        let rush = waiting > serving().count();
        let proven =
            |worker: &Worker| is_fresh(worker.proof, now) || rush && is_fresh(worker.acknowledged, now);
        let asked = serving().filter(|(_, w)| matches!(w.channel.in_flight(), Some(HandleLine::Probe)));
        let may_ask = asked.count() < waiting;
        let best = serving()
            .filter(|(_, worker)| worker.burden(now) == fewest && worker.channel.idle())
            .min_by_key(|(_, worker)| (!proven(worker), worker.last_assigned));
        // A worker that is behind is waited for longer, the further the others are ahead of it.
        let behind = |ahead: u32| {
            self.workers.values().filter(|w| w.serves(index)).any(|worker| {
                let lead = (ahead.saturating_sub(worker.burden(now)) / 2).min(PATIENCE_MAX);
                worker.channel.waiting_since().is_some_and(|since| {
                    let silent = now.since(since);
                    lead > 0 && silent >= LATE && silent < LATE * (1 + lead)
                })
            })
        };
        if best.is_some_and(|(_, worker)| behind(worker.burden(now))) {
            return Choice::Wait;
        }
        match best {
            Some((id, worker)) if proven(worker) => Choice::Push(*id),
            Some((id, _)) if may_ask => Choice::Probe(*id),
            Some(_) | None => Choice::Wait,
        }
    }

    /// Asks a worker to prove that its loop turns.
    pub(super) fn probe(&mut self, id: WorkerId, now: Time) {
        self.with_channel(id, |channel| channel.send_handle(HandleLine::Probe, now));
    }

    fn push(&mut self, index: usize, id: WorkerId, now: Time) {
        let Some(listening) = self.listenings.get_mut(&index) else { return };
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let Some(pending) = listening.pending.pop_front() else { return };
        self.assigned += 1;
        worker.last_assigned = self.assigned;
        worker.proof = None;
        let seq = worker.next_seq();
        // A rescued connection of an address in direct mode is not counted: nobody would tell of its end.
        let counted = self.counts_closes && listening.tells_closes();
        let cookie = counted.then(|| listener::cookie(pending.connection.as_fd()).ok()).flatten();
        if let Some(cookie) = cookie {
            worker.connections += 1;
            self.open_connections.insert(cookie, Owned { worker: id, listening: index });
        }
        let pushed = Pushed {
            connection: pending.connection,
            cookie,
            listening: index,
            unix: listening.is_unix(),
            seq,
            rescued: pending.rescued,
            pinned: false,
        };
        worker.channel.send_handle(HandleLine::Connection(pushed), now);
        self.watch_write(id);
        self.note_unevenness(id, now);
    }

    pub(super) fn on_accepted(&mut self, id: WorkerId, ack: u64, accepted: bool, now: Time) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let is_ours = matches!(worker.channel.in_flight(), Some(HandleLine::Connection(p)) if p.seq == ack);
        if !is_ours {
            return;
        }
        let answered = worker.answered(now);
        worker.acknowledged = accepted.then_some(now);
        self.on_turned(id, now);
        if let Some((HandleLine::Connection(pushed), _)) = answered {
            self.with_channel(id, |channel| channel.flush(now));
            if accepted {
                if let Some(worker) = self.workers.get_mut(&id) {
                    worker.refusals = 0;
                }
                if let Some(listening) = self.listenings.get_mut(&pushed.listening).filter(|_| !pushed.pinned)
                {
                    listening.counters.handed_over += 1;
                    listening.counters.rescued += u64::from(pushed.rescued);
                }
            } else {
                self.on_refused(id, pushed, now);
            }
        }
        self.dispatch_all(now);
    }

    /// The worker did not take the connection: it goes to another, and the worker gets a pause.
    pub(super) fn on_refused(&mut self, id: WorkerId, pushed: Pushed, now: Time) {
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.refused_until = Some(now + REFUSED_PAUSE * 2_u32.pow(worker.refusals.min(6)));
            worker.refusals += 1;
        }
        self.take_back(pushed);
    }

    /// A connection that its worker never saw waits for another.
    pub(super) fn take_back(&mut self, pushed: Pushed) {
        if pushed.pinned {
            return;
        }
        if let Some(cookie) = pushed.cookie {
            self.connection_closed(cookie);
        }
        if let Some(listening) = self.listenings.get_mut(&pushed.listening) {
            listening.pending.push_front(Pending { connection: pushed.connection, rescued: true });
        }
    }

    /// When a silent worker becomes late or a pause ends while connections wait, or a push is overdue.
    pub(super) fn next_dispatch(&self) -> Option<Time> {
        let serving = |index: usize| self.workers.values().filter(move |worker| worker.serves(index));
        let waiting = self
            .listenings
            .iter()
            .filter(|(_, listening)| !listening.pending.is_empty())
            .flat_map(|(index, _)| serving(*index))
            .filter_map(|worker| match worker.channel.waiting_since() {
                Some(since) => {
                    (1..=PATIENCE_MAX + 1).map(|n| since + LATE * n).find(|at| *at > self.looked_at)
                }
                None => worker.refused_until,
            });
        let pushed = self.workers.values().filter_map(pushed_since).map(|since| since + RECALL_AFTER);
        let held = self.workers.values().filter_map(|worker| worker.channel.held_since());
        let held = held.map(|since| since + HELD_MAX);
        // What was due at the last look has been dealt with: then an answer, not time, decides.
        waiting.chain(pushed).chain(held).filter(|at| *at > self.looked_at).min()
    }

    /// Pushes that a worker has not read for a while go to others.
    fn recall_overdue(&mut self, now: Time) {
        let overdue: Vec<WorkerId> = self
            .workers
            .iter()
            .filter(|(_, worker)| pushed_since(worker).is_some_and(|since| now.since(since) >= RECALL_AFTER))
            .map(|(id, _)| *id)
            .collect();
        for id in overdue {
            let others = self
                .workers
                .iter()
                .any(|(other, worker)| *other != id && worker.stage == Stage::Open && !worker.late(now));
            let Some(worker) = self.workers.get_mut(&id).filter(|_| others) else { continue };
            if let Some(pushed) = worker.channel.recall(now) {
                self.take_back(pushed);
            }
            self.watch_write(id);
        }
        let held = self.workers.iter().filter(|(_, worker)| {
            worker.channel.held_since().is_some_and(|since| now.since(since) >= HELD_MAX)
        });
        for id in held.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.with_channel(id, |channel| channel.leave_push(now));
        }
    }

    /// Forgets who has which connection of an address: it is spread by the kernel now, or given up, and ends are told
    /// no more.
    pub(super) fn forget_connections_of(&mut self, index: usize) {
        let workers = &mut self.workers;
        for (_, owned) in self.open_connections.extract_if(|_, owned| owned.listening == index) {
            if let Some(worker) = workers.get_mut(&owned.worker) {
                worker.connections = worker.connections.saturating_sub(1);
            }
        }
    }

    /// Forgets who has which connection: no ends are told any more, or all from now on.
    pub(super) fn forget_connections(&mut self) {
        self.open_connections.clear();
        for worker in self.workers.values_mut() {
            worker.connections = 0;
        }
    }

    pub(super) fn on_member_ready(&mut self, index: usize, member: usize, now: Time) {
        if self.is_served(index, member) {
            self.begin_sampling(index, now);
        } else {
            self.accept_from(index, member, member != 0, now);
        }
    }

    pub(super) fn member_token(&self, listening: usize, member: usize) -> u64 {
        Token::Member { listening, member }.encode(self.config.token_base)
    }
}

fn is_fresh(proof: Option<Time>, now: Time) -> bool {
    proof.is_some_and(|at| now.since(at) <= PROOF_FRESH)
}

/// Since when a pushed connection is unanswered.
fn pushed_since(worker: &Worker) -> Option<Time> {
    match worker.channel.in_flight() {
        Some(HandleLine::Connection(pushed)) if !pushed.pinned => worker.channel.answer_since(),
        Some(HandleLine::Connection(_) | HandleLine::Probe | HandleLine::Reply { .. }) | None => None,
    }
}
