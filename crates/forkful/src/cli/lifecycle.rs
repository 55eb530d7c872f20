//! Options of the commands that act on existing apps.

use clap::Args;

use super::app_options::AppOptionArgs;
use super::look::TableArgs;

#[derive(Debug, Args)]
#[command(after_help = "\
Targets are names, ids, namespaces, `/patterns/` of names, scripts or `all`; several are allowed. A
config file stands for its apps. A name has precedence over an equal namespace or script.

Examples:
  forkful stop api
  forkful stop 0 3 worker
  forkful stop '/^api-/' jobs/mail.js
  forkful stop forkful.config.js --only api
  forkful delete all")]
pub(crate) struct TargetArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, `all`, or config files.
    #[arg(required = true, value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
    /// Config files: only the apps with these names.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// PM2's users pass it to `stop`; a stopped app is not watched anyway.
    #[arg(long, hide = true)]
    pub(crate) watch: bool,
    /// Accepted for PM2's users; no action needs to be forced.
    #[arg(long, short, hide = true)]
    pub(crate) force: bool,
    /// Return at once instead of when the action is done.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) table: TableArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A config file as target applies its changes, and starts its new apps. `reload` skips apps whose
definition and files have not changed, unless `--force` is given; `restart` restarts all apps.
If the new version does not become ready, `reload` keeps the old one and exits with 1.

Other targets keep their options and their environment, except for what is given here.
`--update-env` (`-a`) adds this environment to the app's, `--env KEY=VALUE` one variable, `--env
NAME` the block `env_NAME` of its config file; `--name` renames it, `--node-args null` removes the
interpreter's arguments.

Examples:
  forkful reload api
  forkful reload all
  forkful reload api --max-memory-restart 300M -i 4
  PORT=4000 forkful restart api --update-env
  forkful reload api --env production
  forkful restart forkful.config.js --env production --only api,worker")]
pub(crate) struct RestartArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, `all`, or config files.
    #[arg(required = true, value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
    /// `reload` of a config file: also reload unchanged apps.
    #[arg(long, short)]
    pub(crate) force: bool,
    /// Return at once instead of when the action is done.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Follow the apps' output afterwards.
    #[arg(long, conflicts_with_all = ["json", "no_wait"])]
    pub(crate) attach: bool,
    #[command(flatten)]
    pub(crate) options: AppOptionArgs,
    #[command(flatten)]
    pub(crate) table: TableArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Missing apps are started, apps with a changed definition or newer code are reloaded, others keep
running. The plan is printed first. If a new version does not become ready, all changes are rolled
back, and the exit code is 1.

Examples:
  forkful apply
  forkful apply forkful.config.js --dry-run
  forkful apply forkful.config.js --prune      also delete apps that are not in the file")]
pub(crate) struct ApplyArgs {
    /// A config file; by default the one in this directory.
    #[arg(value_name = "CONFIG")]
    pub(crate) config: Option<String>,
    /// Delete the other apps in the namespaces of the file's apps.
    #[arg(long, conflicts_with = "only")]
    pub(crate) prune: bool,
    /// Only print the plan.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Only the apps with these names.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// The block `env_NAME` of the config file.
    #[arg(long, value_name = "NAME")]
    pub(crate) env: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) table: TableArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful scale api 8
  forkful scale api +2
  forkful scale api -1
  forkful scale api max     one worker per core that this process may use")]
pub(crate) struct ScaleArgs {
    /// A name, id, namespace, `/pattern/` of names, script or config file that matches one app.
    #[arg(value_name = "APP|CONFIG")]
    pub(crate) target: String,
    /// The new number of workers; +N and -N change the current number; `max`.
    #[arg(value_name = "NUMBER", allow_hyphen_values = true)]
    pub(crate) number: String,
    /// Return at once instead of when the action is done.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) table: TableArgs,
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
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, `all`, or config files.
    #[arg(required = true, value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
