//! `forkful id`: the ids of apps' workers, in PM2's format.

use clap::Args;

use super::targets::{client_for, expand, workers};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful id api       [ 0, 2 ]")]
pub(crate) struct IdArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, `all`, or config files.
    #[arg(required = true, value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
}

pub(super) async fn run(home: &Home, args: &IdArgs) -> Result<Exit, Failure> {
    let targets = expand(args.targets.clone(), &[])?;
    let mut client = client_for(home, &targets).await?;
    let workers = workers(&mut client, &targets).await?;
    let ids: Vec<String> = workers.iter().map(|worker| worker.pm_id.to_string()).collect();
    output::print(&format!("[ {} ]\n", ids.join(", ")))?;
    Ok(Exit::Done)
}
