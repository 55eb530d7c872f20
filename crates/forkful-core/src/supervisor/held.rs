//! Apps that need each other: an app that depends on others is started when they are ready, and is stopped before them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{AppId, Asked, Effect, JobId, Readiness, SlotRecord, Turn};
use crate::slot::{Fault, Verb};

/// A command that waits until other apps are where they should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    slots: Vec<u16>,
    verb: Verb,
    job: JobId,
    /// At a start: the commands of those of `slots` that another command than `job` starts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    jobs: BTreeMap<u16, JobId>,
    /// At a stop: those of `slots` that were to run before it.
    were_wanted: Vec<u16>,
    /// At a stop: those that waited for a time of `cron_restart`.
    #[serde(default)]
    were_waiting: Vec<u16>,
    /// At a stop: the apps that go first.
    first: BTreeSet<AppId>,
}

/// What becomes of a held command.
enum Verdict {
    Wait,
    Go,
    Fail(Fault),
}

impl Held {
    pub(super) fn waits_for(&self, app: AppId) -> bool {
        self.first.contains(&app)
    }

    fn is_start(&self) -> bool {
        self.verb == Verb::Start
    }

    /// The command that waits for the answer of a slot.
    fn job_of(&self, slot: u16) -> JobId {
        self.jobs.get(&slot).copied().unwrap_or(self.job)
    }

    /// Leaves a slot out; returns the command that waits for its answer.
    fn leave_out(&mut self, slot: u16) -> Option<JobId> {
        let at = self.slots.iter().position(|other| *other == slot)?;
        self.slots.remove(at);
        let job = self.job_of(slot);
        self.jobs.remove(&slot);
        Some(job)
    }
}

impl Turn<'_> {
    /// Has the start of slots wait for other apps. The start of other slots that waits already goes on waiting.
    pub(super) fn hold_start(&mut self, slots: Vec<u16>, job: JobId) {
        self.release_held_of(&slots, Verb::Start);
        if self.app.held.is_none() {
            return self.hold(slots, Verb::Start, job, BTreeSet::new());
        }
        for slot in slots {
            self.hold_also(slot, job);
        }
    }

    /// Has a command wait for other apps.
    pub(super) fn hold(&mut self, slots: Vec<u16>, verb: Verb, job: JobId, first: BTreeSet<AppId>) {
        // What was held before is overtaken by this.
        self.release_held(verb);
        let those = |meant: fn(&SlotRecord) -> bool| {
            let is_meant = |slot: &u16| self.app.slots.get(slot).is_some_and(meant);
            slots.iter().copied().filter(is_meant).collect()
        };
        let were_wanted = those(|record| record.wanted);
        let were_waiting = those(|record| record.waits_for_cron);
        for slot in &slots {
            self.effect(Effect::Owed(job));
            self.note_wanted(*slot, verb == Verb::Start);
        }
        let jobs = BTreeMap::new();
        self.app.held = Some(Held { slots, verb, job, jobs, were_wanted, were_waiting, first });
    }

    /// Whether the command that waits is about every slot that is to stay.
    fn holds_all(&self) -> bool {
        let staying = || self.app.slots.keys().filter(|slot| self.app.stays(**slot));
        self.app.held.as_ref().is_some_and(|held| staying().all(|slot| held.slots.contains(slot)))
    }

    /// Whether the start of this slot, in which nothing runs, waits for other apps.
    pub(super) fn waits_to_start(&self, slot: u16) -> bool {
        let held = self.app.held.as_ref().filter(|held| held.is_start());
        held.is_some_and(|held| held.slots.contains(&slot))
    }

    /// Another command removes a slot: the command that waits leaves this slot out.
    pub(super) fn hold_no_more(&mut self, slot: u16) {
        let job = self.app.held.as_mut().and_then(|held| held.leave_out(slot));
        job.into_iter().for_each(|job| self.settled(job));
        self.app.held.take_if(|held| held.slots.is_empty());
    }

    /// The command that waits is about this slot as well, in which nothing runs; `job` waits for its answer.
    pub(super) fn hold_also(&mut self, slot: u16, job: JobId) {
        let Some(held) = &mut self.app.held else { return };
        held.slots.push(slot);
        if job != held.job {
            held.jobs.insert(slot, job);
        }
        let is_start = held.is_start();
        self.effect(Effect::Owed(job));
        self.note_wanted(slot, is_start);
    }

    /// The command that waits, to which new workers are added.
    pub(super) fn held_job(&self) -> Option<JobId> {
        // A start waits for all that are added: their dependencies are the same.
        let held = self.app.held.as_ref().filter(|held| held.is_start() || self.holds_all())?;
        // A command that still lacks an answer: others than the first one may be left.
        held.slots.first().map(|slot| held.job_of(*slot))
    }

    /// Another command takes these slots over: the start of others that waits goes on waiting. A stop that waits will not happen.
    pub(super) fn release_held_of(&mut self, slots: &[u16], by: Verb) {
        if !self.app.held.as_ref().is_some_and(Held::is_start) {
            return self.release_held(by);
        }
        for slot in slots {
            let job = self.app.held.as_mut().and_then(|held| held.leave_out(*slot));
            if let Some(job) = job {
                self.fail_slot(job, *slot, Fault::Cancelled { by });
            }
        }
        let stays = |slot: &u16| self.app.slots.contains_key(slot);
        if !self.app.held.as_ref().is_some_and(|held| held.slots.iter().any(stays)) {
            self.release_held(by);
        }
    }

    /// Another command takes the app over: what waits will not happen.
    pub(super) fn release_held(&mut self, by: Verb) {
        if let Some(held) = self.app.held.take() {
            if !held.is_start() {
                // They were not stopped, and run on.
                held.were_wanted.iter().for_each(|slot| self.note_wanted(*slot, true));
                held.were_waiting.iter().for_each(|slot| self.wait_for_cron(*slot));
            }
            self.fail_held(&held, &Fault::Cancelled { by });
        }
    }

    fn fail_held(&mut self, held: &Held, fault: &Fault) {
        for slot in &held.slots {
            self.fail_slot(held.job_of(*slot), *slot, fault.clone());
        }
    }

    fn fail_slot(&mut self, job: JobId, slot: u16, fault: Fault) {
        self.effect(Effect::Failed(job, Some(slot), fault));
        self.settled(job);
    }

    /// Asks what can be asked by now.
    pub(super) fn try_held(&mut self) {
        let verdict = self.app.held.as_ref().map_or(Verdict::Wait, |held| self.judge(held));
        let held = match verdict {
            Verdict::Wait => return,
            Verdict::Go | Verdict::Fail(_) => self.app.held.take(),
        };
        let Some(held) = held else { return };
        if let Verdict::Fail(fault) = verdict {
            return self.fail_held(&held, &fault);
        }
        if !held.is_start() {
            self.cancel_reloads(held.verb);
        }
        for slot in &held.slots {
            let job = held.job_of(*slot);
            if self.app.slots.contains_key(slot) {
                self.order(*slot, held.verb, Asked::Job(job, held.verb));
            } else if held.is_start() {
                // It went while the command waited, and would never answer.
                self.fail_slot(job, *slot, Fault::Deleting);
            } else {
                self.settled(job);
            }
        }
    }

    fn judge(&self, held: &Held) -> Verdict {
        let others = self.context.others;
        // An app that another command has start again is not waited for: it may run for ever.
        let mut waits = others.iter().any(|other| held.waits_for(other.id) && other.is_ending);
        if held.is_start() {
            for name in &self.app.spec.depends_on {
                let other = others.iter().find(|other| other.name == *name);
                match other.map_or(Readiness::Failed, |other| other.readiness) {
                    Readiness::Ready => {}
                    Readiness::Coming => waits = true,
                    Readiness::Failed => {
                        return Verdict::Fail(Fault::DependencyFailed { name: name.to_string() });
                    }
                }
            }
        }
        if waits { Verdict::Wait } else { Verdict::Go }
    }
}
