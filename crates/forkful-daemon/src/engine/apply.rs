//! Applies a configuration: executes the core's plan step by step, each as a separate command. A plan is written down with its
//! progress, so that another daemon goes on with it: all of it is done, or taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use forkful_api::apply::{ApplyReply, ApplyRequest, PlannedApp};
use forkful_api::types::{
    ActionReply, ActionRequest, AppDefinition, AppOutcome, Deployment, ErrorCode, ErrorReply, StartRequest,
    StartTarget, Verb,
};
use forkful_core::Time;
use forkful_core::apply::{
    Action, Apply, Became, Claims, Doing, Existing, Order, Outcome, Planned, Progress, Step, plan,
};
use forkful_core::pages::Page;
use forkful_core::scale::ScaleTarget;
use forkful_core::spec::{AppName, AppSpec, Mode, RunningSince};
use forkful_core::start::IfRunning;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
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

/// A plan as another daemon finds it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct WrittenPlan {
    /// Its steps, which stay: definitions of many apps are put into words once.
    steps: Rc<RawValue>,
    progress: Progress,
    deployment: Option<Deployment>,
}

impl PartialEq for WrittenPlan {
    fn eq(&self, other: &Self) -> bool {
        let is_same = Rc::ptr_eq(&self.steps, &other.steps) || self.steps.get() == other.steps.get();
        is_same && self.progress == other.progress && self.deployment == other.deployment
    }
}

/// A plan that was executed or undone.
#[derive(Debug)]
pub(crate) struct Applied {
    number: u64,
    /// The apps that it changed.
    names: BTreeSet<AppName>,
    answer: ApplyReply,
    /// The client; none if another daemon had begun it.
    reply: Option<Reply<ApplyReply>>,
}

/// Running plans.
#[derive(Debug, Default)]
pub(super) struct Plans {
    claims: Claims,
    under_way: BTreeMap<u64, WrittenPlan>,
    last: u64,
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
        let told = plan.steps().iter().map(PlannedApp::of).collect();
        if dry_run {
            return answer(reply, Ok(ApplyReply { plan: told, apps: Vec::new(), undone: Vec::new() }));
        }
        let names = match self.claim(&plan, roster) {
            Ok(names) => names,
            Err(refusal) => return answer(reply, Err(refusal)),
        };
        let steps = to_raw_value(plan.steps()).unwrap_or_else(|_| RawValue::NULL.to_owned());
        self.carry_out(
            plan,
            names,
            WrittenPlan { steps: steps.into(), progress: Progress::default(), deployment },
            (told, Some(reply)),
            back,
        );
    }

    /// Continues with the plans of the previous daemon.
    pub(super) fn resume(&mut self, written: Vec<WrittenPlan>, back: &mpsc::UnboundedSender<Back>) {
        for written in written {
            match serde_json::from_str(written.steps.get()) {
                Ok(steps) => {
                    let plan = Plan::resume(steps, written.progress.clone());
                    let names = self.claims.resume(&plan);
                    self.carry_out(plan, names, written, (Vec::new(), None), back);
                }
                Err(error) => {
                    log_line!("forkful: a configuration was applied in part: apply it again ({error})");
                }
            }
        }
    }

    fn carry_out(
        &mut self,
        plan: Plan,
        names: BTreeSet<AppName>,
        written: WrittenPlan,
        (told, reply): (Vec<PlannedApp>, Option<Reply<ApplyReply>>),
        back: &mpsc::UnboundedSender<Back>,
    ) {
        self.last += 1;
        let (number, back) = (self.last, back.clone());
        let deployment = written.deployment.clone();
        self.under_way.insert(number, written);
        tokio::task::spawn_local(async move {
            let (apps, undone) = carry_out(plan, (&back, number), deployment.as_ref()).await;
            let applied = Applied { number, names, answer: ApplyReply { plan: told, apps, undone }, reply };
            // The engine is gone only when the daemon ends.
            let _gone = back.send(Back::Applied(applied));
        });
    }

    /// A plan begins its next step.
    pub(super) fn advance(&mut self, number: u64, progress: Progress) {
        if let Some(plan) = self.under_way.get_mut(&number) {
            plan.progress = progress;
        }
    }

    /// What another daemon needs to go on.
    pub(super) fn write_down(&self) -> Vec<WrittenPlan> {
        self.under_way.values().cloned().collect()
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
        self.under_way.remove(&applied.number);
        match applied.reply {
            Some(reply) => answer(reply, Ok(applied.answer)),
            None => log_line!("forkful: {}", in_words(&applied.answer)),
        }
    }
}

/// What has become of a configuration that a previous daemon had begun to apply.
fn in_words(answer: &ApplyReply) -> String {
    let failed = |app: &&AppOutcome| !app.ok;
    let told = |app: &AppOutcome| format!("{}: {}", app.name, app.error.as_deref().unwrap_or("it failed"));
    let begun = "the configuration that was being applied when the previous daemon ended";
    match (answer.apps.iter().find(failed), answer.undone.iter().find(failed)) {
        (None, None) => format!("{begun} is applied"),
        (Some(app), None) => format!("{begun} is not applied, all changes are taken back: {}", told(app)),
        (_, Some(app)) => format!("{begun} is applied in part: {}", told(app)),
    }
}

impl Roster<'_> {
    fn plan(self, request: ApplyRequest, now: Time) -> Result<Plan, ErrorReply> {
        let ApplyRequest { apps, prune, update_env, code_changed_at_ms, .. } = request;
        let convert = |definition: AppDefinition| {
            let spec = self.defined_again(into_spec(definition)?, update_env);
            let definition = Box::new(AppDefinition::from(&spec));
            Ok((spec, definition))
        };
        let wanted: Vec<(AppSpec, Box<AppDefinition>)> =
            apps.into_iter().map(convert).collect::<Result<_, ErrorReply>>()?;
        let names = wanted.iter().map(|(spec, _)| spec.name.as_str());
        names
            .filter(|name| self.find(name).is_none())
            .try_for_each(|name| self.check_is_not_carried(name))?;
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
        plan(wanted, &existing, prune, describe).map_err(ErrorReply::from)
    }
}

/// Executes a plan; returns the result of each step, and of each undone step.
async fn carry_out(
    mut plan: Plan,
    (engine, number): (&mpsc::UnboundedSender<Back>, u64),
    deployment: Option<&Deployment>,
) -> (Vec<AppOutcome>, Vec<AppOutcome>) {
    let (mut done, mut undone) = (Vec::new(), Vec::new());
    while let Some(action) = plan.advance() {
        let _gone = engine.send(Back::Advanced(number, plan.progress().clone()));
        let (step, is_undo) = match &action {
            Action::Do(step) => (step, false),
            Action::Undo(step) => (step, true),
        };
        let deployment = deployment.filter(|_| !is_undo);
        let became = ask(engine, &step.app, (action.order(), is_undo, plan.is_again()), deployment).await;
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

/// Sends an order to the engine, and waits for its result. Its definition has what the app keeps.
async fn ask(
    engine: &mpsc::UnboundedSender<Back>,
    app: &Planned<Box<AppDefinition>>,
    (order, is_undo, is_again): (Order, bool, bool),
    deployment: Option<&Deployment>,
) -> AppOutcome {
    let name = app.name.as_str();
    // One that was never created, or that the previous daemon has deleted.
    let may_be_gone = is_undo || is_again && order == Order::Delete;
    let (reply, answer) = oneshot::channel();
    let version = |version| app.version(version).map(|definition| &**definition);
    let action = |verb, definition: Option<&AppDefinition>, instances| {
        let targets = vec![name.to_owned()];
        let definitions = definition.into_iter().cloned().collect();
        let update_env = true;
        (
            verb,
            ActionRequest {
                targets,
                wait: true,
                instances,
                definitions,
                update_env,
                ..ActionRequest::default()
            },
        )
    };
    let (verb, request) = match order {
        Order::Start => {
            let apps = vec![(*app.wanted).clone()];
            let base = StartRequest { wait: true, update_env: true, ..StartRequest::default() };
            let request = if is_again {
                let target = StartTarget { apps, if_running: IfRunning::Restart, ..StartTarget::default() };
                StartRequest { targets: vec![target], ..base }
            } else {
                StartRequest { apps, ..base }
            };
            let was_sent = engine.send(Back::Step(Command::Start { request, reply })).is_ok();
            return became(name, may_be_gone, was_sent, answer).await;
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
    became(name, may_be_gone, was_sent, answer).await
}

async fn became(
    name: &str,
    may_be_gone: bool,
    was_sent: bool,
    answer: oneshot::Receiver<Result<ActionReply, ErrorReply>>,
) -> AppOutcome {
    let ending = || outcome(name, Some("the daemon is ending".to_owned()), Vec::new());
    if !was_sent {
        return ending();
    }
    match answer.await {
        Ok(Ok(reply)) => reply.apps.into_iter().next().unwrap_or_else(|| outcome(name, None, Vec::new())),
        Ok(Err(refusal)) if may_be_gone && refusal.code == ErrorCode::NoSuchTarget => {
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
