//! `forkful id`: the ids of apps' workers, in PM2's format.

use super::targets::{client_for, expand, workers};
use crate::cli::IdArgs;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output;

pub(super) async fn run(home: &Home, args: &IdArgs) -> Result<Exit, Failure> {
    let targets = expand(home, args.targets.clone(), &[]).await?;
    let mut client = client_for(home, &targets).await?;
    let workers = workers(&mut client, &targets).await?;
    let ids: Vec<String> = workers.iter().map(|worker| worker.pm_id.to_string()).collect();
    output::print(&format!("[ {} ]\n", ids.join(", ")))?;
    Ok(Exit::Done)
}
