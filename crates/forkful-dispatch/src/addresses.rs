//! Addresses that workers hold: acquired, reported, closed, left behind by leaving workers, and given up.

use std::time::Duration;

use forkful_core::Time;
use forkful_core::steering::address::{LastHolder, is_given_up};

use crate::action::{Action, Later, Message, Outbox};
use crate::dispatcher::{Dispatcher, EXITED_GRACE};
use crate::id::{ListeningId, ReplyId, WorkerId};
use crate::listening::Member;
use crate::worker::{Hold, Stage, Worker};

/// After the app closed an address that no other worker holds, it stays bound for this time.
const CLOSED_GRACE: Duration = Duration::from_secs(1);

/// How a query is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// The worker gets no socket; connections are pushed to it.
    Push,
    /// It gets the single socket of the address, like all others.
    Shared,
    /// It gets this socket of the group, which no worker holds.
    Own(usize),
    /// It gets its own socket, which must be created first, see [`Dispatcher::add_member`].
    New,
}

/// Queries of the driver while it answers a worker's query.
impl Dispatcher {
    /// Whether a worker's queries are answered.
    pub fn may_ask(&self, worker: WorkerId) -> bool {
        self.workers.get(&worker).is_some_and(|worker| worker.stage != Stage::Disconnecting)
    }

    /// Whether a worker holds an address.
    pub fn holds(&self, worker: WorkerId, listening: ListeningId) -> bool {
        self.workers.get(&worker).is_some_and(|worker| worker.holds.contains_key(&listening))
    }

    /// Whether workers of other slots hold an address.
    pub fn is_of_others(&self, worker: WorkerId, listening: ListeningId) -> bool {
        let slot = self.workers.get(&worker).map(|worker| worker.slot);
        let others = self.workers.values().filter(|other| Some(other.slot) != slot);
        others.into_iter().any(|other| other.holds.contains_key(&listening))
    }

    /// Whether this query of a worker's was answered with an address. Another daemon may have read it, and died.
    pub fn was_asked(&self, worker: WorkerId, ack: u64) -> bool {
        let mut holds = self.workers.get(&worker).into_iter().flat_map(|worker| worker.holds.values());
        holds.any(|hold| hold.asked == Some(ack))
    }

    /// Addresses that a worker holds but has not reported as listening, while they are bound.
    pub fn unreported(&self, worker: WorkerId) -> impl Iterator<Item = ListeningId> {
        let holds = self.workers.get(&worker).into_iter().flat_map(|worker| &worker.holds);
        holds.filter(|(_, hold)| !hold.listening).map(|(listening, _)| *listening)
    }

    /// How a query for a bound address is answered; `None` if a new socket is needed but the app's limit of
    /// sockets is reached.
    pub fn grant(&self, id: ListeningId, sockets_max: usize) -> Option<Grant> {
        let listening = self.listenings.get(&id)?;
        if listening.push_only() {
            return Some(Grant::Push);
        }
        if listening.gives_its_socket() {
            return Some(Grant::Shared);
        }
        // The first is the daemon's own.
        if let Some(free) = (1..listening.members.len()).find(|member| !self.is_owned(id, *member)) {
            return Some(Grant::Own(free));
        }
        let sockets: usize = self.listenings.values().map(|listening| listening.members.len()).sum();
        (sockets < sockets_max).then_some(Grant::New)
    }

    /// The driver has created another socket for a group.
    pub fn add_member(&mut self, listening: ListeningId) {
        if let Some(listening) = self.listenings.get_mut(&listening) {
            listening.members.push(Member::default());
        }
    }

    /// Whether a worker holds this socket alone.
    pub fn is_owned(&self, listening: ListeningId, member: usize) -> bool {
        self.owner_of(listening, member).is_some()
    }

    /// Whether this worker holds a member.
    pub fn is_owner(&self, listening: ListeningId, member: usize, worker: WorkerId) -> bool {
        self.owner_of(listening, member) == Some(worker)
    }

    fn owner_of(&self, listening: ListeningId, member: usize) -> Option<WorkerId> {
        self.listenings.get(&listening)?.members.get(member)?.owner
    }
}

impl Dispatcher {
    pub(crate) fn on_held(
        &mut self,
        id: WorkerId,
        listening_id: ListeningId,
        (ack, member, reply): (u64, Option<usize>, Option<ReplyId>),
        now: Time,
        out: &mut Outbox,
    ) {
        let Some(listening) = self.listenings.get_mut(&listening_id) else { return };
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if let Some(reply) = reply {
            let retried = self.retries.iter().filter(|(_, owner, _)| *owner == id).count();
            if !worker.channel.queue_reply(reply, retried, worker.holds.len() + 1, now) {
                out.push(Action::DropReply { worker: id, reply });
            }
            out.push(Action::Flush(id));
        }
        if let Some(member) = member.and_then(|member| listening.members.get_mut(member)) {
            member.owner = Some(id);
        }
        listening.holders.unheld_until = None;
        worker.holds.insert(listening_id, Hold { member, asked: Some(ack), ..Hold::default() });
        listening.holders.shared_once |=
            self.workers.values().filter(|w| w.holds.contains_key(&listening_id)).count() > 1;
        self.refresh(listening_id, now, out);
    }

    /// An address that was bound for a query that then failed is released at once.
    pub(crate) fn drop_if_new(&mut self, id: ListeningId, out: &mut Outbox) {
        let held = self.is_held(id);
        if !held && self.listenings.get(&id).is_some_and(|listening| listening.holders.unheld_until.is_none())
        {
            self.remove_listening(id, false, out);
        }
    }

    /// Whether the app has closed an address, so that it may be released at once where it is in the way of another one.
    pub fn may_give_way(&self, id: ListeningId, now: Time) -> bool {
        let unheld_until = self.listenings.get(&id).and_then(|listening| listening.holders.unheld_until);
        unheld_until.is_some_and(|until| until <= now + CLOSED_GRACE) && !self.is_held(id)
    }

    pub(crate) fn give_way(&mut self, id: ListeningId, now: Time, out: &mut Outbox) {
        if self.may_give_way(id, now) {
            self.remove_listening(id, false, out);
        }
    }

    /// An address that no client reaches any more is released as soon as no worker holds it. That closes the connections in its queue.
    pub(crate) fn on_lost(&mut self, id: ListeningId, out: &mut Outbox) {
        if !self.is_held(id) {
            self.remove_listening(id, false, out);
        } else if let Some(listening) = self.listenings.get_mut(&id) {
            listening.holders.lost = true;
        }
    }

    fn is_held(&self, id: ListeningId) -> bool {
        self.workers.values().any(|worker| worker.holds.contains_key(&id))
    }

    pub(crate) fn on_listens(&mut self, id: WorkerId, listening: ListeningId, now: Time, out: &mut Outbox) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let Some(hold) = worker.holds.get_mut(&listening) else { return };
        *hold = Hold { member: hold.member, listening: true, ..Hold::default() };
        worker.has_listened = true;
        self.begin_looks(now);
        self.refresh(listening, now, out);
        out.push(Action::Later(Later::Dispatch));
    }

    pub(crate) fn on_closed(&mut self, id: WorkerId, listening: ListeningId, now: Time, out: &mut Outbox) {
        let Some(worker) = self.workers.get(&id).filter(|worker| worker.holds.contains_key(&listening))
        else {
            return;
        };
        // A worker that was told to stop closes its servers for that reason; its successor will listen again.
        let leaves = worker.stage >= Stage::Draining || worker.farewell.stopping;
        let grace = if leaves { EXITED_GRACE } else { CLOSED_GRACE };
        self.release(id, listening, grace, now);
        self.refresh(listening, now, out);
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.await_last_words(now);
        }
        out.push(Action::Later(Later::Dispatch));
    }

    pub(crate) fn on_stopping(&mut self, id: WorkerId, now: Time) {
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.farewell.stopping = true;
            worker.await_last_words(now);
        }
    }

    /// Disconnects the workers whose apps have finished their last words.
    pub(crate) fn disconnect_silent(&mut self, now: Time, out: &mut Outbox) {
        let ended = |worker: &Worker| worker.farewell.last_words.is_some_and(|words| words.end() <= now);
        let silent = self.workers.active().filter(|(_, worker)| ended(worker));
        for id in silent.map(|(id, _)| *id).collect::<Vec<_>>() {
            let Some(worker) = self.workers.get_mut(&id) else { continue };
            worker.farewell.last_words = None;
            // It may listen again.
            if worker.has_closed_all() || worker.farewell.drained {
                self.disconnect(id, out);
            }
        }
    }

    /// Removes a worker's hold on an address.
    pub(crate) fn release(&mut self, id: WorkerId, listening_id: ListeningId, grace: Duration, now: Time) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let Some(hold) = worker.holds.remove(&listening_id) else { return };
        let still_held = self.is_held(listening_id);
        let Some(listening) = self.listenings.get_mut(&listening_id) else { return };
        listening.suspicion.remove(id);
        if let Some(member) = hold.member.and_then(|member| listening.members.get_mut(member))
            && member.owner == Some(id)
        {
            member.owner = None;
        }
        if !still_held {
            let grace = if listening.holders.lost { Duration::ZERO } else { grace };
            listening.holders.unheld_until = Some(now + grace);
            listening.set_balance(self.balance, false, now);
        }
    }

    /// Gives up the addresses that only leaving workers hold, now that this worker leaves too. Their agents
    /// must close them, because a socket refuses clients only after its last holder has closed it.
    pub(crate) fn give_up_left(&mut self, id: WorkerId, out: &mut Outbox) {
        let Some(leaver) = self.workers.get(&id) else { return };
        let stays = |worker: &&Worker| worker.stage <= Stage::Open;
        let staying = || self.workers.values().filter(stays);
        let serving = || staying().filter(|worker| worker.stage == Stage::Open && worker.listens() > 0);
        let last = LastHolder {
            listens_on: leaver.listens(),
            successor_listens_on: serving().filter(|w| w.slot == leaver.slot).map(Worker::listens).max(),
            others_serve: serving().next().is_some(),
        };
        if !is_given_up(last) {
            return;
        }
        let is_left = |id: &ListeningId| !staying().any(|worker| worker.holds.contains_key(id));
        let left: Vec<ListeningId> = leaver.holds.keys().copied().filter(is_left).collect();
        // An address that only ever belonged to one worker, such as a path with a process id, is not
        // reported.
        let is_alone = staying().count() == 1;
        for id in left {
            self.give_up(id, is_alone, out);
        }
    }

    fn give_up(&mut self, id: ListeningId, is_alone: bool, out: &mut Outbox) {
        let Some(listening) = self.listenings.get(&id) else { return };
        let told = listening.holders.shared_once || is_alone;
        for (worker, state) in self.workers.iter() {
            if state.agent && state.stage == Stage::Draining && state.holds.contains_key(&id) {
                out.push(Action::Tell(*worker, Message::Drain { closes: Some(id) }));
            }
        }
        self.remove_listening(id, told, out);
    }

    /// Gives up addresses that no worker holds, if there is a worker that would listen on them if it wanted
    /// to. Without a worker, clients wait for the next one.
    pub(crate) fn drop_unheld(&mut self, now: Time, out: &mut Outbox) {
        let is_due = |until: Option<Time>| until.is_some_and(|until| until <= now);
        let due: Vec<ListeningId> = self
            .listenings
            .iter()
            .filter(|(_, l)| is_due(l.holders.unheld_until))
            .map(|(id, _)| *id)
            .collect();
        let works = self.workers.values().any(Worker::shows_where_it_listens);
        for id in due {
            if works {
                self.remove_listening(id, false, out);
            } else if let Some(listening) = self.listenings.get_mut(&id) {
                listening.holders.unheld_until = Some(now + EXITED_GRACE);
            }
        }
    }

    /// No worker is left and none will be started: gives up all addresses.
    pub(crate) fn close_all(&mut self, out: &mut Outbox) {
        while let Some(id) = self.listenings.keys().next().copied() {
            self.remove_listening(id, false, out);
        }
    }

    fn remove_listening(&mut self, id: ListeningId, told: bool, out: &mut Outbox) {
        if let Some(listening) = self.listenings.remove(&id) {
            self.workers.forget_address(id);
            self.forget_connections_of(id);
            out.push(Action::Unbind { listening: id, told });
            for pending in listening.pending {
                out.push(Action::Close(pending.connection));
            }
        }
    }
}
