//! The command line as clap parses it: options, their spelling and help texts. `commands` implements them.

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
mod heap;
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
    mod examples;
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
pub(crate) use heap::HeapArgs;
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
    pub(crate) verb: CliCommand,
}

impl Cli {
    /// The display options.
    pub(crate) fn look(&self) -> Look {
        let table = match &self.verb {
            CliCommand::Start(args) => Some(&args.table),
            CliCommand::Restart(args) | CliCommand::Reload(args) => Some(&args.table),
            CliCommand::Stop(args) | CliCommand::Delete(args) | CliCommand::Reset(args) => Some(&args.table),
            CliCommand::Scale(args) => Some(&args.table),
            CliCommand::Apply(args) => Some(&args.table),
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
pub(crate) enum CliCommand {
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
    /// Make the apps match a config file.
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
    /// Show where event loops were blocked, and what it cost.
    Stalls(Later<StallsArgs>),
    /// Show incidents of apps, such as crashes and failed reloads.
    Events(Later<EventsArgs>),
    /// Diagnose why an app is slow, with evidence and what to do.
    Doctor(Later<DoctorArgs>),
    /// Take a heap snapshot of a worker: what its memory is used for.
    Heap(Later<HeapArgs>),
    /// Serve the apps' state to Model Context Protocol (MCP) clients.
    Mcp(Later<McpArgs>),
    /// Watch and control apps, workers and their output in the terminal.
    Monit(Later<MonitArgs>),
    /// Print the apps' metrics, for Prometheus.
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
    /// Run an action that an app has registered with `@pm2/io`.
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
    /// Stop starting the daemon at boot.
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
    /// Write an initial config file.
    #[command(visible_alias = "ecosystem")]
    Init(Later<InitArgs>),
    /// Check a config and show the resolved apps.
    Validate(Later<ValidateArgs>),
    /// Print manifests for Kubernetes, Compose, systemd, Nomad or Podman.
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
    /// Print the candidates for the next word; called by completion scripts.
    #[command(hide = true)]
    Complete(Later<CompleteArgs>),
    /// Write the man pages of all commands to a folder, for building packages.
    #[command(hide = true)]
    Man(Later<ManArgs>),
    /// Helpers for programs that use the daemon's socket.
    #[command(hide = true)]
    Api(Later<ApiArgs>),
    /// The app of `serve`; reads PM2's variables `PM2_SERVE_*`.
    #[command(name = "serve-files", hide = true)]
    ServeFiles,
    /// Stops the apps of a `run` that is killed.
    #[command(hide = true)]
    Guard(Later<GuardArgs>),
    /// Run the daemon; the other commands start it when they need it.
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
Every action on an app asks for confirmation. `?` shows the keys, `q` quits; the apps keep running.

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
A blocked event loop serves no requests. Stalls of `stall_threshold` (50ms) or more are grouped by route and
function. The first groups cost the most time, of the event loop and of waiting requests together.

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
Run it after installing a new version. With a keeper the apps keep running, and a version that cannot
continue with them is rolled back: docs/UPDATE.md. Without a keeper they are stopped and started again.

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
    /// The shell to print the script for.
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
    /// The folder; created if it does not exist.
    pub(crate) folder: std::path::PathBuf,
}

#[derive(Debug, Default, Args)]
pub(crate) struct DaemonArgs {
    /// Descriptor of the pipe for reporting readiness or an error.
    #[arg(long, value_name = "FD")]
    pub(crate) ready_fd: Option<i32>,
    /// Start the saved apps; for service managers, which are notified when this is done.
    #[arg(long)]
    pub(crate) resurrect: bool,
    /// Become the daemon itself, without a keeper. The keeper restarts the daemon when it dies, and hands the
    /// apps over to the new one. `FORKFUL_KEEPER=0` does the same, also for the daemon that other commands
    /// start.
    #[arg(long)]
    pub(crate) no_keeper: bool,
    /// Descriptor of the connection to the keeper; set by the keeper.
    #[arg(long, value_name = "FD", hide = true)]
    pub(crate) keeper_fd: Option<i32>,
    /// Descriptor of the data that a keeper of another version hands over; set by that keeper.
    #[arg(long, value_name = "FD", hide = true)]
    pub(crate) passage: Option<i32>,
    /// Report whether this version can continue from a daemon's saved state, in the file of this descriptor.
    #[arg(long, value_name = "FD", hide = true)]
    pub(crate) check_state: Option<i32>,
    /// The newest state format that that daemon can read.
    #[arg(long, value_name = "VERSION", default_value_t = 0, hide = true)]
    pub(crate) way_back: u16,
}

pub(crate) fn duration(text: &str) -> Result<std::time::Duration, String> {
    forkful_config::parse_duration(text)
        .ok_or_else(|| "expected milliseconds, or a string such as 500ms, 10s, 2m or 1h".to_owned())
}
