//! The state of one app's primary, and its steps.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use forkful_core::Time;
use forkful_core::last_words::LastWords;
use forkful_core::spec::Balance;
use forkful_core::steering::AutoBalance;
use forkful_core::steering::evenness::Evenness;

use crate::action::{Action, Chore, Event, Later, Outbox};
use crate::channel::{Channel, Evidence, HandleLine, Unsent};
use crate::id::{ListeningId, ReplyId, WorkerId};
use crate::listening::{Counters, Listening, NewListening, Pending};
use crate::worker::{Stage, Worker};
use crate::workers::Workers;
use crate::written::settles_at;

/// The kernel limits the handles in flight per user; after reaching the limit, sending continues after this
/// pause.
const FLUSH_AGAIN: Duration = Duration::from_millis(10);
/// An address that only exited workers held stays bound for this time, because the next worker may take a
/// while to listen.
pub(crate) const EXITED_GRACE: Duration = Duration::from_secs(30);

/// The worker and the address of an open connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owned {
    pub(crate) worker: WorkerId,
    pub(crate) listening: ListeningId,
}

/// Connections that were assigned to workers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Assigned {
    /// Their number so far; used to order workers by their last assignment.
    pub(crate) count: u64,
    /// The address of the last one: the others come first when a worker becomes free.
    pub(crate) last: ListeningId,
}

/// Which connections are accepted from the kernel's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accepting {
    Many,
    /// See [`Dispatcher::accept_one_by_one`].
    OneByOne,
    /// See [`Dispatcher::accept_no_more`].
    Nothing,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Dispatcher {
    pub(crate) balance: Balance,
    pub(crate) workers: Workers,
    pub(crate) listenings: BTreeMap<ListeningId, Listening>,
    pub(crate) next_listening: usize,
    pub(crate) assigned: Assigned,
    /// Open connections whose close will be reported, by the kernel's socket cookie.
    pub(crate) open_connections: HashMap<u64, Owned>,
    /// Whether closes of connections are reported, so that `open_connections` is correct.
    pub(crate) counts_closes: bool,
    /// When channels continue that were held up by the limit of handles in flight.
    pub(crate) flush_at: Option<Time>,
    /// Some channel can no longer be used.
    some_broken: bool,
    /// When waiting connections and overdue replies were last checked.
    pub(crate) looked_at: Time,
    /// Replies with a socket that workers could not accept.
    pub(crate) retries: Vec<(Time, WorkerId, ReplyId)>,
    /// When to check the distribution of kept connections.
    pub(crate) evenness: Evenness,
    /// Workers that have not yet reported how many connections stay.
    pub(crate) uncounted: usize,
    pub(crate) accepting: Accepting,
    /// How long a new worker's share takes to rise.
    pub(crate) slow_start: Duration,
}

/// The step function, and state for the driver.
impl Dispatcher {
    /// Without workers or addresses. `counts_closes`: closes of connections will be reported.
    pub fn new(balance: Balance, counts_closes: bool) -> Self {
        Self {
            balance,
            workers: Workers::default(),
            listenings: BTreeMap::new(),
            next_listening: 0,
            assigned: Assigned { count: 0, last: ListeningId(0) },
            open_connections: HashMap::new(),
            counts_closes,
            flush_at: None,
            some_broken: false,
            looked_at: Time::default(),
            retries: Vec::new(),
            evenness: Evenness::default(),
            uncounted: 0,
            accepting: Accepting::Many,
            slow_start: Duration::ZERO,
        }
    }

    /// A connection is accepted only if it can be sent to a worker in the same turn; until then it waits in
    /// the kernel's queue. Accepted connections that wait in the daemon would be lost if the daemon dies.
    pub fn accept_one_by_one(&mut self) {
        self.accepting = Accepting::OneByOne;
    }

    /// The number of accepted connections that wait for a worker.
    pub fn pending(&self) -> usize {
        self.listenings.values().map(|listening| listening.pending.len()).sum()
    }

    /// Sets how long the shares of new workers take to rise.
    pub fn set_slow_start(&mut self, over: Duration) {
        self.slow_start = over;
    }

    /// From now on connections wait only in the kernel's queue, for another daemon; accepted ones still go to
    /// workers.
    pub fn accept_no_more(&mut self, now: Time, out: &mut Outbox) {
        self.accepting = Accepting::Nothing;
        let ids: Vec<ListeningId> = self.listenings.keys().copied().collect();
        ids.into_iter().for_each(|id| self.watch_members(id, now, out));
    }

    /// One step: the event changes the state, and actions go into the outbox.
    pub fn step(&mut self, event: Event, now: Time, out: &mut Outbox) {
        match event {
            Event::Open(worker) => self.set_stage(worker, Stage::Closed, Stage::Open, now, out),
            Event::CloseTraffic(worker) => self.set_stage(worker, Stage::Open, Stage::Closed, now, out),
            Event::Drain(worker) => self.drain(worker, now, out),
            Event::Stopping(worker) => self.on_stopping(worker, now),
            Event::Gone { worker, may_have_served } => self.on_gone(worker, may_have_served, now, out),
            Event::Muted { worker, may_have_served } => self.on_muted(worker, may_have_served, now, out),
            Event::CloseAll => self.close_all(out),
            Event::Balance(balance) => self.set_balance(balance, now, out),
            Event::Slots(slots) => self.set_slots(slots, now, out),
            Event::Ask(worker) => self.ask(worker, now, out),
            Event::Deliver { worker, listening, connection } => {
                self.deliver(worker, listening, connection, now, out);
            }
            Event::Pass { worker, reply } => self.queue(worker, HandleLine::Reply(reply), now, out),
            Event::Echoed(worker) => self.on_settled(worker, out),
            Event::Greeted(worker) => self.on_greeted(worker, now),
            Event::Held { worker, ack, listening, member, reply } => {
                self.on_held(worker, listening, (ack, member, reply), now, out);
            }
            Event::NotHeld(listening) => self.drop_if_new(listening, out),
            Event::GiveWay(listening) => self.give_way(listening, now, out),
            Event::Lost(listening) => self.on_lost(listening, out),
            Event::Listens { worker, listening } => self.on_listens(worker, listening, now, out),
            Event::Closed { worker, listening } => self.on_closed(worker, listening, now, out),
            Event::Leaves { worker, ack } => self.on_leaves(worker, ack, now, out),
            Event::Drained { worker, stops } => self.on_drained(worker, stops, now, out),
            Event::Answered { worker, seq, accepted } => self.on_answered(worker, seq, accepted, now, out),
            Event::HandleTaken(worker) => self.on_handle_taken(worker, now, out),
            Event::HandleMissed(worker) => self.on_handle_missed(worker, now, out),
            Event::Counted { worker, connections } => self.on_counted(worker, connections, now, out),
            Event::MemberReady { listening, member } => self.on_member_ready(listening, member, now, out),
            Event::Arrived { listening, connection, cookie, rescued } => {
                self.on_arrived(listening, Pending { connection, cookie, rescued }, out);
            }
            Event::AcceptEnded { listening, count, rescued, failed } => {
                self.on_accept_ended(listening, count, rescued, failed, now, out);
            }
            Event::TakenBack { worker, outcome } => self.on_taken_back(worker, outcome, out),
            Event::Queue { listening, member, length } => self.on_queue(listening, member, length),
            Event::QueuesRead(listening) => self.on_queues_read(listening, now, out),
            Event::Scheduled { worker, suspected, schedule } => {
                self.on_scheduled(worker, suspected, schedule, now, out);
            }
            Event::SteerFailed(listening) => self.on_steer_failed(listening),
            Event::WatchFailed { listening, member, before } => {
                self.on_watch_failed(listening, member, before, now);
            }
            Event::Due(chore) => self.do_chore(chore, now, out),
            Event::Now(Later::Dispatch) => self.dispatch_all(now, out),
            Event::Now(Later::HandOver) => self.hand_over_all(now, out),
            Event::Now(Later::Level(listening)) => self.level(listening, out),
        }
    }

    fn do_chore(&mut self, chore: Chore, now: Time, out: &mut Outbox) {
        match chore {
            Chore::Resume => {
                self.accept_again(now, out);
                self.flush_again(now, out);
                self.settle_silent(now, out);
                self.retry_replies(now, out);
            }
            Chore::Leave => {
                self.drop_unheld(now, out);
                self.disconnect_silent(now, out);
            }
            Chore::Sample => self.sample_queues(now, out),
            Chore::Dispatch => self.dispatch_all(now, out),
            Chore::Rebalance => {
                self.rebalance(now, out);
                self.raise_shares(now, out);
                self.look_at_evenness(now, out);
            }
        }
    }

    /// When the next periodic work is due; `None` if there is nothing to wait for.
    pub fn next_wake(&self) -> Option<Time> {
        let of_listenings = self.listenings.values().filter_map(|l| self.next_of_listening(l)).min();
        let of_workers = self.workers.active().filter_map(|(_, worker)| self.next_of_worker(worker)).min();
        let retry = self.retries.iter().map(|(at, ..)| *at).min();
        [of_listenings, of_workers, retry, self.flush_at, self.next_dispatch(), self.evenness.next_look()]
            .into_iter()
            .flatten()
            .min()
    }

    /// When something of an address is due.
    fn next_of_listening(&self, listening: &Listening) -> Option<Time> {
        let knock = listening.next_knock().filter(|at| *at > self.looked_at);
        let check = listening.auto.as_ref().and_then(AutoBalance::next_check);
        let Listening { holders, door, .. } = listening;
        [holders.unheld_until, door.again, listening.next_look(), knock, check].into_iter().flatten().min()
    }

    /// When something of a worker that may not rest is due.
    fn next_of_worker(&self, worker: &Worker) -> Option<Time> {
        let words = worker.farewell.last_words.map(LastWords::end);
        let rise = worker.rise.map(|rise| rise.next_step());
        [words, rise, settles_at(worker), self.overdue_at(&worker.channel)].into_iter().flatten().min()
    }

    /// A worker has started. `recalls`: what it has not read from its channel can be taken back.
    pub fn attach(&mut self, worker: WorkerId, recalls: bool) {
        self.workers.insert(worker, Worker::new(Channel::new(recalls)));
    }

    /// Sets a worker's slot, so that sticky clients stay with the slot across a reload.
    pub fn identify(&mut self, worker: WorkerId, slot: u16) {
        if let Some(worker) = self.workers.get_mut(&worker) {
            worker.slot = slot;
        }
    }

    /// An address was bound; the result of its query follows as [`Event::Held`] or [`Event::NotHeld`].
    pub fn add_listening(&mut self, new: NewListening, now: Time) -> ListeningId {
        let id = ListeningId(self.next_listening);
        self.next_listening += 1;
        self.listenings.insert(id, Listening::new(new, self.balance, now));
        id
    }

    /// The kernel reports that a connection is closed. Cheap for connections of other programs.
    pub fn connection_closed(&mut self, cookie: u64) {
        if let Some(owned) = self.open_connections.remove(&cookie)
            && let Some(worker) = self.workers.get_mut(&owned.worker)
        {
            worker.connections = worker.connections.saturating_sub(1);
        }
    }

    /// Sets whether closes of connections are reported from now on.
    pub fn count_closes(&mut self, counts: bool) {
        if self.counts_closes != counts {
            self.counts_closes = counts;
            self.forget_connections();
        }
    }

    /// A worker's process has exited; its remaining messages are still read. Its queries are no longer
    /// answered.
    pub fn exited(&mut self, worker: WorkerId) {
        if let Some(worker) = self.workers.get_mut(&worker) {
            worker.stage = Stage::Disconnecting;
        }
    }

    /// Whether a worker that closes its channel may go on serving: it was not told to leave, and has sockets of its own.
    /// Not for workers of Node's cluster, which end with their channel.
    pub fn serves_without_channel(&self, worker: WorkerId) -> bool {
        let worker = self.workers.get(&worker);
        worker.is_some_and(|worker| {
            worker.stage <= Stage::Open && !worker.farewell.stopping && worker.listens() > 0
        })
    }

    /// The app in a worker has sent a message.
    pub fn spoke(&mut self, worker: WorkerId, now: Time) {
        let worker = self.workers.get_mut(&worker);
        if let Some(words) = worker.and_then(|worker| worker.farewell.last_words.as_mut()) {
            words.heard = words.heard.max(now);
        }
    }

    /// The sequence number of the next message to a worker.
    pub fn next_seq(&mut self, worker: WorkerId) -> Option<u64> {
        self.workers.get_mut(&worker).map(Worker::next_seq)
    }

    /// A worker's channel, for writing. [`Self::flushed`] follows.
    pub fn channel_mut(&mut self, worker: WorkerId) -> Option<&mut Channel> {
        self.workers.get_mut(&worker).map(|worker| &mut worker.channel)
    }

    /// A worker's channel.
    pub fn channel(&self, worker: WorkerId) -> Option<&Channel> {
        self.workers.get(&worker).map(|worker| &worker.channel)
    }

    /// Writing to a channel has ended. `all`: everything that may be written was.
    pub fn flushed(&mut self, worker: WorkerId, unsent: Unsent, all: bool, now: Time, out: &mut Outbox) {
        let Some(worker) = self.workers.get_mut(&worker) else { return };
        let was_idle = worker.channel.is_idle();
        worker.channel.settle(unsent, all, now);
        let becomes_idle = !was_idle && worker.channel.is_idle();
        if worker.channel.handles_full() {
            self.flush_at.get_or_insert(now + FLUSH_AGAIN);
        }
        self.some_broken |= worker.channel.is_broken();
        // A line that could not be written was counted as written, and nothing else triggers a probe of a
        // worker whose lines are written.
        let is_put_off = !all || worker.channel.handles_full();
        if (is_put_off || becomes_idle) && self.listenings.values().any(|listening| listening.waiting() > 0) {
            out.push(Action::Later(Later::HandOver));
        }
    }

    /// Whether a channel has broken since the last call.
    pub fn take_some_broken(&mut self) -> bool {
        std::mem::take(&mut self.some_broken)
    }

    /// Workers whose channels can no longer be used.
    pub fn broken(&self) -> impl Iterator<Item = WorkerId> {
        self.workers.iter().filter(|(_, worker)| worker.channel.is_broken()).map(|(id, _)| *id)
    }

    /// How to find out whether an ending worker has had the connection in flight. `is_closed`: it will not
    /// read any more.
    pub fn evidence(&self, worker: WorkerId, is_closed: bool) -> Evidence {
        self.channel(worker).map_or(Evidence::None, |channel| channel.evidence(is_closed))
    }

    /// Whether a worker exists.
    pub fn has(&self, worker: WorkerId) -> bool {
        self.workers.contains_key(&worker)
    }

    /// Whether the worker's agent is loaded.
    pub fn has_agent(&self, worker: WorkerId) -> bool {
        self.workers.get(&worker).is_some_and(|worker| worker.agent)
    }

    /// The number of workers that an event may concern, for tests of costs.
    pub fn active_workers(&self) -> usize {
        self.workers.active().count()
    }

    /// Workers with an agent.
    pub fn with_agent(&self) -> impl Iterator<Item = WorkerId> {
        self.workers.iter().filter(|(_, worker)| worker.agent).map(|(id, _)| *id)
    }

    /// Since when the worker owes a reply, if it does; not counted while other messages of the worker are
    /// read.
    pub fn owes_since(&self, worker: WorkerId) -> Option<Time> {
        self.channel(worker)?.silent_since()
    }

    /// The current balance mode of an address, and its counters.
    pub fn counters(&self, listening: ListeningId) -> Option<(Balance, Counters)> {
        self.listenings.get(&listening).map(|listening| (listening.dispatch, listening.counters))
    }

    /// Addresses where the daemon hands over connections and their closes are reported.
    pub fn counted(&self) -> impl Iterator<Item = ListeningId> {
        self.listenings.iter().filter(|(_, listening)| listening.tells_closes()).map(|(id, _)| *id)
    }
}
