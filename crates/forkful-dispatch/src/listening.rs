//! One address that an app listens on.

use std::collections::VecDeque;

use forkful_core::Time;
use forkful_core::spec::Balance;
use forkful_core::steering::{AutoBalance, Suspicion};
use serde::{Deserialize, Serialize};

use crate::action::{Steer, Watch};
use crate::id::{ConnectionId, WorkerId};

/// What kind of address it is, as far as dispatch cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    Tcp,
    Unix,
    /// A datagram socket, or a descriptor of the app's.
    Other,
}

/// An address that the driver has just bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewListening {
    pub kind: Kind,
    /// Workers may have a socket each; otherwise there is one socket for all.
    pub group: bool,
}

/// For `describe`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Connections handed over by the daemon.
    pub handed_over: u64,
    /// Of these, taken out of another worker's queue.
    pub rescued: u64,
    /// Connections that a worker may have had when it ended, and that were perhaps not served.
    pub lost: u64,
    /// Times that a worker was found stuck.
    pub suspected: u64,
    /// Times that the kernel was given another steering.
    pub steered: u64,
}

/// A connection that waits for a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    pub(crate) connection: ConnectionId,
    /// The kernel's name of the socket, if it has one.
    pub(crate) cookie: Option<u64>,
    pub(crate) rescued: bool,
}

/// One socket of an address. The first is the daemon's own.
#[derive(Debug, Default)]
pub(crate) struct Member {
    /// The worker that holds it; always `None` for the daemon's own.
    pub(crate) owner: Option<WorkerId>,
    /// How the driver watches it.
    pub(crate) watch: Watch,
    /// The length of its queue at the last look.
    pub(crate) queue: u32,
}

/// How the queues are looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sampling {
    pub(crate) until: Time,
    pub(crate) next: Time,
}

/// What the daemon wants to know of the sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need {
    /// It takes connections from those that it serves itself.
    pub(crate) takes: bool,
    /// It is woken by the first connection of a worker.
    pub(crate) wakes: bool,
}

/// What keeps connections in the kernel's queue.
#[derive(Debug, Default)]
pub(crate) struct Door {
    /// Nothing is accepted until then: descriptors or watches have run out.
    pub(crate) again: Option<Time>,
    /// Somebody waits in the queue of this member, until a worker can have the connection.
    pub(crate) knock: Option<usize>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) kind: Kind,
    pub(crate) group: bool,
    /// Connections that the daemon has accepted and not handed over yet.
    pub(crate) pending: VecDeque<Pending>,
    pub(crate) members: Vec<Member>,
    /// What new connections do now (never `Auto`).
    pub(crate) dispatch: Balance,
    pub(crate) auto: Option<AutoBalance>,
    /// Whose event loops do not turn, judged by queues and probes.
    pub(crate) suspicion: Suspicion<WorkerId>,
    /// The last steering that the kernel was told.
    pub(crate) steered: Option<Steer>,
    /// The turns of the members in `steered`, by the lengths of their queues.
    pub(crate) turns: Vec<u32>,
    /// `None` while no traffic flows.
    pub(crate) sampling: Option<Sampling>,
    /// What the watches on the sockets were last made for; `None` when they have to be looked at.
    pub(crate) watched_for: Option<Need>,
    pub(crate) door: Door,
    /// Whether more than one worker has held it at a time.
    pub(crate) shared_once: bool,
    /// When the last holder went, and how long the sockets are kept.
    pub(crate) unheld_until: Option<Time>,
    pub(crate) counters: Counters,
}

impl Listening {
    pub(crate) fn new(new: NewListening, balance: Balance, now: Time) -> Self {
        let NewListening { kind, group } = new;
        Self {
            kind,
            group,
            pending: VecDeque::new(),
            members: vec![Member::default()],
            dispatch: first_dispatch(kind, balance),
            auto: (balance == Balance::Auto && group).then(|| AutoBalance::new(now)),
            suspicion: Suspicion::default(),
            steered: None,
            turns: Vec::new(),
            sampling: None,
            watched_for: None,
            door: Door::default(),
            shared_once: false,
            unheld_until: None,
            counters: Counters::default(),
        }
    }

    /// Spreads connections in another way, where the sockets allow it.
    pub(crate) fn set_balance(&mut self, balance: Balance, now: Time) {
        if balance != Balance::Shared && self.group {
            self.dispatch = first_dispatch(self.kind, balance);
            self.auto = (balance == Balance::Auto).then(|| AutoBalance::new(now));
        }
    }

    /// How many connections are known to wait for a worker.
    pub(crate) fn waiting(&self) -> usize {
        self.pending.len() + usize::from(self.door.knock.is_some())
    }

    /// When the queues are looked at next.
    pub(crate) fn next_look(&self) -> Option<Time> {
        self.sampling.filter(|_| self.suspicion.needs_samples()).map(|sampling| sampling.next)
    }

    pub(crate) fn is_tcp(&self) -> bool {
        self.kind == Kind::Tcp
    }

    pub(crate) fn is_unix(&self) -> bool {
        self.kind == Kind::Unix
    }

    /// Whether all workers accept from one stream socket.
    pub(crate) fn is_shared(&self) -> bool {
        self.kind != Kind::Other && !self.group && self.dispatch == Balance::Shared
    }

    /// Whether the kernel is asked for the ends of its connections.
    pub(crate) fn tells_closes(&self) -> bool {
        self.is_handed_over() && self.is_tcp()
    }

    /// Whether workers wait for pushed connections instead of getting a socket.
    pub(crate) fn push_only(&self) -> bool {
        self.is_handed_over() && (!self.group || self.auto.is_none())
    }

    /// Whether the daemon hands every connection to a worker of its choice.
    fn is_handed_over(&self) -> bool {
        matches!(self.dispatch, Balance::Exact | Balance::Least)
    }

    /// Whether a worker has to prove that its loop turns before it is given a connection.
    pub(crate) fn asks_first(&self) -> bool {
        self.dispatch != Balance::Least
    }

    /// Whether the daemon takes connections itself; otherwise workers accept from one socket.
    pub(crate) fn daemon_accepts(&self) -> bool {
        self.group || self.push_only()
    }
}

/// What becomes of new connections at first.
fn first_dispatch(kind: Kind, balance: Balance) -> Balance {
    match (kind, balance) {
        (Kind::Other, _) | (Kind::Unix, Balance::Shared | Balance::Direct) => Balance::Shared,
        (Kind::Unix, Balance::Auto | Balance::Exact | Balance::Sticky) | (Kind::Tcp, Balance::Auto) => {
            Balance::Exact
        }
        (Kind::Unix | Kind::Tcp, Balance::Least)
        | (Kind::Tcp, Balance::Direct | Balance::Exact | Balance::Shared | Balance::Sticky) => balance,
    }
}
