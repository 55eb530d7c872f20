//! `forkful doctor --fix`: makes the change that a diagnosis suggests, measures the app again under the same
//! load, and reverts the change unless it helped.

use forkful_api::client::Client;
use forkful_api::types::{ActionRequest, AppChange, AppView, BalanceKind, FixNote, FixStep, Verb};
use forkful_core::doctor::Remedy;
use forkful_core::scale::ScaleTarget;
use serde_json::{Map, Value, json};

use crate::exit::{Exit, Failure};

/// A change, and how to revert it.
pub(super) struct Change {
    there: (Verb, ActionRequest),
    back: (Verb, ActionRequest),
}

impl Change {
    /// The change for a remedy. `pool_threads` is the current pool size of its workers.
    pub(super) fn new(app: &AppView, remedy: Remedy, pool_threads: Option<f64>) -> Self {
        let definition = &app.definition;
        let name = &definition.name;
        let of_key = |key: &str, new: Value, old: Value| Self {
            there: reload(name, Map::from_iter([(key.to_owned(), new)]), None),
            back: reload(name, Map::from_iter([(key.to_owned(), old)]), None),
        };
        let of_node = |option: &str, value: String| {
            let old = &definition.program_args;
            let prefix = format!("{option}=");
            let kept = old.iter().filter(|argument| !argument.starts_with(&prefix)).cloned();
            let new: Vec<String> = kept.chain([format!("{prefix}{value}")]).collect();
            of_key("program_args", json!(new), json!(old))
        };
        match remedy {
            Remedy::Workers(workers) => {
                Self { there: scale(name, workers), back: scale(name, definition.instances) }
            }
            Remedy::PoolSize(threads) => {
                // A variable cannot be removed; setting the previous pool size has the same effect.
                let old = pool_threads.filter(|threads| *threads >= 1.0).unwrap_or(POOL_DEFAULT) as u16;
                let size = |threads: u16| reload(name, Map::new(), Some(threads));
                Self { there: size(threads), back: size(old) }
            }
            Remedy::SemiSpace(megabytes) => of_node("--max-semi-space-size", megabytes.to_string()),
            Remedy::HeapLimit(megabytes) => of_node("--max-old-space-size", megabytes.to_string()),
            Remedy::BalanceLeast => of_key("balance", json!(BalanceKind::Least), json!(definition.balance)),
        }
    }

    /// `reason`: the change and the verdict behind it; the daemon records it.
    pub(super) async fn make(&self, client: &mut Client, reason: String) -> Result<(), Failure> {
        perform(client, &self.there, FixNote { step: FixStep::Try, reason }).await
    }

    /// `reason`: what was measured.
    pub(super) async fn take_back(&self, client: &mut Client, reason: String) -> Result<(), Failure> {
        perform(client, &self.back, FixNote { step: FixStep::Revert, reason }).await
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
    let change = AppChange { name: name.to_owned(), definition, env, ..AppChange::default() };
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
