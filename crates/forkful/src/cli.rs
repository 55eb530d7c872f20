//! The command line as clap sees it, and nothing else: what options there are, how they are spelled
//! and what `--help` says. What they do is in `commands`.

mod app;
mod app_options;
mod bench;
pub(crate) mod completions;
mod config;
mod dashboard;
mod deploy;
mod doctor;
mod events;
mod experiment;
mod export;
pub(crate) mod gone;
mod inspect;
mod keep;
mod lab;
mod later;

mod lifecycle;
mod logs;
mod look;
pub(crate) mod man;
mod metrics;
pub(crate) mod overview;
mod serve;
mod settings;
#[cfg(test)]
mod tests {
    mod reference;
}

use clap::{Args, Parser, Subcommand};

pub(crate) use app::{AppArgs, GuardArgs, RunArgs, StartArgs};
pub(crate) use app_options::{AppOptionArgs, GivenKeys};
pub(crate) use bench::{BenchArgs, BenchOutputArgs, BenchRequestArgs, typed_load_options};
pub(crate) use config::{EnvArgs, IdArgs, InitArgs, InitKind, PidArgs, ReportArgs, ValidateArgs};
pub(crate) use dashboard::DashboardArgs;
pub(crate) use deploy::DeployArgs;
pub(crate) use doctor::DoctorArgs;
pub(crate) use events::EventsArgs;
pub(crate) use experiment::ExperimentArgs;
pub(crate) use export::{ExportArgs, ExportPlatform};
pub(crate) use inspect::{ApiArgs, ApiVerb, AttachArgs, JlistArgs, McpArgs, SendArgs, TriggerArgs};
pub(crate) use keep::{
    ClearArgs, ImportArgs, ImportFrom, ImportPm2Args, Platform, ResurrectArgs, SaveArgs, StartupArgs,
};
pub(crate) use lab::{CompareArgs, LabAppArgs, LabArgs, LabOtherArgs, RequestArgs, TuneArgs};
use later::Later;
pub(crate) use lifecycle::{ApplyArgs, RestartArgs, ScaleArgs, SignalArgs, TargetArgs};
pub(crate) use logs::{FlushArgs, LINES_DEFAULT, LogsArgs, ReloadLogsArgs};
use look::LookArgs;
pub(crate) use metrics::{MetricsArgs, PageFormat};
pub(crate) use serve::ServeArgs;
pub(crate) use settings::{ConfArgs, GetArgs, MultisetArgs, SetArgs, UnsetArgs};

use crate::output::look::Look;
use crate::output::table::Sort;

/// Runs Node.js apps on every core, and keeps them up.
#[derive(Debug, Parser)]
#[command(
    name = "forkful",
    bin_name = "forkful",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) look: LookArgs,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl Cli {
    /// How everything is to be shown.
    pub(crate) fn look(&self) -> Look {
        let table = match &self.verb {
            Verb::Start(args) => Some(&args.table),
            Verb::Restart(args) | Verb::Reload(args) => Some(&args.table),
            Verb::Stop(args) | Verb::Delete(args) | Verb::Reset(args) => Some(&args.table),
            Verb::Scale(args) => Some(&args.table),
            Verb::Apply(args) => Some(&args.table),
            _ => None,
        };
        Look {
            silent: self.look.silent,
            no_color: self.look.no_color,
            mini_list: table.is_some_and(|table| table.mini_list),
            sort: table.and_then(|table| table.sort).unwrap_or_default(),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Start scripts, command lines, config files, or existing apps.
    Start(Later<StartArgs>),
    /// Stop apps; they stay in the list.
    Stop(Later<TargetArgs>),
    /// Stop apps and start them again.
    #[command(visible_alias = "startOrRestart")]
    Restart(Later<RestartArgs>),
    /// Replace an app's workers one by one without losing a request.
    #[command(visible_alias = "startOrReload", alias = "startOrGracefulReload")]
    Reload(Later<RestartArgs>),
    /// Make the apps what a config file says.
    Apply(Later<ApplyArgs>),
    /// Stop apps and remove them from the list.
    #[command(visible_alias = "del")]
    Delete(Later<TargetArgs>),
    /// Change the number of an app's workers.
    Scale(Later<ScaleArgs>),
    /// Show all workers.
    #[command(visible_aliases = ["ls", "l", "ps", "status"])]
    List(Later<ListArgs>),
    /// Show all workers as JSON in PM2's shape.
    Jlist(Later<JlistArgs>),
    /// Show all workers as a JavaScript object, as PM2 prints it.
    Prettylist(Later<JlistArgs>),
    /// Show everything about an app.
    #[command(visible_aliases = ["desc", "info", "show"])]
    Describe(Later<DescribeArgs>),
    /// Show where event loops stood still, and what that cost.
    Stalls(Later<StallsArgs>),
    /// Show what happened to apps that nobody asked for, such as crashes.
    Events(Later<EventsArgs>),
    /// Say why an app is slow, with the evidence and what to do.
    Doctor(Later<DoctorArgs>),
    /// Let programs that speak the Model Context Protocol look at the apps.
    Mcp(Later<McpArgs>),
    /// Watch and control apps, workers and their output on one screen.
    Monit(Later<MonitArgs>),
    /// Print what is measured of apps, for Prometheus.
    Metrics(Later<MetricsArgs>),
    /// Open the dashboard, a page for the browser.
    #[command(visible_alias = "dash")]
    Dashboard(Later<DashboardArgs>),
    /// Show and follow the output of apps.
    #[command(visible_alias = "log")]
    Logs(Later<LogsArgs>),
    /// Empty the log files of apps.
    Flush(Later<FlushArgs>),
    /// Reopen all log files after another program moved them.
    #[command(name = "reloadLogs", visible_alias = "reload-logs")]
    ReloadLogs(Later<ReloadLogsArgs>),
    /// Send a signal to the workers of apps.
    #[command(visible_alias = "sendSignal")]
    Signal(Later<SignalArgs>),
    /// Perform an action that an app has registered with `@pm2/io`.
    Trigger(Later<TriggerArgs>),
    /// Write a line to the stdin of an app's workers.
    Send(Later<SendArgs>),
    /// Write to a worker's stdin and see its output, line by line.
    Attach(Later<AttachArgs>),
    /// Set the restart counters of apps to zero.
    Reset(Later<TargetArgs>),
    /// Check whether the daemon is running.
    Ping(Later<PingArgs>),
    /// Stop all apps and end the daemon.
    #[command(after_help = KILL_EXAMPLES)]
    Kill(Later<KillArgs>),
    /// Replace a running daemon by this version of Forkful, with the same apps.
    #[command(alias = "updatePM2")]
    Update(Later<UpdateArgs>),
    /// Run apps in the foreground: for containers, systemd and development.
    Run(Later<RunArgs>),
    /// Serve the files of a directory over HTTP.
    #[command(visible_alias = "expose")]
    Serve(Later<ServeArgs>),
    /// Load-test a server and check whether the results are reliable.
    Bench(Later<BenchArgs>),
    /// Compare two setups by load test, such as one process and a cluster.
    Compare(Later<CompareArgs>),
    /// Find the best number of workers and thread-pool size by measurement.
    Tune(Later<TuneArgs>),
    /// Reproduce a published Node.js multi-core benchmark.
    Experiment(Later<ExperimentArgs>),
    /// Save a copy of the app list that `resurrect --saved` restores.
    #[command(visible_alias = "dump")]
    Save(Later<SaveArgs>),
    /// Start saved apps that are not running.
    Resurrect(Later<ResurrectArgs>),
    /// Delete the saved app list.
    Cleardump(Later<ClearArgs>),
    /// Import the apps of PM2.
    Import(Later<ImportArgs>),
    /// Start the daemon and its apps at boot.
    Startup(Later<StartupArgs>),
    /// Do not start the daemon at boot any more.
    Unstartup(Later<StartupArgs>),
    /// Change a setting.
    Set(Later<SetArgs>),
    /// Change several settings.
    Multiset(Later<MultisetArgs>),
    /// Show settings.
    Get(Later<GetArgs>),
    /// Remove a setting.
    Unset(Later<UnsetArgs>),
    /// Show or change a setting.
    #[command(visible_alias = "config")]
    Conf(Later<ConfArgs>),
    /// Write a first config file.
    #[command(visible_alias = "ecosystem")]
    Init(Later<InitArgs>),
    /// Check a config and show the resolved apps.
    Validate(Later<ValidateArgs>),
    /// Print what other schedulers need to run apps: Kubernetes, Compose, systemd, Nomad, Podman.
    Export(Later<ExportArgs>),
    /// Deploy an app to other machines by SSH and Git.
    Deploy(Later<DeployArgs>),
    /// Print the ids of the workers of apps.
    Id(Later<IdArgs>),
    /// Print the process ids of the workers of apps, or the daemon's.
    Pid(Later<PidArgs>),
    /// Show the environment of the workers of apps.
    Env(Later<EnvArgs>),
    /// Print the facts that a bug report needs.
    Report(Later<ReportArgs>),
    /// Print the completion script of a shell.
    Completion(Later<CompletionArgs>),
    /// Print what may come next on a command line; completion scripts call this.
    #[command(hide = true)]
    Complete(Later<CompleteArgs>),
    /// Write the man pages of all commands into a folder; packages are built with it.
    #[command(hide = true)]
    Man(Later<ManArgs>),
    /// Help other programs to use the daemon's socket.
    #[command(hide = true)]
    Api(Later<ApiArgs>),
    /// Be the app of `serve`; reads PM2's variables `PM2_SERVE_*`.
    #[command(name = "serve-files", hide = true)]
    ServeFiles,
    /// Be what ends the apps of a `run` that is killed.
    #[command(hide = true)]
    Guard(Later<GuardArgs>),
    /// Be the daemon; the other commands start it when they need it.
    #[command(hide = true)]
    Daemon(Later<DaemonArgs>),
}

const KILL_EXAMPLES: &str = "\
Examples:
  forkful kill          also ends a daemon of another version";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful list
  forkful ls --sort memory:desc
  forkful ls --watch                 until q or Ctrl-C
  forkful ls --json | jq '.apps[].workers | length'")]
pub(crate) struct ListArgs {
    /// Sort the rows by id, name, namespace, pid, cpu, memory, uptime, status or restarts; `:desc` reverses the order.
    #[arg(long, value_name = "FIELD[:desc]", default_value = "id", hide_default_value = true)]
    pub(crate) sort: Sort,
    /// Refresh every second; a pipe gets one table after the other.
    #[arg(long)]
    pub(crate) watch: bool,
    /// Compact table without borders.
    #[arg(long, short)]
    pub(crate) mini_list: bool,
    /// Print JSON.
    #[arg(long, conflicts_with_all = ["sort", "watch", "mini_list"])]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Nothing is done to an app before you say yes. `?` shows the keys, `q` ends; the apps run on.

Examples:
  forkful monit
  ssh -t server forkful monit")]
pub(crate) struct MonitArgs {}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful describe api
  forkful show 3 --json
  forkful describe api --show-env      with the names of all environment variables")]
pub(crate) struct DescribeArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, `all`, or config files.
    #[arg(required = true, value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
    /// Show the names of all environment variables.
    #[arg(long, conflicts_with = "json")]
    pub(crate) show_env: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
An event loop that stands still serves nobody. Stalls of `stall_threshold` (50ms) or more are grouped by
route and function; those come first that cost the most time of the loop and of requests that waited.

Examples:
  forkful stalls
  forkful stalls api
  forkful stalls api --json | jq '.apps[0].recent'")]
pub(crate) struct StallsArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, or config files; by default `all`.
    #[arg(value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful ping || echo no daemon")]
pub(crate) struct PingArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct KillArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Default, Args)]
#[command(after_help = "\
For after an installation of a new version. With a keeper the apps go on meanwhile, and a version that
cannot go on with them gives way to the one before: docs/UPDATE.md. Without a keeper they are stopped and
started again.

Examples:
  npm install -g forkful && forkful update")]
pub(crate) struct UpdateArgs {
    /// The program to update to, instead of this one.
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) to: Option<std::path::PathBuf>,
    /// Return at once instead of when the apps are ready.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful completion bash > ~/.local/share/bash-completion/completions/forkful
  forkful completion zsh  > ~/.zfunc/_forkful
  forkful completion fish > ~/.config/fish/completions/forkful.fish")]
pub(crate) struct CompletionArgs {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: CompletionShell,
}

#[derive(Debug, Args)]
pub(crate) struct CompleteArgs {
    /// The words after the program's name, up to the cursor.
    #[arg(last = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum CompletionShell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The folder; it is made when it does not exist.
    pub(crate) folder: std::path::PathBuf,
}

#[derive(Debug, Default, Args)]
pub(crate) struct DaemonArgs {
    /// Descriptor of the pipe on which readiness, or why there is none, is told.
    #[arg(long, value_name = "FD")]
    pub(crate) ready_fd: Option<i32>,
    /// Start what was saved; for service managers, which are told when that is done.
    #[arg(long)]
    pub(crate) resurrect: bool,
    /// Become the daemon itself, without a keeper above it that starts it again when it dies and hands its apps to the new
    /// one. `FORKFUL_KEEPER=0` does the same, also for the daemon that other commands start.
    #[arg(long)]
    pub(crate) no_keeper: bool,
    /// Descriptor of the way to the keeper; the keeper sets it.
    #[arg(long, value_name = "FD", hide = true)]
    pub(crate) keeper_fd: Option<i32>,
    /// Descriptor of what a keeper of another version leaves to this one; that keeper sets it.
    #[arg(long, value_name = "FD", hide = true)]
    pub(crate) passage: Option<i32>,
    /// Say whether this version can go on from what a daemon has written down, in the file of this descriptor.
    #[arg(long, value_name = "FD", hide = true)]
    pub(crate) check_state: Option<i32>,
    /// The format up to which that daemon can read what this version writes down.
    #[arg(long, value_name = "VERSION", default_value_t = 0, hide = true)]
    pub(crate) way_back: u16,
}

pub(crate) fn duration(text: &str) -> Result<std::time::Duration, String> {
    forkful_config::parse_duration(text)
        .ok_or_else(|| "expected milliseconds, or a string such as 500ms, 10s, 2m or 1h".to_owned())
}
