//! `forkful list`: the table of workers. Never starts a daemon: without one there are no apps.

use forkful_api::types::AppList;

use super::act::print_table;
use crate::cli::ListArgs;
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output;

pub(super) async fn run(home: &Home, args: &ListArgs) -> Result<Exit, Failure> {
    let list = apps(home).await?;
    if args.json {
        output::print_json(&list)?;
    } else {
        print_table(&list)?;
    }
    Ok(Exit::Done)
}

/// All apps; none when no daemon is running.
pub(super) async fn apps(home: &Home) -> Result<AppList, Failure> {
    match connection::running(home).await? {
        Some(mut client) => Ok(client.list().await?),
        None => Ok(AppList { apps: Vec::new() }),
    }
}
