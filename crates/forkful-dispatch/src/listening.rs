//! One address that an app listens on.

use std::collections::VecDeque;
use std::time::Duration;

use forkful_core::Time;
use forkful_core::spec::Balance;
use forkful_core::steering::{AutoBalance, Dispatch, Suspicion};
use serde::{Deserialize, Serialize};

use crate::action::{Steer, Watch};
use crate::id::{ConnectionId, WorkerId};

/// In `auto`, a connection that no worker can have is reported again after this time, with the length of the queue. The rest of
/// the queue, 255 of 511 places, is full no earlier at 12,000 connections per second.
const KNOCK_AGAIN: Duration = Duration::from_millis(20);

/// The kind of an address, as far as it matters for dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    Tcp,
    Unix,
    /// A datagram socket, or a descriptor from the app.
    Other,
}

/// An address that the driver has just bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewListening {
    pub kind: Kind,
    /// Workers may have one socket each; otherwise there is one socket for all.
    pub group: bool,
}

/// Counters for `describe`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Connections handed over by the daemon.
    pub handed_over: u64,
    /// Of these, connections taken from another worker's queue.
    pub rescued: u64,
    /// Connections that a worker may have had when it ended and perhaps did not serve.
    pub lost: u64,
    /// How often a worker was found stuck.
    pub suspected: u64,
    /// How often the kernel's steering was changed.
    pub steered: u64,
}

/// A connection that waits for a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    pub(crate) connection: ConnectionId,
    /// The kernel's cookie of the socket, if it has one.
    pub(crate) cookie: Option<u64>,
    pub(crate) rescued: bool,
}

/// One socket of an address. The first is the daemon's own.
#[derive(Debug, Default)]
pub(crate) struct Member {
    /// The worker that holds it; always `None` for the daemon's own socket.
    pub(crate) owner: Option<WorkerId>,
    /// How the driver watches it.
    pub(crate) watch: Watch,
    /// [`Watch::Once`] has reported a connection, and will report no other.
    pub(crate) fired: bool,
    /// The length of its queue at the last sample.
    pub(crate) queue: u32,
}

/// How the queues are sampled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sampling {
    pub(crate) until: Time,
    pub(crate) next: Time,
}

/// What the daemon needs to know about the sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need {
    /// It accepts connections from the sockets that it serves itself.
    pub(crate) takes: bool,
    /// It is woken by a worker's first connection.
    pub(crate) wakes: bool,
}

/// What keeps connections in the kernel's queue.
#[derive(Debug, Default)]
pub(crate) struct Door {
    /// Nothing is accepted until then, because of missing descriptors or watches.
    pub(crate) again: Option<Time>,
    /// The member in whose queue a connection waits until a worker can have it.
    pub(crate) knock: Option<usize>,
    /// Since when.
    pub(crate) knocks_since: Time,
    /// The number of connections there when it was last read, without those accepted since; 0 if it is not known.
    pub(crate) queued: usize,
}

/// The workers that hold an address, as far as it is kept for them.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    /// Whether several have held it at the same time.
    pub(crate) shared_once: bool,
    /// If none holds it: until when the sockets are kept.
    pub(crate) unheld_until: Option<Time>,
    /// Whether clients no longer reach it, so that nobody will listen on it again.
    pub(crate) lost: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) kind: Kind,
    pub(crate) group: bool,
    /// Connections that the daemon has accepted and not handed over.
    pub(crate) pending: VecDeque<Pending>,
    pub(crate) members: Vec<Member>,
    /// The mode that its sockets follow. It may differ from the app's, see [`Listening::set_balance`].
    pub(crate) mode: Balance,
    /// How new connections are distributed now (never `Auto`).
    pub(crate) dispatch: Balance,
    pub(crate) auto: Option<AutoBalance>,
    /// Workers whose event loops are stuck, judged by queues and probes.
    pub(crate) suspicion: Suspicion<WorkerId>,
    /// The last steering that was set in the kernel.
    pub(crate) steered: Option<Steer>,
    /// The turns of the members in `steered`, according to the lengths of their queues.
    pub(crate) turns: Vec<u32>,
    /// `None` while there is no traffic.
    pub(crate) sampling: Option<Sampling>,
    /// The needs for which the watches were last set; `None` if they must be checked.
    pub(crate) watched_for: Option<Need>,
    pub(crate) door: Door,
    pub(crate) holders: Holders,
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
            mode: balance,
            dispatch: first_dispatch(kind, balance),
            auto: first_switch(group, balance, now),
            suspicion: Suspicion::default(),
            steered: None,
            turns: Vec::new(),
            sampling: None,
            watched_for: None,
            door: Door::default(),
            holders: Holders::default(),
            counters: Counters::default(),
        }
    }

    /// Changes the balance mode, as far as the sockets and the workers that hold them allow it; the distribution follows at the
    /// next refresh. A worker that was given a socket for all accepts from it until it closes it, and a worker without one gets
    /// only what is handed over.
    pub(crate) fn set_balance(&mut self, balance: Balance, is_held: bool, now: Time) {
        let are_pushed = |mode| is_handed_over(first_dispatch(self.kind, mode));
        let may_change = match self.kind {
            Kind::Tcp => self.group && balance != Balance::Shared,
            Kind::Unix => !is_held || are_pushed(self.mode) && are_pushed(balance),
            Kind::Other => false,
        };
        if may_change && self.mode != balance {
            self.mode = balance;
            self.auto = first_switch(self.group, balance, now);
        }
    }

    /// How its mode distributes new connections, if workers have the sockets for it.
    pub(crate) fn wanted_dispatch(&self) -> Balance {
        match self.auto.as_ref().map(AutoBalance::dispatch) {
            Some(Dispatch::Direct) => Balance::Direct,
            Some(Dispatch::Exact) | None => first_dispatch(self.kind, self.mode),
        }
    }

    /// The number of known connections that wait for a worker.
    pub(crate) fn waiting(&self) -> usize {
        match self.door.knock {
            Some(_) => self.pending.len() + self.door.queued.max(1),
            None if self.pending.is_empty() => 0,
            None => self.pending.len() + self.door.queued,
        }
    }

    /// When the daemon's own queue is looked at again, because a connection waits for a worker and the kernel may have to distribute
    /// those behind it.
    pub(crate) fn next_knock(&self) -> Option<Time> {
        let waits = self.auto.is_some() && self.door.knock.is_some();
        waits.then(|| self.door.knocks_since + KNOCK_AGAIN)
    }

    /// When the queues are sampled next.
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

    /// Whether the kernel is asked to report closes of its connections.
    pub(crate) fn tells_closes(&self) -> bool {
        is_handed_over(self.dispatch) && self.is_tcp()
    }

    /// Whether workers wait for pushed connections instead of getting a socket.
    pub(crate) fn push_only(&self) -> bool {
        is_handed_over(self.dispatch) && (!self.group || is_handed_over(self.mode))
    }

    /// Whether a worker gets the single socket of the address, like all others.
    pub(crate) fn gives_its_socket(&self) -> bool {
        !self.push_only() && !self.group
    }

    /// Whether a worker must prove that its event loop is responsive before it gets a connection.
    pub(crate) fn asks_first(&self) -> bool {
        self.dispatch != Balance::Least
    }

    /// Whether the daemon accepts connections itself; otherwise workers accept from one socket.
    pub(crate) fn daemon_accepts(&self) -> bool {
        self.group || self.push_only()
    }
}

/// Whether the daemon hands every connection to a worker of its choice.
fn is_handed_over(dispatch: Balance) -> bool {
    matches!(dispatch, Balance::Exact | Balance::Least)
}

/// The switch of `auto`, at its start.
fn first_switch(group: bool, balance: Balance, now: Time) -> Option<AutoBalance> {
    (balance == Balance::Auto && group).then(|| AutoBalance::new(now))
}

/// The initial mode for new connections.
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
