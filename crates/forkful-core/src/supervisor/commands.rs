//! What clients ask of an app: to be made, restarted, stopped, scaled.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::{AppId, Effect, FirstStates, JobId, Note, SlotRecord, Turn};
use crate::slot::{Policy, Verb};
use crate::spec::{AppSpec, INSTANCES_MAX};

impl Turn<'_> {
    /// Makes the slots of a new app and starts those that are meant.
    pub(super) fn create(&mut self, first: FirstStates, job: JobId) {
        let FirstStates { stopped, finished, waits_for_cron } = first;
        let waits_by_definition = stopped.is_none() && self.app.spec.starts_by_cron();
        self.effect(Effect::Changed);
        let numbers = 0..self.app.spec.instances;
        for number in numbers.clone() {
            let is_finished = finished.contains(&number);
            let waits_for_cron = waits_by_definition || waits_for_cron.contains(&number);
            let fresh = || SlotRecord { waits_for_cron, ..SlotRecord::default() };
            self.add_slot(number, if is_finished { SlotRecord::finished() } else { fresh() });
            if is_finished {
                self.effect(Effect::FinishedBefore(job, number));
            }
        }
        self.effect(Effect::Defined);
        self.begin_upkeep();
        let autostart = self.app.spec.autostart;
        let is_started = |number: &u16| {
            let is_wanted = stopped.as_ref().map_or(autostart, |stopped| !stopped.contains(number));
            is_wanted && !finished.contains(number)
        };
        let started: Vec<u16> = numbers.filter(is_started).collect();
        if self.app.spec.depends_on.is_empty() {
            self.ask_all(&started, Verb::Start, job);
        } else {
            self.hold_start(started, job);
        }
    }

    /// Restarts slots. An app in which nothing runs waits for those that it depends on and that are on their way.
    pub(super) fn restart(&mut self, slots: &[u16], spec: Option<Rc<AppSpec>>, job: JobId) {
        let reloaded = self.cancel_reloads(Verb::Restart);
        self.release_held_of(slots, Verb::Restart);
        let runs_nothing = self.app.runs_nothing();
        let instances = match spec {
            Some(spec) => {
                let instances = spec.instances_from(self.app.spec.instances);
                self.adopt(spec);
                Some(instances)
            }
            None => reloaded,
        };
        let waits = runs_nothing && self.app.needs_one_that_comes(self.context.others);
        let (mut added, mut leaving) = (Vec::new(), Vec::new());
        if let Some(instances) = instances {
            added = self.add_slots(instances);
            leaving = self.remove_surplus(instances, Some(job));
        }
        let stays = |slot: &u16| self.app.stays(*slot) && !leaving.contains(slot);
        let mut existing: Vec<u16> = slots.iter().copied().filter(stays).collect();
        if waits {
            existing.extend(added);
            self.hold_start(existing, job);
        } else {
            added.into_iter().for_each(|slot| self.ask(slot, Verb::Start, job));
            self.ask_all(&existing, Verb::Restart, job);
        }
    }

    /// Stops or deletes slots, as soon as none of the apps in `first` is being stopped any more.
    pub(super) fn stop(&mut self, slots: Vec<u16>, verb: Verb, first: BTreeSet<AppId>, job: JobId) {
        // A worker whose start waits has no process that other apps could need.
        if first.is_empty() || slots.iter().all(|slot| self.waits_to_start(*slot)) {
            self.release_held_of(&slots, verb);
            self.ask_all(&slots, verb, job);
        } else {
            self.hold(slots, verb, job, first);
        }
    }

    pub(super) fn ask_all(&mut self, slots: &[u16], verb: Verb, job: JobId) {
        if matches!(verb, Verb::Stop | Verb::Delete) {
            self.cancel_reloads(verb);
        }
        for slot in slots {
            self.ask(*slot, verb, job);
        }
    }

    /// Gives the app another definition; running processes keep what they were started with.
    pub(super) fn adopt(&mut self, spec: Rc<AppSpec>) {
        self.app.policy = Policy::of(&spec);
        self.app.spec = spec;
        self.effect(Effect::Changed);
        self.effect(Effect::Defined);
        self.app.slots.values_mut().for_each(SlotRecord::forget_failed_renewals);
        self.begin_upkeep();
    }

    /// Gives the app this many slots, on behalf of a job or of autoscaling. A start that waits, and a stop of the whole app
    /// that waits, is about the new slots, too.
    pub(super) fn scale(&mut self, instances: u16, job: Option<JobId>) {
        let held = self.held_job();
        for number in self.add_slots(instances) {
            match held {
                Some(held) => self.hold_also(number, held),
                None => self.ask_for(number, Verb::Start, job),
            }
        }
        self.remove_surplus(instances, job);
    }

    /// Adds slots until there are this many; yields the new ones, in which nothing is started yet.
    fn add_slots(&mut self, instances: u16) -> Vec<u16> {
        self.effect(Effect::Changed);
        Rc::make_mut(&mut self.app.spec).instances = instances;
        let slots = &self.app.slots;
        let present = slots.keys().filter(|slot| self.app.stays(**slot)).count();
        let added: Vec<u16> = (0..INSTANCES_MAX)
            .filter(|number| !slots.contains_key(number))
            .take(usize::from(instances).saturating_sub(present))
            .collect();
        added.iter().for_each(|number| self.add_slot(*number, SlotRecord::default()));
        added
    }

    /// Has the last slots go until there are this many; yields those that go.
    fn remove_surplus(&mut self, instances: u16, job: Option<JobId>) -> Vec<u16> {
        let present: Vec<u16> = self.app.slots.keys().copied().filter(|slot| self.app.stays(*slot)).collect();
        let leave = present.len().saturating_sub(usize::from(instances));
        let leaving: Vec<u16> = present.into_iter().rev().take(leave).collect();
        for number in &leaving {
            self.hold_no_more(*number);
            self.ask_for(*number, Verb::Retire, job);
            // A reload goes on without it.
            self.on_slot_gone(*number);
        }
        leaving
    }

    /// Gives the app as many workers as its definition says, and tells it.
    pub(super) fn scale_as_defined(&mut self, instances: Option<u16>, job: JobId) {
        let from = self.app.spec.instances;
        let bounds = self.app.spec.autoscale;
        let to = instances.map(|instances| bounds.map_or(instances, |bounds| bounds.nearest(from)));
        if let Some(to) = to.filter(|to| *to != from) {
            self.scale(to, Some(job));
            self.note(job, Note::Scaled { from, to });
        }
    }
}
