//! `/livez`, `/readyz` and `/startupz` of a run in the foreground: 200 for yes, 503 for no, and a line for each app.
//!
//! They may be reached by anybody who reaches the address. Nothing else is served there, and nothing is read of a request
//! but its head.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use forkful_core::probes::Probe;
use forkful_os::listener::{self, SocketFile, UnixOptions, remove_left_over};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;

use super::permits::Permits;
use super::{ACCEPT_FAULT_PAUSE, connection};
use crate::command::Command;

/// Connections at once.
const CONNECTIONS_MAX: usize = 64;

/// How long a client may take to send a request's head; also how long an unused connection stays open.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections that may wait.
const BACKLOG: u32 = 64;

/// Where probes are answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for ProbeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A connection of either kind.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A socket that probes connect to.
pub(crate) enum ProbeSocket {
    Tcp(TcpListener),
    /// The file is removed before the socket is closed.
    Unix {
        _file: Option<SocketFile>,
        listener: UnixListener,
    },
}

impl ProbeSocket {
    pub(crate) async fn bind(address: &ProbeAddress) -> io::Result<Self> {
        let bound = match address {
            ProbeAddress::Tcp(address) => TcpListener::bind(address).await.map(Self::Tcp),
            ProbeAddress::Unix(path) => {
                bind_unix(path).map(|(listener, file)| Self::Unix { listener, _file: file })
            }
        };
        bound.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot answer probes at {address}: {error}"))
        })
    }

    async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Tcp(listener) => Box::new(listener.accept().await?.0),
            Self::Unix { listener, .. } => Box::new(listener.accept().await?.0),
        })
    }
}

/// A socket that an earlier run has left behind, on which nobody listens, makes way.
fn bind_unix(path: &Path) -> io::Result<(UnixListener, Option<SocketFile>)> {
    let options = UnixOptions { backlog: BACKLOG, ..UnixOptions::default() };
    let bound = match listener::bind_unix(path, &options) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && remove_left_over(path)? => {
            listener::bind_unix(path, &options)
        }
        bound => bound,
    };
    let (socket, file) = bound?;
    let listener = std::os::unix::net::UnixListener::from(socket);
    Ok((UnixListener::from_std(listener)?, file))
}

/// Answers probes until it is dropped.
pub(crate) async fn serve(socket: ProbeSocket, commands: mpsc::Sender<Command>) {
    let permits = Arc::new(Permits::new(CONNECTIONS_MAX));
    let (_farewell, farewell) = watch::channel(());
    let router = router(commands);
    loop {
        match socket.accept().await {
            Ok(stream) => {
                let permit = permits.acquire().await;
                let router = router.clone();
                tokio::spawn(connection(stream, router, HEAD_TIMEOUT, farewell.clone(), permit));
            }
            Err(error) => {
                log_line!("forkful: cannot accept a connection of a probe: {error}");
                sleep(ACCEPT_FAULT_PAUSE).await;
            }
        }
    }
}

fn router(commands: mpsc::Sender<Command>) -> Router {
    let probes = [("/startupz", Probe::Started), ("/livez", Probe::Live), ("/readyz", Probe::Ready)];
    probes
        .into_iter()
        .fold(Router::new(), |router, (path, probe)| {
            router.route(path, get(move |State(commands)| answer(probe, commands)))
        })
        .with_state(commands)
}

async fn answer(probe: Probe, commands: mpsc::Sender<Command>) -> (StatusCode, String) {
    let (reply, answer) = oneshot::channel();
    let sent = commands.send(Command::Probe { probe, reply }).await;
    match (sent, answer.await) {
        (Ok(()), Ok(Ok(answer))) if answer.is_yes => (StatusCode::OK, answer.text),
        (Ok(()), Ok(Ok(answer))) => (StatusCode::SERVICE_UNAVAILABLE, answer.text),
        // It ends: what runs on finishes, and gets nothing new.
        _ if probe == Probe::Ready => (StatusCode::SERVICE_UNAVAILABLE, "it has ended\n".to_owned()),
        _ => (StatusCode::OK, "it has ended\n".to_owned()),
    }
}
