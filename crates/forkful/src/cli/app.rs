//! Options of `start` and `run`: what describes an app.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args};
use forkful_core::spec::{Balance, Named as _, StopSignal};

use super::look::TableArgs;
use super::upkeep::{AcceptedArgs, GroupArgs, LogShapeArgs, RenewalArgs};

#[derive(Debug, Args)]
#[command(after_help = "\
Without an argument this directory's config file is used: forkful.config.* or ecosystem.config.*.
Durations are milliseconds, or strings such as 500ms, 10s, 2m.
Balance: with `direct` the kernel spreads connections over the healthy workers, with `exact` each
goes to the worker with the fewest; `auto` is exact while they come slowly and direct when they
come fast; `shared` is one socket for all; `sticky` keeps a client address at one worker.
Apps that exist are named by name, id, namespace, `/pattern/` of names or `all`: they are started,
and restarted where they run; options change them as those of `restart` do. The same holds for the
apps of a config file; a script that runs already is refused. A name without slash and extension
comes before a file of that name, a file before any other name.

Examples:
  forkful start app.js -i max                        one worker per core
  PORT=3000 forkful start app.js --name api -- --verbose
  forkful start \"python3 -m http.server\" --name files
  forkful start forkful.config.js --only api --env production
  forkful start api                                  an existing app
  forkful start api -i 4 --update-env                with other options and this environment
  forkful start all")]
pub(crate) struct StartArgs {
    /// Return at once instead of when the apps are ready.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Start a second copy, under another name, of a script that runs already.
    #[arg(long, short)]
    pub(crate) force: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Follow the apps' output when they are started.
    #[arg(long, conflicts_with_all = ["json", "no_wait"])]
    pub(crate) attach: bool,
    /// Run in the foreground, as `forkful run` does.
    #[arg(long, conflicts_with_all = ["json", "no_wait", "force", "attach"])]
    pub(crate) no_daemon: bool,
    #[command(flatten)]
    pub(crate) app: AppArgs,
    #[command(flatten)]
    pub(crate) table: TableArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Signals are passed on, zombies reaped, output goes to stdout and stderr. Ends when the app has ended
for good, with its exit code. When it is killed, a small process beside it ends the app.

Examples:
  forkful run app.js -i max
  forkful run forkful.config.js --env production
  forkful run server.js --no-autorestart             in a container that is restarted from outside")]
pub(crate) struct RunArgs {
    /// Seconds to wait before anything is started.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) delay: Option<Duration>,
    #[command(flatten)]
    pub(crate) app: AppArgs,
}

#[derive(Debug, Args)]
pub(crate) struct GuardArgs {
    /// The mark by which the processes of these apps are found.
    pub(crate) instance: String,
}

#[derive(Debug, Args)]
pub(crate) struct AppArgs {
    /// Scripts, programs, quoted command lines, config files (`-` for JSON from stdin), or existing apps (name, id, pattern).
    #[arg(value_name = "SCRIPT|CONFIG|APP")]
    pub(crate) targets: Vec<String>,
    #[command(flatten)]
    pub(crate) options: AppOptionArgs,
}

/// What describes an app.
#[derive(Debug, Args)]
pub(crate) struct AppOptionArgs {
    /// Arguments of the script.
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) args: Vec<String>,
    /// Number of workers: a number, `max` or 0 for one per core, -1 for one less.
    #[arg(long, short, value_name = "NUMBER", allow_hyphen_values = true)]
    pub(crate) instances: Option<String>,
    /// The app's name; by default the script's without its extension.
    #[arg(long, short)]
    pub(crate) name: Option<String>,
    /// Working directory; by default this one.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) cwd: Option<PathBuf>,
    /// KEY=VALUE adds a variable; NAME chooses the config's block `env_NAME`. Repeatable.
    #[arg(long, value_name = "KEY=VALUE|NAME")]
    pub(crate) env: Vec<String>,
    /// Config files: only the apps of these names.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Program that runs the script; `none` for the script itself.
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) interpreter: Option<String>,
    /// Arguments of the interpreter, split as a shell does.
    #[arg(long, visible_alias = "interpreter-args", value_name = "ARGS", allow_hyphen_values = true)]
    pub(crate) node_args: Option<String>,
    /// How connections are spread over the workers; auto by default.
    #[arg(long, value_parser = balance(), value_name = "MODE")]
    pub(crate) balance: Option<Balance>,
    /// Do not preload the agent.
    #[arg(long)]
    pub(crate) no_agent: bool,
    #[command(flatten)]
    pub(crate) logs: LogFileArgs,
    #[command(flatten)]
    pub(crate) ready: ReadyArgs,
    #[command(flatten)]
    pub(crate) stop: StopArgs,
    #[command(flatten)]
    pub(crate) restart: RestartPolicyArgs,
    #[command(flatten)]
    pub(crate) renewal: RenewalArgs,
    #[command(flatten)]
    pub(crate) group: GroupArgs,
    #[command(flatten)]
    pub(crate) shape: LogShapeArgs,
    #[command(flatten)]
    pub(crate) accepted: AcceptedArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct LogFileArgs {
    /// File for stdout.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// File for stderr.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) error: Option<PathBuf>,
    /// One file per stream for all workers.
    #[arg(long)]
    pub(crate) merge_logs: bool,
    /// Begin each line with the time.
    #[arg(long)]
    pub(crate) time: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Readiness")]
pub(crate) struct ReadyArgs {
    /// The app says `process.send('ready')` when it is ready.
    #[arg(long)]
    pub(crate) wait_ready: bool,
    /// Time for a worker to become ready (default 3 s, for a reload 30 s).
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) listen_timeout: Option<Duration>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Stopping")]
pub(crate) struct StopArgs {
    /// Time from the first signal to SIGKILL.
    #[arg(long, short, value_name = "DURATION", value_parser = duration)]
    pub(crate) kill_timeout: Option<Duration>,
    /// First signal of a stop; SIGINT by default.
    #[arg(long, value_name = "SIGNAL", value_parser = signal)]
    pub(crate) kill_signal: Option<StopSignal>,
    /// Time for open requests to finish at a reload.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) drain_timeout: Option<Duration>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Restarting")]
pub(crate) struct RestartPolicyArgs {
    /// Do not restart workers that exit.
    #[arg(long, action = ArgAction::SetTrue, overrides_with = "autorestart")]
    pub(crate) no_autorestart: bool,
    /// Also restart programs that exit with code 0.
    #[arg(long, action = ArgAction::SetTrue, overrides_with = "no_autorestart")]
    pub(crate) autorestart: bool,
    /// Unstable exits before restarts end.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max_restarts: Option<u32>,
    /// An exit before this uptime counts as unstable.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) min_uptime: Option<Duration>,
    /// Pause before each restart.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) restart_delay: Option<Duration>,
    /// First step of a pause that grows with each restart.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) exp_backoff_restart_delay: Option<Duration>,
    /// Exit codes after which a worker stays stopped.
    #[arg(long, value_name = "CODES", value_delimiter = ',',
          value_parser = clap::value_parser!(i32).range(0..=255))]
    pub(crate) stop_exit_codes: Vec<i32>,
}

/// The modes of balance, for clap.
pub(super) fn balance() -> impl TypedValueParser<Value = Balance> {
    PossibleValuesParser::new(Balance::NAMES)
        .map(|name| Balance::named(&name).expect("clap lets only these names pass"))
}

fn duration(text: &str) -> Result<Duration, String> {
    forkful_config::parse_duration(text)
        .ok_or_else(|| "expected milliseconds, or a string such as 500ms, 10s, 2m or 1h".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "expected a number of seconds".to_owned())
}

fn signal(text: &str) -> Result<StopSignal, String> {
    forkful_config::parse_signal(text)
        .ok_or_else(|| "expected a signal name or number such as SIGTERM or 15".to_owned())
}
