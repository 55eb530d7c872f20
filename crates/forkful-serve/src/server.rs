//! Connections: their number, the timeout for request heads, and shutdown.

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

/// Maximum concurrent connections; see [`Permits`] for connections beyond. Each needs about 20 KB and one or
/// two descriptors, of which a process has 1,024 by default.
const CONNECTIONS_MAX: usize = 400;

/// Length of the kernel's accept queue.
const QUEUE: u32 = 511;

/// How long a client may leave sent data unread.
const STALL_MAX: Duration = Duration::from_secs(60);

/// How long a client may take to send a request's head; also how long an unused connection stays open.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// How long responses in progress may take during shutdown.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause after a failed `accept`, which mostly means that there are no free descriptors.
const ACCEPT_FAULT_PAUSE: Duration = Duration::from_millis(100);

/// Why the server cannot start.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The directory does not exist or cannot be read.
    #[error("cannot serve {}", path.display())]
    Root { path: PathBuf, source: io::Error },
    /// Listening on the address failed.
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
    /// The event loop could not be created.
    #[error("cannot wait for connections")]
    Runtime { source: io::Error },
}

/// Serves until SIGINT or SIGTERM. Prints the address to stdout when it is ready.
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
    // A restart must not wait for connections of the previous process.
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(shared)?;
    socket.bind(address)?;
    socket.listen(QUEUE)
}

/// Accepts the next connection, with a permit. While it waits for a permit, further connections wait in the
/// socket's queue.
async fn accept(listener: &TcpListener, permits: &Arc<Permits>) -> io::Result<(TcpStream, Permit)> {
    let (stream, _) = listener.accept().await?;
    Ok((stream, permits.acquire().await))
}

/// Serves one connection until either side ends it; then `permit` is returned.
async fn connection(stream: TcpStream, site: Arc<Site>, mut farewell: watch::Receiver<()>, permit: Permit) {
    // Only an optimisation, so errors are ignored.
    stream.set_nodelay(true).ok();
    // A client that does not read its response loses its permit; see TCP_USER_TIMEOUT in tcp(7).
    forkful_os::connection::limit_stall(&stream, STALL_MAX).ok();
    // A connection without an address is already closed.
    let client = stream.peer_addr().map_or(IpAddr::from(Ipv4Addr::UNSPECIFIED), |address| address.ip());
    let answer = service_fn(|request| {
        let site = Arc::clone(&site);
        let answering = permit.answering();
        async move {
            let response = site.answer(request, client).await;
            // The connection counts as busy until the body is sent.
            Ok::<_, Infallible>(response.map(|body| Sending { body, answering }))
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), answer);
    let mut served = pin!(served);
    // An error of a connection (garbage, a timeout, a reset) ends only that connection.
    tokio::select! {
        _ = served.as_mut() => {}
        _ = farewell.changed() => {
            served.as_mut().graceful_shutdown();
            drop(served.await);
        }
        () = permit.revoked() => {}
    }
}

/// A body that marks its response as in progress.
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
        // The connection requests more data when the client has read most of what was sent.
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
