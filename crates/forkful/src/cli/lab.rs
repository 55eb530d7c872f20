//! Options of `compare` and `tune`: the app, the request, the time budget.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use forkful_lab::target::Beside;

use super::app_options::{BesideKeys, KeyArgs};
use super::duration;

#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    /// Arguments of the script.
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) args: Vec<String>,
    /// Time for the whole run; by default 60s for compare, 90s for tune.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) budget: Option<Duration>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write an HTML page with plots.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Seed of the random order; printed, so that a run can be repeated.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    #[command(flatten)]
    pub(crate) app: LabAppArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Request")]
pub(crate) struct RequestArgs {
    /// Path and query of the route.
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub(crate) path: String,
    /// Method.
    #[arg(long, short, value_name = "METHOD", default_value = "GET")]
    pub(crate) method: String,
    /// A header as `Name: value`. Repeatable.
    #[arg(long, short = 'H', value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// The body; `@FILE` reads a file.
    #[arg(long, short, value_name = "TEXT|@FILE")]
    pub(crate) body: Option<String>,
    /// Statuses that count as success; by default all below 400.
    #[arg(long, value_name = "CODES", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(100..=999))]
    pub(crate) expect_status: Vec<u16>,
    /// Also request this path at this rate per second, without measuring it: `/delay@2`.
    #[arg(long, value_name = "PATH@RATE", value_parser = Beside::parse)]
    pub(crate) beside: Option<Beside>,
    /// Like --beside, but only while latency is measured; throughput is measured without it.
    #[arg(long, value_name = "PATH@RATE", value_parser = Beside::parse_for_latency, conflicts_with = "beside")]
    pub(crate) beside_latency: Option<Beside>,
    /// The app uses TLS.
    #[arg(long)]
    pub(crate) https: bool,
    /// With --https: accept any certificate.
    #[arg(long, short = 'k', requires = "https")]
    pub(crate) insecure: bool,
    /// With --https: trust these authorities (PEM).
    #[arg(long, value_name = "FILE", requires = "https", conflicts_with = "insecure")]
    pub(crate) cacert: Option<PathBuf>,
    /// With --https: the server name to request and to verify in the certificate.
    #[arg(long, value_name = "NAME", requires = "https")]
    pub(crate) server_name: Option<String>,
    /// Number of connections; by default as many as saturate the app.
    #[arg(long, short, value_name = "NUMBER")]
    pub(crate) connections: Option<usize>,
    /// Open a new connection for each request.
    #[arg(long)]
    pub(crate) no_keep_alive: bool,
    /// Threads of the load generator.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: Option<u16>,
}

/// The app to measure, and how to start it.
pub(crate) type LabAppArgs = KeyArgs<LabOtherArgs>;

#[derive(Debug, Args)]
#[command(next_help_heading = "App")]
pub(crate) struct LabOtherArgs {
    /// KEY=VALUE adds a variable; NAME selects the config's block `env_NAME`. Repeatable.
    #[arg(long, value_name = "KEY=VALUE|NAME")]
    pub(crate) env: Vec<String>,
    /// Config files: the app with this name.
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Option<String>,
    /// Port of the app, if it ignores PORT.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// How long a server may take until it listens.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(crate) start_timeout: Duration,
}

impl BesideKeys for LabOtherArgs {
    const KEYS: &'static [&'static str] =
        &["instances", "interpreter", "node_args", "cwd", "balance", "agent"];
    const HEADING: Option<&'static str> = Some("App");
}
