//! What limits each app, for open pages: the rules of `forkful doctor` over the last seconds of the history. Apps
//! are examined only while there is a page, and only those with a worker that is online.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;

use forkful_api::types::{AppList, AppView, DoctorReport, Status};
use forkful_core::doctor::{Diagnosis, Signs, Unclear, Verdict, examine};
use forkful_core::metrics::history::Query;
use forkful_core::outgoing::{HostLoad, RefusalWatch};
use forkful_os::cores::usable_cores;
use forkful_os::wall_clock::now_ms;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::feed::ask;
use super::state;
use crate::command::Command;
use crate::history::HistoryOrder;

/// Pause between two examinations.
const EXAMINE_EVERY: Duration = Duration::from_secs(10);
/// The seconds of a verdict: three times `SECONDS_MIN`, so that a verdict does not change with every short burst.
const SECONDS: u64 = 30;
/// The examinations in this time.
const EXAMINATIONS: usize = (SECONDS / EXAMINE_EVERY.as_secs()) as usize;

/// Verdicts by app, as they are sent.
pub(super) type Verdicts = BTreeMap<String, Value>;

/// The last verdicts, and when the next ones are due.
#[derive(Debug, Default)]
pub(super) struct Examiner {
    verdicts: Verdicts,
    examined_at: Option<Instant>,
    /// Hosts that refused connections, by app; the history has no hosts.
    refusals: BTreeMap<String, Refusals>,
}

/// Hosts that refused connections in the last seconds.
#[derive(Debug, Default)]
struct Refusals {
    watch: RefusalWatch,
    /// The host that refused most before each of the last examinations.
    worst: VecDeque<Option<HostLoad>>,
}

impl Refusals {
    /// The host that refused most in the time of a verdict; counts anew for the next one.
    fn examine(&mut self) -> Option<HostLoad> {
        self.worst.push_back(self.watch.worst().cloned());
        self.watch.begin_anew();
        if self.worst.len() > EXAMINATIONS {
            self.worst.pop_front();
        }
        self.worst.iter().flatten().max_by_key(|load| load.refused).cloned()
    }
}

impl Examiner {
    /// The verdicts of these apps; looks again if it is time. Without an answer of the engine the last ones stay.
    pub(super) async fn look(&mut self, list: &AppList, commands: &mpsc::Sender<Command>) -> &Verdicts {
        for app in &list.apps {
            self.refusals.entry(app.definition.name.clone()).or_default().watch.look(&app.outgoing);
        }
        if self.examined_at.is_none_or(|at| at.elapsed() >= EXAMINE_EVERY) {
            self.examined_at = Some(Instant::now());
            if let Some(verdicts) = self.examine(list, commands).await {
                self.verdicts = verdicts;
            }
        }
        &self.verdicts
    }

    async fn examine(&mut self, list: &AppList, commands: &mpsc::Sender<Command>) -> Option<Verdicts> {
        let mut apps = Vec::new();
        self.refusals.retain(|name, _| list.apps.iter().any(|app| app.definition.name == *name));
        for view in &list.apps {
            if !view.workers.iter().any(|worker| worker.status == Status::Online) {
                continue;
            }
            let target = view.definition.name.clone();
            let order = ask(commands, |reply| Command::History { target, reply }).await;
            // An app may be gone since the list was made.
            if let Ok(order) = order {
                let refusals = self.refusals.get_mut(&view.definition.name);
                apps.push((view.clone(), order, refusals.and_then(Refusals::examine)));
            }
        }
        let examined = tokio::task::spawn_blocking(move || {
            let cores = usable_cores();
            let diagnose = |(view, order, refusing): (AppView, HistoryOrder, _)| {
                let cores = cores.of_app(view.definition.cpu_max_millicores);
                let diagnosis = examine(&view.watched(cores, seconds(order)?, refusing));
                io::Result::Ok((view.definition.name, diagnosis))
            };
            // A history that cannot be read leaves its app without a verdict.
            let all = apps.into_iter().filter_map(|app| diagnose(app).ok());
            all.collect::<Vec<(String, Diagnosis)>>()
        });
        let mut verdicts = Verdicts::new();
        for (name, diagnosis) in examined.await.ok()? {
            // An app that has just begun gets its verdict by a later examination.
            if diagnosis.verdict == Verdict::Unclear(Unclear::TooShort) {
                continue;
            }
            let report = report(&name, &diagnosis, commands).await;
            verdicts.insert(name, state::verdict(&report, diagnosis.verdict));
        }
        Some(verdicts)
    }
}

/// With the places of the stall ledger, for verdicts that it may explain.
async fn report(name: &str, diagnosis: &Diagnosis, commands: &mpsc::Sender<Command>) -> DoctorReport {
    let report = DoctorReport::new(name, diagnosis);
    if !diagnosis.verdict.has_places() {
        return report;
    }
    let target = name.to_owned();
    let stalls = ask(commands, |reply| Command::Stalls { target, reply }).await;
    let stalls = stalls.ok().and_then(|reply| reply.apps.into_iter().find(|stalls| stalls.app == name));
    let since_ms = now_ms().saturating_sub(SECONDS * 1000);
    match stalls {
        Some(stalls) => report.with_places(diagnosis.verdict, &stalls, since_ms),
        None => report,
    }
}

/// The last complete seconds of each worker.
fn seconds(order: HistoryOrder) -> io::Result<BTreeMap<u16, Vec<Signs>>> {
    let to_s = order.now_s;
    let query = Query { from_s: Some(to_s.saturating_sub(SECONDS)), to_s: Some(to_s), step_s: Some(1) };
    let history = order.read(query, |name| Signs::metrics().any(|known| known == name))?;
    Ok(history.seconds())
}
