//! `forkful doctor --fix`: makes the change that a diagnosis suggests, measures the app again under the same
//! load, and reverts the change unless it helped. A signal meanwhile ends the measurement and reverts the
//! change.

use std::time::Duration;

use forkful_api::client::Client;
use forkful_api::types::{ActionRequest, AppChange, AppView, FixView, TrialCommands, Verb};
use forkful_core::doctor::{App, Diagnosis, Outcome, Remedy, Setting, compare, words};
use forkful_core::scale::ScaleTarget;
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use super::super::targets::{client_for, described};
use super::steps::{Change, Steps};
use super::watch;
use crate::commands::interrupts::Interrupts;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output;

/// New workers compile their code in this time, which would distort the measurement of a change.
const WARM_UP: Duration = Duration::from_secs(5);

/// Whether the targets name one app: told before anything is measured.
pub(super) async fn check(client: &mut Client, targets: &[String]) -> Result<(), Failure> {
    let apps = described(client, targets).await?.len();
    if apps == 1 {
        return Ok(());
    }
    let error = format!("--fix changes one app, but {apps} are named");
    Err(Failure::new(Exit::WrongUse, error).hint("name the app"))
}

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
        let name = &self.before.name;
        let steps = Steps::new(self.home, name, &change)?;
        let mut client = client_for(self.home, std::slice::from_ref(name)).await?;
        // From here on a signal does not end the command, which has something to undo.
        let mut interrupts = Interrupts::new()?;
        let measured = tokio::select! {
            measured = self.measured(&mut client, &steps, remedy) => measured,
            () = interrupts.first() => {
                output::talk("\ninterrupted: undoing the change…\n");
                let outcome = words::INTERRUPTED.to_owned();
                steps.undo(&outcome, &mut interrupts).await?;
                return Ok(FixView { interrupted: true, ..view(false, outcome) });
            }
        };
        match measured {
            Ok(outcome) => {
                let (is_gain, outcome) = (outcome.is_gain(), words::outcome(outcome));
                if is_gain {
                    steps.keep(&outcome, &mut interrupts).await?;
                } else {
                    steps.undo(&outcome, &mut interrupts).await?;
                }
                Ok(view(is_gain, outcome))
            }
            Err(failure) => Err(steps.give_up(failure, &mut interrupts).await),
        }
    }

    /// Makes the change, and measures what it does.
    async fn measured(
        &self,
        client: &mut Client,
        steps: &Steps<'_>,
        remedy: Remedy,
    ) -> Result<Outcome, Failure> {
        let name = &self.before.name;
        steps.begin(client, &words::tried(self.diagnosis, remedy, name)).await?;
        sleep(WARM_UP).await;
        let after = watch(client, std::slice::from_ref(name), self.looks, self.is_quiet).await?;
        let (_, after) = after.first().ok_or_else(|| Failure::no_such_app(name))?;
        Ok(compare(self.before, after))
    }
}

fn not_tried() -> FixView {
    let outcome = "there is no setting that would help".to_owned();
    FixView { change: None, kept: false, interrupted: false, outcome }
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
        Self { there, back, commands: TrialCommands::new(name, &new, &old) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::steps::tests::app;

    #[test]
    fn a_secret_of_nodes_arguments_is_in_the_requests_and_not_in_the_texts() {
        let (_, found) = app(None).unwrap();
        let mut view: AppView = serde_json::from_value(found["apps"][0].clone()).unwrap();
        let before = ["--title=token=hunter2".to_owned()].to_vec();
        view.definition.program_args.clone_from(&before);
        let Change { there, back, commands } = Change::new(&view, Remedy::SemiSpace(64), None);
        let args =
            |(_, request): &(Verb, ActionRequest)| request.changes[0].definition["program_args"].clone();
        assert_eq!(args(&back), json!(before));
        assert_eq!(args(&there), json!(["--title=token=hunter2", "--max-semi-space-size=64"]));
        assert!(!format!("{commands:?}").contains("hunter2"), "{commands:?}");
    }

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
