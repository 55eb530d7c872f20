//! Reloads: the core's plan, one slot after the other, and what becomes of its result.

use std::rc::Rc;

use forkful_core::rollout::{Action, Admission, Event, Rollout, Summary};
use forkful_core::slot::{Event as SlotEvent, Fault, Outcome, SlotNumber, Verb as SlotVerb};
use forkful_core::spec::{AppSpec, Mode};

use super::app::{AppId, ListenFault, Place, Reload, ReloadOrder};
use super::jobs::{Failure, JobId};
use super::{Engine, TicketUse};

impl Engine {
    /// Begins a reload, or has it wait for the one under way.
    pub(crate) fn reload(&mut self, app: AppId, order: ReloadOrder) {
        let Some(entry) = self.apps.get_mut(&app) else { return };
        let job = order.job;
        match entry.reloads.ask(order) {
            Admission::Begin(order) => self.begin_reload(app, order),
            Admission::Behind(_) => {
                if let Some(part) = self.part(job, app) {
                    part.note("waited for the reload that was under way".to_owned());
                }
            }
            Admission::Refused(order) => {
                self.fail_reload(app, &order, Fault::TooManyWaiting);
            }
        }
    }

    fn begin_reload(&mut self, app: AppId, order: ReloadOrder) {
        let Some(entry) = self.apps.get(&app) else { return };
        // Some may be gone, or have been stopped, since the reload was asked for.
        let meant = entry.places.keys().filter(|slot| entry.is_meant(**slot, order.whom));
        let slots: Vec<SlotNumber> = meant.map(|slot| SlotNumber(*slot)).collect();
        let clusters = |spec: &AppSpec| spec.mode == Mode::Cluster;
        let rolling = clusters(&entry.spec) && order.spec.as_deref().is_none_or(clusters);
        let previous = order.spec.as_ref().map(|_| Rc::clone(&entry.spec));
        let instances = order.spec.as_ref().map(|spec| spec.instances);
        if let Some(mut spec) = order.spec {
            // The workers that there are come first: with a version that fails, their number stays.
            Rc::make_mut(&mut spec).instances = entry.spec.instances;
            self.adopt(app, spec);
        }
        if !rolling && let Some(part) = self.part(order.job, app) {
            part.note(
                "a fork-mode app cannot share its port: each worker was stopped, then started".to_owned(),
            );
        }
        let (plan, actions) = Rollout::new(slots);
        if let Some(entry) = self.apps.get_mut(&app) {
            let (job, old, listen_fault) = (order.job, None, None);
            entry.reload = Some(Reload { plan, rolling, job, previous, old, listen_fault, instances });
        }
        self.perform_plan(app, actions);
    }

    fn perform_plan(&mut self, app: AppId, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Replace(SlotNumber(slot)) => {
                    let reload = self.apps.get(&app).and_then(|entry| entry.reload.as_ref());
                    let rolling = reload.is_some_and(|reload| reload.rolling);
                    let verb = if rolling { SlotVerb::Replace } else { SlotVerb::Restart };
                    self.note_old(app, slot);
                    self.note_wanted(app, slot, true);
                    let ticket = self.new_ticket(TicketUse::Reload);
                    self.feed(app, slot, SlotEvent::Command(verb, ticket));
                }
                Action::Done(summary) => self.finish_reload(app, summary),
            }
        }
    }

    /// Notes which process the next one is to follow.
    fn note_old(&mut self, app: AppId, slot: u16) {
        let Some(entry) = self.apps.get_mut(&app) else { return };
        if let Some(reload) = &mut entry.reload {
            reload.old = entry.places.get(&slot).and_then(Place::online);
        }
    }

    fn step_plan(&mut self, app: AppId, event: Event) {
        let Some(reload) = self.apps.get_mut(&app).and_then(|entry| entry.reload.as_mut()) else { return };
        let (plan, actions) = reload.plan.clone().step(event);
        reload.plan = plan;
        if reload.plan.has_failed() {
            self.take_back(app);
        }
        self.perform_plan(app, actions);
    }

    /// The app is again what it was before a reload that has failed: at once, so that a command that comes after it,
    /// and may have another definition, has the last word. How many workers there are is not the reload's to say.
    fn take_back(&mut self, app: AppId) {
        let Some(entry) = self.apps.get_mut(&app) else { return };
        let previous = entry.reload.as_mut().and_then(|reload| reload.previous.take());
        if let Some(mut previous) = previous {
            Rc::make_mut(&mut previous).instances = entry.spec.instances;
            self.adopt(app, previous);
        }
    }

    pub(crate) fn on_reload_answer(
        &mut self,
        app: AppId,
        slot: u16,
        outcome: Outcome,
        listen_fault: Option<ListenFault>,
    ) {
        if let Some(reload) = self.apps.get_mut(&app).and_then(|entry| entry.reload.as_mut()) {
            reload.listen_fault = listen_fault;
        }
        let number = SlotNumber(slot);
        let event = match outcome {
            Outcome::Failed(fault) => Event::SlotReplaceFailed(number, fault),
            Outcome::Online { .. }
            | Outcome::AlreadyOnline
            | Outcome::Finished(_)
            | Outcome::Replaced
            | Outcome::Stopped
            | Outcome::Deleted => {
                let old_leaving = self
                    .apps
                    .get(&app)
                    .and_then(|entry| entry.places.get(&slot))
                    .is_some_and(|place| !place.slot.leaving.is_empty());
                Event::SlotReplaced { slot: number, old_leaving }
            }
        };
        self.step_plan(app, event);
    }

    pub(crate) fn on_old_left(&mut self, app: AppId, slot: u16) {
        self.step_plan(app, Event::OldLeft(SlotNumber(slot)));
    }

    pub(crate) fn on_slot_gone(&mut self, app: AppId, slot: u16) {
        self.step_plan(app, Event::SlotGone(SlotNumber(slot)));
    }

    fn finish_reload(&mut self, app: AppId, summary: Summary) {
        let Some(entry) = self.apps.get_mut(&app) else { return };
        let Some(reload) = entry.reload.take() else { return };
        let total = entry.places.len();
        let ids = |slots: &[SlotNumber]| -> Vec<u32> {
            slots.iter().filter_map(|s| entry.places.get(&s.0)).map(|place| place.pm_id).collect()
        };
        let replaced = ids(&summary.replaced);
        let instances = reload.instances.filter(|_| summary.failure.is_none());
        let rolling = reload.rolling;
        let mut old_serves = false;
        let failure = summary.failure.map(|failure| {
            let place = entry.places.get(&failure.slot.0);
            old_serves = reload.old.is_some() && place.and_then(Place::online) == reload.old;
            Failure {
                pm_id: place.map_or(0, |place| place.pm_id),
                fault: failure.fault,
                listen_fault: reload.listen_fault,
            }
        });
        if let Some(part) = self.part(reload.job, app) {
            let of_its_own =
                |failure: &Failure| !matches!(failure.fault, Fault::Cancelled { .. } | Fault::Deleting);
            if failure.as_ref().is_some_and(of_its_own) {
                part.preface = Some(preface(rolling, replaced.len(), total, old_serves));
            }
            part.pm_ids.extend(replaced);
            part.failures.extend(failure);
        }
        self.scale_to(app, instances, reload.job);
        self.answered(reload.job);
        self.next_reload(app);
    }

    /// Gives an app the number of workers that its new definition has.
    pub(super) fn scale_to(&mut self, app: AppId, instances: Option<u16>, job: JobId) {
        let Some(entry) = self.apps.get(&app) else { return };
        let before = entry.spec.instances;
        if let Some(instances) = instances.filter(|instances| *instances != before) {
            self.scale(app, instances, job);
            if let Some(part) = self.part(job, app) {
                let workers = if instances == 1 { "worker" } else { "workers" };
                part.note(format!("scaled from {before} to {instances} {workers}"));
            }
        }
    }

    /// A command sets the number of workers of an app: neither the reload under way nor one that waits changes it.
    pub(super) fn keep_instances(&mut self, app: AppId, instances: u16) {
        let Some(entry) = self.apps.get_mut(&app) else { return };
        if let Some(reload) = &mut entry.reload {
            reload.instances = None;
        }
        for spec in entry.reloads.waiting_mut().filter_map(|order| order.spec.as_mut()) {
            Rc::make_mut(spec).instances = instances;
        }
    }

    fn next_reload(&mut self, app: AppId) {
        while let Some(order) = self.apps.get_mut(&app).and_then(|entry| entry.reloads.finished()) {
            if !self.has_client_left(order.job) {
                self.begin_reload(app, order);
                return;
            }
            // Whoever asked for it waited for the answer, and has gone: an interrupted command is not carried out later.
            let name = self.apps.get(&app).map_or_else(String::new, |entry| entry.spec.name.to_string());
            log_line!("forkful: {name}: a reload that waited was dropped: its client has gone");
            self.answered(order.job);
        }
    }

    /// Another command takes the app over: reloads that wait will not happen, and the one under way
    /// begins no further slot.
    pub(crate) fn cancel_reloads(&mut self, app: AppId, by: SlotVerb) {
        let Some(entry) = self.apps.get_mut(&app) else { return };
        for order in entry.reloads.clear() {
            self.fail_reload(app, &order, Fault::Cancelled { by });
        }
        self.step_plan(app, Event::Cancelled { by });
    }

    fn fail_reload(&mut self, app: AppId, order: &ReloadOrder, fault: Fault) {
        let pm_id =
            self.apps.get(&app).and_then(|entry| entry.places.values().next()).map_or(0, |place| place.pm_id);
        if let Some(part) = self.part(order.job, app) {
            part.failures.push(Failure { pm_id, fault, listen_fault: None });
        }
        self.answered(order.job);
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
