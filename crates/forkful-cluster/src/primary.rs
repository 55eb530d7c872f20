//! The primary of one app: its workers' channels, its listenings, and what goes on between them.
//!
//! - this file: workers come and go, messages are understood, queries answered
//! - [`listening`]: the sockets of one address
//! - `dispatch`: the daemon hands a connection to a worker (exact mode, rescue)
//! - `steer`: which sockets the kernel gives new connections to; watching the queues (direct mode)
//! - `token`: how a descriptor is named in the reactor

mod dispatch;
mod listening;
mod steer;
mod token;
mod worker;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use forkful_core::Time;
use forkful_core::spec::Balance;
use forkful_os::channel::RemoteEnd;
use forkful_os::reactor::{Event, Interest, Reactor};
use serde_json::value::RawValue;

use crate::channel::{Channel, HandleLine, worker_key};
use crate::protocol::incoming::{AgentMessage, Incoming, Query};
use crate::protocol::outgoing::{self, ReplyHead};
use listening::{ListenKey, Listening, Source};
use token::Token;
use worker::{Hold, Stage, Worker};

pub use listening::Counters;
pub use token::TOKEN_BITS;
pub use worker::WorkerId;

/// How long idle keep-alive connections may still send a request when their worker leaves.
const IDLE_GRACE_MS: u64 = 1000;
/// An address that no worker holds any more stays bound this long after a close by the app.
const CLOSED_GRACE: Duration = Duration::from_secs(1);
/// The same after an exit: the next worker may need a while before it listens again.
const EXITED_GRACE: Duration = Duration::from_secs(30);
/// A worker that could not take a listening socket (out of descriptors) is offered it again after this.
const REPLY_RETRY: Duration = Duration::from_millis(100);
/// The kernel limits how many handles a user may have under way; after that, sending goes on in so long.
const FLUSH_AGAIN: Duration = Duration::from_millis(10);
/// Listenings of one app; a bound against an app that listens in a loop.
const LISTENINGS_MAX: usize = 1024;

/// Linux errnos that go into replies.
const EINVAL: i32 = 22;
const EMFILE: i32 = 24;
const EADDRINUSE: i32 = 98;

/// What the supervisor tells a primary once.
#[derive(Debug, Clone, Copy)]
pub struct PrimaryConfig {
    /// How new connections are spread.
    pub balance: Balance,
    /// The upper bits of all its reactor tokens; the lower [`TOKEN_BITS`] are its own.
    pub token_base: u64,
}

/// What the supervisor has to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrimaryEvent {
    /// The worker's runtime is up; user code has not run.
    Online(WorkerId),
    /// It listens on an address.
    Listening(WorkerId),
    /// It said `process.send('ready')`.
    Ready(WorkerId),
    /// Its listen was refused.
    ListenFailed {
        /// Which worker.
        worker: WorkerId,
        /// On what, for people.
        address: String,
        /// The kernel's errno, positive.
        errno: i32,
        /// The TCP or UDP port, if there is one.
        port: Option<u16>,
    },
    /// Its channel is closed: the process is about to exit, or has left the cluster.
    Disconnected(WorkerId),
}

/// See the module's documentation.
pub struct Primary {
    config: PrimaryConfig,
    reactor: Rc<Reactor>,
    workers: BTreeMap<WorkerId, Worker>,
    listenings: BTreeMap<usize, Listening>,
    next_listening: usize,
    /// Connections assigned so far; orders workers by their last one.
    assigned: u64,
    /// Which worker an open connection was given to, by the kernel's socket cookie.
    open_connections: HashMap<u64, WorkerId>,
    /// Whether the daemon hears of closed connections, so that `open_connections` can be trusted.
    counts_closes: bool,
    /// When channels go on that were held up by the number of handles under way.
    flush_at: Option<Time>,
    /// Some channel is of no more use.
    some_broken: bool,
    /// When waiting connections and overdue answers were last looked at.
    looked_at: Time,
    retries: Vec<(Time, WorkerId, HandleLine)>,
    events: VecDeque<PrimaryEvent>,
}

impl Primary {
    /// A primary without workers or addresses.
    pub fn new(config: PrimaryConfig, reactor: Rc<Reactor>, counts_closes: bool) -> Self {
        Self {
            config,
            reactor,
            workers: BTreeMap::new(),
            listenings: BTreeMap::new(),
            next_listening: 0,
            assigned: 0,
            open_connections: HashMap::new(),
            counts_closes,
            flush_at: None,
            some_broken: false,
            looked_at: Time::default(),
            retries: Vec::new(),
            events: VecDeque::new(),
        }
    }

    /// Takes over the channel of a worker that was just spawned.
    ///
    /// With `remote`, connections that the worker has not read can be taken back from it.
    pub fn attach(
        &mut self,
        id: WorkerId,
        channel: OwnedFd,
        remote: Option<RemoteEnd>,
    ) -> std::io::Result<()> {
        let worker = Worker::new(Channel::new(channel, remote));
        let token = Token::Channel(id).encode(self.config.token_base);
        self.reactor.add(worker.channel.fd(), token, Interest::READ)?;
        self.workers.insert(id, worker);
        Ok(())
    }

    /// Says which process a worker is (so that one that gets no core is not taken for one that is stuck), and in
    /// which slot (so that sticky clients stay with the slot over a reload).
    pub fn identify(&mut self, id: WorkerId, pid: u32, slot: u16) {
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.pid = Some(pid);
            worker.slot = slot;
        }
    }

    /// New connections may go to this worker as soon as it listens.
    pub fn open(&mut self, id: WorkerId, now: Time) {
        if let Some(worker) = self.workers.get_mut(&id)
            && worker.stage == Stage::Closed
        {
            worker.stage = Stage::Open;
            self.after_change(now);
        }
    }

    /// No new connections for this worker; those in its queue go to others.
    pub fn close_traffic(&mut self, id: WorkerId, now: Time) {
        if let Some(worker) = self.workers.get_mut(&id)
            && worker.stage == Stage::Open
        {
            worker.stage = Stage::Closed;
            self.after_change(now);
        }
    }

    /// Lets a worker finish: its traffic is closed, its agent makes every response the last of its
    /// connection, then it is told to disconnect.
    pub fn drain(&mut self, id: WorkerId, now: Time) {
        self.close_traffic(id, now);
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if worker.stage >= Stage::Draining {
            return;
        }
        worker.stage = Stage::Draining;
        // A socket that all workers share is left only by closing it, which `disconnect` does; until then the
        // worker would go on accepting, and never be done.
        let shares =
            worker.holds.keys().any(|index| self.listenings.get(index).is_some_and(Listening::is_shared));
        if worker.agent && !shares {
            worker.channel.send(outgoing::agent_drain(IDLE_GRACE_MS), now);
        } else {
            Self::disconnect(worker, now);
        }
        self.watch_write(id);
        self.after_change(now);
    }

    /// The worker's process has exited: what it had not acknowledged goes to others.
    pub fn detach(&mut self, id: WorkerId, now: Time) {
        self.read_channel(id, now);
        self.remove(id, now);
    }

    /// The kernel says that a connection is closed; cheap for one that is not ours.
    pub fn connection_closed(&mut self, cookie: u64) {
        if let Some(id) = self.open_connections.remove(&cookie)
            && let Some(worker) = self.workers.get_mut(&id)
        {
            worker.connections = worker.connections.saturating_sub(1);
        }
    }

    /// Another way to spread connections. Addresses that are bound keep their sockets, so a change from
    /// or to `shared` takes effect for later ones only.
    pub fn set_balance(&mut self, balance: Balance, now: Time) {
        if self.config.balance == balance {
            return;
        }
        self.config.balance = balance;
        for listening in self.listenings.values_mut() {
            listening.set_balance(balance, now);
        }
        self.after_change(now);
    }

    /// Whether a worker has asked to listen on anything.
    pub fn has_asked(&self, id: WorkerId) -> bool {
        self.workers.get(&id).is_some_and(|worker| !worker.holds.is_empty())
    }

    /// No worker is left and none will come: all addresses are given up.
    pub fn close_all(&mut self) {
        let all: Vec<usize> = self.listenings.keys().copied().collect();
        for index in all {
            self.remove_listening(index);
        }
    }

    /// Ports whose closed connections are of use: those where the daemon hands connections over.
    pub fn counted_ports(&self) -> impl Iterator<Item = u16> {
        self.listenings
            .values()
            .filter(|listening| listening.dispatch == Balance::Exact)
            .filter_map(|listening| listening.local_address().map(|address| address.port()))
    }

    /// Says whether the daemon hears of closed connections from now on.
    pub fn count_closes(&mut self, counts: bool) {
        if self.counts_closes != counts {
            self.counts_closes = counts;
            self.forget_connections();
        }
    }

    /// Whether the worker's agent is there.
    pub fn has_agent(&self, id: WorkerId) -> bool {
        self.workers.get(&id).is_some_and(|worker| worker.agent)
    }

    /// Addresses, what new connections do there now, and counters.
    pub fn addresses(&self) -> impl Iterator<Item = (&str, Balance, Counters)> {
        self.listenings.values().map(|l| (l.address.as_str(), l.dispatch, l.counters))
    }

    /// Whether any worker listens on anything.
    pub fn listens(&self) -> bool {
        self.listenings.values().any(|listening| listening.unheld_until.is_none())
    }

    /// What happened since the last call, in order.
    pub fn take_event(&mut self) -> Option<PrimaryEvent> {
        self.events.pop_front()
    }

    /// A descriptor of this primary is ready.
    pub fn on_event(&mut self, event: &Event, now: Time) {
        match Token::decode(event.token) {
            Token::Channel(id) => {
                if event.writable
                    && let Some(worker) = self.workers.get_mut(&id)
                {
                    worker.channel.flush(now);
                }
                if event.readable || event.hangup {
                    self.read_channel(id, now);
                }
                self.watch_write(id);
            }
            Token::Member { listening, member } => self.on_member_ready(listening, member, now),
        }
        self.drop_broken(now);
    }

    /// Time has passed.
    pub fn on_time(&mut self, now: Time) {
        self.accept_again(now);
        self.flush_again(now);
        self.retry_replies(now);
        self.drop_unheld(now);
        self.sample_queues(now);
        self.dispatch_all(now);
        self.rebalance(now);
        self.drop_broken(now);
    }

    /// When [`Self::on_time`] wants to be called; `None` while there is nothing to wait for.
    pub fn next_wake(&self) -> Option<Time> {
        let unheld = self.listenings.values().filter_map(|l| l.unheld_until).min();
        let accept = self.listenings.values().filter_map(|l| l.accept_again).min();
        let retry = self.retries.iter().map(|(at, _, _)| *at).min();
        [
            unheld,
            accept,
            retry,
            self.flush_at,
            self.next_sample(),
            self.next_dispatch(),
            self.next_rebalance(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn read_channel(&mut self, id: WorkerId, now: Time) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let received = worker.channel.read();
        for message in received.messages {
            self.on_message(id, message, now);
        }
        if received.closed && self.workers.contains_key(&id) {
            self.events.push_back(PrimaryEvent::Disconnected(id));
            self.remove(id, now);
        }
        self.watch_write(id);
    }

    fn on_message(&mut self, id: WorkerId, message: Incoming, now: Time) {
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
            Incoming::Agent(AgentMessage::Hello) => {
                if let Some(worker) = self.workers.get_mut(&id) {
                    worker.agent = true;
                }
            }
            Incoming::Agent(AgentMessage::Drained) => {
                if let Some(worker) = self.workers.get_mut(&id)
                    && worker.stage == Stage::Draining
                {
                    Self::disconnect(worker, now);
                }
                self.watch_write(id);
            }
            Incoming::Ready => self.events.push_back(PrimaryEvent::Ready(id)),
            Incoming::User | Incoming::Ignored => {}
        }
    }

    fn disconnect(worker: &mut Worker, now: Time) {
        if worker.stage != Stage::Disconnecting {
            worker.stage = Stage::Disconnecting;
            let seq = worker.next_seq();
            worker.channel.send(outgoing::disconnect(seq), now);
        }
    }

    fn on_query(&mut self, id: WorkerId, query: &Query, ack: u64, now: Time) {
        if self.workers.get(&id).is_none_or(|worker| worker.stage == Stage::Disconnecting) {
            return;
        }
        match self.find_or_bind(id, query, now) {
            Ok((index, member)) => self.answer_query(id, index, member, ack, now),
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(EINVAL);
                self.refuse_query(id, ack, errno, query.data.as_deref(), now);
                self.events.push_back(PrimaryEvent::ListenFailed {
                    worker: id,
                    address: listening::describe_query(query),
                    errno,
                    port: query.port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0),
                });
            }
        }
        self.refresh_all(now);
    }

    fn refuse_query(&mut self, id: WorkerId, ack: u64, errno: i32, data: Option<&RawValue>, now: Time) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let seq = worker.next_seq();
        let key = worker_key(usize::MAX);
        worker.channel.send(outgoing::reply_error(ReplyHead { key: &key, ack, data, seq }, errno), now);
        self.watch_write(id);
    }

    /// The listening that a query means, and the worker's own socket in it.
    fn find_or_bind(&mut self, id: WorkerId, query: &Query, now: Time) -> std::io::Result<(usize, usize)> {
        let key = ListenKey::of(query);
        let found = self.listenings.iter().find(|(_, listening)| listening.key == key).map(|(i, _)| *i);
        let index = match found {
            Some(index) => {
                let held = self.workers.get(&id).is_some_and(|w| w.holds.contains_key(&index));
                if held {
                    return Err(std::io::Error::from_raw_os_error(EADDRINUSE)); // by the same worker
                }
                index
            }
            None if self.listenings.len() >= LISTENINGS_MAX => {
                return Err(std::io::Error::from_raw_os_error(EMFILE));
            }
            None => {
                let listening = Listening::bind(query, self.config.balance, now)?;
                let index = self.next_listening;
                self.next_listening += 1;
                self.listenings.insert(index, listening);
                index
            }
        };
        let listening = self.listenings.get_mut(&index).expect("found or inserted above");
        if listening.data.is_none() {
            listening.data.clone_from(&query.data);
        }
        let member = if listening.push_only() { 0 } else { listening.take_member(id)? };
        Ok((index, member))
    }

    fn answer_query(&mut self, id: WorkerId, index: usize, member: usize, ack: u64, now: Time) {
        let Some(listening) = self.listenings.get_mut(&index) else { return };
        let Some(worker) = self.workers.get_mut(&id) else { return };
        listening.unheld_until = None;
        let own = matches!(listening.source, Source::Group(_)) && !listening.push_only();
        worker.holds.insert(index, Hold { member: own.then_some(member), listening: false });
        let key = worker_key(index);
        let seq = worker.next_seq();
        let head = ReplyHead { key: &key, ack, data: listening.data.as_deref(), seq };
        if listening.push_only() {
            let line = outgoing::reply_push(head, listening.local_address());
            worker.channel.send(line, now);
            return;
        }
        let line = outgoing::reply_handle(head, outgoing::handle_kind(listening.key.kind()));
        match listening.socket(member).try_clone_to_owned() {
            Ok(handle) => worker.channel.send_reply(line, handle, worker.holds.len(), now),
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(EMFILE);
                worker.channel.send(outgoing::reply_error(head, errno), now);
            }
        }
    }

    fn on_listening(&mut self, id: WorkerId, query: &Query, now: Time) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let meant = worker.holds.iter().find(|(index, hold)| {
            !hold.listening
                && self.listenings.get(index).is_some_and(|listening| listening.is_reported_as(query))
        });
        let Some(index) = meant.map(|(index, _)| *index) else { return };
        if let Some(hold) = worker.holds.get_mut(&index) {
            hold.listening = true;
        }
        self.events.push_back(PrimaryEvent::Listening(id));
        self.after_change(now);
    }

    fn on_close(&mut self, id: WorkerId, key: &str, now: Time) {
        let index = self.listenings.keys().copied().find(|index| worker_key(*index) == key);
        if let Some(index) = index {
            let leaving = self.workers.get(&id).is_some_and(|worker| worker.stage >= Stage::Draining);
            self.release(id, index, if leaving { EXITED_GRACE } else { CLOSED_GRACE }, now);
            self.after_change(now);
        }
    }

    fn on_leaving(&mut self, id: WorkerId, ack: u64, now: Time) {
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.stage = Stage::Disconnecting;
            let seq = worker.next_seq();
            worker.channel.send(outgoing::acknowledge(ack, seq), now);
            self.after_change(now);
        }
    }

    /// A worker lets go of a listening.
    fn release(&mut self, id: WorkerId, index: usize, grace: Duration, now: Time) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let Some(hold) = worker.holds.remove(&index) else { return };
        let still_held = self.workers.values().any(|worker| worker.holds.contains_key(&index));
        let Some(listening) = self.listenings.get_mut(&index) else { return };
        listening.suspicion.remove(id);
        if let Some(member) = hold.member
            && listening.members[member].owner == Some(id)
        {
            listening.members[member].owner = None;
        }
        if !still_held {
            listening.unheld_until = Some(now + grace);
        }
    }

    fn remove(&mut self, id: WorkerId, now: Time) {
        let Some(worker) = self.workers.get(&id) else { return };
        let held: Vec<usize> = worker.holds.keys().copied().collect();
        for index in held {
            self.release(id, index, EXITED_GRACE, now);
        }
        let Some(worker) = self.workers.remove(&id) else { return };
        let _gone = self.reactor.remove(worker.channel.fd());
        for pushed in worker.channel.into_unanswered() {
            self.take_back(pushed);
        }
        self.open_connections.retain(|_, owner| *owner != id);
        self.retries.retain(|(_, owner, _)| *owner != id);
        self.after_change(now);
    }

    fn on_handle_ack(&mut self, id: WorkerId, now: Time) {
        self.with_channel(id, |channel| {
            if matches!(channel.in_flight(), Some(HandleLine::Reply { .. })) {
                channel.answered();
                channel.flush(now);
            }
        });
        self.on_turned(id, now);
        self.dispatch_all(now);
    }

    /// A handle did not arrive, or a probe was answered.
    fn on_handle_nack(&mut self, id: WorkerId, now: Time) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        match worker.channel.answered() {
            None => {}
            Some((HandleLine::Probe, _)) => {
                worker.proof = Some(now);
                worker.channel.flush(now);
                self.on_turned(id, now);
            }
            Some((reply @ HandleLine::Reply { .. }, _)) => {
                self.retries.push((now + REPLY_RETRY, id, reply));
                self.on_turned(id, now);
            }
            Some((HandleLine::Connection(pushed), _)) => self.on_refused(id, pushed, now),
        }
        self.dispatch_all(now);
    }

    fn flush_again(&mut self, now: Time) {
        if self.flush_at.is_some_and(|at| at <= now) {
            self.flush_at = None;
            self.looked_at = now;
            let held = self.workers.iter().filter(|(_, worker)| worker.channel.handles_full());
            for id in held.map(|(id, _)| *id).collect::<Vec<_>>() {
                self.with_channel(id, |channel| channel.flush(now));
            }
        }
    }

    fn retry_replies(&mut self, now: Time) {
        let retries = std::mem::take(&mut self.retries);
        let (due, rest): (Vec<_>, Vec<_>) = retries.into_iter().partition(|(at, _, _)| *at <= now);
        self.retries = rest;
        for (_, id, reply) in due {
            self.with_channel(id, |channel| channel.send_handle(reply, now));
        }
    }

    /// Gives up addresses that nobody holds any more, while others of the app work.
    fn drop_unheld(&mut self, now: Time) {
        let due: Vec<usize> = self
            .listenings
            .iter()
            .filter(|(_, listening)| listening.unheld_until.is_some_and(|until| until <= now))
            .map(|(index, _)| *index)
            .collect();
        let works = self.workers.values().any(|worker| worker.stage == Stage::Open);
        for index in due {
            if works {
                self.remove_listening(index);
            } else if let Some(listening) = self.listenings.get_mut(&index) {
                listening.unheld_until = Some(now + EXITED_GRACE);
            }
        }
    }

    fn remove_listening(&mut self, index: usize) {
        if let Some(listening) = self.listenings.remove(&index) {
            for (member, state) in listening.members.iter().enumerate() {
                if state.interest.is_some() {
                    let _gone = self.reactor.remove(listening.socket(member));
                }
            }
        }
    }

    /// A worker that does not follow the protocol is treated as one that has hung up.
    fn drop_broken(&mut self, now: Time) {
        if std::mem::take(&mut self.some_broken) {
            let broken = self.workers.iter().filter(|(_, worker)| worker.channel.broken());
            for id in broken.map(|(id, _)| *id).collect::<Vec<_>>() {
                self.events.push_back(PrimaryEvent::Disconnected(id));
                self.remove(id, now);
            }
        }
    }

    fn with_channel(&mut self, id: WorkerId, act: impl FnOnce(&mut Channel)) {
        if let Some(worker) = self.workers.get_mut(&id) {
            act(&mut worker.channel);
        }
        self.watch_write(id);
    }

    /// Keeps the reactor's interest in writability true to whether there is something to write.
    fn watch_write(&mut self, id: WorkerId) {
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

    /// Who may get connections has changed.
    fn after_change(&mut self, now: Time) {
        self.refresh_all(now);
        self.dispatch_all(now);
    }
}
