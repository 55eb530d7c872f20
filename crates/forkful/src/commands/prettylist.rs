//! `forkful prettylist`: what `jlist` shows, as `console.log` would print it.

use crate::cli::JlistArgs;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output;

pub(super) async fn run(home: &Home, args: &JlistArgs) -> Result<Exit, Failure> {
    let list = super::jlist::entries(home, args.show_env).await?;
    let value = serde_json::to_value(list).map_err(|e| Failure::caused(Exit::Failed, e.into()))?;
    output::print(&format!("{}\n", output::inspect::inspect(&value)))?;
    Ok(Exit::Done)
}
