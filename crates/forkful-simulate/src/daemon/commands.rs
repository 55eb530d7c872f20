//! Clients' requests, as events of supervisors.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use forkful_core::request::{
    Definitions, ExistingApp, Refusal, Selection, as_started, check_deletion, in_order, select,
};
use forkful_core::scale::ScaleTarget;
use forkful_core::spec::{AppName, AppSpec, RunningSince, may_stay};
use forkful_core::start::{Identity, Step, steps};
use forkful_core::supervisor::{
    AppId, AppSupervisor, Event, FirstStates, JobId, ReloadOrder, Whom, dependents_of,
};
use forkful_core::{slot, targets};

use super::App;
use crate::definition::{Definition, name};
use crate::net::Primary;
use crate::script::{ClientAction, Target};
use crate::world::World;

impl World {
    /// A client starts apps: new ones, and those that exist, as their definitions say.
    pub(crate) fn start(&mut self, definitions: &[Definition], wait: bool) {
        let request = self.clients.ask();
        let specs: Vec<AppSpec> = definitions.iter().map(Definition::spec).collect();
        let wanted: Vec<_> =
            specs.iter().zip(definitions).map(|(spec, of)| (Identity::from(spec), of.if_running())).collect();
        let Ok(steps) = steps(&wanted, |name| as_started(&self.daemon.apps, name)) else {
            return self.reply(request, "refused: two apps would have the same name");
        };
        let (mut known, mut new) = (BTreeMap::new(), Vec::new());
        for (spec, step) in specs.into_iter().zip(steps) {
            match step {
                Step::New(_) => new.push(spec),
                Step::Again { .. } => {
                    known.extend(self.daemon.find(&spec.name).map(|app| (app, Rc::new(spec))));
                }
                Step::Left | Step::Refused(_) => {}
            }
        }
        if known.is_empty() && new.is_empty() {
            return self.reply(request, "nothing is to be started");
        }
        self.start_all(request, known, new, wait);
    }

    fn start_all(
        &mut self,
        request: usize,
        mut known: BTreeMap<AppId, Rc<AppSpec>>,
        new: Vec<AppSpec>,
        wait: bool,
    ) {
        if let Some(refusal) = self.refusal(&known, &new) {
            return self.reply(request, refusal);
        }
        let names = known.values().map(|spec| &spec.name).chain(new.iter().map(|spec| &spec.name));
        let names: Vec<AppName> = names.cloned().collect();
        names.iter().for_each(|name| self.note_change_of(name));
        let job = self.new_job(wait.then_some(request));
        let slots = |id: &AppId| (*id, self.daemon.apps[id].places.iter().copied().collect());
        let selection = known.keys().map(slots).collect();
        for (app, slots) in in_order(&self.daemon.apps, selection) {
            self.watch.forget_order(app);
            self.watch.forget_hour(app, &slots);
            let spec = known.remove(&app);
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

    /// Why apps cannot be made or changed.
    pub(super) fn refusal(
        &self,
        changed: &BTreeMap<AppId, Rc<AppSpec>>,
        new: &[AppSpec],
    ) -> Option<&'static str> {
        // A saved app that is about to be started again has its name.
        if new.iter().any(|spec| self.daemon.is_known(&spec.name)) {
            return Some("refused: an app of this name exists");
        }
        let whole = changed.keys().copied().collect();
        let refused = Definitions { changed, whole: &whole, new }.check(&self.daemon.apps).err()?;
        Some(match refused {
            Refusal::Needs(_) => "refused: a dependency of an app is missing",
            Refusal::Exists(_) | Refusal::Taken(_) | Refusal::Needed { .. } => {
                "refused: another app has the name, or depends on it"
            }
            Refusal::DefinedTwice | Refusal::NamedTwice(_) => "refused: two apps would have the same name",
        })
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
        self.net.primaries.insert(id, Primary::new(&spec, self.has_keeper()));
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
                Some(change) => self.start_all(request, BTreeMap::new(), vec![change.spec()], wait),
                None => self.reply(request, "refused: there is no such app"),
            };
        }
        if let ClientAction::Scale(instances) = verb
            && !selection.keys().all(|app| self.may_scale(*app, instances))
        {
            return self.reply(request, "refused: more workers than an app may have");
        }
        if verb == ClientAction::Delete && check_deletion(&self.daemon.apps, &selection).is_err() {
            return self.reply(request, "refused: another app depends on it");
        }
        for app in selection.keys() {
            let name = self.daemon.apps[app].supervisor.spec().name.clone();
            self.note_change_of(&name);
        }
        let spec = change.map(|change| Rc::new(change.spec()));
        let changed = spec.iter().flat_map(|spec| selection.keys().map(|app| (*app, Rc::clone(spec))));
        if let Some(refusal) = self.refusal(&changed.collect(), &[]) {
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
                for (app, slots) in in_order(&self.daemon.apps, selection) {
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
                let total = self.daemon.apps.get(&app).map_or(0, |entry| entry.places.len());
                let whom = Whom::of(&slots, total);
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

    pub(super) fn stop_in_order(&mut self, selection: Selection, verb: slot::Verb, job: JobId) {
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

    fn select(&self, target: Target) -> Selection {
        let target = match target {
            Target::All => targets::Target::All,
            Target::App(app) => targets::Target::Name(name(app)),
            Target::Slots(app, slots) => {
                let mut both = Selection::new();
                for (id, slots) in slots.iter().flat_map(|slot| self.select(Target::Slot(app, *slot))) {
                    both.entry(id).or_default().extend(slots);
                }
                for slots in both.values_mut() {
                    slots.sort_unstable();
                    slots.dedup();
                }
                return both;
            }
            Target::Slot(app, number) => {
                let entry = self.daemon.find(&name(app)).and_then(|id| self.daemon.apps.get(&id));
                let workers: Vec<u32> =
                    entry.into_iter().flat_map(ExistingApp::places).map(|(_, id)| id).collect();
                match workers.get(usize::from(number) % workers.len().max(1)) {
                    Some(id) => targets::Target::Id(*id),
                    None => return Selection::new(),
                }
            }
        };
        select(&self.daemon.apps, &target, |_| false)
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
