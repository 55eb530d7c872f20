//! Reloads: one after the other, each by the plan of [`crate::rollout`], and what becomes of the app's definition.

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::{
    AppSupervisor, Asked, Effect, JobId, ListenFault, Note, Notice, ReloadFailure, ReloadOrder, ReloadResult,
    Turn, Whom,
};
use crate::rollout::{Action, Admission, Event, Rollout, Summary};
use crate::slot::{Exit, Fault, Generation, Outcome, Slot, SlotNumber, State, Verb};
use crate::spec::{AppSpec, Mode, ResourceLimits};

/// A reload under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reload {
    plan: Rollout,
    /// Whether new workers start beside the old ones: they can be given the same ports, before and after.
    pub(super) rolling: bool,
    pub(super) job: Option<JobId>,
    /// What the app was before, for when the new version fails.
    previous: Option<Rc<AppSpec>>,
    /// The process that served when the last replacement began; a slot may have had none.
    old: Option<Generation>,
    /// Why the last replacement's listen was refused.
    listen_fault: Option<ListenFault>,
    /// How many workers the new definition has; given when the reload has succeeded, unless another command says otherwise.
    instances: Option<u16>,
}

impl Reload {
    /// Whether somebody has asked for it, or it brings another definition. (After a crash of the daemon nobody waits for it.)
    pub(super) fn is_by_command(&self) -> bool {
        self.job.is_some() || self.previous.is_some()
    }

    /// Limits that are enough for the version that serves until the new one does.
    fn limits_with(&self, new: ResourceLimits) -> ResourceLimits {
        self.previous.as_ref().map_or(new, |previous| previous.limits.looser(new))
    }
}

impl Whom {
    /// What a command means that names these slots of an app with `total` slots: some of them, or all.
    pub fn of(slots: &[u16], total: usize) -> Self {
        match slots {
            slots if slots.len() >= total => Self::All,
            [slot] => Self::Slot(*slot),
            slots => Self::Slots(slots.to_vec()),
        }
    }
}

impl AppSupervisor {
    /// What the app's processes may use together, where `set` is what they may now. Two versions that run side by side get
    /// what is enough for both, and nothing is taken from processes that still leave.
    pub fn limits(&self, set: ResourceLimits) -> ResourceLimits {
        let own = self.spec.limits;
        let wanted = self.reload.as_ref().map_or(own, |reload| reload.limits_with(own));
        let leaves = |slot: &Slot| !slot.leaving.is_empty() || matches!(slot.state, State::Stopping { .. });
        let someone_leaves = set != wanted && self.slots.values().any(|record| leaves(&record.slot));
        if someone_leaves { wanted.looser(set) } else { wanted }
    }
}

impl Turn<'_> {
    /// Begins a reload, or has it wait for the one under way.
    pub(super) fn order_reload(&mut self, order: ReloadOrder) {
        // The equal reload that waits already will start the newest code as well.
        if order.is_automatic() && self.app.orders.waiting().any(|other| *other == order) {
            return;
        }
        let job = order.job;
        if let Some(job) = job.filter(|_| self.app.starts_after_others(self.context.others)) {
            let slots = self.meant(&order.whom);
            return self.restart(&slots, order.spec, job);
        }
        self.effects.extend(job.map(Effect::Owed));
        match self.app.orders.ask(order) {
            Admission::Begin(order) => self.begin_reload(order),
            Admission::Behind(_) => {
                self.effects.extend(job.map(|job| Effect::Note(job, Note::WaitedForReload)));
            }
            Admission::Refused(order) => self.fail_reload(&order, &Fault::TooManyWaiting),
        }
    }

    fn begin_reload(&mut self, order: ReloadOrder) {
        // Some may be gone, or have been stopped, since the reload was asked for.
        let mut meant = self.meant(&order.whom);
        // A start that waits for other apps will run the newest code.
        meant.retain(|slot| !self.waits_to_start(*slot));
        let meant = if order.is_automatic() { self.start_idle(meant) } else { meant };
        if meant.is_empty() && order.is_automatic() {
            return self.next_reload();
        }
        let slots: Vec<SlotNumber> = meant.into_iter().map(SlotNumber).collect();
        let rolling = self.is_rolling_with(order.spec.as_deref().unwrap_or(&self.app.spec), &slots);
        let previous = order.spec.as_ref().map(|_| Rc::clone(&self.app.spec));
        let present = self.app.spec.instances;
        let instances = order.spec.as_ref().map(|spec| spec.instances_from(present));
        if let Some(mut spec) = order.spec {
            // The workers that there are come first: with a version that fails, their number stays.
            Rc::make_mut(&mut spec).instances = self.app.spec.instances;
            self.adopt(spec);
        }
        if let Some(job) = order.job.filter(|_| !rolling) {
            self.note(job, Note::NotRolling);
        }
        let sparing = self.app.spec.memory_auto;
        let (plan, actions) = if sparing { Rollout::sparing(slots) } else { Rollout::new(slots) };
        let (job, old, listen_fault) = (order.job, None, None);
        self.app.reload = Some(Reload { plan, rolling, job, previous, old, listen_fault, instances });
        self.perform_plan(actions);
    }

    /// The workers that run nothing start at once, and say nothing about those that serve; yields the others.
    fn start_idle(&mut self, mut slots: Vec<u16>) -> Vec<u16> {
        let is_wanted = |slot: &u16| self.app.slots.get(slot).is_some_and(|record| record.wanted);
        slots.retain(is_wanted);
        let is_idle =
            |slot: &u16| self.app.slots.get(slot).is_some_and(|record| record.slot.has_no_process());
        let (idle, running) = slots.into_iter().partition::<Vec<u16>, _>(is_idle);
        for slot in idle {
            self.order(slot, Verb::Start, Asked::Load(Verb::Start));
        }
        running
    }

    /// Whether the workers of another definition can start beside those that serve.
    fn is_rolling_with(&self, next: &AppSpec, slots: &[SlotNumber]) -> bool {
        let now = &self.app.spec;
        let shares = |SlotNumber(slot): &SlotNumber| {
            self.app.slots.get(slot).is_none_or(super::SlotRecord::shares_its_sockets)
        };
        match (now.mode, next.mode) {
            (Mode::Cluster, Mode::Cluster) => true,
            // The new process is given the sockets by its agent.
            (Mode::Fork, Mode::Fork) => {
                next.agent && next.launch.runtime == now.launch.runtime && slots.iter().all(shares)
            }
            (Mode::Cluster, Mode::Fork) | (Mode::Fork, Mode::Cluster) => false,
        }
    }

    /// The slots whose workers a reload replaces: none that a scale-down is removing.
    fn meant(&self, whom: &Whom) -> Vec<u16> {
        let is_meant = |slot: &u16, record: &super::SlotRecord| match whom {
            Whom::All => true,
            Whom::Slot(only) => only == slot,
            Whom::Slots(some) => some.contains(slot),
            Whom::Wanted => record.wanted,
        };
        let staying = self.app.slots.iter().filter(|(slot, _)| self.app.stays(**slot));
        staying.filter(|(slot, record)| is_meant(slot, record)).map(|(slot, _)| *slot).collect()
    }

    fn perform_plan(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Replace(SlotNumber(slot)) => {
                    let record = self.app.slots.get(&slot);
                    let online = record.and_then(super::SlotRecord::online);
                    let is_wanted = record.is_some_and(|record| record.wanted);
                    let Some(reload) = &mut self.app.reload else { return };
                    if !is_wanted && !reload.is_by_command() {
                        // A command is about to stop it: nobody has asked for another process.
                        self.on_slot_gone(slot);
                        continue;
                    }
                    reload.old = online;
                    let verb = if reload.rolling { Verb::Replace } else { Verb::Restart };
                    self.note_wanted(slot, true);
                    self.command(slot, verb, Asked::Reload);
                }
                Action::Done(summary) => self.finish_reload(summary),
            }
        }
    }

    fn step_plan(&mut self, event: Event) {
        let Some(reload) = &mut self.app.reload else { return };
        let (plan, actions) = reload.plan.clone().step(event);
        reload.plan = plan;
        if reload.plan.has_failed() {
            self.take_back();
        }
        self.perform_plan(actions);
    }

    /// The app is again what it was before a reload that has failed: at once, so that a command that comes after it,
    /// and may have another definition, has the last word. The number of workers is not the reload's to say.
    fn take_back(&mut self) {
        let previous = self.app.reload.as_mut().and_then(|reload| reload.previous.take());
        if let Some(mut previous) = previous {
            Rc::make_mut(&mut previous).instances = self.app.spec.instances;
            self.adopt(previous);
        }
    }

    pub(super) fn note_reload_fault(&mut self, fault: Option<ListenFault>) {
        if let Some(reload) = &mut self.app.reload {
            reload.listen_fault = fault;
        }
    }

    pub(super) fn on_reload_answer(&mut self, slot: u16, outcome: Outcome) {
        let number = SlotNumber(slot);
        let event = match outcome {
            Outcome::Failed(fault) if !self.is_as_good_as_a_start(slot, &fault) => {
                Event::SlotReplaceFailed(number, fault)
            }
            Outcome::Failed(_)
            | Outcome::Online { .. }
            | Outcome::AlreadyOnline
            | Outcome::Finished(_)
            | Outcome::Replaced
            | Outcome::Stopped
            | Outcome::Deleted => {
                let record = self.app.slots.get(&slot);
                let old_leaving = record.is_some_and(|record| !record.slot.leaving.is_empty());
                Event::SlotReplaced { slot: number, old_leaving }
            }
        };
        self.step_plan(event);
    }

    /// Whether a reload accepts a new process that runs without saying that it is ready, as a start does: programs that do not
    /// listen say nothing. It accepts the process if nothing suggests that it should have spoken: there was no old process that
    /// served, the slot has never crashed, and no worker of the app has said that it is ready.
    fn is_as_good_as_a_start(&self, slot: u16, fault: &Fault) -> bool {
        let is_confirmed = |record: &super::SlotRecord| {
            let (State::Online(running) | State::Replacing { old: running, .. }) = &record.slot.state else {
                return false;
            };
            running.confirmed
        };
        let runs = self.app.slots.get(&slot).is_some_and(|record| {
            matches!(record.slot.state, State::Online(_)) && record.slot.counters.crashes == 0
        });
        let had_old = self.app.reload.as_ref().is_some_and(|reload| reload.old.is_some());
        matches!(fault, Fault::NotReadyInTime { .. })
            && runs
            && !had_old
            && !self.app.slots.values().any(|record| is_confirmed(record))
    }

    /// A process that served has failed soon. If the reload under way has put it there, the rest of the old processes stays.
    pub(super) fn on_successor_failed(&mut self, slot: u16, exit: Exit) {
        self.step_plan(Event::SuccessorFailed(SlotNumber(slot), Fault::Exited(exit)));
    }

    pub(super) fn on_old_left(&mut self, slot: u16) {
        self.step_plan(Event::OldLeft(SlotNumber(slot)));
    }

    pub(super) fn on_slot_gone(&mut self, slot: u16) {
        self.step_plan(Event::SlotGone(SlotNumber(slot)));
    }

    fn finish_reload(&mut self, summary: Summary) {
        let Some(reload) = self.app.reload.take() else { return };
        let instances = reload.instances.filter(|_| summary.failure.is_none());
        if reload.job.is_none() {
            self.note_old_code(&summary);
        }
        let failure = summary.failure.map(|failure| {
            let record = self.app.slots.get(&failure.slot.0);
            ReloadFailure {
                slot: failure.slot.0,
                fault: failure.fault,
                listen_fault: reload.listen_fault,
                old_serves: reload.old.is_some() && record.and_then(super::SlotRecord::online) == reload.old,
            }
        });
        let replaced = summary.replaced.into_iter().map(|slot| slot.0).collect();
        let total = self.app.slots.len();
        let result = ReloadResult { rolling: reload.rolling, replaced, total, failure };
        self.effect(Effect::Reloaded(reload.job, result));
        if let Some(job) = reload.job {
            self.scale_as_defined(instances, job);
            self.settled(job);
        }
        self.next_reload();
    }

    /// An automatic reload has failed: the workers that it did not replace run the old code, and the reason that they show says
    /// so.
    fn note_old_code(&mut self, summary: &Summary) {
        let Some(failure) = summary.failure.as_ref().filter(|failure| !failure.fault.is_by_command()) else {
            return;
        };
        for SlotNumber(slot) in std::iter::once(&failure.slot).chain(&summary.untouched) {
            let record = self.app.slots.get_mut(slot).filter(|record| record.online().is_some());
            if let Some(why) = record.and_then(|record| record.upkeep.renewed.as_mut()) {
                why.push_str("; the new worker failed, so this one serves on");
            }
        }
    }

    fn next_reload(&mut self) {
        while let Some(order) = self.app.orders.finished() {
            let Some(job) = order.job.filter(|job| self.context.abandoned.contains(job)) else {
                return self.begin_reload(order);
            };
            // Its client waited for the answer and has gone: an interrupted command is not carried out later.
            self.effect(Effect::Notice(None, Notice::ReloadDropped));
            self.settled(job);
        }
    }

    /// Sets how many workers the app has after the reload that is under way and after those that wait.
    pub(super) fn keep_instances(&mut self, instances: u16) {
        if let Some(reload) = &mut self.app.reload {
            reload.instances = None;
        }
        for spec in self.app.orders.waiting_mut().filter_map(|order| order.spec.as_mut()) {
            Rc::make_mut(spec).instances = instances;
        }
    }

    /// Another command takes the app over: reloads that wait will not happen, and the one under way begins no further
    /// slot and does not change the number of workers. Returns the number of workers of its definition if every worker has been
    /// replaced, so that the app has this definition now; `None` otherwise.
    pub(super) fn cancel_reloads(&mut self, by: Verb) -> Option<u16> {
        for order in self.app.orders.clear() {
            self.fail_reload(&order, &Fault::Cancelled { by });
        }
        let instances = self.app.reload.as_mut().and_then(|reload| reload.instances.take());
        self.step_plan(Event::Cancelled { by });
        let stays = self.app.reload.as_ref().is_some_and(|reload| !reload.plan.has_failed());
        instances.filter(|_| stays)
    }

    fn fail_reload(&mut self, order: &ReloadOrder, fault: &Fault) {
        let Some(job) = order.job else { return };
        let first = self.app.slots.keys().next().copied();
        self.effect(Effect::Failed(job, first, fault.clone()));
        self.settled(job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_means_some_of_several_slots_or_all() {
        assert_eq!(Whom::of(&[2], 4), Whom::Slot(2));
        assert_eq!(Whom::of(&[0], 1), Whom::All, "a stopped app of one slot is started, too");
        assert_eq!(Whom::of(&[0, 1], 4), Whom::Slots(vec![0, 1]));
        assert_eq!(Whom::of(&[0, 1], 2), Whom::All);
    }
}
