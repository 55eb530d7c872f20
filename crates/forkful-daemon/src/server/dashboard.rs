//! The dashboard: a page for a browser of this machine. `forkful dashboard` opens it: the daemon then listens on a
//! random port of 127.0.0.1 and gives out a link that works once. Nothing of it runs while nobody looks, and the port is
//! closed when it has not been used for [`IDLE_MAX`].
//!
//! - `check`: which requests are taken at all: host, origin, method
//! - `access`: links, sessions, and who may do what
//! - `answers`: what is answered, and with which headers
//! - `state`: what the page is told of the apps, and how one state differs from the next
//! - `verdicts`: what limits each app, by the rules of the doctor
//! - `feed`: the stream of that, once a second, one for all pages
//! - `reports`: files of the lab in one folder
//! - `front`: the requests
//!
//! **Invariant:** nothing but the page's own files is answered without a session, and a session acts only when its link
//! was made for that. It reads files only of the folder that its link was made with.

mod access;
mod answers;
mod check;
mod feed;
mod front;
mod reports;
mod state;
#[cfg(test)]
mod tests;
mod verdicts;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::State;
use forkful_api::dashboard::{DashboardReply, DashboardRequest};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::permits::Permits;
use super::refusal::{Json, Refusal};
use super::routes::Api;
use super::{ACCEPT_FAULT_PAUSE, connection};
use crate::command::Command;
use access::Grant;
use front::Front;
use reports::Reports;

/// The port is closed when no page has been open for so long.
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);

/// Connections at once: some pages, each with a stream, a log that is followed, and requests.
const CONNECTIONS_MAX: usize = 64;

/// How long a client may take to send a request's head; also how long an unused connection stays open.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The dashboard of a daemon, open or not.
#[derive(Debug, Default)]
pub(super) struct Dashboard {
    front: Mutex<Option<Arc<Front>>>,
}

impl Dashboard {
    fn front(&self) -> MutexGuard<'_, Option<Arc<Front>>> {
        self.front.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new link, for which the port is opened unless it is open.
    fn link(self: &Arc<Self>, grant: Grant, commands: mpsc::Sender<Command>) -> io::Result<DashboardReply> {
        let mut open = self.front();
        let front = match &*open {
            Some(front) => Arc::clone(front),
            None => {
                let (listener, port) = listen()?;
                let front = Arc::new(Front::new(port, commands));
                *open = Some(Arc::clone(&front));
                tokio::spawn(serve(listener, Arc::clone(&front), Arc::clone(self)));
                front
            }
        };
        front.link(grant)
    }

    /// Closes the front if it is still unused.
    fn close(&self, front: &Front) -> bool {
        let mut open = self.front();
        let is_idle = front.idle_at().is_some_and(|at| at <= Instant::now());
        if is_idle {
            *open = None;
        }
        is_idle
    }
}

/// `POST /v1/dashboard`.
pub(super) async fn open(
    State(api): State<Api>,
    Json(request): Json<DashboardRequest>,
) -> Result<Json<DashboardReply>, Refusal> {
    let reports = match request.reports {
        Some(folder) => Some(Reports::open(folder).await?),
        None => None,
    };
    let link = api.dashboard.link(Grant { control: request.control, reports }, api.commands.clone());
    link.map(Json).map_err(|error| Refusal::internal(format!("cannot open the dashboard: {error}")))
}

fn listen() -> io::Result<(TcpListener, u16)> {
    let socket = std::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    socket.set_nonblocking(true)?;
    let port = socket.local_addr()?.port();
    Ok((TcpListener::from_std(socket)?, port))
}

/// Serves until the front is idle for too long, or the daemon ends.
async fn serve(listener: TcpListener, front: Arc<Front>, dashboard: Arc<Dashboard>) {
    let permits = Arc::new(Permits::new(CONNECTIONS_MAX));
    let (_farewell, farewell) = watch::channel(());
    let router = front::router(Arc::clone(&front));
    loop {
        let idle_at = front.idle_at();
        let accepted = tokio::select! {
            () = front.ended() => return,
            () = sleep_until(idle_at.unwrap_or_else(|| Instant::now() + IDLE_MAX)) => {
                if dashboard.close(&front) {
                    return;
                }
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                // Samples of a second go out at once.
                drop(stream.set_nodelay(true));
                let permit = permits.acquire().await;
                tokio::spawn(connection(stream, router.clone(), HEAD_TIMEOUT, farewell.clone(), permit));
            }
            Err(error) => {
                log_line!("forkful: cannot accept a connection of the dashboard: {error}");
                sleep(ACCEPT_FAULT_PAUSE).await;
            }
        }
    }
}
