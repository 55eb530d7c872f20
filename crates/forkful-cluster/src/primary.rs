//! The primary of one app: its workers' channels, its listenings, and the communication between them.
//! [`forkful_dispatch`] makes the decisions; this module has the descriptors.
//!
//! - this file: start and exit of workers, requests of the supervisor, and events for it
//! - `driver`: performs the dispatcher's actions
//! - `messages`: workers' messages
//! - `queries`: the addresses on which workers listen
//! - [`listening`]: the sockets of one address
//! - `own`: sockets that workers have opened themselves
//! - [`connections`]: the daemon's copies of accepted connections
//! - `conversation`: messages between apps and their primary
//! - `upkeep`: the supervisor's requests to single workers
//! - `written`: the saved state for another daemon, and restoring it
//! - `token`: the tokens of descriptors in the reactor

pub(crate) mod connections;
mod conversation;
mod driver;
mod listening;
mod messages;
mod own;
mod queries;
mod token;
mod upkeep;
mod written;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use forkful_core::Time;
use forkful_core::metrics::Inventory;
use forkful_core::outgoing::Peers;
use forkful_core::spec::Balance;
use forkful_core::stalls::Stall;
use forkful_dispatch::{Chore, Dispatcher, Event as Input, Evidence, ListeningId, Outbox};
use forkful_os::channel::RemoteEnd;
use forkful_os::connection;
use forkful_os::keeper::{Hold, Keeping};
use forkful_os::listener::Owner;
use forkful_os::reactor::{Event, Interest, Reactor};

use crate::channel::Channel;
use crate::protocol::incoming::{AgentReport, MetricsAnswer, NodeVersion};
use crate::protocol::outgoing::Leaving;
use connections::Connections;
use listening::{ListenKey, Listening};
use own::OwnGroups;
use token::Token;

pub use conversation::{MESSAGE_BYTES_MAX, MessageRefused};
pub use forkful_dispatch::{Counters, WorkerId};
pub use token::TOKEN_BITS;
pub use written::{KeptSocket, WrittenPrimary};

/// How long idle keep-alive connections may still send a request when their worker leaves.
const IDLE_GRACE_MS: u64 = 1000;

/// A dead worker's channel contains at most the kernel's buffer, a few hundred KiB; after this many turns,
/// another process must be writing.
const LAST_READS_MAX: usize = 64;

/// Linux' errno for an invalid query.
const EINVAL: i32 = 22;

/// Configuration of a primary, set once.
#[derive(Debug, Clone)]
pub struct PrimaryConfig {
    /// How new connections are distributed.
    pub balance: Balance,
    /// The upper bits of all its reactor tokens; the lower [`TOKEN_BITS`] belong to the primary.
    pub token_base: u64,
    /// The owner of sockets and of unix socket files: the workers' user, if it is not the daemon's user.
    pub owner: Option<Owner>,
    /// Whether each address belongs to a single slot, because the processes are not workers of a cluster.
    pub lends: bool,
    /// Lower ports are refused, as the kernel refuses them to the workers' user; 0 refuses none.
    pub lowest_port: u16,
    /// Keeps the sockets of addresses for another daemon, if there is a keeper.
    pub keeping: Keeping,
}

/// A port; TCP and UDP ports are separate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    Tcp(u16),
    Udp(u16),
}

impl Port {
    /// Its number, for either protocol.
    pub fn number(self) -> u16 {
        match self {
            Self::Tcp(number) | Self::Udp(number) => number,
        }
    }
}

/// An event for the supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrimaryEvent {
    /// The worker's runtime is running; user code has not run yet.
    Online(WorkerId),
    /// It listens on an address.
    Listening(WorkerId),
    /// It called `process.send('ready')`.
    Ready(WorkerId),
    /// Its listen was refused.
    ListenFailed {
        worker: WorkerId,
        /// The address, for people.
        address: String,
        /// The kernel's errno, positive.
        errno: i32,
        /// The port, if any.
        port: Option<Port>,
    },
    /// Its agent has finished draining.
    Drained {
        worker: WorkerId,
        /// The app listens for what its process is told to stop by.
        stops: bool,
    },
    /// Its channel is closed: the process is about to exit, or has left the cluster.
    Disconnected(WorkerId),
    /// prom-client has asked the worker for a primary's workers, and there are none.
    LacksWorkers(WorkerId),
    /// It sent a message to its primary (`process.send`): metrics, replies to actions, lines of log4js, and,
    /// while [`Primary::hear_messages`] is on, everything else.
    Message {
        worker: WorkerId,
        /// The message: JSON, at most [`LINE_BYTES_MAX`](crate::protocol::frame::LINE_BYTES_MAX) bytes.
        line: Vec<u8>,
    },
    /// Its agent is loaded; the app's own code follows. Sent once.
    Greeted {
        worker: WorkerId,
        /// The Node.js version, if the agent reports it.
        node: Option<NodeVersion>,
    },
    /// A report of its agent, see [`Primary::want_reports`].
    Report { worker: WorkerId, report: Box<AgentReport> },
    /// The servers that it has connected to, as its agent knows them; all of them.
    Peers { worker: WorkerId, peers: Peers },
    /// Its agent's answer with the app's prom-client metrics, see [`Primary::ask_for_metrics`], and what its process holds.
    Metrics { worker: WorkerId, answer: MetricsAnswer, inventory: Option<Box<Inventory>> },
    /// Its agent wants the merged metrics of all workers, see [`Primary::tell_merged`].
    WantsMerged { worker: WorkerId, question: u64 },
    /// Somebody got the metrics of this worker alone.
    Unmerged(WorkerId),
    /// Its agent reports stalls of the event loop, see [`Primary::want_stalls`].
    Stalled { worker: WorkerId, stalls: Vec<Stall> },
}

/// The state of a channel's other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OtherEnd {
    /// Closed: unread data will never be read.
    Closed,
    /// May still be read, by a worker that is given up.
    Open,
}

/// How often agents report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportPace {
    pub every: Duration,
    /// The interval while nothing happens in the worker; `None`: the same.
    pub quiet: Option<Duration>,
    /// Somebody looks: agents report at once, also in the middle of a start. Otherwise quiet workers answer within some seconds.
    pub at_once: bool,
}

/// Intervals and thresholds for agents.
#[derive(Debug, Default)]
struct Times {
    /// The report interval, if any.
    reports: Option<ReportPace>,
    /// The minimum length of reported stalls, if any.
    stalls_from: Option<Duration>,
    /// How workers leave, if known.
    leaving: Option<Leaving>,
}

/// See the module's documentation.
pub struct Primary {
    config: PrimaryConfig,
    reactor: Rc<Reactor>,
    dispatcher: Dispatcher,
    /// The dispatcher's pending actions; empty between two calls.
    outbox: Outbox,
    channels: BTreeMap<WorkerId, Channel>,
    listenings: BTreeMap<ListeningId, Listening>,
    /// The listening for a query.
    by_key: HashMap<ListenKey, ListeningId>,
    connections: Connections,
    own: OwnGroups,
    next_reply: u64,
    /// Addresses that were given up in this call, for people.
    given_up: Vec<String>,
    /// Whether the app's messages to its primary are wanted.
    hears_messages: bool,
    times: Times,
    events: VecDeque<PrimaryEvent>,
    /// The state for another daemon has changed since it was saved.
    has_changed: bool,
}

impl Primary {
    /// A primary without workers or addresses.
    pub fn new(config: PrimaryConfig, reactor: Rc<Reactor>, counts_closes: bool) -> Self {
        let mut dispatcher = Dispatcher::new(config.balance, counts_closes);
        if config.keeping.is_on() {
            dispatcher.accept_one_by_one();
        }
        let mut connections = Connections::default();
        connections.are_foreign = config.owner.is_some();
        Self {
            dispatcher,
            config,
            reactor,
            outbox: Outbox::default(),
            channels: BTreeMap::new(),
            listenings: BTreeMap::new(),
            by_key: HashMap::new(),
            connections,
            own: OwnGroups::default(),
            next_reply: 0,
            given_up: Vec::new(),
            hears_messages: false,
            times: Times::default(),
            events: VecDeque::new(),
            has_changed: false,
        }
    }

    /// Takes over the channel of a worker that was just spawned, and its hold.
    ///
    /// With `remote`, connections that the worker has not read can be taken back.
    pub fn attach(
        &mut self,
        id: WorkerId,
        (channel, hold): (OwnedFd, Hold),
        remote: Option<RemoteEnd>,
    ) -> std::io::Result<()> {
        let recalls = remote.is_some();
        let channel = Channel::new((channel, hold), remote, self.hears_messages);
        self.has_changed = true;
        let token = Token::Channel(id).encode(self.config.token_base);
        self.reactor.add(channel.fd(), token, Interest::READ)?;
        self.channels.insert(id, channel);
        self.dispatcher.attach(id, recalls);
        Ok(())
    }

    /// Sets a worker's pid (so that a worker without a core is not treated as stuck), and its slot (so that
    /// sticky clients stay with the slot across a reload).
    pub fn identify(&mut self, id: WorkerId, pid: u32, slot: u16) {
        if let Some(channel) = self.channels.get_mut(&id) {
            channel.pid = Some(pid);
        }
        self.dispatcher.identify(id, slot);
        self.has_changed = true;
    }

    /// Declares that a worker's process runs below another worker's: an address of one of them cannot be used
    /// by the other.
    pub fn belongs_to(&mut self, id: WorkerId, leader: WorkerId) {
        if let Some(channel) = self.channels.get_mut(&id) {
            channel.leader = Some(leader);
        }
    }

    /// Allows new connections for this worker as soon as it listens.
    pub fn open(&mut self, id: WorkerId, now: Time) {
        self.step(Input::Open(id), now);
    }

    /// No new connections for this worker; the connections in its queue go to other workers.
    pub fn close_traffic(&mut self, id: WorkerId, now: Time) {
        self.own_leaves(id, now);
        self.step(Input::CloseTraffic(id), now);
    }

    /// Lets a worker finish: it gets no new connections, its agent makes every response the last one on its
    /// connection, then it is told to disconnect. Returns the addresses, for people, that the app gives up
    /// with it.
    pub fn drain(&mut self, id: WorkerId, now: Time) -> Vec<String> {
        self.own_leaves(id, now);
        self.step(Input::Drain(id), now);
        std::mem::take(&mut self.given_up)
    }

    /// The worker's process has exited: its unacknowledged connections go to other workers.
    pub fn detach(&mut self, id: WorkerId, now: Time) {
        self.own_ended(id, now);
        self.dispatcher.exited(id);
        self.read_all(id, now);
        self.remove(id, OtherEnd::Closed, now);
    }

    /// Reads all of a worker's messages before it is removed: a connection that it acknowledged must not go
    /// to another worker.
    fn read_all(&mut self, id: WorkerId, now: Time) {
        let mut reads = 0;
        while self.read_channel(id, now) && reads < LAST_READS_MAX {
            reads += 1;
        }
    }

    /// From now on connections wait only in the kernel's queue, for another daemon.
    pub fn accept_no_more(&mut self, now: Time) {
        self.dispatcher.accept_no_more(now, &mut self.outbox);
        self.perform_all(now);
    }

    /// Whether every accepted connection was handed over.
    pub fn has_handed_all_over(&self) -> bool {
        self.connections.len() == 0
    }

    /// The kernel reports that a connection is closed. Cheap for connections of other programs.
    pub fn connection_closed(&mut self, cookie: u64) {
        self.dispatcher.connection_closed(cookie);
    }

    /// Changes the balance mode. Bound addresses keep their sockets, so a change from or to `shared` affects
    /// only later addresses.
    pub fn set_balance(&mut self, balance: Balance, now: Time) {
        self.config.balance = balance;
        self.step(Input::Balance(balance), now);
    }

    /// Sets the number of the app's slots, over which `sticky` distributes client addresses.
    pub fn set_slots(&mut self, slots: u16, now: Time) {
        self.step(Input::Slots(slots), now);
    }

    /// Sets how long the shares of new workers take to rise, and how long a drain may take.
    pub fn set_times(&mut self, slow_start: Duration, leaving: Leaving) {
        self.dispatcher.set_slow_start(slow_start);
        self.times.leaving = Some(leaving);
    }

    /// Sets the owner of sockets and of unix socket files, and the lowest port, for addresses bound from now on.
    pub fn set_owner(&mut self, owner: Option<Owner>, lowest_port: u16, lends: bool) {
        self.config.lends = lends;
        // What the workers before have been given stays in their hands.
        self.connections.are_foreign |= owner.is_some();
        self.config.owner = owner;
        self.config.lowest_port = lowest_port;
    }

    /// Whether a worker has asked to listen on any address.
    pub fn has_asked(&self, id: WorkerId) -> bool {
        self.dispatcher.has_asked(id)
    }

    /// No worker is left and none will be started: gives up all addresses.
    pub fn close_all(&mut self) {
        self.give_up_own();
        // The keeper has its copies for a moment longer, and for as long as it has no core.
        self.listenings.values().for_each(Listening::end);
        // None of this depends on time.
        self.step(Input::CloseAll, Time::default());
    }

    /// Ports whose closed connections matter: those where the daemon hands connections over.
    pub fn counted_ports(&self) -> impl Iterator<Item = u16> {
        let counted = self.dispatcher.counted().filter_map(|id| self.listenings.get(&id));
        counted.filter_map(|listening| listening.local_address().map(|address| address.port()))
    }

    /// Sets whether closes of connections are reported from now on.
    pub fn count_closes(&mut self, counts: bool) {
        self.dispatcher.count_closes(counts);
    }

    /// Whether the worker's agent is loaded.
    pub fn has_agent(&self, id: WorkerId) -> bool {
        self.dispatcher.has_agent(id)
    }

    /// Addresses with their current balance mode and counters.
    pub fn addresses(&self) -> impl Iterator<Item = (&str, Balance, Counters)> {
        self.listenings.iter().filter_map(|(id, listening)| {
            let (balance, counters) = self.dispatcher.counters(*id)?;
            Some((listening.address.as_str(), balance, counters))
        })
    }

    /// The paths of its unix sockets.
    pub fn socket_files(&self) -> impl Iterator<Item = &Path> {
        self.listenings.values().filter_map(Listening::file)
    }

    /// Whether any worker listens on any address.
    pub fn listens(&self) -> bool {
        self.dispatcher.listens()
    }

    /// The next event since the last call.
    pub fn take_event(&mut self) -> Option<PrimaryEvent> {
        self.events.pop_front()
    }

    /// A descriptor of this primary is ready.
    pub fn on_event(&mut self, event: &Event, now: Time) {
        match Token::decode(event.token) {
            Token::Channel(id) => {
                if event.writable {
                    self.flush(id, now);
                    self.perform_all(now);
                }
                if event.readable || event.hangup {
                    self.read_channel(id, now);
                }
                self.watch_write(id);
            }
            Token::Member { listening, member } => {
                let listening = ListeningId(listening);
                if member == 0 {
                    self.read_own_queue(listening, now);
                }
                self.step(Input::MemberReady { listening, member }, now);
            }
            Token::Own { group, place: _ } => self.on_own_ready(group, now),
        }
        self.drop_broken(now);
    }

    /// The effect of the messages of an event's worker is saved: the bytes need not be kept for another
    /// daemon, and answers are sent. Returns whether there were answers.
    pub fn take_read(&mut self, event: &Event, now: Time) -> bool {
        let Token::Channel(id) = Token::decode(event.token) else { return false };
        let answers = self.channels.get_mut(&id).is_some_and(Channel::take_read);
        if answers {
            self.flush(id, now);
            self.perform_all(now);
        }
        answers
    }

    /// Called when time has passed.
    pub fn on_time(&mut self, now: Time) {
        self.look_at_own(now);
        for chore in Chore::ALL {
            self.step(Input::Due(chore), now);
        }
        self.drop_broken(now);
    }

    /// When [`Self::on_time`] must be called; `None` if there is nothing to wait for.
    pub fn next_wake(&self) -> Option<Time> {
        self.dispatcher.next_wake().into_iter().chain(self.next_own_look()).min()
    }

    fn remove(&mut self, id: WorkerId, other_end: OtherEnd, now: Time) {
        let Some(channel) = self.channels.remove(&id) else { return };
        let may_have_served = self.may_have_served(id, &channel, other_end);
        let _gone = self.reactor.remove(channel.fd());
        drop(channel);
        self.step(Input::Gone { worker: id, may_have_served }, now);
    }

    /// Whether a worker has had the connection that it has not acknowledged.
    fn may_have_served(&self, id: WorkerId, channel: &Channel, other_end: OtherEnd) -> bool {
        match self.dispatcher.evidence(id, other_end == OtherEnd::Closed) {
            Evidence::None => false,
            Evidence::Traffic(connection) => {
                let connection = self.connections.get(connection);
                !connection.is_some_and(|connection| connection::is_untouched(connection).unwrap_or(false))
            }
            Evidence::Unread(pushed) => !channel.takes_out(pushed),
        }
    }

    /// Whether a process goes on serving when its channel is closed. In fork mode a process accepts connections by itself, on
    /// lent sockets, so it may close its channel (`process.disconnect()`). A process below it closes its channel only when it ends.
    fn lives_on(&self, id: WorkerId) -> bool {
        let is_leader = self.channels.get(&id).is_some_and(|channel| channel.leader.is_none());
        self.config.lends && is_leader && self.dispatcher.serves_without_channel(id)
    }

    /// The worker goes on without its channel until [`Self::detach`].
    fn mute(&mut self, id: WorkerId, now: Time) {
        let Some(mut channel) = self.channels.remove(&id) else { return };
        let may_have_served = self.may_have_served(id, &channel, OtherEnd::Closed);
        let _gone = self.reactor.remove(channel.fd());
        channel.mute();
        self.channels.insert(id, channel);
        self.step(Input::Muted { worker: id, may_have_served }, now);
    }

    /// A worker that violates the protocol is treated as if it had closed its channel.
    fn drop_broken(&mut self, now: Time) {
        if self.dispatcher.take_some_broken() {
            for id in self.dispatcher.broken().collect::<Vec<_>>() {
                self.read_all(id, now);
                if self.dispatcher.has(id) {
                    self.events.push_back(PrimaryEvent::Disconnected(id));
                    // It is alive and may continue reading.
                    self.remove(id, OtherEnd::Open, now);
                }
            }
        }
    }
}
