//! The server's address, and the meaning of system errors.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, connect, sockopt};

use crate::LoadError;
use crate::cause::ErrorCause;
use crate::plan::Plan;

#[derive(Debug, Clone)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(SocketAddrUnix),
}

/// The result of a connection attempt.
#[derive(Debug)]
pub(crate) enum Dial {
    /// Connected at once, as over unix sockets.
    Open(OwnedFd),
    /// In progress; the descriptor becomes writable.
    Pending(OwnedFd),
}

impl Address {
    /// The address of a plan's server. If a name has several addresses, the first one that accepts a
    /// connection is used: `localhost` often has two, and the server listens on one of them.
    pub(crate) fn of(plan: &Plan) -> Result<Self, LoadError> {
        if let Some(path) = &plan.unix_socket {
            return match SocketAddrUnix::new(path) {
                Ok(address) => Ok(Self::Unix(address)),
                Err(error) => Err(LoadError::Plan {
                    field: "unix socket",
                    reason: format!(
                        "`{}` is not a valid socket path ({error}); 107 bytes are allowed",
                        path.display()
                    ),
                }),
            };
        }
        let url = &plan.requests[0].url;
        let found = (url.host.as_str(), url.port).to_socket_addrs();
        let addresses: Vec<SocketAddr> =
            found.map_err(|source| LoadError::Resolve { host: url.host.clone(), source })?.collect();
        let Some(first) = addresses.first() else {
            let source = std::io::Error::other("the resolver knows the name but no address");
            return Err(LoadError::Resolve { host: url.host.clone(), source });
        };
        let bound = plan.timeout.min(CHOICE_TIMEOUT);
        let answering =
            || addresses.iter().find(|address| TcpStream::connect_timeout(address, bound).is_ok());
        let chosen = if addresses.len() == 1 { first } else { answering().unwrap_or(first) };
        Ok(Self::Tcp(*chosen))
    }

    pub(crate) fn dial(&self) -> Result<Dial, Errno> {
        let family = match self {
            Self::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
            Self::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
            Self::Unix(_) => AddressFamily::UNIX,
        };
        let socket = forkful_os::connection::stream(family)?;
        let connecting = match self {
            Self::Tcp(address) => {
                sockopt::set_tcp_nodelay(&socket, true)?;
                connect(&socket, address)
            }
            Self::Unix(address) => connect(&socket, address),
        };
        match connecting {
            Ok(()) => Ok(Dial::Open(socket)),
            Err(Errno::INPROGRESS) => Ok(Dial::Pending(socket)),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn describe(&self, plan: &Plan) -> String {
        match self {
            Self::Tcp(address) if address.ip().to_string() == plan.requests[0].url.host => {
                plan.requests[0].url.origin()
            }
            Self::Tcp(address) => format!("{} ({address})", plan.requests[0].url.origin()),
            Self::Unix(_) => {
                plan.unix_socket.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
            }
        }
    }
}

/// How long each address of a name is tried.
const CHOICE_TIMEOUT: Duration = Duration::from_secs(2);

/// The cause for an error while connecting.
pub(crate) fn connect_cause(error: Errno, unix: bool) -> ErrorCause {
    match error {
        Errno::MFILE => ErrorCause::TooManyFiles,
        Errno::NFILE => ErrorCause::TooManyFilesInSystem,
        Errno::ADDRNOTAVAIL => ErrorCause::AddressNotAvailable,
        // A unix socket with a full queue returns EAGAIN at once and does not report when there is room
        // again.
        Errno::CONNREFUSED | Errno::AGAIN => ErrorCause::ConnectRefused,
        Errno::TIMEDOUT => ErrorCause::ConnectTimeout,
        Errno::CONNRESET | Errno::CONNABORTED | Errno::PIPE => ErrorCause::ConnectReset,
        Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::HOSTDOWN | Errno::NETDOWN => ErrorCause::Unreachable,
        Errno::NOENT | Errno::ACCESS | Errno::PERM | Errno::NOTSOCK | Errno::PROTOTYPE if unix => {
            ErrorCause::SocketPath
        }
        _ => ErrorCause::ConnectOther,
    }
}

/// The system's message for an error, without its number.
pub(crate) fn words(error: Errno) -> String {
    std::io::Error::from(error).to_string()
}
