//! Reads seconds of workers from the daemon's history instead of watching.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forkful_api::client::Client;
use forkful_api::types::{AppView, HistoryQuery, HistoryReply, WorkerHistory};
use forkful_core::doctor::{App, Signs};
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
        let app = watched(&view, seconds_of(&history), None);
        found.push((view, app));
    }
    Ok(found)
}

/// The seconds of each worker with data.
fn seconds_of(history: &HistoryReply) -> BTreeMap<u16, Vec<Signs>> {
    let of_worker = |worker: &WorkerHistory| {
        let at =
            |point: usize| Signs::from_values(|name| worker.series.get(name)?.get(point).copied().flatten());
        let seconds = (0..history.points as usize).map(at).filter(|signs| !signs.is_empty());
        (worker.slot, seconds.collect())
    };
    history.workers.iter().map(of_worker).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_of_which_nothing_is_known_are_left_out() {
        let series = [("event_loop_utilization".to_owned(), vec![Some(0.9), None, Some(0.5)])];
        let history = HistoryReply {
            app: "web".to_owned(),
            from_ms: 0,
            step_ms: 1000,
            points: 3,
            workers: vec![WorkerHistory { slot: 2, pm_id: 7, series: series.into_iter().collect() }],
        };
        let busy: Vec<Option<f64>> = seconds_of(&history)[&2].iter().map(|signs| signs.loop_busy).collect();
        assert_eq!(busy, [Some(0.9), Some(0.5)]);
    }
}
