//! What the client of a reload is told of its end.

use forkful_core::slot::Fault;
use forkful_core::supervisor::{JobId, ReloadFailure, ReloadResult};

use super::Engine;
use super::app::AppId;
use super::jobs::Failure;

impl Engine {
    /// Notes how a reload has ended.
    pub(super) fn note_reloaded(&mut self, app: AppId, job: JobId, result: ReloadResult) {
        let ReloadResult { rolling, replaced, total, failure } = result;
        let Some(entry) = self.apps.get(&app) else { return };
        let pm_id = |slot: &u16| entry.places.get(slot).map(|place| place.pm_id);
        let replaced: Vec<u32> = replaced.iter().filter_map(pm_id).collect();
        let old_serves = failure.as_ref().is_some_and(|failure| failure.old_serves);
        let failure = failure.map(|ReloadFailure { slot, fault, listen_fault, .. }| Failure {
            pm_id: pm_id(&slot).unwrap_or(0),
            fault,
            listen_fault,
        });
        let Some(part) = self.part(job, app) else { return };
        let of_its_own =
            |failure: &Failure| !matches!(failure.fault, Fault::Cancelled { .. } | Fault::Deleting);
        if failure.as_ref().is_some_and(of_its_own) {
            part.preface = Some(preface(rolling, replaced.len(), total, old_serves));
        }
        part.pm_ids.extend(replaced);
        part.failures.extend(failure);
    }
}

fn preface(rolling: bool, replaced: usize, total: usize, old_serves: bool) -> String {
    if !rolling {
        return format!("reload stopped after {replaced} of {total} workers");
    }
    match (replaced, old_serves) {
        (0, true) => "the new version did not start, the old one serves on".to_owned(),
        (0, false) => "the new version did not start, and no old one was there to serve on".to_owned(),
        (n, true) => format!(
            "the new version did not start in a worker after {n} of {total}, where the old one serves on"
        ),
        (n, false) => format!(
            "the new version did not start in a worker after {n} of {total}, where no old one was there to serve on"
        ),
    }
}
