//! Options of the verbs that act on existing apps.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Targets are names, ids, or `all`, several at once; a config file means the apps in it.

Examples:
  forkful stop api
  forkful stop 0 3 worker
  forkful stop forkful.config.js
  forkful delete all")]
pub(crate) struct TargetArgs {
    /// Names or ids of apps, `all`, or config files.
    #[arg(required = true, value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
    /// Return at once instead of when it is done.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A config file as target applies what changed in it, and starts the apps in it that are new.
When the new version does not become ready, `reload` keeps the old one and exits with 1.

Examples:
  forkful reload api
  forkful reload all
  forkful restart forkful.config.js --env production --only api,worker")]
pub(crate) struct RestartArgs {
    /// Names or ids of apps, `all`, or config files.
    #[arg(required = true, value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
    /// Config files: only the apps of these names.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Config files: KEY=VALUE sets a variable, NAME chooses the block `env_NAME`.
    #[arg(long, value_name = "KEY=VALUE|NAME")]
    pub(crate) env: Vec<String>,
    /// Return at once instead of when it is done.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful scale api 8
  forkful scale api +2
  forkful scale api -1
  forkful scale api max     one worker per core that this process may use")]
pub(crate) struct ScaleArgs {
    /// Name or id of the app.
    #[arg(value_name = "APP")]
    pub(crate) target: String,
    /// The new number of workers; +N and -N change the present one; `max`.
    #[arg(value_name = "NUMBER", allow_hyphen_values = true)]
    pub(crate) number: String,
    /// Return at once instead of when it is done.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful signal SIGUSR2 api
  forkful sendSignal HUP all
  forkful signal 12 0 1")]
pub(crate) struct SignalArgs {
    /// Name or number: SIGUSR2, usr2, 12.
    #[arg(value_name = "SIGNAL")]
    pub(crate) signal: String,
    /// Names or ids of apps, or `all`.
    #[arg(required = true, value_name = "APP")]
    pub(crate) targets: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
