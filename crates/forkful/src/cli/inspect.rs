//! Options of the commands for scripts and programs: `jlist`, `prettylist`, `trigger`, `api`.

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
    /// What it is called with.
    pub(crate) params: Option<String>,
    /// Seconds to wait for answers.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) timeout: u64,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ApiArgs {
    #[command(subcommand)]
    pub(crate) verb: ApiVerb,
}

/// What other programs need besides the daemon's socket.
#[derive(Debug, Subcommand)]
pub(crate) enum ApiVerb {
    /// Start the daemon if it does not run; print where it is.
    Connect,
    /// Read a request for apps from stdin, print their complete definitions.
    Definitions,
}
