//! `forkful doctor --fix`: makes the change that a diagnosis suggests, measures the app again under the same
//! load, and reverts the change unless it helped. A signal meanwhile ends the measurement and reverts the
//! change.

use std::time::Duration;

use forkful_api::client::Client;
use forkful_api::types::{ActionRequest, AppChange, AppView, FixNote, FixStep, FixView, TrialCommands, Verb};
use forkful_core::doctor::{App, Diagnosis, Outcome, Remedy, Setting, compare, words};
use forkful_core::pages::Page;
use forkful_core::scale::ScaleTarget;
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use super::super::targets::client_for;
use super::interrupts::Interrupts;
use super::watch;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output;

/// New workers compile their code in this time, which would distort the measurement of a change.
const WARM_UP: Duration = Duration::from_secs(5);

/// A trial of a change.
pub(super) struct Trial<'a> {
    pub(super) home: &'a Home,
    pub(super) view: &'a AppView,
    pub(super) before: &'a App,
    pub(super) diagnosis: &'a Diagnosis,
    /// Seconds to watch.
    pub(super) looks: u64,
    pub(super) is_quiet: bool,
}

impl Trial<'_> {
    /// Makes a change, measures again, and reverts the change unless it helped.
    pub(super) async fn run(&self) -> Result<FixView, Failure> {
        let Some(remedy) = self.diagnosis.remedy else { return Ok(not_tried()) };
        let pool = self.before.workers.iter().flat_map(|worker| &worker.seconds);
        let pool = pool.filter_map(|signs| signs.pool_threads).reduce(f64::max);
        let change = Change::new(self.view, remedy, pool);
        let tried = words::command(self.diagnosis, &self.before.name);
        let tried = tried.unwrap_or_else(|| words::purpose(remedy));
        let view = |kept, outcome| FixView { change: Some(tried.clone()), kept, interrupted: false, outcome };
        let mut interrupts = Interrupts::new()?;
        let outcome = tokio::select! {
            outcome = self.measured(&change, remedy) => outcome,
            () = interrupts.first() => {
                output::talk("\ninterrupted: undoing the change…\n");
                let outcome = words::INTERRUPTED.to_owned();
                self.undo(&change, outcome.clone(), &mut interrupts).await?;
                return Ok(FixView { interrupted: true, ..view(false, outcome) });
            }
        };
        match outcome {
            Ok(outcome) if outcome.is_gain() => {
                let kept = words::outcome(outcome);
                self.settle(&change.keep(), FixStep::Keep, kept.clone()).await?;
                Ok(view(true, kept))
            }
            Ok(outcome) => {
                let outcome = words::outcome(outcome);
                self.undo(&change, outcome.clone(), &mut interrupts).await?;
                Ok(view(false, outcome))
            }
            Err(failure) => {
                if self.is_open().await {
                    self.undo(
                        &change,
                        format!("it could not be measured: {}", failure.error),
                        &mut interrupts,
                    )
                    .await?;
                }
                Err(failure)
            }
        }
    }

    /// Makes the change, and measures what it does.
    async fn measured(&self, change: &Change, remedy: Remedy) -> Result<Outcome, Failure> {
        let name = &self.before.name;
        let targets = [name.clone()];
        let mut client = client_for(self.home, &targets).await?;
        let reason = words::tried(self.diagnosis, remedy, name);
        let note = FixNote { step: FixStep::Try, reason, commands: Some(change.commands.clone()) };
        perform(&mut client, &change.there, note).await?;
        sleep(WARM_UP).await;
        let after = watch(&mut client, &targets, self.looks, self.is_quiet).await?;
        let (_, after) = after.first().ok_or_else(|| Failure::no_such_app(name))?;
        Ok(compare(self.before, after))
    }

    /// Whether the daemon knows of a change that is in place.
    async fn is_open(&self) -> bool {
        let name = &self.before.name;
        let Ok(mut client) = client_for(self.home, std::slice::from_ref(name)).await else { return true };
        let found = client.find(name).await;
        found.is_ok_and(|found| found.apps.iter().any(|app| app.trial.is_some()))
    }

    /// Reverts the change. A second signal ends the command, and the daemon may not have got the order.
    async fn undo(
        &self,
        change: &Change,
        reason: String,
        interrupts: &mut Interrupts,
    ) -> Result<(), Failure> {
        let by_hand = |failure: Failure| {
            let hint = format!("the change may still be in place: `{}` undoes it", change.commands.undo);
            failure.hint(hint).see(Page::DoctorFix)
        };
        tokio::select! {
            undone = self.settle(&change.back, FixStep::Revert, reason) => undone.map_err(by_hand),
            () = interrupts.again() => {
                Err(by_hand(Failure::new(Exit::Interrupted, "interrupted before the change was undone")))
            }
        }
    }

    /// Ends the trial. The connection is a new one: the earlier one may be waiting for a reply, or lost.
    async fn settle(
        &self,
        order: &(Verb, ActionRequest),
        step: FixStep,
        reason: String,
    ) -> Result<(), Failure> {
        let mut client = client_for(self.home, &order.1.targets).await?;
        perform(&mut client, order, FixNote { step, reason, commands: None }).await
    }
}

fn not_tried() -> FixView {
    let outcome = "there is no setting that would help".to_owned();
    FixView { change: None, kept: false, interrupted: false, outcome }
}

/// A change, and how to revert it.
struct Change {
    there: (Verb, ActionRequest),
    back: (Verb, ActionRequest),
    /// The same by hand.
    commands: TrialCommands,
}

impl Change {
    /// The change for a remedy. `pool_threads` is the current pool size of its workers.
    fn new(app: &AppView, remedy: Remedy, pool_threads: Option<f64>) -> Self {
        let definition = &app.definition;
        let name = &definition.name;
        let of_key = |key: &str, new: Value, old: Value| {
            let order = |value| reload(name, Map::from_iter([(key.to_owned(), value)]), None);
            (order(new), order(old))
        };
        let new = remedy.setting(&definition.program_args);
        let ((there, back), old) = match &new {
            Setting::Workers(workers) => {
                let old = definition.instances;
                ((scale(name, *workers), scale(name, old)), Setting::Workers(old))
            }
            Setting::PoolSize(threads) => {
                // A variable cannot be removed; setting the previous pool size has the same effect.
                let old = pool_threads.filter(|threads| *threads >= 1.0).unwrap_or(POOL_DEFAULT) as u16;
                let size = |threads: u16| reload(name, Map::new(), Some(threads));
                ((size(*threads), size(old)), Setting::PoolSize(old))
            }
            Setting::NodeArgs(args) => {
                let old = definition.program_args.clone();
                (of_key("program_args", json!(args), json!(old)), Setting::NodeArgs(old))
            }
            Setting::Balance(balance) => {
                let old = definition.balance;
                (of_key("balance", json!(balance), json!(old)), Setting::Balance(old))
            }
        };
        let [keep, undo] = [new, old].map(|setting| setting.command(name));
        Self { there, back, commands: TrialCommands { keep, undo } }
    }

    /// The order that keeps the change.
    fn keep(&self) -> (Verb, ActionRequest) {
        let targets = self.there.1.targets.clone();
        (Verb::KeepFix, ActionRequest { targets, wait: true, ..ActionRequest::default() })
    }
}

/// libuv's default.
const POOL_DEFAULT: f64 = 4.0;

fn scale(name: &str, workers: u16) -> (Verb, ActionRequest) {
    let instances = Some(ScaleTarget::Exactly(workers));
    (
        Verb::Scale,
        ActionRequest { targets: vec![name.to_owned()], wait: true, instances, ..ActionRequest::default() },
    )
}

fn reload(name: &str, definition: Map<String, Value>, pool: Option<u16>) -> (Verb, ActionRequest) {
    let env =
        pool.map(|threads| ("UV_THREADPOOL_SIZE".to_owned(), threads.to_string())).into_iter().collect();
    let change = AppChange { name: Some(name.to_owned()), definition, env, ..AppChange::default() };
    let targets = vec![name.to_owned()];
    (Verb::Reload, ActionRequest { targets, wait: true, changes: vec![change], ..ActionRequest::default() })
}

async fn perform(
    client: &mut Client,
    (verb, request): &(Verb, ActionRequest),
    note: FixNote,
) -> Result<(), Failure> {
    let request = ActionRequest { fix: Some(note), ..request.clone() };
    let reply = client.action(*verb, &request).await?;
    match reply.apps.iter().find(|app| !app.ok) {
        None => Ok(()),
        Some(failed) => {
            let why = failed.error.clone().unwrap_or_else(|| "it failed".to_owned());
            Err(Failure::new(Exit::Failed, format!("the change of {} failed: {why}", failed.name)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_node_are_one_word_of_a_shell() {
        for args in
            [["--require", "./a b.cjs"], ["--title=it's", "--import=\"a\""], ["--env-file=$HOME/x", ""]]
        {
            let args = args.map(str::to_owned).to_vec();
            let words = shell_words::split(&Setting::NodeArgs(args.clone()).command("web")).unwrap();
            let [.., word] = words.as_slice() else { panic!("{words:?}") };
            let inner = word.strip_prefix("--node-args=").unwrap();
            assert_eq!((words.len(), shell_words::split(inner).unwrap()), (4, args));
        }
    }
}
