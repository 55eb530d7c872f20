//! The daemon hands connections to workers: in the modes `exact` and `least`, and for connections rescued
//! from a queue.
//!
//! A push cannot be recalled once it is read, so a connection goes only to a worker that has just proved that
//! its event loop is responsive, and that has nothing unacknowledged. The proof is the reply to a probe
//! *after* the last push was acknowledged. The acknowledgement itself proves nothing: it precedes reading the
//! request on the pushed connection, and that request may block the event loop. `least` requires no proof: a
//! worker gets a connection as soon as it has acknowledged the last one, and a blocked worker keeps it for
//! [`RECALL_AFTER`].
//!
//! Among responsive workers, the one with the fewest open connections gets the next one, so that a few
//! long-lived connections are evenly distributed. A worker that does not reply within [`LATE`] is skipped
//! until it does.

use std::time::Duration;

use forkful_core::Time;

use crate::action::{Action, Later, Outbox, Watch};
use crate::channel::{Channel, HandleLine, Pushed};
use crate::dispatcher::{Accepting, Assigned, Dispatcher, Owned};
use crate::id::{ListeningId, WorkerId};
use crate::listening::{Door, Listening, Pending};
use crate::worker::{LATE, Stage, Worker};

/// A push that the worker has not read for this long is taken back and goes to another worker.
const RECALL_AFTER: Duration = Duration::from_millis(2);
/// Lines for a worker wait behind a push that may be taken back. A worker that reads its channel reads the
/// push first and acknowledges it at once; this limit is for workers that violate the protocol.
const HELD_MAX: Duration = Duration::from_millis(100);
/// Accepted connections that wait in the daemon, per address; the rest waits in the kernel's queue.
pub(crate) const PENDING_MAX: usize = 64;
/// After a failed accept or watch (no descriptors, no memory), connections stay in the kernel's queue for
/// this time.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A silent worker is waited for one more [`LATE`] for each connection by which the next worker would be
/// ahead of it, up to this many. On a busy machine a healthy worker is silent for milliseconds, and always
/// skipping it would make long-lived connections uneven. Short connections give no worker a lead, so they
/// never wait longer than [`LATE`].
const PATIENCE_MAX: u32 = 5;

/// What to do with the connection that has waited longest.
enum Choice {
    Push(WorkerId),
    Probe(WorkerId),
    Wait,
}

impl Dispatcher {
    /// How many more connections may wait in the daemon now.
    pub fn room_left(&self, id: ListeningId, now: Time) -> usize {
        let Some(listening) = self.listenings.get(&id) else { return 0 };
        let waiting = listening.pending.len();
        match self.accepting {
            Accepting::Many | Accepting::Nothing => self.room(id, now).saturating_sub(waiting),
            Accepting::OneByOne => {
                // The choice will be the same when the connection has arrived.
                let queued = listening.door.queued.max(1);
                let can_send = || matches!(self.choose_of(id, queued, now), Choice::Push(_));
                usize::from(waiting == 0 && (can_send() || self.are_all_muted(id)))
            }
        }
    }

    /// How many connections may wait in the daemon: none without a serving worker, at most one while all
    /// workers are silent (it goes to the first that replies), otherwise the limit.
    pub(crate) fn room(&self, id: ListeningId, now: Time) -> usize {
        let active = self.workers.active().filter(|(_, worker)| worker.serves(id));
        let mut serving = self.workers.resting(id).0.into_iter().chain(active).peekable();
        if self.accepting == Accepting::Nothing || serving.peek().is_none() {
            0
        } else if serving.any(|(_, worker)| worker.responsive(now)) {
            PENDING_MAX
        } else {
            1
        }
    }

    pub(crate) fn on_member_ready(&mut self, id: ListeningId, member: usize, now: Time, out: &mut Outbox) {
        let is_served = self.is_served(id, member);
        let Some(listening) = self.listenings.get_mut(&id) else { return };
        if let Some(state) = listening.members.get_mut(member).filter(|state| state.watch == Watch::Once) {
            state.fired = true;
            // While a worker serves its queue, the samples see what comes; at their end it is watched again.
            if !is_served {
                listening.watched_for = None;
            }
        }
        if is_served {
            self.begin_sampling(id, now, out);
        } else if self.accepting == Accepting::OneByOne {
            self.knock(id, member, now, out);
        } else {
            out.push(Action::Accept { listening: id, member, rescued: member != 0 });
        }
    }

    /// A connection waits in the queue of a member until a worker can have it. One in the queue of a worker that does not take it comes
    /// before those in the daemon's own. The watches on other queues report theirs later.
    fn knock(&mut self, id: ListeningId, member: usize, now: Time, out: &mut Outbox) {
        let queued = if member == 0 { self.count_waiting(id, now, out) } else { 0 };
        if let Some(listening) =
            self.listenings.get_mut(&id).filter(|l| l.door.knock.is_none() || member != 0)
        {
            let again = listening.door.again;
            listening.door = Door { again, knock: Some(member), knocks_since: now, queued };
        }
        self.hand_over(id, now, out);
        self.watch_members(id, now, out);
    }

    pub(crate) fn on_arrived(&mut self, id: ListeningId, pending: Pending, out: &mut Outbox) {
        match self.listenings.get_mut(&id) {
            Some(listening) => {
                listening.pending.push_back(pending);
                listening.door.queued = listening.door.queued.saturating_sub(1);
            }
            None => out.push(Action::Close(pending.connection)),
        }
    }

    pub(crate) fn on_accept_ended(
        &mut self,
        id: ListeningId,
        count: u32,
        rescued: bool,
        failed: bool,
        now: Time,
        out: &mut Outbox,
    ) {
        let Some(listening) = self.listenings.get_mut(&id) else { return };
        if failed {
            listening.door.again = Some(now + ACCEPT_PAUSE);
        }
        if count > 0 {
            if !rescued {
                self.count_arrivals(id, count, now, out);
            }
            self.hand_over(id, now, out);
        }
        self.watch_members(id, now, out);
    }

    /// Pauses after failed accepts end.
    pub(crate) fn accept_again(&mut self, now: Time, out: &mut Outbox) {
        let mut next = ListeningId(0);
        while let Some((&id, listening)) = self.listenings.range_mut(next..).next() {
            next = id.next();
            if listening.door.again.is_some_and(|at| at <= now) {
                listening.door.again = None;
                self.watch_members(id, now, out);
            }
        }
    }

    /// The watch on a queue reports its waiting connections again.
    fn knock_again(&mut self, now: Time, out: &mut Outbox) {
        let mut next = ListeningId(0);
        while let Some((&id, listening)) = self.listenings.range_mut(next..).next() {
            next = id.next();
            if listening.next_knock().is_some_and(|at| at <= now) {
                listening.door.knock = None;
                self.watch_members(id, now, out);
            }
        }
    }

    pub(crate) fn dispatch_all(&mut self, now: Time, out: &mut Outbox) {
        self.looked_at = now;
        self.knock_again(now, out);
        self.workers.settle(now);
        if self.recall_overdue(now, out) {
            out.push(Action::Later(Later::HandOver));
        } else {
            self.hand_over_all(now, out);
        }
    }

    pub(crate) fn hand_over_all(&mut self, now: Time, out: &mut Outbox) {
        // An address that always has connections must not take each worker that becomes free.
        let next = self.assigned.last.next();
        let listenings = self.listenings.range(next..).chain(self.listenings.range(..next));
        let waiting = listenings.filter(|(_, listening)| listening.waiting() > 0);
        for id in waiting.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.hand_over(id, now, out);
            self.watch_members(id, now, out);
        }
    }

    fn hand_over(&mut self, id: ListeningId, now: Time, out: &mut Outbox) {
        loop {
            match self.choose(id, now) {
                Choice::Push(_) if self.let_in(id, out) => return,
                Choice::Push(worker) => self.push(id, worker, now, out),
                Choice::Probe(worker) => self.probe(worker, now, out),
                Choice::Wait if self.are_all_muted(id) => return self.turn_away(id, out),
                Choice::Wait => return,
            }
        }
    }

    /// Whether workers serve an address, and none of them can be given a connection any more.
    fn are_all_muted(&self, id: ListeningId) -> bool {
        let mut active = self.workers.active().filter(|(_, worker)| worker.serves(id)).peekable();
        active.peek().is_some()
            && active.all(|(_, worker)| worker.channel.is_muted())
            && self.workers.resting(id).0.is_none()
    }

    /// Connections that came while no worker listened have nobody who could be given them: their clients learn it at once.
    fn turn_away(&mut self, id: ListeningId, out: &mut Outbox) {
        let Some(listening) = self.listenings.get_mut(&id) else { return };
        listening.counters.lost += listening.pending.len() as u64;
        for pending in listening.pending.drain(..) {
            out.push(Action::Close(pending.connection));
        }
        if let Some(member) = listening.door.knock.take() {
            out.push(Action::Accept { listening: id, member, rescued: member != 0 });
        }
    }

    /// Accepts a connection from a queue that has reported one, unless an accepted connection is waiting.
    /// Returns whether none was waiting.
    fn let_in(&mut self, id: ListeningId, out: &mut Outbox) -> bool {
        let Some(listening) = self.listenings.get_mut(&id).filter(|listening| listening.pending.is_empty())
        else {
            return false;
        };
        let knock = listening.door.knock.take();
        // Its worker may serve that queue again.
        let knock = knock.filter(|member| *member == 0 || !self.is_served(id, *member));
        if let Some(member) = knock {
            out.push(Action::Accept { listening: id, member, rescued: member != 0 });
        }
        true
    }

    fn choose(&self, id: ListeningId, now: Time) -> Choice {
        let waiting = self.listenings.get(&id).map_or(0, Listening::waiting);
        if waiting == 0 { Choice::Wait } else { self.choose_of(id, waiting, now) }
    }

    /// The choice for the first waiting connection. `waiting`: the number of waiting connections.
    fn choose_of(&self, id: ListeningId, waiting: usize, now: Time) -> Choice {
        let Some(listening) = self.listenings.get(&id) else { return Choice::Wait };
        // The first of the resting workers precedes all other resting workers.
        let (first, resting) = self.workers.resting(id);
        let all = || self.workers.active().filter(|(_, worker)| worker.serves(id));
        let turning = || all().filter(|(_, worker)| worker.responsive(now)).chain(first);
        // New workers that have had their share come after the others, but they are used if there are no
        // others.
        let count = turning().count() + resting.saturating_sub(1);
        let gives_way = |worker: &Worker| worker.gives_way(self.assigned.count, count);
        let some_full = turning().any(|(_, worker)| !gives_way(worker));
        let active = || all().filter(|(_, worker)| !some_full || !gives_way(worker));
        let serving = || active().filter(|(_, worker)| worker.responsive(now)).chain(first);
        let Some(fewest) = serving().map(|(_, worker)| worker.load(now)).min() else {
            return Choice::Wait;
        };
        // More connections than workers: a rush, in which taking turns matters more than a probe for each
        // connection.
        let rush = waiting > serving().count() + resting.saturating_sub(1);
        // What such a worker does not read is taken back, so that a probe would protect nothing.
        let is_enough = |worker: &Worker| rush && worker.channel.recalls();
        let proven = |worker: &Worker| !listening.asks_first() || worker.is_proven(is_enough(worker), now);
        let asked = serving().filter(|(_, worker)| worker.channel.is_probed());
        let may_ask = asked.count() < waiting;
        let best = serving()
            .filter(|(_, worker)| worker.load(now) == fewest && worker.channel.is_idle())
            .min_by_key(|(_, worker)| (!proven(worker), worker.last_assigned));
        // A worker with fewer connections is waited for longer, the further the others are ahead.
        let behind = |ahead: u32| {
            active().any(|(_, worker)| {
                let lead = (ahead.saturating_sub(worker.load(now)) / 2).min(PATIENCE_MAX);
                worker.channel.waiting_since().is_some_and(|since| {
                    let silent = now.since(since);
                    lead > 0 && silent >= LATE && silent < LATE * (1 + lead)
                })
            })
        };
        if best.is_some_and(|(_, worker)| behind(worker.load(now))) {
            return Choice::Wait;
        }
        match best {
            Some((worker, found)) if proven(found) => Choice::Push(*worker),
            Some((worker, _)) if may_ask => Choice::Probe(*worker),
            Some(_) | None => Choice::Wait,
        }
    }

    fn push(&mut self, id: ListeningId, to: WorkerId, now: Time, out: &mut Outbox) {
        let Some(listening) = self.listenings.get_mut(&id) else { return };
        let Some(worker) = self.workers.get_mut(&to) else { return };
        let Some(pending) = listening.pending.pop_front() else { return };
        self.assigned = Assigned { count: self.assigned.count + 1, last: id };
        worker.last_assigned = self.assigned.count;
        worker.evidence.proof = None;
        let seq = worker.next_seq();
        // A rescued connection of an address in direct mode is not counted, because its close would not be
        // reported.
        let counted = self.counts_closes && listening.tells_closes();
        if let Some(cookie) = pending.cookie.filter(|_| counted) {
            worker.connections += 1;
            self.open_connections.insert(cookie, Owned { worker: to, listening: id });
        }
        let pushed = Pushed {
            connection: pending.connection,
            cookie: pending.cookie,
            listening: id,
            unix: listening.is_unix(),
            seq,
            rescued: pending.rescued,
            pinned: false,
        };
        self.queue(to, HandleLine::Connection(pushed), now, out);
        self.note_unevenness(to, now);
        self.glance(now);
    }

    pub(crate) fn on_answered(
        &mut self,
        id: WorkerId,
        seq: u64,
        accepted: bool,
        now: Time,
        out: &mut Outbox,
    ) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let pushed = match worker.channel.in_flight() {
            Some(HandleLine::Connection(pushed)) if pushed.seq == seq => pushed,
            Some(_) | None => return,
        };
        worker.answered(now);
        worker.evidence.acknowledged = accepted.then_some(now);
        self.on_turned(id, now, out);
        out.push(Action::Flush(id));
        if accepted {
            if let Some(worker) = self.workers.get_mut(&id) {
                worker.took(true, now);
            }
            if let Some(listening) = self.listenings.get_mut(&pushed.listening).filter(|_| !pushed.pinned) {
                listening.counters.handed_over += 1;
                listening.counters.rescued += u64::from(pushed.rescued);
            }
            out.push(Action::Close(pushed.connection));
        } else {
            self.on_refused(id, pushed, now, out);
        }
        out.push(Action::Later(Later::Dispatch));
    }

    /// The worker did not accept the connection: it goes to another worker, and this one gets a pause.
    pub(crate) fn on_refused(&mut self, id: WorkerId, pushed: Pushed, now: Time, out: &mut Outbox) {
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.took(false, now);
        }
        self.take_back(pushed, out);
    }

    /// A connection that its worker never saw waits for another worker.
    pub(crate) fn take_back(&mut self, pushed: Pushed, out: &mut Outbox) {
        if let Some(cookie) = pushed.cookie {
            self.connection_closed(cookie);
        }
        match self.listenings.get_mut(&pushed.listening).filter(|_| !pushed.pinned) {
            Some(listening) => listening.pending.push_front(Pending {
                connection: pushed.connection,
                cookie: pushed.cookie,
                rescued: true,
            }),
            None => out.push(Action::Close(pushed.connection)),
        }
    }

    /// When a push to a worker is overdue, or what its channel holds.
    pub(crate) fn overdue_at(&self, channel: &Channel) -> Option<Time> {
        let pushed = channel.pushed_since().map(|since| since + RECALL_AFTER);
        let held = channel.held_since().map(|since| since + HELD_MAX);
        [pushed, held].into_iter().flatten().filter(|at| *at > self.looked_at).min()
    }

    /// The next time at which a silent worker becomes late, or a pause ends while connections wait.
    pub(crate) fn next_dispatch(&self) -> Option<Time> {
        let active = || self.workers.active().map(|(_, worker)| worker);
        let serving = |id: ListeningId| active().filter(move |worker| worker.serves(id));
        let recallable: Vec<ListeningId> =
            active().filter_map(|worker| self.recallable(&worker.channel)).collect();
        let has_waiting =
            |(id, listening): &(&ListeningId, &Listening)| listening.waiting() > 0 || recallable.contains(id);
        let waiting = self.listenings.iter().filter(has_waiting).flat_map(|(id, _)| serving(*id)).filter_map(
            |worker| match worker.channel.waiting_since() {
                Some(since) => {
                    (1..=PATIENCE_MAX + 1).map(|n| since + LATE * n).find(|at| *at > self.looked_at)
                }
                None => worker.refused.until,
            },
        );
        // Times up to the last check have been handled; after that a reply, not time, decides.
        waiting.filter(|at| *at > self.looked_at).min()
    }

    /// The address of the connection that was sent to a worker and not read. Another worker may get this connection.
    fn recallable(&self, channel: &Channel) -> Option<ListeningId> {
        channel.pushed_since().filter(|_| self.accepting != Accepting::Many)?;
        match channel.in_flight() {
            Some(HandleLine::Connection(pushed)) => Some(pushed.listening),
            Some(HandleLine::Probe | HandleLine::Reply(_)) | None => None,
        }
    }

    /// Whether what a worker does not read can go to another worker; at once, if it must not wait here.
    fn may_recall(&mut self, id: WorkerId, now: Time, out: &mut Outbox) -> bool {
        if self.accepting == Accepting::Many {
            return self
                .workers
                .iter()
                .any(|(other, worker)| *other != id && worker.stage == Stage::Open && !worker.late(now));
        }
        let in_flight = self.workers.get(&id).and_then(|worker| worker.channel.in_flight());
        let Some(HandleLine::Connection(pushed)) = in_flight else { return false };
        match self.choose_of(pushed.listening, 1, now) {
            Choice::Push(other) => {
                let listening = self.listenings.get(&pushed.listening);
                other != id && listening.is_some_and(|listening| listening.pending.is_empty())
            }
            Choice::Probe(other) => {
                self.probe(other, now, out);
                false
            }
            Choice::Wait => false,
        }
    }

    /// Gives pushes that a worker has not read for a while to other workers. Returns whether something must
    /// be done before.
    fn recall_overdue(&mut self, now: Time, out: &mut Outbox) -> bool {
        let mut some = false;
        let is_overdue = |worker: &Worker| {
            worker.channel.pushed_since().is_some_and(|since| now.since(since) >= RECALL_AFTER)
        };
        let overdue = self.workers.active().filter(|(_, worker)| is_overdue(worker));
        for id in overdue.map(|(id, _)| *id).collect::<Vec<_>>() {
            if !self.may_recall(id, now, out) {
                continue;
            }
            let worker = self.workers.get_mut(&id);
            if let Some(pushed) = worker.and_then(|worker| worker.channel.recall()) {
                out.push(Action::TakeBack { worker: id, pushed });
                some = true;
                if self.accepting != Accepting::Many {
                    break;
                }
            }
        }
        let is_held =
            |worker: &Worker| worker.channel.held_since().is_some_and(|since| now.since(since) >= HELD_MAX);
        let held = self.workers.active().filter(|(_, worker)| is_held(worker));
        for id in held.map(|(id, _)| *id).collect::<Vec<_>>() {
            if let Some(worker) = self.workers.get_mut(&id) {
                worker.channel.leave_push();
                out.push(Action::Flush(id));
                some = true;
            }
        }
        some
    }

    /// Forgets the owners of an address's connections: the kernel distributes them now, or the address is
    /// given up, and closes are no longer reported.
    pub(crate) fn forget_connections_of(&mut self, id: ListeningId) {
        let workers = &mut self.workers;
        for (_, owned) in self.open_connections.extract_if(|_, owned| owned.listening == id) {
            if let Some(worker) = workers.get_mut(&owned.worker) {
                worker.connections = worker.connections.saturating_sub(1);
            }
        }
    }

    /// Forgets the owners of all connections: closes are no longer reported, or all are from now on.
    pub(crate) fn forget_connections(&mut self) {
        self.open_connections.clear();
        for worker in self.workers.values_mut() {
            worker.connections = 0;
        }
    }
}
