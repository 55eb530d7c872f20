//! `forkful apply` in the simulated daemon: performs a plan of `forkful_core::apply`, one command after the
//! other.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use forkful_core::apply::{
    Action, Apply, Became, Change, Claims, Doing, Existing, Order, Planned, Progress, Version, plan,
};
use forkful_core::request::{Selection, check_deletion};
use forkful_core::slot::Verb;
use forkful_core::spec::{AppName, AppSpec, Mode};
use forkful_core::supervisor::{AppId, Event, FirstStates, JobId, ReloadOrder, Whom};

use super::commands::running_since;
use super::jobs::Job;
use crate::definition::Definition;
use crate::plant::Plant;
use crate::queue::Happening;
use crate::watch::Invariant;
use crate::world::World;

/// An app of a plan; the real daemon's definitions are those that clients send.
type App = Planned<Rc<AppSpec>>;

/// A plan in progress.
#[derive(Debug, Clone)]
pub(crate) struct Applying {
    plan: Apply<App>,
    request: usize,
    /// The command of the current step.
    job: Option<JobId>,
    current: Option<Action<App>>,
    /// The apps that it changes, and with them those that it compared and leaves as they are.
    names: BTreeSet<AppName>,
    touched: BTreeSet<AppName>,
    /// No other command has changed these apps since.
    is_alone: bool,
    /// Every change that had to be rolled back was rolled back.
    is_whole: bool,
    /// A daemon that died had begun it, and its client has left.
    is_resumed: bool,
}

impl World {
    /// A client applies a configuration file.
    pub(crate) fn apply(&mut self, definitions: &[Definition], prune: bool) {
        let request = self.clients.ask();
        let wanted: Vec<AppSpec> = definitions.iter().map(Definition::spec).collect();
        // An app that is only saved counts as existing.
        let is_saved =
            |spec: &AppSpec| self.daemon.find(&spec.name).is_none() && self.daemon.is_known(&spec.name);
        if wanted.iter().any(is_saved) {
            return self.reply(request, "refused: an app of this name is saved");
        }
        let wanted = wanted.into_iter().map(|spec| (spec.clone(), Rc::new(spec))).collect();
        let apps = self.daemon.apps.values().map(|entry| &entry.supervisor);
        let existing = apps.map(|app| Existing {
            spec: app.spec(),
            is_at_rest: app.is_at_rest(),
            since: running_since(app),
        });
        let existing: Vec<Existing<'_>> = existing.collect();
        let Ok(plan) = plan(wanted, &existing, prune, |spec| Rc::new(spec.clone())) else {
            return self.reply(request, "refused: a dependency of an app is missing");
        };
        let supervisor = |name: &AppName| {
            let id = self.daemon.find(name)?;
            self.daemon.apps.get(&id).map(|entry| &entry.supervisor)
        };
        let mut claims = self.daemon.claims.clone();
        if self.plant == Some(Plant::AppliesAtOnce) {
            claims = Claims::default();
        }
        let Ok(names) = claims.claim(&plan, |name| supervisor(name).and_then(Doing::of)) else {
            return self.reply(request, "refused: somebody else is changing one of the apps");
        };
        // A command in progress determines its app's state.
        let is_busy = |name: &AppName| {
            supervisor(name).is_some_and(|app| {
                app.waits_for_others() || app.slots().values().any(|record| record.slot.is_going())
            })
        };
        let is_alone = !plan.steps().iter().any(|step| is_busy(&step.app.name));
        let touched = plan.steps().iter().map(|step| step.app.name.clone()).collect();
        self.daemon.claims = claims;
        // An app that another plan leaves as it is may be changed.
        for other in &mut self.daemon.applies {
            let is_kept = |name: &AppName| other.touched.contains(name) && !other.names.contains(name);
            other.is_alone &= !names.iter().any(is_kept);
        }
        let (job, current) = (None, None);
        let (is_whole, is_resumed) = (true, false);
        let applying =
            Applying { plan, request, job, current, names, touched, is_alone, is_whole, is_resumed };
        self.daemon.applies.push(applying);
        self.plan_step(request);
    }

    /// Continues with the plans of the daemon that died.
    pub(super) fn resume_plans(&mut self, written: Vec<Applying>) {
        for mut before in written {
            let progress = match self.plant {
                Some(Plant::UnwrittenSteps) => without_done(before.plan.progress()),
                _ => before.plan.progress().clone(),
            };
            before.plan = Apply::resume(before.plan.steps().to_vec(), progress);
            self.daemon.claims.resume(&before.plan);
            let request = before.request;
            let applying = Applying { job: None, current: None, is_resumed: true, ..before };
            self.daemon.applies.push(applying);
            self.plan_step(request);
        }
    }

    /// Each step is a command of its own, queued behind earlier ones.
    fn plan_step(&mut self, request: usize) {
        let after = self.dice.micros(10, 500);
        self.after(after, Happening::NextStep(request));
    }

    /// Another command changes an app: then its state is no longer determined by the plan alone.
    pub(crate) fn note_change_of(&mut self, name: &AppName) {
        for applying in &mut self.daemon.applies {
            applying.is_alone &= !applying.touched.contains(name);
        }
    }

    /// The command of a plan's step has all its answers.
    pub(super) fn end_step(&mut self, id: JobId, job: &Job) {
        let mut all = self.daemon.applies.iter_mut();
        let Some(applying) = all.find(|applying| applying.job == Some(id)) else { return };
        if let Some(Action::Do(step) | Action::Undo(step)) = &applying.current {
            let became = Became {
                is_done: job.faults == 0 || self.plant == Some(Plant::FailureIgnored),
                replaced_some: job.answered > 0,
                forks: step.app.mode == Mode::Fork,
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
            self.daemon.claims.release(&applying.names);
            self.check_applied(&applying);
            if !applying.is_resumed {
                self.reply_when_saved(applying.request);
            }
            return true;
        };
        let is_again = self.daemon.applies[at].plan.is_again();
        self.write_plans();
        let job = self.new_job(None);
        self.daemon.applies[at].job = Some(job);
        let (Action::Do(step) | Action::Undo(step)) = &action;
        self.trace(|| format!("      apply: {} → {:?}", step.app.name, action.order()));
        if matches!(action, Action::Do(_)) || !self.plants(Plant::NotTakenBack) {
            self.carry_out((action.order(), is_again), &step.app.clone(), job);
        }
        true
    }

    fn carry_out(&mut self, (order, is_again): (Order, bool), app: &App, job: JobId) {
        let version = |version| app.version(version).cloned();
        let Some(id) = self.daemon.find(&app.name) else {
            let wanted = std::slice::from_ref(&*app.wanted);
            let refused = self.refusal(&BTreeMap::new(), wanted).is_some();
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
        if !matches!(order, Order::Scale(_)) {
            self.watch.forget_hour(id, &slots);
        }
        match order {
            Order::Start if is_at_rest || is_again => {
                self.watch.excuse_all(id);
                self.supervise(id, Event::Restart { slots, spec: version(Version::Wanted), job });
            }
            Order::Start => self.fail_job(job),
            Order::Stop => self.stop_in_order([(id, slots)].into(), Verb::Stop, job),
            Order::Delete => {
                let selection = Selection::from([(id, slots)]);
                if check_deletion(&self.daemon.apps, &selection).is_err() {
                    return self.fail_job(job);
                }
                self.stop_in_order(selection, Verb::Delete, job);
            }
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
                (_, Change::Keep) => step.app.before.clone(),
                // The workers are stopped again; the definition is not rolled back.
                (true, Change::Start) if step.existed => continue,
                (true, _) => step.app.before.clone(),
                (false, Change::Remove) => None,
                (false, Change::Start | Change::Reload | Change::Scale) => Some(Rc::clone(&step.app.wanted)),
            };
            let is = spec_of(&step.app.name);
            if !is_same(is.as_deref(), meant.as_deref()) {
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

/// The progress of a plan as another daemon finds it if the code had forgotten to write what was done.
fn without_done(progress: &Progress) -> Progress {
    let mut json = serde_json::to_value(progress).expect("it is written as JSON");
    json["done"] = serde_json::Value::Array(Vec::new());
    serde_json::from_value(json).expect("the same without a field")
}

/// Whether two definitions are equal. A number of workers that follows the load may have changed meanwhile.
fn is_same(one: Option<&AppSpec>, other: Option<&AppSpec>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) if one.autoscale.is_some() => {
            *one == AppSpec { instances: one.instances, ..other.clone() }
        }
        (one, other) => one == other,
    }
}
