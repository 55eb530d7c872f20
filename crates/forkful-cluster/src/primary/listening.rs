//! The daemon's sockets for an address on which an app listens. [`forkful_dispatch`] decides what happens to
//! the connections.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use forkful_core::spec::Balance;
use forkful_dispatch::{Kind, ListeningId, NewListening, Watch};
use forkful_os::behalf::as_user;
use forkful_os::keeper::Hold;
use forkful_os::listener::{self, SocketFile, TcpGroup, UnixOptions};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Port, PrimaryConfig};
use crate::protocol::incoming::{AddressKind, FLAG_IPV6_ONLY, FLAG_UDP_REUSE_ADDRESS, Query};

/// Node's default backlog.
const BACKLOG_DEFAULT: u32 = 511;

/// Linux' errno for a missing permission.
const EACCES: i32 = 13;

/// Identifies queries for the same listening.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    /// The first worker's server data (TLS ticket keys), passed to all workers and kept across reloads.
    pub(crate) data: Option<Box<RawValue>>,
    /// For people: `tcp://127.0.0.1:3000`.
    pub(crate) address: String,
    /// How the reactor watches each socket of the source.
    pub(crate) watched: Vec<Watch>,
    /// The holds of the sockets; dropped with them.
    pub(crate) holds: Vec<Hold>,
}

/// The sockets of an address.
#[derive(Debug)]
pub(crate) enum Source {
    /// A group of TCP sockets; member 0 is the daemon's, the others are given to workers.
    Group(TcpGroup),
    /// One socket for all workers.
    Single {
        /// The file of a unix socket; removed at the end, before the socket is closed.
        file: Option<SocketFile>,
        socket: OwnedFd,
    },
}

impl Listening {
    pub(crate) fn bind(query: &Query, config: &PrimaryConfig) -> io::Result<Self> {
        let source = bind_source(query, config)?;
        let address = describe(query, &source);
        let (key, data) = (ListenKey::of(query), query.data.clone());
        Ok(Self { key, source, data, address, watched: vec![Watch::Not], holds: Vec::new() })
    }

    /// Has a socket kept for another daemon.
    pub(crate) fn keep(&mut self, member: usize, id: ListeningId, config: &PrimaryConfig) {
        let hold = config.keeping.keep(config.socket_name(id, member), self.socket(member));
        self.holds.push(hold);
    }

    /// Its description for the dispatcher.
    pub(crate) fn as_new(&self) -> NewListening {
        let kind = match self.key.kind() {
            AddressKind::Tcp4 | AddressKind::Tcp6 => Kind::Tcp,
            AddressKind::Unix => Kind::Unix,
            AddressKind::Udp4 | AddressKind::Udp6 | AddressKind::Descriptor => Kind::Other,
        };
        NewListening { kind, group: matches!(self.source, Source::Group(_)) }
    }

    /// Whether a `listening` message, which contains the actual port, belongs to this listening.
    pub(crate) fn is_reported_as(&self, query: &Query) -> bool {
        let key = &self.key;
        if key.address != query.address || key.kind != query.kind {
            return false;
        }
        let port = query.port.unwrap_or(-1);
        key.port == port || self.local_address().is_some_and(|address| i64::from(address.port()) == port)
    }

    fn is_tcp(&self) -> bool {
        matches!(self.key.kind, AddressKind::Tcp4 | AddressKind::Tcp6)
    }

    /// The kernel's cookie of a connection accepted here, by which its close is reported.
    pub(crate) fn cookie_of(&self, connection: &OwnedFd) -> Option<u64> {
        self.is_tcp().then(|| listener::cookie(connection.as_fd()).ok()).flatten()
    }

    /// How an agent identifies the address to close: a port, or the path of a unix socket.
    pub(crate) fn closed_as(&self) -> Option<String> {
        match (self.file(), self.local_address()) {
            (Some(path), _) => Some(path.to_string_lossy().into_owned()),
            (None, Some(address)) if self.is_tcp() => Some(address.port().to_string()),
            (None, _) => None,
        }
    }

    /// The socket of a member.
    pub(crate) fn socket(&self, member: usize) -> BorrowedFd<'_> {
        match &self.source {
            Source::Group(group) => group.member(member),
            Source::Single { socket, .. } => socket.as_fd(),
        }
    }

    /// Adds a socket to a group.
    pub(crate) fn add_member(&mut self) -> io::Result<usize> {
        let Source::Group(group) = &mut self.source else { return Ok(0) };
        let index = group.add_member()?;
        self.watched.push(Watch::Not);
        debug_assert_eq!(index + 1, self.watched.len());
        Ok(index)
    }

    /// Has none of its TCP sockets listen any more, whoever has copies of them: clients are refused, and another socket can have the port,
    /// at once.
    pub(crate) fn end(&self) {
        if !self.is_tcp() {
            return;
        }
        for member in 0..self.watched.len() {
            // What does not listen has nothing to end.
            let _nothing = listener::end(self.socket(member));
        }
    }

    /// The port that it has.
    pub(crate) fn port(&self) -> Option<Port> {
        let address = match &self.source {
            Source::Group(group) => group.local_addr(),
            Source::Single { socket, .. } => listener::local_addr(socket.as_fd()).ok()?,
        };
        match self.key.kind() {
            AddressKind::Tcp4 | AddressKind::Tcp6 => Some(Port::Tcp(address.port())),
            AddressKind::Udp4 | AddressKind::Udp6 => Some(Port::Udp(address.port())),
            AddressKind::Unix | AddressKind::Descriptor => None,
        }
    }

    /// Whether it is a unix socket whose path leads to it no longer: somebody has removed its file.
    pub(crate) fn has_lost_its_file(&self) -> bool {
        matches!(&self.source, Source::Single { file: Some(file), .. } if !file.is_still_there())
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

fn bind_source(query: &Query, config: &PrimaryConfig) -> io::Result<Source> {
    let backlog = if query.backlog == 0 { BACKLOG_DEFAULT } else { query.backlog };
    if port_of(query).is_some_and(|port| port.number() < config.lowest_port) {
        return Err(io::Error::from_raw_os_error(EACCES));
    }
    let v6_only = query.flags & FLAG_IPV6_ONLY != 0;
    // The kernel lets only sockets of one user share a port: an app must not share one with services of the daemon's user.
    let as_owner = |bind: &dyn Fn() -> io::Result<Source>| match &config.owner {
        Some(owner) => as_user(owner, bind),
        None => bind(),
    };
    match query.kind {
        AddressKind::Tcp4 | AddressKind::Tcp6 => {
            let bind = |address| {
                // Open since before a restart of the service, with its queued connections.
                let open = config.keeping.take_stored(|fd| listener::is_bound_to(fd, address, v6_only));
                match (config.balance, open) {
                    (Balance::Shared, Some(socket)) => {
                        listener::listen_again(&socket, backlog)?;
                        Ok(Source::Single { socket, file: None })
                    }
                    (Balance::Shared, None) => {
                        let socket = listener::bind_tcp_shared(address, v6_only, backlog)?;
                        Ok(Source::Single { socket, file: None })
                    }
                    (_, Some(socket)) => TcpGroup::reopened(socket, v6_only, backlog).map(Source::Group),
                    (_, None) => TcpGroup::bind(address, v6_only, backlog).map(Source::Group),
                }
            };
            as_owner(&|| bind_any(query, bind))
        }
        AddressKind::Udp4 | AddressKind::Udp6 => {
            let bind = |address| {
                let reuse = query.flags & FLAG_UDP_REUSE_ADDRESS != 0;
                let socket = listener::bind_udp(address, v6_only, reuse)?;
                Ok(Source::Single { socket, file: None })
            };
            as_owner(&|| bind_any(query, bind))
        }
        AddressKind::Unix => {
            let path = unix_path(query.address.as_deref().ok_or_else(invalid)?);
            let Query { readable_all, writable_all, .. } = *query;
            let options = UnixOptions { backlog, readable_all, writable_all, owner: config.owner.clone() };
            let (socket, file) = listener::bind_unix(Path::new(path), &options)?;
            Ok(Source::Single { file, socket })
        }
        // A descriptor number is meaningless in another process.
        AddressKind::Descriptor => Err(io::Error::from_raw_os_error(9)),
    }
}

/// The path of a unix socket. In the abstract namespace it is no path, but workers resolve it against their working directory.
pub(super) fn unix_path(asked: &str) -> &str {
    asked.rfind("/\0").map_or(asked, |slash| &asked[slash + 1..])
}

/// An abstract name begins with `@`, as in other programs.
fn unix_text(query: &Query) -> String {
    let path = unix_path(query.address.as_deref().unwrap_or_default());
    format!("unix:{}", path.replace('\0', "@"))
}

/// Removes the file of a unix socket that nobody listens on, as the app's user.
pub(crate) fn remove_left_over(query: &Query, config: &PrimaryConfig) -> bool {
    let Some(address) = query.address.as_deref().filter(|_| query.kind == AddressKind::Unix) else {
        return false;
    };
    let path = unix_path(address);
    let remove = || listener::remove_left_over(Path::new(path));
    match &config.owner {
        Some(owner) => as_user(owner, remove),
        None => remove(),
    }
    .unwrap_or(false)
}

/// Binds to the query's address. Without one, as Node does: to all addresses of both families, or of IPv4 if
/// there is no IPv6.
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
        AddressKind::Unix => return unix_text(query),
    };
    let address = match source {
        Source::Group(group) => Some(group.local_addr()),
        Source::Single { socket, .. } => listener::local_addr(socket.as_fd()).ok(),
    };
    address.map_or_else(|| format!("{scheme}://?"), |address| format!("{scheme}://{address}"))
}

/// The port of a query; 0 is no port.
pub(crate) fn port_of(query: &Query) -> Option<Port> {
    let port = query.port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0)?;
    match query.kind {
        AddressKind::Tcp4 | AddressKind::Tcp6 => Some(Port::Tcp(port)),
        AddressKind::Udp4 | AddressKind::Udp6 => Some(Port::Udp(port)),
        AddressKind::Unix | AddressKind::Descriptor => None,
    }
}

/// The name of a query's address that could not be bound.
pub(crate) fn describe_query(query: &Query) -> String {
    let port = query.port.unwrap_or(0);
    match (query.kind, query.address.as_deref()) {
        (AddressKind::Unix, _) => unix_text(query),
        (_, None) => format!("port {port}"),
        (_, Some(host)) if host.contains(':') => format!("[{host}]:{port}"),
        (_, Some(host)) => format!("{host}:{port}"),
    }
}
