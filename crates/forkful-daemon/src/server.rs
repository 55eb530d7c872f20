//! The API server: HTTP/1.1 over the daemon's unix socket. It checks who connects, how much is sent
//! and whether it makes sense, turns requests into [`Command`]s, and knows nothing of apps.
//!
//! **Invariant:** nothing here holds state of an app, and nothing that a client sends or fails to send
//! can do more than end its own connection.

mod conversation;
mod event_body;
mod keep;
mod log_body;
mod refusal;
mod routes;

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use forkful_os::identity;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::command::Command;

/// Connections that are served at once; more wait in the socket's accept queue. Each costs about 10 KB.
pub const CONNECTIONS_MAX: u32 = 1024;

/// The largest request body. The largest honest one, a config file with a thousand apps, is far below.
pub const REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long a client may take to send a request's head; also how long an unused connection stays open.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a client may take to send a request's body.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// How long replies under way may take once the engine has ended.
pub const FAREWELL_TIMEOUT: Duration = Duration::from_secs(2);

/// The largest head of a request, and the most that is buffered per connection while reading.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Pause after a failed `accept`, which mostly means that descriptors have run out.
const ACCEPT_FAULT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the API on `listener` until the engine drops its end of `commands`, then lets replies that
/// are under way finish (at most [`FAREWELL_TIMEOUT`]) and returns. Await it before the process exits,
/// or the client that asked for the end never learns of it.
pub async fn serve(listener: UnixListener, commands: mpsc::Sender<Command>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX as usize));
    let (farewell, _) = watch::channel(());
    let router = routes::router(commands.clone());
    loop {
        let accepted = tokio::select! {
            () = commands.closed() => break,
            accepted = accept(&listener, &slots) => accepted,
        };
        match accepted {
            Ok((stream, slot)) if is_trusted(&stream) => {
                tokio::spawn(connection(stream, router.clone(), farewell.subscribe(), slot));
            }
            Ok(_) => {}
            Err(error) => {
                eprintln!("forkful: cannot accept a connection on the control socket: {error}");
                sleep(ACCEPT_FAULT_PAUSE).await;
            }
        }
    }
    drop(listener);
    drop(farewell);
    drop(timeout(FAREWELL_TIMEOUT, slots.acquire_many(CONNECTIONS_MAX)).await);
}

async fn accept(
    listener: &UnixListener,
    slots: &Arc<Semaphore>,
) -> io::Result<(UnixStream, OwnedSemaphorePermit)> {
    let slot = Arc::clone(slots).acquire_owned().await.expect("the semaphore is never closed");
    let (stream, _) = listener.accept().await?;
    Ok((stream, slot))
}

/// Whether the other end is run by this daemon's user or by root. The socket's mode says the same, but
/// a mode can be changed by mistake.
fn is_trusted(stream: &UnixStream) -> bool {
    let own = identity::euid();
    identity::peer_credentials(stream).is_ok_and(|peer| peer.uid == own || peer.uid == 0)
}

/// Serves one connection until either side ends it. `slot` is given back when it is over.
async fn connection(
    stream: UnixStream,
    router: Router,
    mut farewell: watch::Receiver<()>,
    slot: OwnedSemaphorePermit,
) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut served = pin!(served);
    // A fault of one connection (garbage, a timeout, a reset) ends that connection and concerns nobody else.
    tokio::select! {
        _ = served.as_mut() => {}
        _ = farewell.changed() => {
            served.as_mut().graceful_shutdown();
            drop(served.await);
        }
    }
    drop(slot);
}

#[cfg(test)]
mod tests;
