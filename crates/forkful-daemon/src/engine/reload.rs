//! Reports the end of a reload to its client.

use forkful_core::supervisor::{ReloadFailure, ReloadResult};

use super::app::App;
use super::failures::SlotFailure;
use super::jobs::Part;

impl Part {
    /// Records how a reload of an app has ended.
    pub(super) fn note_reloaded(&mut self, entry: &App, result: ReloadResult) {
        self.trial.course.reloaded(&result);
        let ReloadResult { rolling, replaced, total, failure } = result;
        let was_ready = failure.as_ref().is_some_and(|failure| replaced.contains(&failure.slot));
        let pm_id = |slot: &u16| entry.places.get(slot).map(|place| place.pm_id);
        let replaced: Vec<u32> = replaced.iter().filter_map(pm_id).collect();
        let old_serves = failure.as_ref().is_some_and(|failure| failure.old_serves);
        let failure = failure.map(|ReloadFailure { slot, fault, listen_fault, .. }| SlotFailure {
            pm_id: pm_id(&slot).unwrap_or(0),
            fault,
            listen_fault,
            was_ready,
            killed: None,
            unready: None,
            again: None,
        });
        if failure.as_ref().is_some_and(|failure| !failure.fault.is_by_command()) {
            self.preface = Some(if was_ready {
                format!(
                    "the new version failed soon after it had replaced {} of {total} workers, the others serve on",
                    replaced.len()
                )
            } else {
                preface(rolling, replaced.len(), total, old_serves)
            });
        }
        self.pm_ids.extend(replaced);
        self.failures.extend(failure);
    }

    /// The program of a slot finished under an earlier daemon: its command reports that it is not started.
    pub(super) fn note_finished_before(&mut self, pm_id: u32) {
        self.pm_ids.push(pm_id);
        self.finished += 1;
        self.note(format!(
            "worker {pm_id} had finished with exit code 0 and is not started again; `forkful restart {pm_id}` \
             starts it"
        ));
    }

    /// Nothing was done, because nothing has changed.
    pub(super) fn note_unchanged(&mut self, entry: &App) {
        self.unchanged = true;
        self.pm_ids = entry.places.values().map(|place| place.pm_id).collect();
        self.note("neither its definition nor its code has changed; `--force` reloads it".to_owned());
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
            "the new version failed to start in one slot after {n} of {total} were replaced; that slot had no old worker"
        ),
    }
}
