//! The primary of one app: its workers' channels, its listenings, and what goes on between them.
//!
//! - this file: workers come and go, and what the supervisor asks and is told
//! - `messages`: what workers say and are told
//! - `queries`: what they listen on
//! - [`listening`]: the sockets of one address
//! - `conversation`: what apps say to their primary, and what they are told
//! - `dispatch`: the daemon hands a connection to a worker (exact mode, rescue)
//! - `even`: connections that clients keep move to workers that have fewer
//! - `steer`: which sockets the kernel gives new connections to; watching the queues (direct mode)
//! - `upkeep`: what the supervisor asks of single workers
//! - `token`: how a descriptor is named in the reactor

mod conversation;
mod dispatch;
mod even;
mod listening;
mod messages;
mod queries;
mod steer;
mod token;
mod upkeep;
mod worker;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use forkful_core::Time;
use forkful_core::last_words::LastWords;
use forkful_core::spec::Balance;
use forkful_core::steering::evenness::Evenness;
use forkful_os::channel::RemoteEnd;
use forkful_os::listener::Owner;
use forkful_os::reactor::{Event, Interest, Reactor};

use crate::channel::{Channel, HandleLine, OtherEnd, Unanswered};
use crate::protocol::incoming::{AgentReport, NodeVersion};
use crate::protocol::outgoing;
use listening::{ListenKey, Listening};
use queries::EXITED_GRACE;
use token::Token;
use worker::{Stage, Worker};

pub use conversation::{MESSAGE_BYTES_MAX, MessageRefused};
pub use listening::Counters;
pub use token::TOKEN_BITS;
pub use worker::WorkerId;

/// How long idle keep-alive connections may still send a request when their worker leaves.
const IDLE_GRACE_MS: u64 = 1000;

/// A dead worker's channel holds what fits into the kernel's buffer, a few hundred KiB; after so many turns' worth of
/// it, somebody else writes.
const LAST_READS_MAX: usize = 64;

/// Linux's errno for a query that makes no sense.
const EINVAL: i32 = 22;

/// What the supervisor tells a primary once.
#[derive(Debug, Clone)]
pub struct PrimaryConfig {
    /// How new connections are spread.
    pub balance: Balance,
    /// The upper bits of all its reactor tokens; the lower [`TOKEN_BITS`] are its own.
    pub token_base: u64,
    /// Whose the files of unix sockets are: the workers' user, when that is not the daemon's own.
    pub owner: Option<Owner>,
    /// Lower ports are refused, as the kernel refuses them to the workers' user; 0 refuses none.
    pub lowest_port: u16,
}

/// A port; TCP and UDP have each their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    Tcp(u16),
    Udp(u16),
}

impl Port {
    /// Its number, whatever it is a port of.
    pub fn number(self) -> u16 {
        match self {
            Self::Tcp(number) | Self::Udp(number) => number,
        }
    }
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
        worker: WorkerId,
        /// On what, for people.
        address: String,
        /// The kernel's errno, positive.
        errno: i32,
        /// The port, if there is one.
        port: Option<Port>,
    },
    /// Its channel is closed: the process is about to exit, or has left the cluster.
    Disconnected(WorkerId),
    /// prom-client has asked for the workers of a primary in it, and got none.
    LacksWorkers(WorkerId),
    /// It said something to its primary (`process.send`): metrics, answers to actions, lines of log4js, and, while
    /// [`Primary::hear_messages`] is on, everything else.
    Message {
        worker: WorkerId,
        /// What it said: JSON, at most [`LINE_BYTES_MAX`](crate::protocol::frame::LINE_BYTES_MAX) bytes.
        line: Vec<u8>,
    },
    /// Its agent is loaded; the app's own code follows. Said once.
    Greeted {
        worker: WorkerId,
        /// The Node.js that runs it, if the agent says so.
        node: Option<NodeVersion>,
    },
    /// Its agent reports, see [`Primary::want_reports`].
    Report { worker: WorkerId, report: AgentReport },
}

/// Whose an open connection is.
#[derive(Debug, Clone, Copy)]
struct Owned {
    worker: WorkerId,
    listening: usize,
}

/// See the module's documentation.
pub struct Primary {
    config: PrimaryConfig,
    reactor: Rc<Reactor>,
    workers: BTreeMap<WorkerId, Worker>,
    listenings: BTreeMap<usize, Listening>,
    /// Which listening a query means.
    by_key: HashMap<ListenKey, usize>,
    next_listening: usize,
    /// Connections assigned so far; orders workers by their last one.
    assigned: u64,
    /// Open connections whose end will be told, by the kernel's socket cookie.
    open_connections: HashMap<u64, Owned>,
    /// Whether the daemon hears of closed connections, so that `open_connections` can be trusted.
    counts_closes: bool,
    /// When channels go on that were held up by the number of handles under way.
    flush_at: Option<Time>,
    /// Some channel is of no more use.
    some_broken: bool,
    /// Whether what apps say to their primary is wanted.
    hears_messages: bool,
    /// How often agents report, if at all.
    reports_every: Option<Duration>,
    /// When waiting connections and overdue answers were last looked at.
    looked_at: Time,
    retries: Vec<(Time, WorkerId, HandleLine)>,
    /// When the connections that clients keep are looked at.
    evenness: Evenness,
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
            by_key: HashMap::new(),
            next_listening: 0,
            assigned: 0,
            open_connections: HashMap::new(),
            counts_closes,
            flush_at: None,
            some_broken: false,
            hears_messages: false,
            reports_every: None,
            looked_at: Time::default(),
            retries: Vec::new(),
            evenness: Evenness::default(),
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
        let mut worker = Worker::new(Channel::new(channel, remote));
        worker.channel.hear(self.hears_messages);
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
    /// connection, then it is told to disconnect. Gives the addresses, for people, that the app has left with it.
    pub fn drain(&mut self, id: WorkerId, now: Time) -> Vec<String> {
        self.close_traffic(id, now);
        let Some(worker) = self.workers.get_mut(&id) else { return Vec::new() };
        if worker.stage >= Stage::Draining {
            return Vec::new();
        }
        worker.stage = Stage::Draining;
        // A socket that all workers share is left only by closing it, which `disconnect` does; until then the
        // worker would go on accepting, and never be done.
        let shares =
            worker.holds.keys().any(|index| self.listenings.get(index).is_some_and(Listening::is_shared));
        if worker.agent && !shares {
            worker.channel.send(outgoing::agent_drain(IDLE_GRACE_MS, &[]), now);
            self.watch_write(id);
        } else {
            self.disconnect(id, now);
        }
        let left = self.give_up_left(id, now);
        self.after_change(now);
        left
    }

    /// The worker's process has exited: what it had not acknowledged goes to others.
    pub fn detach(&mut self, id: WorkerId, now: Time) {
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.stage = Stage::Disconnecting;
        }
        self.read_all(id, now);
        self.remove(id, OtherEnd::Closed, now);
    }

    /// Takes all that a worker has said, before it goes: a connection that it acknowledged must not go to another.
    fn read_all(&mut self, id: WorkerId, now: Time) {
        let mut reads = 0;
        while self.read_channel(id, now) && reads < LAST_READS_MAX {
            reads += 1;
        }
    }

    /// The kernel says that a connection is closed; cheap for one that is not ours.
    pub fn connection_closed(&mut self, cookie: u64) {
        if let Some(owned) = self.open_connections.remove(&cookie)
            && let Some(worker) = self.workers.get_mut(&owned.worker)
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
        let untold = self.listenings.iter().filter(|(_, listening)| !listening.tells_closes());
        for index in untold.map(|(index, _)| *index).collect::<Vec<_>>() {
            self.forget_connections_of(index);
        }
        self.after_change(now);
    }

    /// Another owner for the files of unix sockets, and another lowest port, for what is bound from now on.
    pub fn set_owner(&mut self, owner: Option<Owner>, lowest_port: u16) {
        self.config.owner = owner;
        self.config.lowest_port = lowest_port;
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
            .filter(|listening| listening.tells_closes())
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

    /// The files of its unix sockets.
    pub fn socket_files(&self) -> impl Iterator<Item = &Path> {
        self.listenings.values().filter_map(Listening::file)
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
        self.disconnect_silent(now);
        self.sample_queues(now);
        self.dispatch_all(now);
        self.rebalance(now);
        self.look_at_evenness(now);
        self.drop_broken(now);
    }

    /// When [`Self::on_time`] wants to be called; `None` while there is nothing to wait for.
    pub fn next_wake(&self) -> Option<Time> {
        let unheld = self.listenings.values().filter_map(|l| l.unheld_until).min();
        let accept = self.listenings.values().filter_map(|l| l.accept_again).min();
        let words = self.workers.values().filter_map(|w| w.last_words).map(LastWords::end).min();
        let retry = self.retries.iter().map(|(at, _, _)| *at).min();
        [
            unheld,
            accept,
            retry,
            words,
            self.flush_at,
            self.next_sample(),
            self.next_dispatch(),
            self.next_rebalance(),
            self.evenness.next_look(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn remove(&mut self, id: WorkerId, other_end: OtherEnd, now: Time) {
        let Some(worker) = self.workers.get(&id) else { return };
        let held: Vec<usize> = worker.holds.keys().copied().collect();
        for index in held {
            self.release(id, index, EXITED_GRACE, now);
        }
        let Some(worker) = self.workers.remove(&id) else { return };
        let _gone = self.reactor.remove(worker.channel.fd());
        let Unanswered { free, lost } = worker.channel.into_unanswered(other_end);
        for pushed in free {
            self.take_back(pushed);
        }
        if let Some(listening) = lost.and_then(|pushed| self.listenings.get_mut(&pushed.listening)) {
            listening.counters.lost += 1;
        }
        self.open_connections.retain(|_, owned| owned.worker != id);
        self.retries.retain(|(_, owner, _)| *owner != id);
        self.after_change(now);
    }

    /// A worker that does not follow the protocol is treated as one that has hung up.
    fn drop_broken(&mut self, now: Time) {
        if std::mem::take(&mut self.some_broken) {
            let broken = self.workers.iter().filter(|(_, worker)| worker.channel.broken());
            for id in broken.map(|(id, _)| *id).collect::<Vec<_>>() {
                self.read_all(id, now);
                if self.workers.contains_key(&id) {
                    self.events.push_back(PrimaryEvent::Disconnected(id));
                    // It lives, and may read on.
                    self.remove(id, OtherEnd::Open, now);
                }
            }
        }
    }

    /// Who may get connections has changed.
    fn after_change(&mut self, now: Time) {
        self.begin_looks(now);
        self.refresh_all(now);
        self.dispatch_all(now);
    }
}
