//! Which sockets the kernel gives new connections to, and watching the queues of those that have them.
//!
//! In direct mode the daemon does nothing per connection. What it does: while traffic flows, it
//! samples the length of each queue every [`SAMPLE_EVERY`]. A queue that stays filled gets its worker
//! probed; a worker that does not answer leaves the kernel's choice, and what waits in its queue goes
//! to others. No traffic: no timer; the first connection after a pause wakes the daemon once.

use std::time::Duration;

use forkful_core::Time;
use forkful_core::spec::Balance;
use forkful_core::steering::queue::{Holder, is_rescued};
use forkful_core::steering::{Action as Suspected, AutoBalance, Dispatch, level};
use forkful_os::listener::{self, Steer, TcpGroup};
use forkful_os::reactor::Interest;

use super::Primary;
use super::listening::Source;
use super::worker::WorkerId;

/// Between two looks at the queues: a fraction of the delay that the promise allows (5 ms).
const SAMPLE_EVERY: Duration = Duration::from_millis(2);
/// Sampling goes on for so long after the last filled queue.
const SAMPLE_FOR: Duration = Duration::from_millis(100);

impl Primary {
    /// Brings steering and interests in line with who serves, for every address.
    pub(super) fn refresh_all(&mut self, now: Time) {
        let mut next = 0;
        while let Some((&index, _)) = self.listenings.range(next..).next() {
            next = index + 1;
            self.refresh(index, now);
        }
    }

    pub(super) fn refresh(&mut self, index: usize, now: Time) {
        self.watch_workers(index);
        let serving = self.serving_members(index);
        let by_slot = self.members_by_slot(index, &serving);
        let Some(listening) = self.listenings.get_mut(&index) else { return };
        if let Source::Group(group) = &listening.source
            && group.len() > 1
        {
            let steer = match listening.dispatch {
                Balance::Direct if !serving.is_empty() => Steer::RoundRobin(serving),
                Balance::Sticky if !by_slot.is_empty() => Steer::BySource(by_slot),
                _ => Steer::Only(0),
            };
            if listening.steered.as_ref() != Some(&steer) && steer_group(group, &steer).is_ok() {
                listening.turns = match &steer {
                    Steer::RoundRobin(members) => vec![1; members.len()],
                    Steer::Only(_) | Steer::Random(_) | Steer::BySource(_) => Vec::new(),
                };
                listening.steered = Some(steer);
                listening.counters.steered += 1;
            }
        }
        self.watch_members(index, now);
    }

    /// Who serves is watched for a stuck loop; who does not is forgotten, and trusted when it returns.
    fn watch_workers(&mut self, index: usize) {
        let Some(listening) = self.listenings.get_mut(&index) else { return };
        for (id, worker) in &self.workers {
            if worker.serves(index) {
                listening.suspicion.add(*id);
            } else {
                listening.suspicion.remove(*id);
            }
        }
    }

    fn serving_members(&self, index: usize) -> Vec<u16> {
        let count = self.listenings.get(&index).map_or(0, |listening| listening.members.len());
        (1..count).filter(|member| self.is_served(index, *member)).map(|member| member as u16).collect()
    }

    /// A member for each slot, so that a client address stays with its slot whoever occupies it. A slot without a
    /// healthy worker is stood in for by another.
    fn members_by_slot(&self, index: usize, serving: &[u16]) -> Vec<u16> {
        let Some(listening) = self.listenings.get(&index).filter(|l| l.dispatch == Balance::Sticky) else {
            return Vec::new();
        };
        let slot_of = |member: u16| {
            let owner = listening.members.get(usize::from(member)).and_then(|state| state.owner);
            owner.and_then(|id| self.workers.get(&id)).map(|worker| worker.slot)
        };
        let slots =
            self.workers.values().map(|worker| worker.slot).max().map_or(0, |last| usize::from(last) + 1);
        let stand_in = |slot: usize| serving.get(slot % serving.len().max(1)).copied();
        (0..slots)
            .filter_map(|slot| {
                let own = serving.iter().copied().find(|member| slot_of(*member) == u16::try_from(slot).ok());
                own.or_else(|| stand_in(slot))
            })
            .collect()
    }

    /// Whether connections in this socket's queue are left to the worker that holds it.
    pub(super) fn is_served(&self, index: usize, member: usize) -> bool {
        let Some(listening) = self.listenings.get(&index) else { return false };
        let Some(state) = listening.members.get(member) else { return false };
        let holder = match state.owner.and_then(|id| Some((id, self.workers.get(&id)?))) {
            None => Holder::Gone,
            Some((_, worker)) if !worker.serves(index) => Holder::Leaving,
            Some((id, _)) if listening.suspicion.is_suspect(id) => Holder::Stuck,
            Some(_) => Holder::Serving,
        };
        !is_rescued(listening.dispatch, holder)
    }

    /// Brings the reactor's interest in each socket in line with what the daemon has to do there.
    pub(super) fn watch_members(&mut self, index: usize, now: Time) {
        let room = self.room(index, now);
        let Some(listening) = self.listenings.get(&index) else { return };
        if !listening.daemon_accepts() {
            return;
        }
        let takes = listening.pending.len() < room && listening.accept_again.is_none();
        let wake = (samples(listening.dispatch) && listening.sampling_until.is_none())
            .then_some(Interest::READ | Interest::ONESHOT);
        for member in 0..listening.members.len() {
            let wanted = if member != 0 && self.is_served(index, member) {
                wake
            } else {
                takes.then_some(Interest::READ)
            };
            self.set_interest(index, member, wanted);
        }
    }

    fn set_interest(&mut self, index: usize, member: usize, wanted: Option<Interest>) {
        let token = self.member_token(index, member);
        let Some(listening) = self.listenings.get_mut(&index) else { return };
        let current = listening.members[member].interest;
        if current == wanted {
            return;
        }
        let socket = listening.socket(member);
        let done = match (current, wanted) {
            (None, Some(interest)) => self.reactor.add(socket, token, interest),
            (Some(_), Some(interest)) => self.reactor.modify(socket, token, interest),
            (Some(_), None) => self.reactor.remove(socket),
            (None, None) => Ok(()),
        };
        if done.is_ok() {
            listening.members[member].interest = wanted;
        }
    }

    /// The first connection after a pause: look at the queues for a while.
    pub(super) fn begin_sampling(&mut self, index: usize, now: Time) {
        if let Some(listening) = self.listenings.get_mut(&index) {
            listening.sampling_until = Some(now + SAMPLE_FOR);
            listening.next_sample = now + SAMPLE_EVERY;
        }
        self.watch_members(index, now);
    }

    pub(super) fn next_sample(&self) -> Option<Time> {
        self.listenings.values().filter(|l| l.sampling_until.is_some()).map(|l| l.next_sample).min()
    }

    pub(super) fn sample_queues(&mut self, now: Time) {
        let mut next = 0;
        while let Some((&index, listening)) = self.listenings.range_mut(next..).next() {
            next = index + 1;
            let Some(until) = listening.sampling_until else { continue };
            if listening.next_sample > now {
                continue;
            }
            if !samples(listening.dispatch) {
                listening.sampling_until = None;
                self.refresh(index, now);
                continue;
            }
            listening.next_sample = now + SAMPLE_EVERY;
            let filled = self.sample(index, now);
            let Some(listening) = self.listenings.get_mut(&index) else { continue };
            if filled {
                listening.sampling_until = Some(now + SAMPLE_FOR);
            } else if until <= now {
                listening.sampling_until = None;
                self.refresh(index, now);
            }
        }
    }

    /// One look at each queue of an address; says whether any was filled or any worker is suspect.
    fn sample(&mut self, index: usize, now: Time) -> bool {
        let mut active = false;
        let mut actions = Vec::new();
        let Some(listening) = self.listenings.get_mut(&index) else { return false };
        let mut queues = vec![0; listening.members.len()];
        for (member, length) in queues.iter_mut().enumerate().skip(1) {
            let Some(owner) = listening.members[member].owner else { continue };
            let queue = listener::queue_length(listening.socket(member)).unwrap_or(0);
            *length = queue;
            active |= queue > 0 || listening.suspicion.is_suspect(owner);
            actions.extend(listening.suspicion.on_sample(now, owner, queue));
        }
        actions.extend(listening.suspicion.on_time(now));
        self.act_on_suspicion(index, &actions, now);
        self.level(index, &queues);
        active
    }

    /// Fewer turns for those whose queues are longer. `queues` are the lengths by member.
    fn level(&mut self, index: usize, queues: &[u32]) {
        let Some(listening) = self.listenings.get_mut(&index) else { return };
        let (Source::Group(group), Balance::Direct) = (&listening.source, listening.dispatch) else { return };
        let Some(Steer::RoundRobin(serving)) = &listening.steered else { return };
        let waiting: Vec<u32> =
            serving.iter().map(|member| queues.get(usize::from(*member)).copied().unwrap_or(0)).collect();
        let turns = level::turns(&waiting);
        if listening.turns != turns
            && steer_group(group, &Steer::RoundRobin(level::spread(serving, &turns))).is_ok()
        {
            listening.turns = turns;
        }
    }

    fn act_on_suspicion(&mut self, index: usize, actions: &[Suspected<WorkerId>], now: Time) {
        for action in actions {
            match *action {
                Suspected::Probe(id) => {
                    if let Some(worker) = self.workers.get_mut(&id) {
                        worker.note_schedule(now);
                    }
                    self.probe_unless_asked(id, now);
                }
                Suspected::Suspect(id) => {
                    let starved = self.workers.get_mut(&id).is_some_and(|worker| worker.starved(now));
                    let Some(listening) = self.listenings.get_mut(&index) else { continue };
                    if starved {
                        listening.suspicion.excuse(now, id);
                        continue;
                    }
                    listening.counters.suspected += 1;
                    self.refresh(index, now);
                    self.rescue(index, id, now);
                }
                Suspected::Rescue(id) => self.rescue(index, id, now),
                Suspected::Trust(_) => self.refresh(index, now),
            }
        }
    }

    /// Empties a stuck worker's queue.
    fn rescue(&mut self, index: usize, id: WorkerId, now: Time) {
        let member =
            self.workers.get(&id).and_then(|worker| worker.holds.get(&index)).and_then(|hold| hold.member);
        if let Some(member) = member {
            self.accept_from(index, member, true, now);
        }
    }

    /// An answer that is awaited already is as good as a probe's. Where only lines wait for room, the probe waits with
    /// them: without it nothing would ever say that the worker turns again.
    fn probe_unless_asked(&mut self, id: WorkerId, now: Time) {
        if self.workers.get(&id).is_some_and(|worker| !worker.channel.asks()) {
            self.probe(id, now);
        }
    }

    /// A worker's loop has turned: it answered a probe or took a connection.
    pub(super) fn on_turned(&mut self, id: WorkerId, now: Time) {
        let mut next = 0;
        while let Some((&index, listening)) = self.listenings.range_mut(next..).next() {
            next = index + 1;
            let actions = listening.suspicion.on_answer(now, id);
            self.act_on_suspicion(index, &actions, now);
        }
    }

    /// Connections came in by the daemon's own socket: is it time to let the kernel do it?
    pub(super) fn count_arrivals(&mut self, index: usize, count: u32, now: Time) {
        let Some(listening) = self.listenings.get_mut(&index) else { return };
        let Some(auto) = &mut listening.auto else { return };
        let dispatch = auto.on_accept(now, count);
        self.apply(index, dispatch, now);
    }

    pub(super) fn rebalance(&mut self, now: Time) {
        let mut next = 0;
        while let Some((&index, listening)) = self.listenings.range_mut(next..).next() {
            next = index + 1;
            if let Some(auto) = &mut listening.auto
                && auto.next_check().is_some_and(|at| at <= now)
            {
                let dispatch = auto.on_time(now);
                self.apply(index, dispatch, now);
            }
        }
    }

    pub(super) fn next_rebalance(&self) -> Option<Time> {
        let switches = self.listenings.values().filter_map(|listening| listening.auto.as_ref());
        switches.filter_map(AutoBalance::next_check).min()
    }

    fn apply(&mut self, index: usize, dispatch: Dispatch, now: Time) {
        let Some(listening) = self.listenings.get_mut(&index) else { return };
        let balance = match dispatch {
            Dispatch::Exact => Balance::Exact,
            Dispatch::Direct => Balance::Direct,
        };
        if listening.dispatch == balance {
            return;
        }
        listening.dispatch = balance;
        if balance == Balance::Direct {
            self.forget_connections_of(index);
            self.begin_sampling(index, now);
        }
        self.refresh(index, now);
    }
}

/// Whether queues are looked at: the kernel fills them, and a stuck worker's queue would be rescued.
fn samples(dispatch: Balance) -> bool {
    matches!(dispatch, Balance::Direct | Balance::Sticky) && is_rescued(dispatch, Holder::Stuck)
}

/// Exact turns where the kernel lets us (`CAP_BPF`), else at random.
fn steer_group(group: &TcpGroup, steer: &Steer) -> std::io::Result<()> {
    match (group.steer(steer), steer) {
        (Err(error), Steer::RoundRobin(members)) if error.kind() == std::io::ErrorKind::Unsupported => {
            group.steer(&Steer::Random(members.clone()))
        }
        (outcome, _) => outcome,
    }
}
