//! Applies a configuration: executes the core's plan step by step, each as a separate command.

use std::collections::BTreeSet;

use forkful_api::apply::{ApplyChange, ApplyReply, ApplyRequest, PlannedApp};
use forkful_api::definition::changes;
use forkful_api::types::{
    ActionReply, ActionRequest, AppDefinition, AppOutcome, Deployment, ErrorCode, ErrorReply, StartRequest,
    Verb,
};
use forkful_core::Time;
use forkful_core::apply::{
    Action, Apply, Became, Change, Claims, Doing, Existing, Order, Outcome, Planned, Refused, Step, plan,
};
use forkful_core::pages::Page;
use forkful_core::scale::ScaleTarget;
use forkful_core::spec::{AppName, AppSpec, Mode, RunningSince};
use tokio::sync::{mpsc, oneshot};

use super::Back;
use super::clock::wall_ms;
use super::commands::{answer, refuse};
use super::persistence::outcome;
use super::resolve::into_spec;
use super::targets::Roster;
use crate::command::{Command, Reply};

/// A plan with definitions as clients send them.
type Plan = Apply<Planned<Box<AppDefinition>>>;

/// A plan that was executed or undone.
#[derive(Debug)]
pub(crate) struct Applied {
    /// The apps that it changed.
    names: BTreeSet<AppName>,
    answer: ApplyReply,
    reply: Reply<ApplyReply>,
}

/// Running plans.
#[derive(Debug, Default)]
pub(super) struct Plans {
    claims: Claims,
}

impl Plans {
    /// Whether a configuration is being applied.
    pub(super) fn is_busy(&self) -> bool {
        !self.claims.is_empty()
    }

    /// Applies the request, or only returns its plan.
    pub(super) fn begin(
        &mut self,
        request: ApplyRequest,
        reply: Reply<ApplyReply>,
        (roster, now): (Roster<'_>, Time),
        back: &mpsc::UnboundedSender<Back>,
    ) {
        let (dry_run, deployment) = (request.dry_run, request.deployment.clone());
        let plan = match roster.plan(request, now) {
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
            let (apps, undone) = carry_out(plan, &back, deployment.as_ref()).await;
            let applied = Applied { names, answer: ApplyReply { plan: told, apps, undone }, reply };
            // The engine is gone only when the daemon ends.
            let _gone = back.send(Back::Applied(applied));
        });
    }

    /// Records which apps a plan changes, so that no other plan changes them until this one has ended.
    fn claim(&mut self, plan: &Plan, roster: Roster<'_>) -> Result<BTreeSet<AppName>, ErrorReply> {
        let doing = |name: &AppName| {
            let entry = roster.find(name.as_str()).and_then(|id| roster.apps.get(&id))?;
            Doing::of(&entry.supervisor)
        };
        self.claims.claim(plan, doing).map_err(|conflict| {
            let hint = Page::Apply.hint("wait until it has ended, and apply the file again");
            refuse(ErrorCode::Conflict, &conflict.to_string(), Some(hint))
        })
    }

    /// Another plan may change the apps before the client has its answer, so that its next `apply` is not refused.
    pub(super) fn end(&mut self, applied: Applied) {
        self.claims.release(&applied.names);
        answer(applied.reply, Ok(applied.answer));
    }
}

impl Roster<'_> {
    fn plan(self, request: ApplyRequest, now: Time) -> Result<Plan, ErrorReply> {
        let ApplyRequest { apps, prune, code_changed_at_ms, .. } = request;
        let convert = |definition: AppDefinition| Ok((into_spec(definition.clone())?, Box::new(definition)));
        let wanted: Vec<(AppSpec, Box<AppDefinition>)> =
            apps.into_iter().map(convert).collect::<Result<_, ErrorReply>>()?;
        let names = wanted.iter().map(|(spec, _)| spec.name.as_str());
        names.filter(|name| self.find(name).is_none()).try_for_each(|name| self.check_is_new(name))?;
        let existing = self.apps.values().map(|entry| Existing {
            spec: entry.spec(),
            is_at_rest: entry.is_at_rest(),
            since: RunningSince {
                oldest_start_ms: entry.oldest_start_ms(now, wall_ms()),
                code_changed_ms: code_changed_at_ms.get(entry.spec().name.as_str()).copied(),
            },
        });
        let existing: Vec<Existing<'_>> = existing.collect();
        let describe = |spec: &AppSpec| Box::new(AppDefinition::from(spec));
        plan(wanted, &existing, prune, describe).map_err(|refused| {
            let hint = match &refused {
                Refused::Needs(fault) => fault.hint(),
                Refused::DefinedTwice => None,
            };
            refuse(ErrorCode::BadRequest, &refused.to_string(), hint)
        })
    }
}

/// One app of the plan, for people.
fn told(step: &Step<Planned<Box<AppDefinition>>>) -> PlannedApp {
    let Planned { name, wanted, before, .. } = &step.app;
    let change = match step.change {
        Change::Start => ApplyChange::Start,
        Change::Reload => ApplyChange::Reload,
        Change::Scale => ApplyChange::Scale,
        Change::Keep => ApplyChange::Keep,
        Change::Remove => ApplyChange::Delete,
    };
    let mut notes = before.as_ref().map_or_else(Vec::new, |before| changes(before, wanted));
    if let Some(before) = before.as_ref().filter(|_| step.change == Change::Scale) {
        let workers = if wanted.instances == 1 { "worker" } else { "workers" };
        notes.insert(0, format!("{} → {} {workers}", before.instances, wanted.instances));
    }
    if step.change == Change::Reload && notes.is_empty() {
        notes.push("a file in its folder is newer than its processes".to_owned());
    }
    PlannedApp { name: name.to_string(), change, notes }
}

/// Executes a plan; returns the result of each step, and of each undone step.
async fn carry_out(
    mut plan: Plan,
    engine: &mpsc::UnboundedSender<Back>,
    deployment: Option<&Deployment>,
) -> (Vec<AppOutcome>, Vec<AppOutcome>) {
    let (mut done, mut undone) = (Vec::new(), Vec::new());
    while let Some(action) = plan.advance() {
        let (step, is_undo) = match &action {
            Action::Do(step) => (step, false),
            Action::Undo(step) => (step, true),
        };
        let deployment = deployment.filter(|_| !is_undo);
        let became = ask(engine, &step.app, (action.order(), is_undo), deployment).await;
        plan.done(judged(step, &became));
        if is_undo { undone.push(became) } else { done.push(became) }
    }
    (done, undone)
}

/// The result of a step.
fn judged(step: &Step<Planned<Box<AppDefinition>>>, became: &AppOutcome) -> Outcome {
    let became = Became {
        is_done: became.ok,
        replaced_some: !became.pm_ids.is_empty(),
        forks: step.app.mode == Mode::Fork,
    };
    became.outcome(step.change)
}

/// Sends an order to the engine, and waits for its result.
async fn ask(
    engine: &mpsc::UnboundedSender<Back>,
    app: &Planned<Box<AppDefinition>>,
    (order, is_undo): (Order, bool),
    deployment: Option<&Deployment>,
) -> AppOutcome {
    let name = app.name.as_str();
    let (reply, answer) = oneshot::channel();
    let version = |version| app.version(version).map(|definition| &**definition);
    let action = |verb, definition: Option<&AppDefinition>, instances| {
        let targets = vec![name.to_owned()];
        let definitions = definition.into_iter().cloned().collect();
        (verb, ActionRequest { targets, wait: true, instances, definitions, ..ActionRequest::default() })
    };
    let (verb, request) = match order {
        Order::Start => {
            let request =
                StartRequest { apps: vec![(*app.wanted).clone()], wait: true, ..StartRequest::default() };
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
        Order::Reload(of) => {
            let (verb, request) = action(Verb::Reload, version(of), None);
            (verb, ActionRequest { deployment: deployment.cloned(), ..request })
        }
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
