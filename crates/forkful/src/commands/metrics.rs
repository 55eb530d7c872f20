//! `forkful metrics`: prints the daemon's metrics page, or serves it to Prometheus.

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use clap::{Args, ValueEnum};
use forkful_api::client::Client;
use forkful_api::types::MetricsQuery;
use forkful_core::metrics::exposition::Format;
use tokio::net::TcpListener;

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

/// After Ctrl-C, scrapes under way are answered for so long.
const LAST_SCRAPES: Duration = Duration::from_secs(1);

/// The state for each scrape.
#[derive(Clone)]
struct Source {
    home: std::sync::Arc<Home>,
    app: Option<String>,
}

/// Serves until the process is stopped. If a daemon starts later, the next scrape finds it.
async fn serve(home: Home, app: Option<String>, address: SocketAddr) -> Result<Exit, Failure> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}"))
        .map_err(|error| Failure::caused(Exit::Failed, error))?;
    let bound = listener.local_addr().unwrap_or(address);
    output::talk(&format!("metrics are at http://{bound}/metrics"));
    let source = Source { home: home.into(), app };
    let router = Router::new().route("/metrics", get(scrape)).with_state(source);
    let served = axum::serve(listener, router).with_graceful_shutdown(async {
        // Without a handler, Ctrl-C ends the process as well.
        let _no_handler = tokio::signal::ctrl_c().await;
    });
    // A client that never ends its request does not keep the program.
    let patience = async {
        let _no_handler = tokio::signal::ctrl_c().await;
        tokio::time::sleep(LAST_SCRAPES).await;
    };
    tokio::select! {
        served = served.into_future() => served.map_err(|error| Failure::caused(Exit::Failed, error.into()))?,
        () = patience => {}
    }
    Ok(Exit::Done)
}

async fn scrape(State(source): State<Source>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let format = Format::accepted(accept);
    let query = MetricsQuery { app: source.app.clone(), format: Some(format) };
    let page = async {
        let (mut client, _) = Client::connect(&source.home.socket()).await?;
        client.metrics(&query).await
    };
    match page.await {
        Ok(page) => ([(header::CONTENT_TYPE, format.content_type())], page).into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
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
