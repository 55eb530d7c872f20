//! The API server: HTTP/1.1 over the daemon's unix socket. It checks who connects, how much is sent
//! and whether it makes sense, turns requests into [`Command`]s, and knows nothing of apps.
//!
//! **Invariant:** nothing here holds state of an app, and nothing that a client sends or fails to send
//! can do more than end its own connection.

mod conversation;
mod dashboard;
mod disk_facts;
mod event_body;
mod keep;
mod log_body;
mod permits;
pub(crate) mod probes;
mod profile;
mod refusal;
pub(crate) mod routes;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use forkful_os::identity;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::command::Command;
use crate::rest::Rest;
use permits::{Permit, Permits};

pub use forkful_api::types::REQUEST_BYTES_MAX;
pub use permits::{CONNECTIONS_MAX, STALL_MAX};

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
pub(crate) async fn serve(listener: UnixListener, commands: mpsc::Sender<Command>, rest: Rest) {
    let permits = Arc::new(Permits::new(CONNECTIONS_MAX));
    let (farewell, _) = watch::channel(());
    let router = routes::router(commands.clone());
    loop {
        let accepted = tokio::select! {
            () = commands.closed() => break,
            accepted = listener.accept() => accepted,
        };
        rest.note_client();
        match accepted {
            Ok((stream, _)) if is_trusted(&stream) => {
                let permit = permits.acquire().await;
                let served = connection(stream, router.clone(), HEAD_TIMEOUT, farewell.subscribe(), permit);
                let rest = rest.clone();
                tokio::spawn(async move {
                    served.await;
                    rest.note_client();
                });
            }
            Ok(_) => {}
            Err(error) => {
                log_line!("forkful: cannot accept a connection on the control socket: {error}");
                sleep(ACCEPT_FAULT_PAUSE).await;
            }
        }
    }
    drop(listener);
    drop(farewell);
    drop(timeout(FAREWELL_TIMEOUT, permits.empty()).await);
}

/// Whether the other end is run by this daemon's user or by root. The socket's mode says the same, but
/// a mode can be changed by mistake.
fn is_trusted(stream: &UnixStream) -> bool {
    let own = identity::euid();
    identity::peer_credentials(stream).is_ok_and(|peer| peer.uid == own || peer.uid == 0)
}

/// Serves one connection until either side ends it, or another one needs its permit.
async fn connection<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    router: Router,
    head_timeout: Duration,
    mut farewell: watch::Receiver<()>,
    permit: Permit,
) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(permit.observe(stream)), TowerToHyperService::new(router));
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

#[cfg(test)]
mod tests;
