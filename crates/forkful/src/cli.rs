//! The command line as clap sees it, and nothing else: what options there are, how they are spelled
//! and what `--help` says. What they do is in `commands`.

mod app;
mod bench;
mod config;
mod deploy;
mod experiment;
pub(crate) mod gone;
mod inspect;
mod keep;
mod lab;
mod lifecycle;
mod logs;
mod look;
mod serve;
mod settings;
mod upkeep;

use clap::{Args, Parser, Subcommand};

pub(crate) use app::{
    AppArgs, AppOptionArgs, GuardArgs, LogFileArgs, ReadyArgs, RestartPolicyArgs, RunArgs, StartArgs,
    StopArgs,
};
pub(crate) use bench::{BenchArgs, BenchOutputArgs, BenchRequestArgs, typed_load_options};
pub(crate) use config::{EnvArgs, IdArgs, InitArgs, InitKind, PidArgs, ReportArgs, ValidateArgs};
pub(crate) use deploy::DeployArgs;
pub(crate) use experiment::ExperimentArgs;
pub(crate) use inspect::{ApiArgs, ApiVerb, AttachArgs, JlistArgs, SendArgs, TriggerArgs};
pub(crate) use keep::{
    ClearArgs, ImportArgs, ImportFrom, ImportPm2Args, Platform, ResurrectArgs, SaveArgs, StartupArgs,
};
pub(crate) use lab::{CompareArgs, LabAppArgs, LabArgs, RequestArgs, TuneArgs};
pub(crate) use lifecycle::{RestartArgs, ScaleArgs, SignalArgs, TargetArgs};
pub(crate) use logs::{FlushArgs, LogsArgs, ReloadLogsArgs};
use look::LookArgs;
pub(crate) use serve::ServeArgs;
pub(crate) use settings::{ConfArgs, GetArgs, MultisetArgs, SetArgs, UnsetArgs};
pub(crate) use upkeep::{GroupArgs, LogShapeArgs, RenewalArgs};

use crate::exit::EXIT_CODES_HELP;
use crate::output::look::Look;
use crate::output::table::Sort;

const EXAMPLES: &str = "\
Examples:
  forkful start app.js -i max        one worker per core, one port, restarts
  forkful list                       the table of workers
  forkful logs api                   follow the output
  forkful reload api                 new code without a lost request
  forkful delete all && forkful kill stop everything

With each command: `--silent` (`-s`) says nothing but errors and what was asked for, `--no-color`
leaves colours out.";

/// Runs a Node.js app on every core, and keeps it up.
#[derive(Debug, Parser)]
#[command(
    name = "forkful",
    bin_name = "forkful",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = format!("{EXAMPLES}\n\n{EXIT_CODES_HELP}\n\nFiles and the daemon's socket are in $FORKFUL_HOME (default ~/.forkful).")
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
    /// Start apps: scripts, command lines, config files, or apps by name.
    Start(Box<StartArgs>),
    /// Stop apps; they stay in the list.
    Stop(TargetArgs),
    /// Stop apps and start them again.
    #[command(visible_alias = "startOrRestart")]
    Restart(RestartArgs),
    /// Replace an app's workers one by one, without losing a request.
    #[command(visible_alias = "startOrReload", alias = "startOrGracefulReload")]
    Reload(RestartArgs),
    /// Stop apps and forget them.
    #[command(visible_alias = "del")]
    Delete(TargetArgs),
    /// Change an app's number of workers.
    Scale(ScaleArgs),
    /// Show all workers.
    #[command(visible_aliases = ["ls", "l", "ps", "status"])]
    List(ListArgs),
    /// Show all workers as JSON in PM2's shape.
    Jlist(JlistArgs),
    /// Show the same as JavaScript would print it.
    Prettylist(JlistArgs),
    /// Show everything about an app.
    #[command(visible_aliases = ["desc", "info", "show"])]
    Describe(DescribeArgs),
    /// Watch apps, workers and their output on one screen; restart, reload and stop them.
    #[command(visible_aliases = ["dash", "dashboard"])]
    Monit(MonitArgs),
    /// Show and follow the output of apps.
    #[command(visible_alias = "log")]
    Logs(LogsArgs),
    /// Empty the log files of apps.
    Flush(FlushArgs),
    /// Open all log files anew, after another program moved them.
    #[command(name = "reloadLogs", visible_alias = "reload-logs")]
    ReloadLogs(ReloadLogsArgs),
    /// Send a signal to the workers of apps.
    #[command(visible_alias = "sendSignal")]
    Signal(SignalArgs),
    /// Perform an action that an app has registered with `@pm2/io`.
    Trigger(TriggerArgs),
    /// Write a line to the stdin of an app's workers.
    Send(SendArgs),
    /// Write to a worker's stdin and see its output, line by line.
    Attach(AttachArgs),
    /// Set the restart counters of apps to zero.
    Reset(TargetArgs),
    /// Ask whether the daemon is there.
    Ping(PingArgs),
    /// Stop all apps and end the daemon.
    #[command(after_help = KILL_EXAMPLES)]
    Kill(KillArgs),
    /// Replace the daemon by one of this program's version, with the same apps.
    #[command(alias = "updatePM2")]
    Update(UpdateArgs),
    /// Run apps in the foreground, without a daemon: for containers, systemd and development.
    Run(Box<RunArgs>),
    /// Serve the files of a directory over HTTP.
    #[command(visible_alias = "expose")]
    Serve(ServeArgs),
    /// Load-test a server and check whether the results are reliable.
    Bench(Box<BenchArgs>),
    /// Compare two setups: one process and a cluster, or anything else.
    Compare(Box<CompareArgs>),
    /// Find the best number of workers and size of the thread pool by measurement.
    Tune(Box<TuneArgs>),
    /// Reproduce a published Node.js multi-core benchmark.
    Experiment(ExperimentArgs),
    /// Save what should run, to come back to it; at every change it is saved by itself.
    #[command(visible_alias = "dump")]
    Save(SaveArgs),
    /// Start what was saved and does not run.
    Resurrect(ResurrectArgs),
    /// Forget what was saved.
    Cleardump(ClearArgs),
    /// Take over the apps of another process manager.
    Import(ImportArgs),
    /// Have the daemon, and the apps that ran, start with the machine.
    Startup(StartupArgs),
    /// The reverse of `startup`.
    Unstartup(StartupArgs),
    /// Keep a setting.
    Set(SetArgs),
    /// Keep several settings.
    Multiset(MultisetArgs),
    /// Show settings.
    Get(GetArgs),
    /// Forget a setting.
    Unset(UnsetArgs),
    /// Show a setting, or keep it.
    #[command(visible_alias = "config")]
    Conf(ConfArgs),
    /// Write a configuration to begin with.
    #[command(visible_alias = "ecosystem")]
    Init(InitArgs),
    /// Say what a configuration comes to, or what is wrong with it.
    Validate(ValidateArgs),
    /// Bring an app to other machines, by ssh and git.
    Deploy(DeployArgs),
    /// Print the ids of the workers of apps.
    Id(IdArgs),
    /// Print the process ids of the workers of apps, or the daemon's.
    Pid(PidArgs),
    /// Show the environment of the workers of apps.
    Env(EnvArgs),
    /// Print what a bug report should hold.
    Report(ReportArgs),
    /// Print the completion script of a shell.
    Completion(CompletionArgs),
    /// Help other programs to use the daemon's socket.
    #[command(hide = true)]
    Api(ApiArgs),
    /// Be the app of `serve`; reads PM2's variables `PM2_SERVE_*`.
    #[command(name = "serve-files", hide = true)]
    ServeFiles,
    /// Be what ends the apps of a `run` that is killed.
    #[command(hide = true)]
    Guard(GuardArgs),
    /// Be the daemon; the other commands start it when they need it.
    #[command(hide = true)]
    Daemon(DaemonArgs),
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
    /// Order of the rows: id, name, namespace, pid, cpu, memory, uptime, status or restarts; `:desc` turns it.
    #[arg(long, value_name = "FIELD[:desc]", default_value = "id", hide_default_value = true)]
    pub(crate) sort: Sort,
    /// Show it anew each second; a pipe gets one table after the other.
    #[arg(long)]
    pub(crate) watch: bool,
    /// Leave the frame out, as in a narrow terminal.
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
  forkful show 3 --json")]
pub(crate) struct DescribeArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, `all`, or config files.
    #[arg(required = true, value_name = "APP|CONFIG")]
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

#[derive(Debug, Args)]
#[command(after_help = "\
For after an installation of a new version. The apps are down meanwhile: their ports belong to the
daemon that ends.

Examples:
  npm install -g forkful && forkful update")]
pub(crate) struct UpdateArgs {
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

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum CompletionShell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Args)]
pub(crate) struct DaemonArgs {
    /// Descriptor of the pipe on which readiness, or why there is none, is told.
    #[arg(long, value_name = "FD")]
    pub(crate) ready_fd: Option<i32>,
    /// Start what was saved; for service managers, which are told when that is done.
    #[arg(long)]
    pub(crate) resurrect: bool,
}
