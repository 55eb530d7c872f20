//! `forkful pid`: process ids, one per line, of apps' workers or of the daemon.

use clap::Args;
use forkful_api::client::ClientError;
use forkful_core::words::shell_word;

use super::targets::{client_for, expand, workers};
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful pid api
  kill -USR2 $(forkful pid 3)")]
pub(crate) struct PidArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, `all`, or config files; by default
    /// the daemon's own process id is printed.
    #[arg(value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
}

pub(super) async fn run(home: &Home, args: &PidArgs) -> Result<Exit, Failure> {
    if args.targets.is_empty() {
        let Some(mut client) = connection::running(home).await? else {
            return Err(ClientError::NotRunning { socket: home.socket(), stale: false }.into());
        };
        output::print(&format!("{}\n", client.ping().await?.pid))?;
        return Ok(Exit::Done);
    }
    let targets = expand(args.targets.clone(), &[])?;
    let mut client = client_for(home, &targets).await?;
    let workers = workers(&mut client, &targets).await?;
    let pids: String = workers.iter().filter_map(|worker| worker.pid).map(|pid| format!("{pid}\n")).collect();
    if pids.is_empty() {
        let target = args.targets.join(", ");
        let words: Vec<_> = args.targets.iter().map(|target| shell_word(target)).collect();
        return Err(Failure::new(Exit::Failed, format!("no worker of `{target}` runs"))
            .hint(format!("`forkful start {}` starts it", words.join(" "))));
    }
    output::print(&pids)?;
    Ok(Exit::Done)
}
