//! The primary of one app: its workers' channels, its listenings, and what goes on between them. What is decided is in
//! [`forkful_dispatch`]; here are the descriptors.
//!
//! - this file: workers come and go, and what the supervisor asks and is told
//! - `driver`: performs what the dispatcher decides
//! - `messages`: what workers say
//! - `queries`: what they listen on
//! - [`listening`]: the sockets of one address
//! - `own`: sockets that workers have opened by themselves
//! - [`connections`]: the daemon's copies of accepted connections
//! - `conversation`: what apps say to their primary, and what they are told
//! - `upkeep`: what the supervisor asks of single workers
//! - `written`: what is written down for another daemon, and taken up by it
//! - `token`: how a descriptor is named in the reactor

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
    /// Whether an address is one slot's alone: its processes are no workers of a cluster.
    pub lends: bool,
    /// Lower ports are refused, as the kernel refuses them to the workers' user; 0 refuses none.
    pub lowest_port: u16,
    /// Holds the sockets of addresses for another daemon, if there is a keeper.
    pub keeping: Keeping,
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
    /// Its agent has nothing left to finish.
    Drained(WorkerId),
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
    Report { worker: WorkerId, report: Box<AgentReport> },
    /// Its agent says what the app's prom-client has, see [`Primary::ask_for_metrics`].
    Metrics { worker: WorkerId, answer: MetricsAnswer },
    /// Its agent tells where the event loop stood still, see [`Primary::want_stalls`].
    Stalled { worker: WorkerId, stalls: Vec<Stall> },
}

/// What becomes of a channel's other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OtherEnd {
    /// It is closed: what was not read from it never will be.
    Closed,
    /// It may still be read, by a worker that is given up.
    Open,
}

/// How often agents report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportPace {
    pub every: Duration,
    /// While nothing happens in the worker; `None`: as often.
    pub quiet: Option<Duration>,
}

/// What agents are told of times.
#[derive(Debug, Default)]
struct Times {
    /// How often they report, if at all.
    reports: Option<ReportPace>,
    /// The shortest stall that they tell of, if any.
    stalls_from: Option<Duration>,
    /// How long workers have to leave, if that is known.
    drain_timeout: Option<Duration>,
}

/// See the module's documentation.
pub struct Primary {
    config: PrimaryConfig,
    reactor: Rc<Reactor>,
    dispatcher: Dispatcher,
    /// What the dispatcher wants done; empty between two calls.
    outbox: Outbox,
    channels: BTreeMap<WorkerId, Channel>,
    listenings: BTreeMap<ListeningId, Listening>,
    /// Which listening a query means.
    by_key: HashMap<ListenKey, ListeningId>,
    connections: Connections,
    own: OwnGroups,
    next_reply: u64,
    /// Addresses, for people, that were given up in this call.
    given_up: Vec<String>,
    /// Whether what apps say to their primary is wanted.
    hears_messages: bool,
    times: Times,
    events: VecDeque<PrimaryEvent>,
    /// What another daemon has to know is not any more what was written down.
    has_changed: bool,
}

impl Primary {
    /// A primary without workers or addresses.
    pub fn new(config: PrimaryConfig, reactor: Rc<Reactor>, counts_closes: bool) -> Self {
        let mut dispatcher = Dispatcher::new(config.balance, counts_closes);
        if config.keeping.is_on() {
            dispatcher.accept_one_by_one();
        }
        Self {
            dispatcher,
            config,
            reactor,
            outbox: Outbox::default(),
            channels: BTreeMap::new(),
            listenings: BTreeMap::new(),
            by_key: HashMap::new(),
            connections: Connections::default(),
            own: OwnGroups::default(),
            next_reply: 0,
            given_up: Vec::new(),
            hears_messages: false,
            times: Times::default(),
            events: VecDeque::new(),
            has_changed: false,
        }
    }

    /// Takes over the channel of a worker that was just spawned, and what keeps it.
    ///
    /// With `remote`, connections that the worker has not read can be taken back from it.
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

    /// Says which process a worker is (so that one that gets no core is not taken for one that is stuck), and in
    /// which slot (so that sticky clients stay with the slot over a reload).
    pub fn identify(&mut self, id: WorkerId, pid: u32, slot: u16) {
        if let Some(channel) = self.channels.get_mut(&id) {
            channel.pid = Some(pid);
        }
        self.dispatcher.identify(id, slot);
        self.has_changed = true;
    }

    /// Says that a worker is a process below another one's: what one of them listens on, the other cannot.
    pub fn belongs_to(&mut self, id: WorkerId, leader: WorkerId) {
        if let Some(channel) = self.channels.get_mut(&id) {
            channel.leader = Some(leader);
        }
    }

    /// New connections may go to this worker as soon as it listens.
    pub fn open(&mut self, id: WorkerId, now: Time) {
        self.step(Input::Open(id), now);
    }

    /// No new connections for this worker; those in its queue go to others.
    pub fn close_traffic(&mut self, id: WorkerId, now: Time) {
        self.own_leaves(id, now);
        self.step(Input::CloseTraffic(id), now);
    }

    /// Lets a worker finish: its traffic is closed, its agent makes every response the last of its
    /// connection, then it is told to disconnect. Gives the addresses, for people, that the app has left with it.
    pub fn drain(&mut self, id: WorkerId, now: Time) -> Vec<String> {
        self.own_leaves(id, now);
        self.step(Input::Drain(id), now);
        std::mem::take(&mut self.given_up)
    }

    /// The worker's process has exited: what it had not acknowledged goes to others.
    pub fn detach(&mut self, id: WorkerId, now: Time) {
        self.own_ended(id, now);
        self.dispatcher.exited(id);
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

    /// From now on connections wait in the kernel's queue alone, for another daemon.
    pub fn accept_no_more(&mut self, now: Time) {
        self.dispatcher.accept_no_more(now, &mut self.outbox);
        self.perform_all(now);
    }

    /// Whether every connection that was accepted is with a worker.
    pub fn has_handed_all_over(&self) -> bool {
        self.connections.len() == 0
    }

    /// The kernel says that a connection is closed. Cheap for a connection of another program.
    pub fn connection_closed(&mut self, cookie: u64) {
        self.dispatcher.connection_closed(cookie);
    }

    /// Another way to spread connections. Addresses that are bound keep their sockets, so a change from
    /// or to `shared` takes effect for later ones only.
    pub fn set_balance(&mut self, balance: Balance, now: Time) {
        self.config.balance = balance;
        self.step(Input::Balance(balance), now);
    }

    /// How long the shares of workers take to rise that begin to serve from now on, and how long a drain may take.
    pub fn set_times(&mut self, slow_start: Duration, drain_timeout: Duration) {
        self.dispatcher.set_slow_start(slow_start);
        self.times.drain_timeout = Some(drain_timeout);
    }

    /// Another owner for the files of unix sockets, and another lowest port, for what is bound from now on.
    pub fn set_owner(&mut self, owner: Option<Owner>, lowest_port: u16, lends: bool) {
        self.config.lends = lends;
        self.config.owner = owner;
        self.config.lowest_port = lowest_port;
    }

    /// Whether a worker has asked to listen on anything.
    pub fn has_asked(&self, id: WorkerId) -> bool {
        self.dispatcher.has_asked(id)
    }

    /// No worker is left and none will come: all addresses are given up.
    pub fn close_all(&mut self) {
        self.give_up_own();
        // Nothing of this depends on time.
        self.step(Input::CloseAll, Time::default());
    }

    /// Ports whose closed connections are of use: those where the daemon hands connections over.
    pub fn counted_ports(&self) -> impl Iterator<Item = u16> {
        let counted = self.dispatcher.counted().filter_map(|id| self.listenings.get(&id));
        counted.filter_map(|listening| listening.local_address().map(|address| address.port()))
    }

    /// Says whether the daemon hears of closed connections from now on.
    pub fn count_closes(&mut self, counts: bool) {
        self.dispatcher.count_closes(counts);
    }

    /// Whether the worker's agent is there.
    pub fn has_agent(&self, id: WorkerId) -> bool {
        self.dispatcher.has_agent(id)
    }

    /// Addresses, what new connections do there now, and counters.
    pub fn addresses(&self) -> impl Iterator<Item = (&str, Balance, Counters)> {
        self.listenings.iter().filter_map(|(id, listening)| {
            let (balance, counters) = self.dispatcher.counters(*id)?;
            Some((listening.address.as_str(), balance, counters))
        })
    }

    /// The files of its unix sockets.
    pub fn socket_files(&self) -> impl Iterator<Item = &Path> {
        self.listenings.values().filter_map(Listening::file)
    }

    /// Whether any worker listens on anything.
    pub fn listens(&self) -> bool {
        self.dispatcher.listens()
    }

    /// What happened since the last call, in order.
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

    /// What the worker of an event has said is written down: it need not be kept for another daemon.
    pub fn take_read(&mut self, event: &Event) {
        if let Token::Channel(id) = Token::decode(event.token)
            && let Some(channel) = self.channels.get_mut(&id)
        {
            channel.take_read();
        }
    }

    /// Time has passed.
    pub fn on_time(&mut self, now: Time) {
        self.look_at_own(now);
        for chore in Chore::ALL {
            self.step(Input::Due(chore), now);
        }
        self.drop_broken(now);
    }

    /// When [`Self::on_time`] wants to be called; `None` while there is nothing to wait for.
    pub fn next_wake(&self) -> Option<Time> {
        self.dispatcher.next_wake().into_iter().chain(self.next_own_look()).min()
    }

    fn remove(&mut self, id: WorkerId, other_end: OtherEnd, now: Time) {
        let Some(channel) = self.channels.remove(&id) else { return };
        let may_have_served = match self.dispatcher.evidence(id, other_end == OtherEnd::Closed) {
            Evidence::None => false,
            Evidence::Traffic(connection) => {
                let connection = self.connections.get(connection);
                !connection.is_some_and(|connection| connection::is_untouched(connection).unwrap_or(false))
            }
            Evidence::Unread(pushed) => !channel.takes_out(pushed),
        };
        let _gone = self.reactor.remove(channel.fd());
        drop(channel);
        self.step(Input::Gone { worker: id, may_have_served }, now);
    }

    /// A worker that does not follow the protocol is treated as if it had closed its channel.
    fn drop_broken(&mut self, now: Time) {
        if self.dispatcher.take_some_broken() {
            for id in self.dispatcher.broken().collect::<Vec<_>>() {
                self.read_all(id, now);
                if self.dispatcher.has(id) {
                    self.events.push_back(PrimaryEvent::Disconnected(id));
                    // It lives, and may read on.
                    self.remove(id, OtherEnd::Open, now);
                }
            }
        }
    }
}
