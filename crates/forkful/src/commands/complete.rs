//! `forkful complete`: called by the scripts of `forkful completion` at each press of Tab. Prints a line per
//! candidate, word and description separated by a tab, and `:files` as the last line if file names are
//! candidates. Never starts a daemon and never makes the user wait for one.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use forkful_api::client::Client;
use forkful_api::types::AppTable;

use crate::cli::completions::{Target, offer};
use crate::cli::overview;
use crate::connection::VERSION;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct CompleteArgs {
    /// The words after the program's name, up to the cursor.
    #[arg(last = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}

/// A daemon that does not answer within this time is skipped: Tab must feel immediate.
const PATIENCE: Duration = Duration::from_millis(500);

pub(super) async fn run(home: &Home, args: &CompleteArgs) -> Result<Exit, Failure> {
    let apps = tokio::time::timeout(PATIENCE, apps(home)).await.ok().flatten().unwrap_or_default();
    let offer = offer(&overview::command(), &args.words, || targets(&apps));
    let mut text = String::new();
    for (word, meaning) in &offer.words {
        // A word with a line break or a tab cannot be passed to a shell.
        if !word.chars().any(char::is_control) {
            writeln!(text, "{word}\t{}", meaning.lines().next().unwrap_or_default())
                .expect("a String takes everything");
        }
    }
    if offer.files {
        text.push_str(":files\n");
    }
    output::print(&text)?;
    Ok(Exit::Done)
}

/// The apps of a running daemon; none if there is no daemon, or it has another version.
async fn apps(home: &Home) -> Option<AppTable> {
    Client::connect_same_version(&home.socket(), VERSION).await.ok()?.table().await.ok()
}

/// Names first, then namespaces, ids and `all`.
fn targets(apps: &AppTable) -> Vec<Target> {
    let target = |word: String, meaning: String| Target { word, meaning };
    let mut found: Vec<Target> = Vec::new();
    for app in &apps.apps {
        let first = app.workers.first().map_or("no worker".to_owned(), |worker| worker.status.to_string());
        let meaning = format!("{} × {} {first}", app.workers.len(), app.mode);
        found.push(target(app.name.clone(), meaning));
    }
    for namespace in apps.apps.iter().map(|app| &app.namespace) {
        if namespace != forkful_core::spec::NAMESPACE_DEFAULT
            && !found.iter().any(|one| one.word == *namespace)
        {
            found.push(target(namespace.clone(), "namespace".to_owned()));
        }
    }
    for app in &apps.apps {
        for worker in &app.workers {
            found.push(target(worker.pm_id.to_string(), format!("worker of {}", app.name)));
        }
    }
    if !apps.apps.is_empty() {
        found.push(target("all".to_owned(), "all apps".to_owned()));
    }
    found
}
