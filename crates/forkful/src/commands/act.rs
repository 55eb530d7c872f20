//! Shared by all commands that act on existing apps: sends the action, waits, prints the results.

use std::time::Duration;

use clap::Args;
use forkful_api::client::Client;
use forkful_api::types::{ActionReply, ActionRequest, AppTable, Verb};
use forkful_core::targets::as_typed;
use forkful_os::wall_clock::now_ms;

use super::targets::{client_for, expand, only_without_config};
use crate::cli::ActionArgs;
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::paint::Paint;
use crate::output::progress::Progress;
use crate::output::table::{self, TableShape};
use crate::output::{self, outcome};
use crate::specs::is_config;

#[derive(Debug, Args)]
#[command(after_help = "\
Targets are names, ids, namespaces, `/patterns/` of names, scripts or `all`; several are allowed. A
config file stands for those of its apps that are there. A name has precedence over an equal
namespace or script.

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
    #[arg(long, value_name = "NAMES")]
    pub(crate) only: Vec<String>,
    /// PM2's users pass it to `stop`; a stopped app is not watched anyway.
    #[arg(long, hide = true)]
    pub(crate) watch: bool,
    /// Accepted for PM2's users; no action needs to be forced.
    #[arg(long, short, hide = true)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) action: ActionArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Rotated files are removed.

Examples:
  forkful flush
  forkful flush api")]
pub(crate) struct FlushArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, or config files; by default all.
    #[arg(value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
    /// Return at once.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
For log files that another program such as logrotate(8) moves. SIGUSR2 to the daemon does the same.
The daemon also detects removed and replaced log files by itself.

Examples:
  forkful reloadLogs")]
pub(crate) struct ReloadLogsArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Workers that stop on their signal have exited by then; after this time a message explains the wait.
const EXPLAIN_AFTER: Duration = Duration::from_secs(1);

/// Actions that wait for workers to exit.
const ENDS_WORKERS: [Verb; 3] = [Verb::Stop, Verb::Restart, Verb::Delete];

/// An action of the API with the forms of its name for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Words<'a> {
    pub(super) verb: Verb,
    pub(super) name: &'a str,
    /// In progress: `stopping`.
    pub(super) doing: &'a str,
    /// Completed: `stopped`.
    pub(super) done: &'a str,
}

const fn words(verb: Verb, name: &'static str, doing: &'static str, done: &'static str) -> Words<'static> {
    Words { verb, name, doing, done }
}

/// A restart starts apps that are not running.
pub(super) const START: Words<'_> = words(Verb::Restart, "start", "starting", "started");
pub(super) const STOP: Words<'_> = words(Verb::Stop, "stop", "stopping", "stopped");
pub(super) const RESTART: Words<'_> = words(Verb::Restart, "restart", "restarting", "restarted");
pub(super) const RELOAD: Words<'_> = words(Verb::Reload, "reload", "reloading", "reloaded");
pub(super) const DELETE: Words<'_> = words(Verb::Delete, "delete", "deleting", "deleted");
pub(super) const SCALE: Words<'_> = words(Verb::Scale, "scale", "scaling", "scaled");
pub(super) const SIGNAL: Words<'_> = words(Verb::Signal, "signal", "signalling", "signalled");
pub(super) const RESET: Words<'_> = words(Verb::Reset, "reset", "resetting", "restart counters reset");
pub(super) const FLUSH: Words<'_> = words(Verb::Flush, "flush", "emptying the logs of", "logs emptied");
pub(super) const RELOAD_LOGS: Words<'_> =
    words(Verb::ReloadLogs, "reloadLogs", "reopening the logs of", "logs reopened");

/// What a start has done of a new app whose `autostart` is off.
pub(super) const ADDED: &str = "added, not started";

impl<'a> Words<'a> {
    /// The form for a command that waited, or did not.
    pub(super) fn so_far(self, no_wait: bool) -> &'a str {
        if no_wait { self.doing } else { self.done }
    }
}

/// `stop`, `delete`, `reset`: actions without special options.
pub(super) async fn on_targets(home: &Home, args: TargetArgs, words: Words<'_>) -> Result<Exit, Failure> {
    let (configs, named): (Vec<String>, Vec<String>) =
        args.targets.into_iter().partition(|target| is_config(target));
    if configs.is_empty() && !args.only.is_empty() {
        return Err(only_without_config());
    }
    let of_files = if configs.is_empty() { Vec::new() } else { expand(configs, &args.only)? };
    let request =
        ActionRequest { optional_targets: of_files, ..request(expand(named, &[])?, args.action.no_wait) };
    act(home, words, request, args.action.json).await
}

/// `reloadLogs`: all log files of all apps.
pub(super) async fn reload_logs(home: &Home, is_json: bool) -> Result<Exit, Failure> {
    act(home, RELOAD_LOGS, request(vec!["all".to_owned()], false), is_json).await
}

/// `flush`: empties the log files of the named apps, or of all apps.
pub(super) async fn flush(home: &Home, args: FlushArgs) -> Result<Exit, Failure> {
    let targets = if args.targets.is_empty() { vec!["all".to_owned()] } else { args.targets };
    act(home, FLUSH, request(expand(targets, &[])?, args.no_wait), args.json).await
}

/// A request without special options.
pub(super) fn request(targets: Vec<String>, no_wait: bool) -> ActionRequest {
    ActionRequest { targets, wait: !no_wait, ..ActionRequest::default() }
}

/// Sends an action to the running daemon. Without a daemon there are no apps.
pub(super) async fn act(
    home: &Home,
    words: Words<'_>,
    request: ActionRequest,
    json: bool,
) -> Result<Exit, Failure> {
    let targets = [request.targets.as_slice(), request.optional_targets.as_slice()].concat();
    let mut client = client_for(home, &targets).await?;
    let typed: Vec<&str> = targets.iter().map(|target| as_typed(target)).collect();
    let doing = format!("{} {}…", words.doing, typed.join(", "));
    let reply = {
        let progress = Progress::start(doing.clone());
        let mut action = std::pin::pin!(client.action(words.verb, &request));
        loop {
            tokio::select! {
                reply = &mut action => break reply,
                () = tokio::time::sleep(EXPLAIN_AFTER), if ENDS_WORKERS.contains(&words.verb) => progress.say(
                    format!("{doing} waiting for workers to stop; workers that ignore the signal are killed (`kill_timeout`)")
                ),
            }
        }
    };
    let reply = reply.map_err(|error| connection::refused_for(error, &client, &targets))?;
    reply.warnings.iter().for_each(|missing| output::note(missing));
    tell(&mut client, vec![(words.so_far(!request.wait), reply)], json).await
}

/// Prints the results, grouped by action, then the current table unless every app failed.
pub(super) async fn tell(
    client: &mut Client,
    groups: Vec<(&str, ActionReply)>,
    json: bool,
) -> Result<Exit, Failure> {
    let lines: String =
        groups.iter().map(|(done, reply)| outcome::done_lines(reply, done, Paint::stdout())).collect();
    let reply = ActionReply::of(groups.into_iter().flat_map(|(_, reply)| reply.apps).collect());
    if json {
        output::print_json(&reply)?;
    } else {
        output::say(&lines)?;
        // If everything failed, the cause should be the first output.
        if reply.apps.is_empty() || reply.apps.iter().any(|app| app.ok) {
            print_table(&client.table().await?)?;
        }
    }
    outcome::tell(&reply);
    Ok(outcome::exit(&reply))
}

/// The same, then follows the output of these workers if requested.
pub(super) async fn tell_and_attach(
    home: &Home,
    client: &mut Client,
    groups: Vec<(&str, ActionReply)>,
    how: Told,
) -> Result<Exit, Failure> {
    let ids = groups.iter().flat_map(|(_, reply)| &reply.apps).flat_map(|app| &app.pm_ids);
    let workers: Vec<String> = ids.map(ToString::to_string).collect();
    match tell(client, groups, how.json).await? {
        Exit::Done if how.attach => super::logs::follow(home, workers).await,
        exit => Ok(exit),
    }
}

/// How to print the results.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told {
    /// As JSON.
    pub(super) json: bool,
    /// Then follow the output.
    pub(super) attach: bool,
}

/// The table of workers, as wide as the terminal.
pub(super) fn print_table(list: &AppTable) -> Result<(), Failure> {
    output::say(&table::workers(list, now_ms(), &TableShape::stdout()))
}
