//! Reads seconds of workers from the daemon's history instead of watching.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forkful_api::client::Client;
use forkful_api::types::{AppView, HistoryQuery};
use forkful_core::doctor::App;
use forkful_core::metrics::history::Ring;

use super::super::targets::described;
use super::watched;
use crate::exit::{Exit, Failure};

/// The apps' seconds that ended this long ago.
pub(super) async fn read(
    client: &mut Client,
    targets: &[String],
    seconds: u64,
    ago: Duration,
) -> Result<Vec<(AppView, App)>, Failure> {
    let reach = Ring::Seconds.reach_s();
    if ago.as_secs().saturating_add(seconds) > reach {
        let error = format!("the history does not have the {seconds} s that ended {} s ago", ago.as_secs());
        let hint = format!(
            "the history of single seconds goes back {reach} s: `--ago` and `--for` together are at most that"
        );
        return Err(Failure::new(Exit::WrongUse, error).hint(hint));
    }
    let mut found = Vec::new();
    for view in described(client, targets).await? {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let to = now.saturating_sub(ago).as_secs();
        let query = HistoryQuery {
            app: view.definition.name.clone(),
            from: Some(to.saturating_sub(seconds) * 1000),
            to: Some(to * 1000),
            step: Some(1),
            metrics: None,
        };
        let history = client.history(&query).await?;
        // The history has no hosts.
        let app = watched(&view, history.seconds(), None);
        found.push((view, app));
    }
    Ok(found)
}
