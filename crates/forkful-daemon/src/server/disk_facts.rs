//! Whether the scripts of existing apps can run themselves, if a change wants that. A file system may hang, so this is
//! found out before the engine gets the request, on a thread of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use forkful_api::types::{ActionRequest, AppChange, AppDefinition, StartRequest, cannot_run};
use forkful_core::interpreter::CannotRun;
use forkful_core::start::{Reading, Written};
use forkful_os::process::is_executable;
use serde_json::Value;
use tokio::time::timeout;

use super::refusal::Refusal;
use super::routes::Api;
use crate::command::Command;

/// How long a file system may take.
const LOOK_MAX: Duration = Duration::from_secs(10);

impl Api {
    /// Checks the changes of an action.
    pub(super) async fn check_action(&self, request: &ActionRequest) -> Result<(), Refusal> {
        for change in request.changes.iter().filter(|change| change.wants_scripts_to_run_themselves()) {
            self.check_change(change, request.targets.iter().map(String::as_str)).await?;
        }
        Ok(())
    }

    /// Checks the change of a start for the existing apps that its targets name.
    pub(super) async fn check_start(&self, request: &StartRequest) -> Result<(), Refusal> {
        let Some(change) = request.change.as_ref().filter(|change| change.wants_scripts_to_run_themselves())
        else {
            return Ok(());
        };
        let new_name = change.definition.get("name").and_then(Value::as_str);
        let names_apps = |text: &str, is_there, can_be_started| {
            Written { text, is_there, can_be_started, new_name }.reading(true) == Some(Reading::Existing)
        };
        let texts = request.targets.iter().filter_map(|target| {
            let text = target.text.as_deref()?;
            names_apps(text, target.is_there, target.can_be_started).then_some(text)
        });
        self.check_change(change, texts).await
    }

    async fn check_change(
        &self,
        change: &AppChange,
        targets: impl Iterator<Item = &str>,
    ) -> Result<(), Refusal> {
        for target in targets {
            let target = target.to_owned();
            let found = self.ask(|reply| Command::Describe { target, brief: true, reply }).await;
            // The engine refuses a target that names nothing.
            let Ok(found) = found else { continue };
            for app in found.apps {
                if let Some(script) = change.runs_itself(&app.definition) {
                    check_script(&app.definition, Path::new(script)).await?;
                }
            }
        }
        Ok(())
    }
}

async fn check_script(app: &AppDefinition, script: &Path) -> Result<(), Refusal> {
    let path: PathBuf = script.to_owned();
    let looked = tokio::task::spawn_blocking(move || is_executable(&path));
    match timeout(LOOK_MAX, looked).await {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => {
            let (script, option) = (script.display().to_string(), "`--interpreter`".to_owned());
            Err(Refusal(cannot_run(app, &CannotRun::NotExecutable { script, option })))
        }
        Ok(Err(error)) => Err(Refusal::internal(error.to_string())),
        Err(_late) => {
            let seconds = LOOK_MAX.as_secs();
            let error = format!("cannot look at the script {} within {seconds} s", script.display());
            Err(Refusal::internal(error))
        }
    }
}
