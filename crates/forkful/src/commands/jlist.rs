//! `forkful jlist`: all workers as JSON in PM2's shape, for scripts that were written for PM2.

use forkful_api::jlist::jlist;

use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output;

pub(super) async fn run(home: &Home) -> Result<Exit, Failure> {
    let list = super::list::apps(home).await?;
    let text = serde_json::to_string(&jlist(&list)).map_err(|e| Failure::caused(Exit::Failed, e.into()))?;
    output::print(&format!("{text}\n"))?;
    Ok(Exit::Done)
}
