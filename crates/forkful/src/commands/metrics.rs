//! `forkful metrics`: prints the daemon's metrics page, or serves it to Prometheus.

use std::convert::Infallible;
use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use forkful_api::client::Client;
use forkful_api::types::MetricsQuery;
use forkful_core::metrics::exposition::Format;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::task::LocalSet;

use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output;
use crate::output::format;

#[derive(Debug, Args)]
#[command(after_help = "\
Counters continue across restarts of workers. docs/METRICS.md lists all names.

Examples:
  forkful metrics
  forkful metrics api --format openmetrics
  forkful metrics --listen 127.0.0.1:9100      then let Prometheus scrape http://127.0.0.1:9100/metrics")]
pub(crate) struct MetricsArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, or `all`.
    #[arg(value_name = "APP")]
    pub(crate) app: Option<String>,
    /// Format of the page.
    #[arg(long, value_enum, default_value_t = PageFormat::Prometheus, value_name = "FORMAT")]
    pub(crate) format: PageFormat,
    /// Serve the page at this address under /metrics until Ctrl-C.
    #[arg(long, value_name = "IP:PORT", value_parser = address, conflicts_with = "format")]
    pub(crate) listen: Option<SocketAddr>,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "it must be an address and a port, such as 127.0.0.1:9100".to_owned())
}

/// A form of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PageFormat {
    /// Prometheus' text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    Openmetrics,
}

pub(super) async fn run(home: Home, args: &MetricsArgs) -> Result<Exit, Failure> {
    if let Some(address) = args.listen {
        return serve(home, args.app.clone(), address).await;
    }
    let Some(mut client) = connection::running(&home).await? else {
        output::warn("no daemon is running, so there are no metrics");
        return Ok(Exit::Done);
    };
    let format = match args.format {
        PageFormat::Prometheus => Format::Prometheus,
        PageFormat::Openmetrics => Format::OpenMetrics,
    };
    let query = MetricsQuery { app: args.app.clone(), format: Some(format) };
    let page = client.metrics(&query).await?;
    output::print(&printed(page, io::stdout().is_terminal()))?;
    Ok(Exit::Done)
}

/// The page for stdout. Labels of an app's own metrics are any text: scrapes and pipes get them unchanged, as the formats permit,
/// but a terminal would obey their control characters.
fn printed(page: String, is_terminal: bool) -> String {
    if is_terminal { format::visible(&page) } else { page }
}

/// Connections at a time; further ones wait in the socket's queue.
const CONNECTIONS_MAX: usize = 64;
/// The longest a client may take for the head of a request, and wait between two requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest a scrape waits for the daemon: Prometheus gives up after 10 s.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(9);
/// After Ctrl-C, scrapes under way are answered for so long.
const LAST_SCRAPES: Duration = Duration::from_secs(1);
/// The pause after a failed `accept`, which mostly means that descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where each scrape gets its page from.
struct Source {
    home: Home,
    app: Option<String>,
}

/// Serves until the process is stopped. If a daemon starts later, the next scrape finds it.
async fn serve(home: Home, app: Option<String>, address: SocketAddr) -> Result<Exit, Failure> {
    let failed = |error| Failure::caused(Exit::Failed, error);
    let bind = TcpListener::bind(address).await;
    let listener = bind.with_context(|| format!("cannot listen on {address}")).map_err(failed)?;
    let bound = listener.local_addr().unwrap_or(address);
    output::talk(&format!("metrics are at http://{bound}/metrics"));
    if !bound.ip().is_loopback() {
        output::warn(
            "other machines that reach this address can read the metrics; nobody is asked for a password",
        );
    }
    let (mut interrupt, mut terminate) =
        (stop_signal(SignalKind::interrupt())?, stop_signal(SignalKind::terminate())?);
    let source = Rc::new(Source { home, app });
    if source.app.is_some()
        && let Err(Refused::ByDaemon(why)) = source.page(Format::Prometheus).await
    {
        output::warn(&format!("{why}; until there is such an app, scrapes are answered with 503"));
    }
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let (clients, graceful) = (LocalSet::new(), GracefulShutdown::new());
    let accepting = clients.run_until(accept_all(&listener, &source, &places, &graceful));
    tokio::select! {
        () = accepting => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    drop(listener);
    // A client that never ends its request does not keep the program.
    drop(tokio::time::timeout(LAST_SCRAPES, clients.run_until(graceful.shutdown())).await);
    Ok(Exit::Done)
}

fn stop_signal(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::caused(Exit::Failed, error.into()))
}

/// Accepts clients until it is dropped.
async fn accept_all(
    listener: &TcpListener,
    source: &Rc<Source>,
    places: &Arc<Semaphore>,
    graceful: &GracefulShutdown,
) {
    loop {
        let place = Arc::clone(places).acquire_owned().await;
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let source = Rc::clone(source);
        let answer = service_fn(move |request| {
            let source = Rc::clone(&source);
            async move { Ok::<_, Infallible>(source.answer(&request).await) }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
        let served = graceful.watch(http.serve_connection(TokioIo::new(stream), answer));
        tokio::task::spawn_local(async move {
            let _place = place;
            // A fault of a connection ends that connection alone.
            drop(served.await);
        });
    }
}

/// Why a scrape has no page.
enum Refused {
    ByDaemon(String),
    Unreached(String),
}

impl Source {
    async fn page(&self, format: Format) -> Result<String, Refused> {
        let query = MetricsQuery { app: self.app.clone(), format: Some(format) };
        let page = async {
            let connected = Client::connect(&self.home.socket()).await;
            let (mut client, _) = connected.map_err(|error| Refused::Unreached(error.to_string()))?;
            client.metrics(&query).await.map_err(|error| Refused::ByDaemon(error.to_string()))
        };
        let late = |_| Refused::Unreached(format!("the daemon does not answer within {SCRAPE_TIMEOUT:?}"));
        tokio::time::timeout(SCRAPE_TIMEOUT, page).await.map_err(late)?
    }

    async fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        if request.uri().path() != "/metrics" {
            let (status, text) = match request.uri().path() {
                "/" => (StatusCode::OK, "The metrics are at /metrics\n"),
                _ => (StatusCode::NOT_FOUND, "not found: the metrics are at /metrics\n"),
            };
            return response(status, "text/plain; charset=utf-8", text.to_owned());
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let text = "the metrics are read with GET\n".to_owned();
            return response(StatusCode::METHOD_NOT_ALLOWED, "text/plain; charset=utf-8", text);
        }
        let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
        let format = Format::accepted(accept.unwrap_or_default());
        match self.page(format).await {
            Ok(page) => response(StatusCode::OK, format.content_type(), page),
            Err(Refused::ByDaemon(why) | Refused::Unreached(why)) => {
                response(StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", format!("{why}\n"))
            }
        }
    }
}

fn response(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_steer_no_terminal_and_are_unchanged_elsewhere() {
        let page = "# HELP hits a\\n\u{9b}b\nhits{path=\"\u{1b}]0;PWN\u{7}\u{202e}\"} 1.0\n";
        assert_eq!(
            printed(page.to_owned(), true),
            "# HELP hits a\\n\\u{9b}b\nhits{path=\"\\u{1b}]0;PWN\\u{7}\\u{202e}\"} 1.0\n"
        );
        assert_eq!(printed(page.to_owned(), false), page);
    }
}
