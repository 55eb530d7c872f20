//! Connections: who is served at once, for how long a head may take, and the end.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::permits::{Answering, Permit, Permits};
use crate::root::Root;
use crate::settings::Settings;
use crate::site::{Body, Site};

/// Connections that are served at once; see [`Permits`] for those that come then. Each costs some 20 KB, and a
/// descriptor or two, of which a process has 1,024 unless somebody raised that.
const CONNECTIONS_MAX: usize = 400;

/// Connections that the kernel keeps for us.
const QUEUE: u32 = 511;

/// How long a client may leave unread what was sent to it.
const STALL_MAX: Duration = Duration::from_secs(60);

/// How long a client may take to send a request's head; also how long an unused connection stays open.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// How long responses under way may take once the end is asked for.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause after a failed `accept`, which mostly means that descriptors have run out.
const ACCEPT_FAULT_PAUSE: Duration = Duration::from_millis(100);

/// Why nothing can be served.
#[derive(Debug, Error)]
pub enum ServeError {
    /// There is no such directory, or it cannot be read.
    #[error("cannot serve {}", path.display())]
    Root { path: PathBuf, source: io::Error },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
    /// No event loop can be made.
    #[error("cannot wait for connections")]
    Runtime { source: io::Error },
}

/// Serves until SIGINT or SIGTERM. Says on stdout where, once it does.
pub fn run(settings: Settings) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| ServeError::Runtime { source })?;
    runtime.block_on(serve(settings))
}

async fn serve(settings: Settings) -> Result<(), ServeError> {
    let runtime = |source| ServeError::Runtime { source };
    let mut interrupted = signal(SignalKind::interrupt()).map_err(runtime)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(runtime)?;
    let root = Root::new(&settings.path)
        .map_err(|source| ServeError::Root { path: settings.path.clone(), source })?;
    let address = SocketAddr::new(settings.host, settings.port);
    let listener =
        listen(address, settings.shared).map_err(|source| ServeError::Listen { address, source })?;
    let address = listener.local_addr().unwrap_or(address);
    println!("serving {} at http://{address}/", root.path().display());
    let site = Arc::new(Site::new(root, settings));
    let permits = Permits::new(CONNECTIONS_MAX);
    let (farewell, _) = watch::channel(());
    loop {
        let accepted = tokio::select! {
            _ = interrupted.recv() => break,
            _ = terminated.recv() => break,
            accepted = accept(&listener, &permits) => accepted,
        };
        match accepted {
            Ok((stream, permit)) => {
                tokio::spawn(connection(stream, Arc::clone(&site), farewell.subscribe(), permit));
            }
            Err(error) => {
                eprintln!("cannot accept a connection: {error}");
                sleep(ACCEPT_FAULT_PAUSE).await;
            }
        }
    }
    drop(listener);
    drop(farewell);
    drop(timeout(FAREWELL_TIMEOUT, permits.empty()).await);
    Ok(())
}

fn listen(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // So that a restart does not wait for connections of the one before.
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(shared)?;
    socket.bind(address)?;
    socket.listen(QUEUE)
}

/// The next connection, with a permit; while it waits for a permit, others wait in the socket's queue.
async fn accept(listener: &TcpListener, permits: &Arc<Permits>) -> io::Result<(TcpStream, Permit)> {
    let (stream, _) = listener.accept().await?;
    Ok((stream, permits.acquire().await))
}

/// Serves one connection until either side ends it. `permit` is given back when it is over.
async fn connection(stream: TcpStream, site: Arc<Site>, mut farewell: watch::Receiver<()>, permit: Permit) {
    // Only of use to the speed of what follows.
    stream.set_nodelay(true).ok();
    // A client that reads nothing of what it asked for gives its permit back; see TCP_USER_TIMEOUT in tcp(7).
    rustix::net::sockopt::set_tcp_user_timeout(&stream, STALL_MAX.as_millis() as u32).ok();
    // One without an address has gone already.
    let client = stream.peer_addr().map_or(IpAddr::from(Ipv4Addr::UNSPECIFIED), |address| address.ip());
    let answer = service_fn(|request| {
        let site = Arc::clone(&site);
        let answering = permit.answering();
        async move {
            let response = site.answer(request, client).await;
            // As long as the body is not sent, the connection is busy.
            Ok::<_, Infallible>(response.map(|body| Sending { body, answering }))
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), answer);
    let mut served = pin!(served);
    // A fault of one connection (garbage, a timeout, a reset) ends that connection and concerns nobody else.
    tokio::select! {
        _ = served.as_mut() => {}
        _ = farewell.changed() => {
            served.as_mut().graceful_shutdown();
            drop(served.await);
        }
        () = permit.revoked() => {}
    }
}

/// A body, and the mark that its answer is under way.
struct Sending {
    body: Body,
    answering: Answering,
}

impl HttpBody for Sending {
    type Data = Bytes;
    type Error = <Body as HttpBody>::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.body).poll_frame(context);
        // The connection asks for more when the client has taken most of what it was sent.
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(bytes) = frame.data_ref()
        {
            this.answering.progress(bytes.len());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
