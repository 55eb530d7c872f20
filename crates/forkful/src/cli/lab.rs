//! Options of `compare` and `tune`: the app, the request, the time budget.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use forkful_lab::target::Beside;

use super::app_options::{BesideKeys, KeyArgs};
use super::duration;

#[derive(Debug, Args)]
#[command(after_help = "\
This command starts every arm on a free port, passed as PORT, and stops it afterwards. Arms run in
blocks of random order, each on a fresh server: first at saturation, then at 50 and 80 % of the
slower arm's capacity, where latencies can be compared. The default is single,cluster.
Arms: single (plain node), cluster (Forkful, one worker per core), workers=1,2,4, pool=1,4
(UV_THREADPOOL_SIZE), balance=direct,exact,shared, node=PATH,PATH, node-cluster, pm2. The first arm
is the baseline. Two scripts are compared with each other. The verdict is one of faster, slower, no
difference, inconclusive; docs/COMPARE.md explains the rule.

--git compares two commits: both are checked out in a temporary folder, built with --build, and
measured in turn; your checkout is not changed. Without --build, the packages installed here are
used if the lock files are the same. The exit code is then a gate:
  0  not slower    5  slower    6  inconclusive, or the figures cannot be trusted

Two saved reports of `bench --json` or `compare --json` are compared without a run, with the same
exit codes. The output starts with the differences in settings, and states its limitations.

Examples:
  forkful compare server.js --path /fast
  forkful compare --git main HEAD server.js --path /fast --build 'npm ci' --markdown
  forkful compare server.js --path /fast --html result.html --budget 2m
  forkful compare server.js --path /pool --arms pool=1,4 -i 1
  forkful compare old.js new.js --path / --arms cluster
  forkful compare before.json after.json --html result.html
  forkful compare server.js --path / --arms single,cluster,node-cluster,pm2
  forkful compare server.js --path / --https --cacert ca.pem --server-name localhost
  forkful compare server.js --path /fast --beside '/delay@2' --no-keep-alive
  forkful compare server.js --path / --aa             the smallest detectable difference")]
pub(crate) struct CompareArgs {
    /// One script or config file, two scripts, or two saved reports. With --git: one, or none if package.json
    /// or a config file names the script.
    #[arg(required_unless_present = "git", value_name = "SCRIPT|CONFIG|REPORT", num_args = 1..=2)]
    pub(crate) targets: Vec<String>,
    /// Compare two commits of this repository.
    #[arg(long, value_names = ["BASE", "HEAD"], num_args = 2, conflicts_with = "aa")]
    pub(crate) git: Vec<String>,
    /// With --git: a shell command that builds each version, such as 'npm ci && npm run build'.
    #[arg(long, value_name = "COMMAND", requires = "git")]
    pub(crate) build: Option<String>,
    /// Print Markdown, for a comment on a pull request.
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// The setups to compare.
    #[arg(long, value_name = "LIST")]
    pub(crate) arms: Option<String>,
    /// Compare the last arm with itself, to find the smallest difference that this machine can detect.
    #[arg(long)]
    pub(crate) aa: bool,
    /// Number of blocks; by default as many as the budget allows (6 to 18).
    #[arg(long, value_name = "NUMBER")]
    pub(crate) blocks: Option<usize>,
    /// Do not measure latency at equal rates.
    #[arg(long, conflicts_with = "beside_latency")]
    pub(crate) no_latency: bool,
    #[command(flatten)]
    pub(crate) lab: LabArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Candidates race: all are measured in rounds of random order, and those that are certainly worse
than the best are dropped. Of the rest, the smallest within 2 % of the best is chosen, because
workers cost memory and connections. Thread-pool sizes are only compared if they make a difference.

Examples:
  forkful tune server.js --path /heavy
  forkful tune server.js --path /heavy --workers 1-8 --budget 5m
  forkful tune server.js --path /heavy --https --insecure
  forkful tune forkful.config.json --path /heavy --apply
  forkful tune forkful.config.json --path /heavy --save     for `forkful export`")]
pub(crate) struct TuneArgs {
    /// A script or a config file.
    #[arg(value_name = "SCRIPT|CONFIG")]
    pub(crate) target: String,
    /// Numbers of workers to try, such as 1,2,4 or 1-8; by default 1, 2, 4 … up to two per core.
    #[arg(long, value_name = "LIST")]
    pub(crate) workers: Option<String>,
    /// Thread-pool sizes to try, such as 1,4,16; by default those that may matter.
    #[arg(long, value_name = "LIST")]
    pub(crate) pools: Option<String>,
    /// Write the choice to the config file (forkful.config.json is created if there is none).
    #[arg(long)]
    pub(crate) apply: bool,
    /// Write the measurements to forkful.measured.json next to the config file, for `forkful export`; takes 120s by default.
    #[arg(long)]
    pub(crate) save: bool,
    #[command(flatten)]
    pub(crate) lab: LabArgs,
}

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
