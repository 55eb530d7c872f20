//! What limits each app, for open pages: the rules of `forkful doctor` over the last seconds of the history. Apps
//! are examined only while there is a page, and only those with a worker that is online.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use forkful_api::types::{AppList, AppView, DoctorReport, Status};
use forkful_core::doctor::{Signs, examine};
use forkful_core::metrics::history::Query;
use forkful_core::outgoing::RefusalWatch;
use forkful_os::cores::usable_cores;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::feed::ask;
use super::state;
use crate::command::Command;
use crate::history::HistoryOrder;

/// Pause between two examinations.
const EXAMINE_EVERY: Duration = Duration::from_secs(10);
/// The seconds of a verdict: three times the least, so that a verdict does not change with every short burst.
const SECONDS: u64 = 30;

/// Verdicts by app, as they are sent.
pub(super) type Verdicts = BTreeMap<String, Value>;

/// The last verdicts, and when the next ones are due.
#[derive(Debug, Default)]
pub(super) struct Examiner {
    verdicts: Verdicts,
    examined_at: Option<Instant>,
    /// Hosts that refused connections since the last examination; the history has no hosts.
    refusals: BTreeMap<String, RefusalWatch>,
}

impl Examiner {
    /// The verdicts of these apps; looks again if it is time. Without an answer of the engine the last ones stay.
    pub(super) async fn look(&mut self, list: &AppList, commands: &mpsc::Sender<Command>) -> &Verdicts {
        for app in &list.apps {
            self.refusals.entry(app.definition.name.clone()).or_default().look(&app.outgoing);
        }
        if self.examined_at.is_none_or(|at| at.elapsed() >= EXAMINE_EVERY) {
            self.examined_at = Some(Instant::now());
            if let Some(verdicts) = self.examine(list, commands).await {
                self.verdicts = verdicts;
            }
            self.refusals.clear();
        }
        &self.verdicts
    }

    async fn examine(&self, list: &AppList, commands: &mpsc::Sender<Command>) -> Option<Verdicts> {
        let mut apps = Vec::new();
        for view in &list.apps {
            if !view.workers.iter().any(|worker| worker.status == Status::Online) {
                continue;
            }
            let target = view.definition.name.clone();
            let order = ask(commands, |reply| Command::History { target, reply }).await;
            // An app may be gone since the list was made.
            if let Ok(order) = order {
                let refusals = self.refusals.get(&view.definition.name);
                apps.push((view.clone(), order, refusals.and_then(RefusalWatch::worst).cloned()));
            }
        }
        let examined = tokio::task::spawn_blocking(move || {
            let cores = usable_cores();
            let verdict = |(view, order, refusing): (AppView, HistoryOrder, _)| {
                let cores = cores.of_app(view.definition.cpu_max_millicores);
                let diagnosis = examine(&view.watched(cores, seconds(order)?, refusing));
                let name = view.definition.name;
                let verdict = state::verdict(&DoctorReport::new(&name, &diagnosis), diagnosis.verdict);
                Ok((name, verdict))
            };
            apps.into_iter().map(verdict).collect::<io::Result<Verdicts>>()
        });
        examined.await.ok()?.ok()
    }
}

/// The last seconds of each worker, without the one that is still being measured.
fn seconds(order: HistoryOrder) -> io::Result<BTreeMap<u16, Vec<Signs>>> {
    let to_s = order.now_s;
    let query = Query { from_s: Some(to_s.saturating_sub(SECONDS)), to_s: Some(to_s), step_s: Some(1) };
    let history = order.read(query, |name| Signs::metrics().any(|known| known == name))?;
    Ok(history.seconds())
}
