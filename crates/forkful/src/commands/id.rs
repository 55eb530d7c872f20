//! `forkful id`: the ids of an app's workers, as PM2 prints them.

use crate::cli::IdArgs;
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output;

pub(super) async fn run(home: &Home, args: &IdArgs) -> Result<Exit, Failure> {
    let Some(mut client) = connection::running(home).await? else {
        return Err(Failure::no_such_app(&args.target));
    };
    let apps = client.describe(&args.target).await?.apps;
    let ids: Vec<String> =
        apps.iter().flat_map(|app| &app.workers).map(|worker| worker.pm_id.to_string()).collect();
    output::print(&format!("[ {} ]\n", ids.join(", ")))?;
    Ok(Exit::Done)
}
