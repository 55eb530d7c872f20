//! The table of commands, and one file per command: its options, and what it does. Each gets its options and the
//! home, and returns the exit code.

mod act;
mod api;
mod apply;
mod attach;
mod bench;
mod cleardump;
mod compare;
mod complete;
mod completion;
mod daemon;
mod dashboard;
mod deploy;
mod describe;
mod doctor;
mod env;
mod events;
mod experiment;
mod export;
mod heap;
mod id;
mod import;
mod init;
mod interrupts;
mod jlist;
mod kill;
mod lab;
mod list;
mod logs;
mod man;
mod mcp;
mod metrics;
mod monit;
mod pid;
mod ping;
mod profile_file;
mod profiled;
mod report;
mod restart;
mod resurrect;
mod run;
mod save;
mod scale;
mod send;
mod serve;
mod settings;
mod signal;
mod stalls;
mod start;
mod startup;
mod targets;
mod trigger;
mod tune;
mod unsaved;
mod update;
mod validate;

use std::pin::Pin;

use clap::Subcommand;

use crate::cli::overview::Group;
use crate::cli::{Cli, Later, TableArgs};
use crate::exit::{Exit, Failure};
use crate::home::{self, Home};

pub(crate) use daemon::is_wanted as daemon_has_keeper;
#[cfg(any(test, forkful_fuzzing))]
pub use mcp::fuzzing::requests as fuzz_mcp;

/// All commands: name and aliases, the line about it in lists, its options.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Start scripts, command lines, config files, or existing apps.
    Start(Later<start::StartArgs>),
    /// Stop apps; they stay in the list.
    Stop(Later<act::TargetArgs>),
    /// Stop apps and start them again.
    #[command(visible_alias = "startOrRestart")]
    Restart(Later<restart::RestartArgs>),
    /// Replace an app's workers one by one without losing a request.
    #[command(visible_alias = "startOrReload", alias = "startOrGracefulReload")]
    Reload(Later<restart::RestartArgs>),
    /// Make the apps match a config file.
    Apply(Later<apply::ApplyArgs>),
    /// Stop apps and remove them from the list.
    #[command(visible_alias = "del")]
    Delete(Later<act::TargetArgs>),
    /// Change the number of an app's workers.
    Scale(Later<scale::ScaleArgs>),
    /// Show all workers.
    #[command(visible_aliases = ["ls", "l", "ps", "status"])]
    List(Later<list::ListArgs>),
    /// Show all workers as JSON in PM2's shape.
    Jlist(Later<jlist::JlistArgs>),
    /// Show all workers as a JavaScript object, as PM2 prints it.
    Prettylist(Later<jlist::JlistArgs>),
    /// Show everything about an app.
    #[command(visible_aliases = ["desc", "info", "show"])]
    Describe(Later<describe::DescribeArgs>),
    /// Show where event loops were blocked, and what it cost.
    Stalls(Later<stalls::StallsArgs>),
    /// Show incidents of apps, such as crashes and failed reloads.
    Events(Later<events::EventsArgs>),
    /// Diagnose why an app is slow, with evidence and what to do.
    Doctor(Later<doctor::DoctorArgs>),
    /// Take a heap snapshot of a worker: what its memory is used for.
    Heap(Later<heap::HeapArgs>),
    /// Serve the apps' state to Model Context Protocol (MCP) clients.
    Mcp(Later<mcp::McpArgs>),
    /// Watch and control apps, workers and their output in the terminal.
    Monit(Later<monit::MonitArgs>),
    /// Print the apps' metrics, for Prometheus.
    Metrics(Later<metrics::MetricsArgs>),
    /// Open the dashboard, a page for the browser.
    #[command(visible_alias = "dash")]
    Dashboard(Later<dashboard::DashboardArgs>),
    /// Show and follow the output of apps.
    #[command(visible_alias = "log")]
    Logs(Later<logs::LogsArgs>),
    /// Empty the log files of apps.
    Flush(Later<act::FlushArgs>),
    /// Reopen all log files after another program moved them.
    #[command(name = "reloadLogs", visible_alias = "reload-logs")]
    ReloadLogs(Later<act::ReloadLogsArgs>),
    /// Send a signal to the workers of apps.
    #[command(visible_alias = "sendSignal")]
    Signal(Later<signal::SignalArgs>),
    /// Run an action that an app has registered with `@pm2/io`.
    Trigger(Later<trigger::TriggerArgs>),
    /// Write a line to the stdin of an app's workers.
    Send(Later<send::SendArgs>),
    /// Write to a worker's stdin and see its output, line by line.
    Attach(Later<attach::AttachArgs>),
    /// Set the restart counters of apps to zero.
    #[command(after_help = "Examples:\n  forkful reset api\n  forkful reset all")]
    Reset(Later<act::TargetArgs>),
    /// Check whether the daemon is running.
    Ping(Later<ping::PingArgs>),
    /// Stop all apps and end the daemon.
    Kill(Later<kill::KillArgs>),
    /// Replace a running daemon by this version of Forkful, with the same apps.
    #[command(alias = "updatePM2")]
    Update(Later<update::UpdateArgs>),
    /// Run apps in the foreground: for containers, systemd and development.
    Run(Later<run::RunArgs>),
    /// Serve the files of a directory over HTTP.
    #[command(visible_alias = "expose")]
    Serve(Later<serve::ServeArgs>),
    /// Load-test a server and check whether the results are reliable.
    Bench(Later<bench::BenchArgs>),
    /// Compare two setups by load test, such as one process and a cluster.
    Compare(Later<compare::CompareArgs>),
    /// Find the best number of workers and thread-pool size by measurement.
    Tune(Later<tune::TuneArgs>),
    /// Reproduce a published Node.js multi-core benchmark.
    Experiment(Later<experiment::ExperimentArgs>),
    /// Save a copy of the app list that `resurrect --saved` restores.
    #[command(visible_alias = "dump")]
    Save(Later<save::SaveArgs>),
    /// Start saved apps that are not running.
    Resurrect(Later<resurrect::ResurrectArgs>),
    /// Delete the saved app list.
    Cleardump(Later<cleardump::ClearArgs>),
    /// Import the apps of PM2.
    Import(Later<import::ImportArgs>),
    /// Start the daemon and its apps at boot.
    Startup(Later<startup::StartupArgs>),
    /// Stop starting the daemon at boot.
    #[command(after_help = "Examples:\n  forkful unstartup\n  forkful unstartup --system")]
    Unstartup(Later<startup::StartupArgs>),
    /// Change a setting.
    Set(Later<settings::SetArgs>),
    /// Change several settings.
    Multiset(Later<settings::MultisetArgs>),
    /// Show settings.
    Get(Later<settings::GetArgs>),
    /// Remove a setting.
    Unset(Later<settings::UnsetArgs>),
    /// Show or change a setting.
    #[command(visible_alias = "config")]
    Conf(Later<settings::ConfArgs>),
    /// Write an initial config file.
    #[command(visible_alias = "ecosystem")]
    Init(Later<init::InitArgs>),
    /// Check a config and show the resolved apps.
    Validate(Later<validate::ValidateArgs>),
    /// Print manifests for Kubernetes, Compose, systemd, Nomad or Podman.
    Export(Later<export::ExportArgs>),
    /// Deploy an app to other machines by SSH and Git.
    Deploy(Later<deploy::DeployArgs>),
    /// Print the ids of the workers of apps.
    Id(Later<id::IdArgs>),
    /// Print the process ids of the workers of apps, or the daemon's.
    Pid(Later<pid::PidArgs>),
    /// Show the environment of the workers of apps.
    Env(Later<env::EnvArgs>),
    /// Print the facts that a bug report needs.
    Report(Later<report::ReportArgs>),
    /// Print the completion script of a shell.
    Completion(Later<completion::CompletionArgs>),
    /// Print the candidates for the next word; called by completion scripts.
    #[command(hide = true)]
    Complete(Later<complete::CompleteArgs>),
    /// Write the man pages of all commands to a folder, for building packages.
    #[command(hide = true)]
    Man(Later<man::ManArgs>),
    /// Helpers for programs that use the daemon's socket.
    #[command(hide = true)]
    Api(Later<api::ApiArgs>),
    /// The app of `serve`; reads PM2's variables `PM2_SERVE_*`.
    #[command(name = "serve-files", hide = true)]
    ServeFiles,
    /// Stops the apps of a `run` that is killed.
    #[command(hide = true)]
    Guard(Later<run::GuardArgs>),
    /// Run the daemon; the other commands start it when they need it.
    #[command(hide = true)]
    Daemon(Later<daemon::DaemonArgs>),
}

/// The groups of `forkful --help`; every visible command is in one of them.
pub(crate) const GROUPS: [Group; 5] = [
    Group {
        heading: "Apps",
        commands: &["start", "stop", "restart", "reload", "scale", "delete", "run"],
        more: &["apply", "deploy", "serve", "signal", "trigger", "send", "attach", "reset"],
    },
    Group {
        heading: "Logs and status",
        commands: &["list", "describe", "monit", "logs"],
        more: &[
            "dashboard",
            "events",
            "stalls",
            "metrics",
            "mcp",
            "flush",
            "env",
            "id",
            "pid",
            "ping",
            "report",
        ],
    },
    Group {
        heading: "Measure",
        commands: &["doctor", "bench", "compare", "tune"],
        more: &["experiment", "heap"],
    },
    Group {
        heading: "Setup",
        commands: &["init", "validate", "startup", "import"],
        more: &[
            "completion",
            "export",
            "unstartup",
            "save",
            "resurrect",
            "cleardump",
            "set",
            "get",
            "unset",
            "update",
            "kill",
        ],
    },
    Group {
        heading: "PM2 compatibility",
        commands: &[],
        more: &["jlist", "prettylist", "multiset", "conf", "reloadLogs"],
    },
];

impl CliCommand {
    /// The display options of commands that print the table at the end.
    pub(crate) fn table(&self) -> Option<&TableArgs> {
        match self {
            Self::Start(args) => Some(&args.table),
            Self::Restart(args) | Self::Reload(args) => Some(&args.action.table),
            Self::Stop(args) | Self::Delete(args) | Self::Reset(args) => Some(&args.action.table),
            Self::Scale(args) => Some(&args.action.table),
            Self::Apply(args) => Some(&args.table),
            _ => None,
        }
    }
}

/// Becomes the keeper, if the command line requests exactly that.
pub(crate) fn keeper() -> Option<Result<Exit, Failure>> {
    daemon::keeper_line(std::env::args_os().skip(1))
        .filter(|_| daemon::is_wanted())
        .map(|args| daemon::run(&args))
}

/// Performs the command.
pub(crate) fn dispatch(cli: Cli) -> Result<Exit, Failure> {
    match cli.verb {
        CliCommand::Completion(args) => completion::run(&args),
        CliCommand::Man(args) => man::run(&args),
        CliCommand::Init(args) => init::run(&args),
        CliCommand::Deploy(args) => deploy::run(&args),
        CliCommand::Validate(args) => validate::run(&args),
        CliCommand::Export(args) => export::run(&args),
        CliCommand::Unstartup(args) => startup::remove(&home::locate()?, &args),
        CliCommand::Run(args) => run::run(&args),
        CliCommand::Start(args) if args.no_daemon => run::foreground(&args.app),
        CliCommand::Bench(args) => bench::run_bench(&args),
        CliCommand::Compare(args) => compare::run(&args),
        CliCommand::Tune(args) => tune::run(&args),
        CliCommand::Experiment(args) => experiment::run(&args),
        CliCommand::ServeFiles => serve::files(),
        CliCommand::Guard(args) => run::guard(&args),
        CliCommand::Get(args) => settings::get(&home::locate()?, &args),
        CliCommand::Unset(args) => settings::unset(&home::locate()?, &args),
        CliCommand::Daemon(args) => daemon::run(&args),
        CliCommand::Start(args) => connected(async |home| start::run(&home, &args).await),
        CliCommand::Stop(args) => on_targets(args.into_inner(), act::STOP),
        CliCommand::Restart(args) => connected(async |home| restart::run(&home, &args, act::RESTART).await),
        CliCommand::Reload(args) => connected(async |home| restart::run(&home, &args, act::RELOAD).await),
        CliCommand::Apply(args) => connected(async |home| apply::run(&home, &args).await),
        CliCommand::Delete(args) => on_targets(args.into_inner(), act::DELETE),
        CliCommand::Scale(args) => connected(async |home| scale::run(&home, args.into_inner()).await),
        CliCommand::Complete(args) => on_runtime(async |home| complete::run(&home, &args).await),
        CliCommand::List(args) => connected(async |home| list::run(&home, &args).await),
        CliCommand::Jlist(args) => connected(async |home| jlist::run(&home, &args).await),
        CliCommand::Prettylist(args) => connected(async |home| jlist::pretty(&home, &args).await),
        CliCommand::Trigger(args) => connected(async |home| trigger::run(&home, args.into_inner()).await),
        CliCommand::Send(args) => connected(async |home| send::run(&home, args.into_inner()).await),
        CliCommand::Attach(args) => connected(async |home| attach::run(&home, args.into_inner()).await),
        CliCommand::Api(args) => on_runtime(async |home| api::run(&home, &args).await),
        CliCommand::Describe(args) => connected(async |home| describe::run(&home, &args).await),
        CliCommand::Stalls(args) => connected(async |home| stalls::run(&home, args.into_inner()).await),
        CliCommand::Events(args) => connected(async |home| events::run(&home, args.into_inner()).await),
        CliCommand::Doctor(args) => connected(async |home| doctor::run(&home, &args).await),
        CliCommand::Heap(args) => connected(async |home| heap::run(&home, &args).await),
        CliCommand::Mcp(args) => on_runtime(async |home| mcp::run(&home, &args).await),
        CliCommand::Monit(args) => connected(async |home| monit::run(home, &args).await),
        CliCommand::Metrics(args) => connected(async |home| metrics::run(home, &args).await),
        CliCommand::Dashboard(args) => connected(async |home| dashboard::run(&home, &args).await),
        CliCommand::Logs(args) => connected(async |home| logs::run(&home, &args).await),
        CliCommand::Flush(args) => connected(async |home| act::flush(&home, args.into_inner()).await),
        CliCommand::ReloadLogs(args) => connected(async |home| act::reload_logs(&home, args.json).await),
        CliCommand::Signal(args) => connected(async |home| signal::run(&home, args.into_inner()).await),
        CliCommand::Reset(args) => on_targets(args.into_inner(), act::RESET),
        CliCommand::Id(args) => connected(async |home| id::run(&home, &args).await),
        CliCommand::Pid(args) => connected(async |home| pid::run(&home, &args).await),
        CliCommand::Env(args) => connected(async |home| env::run(&home, &args).await),
        CliCommand::Report(_) => connected(async |home| report::run(&home).await),
        CliCommand::Startup(args) => connected(async |home| startup::run(&home, &args).await),
        CliCommand::Save(args) => connected(async |home| save::run(&home, &args).await),
        CliCommand::Resurrect(args) => connected(async |home| resurrect::run(&home, &args).await),
        CliCommand::Cleardump(args) => connected(async |home| cleardump::run(&home, &args).await),
        CliCommand::Import(args) => connected(async |home| import::run(&home, &args).await),
        CliCommand::Serve(args) => connected(async |home| serve::run(&home, &args).await),
        CliCommand::Set(args) => connected(async |home| settings::set(&home, args.into_inner()).await),
        CliCommand::Multiset(args) => connected(async |home| settings::multiset(&home, &args).await),
        CliCommand::Conf(args) => connected(async |home| settings::conf(&home, args.into_inner()).await),
        CliCommand::Ping(args) => on_runtime(async |home| ping::run(&home, &args).await),
        CliCommand::Kill(args) => on_runtime(async |home| kill::run(&home, &args).await),
        CliCommand::Update(args) => on_runtime(async |home| update::run(&home, &args).await),
    }
}

/// Performs an action on the named apps.
fn on_targets(args: act::TargetArgs, words: act::Words<'_>) -> Result<Exit, Failure> {
    connected(async |home| act::on_targets(&home, args, words).await)
}

/// Runs a command that uses the daemon, after offering to update an older daemon.
fn connected(run: impl AsyncFnOnce(Home) -> Result<Exit, Failure>) -> Result<Exit, Failure> {
    on_runtime(async |home| {
        update::offer(&home).await?;
        run(home).await
    })
}

/// Runs a future on a single-threaded runtime, which takes microseconds to create.
fn on_runtime(run: impl AsyncFnOnce(Home) -> Result<Exit, Failure>) -> Result<Exit, Failure> {
    let home = home::locate()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = runtime.map_err(|e| Failure::caused(Exit::Failed, e.into()))?;
    // A trait object, so that the runtime's code is not duplicated for each command.
    let future: Pin<Box<dyn Future<Output = Result<Exit, Failure>>>> = Box::pin(run(home));
    runtime.block_on(future)
}
