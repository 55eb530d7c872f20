//! Applies a configuration: executes the core's plan step by step, each as a separate command.

use std::collections::{BTreeMap, BTreeSet};

use forkful_api::apply::{ApplyChange, ApplyReply, ApplyRequest, PlannedApp};
use forkful_api::definition::changes;
use forkful_api::types::{
    ActionReply, ActionRequest, AppDefinition, AppOutcome, ErrorCode, ErrorReply, ModeKind, StartRequest,
    Verb,
};
use forkful_core::apply::{Action, Apply, Became, Change, Existing, Order, Outcome, Step, Version, change};
use forkful_core::pages::Page;
use forkful_core::scale::ScaleTarget;
use forkful_core::spec::{AppSpec, RunningSince};
use forkful_core::upkeep::order;
use tokio::sync::{mpsc, oneshot};

use super::Back;
use super::app::{App, AppId};
use super::commands::{answer, refuse};
use super::persistence::outcome;
use super::resolve::{check_all_differ, into_spec};
use super::targets::Roster;
use crate::command::{Command, Reply};

/// An app of a plan.
#[derive(Debug, Clone)]
struct Planned {
    name: String,
    /// Its new definition; for a deletion, its current one.
    wanted: Box<AppDefinition>,
    /// Its previous definition, if it existed.
    before: Option<Box<AppDefinition>>,
}

/// A plan that was executed or undone.
#[derive(Debug)]
pub(crate) struct Applied {
    /// The apps that it changed.
    names: BTreeSet<String>,
    answer: ApplyReply,
    reply: Reply<ApplyReply>,
}

/// Running plans.
#[derive(Debug, Default)]
pub(super) struct Plans {
    /// The apps that they change.
    names: BTreeSet<String>,
}

impl Plans {
    /// Whether a configuration is being applied.
    pub(super) fn is_busy(&self) -> bool {
        !self.names.is_empty()
    }

    /// Applies the request, or only returns its plan.
    pub(super) fn begin(
        &mut self,
        request: ApplyRequest,
        reply: Reply<ApplyReply>,
        roster: Roster<'_>,
        back: &mpsc::UnboundedSender<Back>,
    ) {
        let dry_run = request.dry_run;
        let plan = match roster.plan(request) {
            Ok(plan) => plan,
            Err(refusal) => return answer(reply, Err(refusal)),
        };
        let told = plan.steps().iter().map(told).collect();
        if dry_run {
            return answer(reply, Ok(ApplyReply { plan: told, apps: Vec::new(), undone: Vec::new() }));
        }
        let names = match self.claim(&plan, roster) {
            Ok(names) => names,
            Err(refusal) => return answer(reply, Err(refusal)),
        };
        let back = back.clone();
        tokio::task::spawn_local(async move {
            let (apps, undone) = carry_out(plan, &back).await;
            let applied = Applied { names, answer: ApplyReply { plan: told, apps, undone }, reply };
            // The engine is gone only when the daemon ends.
            let _gone = back.send(Back::Applied(applied));
        });
    }

    /// Records which apps a plan changes, so that no other plan changes them until this one has ended.
    fn claim(&mut self, plan: &Apply<Planned>, roster: Roster<'_>) -> Result<BTreeSet<String>, ErrorReply> {
        // An unchanged app counts too: it may have been compared in the middle of the other plan.
        let taken: Vec<String> = plan
            .steps()
            .iter()
            .filter(|step| self.names.contains(&step.app.name))
            .map(|step| format!("`{}`", step.app.name))
            .collect();
        let busy = plan.steps().iter().find_map(|step| roster.busy(&step.app.name));
        let error = if taken.is_empty() {
            busy
        } else {
            Some(format!("another `apply` is changing {}", taken.join(", ")))
        };
        if let Some(error) = error {
            let hint = Page::Apply.hint("wait until it has ended, and apply the file again");
            return Err(refuse(ErrorCode::Conflict, &error, Some(hint)));
        }
        let changes = plan.steps().iter().filter(|step| step.change != Change::Keep);
        let names: BTreeSet<String> = changes.map(|step| step.app.name.clone()).collect();
        self.names.extend(names.iter().cloned());
        Ok(names)
    }

    /// Another plan may change the apps before the client has its answer, so that its next `apply` is not refused.
    pub(super) fn end(&mut self, applied: Applied) {
        self.names.retain(|name| !applied.names.contains(name));
        answer(applied.reply, Ok(applied.answer));
    }
}

impl Roster<'_> {
    fn plan(self, request: ApplyRequest) -> Result<Apply<Planned>, ErrorReply> {
        let ApplyRequest { apps, prune, code_changed_at_ms, .. } = request;
        let convert = |definition: AppDefinition| Ok((into_spec(definition.clone())?, definition));
        let mut wanted: Vec<(AppSpec, AppDefinition)> =
            apps.into_iter().map(convert).collect::<Result<_, ErrorReply>>()?;
        let specs = wanted.iter().map(|(spec, _)| spec);
        check_all_differ(specs.clone())?;
        for spec in specs.clone().filter(|spec| self.find(spec.name.as_str()).is_none()) {
            self.check_is_new(spec.name.as_str())?;
        }
        let removals = if prune { self.removals(&wanted) } else { Vec::new() };
        self.apps.check_needs(specs, &removals.iter().map(|step| step.app.name.clone()).collect())?;
        order::sort_by_needs(&mut wanted, |(spec, _)| order::needs_of(spec));
        let changes =
            wanted.into_iter().map(|(spec, definition)| self.step(&spec, definition, &code_changed_at_ms));
        Ok(Apply::new(changes.chain(removals)))
    }

    /// The command that is currently changing an app, which prevents a plan for it.
    fn busy(self, name: &str) -> Option<String> {
        let app = &self.apps.get(&self.find(name)?)?.supervisor;
        let doing = match (app.is_reloading(), app.is_ending()) {
            (true, _) => "reloaded",
            (false, true) => "stopped or deleted",
            (false, false) => return None,
        };
        Some(format!("`{name}` is being {doing}"))
    }

    /// The unwanted apps of the same namespaces, each before its dependencies.
    fn removals(self, wanted: &[(AppSpec, AppDefinition)]) -> Vec<Step<Planned>> {
        let namespaces: BTreeSet<_> = wanted.iter().map(|(spec, _)| &spec.namespace).collect();
        let names: BTreeSet<_> = wanted.iter().map(|(spec, _)| &spec.name).collect();
        let existing = self.apps.values().map(App::spec);
        let is_gone = |spec: &&AppSpec| namespaces.contains(&spec.namespace) && !names.contains(&spec.name);
        let mut gone: Vec<&AppSpec> = existing.filter(is_gone).collect();
        order::sort_by_needs(&mut gone, |spec| order::needs_of(spec));
        gone.into_iter()
            .rev()
            .map(|spec| {
                let definition = Box::new(AppDefinition::from(spec));
                let name = definition.name.clone();
                let app = Planned { name, wanted: definition.clone(), before: Some(definition) };
                Step { app, change: Change::Remove, existed: true }
            })
            .collect()
    }

    /// The step for one app.
    fn step(
        self,
        spec: &AppSpec,
        definition: AppDefinition,
        code_changed_at_ms: &BTreeMap<String, u64>,
    ) -> Step<Planned> {
        let id: Option<AppId> = self.find(&definition.name);
        let entry = id.and_then(|id| self.apps.get(&id));
        let existing = entry.map(|entry| Existing {
            spec: entry.spec(),
            is_at_rest: entry.is_at_rest(),
            since: RunningSince {
                oldest_start_ms: entry.oldest_start_ms(),
                code_changed_ms: code_changed_at_ms.get(&definition.name).copied(),
            },
        });
        let change = change(existing, spec);
        let before = entry.map(|entry| Box::new(AppDefinition::from(entry.spec())));
        let app = Planned { name: definition.name.clone(), wanted: Box::new(definition), before };
        Step { app, change, existed: entry.is_some() }
    }
}

/// One app of the plan, for people.
fn told(step: &Step<Planned>) -> PlannedApp {
    let Planned { name, wanted, before } = &step.app;
    let (change, mut notes) = match step.change {
        Change::Start => (ApplyChange::Start, Vec::new()),
        Change::Reload => (ApplyChange::Reload, Vec::new()),
        Change::Scale => (ApplyChange::Scale, Vec::new()),
        Change::Keep => (ApplyChange::Keep, Vec::new()),
        Change::Remove => (ApplyChange::Delete, Vec::new()),
    };
    if let Some(before) = before {
        notes.extend(changes(before, wanted));
    }
    if step.change == Change::Reload && notes.is_empty() {
        notes.push("its code is newer than its processes".to_owned());
    }
    PlannedApp { name: name.clone(), change, notes }
}

/// Executes a plan; returns the result of each step, and of each undone step.
async fn carry_out(
    mut plan: Apply<Planned>,
    engine: &mpsc::UnboundedSender<Back>,
) -> (Vec<AppOutcome>, Vec<AppOutcome>) {
    let (mut done, mut undone) = (Vec::new(), Vec::new());
    while let Some(action) = plan.advance() {
        let (step, is_undo) = match &action {
            Action::Do(step) => (step, false),
            Action::Undo(step) => (step, true),
        };
        let became = ask(engine, &step.app, action.order(), is_undo).await;
        plan.done(judged(step, &became));
        if is_undo { undone.push(became) } else { done.push(became) }
    }
    (done, undone)
}

/// The result of a step.
fn judged(step: &Step<Planned>, became: &AppOutcome) -> Outcome {
    let became = Became {
        is_done: became.ok,
        replaced_some: !became.pm_ids.is_empty(),
        forks: step.app.wanted.mode == ModeKind::Fork,
    };
    became.outcome(step.change)
}

/// Sends an order to the engine, and waits for its result.
async fn ask(engine: &mpsc::UnboundedSender<Back>, app: &Planned, order: Order, is_undo: bool) -> AppOutcome {
    let Planned { name, wanted, before } = app;
    let (reply, answer) = oneshot::channel();
    let version = |version| match version {
        Version::Wanted => Some(&**wanted),
        Version::Before => before.as_deref(),
    };
    let action = |verb, definition: Option<&AppDefinition>, instances| {
        let targets = vec![name.clone()];
        let definitions = definition.into_iter().cloned().collect();
        (verb, ActionRequest { targets, wait: true, instances, definitions, ..ActionRequest::default() })
    };
    let (verb, request) = match order {
        Order::Start => {
            let request = StartRequest { apps: vec![(**wanted).clone()], wait: true, stopped: false };
            let was_sent = engine.send(Back::Step(Command::Start { request, reply })).is_ok();
            return became(name, is_undo, was_sent, answer).await;
        }
        Order::Stop => action(Verb::Stop, None, None),
        Order::Delete => action(Verb::Delete, None, None),
        Order::Scale(of) => action(
            Verb::Scale,
            None,
            version(of).map(|definition| ScaleTarget::Exactly(definition.instances)),
        ),
        Order::Reload(of) => action(Verb::Reload, version(of), None),
    };
    let was_sent = engine.send(Back::Step(Command::Action { verb, request, reply })).is_ok();
    became(name, is_undo, was_sent, answer).await
}

async fn became(
    name: &str,
    is_undo: bool,
    was_sent: bool,
    answer: oneshot::Receiver<Result<ActionReply, ErrorReply>>,
) -> AppOutcome {
    let ending = || outcome(name, Some("the daemon is ending".to_owned()), Vec::new());
    if !was_sent {
        return ending();
    }
    match answer.await {
        Ok(Ok(reply)) => reply.apps.into_iter().next().unwrap_or_else(|| outcome(name, None, Vec::new())),
        // An app that was never created is already gone.
        Ok(Err(refusal)) if is_undo && refusal.code == ErrorCode::NoSuchTarget => {
            outcome(name, None, Vec::new())
        }
        Ok(Err(refusal)) => {
            let mut became = outcome(name, Some(refusal.error), Vec::new());
            (became.hint, became.see) = (refusal.hint, refusal.see);
            became
        }
        Err(_) => ending(),
    }
}
