//! Which sockets get new connections from the kernel, and watching their queues.
//!
//! In direct mode the daemon does nothing per connection. While there is traffic, it samples the length of
//! each queue every [`SAMPLE_EVERY`]. If a queue stays filled, its worker is probed; a worker that does not
//! reply gets no more connections from the kernel, and the connections in its queue go to other workers.
//! Without traffic there is no timer; the first connection after a pause wakes the daemon once. While no
//! worker can be suspected, because there is only one or none replies, no queue is sampled.

use std::time::Duration;

use forkful_core::Time;
use forkful_core::spec::Balance;
use forkful_core::steering::queue::{Holder, is_rescued};
use forkful_core::steering::slow_start::FULL;
use forkful_core::steering::{Action as Suspected, level};

use crate::action::{Action, Later, Outbox, Steer, Watch};
use crate::dispatcher::{Accepting, Dispatcher};
use crate::handover::ACCEPT_PAUSE;
use crate::id::{ListeningId, WorkerId};
use crate::listening::{Door, Listening, Need, Sampling};
use crate::worker::{Schedule, Worker};

/// Sampling interval: a fraction of the promised maximum delay (5 ms).
const SAMPLE_EVERY: Duration = Duration::from_millis(2);
/// Sampling continues for this time after the last filled queue.
const SAMPLE_FOR: Duration = Duration::from_millis(100);
/// It ends after this time if no sample has seen a filled queue: a responsive worker has accepted a single connection before the
/// first sample.
const SAMPLE_FIRST: Duration = Duration::from_millis(10);

/// The longest list by client address, as far as it is longer than the number of slots: the kernel runs a program of twice as many
/// instructions at most.
const BY_SOURCE_MAX: usize = 512;

/// Which workers get connections from the kernel, and which sockets are watched.
impl Dispatcher {
    /// Updates steering and watches of every address to the workers that serve.
    pub(crate) fn refresh_all(&mut self, now: Time, out: &mut Outbox) {
        let mut next = ListeningId(0);
        while let Some((&id, _)) = self.listenings.range(next..).next() {
            next = id.next();
            self.refresh(id, now, out);
        }
    }

    pub(crate) fn refresh(&mut self, id: ListeningId, now: Time, out: &mut Outbox) {
        self.watch_workers(id);
        self.follow_mode(id, now);
        let serving = self.serving_members(id);
        let by_slot = self.members_by_slot(id, &serving);
        let shares = self.shares_of(id, &serving);
        let Some(listening) = self.listenings.get_mut(&id) else { return };
        if listening.group && listening.members.len() > 1 {
            let steer = match listening.dispatch {
                Balance::Direct if !serving.is_empty() => Steer::RoundRobin(serving),
                Balance::Sticky if !by_slot.is_empty() => Steer::BySource(by_slot),
                _ => Steer::Daemon,
            };
            if listening.steered.as_ref() != Some(&steer) {
                listening.steered = Some(steer.clone());
                listening.counters.steered += 1;
                let told = match &steer {
                    Steer::RoundRobin(members) => {
                        listening.turns = level::turns(&vec![0; members.len()], &shares);
                        Steer::RoundRobin(level::spread(members, &listening.turns))
                    }
                    Steer::Daemon | Steer::BySource(_) => {
                        listening.turns.clear();
                        steer
                    }
                };
                out.push(Action::Steer { listening: id, steer: told });
            }
        }
        if let Some(listening) = self.listenings.get_mut(&id) {
            listening.watched_for = None;
        }
        self.watch_members(id, now, out);
    }

    /// The kernel's steering is unknown; the next refresh sets it again.
    pub(crate) fn on_steer_failed(&mut self, id: ListeningId) {
        if let Some(listening) = self.listenings.get_mut(&id) {
            listening.steered = None;
            listening.turns.clear();
            listening.counters.steered = listening.counters.steered.saturating_sub(1);
        }
    }

    /// Watches the serving workers for a stuck event loop. Other workers are forgotten, and trusted when they
    /// return.
    fn watch_workers(&mut self, id: ListeningId) {
        let Some(listening) = self.listenings.get_mut(&id) else { return };
        for (worker, state) in self.workers.iter() {
            if state.serves(id) {
                listening.suspicion.add(*worker);
            } else {
                listening.suspicion.remove(*worker);
            }
        }
    }

    /// Distributes new connections as the mode of an address wants it. Until the kernel reaches all workers, the daemon hands
    /// them over.
    fn follow_mode(&mut self, id: ListeningId, now: Time) {
        let Some(wanted) = self.listenings.get(&id).map(Listening::wanted_dispatch) else { return };
        let is_kernels = matches!(wanted, Balance::Direct | Balance::Sticky);
        let dispatch = if is_kernels && !self.kernel_reaches_all(id) { Balance::Exact } else { wanted };
        let Some(listening) = self.listenings.get_mut(&id).filter(|l| l.dispatch != dispatch) else { return };
        if listening.dispatch == Balance::Direct {
            // A connection may have reached a queue since the last sample.
            listening.sampling.get_or_insert(Sampling::begin(now));
        }
        listening.dispatch = dispatch;
        if !listening.daemon_accepts() {
            listening.door.knock = None;
        }
        if !listening.tells_closes() {
            self.forget_connections_of(id);
        }
    }

    /// Whether each serving worker has a socket into which the kernel can put connections. A worker that opened the address in
    /// a mode of handed over connections has none until it is replaced.
    fn kernel_reaches_all(&self, id: ListeningId) -> bool {
        let owns = |worker: &Worker| worker.holds.get(&id).is_some_and(|hold| hold.member.is_some());
        // A muted worker can be given nothing else.
        let mut serving =
            self.workers.values().filter(|worker| worker.serves(id) && !worker.channel.is_muted());
        serving.all(owns)
    }

    fn serving_members(&self, id: ListeningId) -> Vec<u16> {
        let count = self.listenings.get(&id).map_or(0, |listening| listening.members.len());
        (1..count).filter(|member| self.is_served(id, *member)).map(|member| member as u16).collect()
    }

    /// A member for each slot, so that a client address stays with its slot when the worker changes. The clients of a slot without
    /// a healthy worker are spread over all others.
    fn members_by_slot(&self, id: ListeningId, serving: &[u16]) -> Vec<u16> {
        let Some(listening) = self.listenings.get(&id).filter(|l| l.dispatch == Balance::Sticky) else {
            return Vec::new();
        };
        let slot_of = |member: u16| {
            let owner = listening.members.get(usize::from(member)).and_then(|state| state.owner);
            owner.and_then(|id| self.workers.get(&id)).map(|worker| worker.slot)
        };
        let mut own = vec![None; self.slots()];
        for member in serving {
            if let Some(place) = slot_of(*member).and_then(|slot| own.get_mut(usize::from(slot))) {
                place.get_or_insert(*member);
            }
        }
        // The position of an address in a list that is a multiple longer is the same, modulo the number of slots.
        let slots = own.len();
        let rounds =
            if own.contains(&None) { serving.len().min(BY_SOURCE_MAX / slots.max(1)).max(1) } else { 1 };
        let at = |place: usize| {
            let (slot, round) = (place % slots, place / slots);
            let stand_in = || serving.get((slot + round) % serving.len().max(1)).copied();
            own.get(slot).copied().flatten().or_else(stand_in)
        };
        (0..slots * rounds).filter_map(at).collect()
    }

    /// The number of slots over which the kernel distributes client addresses. The end of a worker does not
    /// change it: otherwise the clients of all other workers would move.
    fn slots(&self) -> usize {
        let held = self.workers.values().map(|worker| worker.slot.saturating_add(1)).max();
        usize::from(self.workers.slots.max(held.unwrap_or(0)))
    }

    /// The app has another number of slots. For a slot more, the steering changes when its worker opens.
    pub(crate) fn set_slots(&mut self, slots: u16, now: Time, out: &mut Outbox) {
        if slots < std::mem::replace(&mut self.workers.slots, slots) {
            self.refresh_all(now, out);
        }
    }

    /// Whether connections in this socket's queue are left to the worker that holds it.
    pub(crate) fn is_served(&self, id: ListeningId, member: usize) -> bool {
        let Some(listening) = self.listenings.get(&id) else { return false };
        let Some(state) = listening.members.get(member) else { return false };
        let holder = match state.owner.and_then(|id| Some((id, self.workers.get(&id)?))) {
            None => Holder::Gone,
            Some((_, worker)) if !worker.serves(id) => Holder::Leaving,
            Some((worker, _)) if listening.suspicion.is_suspect(worker) => Holder::Stuck,
            Some(_) => Holder::Serving,
        };
        !is_rescued(listening.dispatch, holder)
    }

    /// Updates the watch on each socket to what the daemon has to do there. The serving workers are those of
    /// the last [`Self::refresh`].
    pub(crate) fn watch_members(&mut self, id: ListeningId, now: Time, out: &mut Outbox) {
        let room = self.room(id, now);
        let accepts = if self.accepting == Accepting::OneByOne { Watch::Once } else { Watch::Always };
        let Some(listening) = self.listenings.get_mut(&id) else { return };
        let Door { again, knock, .. } = &listening.door;
        let has_room = listening.daemon_accepts() && listening.pending.len() < room && again.is_none();
        let takes = has_room && knock.is_none();
        let samples = samples(listening.dispatch);
        let wakes = samples && listening.sampling.is_none();
        let need = Need { takes, wakes };
        if listening.watched_for.replace(need) == Some(need) {
            return;
        }
        for member in 0..listening.members.len() {
            let (watch, reports, stays) = if member != 0 && self.is_served(id, member) {
                (Watch::Once, wakes, samples)
            } else {
                (accepts, takes, has_room)
            };
            self.watch(id, member, watch, (reports, stays), out);
        }
    }

    /// Watches a member if it `reports`. A watch that reports once is left alone if it `stays`: that costs less than removing it
    /// and adding it again.
    fn watch(
        &mut self,
        id: ListeningId,
        member: usize,
        watch: Watch,
        (reports, stays): (bool, bool),
        out: &mut Outbox,
    ) {
        let members = self.listenings.get_mut(&id).map(|listening| &mut listening.members);
        let Some(state) = members.and_then(|members| members.get_mut(member)) else { return };
        let stays = stays && state.watch == Watch::Once && watch == Watch::Once;
        let watch = if reports || stays { watch } else { Watch::Not };
        if state.watch != watch || reports && state.fired {
            state.watch = watch;
            state.fired = false;
            out.push(Action::Watch { listening: id, member, watch });
        }
    }

    /// The socket's watch is unchanged; it is retried after a pause, like accepting.
    pub(crate) fn on_watch_failed(&mut self, id: ListeningId, member: usize, before: Watch, now: Time) {
        let Some(listening) = self.listenings.get_mut(&id) else { return };
        listening.door.again.get_or_insert(now + ACCEPT_PAUSE);
        listening.watched_for = None;
        if let Some(state) = listening.members.get_mut(member) {
            state.watch = before;
            // Whether it had reported something is not known any more.
            state.fired = before == Watch::Once;
        }
    }
}

/// The queues of workers.
impl Dispatcher {
    /// The first connection after a pause: samples the queues for a while.
    pub(crate) fn begin_sampling(&mut self, id: ListeningId, now: Time, out: &mut Outbox) {
        if let Some(listening) = self.listenings.get_mut(&id) {
            listening.sampling.get_or_insert(Sampling::begin(now));
        }
        self.watch_members(id, now, out);
        self.glance(now);
    }

    pub(crate) fn sample_queues(&mut self, now: Time, out: &mut Outbox) {
        let mut next = ListeningId(0);
        while let Some((&id, listening)) = self.listenings.range_mut(next..).next() {
            next = id.next();
            if listening.next_look().is_none_or(|at| at > now) {
                continue;
            }
            // Also after the kernel's distribution has ended, until the queues that it has filled are empty.
            if is_rescued(listening.dispatch, Holder::Stuck) {
                if let Some(sampling) = &mut listening.sampling {
                    sampling.next = now + SAMPLE_EVERY;
                }
                listening.members.iter_mut().for_each(|member| member.queue = 0);
                out.push(Action::ReadQueues(id));
            } else {
                listening.sampling = None;
                self.refresh(id, now, out);
            }
        }
    }

    pub(crate) fn on_queue(&mut self, id: ListeningId, member: usize, length: u32) {
        let members = self.listenings.get_mut(&id).map(|listening| &mut listening.members);
        if let Some(state) = members.and_then(|members| members.get_mut(member)) {
            state.queue = length;
        }
    }

    /// One sample of each queue of an address.
    pub(crate) fn on_queues_read(&mut self, id: ListeningId, now: Time, out: &mut Outbox) {
        self.glance(now);
        let Some(listening) = self.listenings.get_mut(&id) else { return };
        let Some(Sampling { until, .. }) = listening.sampling else { return };
        let mut active = false;
        let mut actions = Vec::new();
        for member in listening.members.iter().skip(1) {
            let Some(owner) = member.owner else { continue };
            active |= member.queue > 0;
            actions.extend(listening.suspicion.on_sample(now, owner, member.queue));
        }
        actions.extend(listening.suspicion.on_time(now));
        self.act_on_suspicion(id, &actions, now, out);
        if actions.iter().any(|action| matches!(action, Suspected::Suspect(_))) {
            // A suspect gets no turns.
            out.push(Action::Later(Later::Level(id)));
        } else {
            self.level(id, out);
        }
        let Some(listening) = self.listenings.get_mut(&id) else { return };
        if let Some(sampling) = listening.sampling.as_mut().filter(|_| active) {
            sampling.until = now + SAMPLE_FOR;
        } else if until <= now {
            listening.sampling = None;
            self.refresh(id, now, out);
        }
    }

    /// Reduces the turns of workers with longer queues.
    pub(crate) fn level(&mut self, id: ListeningId, out: &mut Outbox) {
        let Some(listening) = self.listenings.get(&id) else { return };
        if !listening.group || listening.dispatch != Balance::Direct {
            return;
        }
        let Some(Steer::RoundRobin(serving)) = &listening.steered else { return };
        let queue = |member: &u16| listening.members.get(usize::from(*member)).map_or(0, |state| state.queue);
        let waiting: Vec<u32> = serving.iter().map(queue).collect();
        let turns = level::turns(&waiting, &self.shares_of(id, serving));
        if listening.turns != turns {
            let steer = Steer::RoundRobin(level::spread(serving, &turns));
            if let Some(listening) = self.listenings.get_mut(&id) {
                listening.turns = turns;
            }
            out.push(Action::Steer { listening: id, steer });
        }
    }

    /// The shares of the workers that hold these members.
    fn shares_of(&self, id: ListeningId, members: &[u16]) -> Vec<u32> {
        let of_all = self.listenings.get(&id).map_or(&[][..], |listening| &listening.members);
        let owner = |member: &u16| of_all.get(usize::from(*member)).and_then(|member| member.owner);
        let share = |owner: WorkerId| self.workers.get(&owner).map(Worker::share);
        members.iter().map(|member| owner(member).and_then(share).unwrap_or(FULL)).collect()
    }

    fn act_on_suspicion(
        &mut self,
        id: ListeningId,
        actions: &[Suspected<WorkerId>],
        now: Time,
        out: &mut Outbox,
    ) {
        for action in actions {
            match *action {
                Suspected::Probe(worker) => {
                    out.push(Action::ReadSchedule { worker, suspected: None });
                    self.probe_unless_asked(worker, now, out);
                }
                Suspected::Suspect(worker) => {
                    out.push(Action::ReadSchedule { worker, suspected: Some(id) });
                }
                Suspected::Rescue(worker) => self.rescue(id, worker, out),
                Suspected::Trust(_) => self.refresh(id, now, out),
            }
        }
    }

    /// The scheduling statistics of a suspected worker are known. A worker that had no core is excused.
    pub(crate) fn on_scheduled(
        &mut self,
        id: WorkerId,
        suspected: Option<ListeningId>,
        schedule: Option<Schedule>,
        now: Time,
        out: &mut Outbox,
    ) {
        let Some(listening_id) = suspected else {
            if let Some(worker) = self.workers.get_mut(&id) {
                worker.note_schedule(schedule, now);
            }
            return;
        };
        let starved = self.workers.get_mut(&id).is_some_and(|worker| worker.starved(schedule, now));
        let Some(listening) = self.listenings.get_mut(&listening_id) else { return };
        if starved {
            listening.suspicion.excuse(now, id);
            return self.refresh(listening_id, now, out);
        }
        listening.counters.suspected += 1;
        self.refresh(listening_id, now, out);
        self.rescue(listening_id, id, out);
    }

    /// Empties a stuck worker's queue.
    fn rescue(&mut self, id: ListeningId, worker: WorkerId, out: &mut Outbox) {
        let hold = self.workers.get(&worker).and_then(|worker| worker.holds.get(&id));
        if let Some(member) = hold.and_then(|hold| hold.member) {
            out.push(Action::Accept { listening: id, member, rescued: true });
        }
    }

    /// An already awaited reply is as good as a probe's. If only lines wait for room, the probe waits with
    /// them: without it, nothing would show that the worker is responsive again.
    fn probe_unless_asked(&mut self, id: WorkerId, now: Time, out: &mut Outbox) {
        if self.workers.get(&id).is_some_and(|worker| !worker.channel.asks()) {
            self.probe(id, now, out);
        }
    }

    /// A worker's event loop is responsive: it replied to a probe or accepted a connection.
    pub(crate) fn on_turned(&mut self, worker: WorkerId, now: Time, out: &mut Outbox) {
        let mut next = ListeningId(0);
        while let Some((&id, listening)) = self.listenings.range_mut(next..).next() {
            next = id.next();
            let actions = listening.suspicion.on_answer(now, worker);
            self.act_on_suspicion(id, &actions, now, out);
        }
    }
}

/// The rising shares of new workers (`slow_start`), which never rest meanwhile.
impl Dispatcher {
    pub(crate) fn next_rise(&self) -> Option<Time> {
        self.workers.active().filter_map(|(_, worker)| Some(worker.rise?.next_step())).min()
    }

    pub(crate) fn raise_shares(&mut self, now: Time, out: &mut Outbox) {
        if self.next_rise().is_none_or(|at| at > now) {
            return;
        }
        let mut some_full = false;
        for worker in self.workers.values_mut() {
            if let Some(rise) = &mut worker.rise {
                rise.on_time(now);
            }
            some_full |= worker.rise.take_if(|rise| rise.share() == FULL).is_some();
        }
        for id in self.listenings.keys().copied().collect::<Vec<_>>() {
            self.level(id, out);
        }
        if some_full {
            // Connections that were kept away from it may move now.
            self.begin_looks(now);
        }
    }
}

/// The switch of the `auto` mode.
impl Dispatcher {
    /// Connections arrived through the daemon's own socket: decides whether to switch to the kernel's
    /// distribution.
    pub(crate) fn count_arrivals(&mut self, id: ListeningId, count: u32, now: Time, out: &mut Outbox) {
        let Some(auto) = self.listenings.get_mut(&id).and_then(|listening| listening.auto.as_mut()) else {
            return;
        };
        auto.on_accept(now, count);
        self.apply_mode(id, now, out);
    }

    /// Whether the length of the daemon's own queue matters: it must be fed as
    /// [`Event::Queue`](crate::Event::Queue) before [`Event::MemberReady`](crate::Event::MemberReady).
    pub fn asks_for_waiting(&self, id: ListeningId) -> bool {
        let asks = |listening: &Listening| listening.is_tcp() && listening.asks_first();
        self.accepting == Accepting::OneByOne && self.listenings.get(&id).is_some_and(asks)
    }

    /// Connections wait in the daemon's own queue; returns how many, or 0 if that is not known. If they are accepted one by one,
    /// the switch would be too late for the others: with a full queue, clients wait a second.
    pub(crate) fn count_waiting(&mut self, id: ListeningId, now: Time, out: &mut Outbox) -> usize {
        let Some(listening) = self.listenings.get_mut(&id) else { return 0 };
        let waiting = listening.members.first_mut().map_or(0, |own| std::mem::take(&mut own.queue));
        if let Some(auto) = listening.auto.as_mut().filter(|_| waiting > 1) {
            auto.on_waiting(now, waiting);
            self.apply_mode(id, now, out);
        }
        waiting as usize
    }

    pub(crate) fn rebalance(&mut self, now: Time, out: &mut Outbox) {
        let mut next = ListeningId(0);
        while let Some((&id, listening)) = self.listenings.range_mut(next..).next() {
            next = id.next();
            if let Some(auto) = &mut listening.auto
                && auto.next_check().is_some_and(|at| at <= now)
            {
                auto.on_time(now);
                self.apply_mode(id, now, out);
            }
        }
    }

    /// The switch may have another position.
    fn apply_mode(&mut self, id: ListeningId, now: Time, out: &mut Outbox) {
        let dispatch = |dispatcher: &Self| dispatcher.listenings.get(&id).map(|l| l.dispatch);
        let before = dispatch(self);
        if self.listenings.get(&id).is_none_or(|l| l.wanted_dispatch() == l.dispatch) {
            return;
        }
        self.follow_mode(id, now);
        if dispatch(self) == before {
            return;
        }
        if dispatch(self) == Some(Balance::Direct) {
            self.begin_sampling(id, now, out);
        }
        self.refresh(id, now, out);
    }
}

impl Sampling {
    fn begin(now: Time) -> Self {
        Self { until: now + SAMPLE_FIRST, next: now + SAMPLE_EVERY }
    }
}

/// Whether queues are sampled: the kernel fills them, and a stuck worker's queue would be rescued.
fn samples(dispatch: Balance) -> bool {
    matches!(dispatch, Balance::Direct | Balance::Sticky) && is_rescued(dispatch, Holder::Stuck)
}
