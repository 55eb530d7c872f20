//! The command line as clap sees it, and nothing else: what options there are, how they are spelled
//! and what `--help` says. What they do is in `commands`.

mod app;
mod lifecycle;
mod logs;

use clap::{Args, Parser, Subcommand};

pub(crate) use app::{AppArgs, LogFileArgs, ReadyArgs, RestartPolicyArgs, RunArgs, StartArgs, StopArgs};
pub(crate) use lifecycle::{RestartArgs, ScaleArgs, SignalArgs, TargetArgs};
pub(crate) use logs::LogsArgs;

use crate::exit::EXIT_CODES_HELP;

const EXAMPLES: &str = "\
Examples:
  forkful start app.js -i max        one worker per core, one port, restarts
  forkful list                       the table of workers
  forkful logs api                   follow the output
  forkful reload api                 new code without a lost request
  forkful delete all && forkful kill stop everything";

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
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Start apps: scripts, command lines, config files, or stopped apps by name.
    Start(Box<StartArgs>),
    /// Stop apps; they stay in the list.
    Stop(TargetArgs),
    /// Stop apps and start them again.
    Restart(RestartArgs),
    /// Replace an app's workers one by one, without losing a request.
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
    #[command(after_help = JLIST_EXAMPLES)]
    Jlist,
    /// Show everything about an app.
    #[command(visible_aliases = ["desc", "info", "show"])]
    Describe(DescribeArgs),
    /// Show and follow the output of apps.
    #[command(visible_alias = "log")]
    Logs(LogsArgs),
    /// Empty the log files of apps.
    Flush(TargetArgs),
    /// Send a signal to the workers of apps.
    #[command(visible_alias = "sendSignal")]
    Signal(SignalArgs),
    /// Set the restart counters of apps to zero.
    Reset(TargetArgs),
    /// Ask whether the daemon is there.
    Ping(PingArgs),
    /// Stop all apps and end the daemon.
    #[command(after_help = KILL_EXAMPLES)]
    Kill(KillArgs),
    /// Run apps in the foreground, without a daemon: for containers, systemd and development.
    Run(Box<RunArgs>),
    /// Print the completion script of a shell.
    Completion(CompletionArgs),
    /// Be the daemon; the other commands start it when they need it.
    #[command(hide = true)]
    Daemon(DaemonArgs),
}

const JLIST_EXAMPLES: &str = "\
Examples:
  forkful jlist | jq '.[].pm2_env.status'";

const KILL_EXAMPLES: &str = "\
Examples:
  forkful kill          also ends a daemon of another version";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful list
  forkful ls --json | jq '.apps[].workers | length'")]
pub(crate) struct ListArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful describe api
  forkful show 3 --json")]
pub(crate) struct DescribeArgs {
    /// Names or ids of apps, or `all`.
    #[arg(required = true, value_name = "APP")]
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
}
