//! Options of the verbs that act on existing apps.

use clap::Args;

use super::app_options::AppOptionArgs;
use super::look::TableArgs;

#[derive(Debug, Args)]
#[command(after_help = "\
Targets are names, ids, namespaces, `/patterns/` of names, scripts or `all`, several at once; a
config file means the apps in it. A name comes before a namespace or a script of the same spelling.

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
    /// Config files: only the apps of these names.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// PM2's users pass it to `stop`; a stopped app is not watched anyway.
    #[arg(long, hide = true)]
    pub(crate) watch: bool,
    /// PM2's users pass it; nothing here has to be forced.
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
A config file as target applies what changed in it, and starts the apps in it that are new.
`reload` leaves apps alone whose definition and files have not changed, unless `--force` is given;
`restart` restarts all apps.
When the new version does not become ready, `reload` keeps the old one and exits with 1.

An app that is named otherwise keeps its options and its environment, but for what is given here.
`--update-env` (`-a`) adds this environment to its own, `--env KEY=VALUE` one variable, `--env NAME`
the block `env_NAME` that its config file had; `--name` renames it, `--node-args null` takes the
interpreter's arguments away.

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
    /// `reload` of a config file: reload apps too that have not changed.
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
Missing apps start, apps with another definition or newer code are reloaded, the others run on. The
plan is printed first. When a new version does not become ready, everything that was done is undone,
and the exit code is 1.

Examples:
  forkful apply
  forkful apply forkful.config.js --dry-run
  forkful apply forkful.config.js --prune      delete what the file does not name")]
pub(crate) struct ApplyArgs {
    /// A config file; without it, the one in this directory.
    #[arg(value_name = "CONFIG")]
    pub(crate) config: Option<String>,
    /// Delete the other apps in the namespaces of the file's apps.
    #[arg(long, conflicts_with = "only")]
    pub(crate) prune: bool,
    /// Only print the plan.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Only the apps of these names.
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
    /// A name, id, namespace, `/pattern/` of names, script or config file that means one app.
    #[arg(value_name = "APP|CONFIG")]
    pub(crate) target: String,
    /// The new number of workers; +N and -N change the present one; `max`.
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
