//! What the disk says of a change of existing apps: whether their scripts can run themselves, and which folders of watched
//! paths are symbolic links. A file system may hang, so this is found out before the engine gets the request, on a thread
//! of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use forkful_api::types::{
    ActionRequest, AppChange, AppDefinition, StartRequest, StartTarget, WatchChange, cannot_run,
};
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
    /// Checks the changes of an action, and completes them.
    pub(super) async fn complete_action(&self, request: &mut ActionRequest) -> Result<(), Refusal> {
        for change in request.changes.iter_mut().filter(|change| change.depends_on_files()) {
            self.complete(change, request.targets.iter().map(String::as_str)).await?;
        }
        Ok(())
    }

    /// Checks and completes the change of a start for the existing apps that its targets name.
    pub(super) async fn complete_start(&self, request: &mut StartRequest) -> Result<(), Refusal> {
        let StartRequest { change, targets, .. } = request;
        let Some(change) = change.as_mut().filter(|change| change.depends_on_files()) else {
            return Ok(());
        };
        let new_name = change.definition.get("name").and_then(Value::as_str).map(str::to_owned);
        let texts = targets.iter().filter_map(|target| {
            let StartTarget { text, is_there, can_be_started, .. } = target;
            let (text, new_name) = (text.as_deref()?, new_name.as_deref());
            let written = Written { text, is_there: *is_there, can_be_started: *can_be_started, new_name };
            (written.reading(true) == Some(Reading::Existing)).then_some(text)
        });
        self.complete(change, texts).await
    }

    async fn complete(
        &self,
        change: &mut AppChange,
        targets: impl Iterator<Item = &str>,
    ) -> Result<(), Refusal> {
        for target in targets {
            let target = target.to_owned();
            let found = self.ask(|reply| Command::Describe { target, brief: true, reply }).await;
            // The engine refuses a target that names nothing.
            let Ok(found) = found else { continue };
            for app in found.apps {
                check_script(change, &app.definition).await?;
                find_links(change, &app.definition).await?;
            }
        }
        Ok(())
    }
}

async fn check_script(change: &AppChange, app: &AppDefinition) -> Result<(), Refusal> {
    let Some(script) = change.runs_itself(app) else { return Ok(()) };
    let path = PathBuf::from(script);
    if looked(&path.clone(), move || is_executable(&path)).await? {
        return Ok(());
    }
    let (script, option) = (script.to_owned(), "`--interpreter`".to_owned());
    Err(Refusal(cannot_run(app, &CannotRun::NotExecutable { script, option })))
}

async fn find_links(change: &mut AppChange, app: &AppDefinition) -> Result<(), Refusal> {
    for path in change.paths_to_watch(app) {
        let links = looked(&path.clone(), move || WatchChange::links_in(&path, is_link)).await?;
        change.by_app.watch.iter_mut().for_each(|watch| watch.links.extend(links.iter().cloned()));
    }
    Ok(())
}

fn is_link(path: &Path) -> bool {
    fs_err::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
}

/// What a look at a path yields; refused when its file system does not answer.
async fn looked<T: Send + 'static>(
    path: &Path,
    look: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    match timeout(LOOK_MAX, tokio::task::spawn_blocking(look)).await {
        Ok(found) => found.map_err(|error| Refusal::internal(error.to_string())),
        Err(_late) => {
            let seconds = LOOK_MAX.as_secs();
            Err(Refusal::internal(format!("cannot look at {} within {seconds} s", path.display())))
        }
    }
}
