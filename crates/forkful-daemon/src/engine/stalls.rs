//! Blocked event loops, of which agents report or with which workers ended, go into the app's ledger and to watching clients.
//! `forkful_core::stalls` stores and groups them.

use forkful_api::stalls::{
    AppStalls, StallEvent, StallGroupView, StallsReply, StandingView, WorkerStallView,
};
use forkful_api::types::ErrorReply;
use forkful_cluster::WorkerId;
use forkful_core::Time;
use forkful_core::request::Selection;
use forkful_core::slot::Generation;
use forkful_core::stalls::{Stall, StallGroup, StallPlace, WorkerStall, place_in_words};
use forkful_core::steering::blocked::blocked_for;
use forkful_os::procinfo;

use super::app::{App, AppId};
use super::apps::Apps;

impl App {
    /// Adds stalls of a worker; returns them for watching clients.
    fn note_stalls(&mut self, worker: WorkerId, stalls: Vec<Stall>) -> Vec<StallEvent> {
        let Some((slot, _)) = self.find_worker(worker) else { return Vec::new() };
        let Some(pm_id) = self.places.get(&slot).map(|place| place.pm_id) else { return Vec::new() };
        let (app, told_ms) = (self.spec().name.to_string(), super::clock::wall_ms());
        let note = |stall| {
            let noted = self.stalls.note(pm_id, stall, told_ms);
            StallEvent { app: app.clone(), stall: view(noted) }
        };
        stalls.into_iter().map(note).collect()
    }

    /// Where a worker was last blocked, in words.
    pub(super) fn last_stood_in(&self, pm_id: u32) -> Option<String> {
        let last = self.stalls.recent().find(|noted| noted.pm_id == pm_id)?;
        place_in_words(last.stall.route.as_deref(), last.stall.function.as_deref())
    }

    fn stalls(&self, now: Time) -> AppStalls {
        let ledger = &self.stalls;
        let group = |((route, function), group): (&StallPlace, &StallGroup)| StallGroupView {
            route: route.clone(),
            function: function.clone(),
            cost: group.cost,
            last_at_ms: group.last_at_ms,
            stack: group.stack.clone(),
        };
        AppStalls {
            app: self.spec().name.to_string(),
            threshold_ms: self.spec().stall_threshold.as_millis() as u64,
            total: *ledger.total(),
            groups: ledger.groups().into_iter().map(group).collect(),
            others: *ledger.others(),
            recent: ledger.recent().map(view).collect(),
            standing: self.standing(now),
        }
    }

    /// The workers whose event loop is blocked now.
    fn standing(&self, now: Time) -> Vec<StandingView> {
        let places =
            self.slots().filter_map(|(_, record, place)| Some((place.pm_id, place.current(record)?)));
        let living = places.filter(|(_, process)| process.ended.is_none());
        let standing = living.filter_map(|(pm_id, process)| {
            let silent = self.primary.owes_since(process.worker).map(|since| now.since(since));
            let for_ms = blocked_for(silent)?.as_millis() as u64;
            Some(StandingView { pm_id, for_ms, doing: doing(process.child.pid) })
        });
        standing.collect()
    }
}

impl Apps {
    /// A worker's event loop was blocked, as its agent says or as it ended; returns it for watching clients.
    pub(super) fn note_stalls(
        &mut self,
        app: AppId,
        worker: WorkerId,
        stalls: Vec<Stall>,
    ) -> Vec<StallEvent> {
        let Some(entry) = self.get_mut(app) else { return Vec::new() };
        let noted = entry.note_stalls(worker, stalls);
        self.note_unwritten(app);
        noted
    }

    /// A process is to end: whether its event loop is blocked is known only as long as it has its channel.
    pub(super) fn note_silence(&mut self, app: AppId, slot: u16, generation: Generation) {
        let Some(entry) = self.get_mut(app) else { return };
        let App { places, primary, .. } = entry;
        let process = places.get_mut(&slot).and_then(|place| place.processes.get_mut(&generation));
        let Some(process) = process else { return };
        let silent_since = primary.owes_since(process.worker);
        process.metrics.silent_since = silent_since.or(process.metrics.silent_since);
    }

    /// The ledgers of some apps.
    pub(super) fn stalls(
        &self,
        selection: Result<Selection, ErrorReply>,
        now: Time,
    ) -> Result<StallsReply, ErrorReply> {
        let apps = selection?.into_keys().filter_map(|app| Some(self.get(&app)?.stalls(now)));
        Ok(StallsReply { apps: apps.collect() })
    }
}

fn view(noted: &WorkerStall) -> WorkerStallView {
    WorkerStallView { at_ms: noted.at_ms, pm_id: noted.pm_id, stall: noted.stall.clone() }
}

/// What a process with a blocked event loop is doing, as far as the kernel knows.
fn doing(pid: u32) -> String {
    match (procinfo::is_running(pid), procinfo::waits_in(pid)) {
        (Ok(true), _) => "busy in JavaScript or native code".to_owned(),
        (Ok(false), Some(place)) => format!("waiting in the kernel ({place})"),
        (Ok(false), None) => "waiting in the kernel".to_owned(),
        (Err(_), _) => "gone".to_owned(),
    }
}
