//! One address that an app listens on, with the sockets that the daemon owns for it.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use forkful_core::Time;
use forkful_core::spec::Balance;
use forkful_core::steering::{AutoBalance, Suspicion};
use forkful_os::listener::{self, SocketFile, TcpGroup, UnixOptions};
use forkful_os::reactor::Interest;
use serde_json::value::RawValue;

use super::worker::WorkerId;
use super::{Port, PrimaryConfig};
use crate::protocol::incoming::{AddressKind, FLAG_IPV6_ONLY, FLAG_UDP_REUSE_ADDRESS, Query};

/// What Node uses when the app names no backlog.
const BACKLOG_DEFAULT: u32 = 511;

/// Linux's errno for what the user may not do.
const EACCES: i32 = 13;

/// Which queries mean the same listening.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ListenKey {
    address: Option<String>,
    port: i64,
    kind: AddressKind,
    /// Only for port 0, where the n-th listen of every worker shares one random port.
    index: Option<u64>,
}

impl ListenKey {
    pub(crate) fn of(query: &Query) -> Self {
        let port = query.port.unwrap_or(-1);
        Self {
            address: query.address.clone(),
            port,
            kind: query.kind,
            index: (port == 0).then_some(query.index),
        }
    }

    pub(crate) fn kind(&self) -> AddressKind {
        self.kind
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) key: ListenKey,
    pub(crate) source: Source,
    /// The first worker's server data (TLS ticket keys), given to all, kept over reloads.
    pub(crate) data: Option<Box<RawValue>>,
    /// For people: `tcp://127.0.0.1:3000`.
    pub(crate) address: String,
    /// Connections that the daemon has accepted and not handed over yet.
    pub(crate) pending: VecDeque<Pending>,
    /// One per socket of the source.
    pub(crate) members: Vec<Member>,
    /// What new connections do now (never `Auto`).
    pub(crate) dispatch: Balance,
    pub(crate) auto: Option<AutoBalance>,
    /// Whose event loops do not turn, judged by queues and probes.
    pub(crate) suspicion: Suspicion<WorkerId>,
    /// The last steering that the kernel was told.
    pub(crate) steered: Option<listener::Steer>,
    /// The turns of the members in `steered`, by the lengths of their queues.
    pub(crate) turns: Vec<u32>,
    /// Queues are sampled until then; `None` while no traffic flows.
    pub(crate) sampling_until: Option<Time>,
    pub(crate) next_sample: Time,
    /// Nothing is accepted until then: descriptors have run out.
    pub(crate) accept_again: Option<Time>,
    /// Whether more than one worker has held it at a time.
    pub(crate) shared_once: bool,
    /// When the last holder went, and how long the sockets are kept.
    pub(crate) unheld_until: Option<Time>,
    pub(crate) counters: Counters,
}

/// For `describe`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections handed over by the daemon.
    pub handed_over: u64,
    /// Of these, taken out of another worker's queue.
    pub rescued: u64,
    /// Connections that a worker took into its grave, perhaps unserved.
    pub lost: u64,
    /// Times that a worker was found stuck.
    pub suspected: u64,
    /// Times that the kernel was given another steering.
    pub steered: u64,
}

/// A connection that waits for a worker.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) connection: OwnedFd,
    pub(crate) rescued: bool,
}

/// The sockets behind an address.
#[derive(Debug)]
pub(crate) enum Source {
    /// A group of TCP sockets; member 0 is the daemon's, the others are handed to workers.
    Group(TcpGroup),
    /// One socket for all.
    Single {
        /// Of a unix socket; removed at the end, before the socket is closed.
        file: Option<SocketFile>,
        socket: OwnedFd,
    },
}

/// One socket of a source.
#[derive(Debug, Default)]
pub(crate) struct Member {
    /// The worker that holds it; always `None` for the daemon's own.
    pub(crate) owner: Option<WorkerId>,
    /// What the reactor watches now.
    pub(crate) interest: Option<Interest>,
}

impl Listening {
    pub(crate) fn bind(query: &Query, config: &PrimaryConfig, now: Time) -> io::Result<Self> {
        let source = bind_source(query, config)?;
        let balance = config.balance;
        let address = describe(query, &source);
        let dispatch = first_dispatch(query.kind, balance);
        let auto =
            (balance == Balance::Auto && matches!(source, Source::Group(_))).then(|| AutoBalance::new(now));
        Ok(Self {
            key: ListenKey::of(query),
            source,
            data: query.data.clone(),
            address,
            pending: VecDeque::new(),
            members: vec![Member::default()],
            dispatch,
            auto,
            suspicion: Suspicion::default(),
            steered: None,
            turns: Vec::new(),
            sampling_until: None,
            next_sample: Time::default(),
            accept_again: None,
            shared_once: false,
            unheld_until: None,
            counters: Counters::default(),
        })
    }

    /// Whether a `listening` message, which names the actual port, means this listening.
    pub(crate) fn is_reported_as(&self, query: &Query) -> bool {
        let key = &self.key;
        if key.address != query.address || key.kind != query.kind {
            return false;
        }
        let port = query.port.unwrap_or(-1);
        key.port == port || self.local_address().is_some_and(|address| i64::from(address.port()) == port)
    }

    /// Whether all workers accept from one stream socket.
    pub(crate) fn is_shared(&self) -> bool {
        let stream = self.is_tcp() || self.key.kind == AddressKind::Unix;
        stream && matches!(self.source, Source::Single { .. }) && self.dispatch == Balance::Shared
    }

    pub(crate) fn is_tcp(&self) -> bool {
        matches!(self.key.kind, AddressKind::Tcp4 | AddressKind::Tcp6)
    }

    /// Whether the kernel is asked for the ends of its connections, see [`super::Primary::counted_ports`].
    pub(crate) fn tells_closes(&self) -> bool {
        self.dispatch == Balance::Exact && self.is_tcp()
    }

    /// Spreads connections in another way, where the sockets allow it.
    pub(crate) fn set_balance(&mut self, balance: Balance, now: Time) {
        if balance != Balance::Shared && matches!(self.source, Source::Group(_)) {
            self.dispatch = first_dispatch(self.key.kind, balance);
            self.auto = (balance == Balance::Auto).then(|| AutoBalance::new(now));
        }
    }

    /// The socket of a member.
    pub(crate) fn socket(&self, member: usize) -> BorrowedFd<'_> {
        match &self.source {
            Source::Group(group) => group.member(member),
            Source::Single { socket, .. } => socket.as_fd(),
        }
    }

    /// Whether workers wait for pushed connections instead of getting a socket.
    pub(crate) fn push_only(&self) -> bool {
        match self.source {
            Source::Group(_) => self.dispatch == Balance::Exact && self.auto.is_none(),
            Source::Single { .. } => self.dispatch == Balance::Exact,
        }
    }

    /// Whether the daemon takes connections itself; otherwise workers accept from one socket.
    pub(crate) fn daemon_accepts(&self) -> bool {
        matches!(self.source, Source::Group(_)) || self.push_only()
    }

    /// A free socket for a worker, made when there is none.
    pub(crate) fn take_member(&mut self, worker: WorkerId) -> io::Result<usize> {
        let Source::Group(group) = &mut self.source else { return Ok(0) };
        let free = (1..self.members.len()).find(|index| self.members[*index].owner.is_none());
        let index = if let Some(index) = free {
            index
        } else {
            let index = group.add_member()?;
            self.members.push(Member::default());
            debug_assert_eq!(index + 1, self.members.len());
            index
        };
        self.members[index].owner = Some(worker);
        Ok(index)
    }

    /// Whether its connections are those of a unix socket.
    pub(crate) fn is_unix(&self) -> bool {
        self.key.kind() == AddressKind::Unix
    }

    /// The file of a unix socket.
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.source {
            Source::Single { file, .. } => file.as_ref().map(SocketFile::path),
            Source::Group(_) => None,
        }
    }

    /// The address for the worker's `server.address()`; `None` for unix sockets.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        match &self.source {
            Source::Group(group) => Some(group.local_addr()),
            Source::Single { socket, file: None } => listener::local_addr(socket.as_fd()).ok(),
            Source::Single { file: Some(_), .. } => None,
        }
    }
}

fn first_dispatch(kind: AddressKind, balance: Balance) -> Balance {
    match kind {
        AddressKind::Udp4 | AddressKind::Udp6 | AddressKind::Descriptor => Balance::Shared,
        AddressKind::Unix => match balance {
            Balance::Shared | Balance::Direct => Balance::Shared,
            Balance::Auto | Balance::Exact | Balance::Sticky => Balance::Exact,
        },
        AddressKind::Tcp4 | AddressKind::Tcp6 => match balance {
            Balance::Auto => Balance::Exact,
            other => other,
        },
    }
}

fn bind_source(query: &Query, config: &PrimaryConfig) -> io::Result<Source> {
    let backlog = if query.backlog == 0 { BACKLOG_DEFAULT } else { query.backlog };
    if port_of(query).is_some_and(|port| port.number() < config.lowest_port) {
        return Err(io::Error::from_raw_os_error(EACCES));
    }
    let v6_only = query.flags & FLAG_IPV6_ONLY != 0;
    match query.kind {
        AddressKind::Tcp4 | AddressKind::Tcp6 => {
            let bind = |address| {
                if config.balance == Balance::Shared {
                    let socket = listener::bind_tcp_shared(address, v6_only, backlog)?;
                    Ok(Source::Single { socket, file: None })
                } else {
                    TcpGroup::bind(address, v6_only, backlog).map(Source::Group)
                }
            };
            bind_any(query, bind)
        }
        AddressKind::Udp4 | AddressKind::Udp6 => bind_any(query, |address| {
            let reuse = query.flags & FLAG_UDP_REUSE_ADDRESS != 0;
            let socket = listener::bind_udp(address, v6_only, reuse)?;
            Ok(Source::Single { socket, file: None })
        }),
        AddressKind::Unix => {
            let path = query.address.as_deref().ok_or_else(invalid)?;
            let Query { readable_all, writable_all, .. } = *query;
            let options = UnixOptions { backlog, readable_all, writable_all, owner: config.owner.clone() };
            let (socket, file) = listener::bind_unix(Path::new(path), &options)?;
            Ok(Source::Single { file, socket })
        }
        // A descriptor number means nothing in another process's table.
        AddressKind::Descriptor => Err(io::Error::from_raw_os_error(9)),
    }
}

/// Binds to the query's address. Without one: every address of both families, or of IPv4 alone
/// where there is no IPv6, as Node does.
fn bind_any(query: &Query, bind: impl Fn(SocketAddr) -> io::Result<Source>) -> io::Result<Source> {
    let port = u16::try_from(query.port.unwrap_or(0)).map_err(|_| invalid())?;
    let Some(text) = query.address.as_deref() else {
        return match bind((Ipv6Addr::UNSPECIFIED, port).into()) {
            // EAFNOSUPPORT, EADDRNOTAVAIL, EINVAL
            Err(error) if matches!(error.raw_os_error(), Some(97 | 99 | 22)) => {
                bind((Ipv4Addr::UNSPECIFIED, port).into())
            }
            other => other,
        };
    };
    let address = match text.parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, port),
        Err(_) => format!("[{text}]:{port}").parse().map_err(|_| invalid())?,
    };
    bind(address)
}

fn invalid() -> io::Error {
    io::Error::from_raw_os_error(22)
}

fn describe(query: &Query, source: &Source) -> String {
    let scheme = match query.kind {
        AddressKind::Udp4 | AddressKind::Udp6 => "udp",
        AddressKind::Tcp4 | AddressKind::Tcp6 | AddressKind::Descriptor => "tcp",
        AddressKind::Unix => return format!("unix:{}", query.address.as_deref().unwrap_or_default()),
    };
    let address = match source {
        Source::Group(group) => Some(group.local_addr()),
        Source::Single { socket, .. } => listener::local_addr(socket.as_fd()).ok(),
    };
    address.map_or_else(|| format!("{scheme}://?"), |address| format!("{scheme}://{address}"))
}

/// The port that a query names; 0 is none.
pub(crate) fn port_of(query: &Query) -> Option<Port> {
    let port = query.port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0)?;
    match query.kind {
        AddressKind::Tcp4 | AddressKind::Tcp6 => Some(Port::Tcp(port)),
        AddressKind::Udp4 | AddressKind::Udp6 => Some(Port::Udp(port)),
        AddressKind::Unix | AddressKind::Descriptor => None,
    }
}

/// How a query's address is named when it could not be bound.
pub(crate) fn describe_query(query: &Query) -> String {
    let port = query.port.unwrap_or(0);
    match (query.kind, query.address.as_deref()) {
        (AddressKind::Unix, path) => format!("unix:{}", path.unwrap_or_default()),
        (_, None) => format!("port {port}"),
        (_, Some(host)) if host.contains(':') => format!("[{host}]:{port}"),
        (_, Some(host)) => format!("{host}:{port}"),
    }
}
