//! `forkful apply` in the simulated daemon: performs a plan of `forkful_core::apply`, one command after the
//! other.

use std::collections::BTreeSet;
use std::rc::Rc;

use forkful_core::apply::{Action, Apply, Became, Change, Existing, Order, Step, Version, change};
use forkful_core::slot::Verb;
use forkful_core::spec::{AppName, AppSpec, Mode, RunningSince};
use forkful_core::supervisor::{AppId, Event, FirstStates, JobId, ReloadOrder, Whom};
use forkful_core::upkeep::order;

use super::jobs::Job;
use crate::definition::Definition;
use crate::plant::Plant;
use crate::queue::Happening;
use crate::watch::Invariant;
use crate::world::World;

/// An app of a plan.
#[derive(Debug, Clone)]
struct Planned {
    name: AppName,
    /// Its new definition, or its current one if it will be deleted.
    wanted: Rc<AppSpec>,
    /// Its previous definition, if it existed.
    before: Option<Rc<AppSpec>>,
}

/// A plan in progress.
#[derive(Debug)]
pub(crate) struct Applying {
    plan: Apply<Planned>,
    request: usize,
    /// The command of the current step.
    job: Option<JobId>,
    current: Option<Action<Planned>>,
    /// The apps that it changes.
    names: BTreeSet<AppName>,
    /// No other command has changed these apps since.
    is_alone: bool,
    /// Every change that had to be rolled back was rolled back.
    is_whole: bool,
}

impl World {
    /// A client applies a configuration file.
    pub(crate) fn apply(&mut self, definitions: &[Definition], prune: bool) {
        let request = self.clients.ask();
        let mut wanted: Vec<AppSpec> = definitions.iter().map(Definition::spec).collect();
        let is_there = |name: &AppName| {
            !prune && self.daemon.find(name).is_some() || wanted.iter().any(|w| w.name == *name)
        };
        if !wanted.iter().flat_map(|spec| &spec.depends_on).all(is_there) {
            return self.reply(request, "refused: an app that one depends on is not there");
        }
        order::sort_by_needs(&mut wanted, order::needs_of);
        let mut steps: Vec<Step<Planned>> = wanted.into_iter().map(|spec| self.step_for(spec)).collect();
        if prune {
            let named: BTreeSet<AppName> = steps.iter().map(|step| step.app.name.clone()).collect();
            steps.extend(self.removals(&named));
        }
        let is_taken = |step: &Step<Planned>| {
            let names = self.daemon.applies.iter().any(|other| other.names.contains(&step.app.name));
            // An app that is only saved counts as existing.
            names || step.app.before.is_none() && self.daemon.is_known(&step.app.name)
        };
        if steps.iter().any(is_taken) {
            return self.reply(request, "refused: somebody else is changing one of the apps");
        }
        let changes = steps.iter().filter(|step| step.change != Change::Keep);
        let names: BTreeSet<AppName> = changes.map(|step| step.app.name.clone()).collect();
        names.iter().for_each(|name| self.note_change_of(name));
        // A command in progress determines its app's state.
        let is_busy = |name: &AppName| {
            let entry = self.daemon.find(name).and_then(|id| self.daemon.apps.get(&id));
            entry.is_some_and(|entry| {
                let supervisor = &entry.supervisor;
                let goes = supervisor.slots().values().any(|record| record.slot.is_going());
                goes || supervisor.is_reloading() || supervisor.waits_for_others()
            })
        };
        let is_alone = !names.iter().any(is_busy);
        let plan = Apply::new(steps);
        let (job, current) = (None, None);
        let applying = Applying { plan, request, job, current, names, is_alone, is_whole: true };
        self.daemon.applies.push(applying);
        self.plan_step(request);
    }

    /// Each step is a command of its own, queued behind earlier ones.
    fn plan_step(&mut self, request: usize) {
        let after = self.dice.micros(10, 500);
        self.after(after, Happening::NextStep(request));
    }

    fn step_for(&self, spec: AppSpec) -> Step<Planned> {
        let entry = self.daemon.find(&spec.name).and_then(|id| self.daemon.apps.get(&id));
        let before = entry.map(|entry| Rc::clone(entry.supervisor.spec()));
        let existing = entry.map(|entry| Existing {
            spec: entry.supervisor.spec(),
            is_at_rest: entry.supervisor.is_at_rest(),
            since: RunningSince { oldest_start_ms: Some(2), code_changed_ms: Some(1) },
        });
        let change = change(existing, &spec);
        let app = Planned { name: spec.name.clone(), wanted: Rc::new(spec), before };
        Step { existed: app.before.is_some(), app, change }
    }

    fn removals(&self, named: &BTreeSet<AppName>) -> Vec<Step<Planned>> {
        let specs = self.daemon.apps.values().map(|entry| Rc::clone(entry.supervisor.spec()));
        let removal = |spec: Rc<AppSpec>| {
            let app = Planned { name: spec.name.clone(), wanted: Rc::clone(&spec), before: Some(spec) };
            Step { app, change: Change::Remove, existed: true }
        };
        specs.filter(|spec| !named.contains(&spec.name)).map(removal).collect()
    }

    /// Another command changes an app: then its state is no longer determined by the plan alone.
    pub(crate) fn note_change_of(&mut self, name: &AppName) {
        for applying in &mut self.daemon.applies {
            applying.is_alone &= !applying.names.contains(name);
        }
    }

    /// The command of a plan's step has all its answers.
    pub(super) fn end_step(&mut self, id: JobId, job: &Job) {
        let mut all = self.daemon.applies.iter_mut();
        let Some(applying) = all.find(|applying| applying.job == Some(id)) else { return };
        if let Some(Action::Do(step) | Action::Undo(step)) = &applying.current {
            let became = Became {
                is_done: job.faults == 0,
                replaced_some: job.answered > 0,
                forks: step.app.wanted.mode == Mode::Fork,
            };
            applying.is_whole &= matches!(applying.current, Some(Action::Do(_))) || became.is_done;
            let outcome = became.outcome(step.change);
            applying.plan.done(outcome);
        }
        let request = applying.request;
        self.plan_step(request);
    }

    /// Begins the next step of a plan. Returns whether this request has one.
    pub(crate) fn go_on_with_plan(&mut self, request: usize) -> bool {
        let is_its = |applying: &Applying| applying.request == request;
        let Some(at) = self.daemon.applies.iter().position(is_its) else { return false };
        let applying = &mut self.daemon.applies[at];
        applying.current = applying.plan.advance();
        let Some(action) = applying.current.clone() else {
            let applying = self.daemon.applies.remove(at);
            self.check_applied(&applying);
            self.reply_when_saved(applying.request);
            return true;
        };
        let job = self.new_job(None);
        self.daemon.applies[at].job = Some(job);
        let (Action::Do(step) | Action::Undo(step)) = &action;
        self.trace(|| format!("      apply: {} → {:?}", step.app.name, action.order()));
        if matches!(action, Action::Do(_)) || !self.plants(Plant::NotTakenBack) {
            self.carry_out(action.order(), &step.app.clone(), job);
        }
        true
    }

    fn carry_out(&mut self, order: Order, app: &Planned, job: JobId) {
        let version = |version| match version {
            Version::Wanted => Some(Rc::clone(&app.wanted)),
            Version::Before => app.before.clone(),
        };
        let Some(id) = self.daemon.find(&app.name) else {
            let refused = self.refusal(std::slice::from_ref(&*app.wanted)).is_some();
            match order {
                Order::Start if !refused => self.create((*app.wanted).clone(), job, FirstStates::default()),
                // An app that was never created is gone.
                Order::Delete => {}
                Order::Start | Order::Stop | Order::Scale(_) | Order::Reload(_) => self.fail_job(job),
            }
            return;
        };
        let slots: Vec<u16> = self.daemon.apps[&id].places.iter().copied().collect();
        let is_at_rest = self.daemon.apps[&id].supervisor.is_at_rest();
        self.watch.forget_order(id);
        match order {
            Order::Start if is_at_rest => {
                self.watch.excuse_all(id);
                self.supervise(id, Event::Restart { slots, spec: version(Version::Wanted), job });
            }
            Order::Start => self.fail_job(job),
            Order::Stop => self.stop_in_order([(id, slots)].into(), Verb::Stop, job),
            Order::Delete => self.stop_in_order([(id, slots)].into(), Verb::Delete, job),
            Order::Scale(of) => {
                let instances = version(of).map_or(1, |spec| spec.instances);
                self.supervise(id, Event::Scale { instances, job });
            }
            Order::Reload(of) => {
                let order = ReloadOrder { job: Some(job), spec: version(of), whom: Whom::All };
                self.supervise(id, Event::Reload(order));
            }
        }
    }

    /// An apply changes all apps as the file says, or leaves them unchanged.
    fn check_applied(&mut self, applying: &Applying) {
        let Applying { plan, is_alone: true, is_whole: true, .. } = applying else { return };
        let spec_of = |name: &AppName| {
            let id: Option<AppId> = self.daemon.find(name);
            id.map(|id| Rc::clone(self.daemon.apps[&id].supervisor.spec()))
        };
        for step in plan.steps() {
            let meant = match (plan.has_failed(), step.change) {
                (_, Change::Keep) => continue,
                // The workers are stopped again; the definition is not rolled back.
                (true, Change::Start) if step.existed => continue,
                (true, _) => step.app.before.clone(),
                (false, Change::Remove) => None,
                (false, Change::Start | Change::Reload | Change::Scale) => Some(Rc::clone(&step.app.wanted)),
            };
            let is = spec_of(&step.app.name);
            if is != meant {
                let brief = |spec: Option<Rc<AppSpec>>| {
                    spec.map(|spec| format!("{:?} with {} workers", spec.launch.args, spec.instances))
                };
                let (is, meant) = (brief(is), brief(meant));
                let seen = format!("{} ({:?}): {is:?} instead of {meant:?}", step.app.name, step.change);
                return self.watch.fail(Invariant::AppliesWhole, seen);
            }
        }
    }
}
