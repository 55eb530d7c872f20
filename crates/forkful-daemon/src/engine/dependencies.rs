//! Apps that need each other: one that depends on others is started when they are ready, and they are
//! stopped when it is gone.

use std::collections::{BTreeMap, BTreeSet};

use forkful_api::types::{ErrorCode, ErrorReply};
use forkful_core::slot::{Event, Exit, Fault, State, Verb as SlotVerb};
use forkful_core::spec::AppSpec;
use forkful_core::upkeep::order;

use super::app::{App, AppId};
use super::commands::refuse;
use super::jobs::{Failure, JobId};
use super::{Engine, TicketUse};

/// Something that is asked of an app's slots as soon as others are where they should be.
#[derive(Debug)]
pub(crate) struct Held {
    slots: Vec<u16>,
    verb: SlotVerb,
    job: JobId,
    /// At a stop: the apps that go first.
    first: BTreeSet<AppId>,
}

/// How far a dependency is.
#[derive(PartialEq, Eq)]
enum Readiness {
    Ready,
    Coming,
    Failed,
}

impl Engine {
    /// Whether apps can be started or get another definition: the apps that they depend on exist or are among them, and
    /// none waits for itself.
    pub(crate) fn check_dependencies<'a>(
        &self,
        specs: impl Iterator<Item = &'a AppSpec> + Clone,
    ) -> Result<(), ErrorReply> {
        let old = self.apps.values().map(|entry| order::needs_of(&entry.spec));
        let needs: BTreeMap<String, Vec<String>> = old.chain(specs.clone().map(order::needs_of)).collect();
        for spec in specs {
            if let Some(missing) = spec.depends_on.iter().find(|name| !needs.contains_key(name.as_str())) {
                let error = format!("`{}` depends on `{missing}`, and there is no such app", spec.name);
                let hint = format!("start `{missing}` first, or in the same file");
                return Err(refuse(ErrorCode::BadRequest, &error, Some(hint)));
            }
        }
        let circle = order::in_groups(&needs).err();
        circle.map_or(Ok(()), |circle| Err(refuse(ErrorCode::BadRequest, &circle.to_string(), None)))
    }

    /// Starts slots of a new app as soon as what it depends on is ready.
    pub(crate) fn start_in_order(&mut self, app: AppId, slots: Vec<u16>, job: JobId) {
        let depends = self.apps.get(&app).is_some_and(|entry| !entry.spec.depends_on.is_empty());
        if depends {
            self.hold(app, Held { slots, verb: SlotVerb::Start, job, first: BTreeSet::new() });
        } else {
            self.ask_all(app, &slots, SlotVerb::Start, job);
        }
    }

    /// The same apps, each after those that it depends on.
    pub(crate) fn in_order(&self, selection: BTreeMap<AppId, Vec<u16>>) -> Vec<(AppId, Vec<u16>)> {
        let mut selection: Vec<_> = selection.into_iter().collect();
        order::sort_by_needs(&mut selection, |(app, _)| {
            self.apps.get(app).map(|entry| order::needs_of(&entry.spec)).unwrap_or_default()
        });
        selection
    }

    /// Restarts slots; an app that does not run waits for those that it depends on and that are on their way.
    pub(crate) fn restart_in_order(&mut self, app: AppId, slots: Vec<u16>, job: JobId) {
        let waits = self.apps.get(&app).is_some_and(|entry| {
            let others = self.apps.values().filter(|other| entry.spec.depends_on.contains(&other.spec.name));
            entry.is_at_rest() && others.map(readiness).any(|readiness| readiness == Readiness::Coming)
        });
        if waits {
            self.hold(app, Held { slots, verb: SlotVerb::Start, job, first: BTreeSet::new() });
        } else {
            self.ask_all(app, &slots, SlotVerb::Restart, job);
        }
    }

    /// Stops or deletes slots of several apps, those that depend on others first.
    pub(crate) fn stop_in_order(&mut self, selection: Vec<(AppId, Vec<u16>)>, verb: SlotVerb, job: JobId) {
        let chosen: Vec<AppId> = selection.iter().map(|(app, _)| *app).collect();
        for (app, slots) in selection {
            self.join(job, app);
            let first = self.dependents(app, &chosen);
            if first.is_empty() {
                self.release_starts(app, verb);
                self.ask_all(app, &slots, verb, job);
            } else {
                self.hold(app, Held { slots, verb, job, first });
            }
        }
    }

    /// Which of these apps run and depend on this one.
    fn dependents(&self, app: AppId, among: &[AppId]) -> BTreeSet<AppId> {
        let Some(name) = self.apps.get(&app).map(|entry| &entry.spec.name) else { return BTreeSet::new() };
        let depends = |id: &AppId| {
            let entry = self.apps.get(id);
            *id != app
                && entry.is_some_and(|entry| entry.spec.depends_on.contains(name) && !entry.is_at_rest())
        };
        among.iter().copied().filter(depends).collect()
    }

    fn hold(&mut self, app: AppId, held: Held) {
        // What was held before is overtaken by this.
        self.release_starts(app, held.verb);
        for _ in &held.slots {
            self.expect_answer(held.job, app);
        }
        for slot in &held.slots {
            self.note_wanted(app, *slot, held.verb == SlotVerb::Start);
        }
        if let Some(entry) = self.apps.get_mut(&app) {
            entry.held = Some(held);
            self.holds_some = true;
        }
    }

    /// Another command takes an app over: a start that waits will not happen.
    pub(crate) fn release_starts(&mut self, app: AppId, by: SlotVerb) {
        let held = self.apps.get_mut(&app).and_then(|entry| entry.held.take());
        if let Some(held) = held {
            self.fail_held(app, held, &Fault::Cancelled { by });
        }
    }

    fn fail_held(&mut self, app: AppId, held: Held, fault: &Fault) {
        for slot in held.slots {
            let pm_id =
                self.apps.get(&app).and_then(|entry| entry.places.get(&slot)).map(|place| place.pm_id);
            if let (Some(part), Some(pm_id)) = (self.part(held.job, app), pm_id) {
                part.failures.push(Failure { pm_id, fault: fault.clone(), listen_fault: None });
            }
            self.answered(held.job);
        }
    }

    /// Asks what can be asked by now; says whether anything was.
    pub(crate) fn go_on_with_held(&mut self) -> bool {
        if !self.holds_some {
            return false;
        }
        let holding: Vec<AppId> =
            self.apps.iter().filter(|(_, entry)| entry.held.is_some()).map(|(id, _)| *id).collect();
        self.holds_some = !holding.is_empty();
        let mut any = false;
        for app in holding {
            any |= self.try_held(app);
        }
        any
    }

    fn try_held(&mut self, app: AppId) -> bool {
        let Some(entry) = self.apps.get(&app) else { return false };
        let Some(held) = &entry.held else { return false };
        let waits = held.first.iter().any(|id| self.apps.get(id).is_some_and(|other| !other.is_at_rest()));
        let mut failed = None;
        let mut coming = waits;
        if held.verb == SlotVerb::Start {
            for name in &entry.spec.depends_on {
                let other = self.apps.values().find(|other| other.spec.name == *name);
                match other.map_or(Readiness::Failed, readiness) {
                    Readiness::Ready => {}
                    Readiness::Coming => coming = true,
                    Readiness::Failed => failed = Some(name.to_string()),
                }
            }
        }
        if coming && failed.is_none() {
            return false;
        }
        let Some(held) = self.apps.get_mut(&app).and_then(|entry| entry.held.take()) else { return false };
        if let Some(name) = failed {
            self.fail_held(app, held, &Fault::DependencyFailed { name });
            return true;
        }
        for slot in held.slots {
            let ticket = self.new_ticket(TicketUse::Job(held.job));
            self.note_asked(ticket, held.verb);
            self.feed(app, slot, Event::Command(held.verb, ticket));
        }
        true
    }
}

fn readiness(entry: &App) -> Readiness {
    if entry.held.is_some() {
        return Readiness::Coming;
    }
    let mut coming = false;
    for place in entry.places.values() {
        match &place.slot.state {
            State::Online(_) | State::Replacing { .. } => {}
            // A job that has done its work, such as a migration, is what others have waited for.
            State::Stopped { last_exit: Some(Exit::Code(0)) } if place.wanted => {}
            State::Stopped { .. } | State::Failed { .. } => return Readiness::Failed,
            State::Starting { .. } | State::Stopping { .. } | State::Backoff { .. } => coming = true,
        }
    }
    if coming { Readiness::Coming } else { Readiness::Ready }
}
