//! Clients' requests, as events of supervisors.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use forkful_core::scale::ScaleTarget;
use forkful_core::slot;
use forkful_core::spec::{AppSpec, RunningSince, may_stay};
use forkful_core::supervisor::{
    AppId, AppSupervisor, Event, FirstStates, JobId, ReloadOrder, Whom, dependents_of,
};
use forkful_core::upkeep::{needs, order};

use super::App;
use crate::definition::{APPS, Definition, name};
use crate::net::Primary;
use crate::script::{ClientAction, Target};
use crate::world::World;

impl World {
    /// A client starts apps: new ones, and those that exist and are at rest.
    pub(crate) fn start(&mut self, definitions: &[Definition], wait: bool) {
        let request = self.clients.ask();
        self.start_all(request, definitions.iter().map(Definition::spec).collect(), wait);
    }

    fn start_all(&mut self, request: usize, specs: Vec<AppSpec>, wait: bool) {
        let at_rest = |spec: &AppSpec| {
            let id = self.daemon.find(&spec.name)?;
            self.daemon.apps[&id].supervisor.is_at_rest().then_some(id)
        };
        if let Some(refusal) = self.lacks(&specs) {
            return self.reply(request, refusal);
        }
        let known = specs.iter().filter_map(|spec| Some((at_rest(spec)?, spec.clone())));
        let mut known: BTreeMap<AppId, AppSpec> = known.collect();
        let new: Vec<AppSpec> = specs.iter().filter(|spec| at_rest(spec).is_none()).cloned().collect();
        if let Some(refusal) = self.refusal(&new) {
            return self.reply(request, refusal);
        }
        specs.iter().for_each(|spec| self.note_change_of(&spec.name));
        let job = self.new_job(wait.then_some(request));
        let slots = |id: &AppId| (*id, self.daemon.apps[id].places.iter().copied().collect());
        let selection = known.keys().map(slots).collect();
        for (app, slots) in self.in_order(selection) {
            self.watch.forget_order(app);
            self.watch.forget_hour(app, &slots);
            let spec = known.remove(&app).map(Rc::new);
            self.command_to(app, slots, ClientAction::Restart, spec, job);
        }
        for spec in new {
            self.create(spec, job, FirstStates::default());
        }
        if !wait {
            self.reply(request, "begun");
        }
        self.finish_jobs();
    }

    /// Why new apps cannot be created.
    pub(super) fn refusal(&self, specs: &[AppSpec]) -> Option<&'static str> {
        let is_known = specs.iter().any(|spec| self.daemon.is_known(&spec.name));
        is_known.then_some("refused: an app of this name exists")
    }

    /// Whether an app that is not deleted depends on an app whose workers would all be deleted.
    pub(super) fn keeps(&self, selection: &BTreeMap<AppId, Vec<u16>>) -> bool {
        let whole = selection.iter().filter_map(|(app, slots)| {
            let entry = self.daemon.apps.get(app).filter(|entry| entry.places.len() == slots.len())?;
            Some(entry.supervisor.spec().name.to_string())
        });
        let existing = self.daemon.apps.values().map(|entry| order::needs_of(entry.supervisor.spec()));
        needs::check(existing, [], &whole.collect()).is_err()
    }

    /// Why apps cannot be started or changed because of their dependencies.
    pub(super) fn lacks<'a>(&self, wanted: impl IntoIterator<Item = &'a AppSpec>) -> Option<&'static str> {
        let existing = self.daemon.apps.values().map(|entry| order::needs_of(entry.supervisor.spec()));
        let fault = needs::check(existing, wanted.into_iter().map(order::needs_of), &BTreeSet::new()).err();
        fault.map(|_| "refused: a dependency of an app is missing")
    }

    pub(super) fn create(&mut self, spec: AppSpec, job: JobId, first: FirstStates) {
        self.daemon.next_app += 1;
        let id = AppId(self.daemon.next_app);
        if !spec.depends_on.is_empty() {
            self.watch.waits_for_needed.insert(id);
        }
        let all = if first.stopped.is_none() && spec.starts_by_cron() { 0..spec.instances } else { 0..0 };
        all.chain(first.waits_for_cron.iter().copied()).for_each(|slot| self.watch.await_hour(id, slot));
        let seed = self.daemon.chance.bits();
        self.net.primaries.insert(id, Primary::new(&spec));
        self.daemon.apps.insert(id, App::new(AppSupervisor::new(spec, seed)));
        self.supervise(id, Event::Create { first, job });
    }

    /// A client sends a command for apps.
    pub(crate) fn command(
        &mut self,
        verb: ClientAction,
        target: Target,
        change: Option<Definition>,
        wait: bool,
    ) {
        let request = self.clients.ask();
        let selection = self.select(target);
        if selection.is_empty() {
            return match change {
                Some(change) => self.start_all(request, vec![change.spec()], wait),
                None => self.reply(request, "refused: there is no such app"),
            };
        }
        if let ClientAction::Scale(instances) = verb
            && !selection.keys().all(|app| self.may_scale(*app, instances))
        {
            return self.reply(request, "refused: more workers than an app may have");
        }
        if verb == ClientAction::Delete && self.keeps(&selection) {
            return self.reply(request, "refused: another app depends on it");
        }
        for app in selection.keys() {
            let name = self.daemon.apps[app].supervisor.spec().name.clone();
            self.note_change_of(&name);
        }
        let spec = change.map(|change| Rc::new(change.spec()));
        if let Some(refusal) = self.lacks(spec.as_deref()) {
            return self.reply(request, refusal);
        }
        let job = self.new_job(wait.then_some(request));
        if !matches!(verb, ClientAction::Scale(_) | ClientAction::Reset) {
            selection.iter().for_each(|(app, slots)| self.watch.forget_hour(*app, slots));
        }
        match verb {
            ClientAction::Stop => self.stop_in_order(selection, slot::Verb::Stop, job),
            ClientAction::Delete => self.stop_in_order(selection, slot::Verb::Delete, job),
            ClientAction::Restart | ClientAction::Reload | ClientAction::Scale(_) | ClientAction::Reset => {
                for (app, slots) in self.in_order(selection) {
                    self.watch.forget_order(app);
                    self.command_to(app, slots, verb, spec.clone(), job);
                }
            }
        }
        if !wait {
            self.reply(request, "begun");
        }
        self.finish_jobs();
    }

    fn command_to(
        &mut self,
        app: AppId,
        slots: Vec<u16>,
        verb: ClientAction,
        spec: Option<Rc<AppSpec>>,
        job: JobId,
    ) {
        match verb {
            ClientAction::Stop | ClientAction::Delete => {}
            ClientAction::Restart => {
                self.watch.excuse_all(app);
                self.supervise(app, Event::Restart { slots, spec, job });
            }
            ClientAction::Reload if self.may_stay(app, spec.as_deref()) => {
                let instances = spec.map_or(1, |spec| spec.instances);
                self.supervise(app, Event::ScaleAsDefined { instances, job });
            }
            ClientAction::Reload => {
                let several = self.daemon.apps.get(&app).is_some_and(|entry| entry.places.len() > 1);
                let whom = match slots.as_slice() {
                    [slot] if several => Whom::Slot(*slot),
                    _ => Whom::All,
                };
                self.supervise(app, Event::Reload(ReloadOrder { job: Some(job), spec, whom }));
            }
            ClientAction::Scale(instances) => {
                self.supervise(app, Event::Scale { instances, job });
            }
            ClientAction::Reset => {
                for slot in slots {
                    self.watch.note_counters(app, slot, (0, 0));
                    self.feed(app, slot, slot::Event::Reset);
                }
            }
        }
    }

    fn may_scale(&self, app: AppId, instances: u16) -> bool {
        let Some(entry) = self.daemon.apps.get(&app) else { return false };
        let AppSpec { instances: from, autoscale, .. } = **entry.supervisor.spec();
        ScaleTarget::Exactly(instances).resolve(from, 1, autoscale).is_ok()
    }

    /// Whether a reload with a configuration file leaves an app as it is.
    fn may_stay(&self, app: AppId, spec: Option<&AppSpec>) -> bool {
        let entry = self.daemon.apps.get(&app);
        entry.zip(spec).is_some_and(|(entry, spec)| {
            may_stay(entry.supervisor.spec(), spec, running_since(&entry.supervisor))
        })
    }

    /// Slots removed by a scale-down need not serve.
    pub(super) fn excuse_leaving(&mut self, app: AppId) {
        let Some(entry) = self.daemon.apps.get(&app) else { return };
        for slot in entry.supervisor.slots().keys() {
            if !entry.supervisor.stays(*slot) {
                self.watch.excuse(app, *slot);
            }
        }
    }

    pub(super) fn stop_in_order(
        &mut self,
        selection: BTreeMap<AppId, Vec<u16>>,
        verb: slot::Verb,
        job: JobId,
    ) {
        let chosen: Vec<AppId> = selection.keys().copied().collect();
        for (app, slots) in selection {
            let first: BTreeSet<AppId> = dependents_of(&self.daemon.apps, app, &chosen);
            self.watch.forget_order(app);
            if first.is_empty() {
                slots.iter().for_each(|slot| self.watch.excuse(app, *slot));
            } else {
                self.watch.excuse_all(app);
                self.watch.stops_after.insert(app, first.clone());
            }
            self.supervise(app, Event::Stop { slots, verb, first, job });
        }
    }

    fn select(&self, target: Target) -> BTreeMap<AppId, Vec<u16>> {
        let slots = |app: usize| {
            let id = self.daemon.find(&name(app))?;
            Some((id, self.daemon.apps.get(&id)?.places.iter().copied().collect::<Vec<u16>>()))
        };
        match target {
            Target::All => (0..APPS).filter_map(slots).collect(),
            Target::App(app) => slots(app).into_iter().collect(),
            Target::Slot(app, number) => {
                let one = slots(app).and_then(|(id, slots)| {
                    let slot = slots.get(usize::from(number) % slots.len().max(1))?;
                    Some((id, vec![*slot]))
                });
                one.into_iter().collect()
            }
        }
    }

    fn in_order(&self, selection: BTreeMap<AppId, Vec<u16>>) -> Vec<(AppId, Vec<u16>)> {
        let mut selection: Vec<_> = selection.into_iter().collect();
        if selection.len() > 1 {
            order::sort_by_needs(&mut selection, |(app, _)| {
                let entry = self.daemon.apps.get(app);
                entry.map(|entry| order::needs_of(entry.supervisor.spec())).unwrap_or_default()
            });
        }
        selection
    }

    /// Workers are replaced without a client's request.
    pub(crate) fn renew(&mut self, app: usize, slot: Option<u16>) {
        let Some(id) = self.daemon.find(&name(app)) else { return };
        self.watch.forget_order(id);
        let Some(slot) = slot else {
            return self.supervise(id, Event::FilesChanged("app.js changed".to_owned()));
        };
        let is_there = self.daemon.apps.get(&id).is_some_and(|entry| entry.places.contains(&slot));
        if is_there {
            let order = ReloadOrder { job: None, spec: None, whom: Whom::Slot(slot) };
            self.supervise(id, Event::Reload(order));
        }
    }
}

/// The code of an app is older than its processes, if all of its workers serve.
pub(super) fn running_since(app: &AppSupervisor) -> RunningSince {
    let all_serve = app.slots().values().all(|record| matches!(record.slot.state, slot::State::Online(_)));
    RunningSince { oldest_start_ms: all_serve.then_some(2), code_changed_ms: Some(1) }
}
