//! `forkful kill`: stops all apps and the daemon, of any version.

use std::time::Duration;

use clap::Args;
use forkful_api::client::{Client, ClientError};
use forkful_api::types::ActionReply;
use forkful_core::pages::Page;
use forkful_os::identity::LockFile;
use forkful_os::process::Other;

use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::{Home, saved_apps};
use crate::output::format::count;
use crate::output::progress::Progress;
use crate::output::{self, outcome};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful kill          also ends a daemon of another version
  forkful resurrect     starts its apps again")]
pub(crate) struct KillArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How long the daemon's process may take to exit after it reported that all apps are stopped.
const END_TIMEOUT: Duration = Duration::from_secs(10);
const SIGTERM: i32 = 15;

pub(super) async fn run(home: &Home, args: &KillArgs) -> Result<Exit, Failure> {
    let (client, pid) = match connection::of_any_version(home).await {
        Ok((client, ping)) => (client, ping.pid),
        Err(ClientError::NotRunning { .. }) if LockFile::is_held(&home.lock()) => {
            return Err(unreachable(home));
        }
        Err(ClientError::NotRunning { .. }) => {
            let cleared = forkful_daemon::clear_left_behind(home)
                .map_err(|error| Failure::caused(Exit::Failed, error.into()))?;
            let text = match cleared {
                None => "no daemon is running".to_owned(),
                Some(ended) => {
                    let what = forkful_daemon::left_behind_in_words(ended);
                    format!("no daemon is running; the last one did not shut down properly, and {what}")
                }
            };
            tell(args, &ActionReply::default(), &text)?;
            return Ok(Exit::Done);
        }
        Err(error) => return Err(error.into()),
    };
    let reply = end(client, pid).await?;
    tell(args, &reply, "the daemon has stopped")?;
    let saved = saved_apps(home);
    if saved > 0 && !args.json {
        output::note(&format!("`forkful resurrect` starts {} again", count(saved, "app")));
    }
    outcome::tell(&reply);
    Ok(outcome::exit(&reply))
}

/// The failure if a daemon runs and has no socket.
fn unreachable(home: &Home) -> Failure {
    let holder = fs_err::read_to_string(home.lock()).unwrap_or_default();
    let (holder, socket) = (holder.trim(), home.socket());
    Failure::new(Exit::Failed, format!("the daemon (pid {holder}) has no socket {}", socket.display()))
        .hint(format!("`kill {holder}` ends it"))
        .see(Page::Daemon)
}

/// Stops all apps and the daemon; returns when its process and its keeper's are gone.
pub(super) async fn end(mut client: Client, pid: u32) -> Result<ActionReply, Failure> {
    // Another process that reuses its pid is never signalled.
    let process = Other::of(pid).ok();
    let keeper =
        client.ping().await.ok().and_then(|ping| Some((ping.keeper?, Other::of(ping.keeper?).ok()?)));
    let progress = Progress::start("stopping all apps…".to_owned());
    let reply = match (client.kill().await, &process) {
        (Ok(reply), _) => reply,
        // It exited before its reply was written, or its version uses another method.
        (
            Err(ClientError::Lost { .. } | ClientError::Broken { .. } | ClientError::Refused { .. }),
            Some(process),
        ) => {
            // If it is already gone, there is nothing to signal.
            process.signal(SIGTERM).ok();
            ActionReply::default()
        }
        (Err(error), _) => return Err(error.into()),
    };
    if process.is_some_and(|process| !process.ends_within(END_TIMEOUT)) {
        let both = keeper.map(|(keeper, _)| format!("{keeper} ")).unwrap_or_default();
        return Err(Failure::new(Exit::Failed, format!("the daemon (pid {pid}) does not exit"))
            .hint(format!("`kill -9 {both}{pid}`"))
            .see(Page::Daemon));
    }
    if let Some((keeper, _)) = keeper.filter(|(_, process)| !process.ends_within(END_TIMEOUT)) {
        return Err(Failure::new(Exit::Failed, format!("the daemon's keeper (pid {keeper}) does not exit"))
            .hint(format!("`kill -9 {keeper}`"))
            .see(Page::Daemon));
    }
    drop(progress);
    Ok(reply)
}

fn tell(args: &KillArgs, reply: &ActionReply, text: &str) -> Result<(), Failure> {
    if args.json { output::print_json(reply) } else { output::say(&format!("{text}\n")) }
}
