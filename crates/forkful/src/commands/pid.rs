//! `forkful pid`: process ids, one a line, of an app's workers or of the daemon.

use forkful_api::client::ClientError;

use crate::cli::PidArgs;
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output;

pub(super) async fn run(home: &Home, args: &PidArgs) -> Result<Exit, Failure> {
    let client = connection::running(home).await?;
    let Some(target) = &args.target else {
        let Some(mut client) = client else {
            return Err(ClientError::NotRunning { socket: home.socket(), stale: false }.into());
        };
        output::print(&format!("{}\n", client.ping().await?.pid))?;
        return Ok(Exit::Done);
    };
    let Some(mut client) = client else { return Err(Failure::no_such_app(target)) };
    let id: Option<u32> = target.parse().ok();
    let apps = client.describe(target).await?.apps;
    let workers = apps.iter().flat_map(|app| &app.workers);
    let meant = workers.filter(|worker| id.is_none_or(|id| id == worker.pm_id));
    let pids: String = meant.filter_map(|worker| worker.pid).map(|pid| format!("{pid}\n")).collect();
    if pids.is_empty() {
        return Err(Failure::new(Exit::Failed, format!("no worker of `{target}` runs"))
            .hint(format!("`forkful start {target}` starts it")));
    }
    output::print(&pids)?;
    Ok(Exit::Done)
}
