//! Options of the commands for scripts and programs: `jlist`, `prettylist`, `trigger`, `send`, `attach`, `mcp`, `api`.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful jlist | jq '.[].pm2_env.status'
  forkful jlist --show-env | jq '.[0].pm2_env.env.DATABASE_URL'")]
pub(crate) struct JlistArgs {
    /// Show secrets in the environment too.
    #[arg(long)]
    pub(crate) show_env: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful trigger api clear-cache
  forkful trigger api set-level debug
  forkful trigger 3 report '{\"days\": 7}' --timeout 60")]
pub(crate) struct TriggerArgs {
    /// A name, id, namespace, `/pattern/` of names or script of apps, `all`, or a config file.
    #[arg(value_name = "APP|CONFIG")]
    pub(crate) target: String,
    /// The action's name.
    pub(crate) action: String,
    /// Its parameter.
    pub(crate) params: Option<String>,
    /// Seconds to wait for answers.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) timeout: u64,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Only workers in fork mode have a stdin. Up to 64 KB are buffered until the worker reads them.

Examples:
  forkful send 0 status
  forkful send console '.exit'")]
pub(crate) struct SendArgs {
    /// Name or id of an app, or `all`.
    #[arg(value_name = "APP")]
    pub(crate) target: String,
    /// The line, without its line end.
    #[arg(allow_hyphen_values = true)]
    pub(crate) line: String,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Shows the worker's output, and writes each typed line to its stdin. Ctrl-C, or Ctrl-D on an empty
line, detaches; the worker keeps running.

Examples:
  forkful attach 0
  forkful attach console
  echo status | forkful attach 0")]
pub(crate) struct AttachArgs {
    /// Id of a worker, or the name of an app that has one.
    #[arg(value_name = "APP")]
    pub(crate) target: String,
    /// Text to write after each line, instead of a line end.
    #[arg(allow_hyphen_values = true)]
    pub(crate) separator: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Serves one client over stdin and stdout until it closes them; editors and assistants start this command
themselves. By default it is read-only: apps, logs, stalls, metrics, incidents, saved reports. Secrets of an app's
environment are masked in all answers, including log lines. --control also permits changes of apps.

Examples:
  forkful mcp
  forkful mcp --control
  forkful mcp --reports ./results")]
pub(crate) struct McpArgs {
    /// Let the client restart, reload, scale and stop apps.
    #[arg(long)]
    pub(crate) control: bool,
    /// Let the client read the reports (`*.json`) of `bench`, `compare` and `tune` in this folder.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) reports: Option<std::path::PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ApiArgs {
    #[command(subcommand)]
    pub(crate) verb: ApiVerb,
}

/// Helpers for other programs, in addition to the daemon's socket.
#[derive(Debug, Subcommand)]
pub(crate) enum ApiVerb {
    /// Start the daemon if it is not running; print its socket.
    Connect,
    /// Read a request for apps from stdin and print their complete definitions.
    Definitions,
    /// Read options for existing apps from stdin and print the change of them.
    Change,
}
