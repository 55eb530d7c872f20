//! Apps that need each other: an app that depends on others is started when they are ready, and is stopped before them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{AppId, Asked, Effect, JobId, Readiness, SlotRecord, Turn};
use crate::slot::{Fault, Verb};

/// A command that waits until other apps are where they should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    slots: Vec<u16>,
    verb: Verb,
    job: JobId,
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
}

impl Turn<'_> {
    /// Whether one of the apps that this one depends on is on its way.
    pub(super) fn needs_one_that_comes(&self) -> bool {
        let needed = |name| self.app.spec.depends_on.contains(name);
        self.context.others.iter().any(|other| needed(&other.name) && other.readiness == Readiness::Coming)
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
        self.app.held = Some(Held { slots, verb, job, were_wanted, were_waiting, first });
    }

    /// Whether the command that waits is about every slot that is to stay.
    pub(super) fn holds_all(&self) -> bool {
        let staying = || self.app.slots.keys().filter(|slot| self.app.stays(**slot));
        self.app.held.as_ref().is_some_and(|held| staying().all(|slot| held.slots.contains(slot)))
    }

    /// Whether a start waits for other apps.
    pub(super) fn waits_to_start(&self) -> bool {
        self.app.held.as_ref().is_some_and(|held| held.verb == Verb::Start)
    }

    /// Another command removes a slot: the command that waits leaves this slot out.
    pub(super) fn hold_no_more(&mut self, slot: u16) {
        let Some(held) = &mut self.app.held else { return };
        let before = held.slots.len();
        held.slots.retain(|other| *other != slot);
        if held.slots.len() < before {
            let job = held.job;
            self.settled(job);
        }
    }

    /// The command that waits is about this slot as well, in which nothing runs.
    pub(super) fn hold_also(&mut self, slot: u16) {
        let Some(held) = &mut self.app.held else { return };
        held.slots.push(slot);
        let (job, is_start) = (held.job, held.verb == Verb::Start);
        self.effect(Effect::Owed(job));
        self.note_wanted(slot, is_start);
    }

    /// Another command takes the app over: what waits will not happen.
    pub(super) fn release_held(&mut self, by: Verb) {
        if let Some(held) = self.app.held.take() {
            if held.verb != Verb::Start {
                // They were not stopped, and run on.
                held.were_wanted.iter().for_each(|slot| self.note_wanted(*slot, true));
                held.were_waiting.iter().for_each(|slot| self.wait_for_cron(*slot));
            }
            self.fail_held(&held, &Fault::Cancelled { by });
        }
    }

    fn fail_held(&mut self, held: &Held, fault: &Fault) {
        for slot in &held.slots {
            self.effect(Effect::Failed(held.job, Some(*slot), fault.clone()));
            self.settled(held.job);
        }
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
        if held.verb != Verb::Start {
            self.cancel_reloads(held.verb);
        }
        for slot in held.slots {
            if self.app.slots.contains_key(&slot) {
                self.command(slot, held.verb, Asked::Job(held.job, held.verb));
            } else {
                // It went while the command waited, and would never answer.
                if held.verb == Verb::Start {
                    self.effect(Effect::Failed(held.job, Some(slot), Fault::Deleting));
                }
                self.settled(held.job);
            }
        }
    }

    fn judge(&self, held: &Held) -> Verdict {
        let others = self.context.others;
        // An app that another command has start again is not waited for: it may run for ever.
        let mut waits = others.iter().any(|other| held.waits_for(other.id) && other.is_ending);
        if held.verb == Verb::Start {
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
