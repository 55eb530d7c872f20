//! Options of `metrics`.

use std::net::SocketAddr;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
#[command(after_help = "\
Counters continue across restarts of workers. docs/METRICS.md lists all names.

Examples:
  forkful metrics
  forkful metrics api | promtool check metrics
  forkful metrics --listen 127.0.0.1:9100      then let Prometheus scrape http://127.0.0.1:9100/metrics")]
pub(crate) struct MetricsArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, or `all`.
    #[arg(value_name = "APP")]
    pub(crate) app: Option<String>,
    /// Format of the page.
    #[arg(long, value_enum, default_value_t = PageFormat::Prometheus, value_name = "FORMAT")]
    pub(crate) format: PageFormat,
    /// Serve the page at this address under /metrics until Ctrl-C.
    #[arg(long, value_name = "IP:PORT", conflicts_with = "format")]
    pub(crate) listen: Option<SocketAddr>,
}

/// A form of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PageFormat {
    /// Prometheus' text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    Openmetrics,
}
