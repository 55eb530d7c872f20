//! `forkful jlist` and `prettylist`: all workers in PM2's format, for scripts written for PM2: as JSON, or as
//! printed by `console.log`.

use clap::Args;
use forkful_api::jlist::JlistEntry;

use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output;
use crate::package_version;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful jlist | jq '.[].pm2_env.status'
  forkful jlist --show-env | jq '.[0].pm2_env.env.DATABASE_URL'")]
pub(crate) struct JlistArgs {
    /// Show secrets in the environment too.
    #[arg(long)]
    pub(crate) show_env: bool,
}

pub(super) async fn run(home: &Home, args: &JlistArgs) -> Result<Exit, Failure> {
    let list = entries(home, args.show_env).await?;
    let text = serde_json::to_string(&list).map_err(|e| Failure::caused(Exit::Failed, e.into()))?;
    output::print(&format!("{text}\n"))?;
    Ok(Exit::Done)
}

pub(super) async fn pretty(home: &Home, args: &JlistArgs) -> Result<Exit, Failure> {
    let list = entries(home, args.show_env).await?;
    let value = serde_json::to_value(list).map_err(|e| Failure::caused(Exit::Failed, e.into()))?;
    output::print(&format!("{}\n", output::inspect::inspect(&value)))?;
    Ok(Exit::Done)
}

/// All workers; none if no daemon is running.
async fn entries(home: &Home, show_secrets: bool) -> Result<Vec<JlistEntry>, Failure> {
    let Some(mut client) = connection::running(home).await? else { return Ok(Vec::new()) };
    let mut entries = client.jlist(show_secrets).await?;
    package_version::fill_in(&mut entries);
    Ok(entries)
}
