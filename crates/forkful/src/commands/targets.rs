//! Converts targets to what the daemon understands: config files to the names of their apps, paths to absolute
//! paths. A text that may be a name or a file is sent with its folder; names, ids and patterns are sent unchanged.

use std::path::Path;

use forkful_api::client::Client;
use forkful_api::types::{AppView, WorkerView};
use forkful_core::pages::Page;
use forkful_core::targets::{Target, as_typed, pattern_of};
use regex::Regex;

use crate::connection::{self, refused_for};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::specs::{Specs, is_config};
use crate::working_directory::WorkingDirectory;

/// Targets for the daemon. `only` are names of apps in the config files among them.
pub(super) fn expand(targets: Vec<String>, only: &[String]) -> Result<Vec<String>, Failure> {
    if !only.is_empty() && !targets.iter().any(|target| is_config(target)) {
        return Err(only_without_config());
    }
    let mut expanded = Vec::with_capacity(targets.len());
    for target in targets {
        if is_config(&target) {
            expanded.extend(Specs::new(&[], only)?.names_of_config(Path::new(&target))?);
        } else if pattern_of(&target).is_some() {
            check_pattern(&target)?;
            expanded.push(target);
        } else {
            expanded.push(with_folder(target)?);
        }
    }
    Ok(expanded)
}

/// `--only` names apps of a config file.
pub(super) fn only_without_config() -> Failure {
    Failure::new(Exit::WrongUse, "--only selects apps of a config file, but no config file is named")
        .hint("name the config file, as in `forkful stop forkful.config.js --only api`")
        .see(Page::Targets)
}

/// Refuses an invalid regular expression before the daemon is asked, or if there is none.
pub(super) fn check_pattern(target: &str) -> Result<(), Failure> {
    let fault = match pattern_of(target) {
        None => return Ok(()),
        Some("") => format!("`{target}` is an empty pattern"),
        Some(pattern) => match Regex::new(pattern) {
            Ok(_) => return Ok(()),
            Err(fault) => {
                // The library's message spans several lines; the last one has the reason.
                let told = fault.to_string();
                let what = told.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                format!("invalid regular expression {target}: {what}")
            }
        },
    };
    Err(Failure::new(Exit::WrongUse, fault)
        .hint("a target between slashes is a pattern of names, as in '/^api-/'")
        .see(Page::Targets))
}

/// A text that may name a file is sent with the folder in which it was typed: the daemon knows the names of apps.
/// A name may contain slashes, so only a text that must be a path needs the folder.
fn with_folder(target: String) -> Result<String, Failure> {
    let is_id = target.bytes().all(|byte| byte.is_ascii_digit());
    if target == "all" || is_id {
        return Ok(target);
    }
    let cwd = WorkingDirectory::of_caller();
    let cwd = match cwd.path() {
        Some(cwd) => cwd,
        None if target.starts_with('/') => {
            return Ok(forkful_config::tidy(Path::new(&target)).to_string_lossy().into_owned());
        }
        None if target.starts_with("./") || target.starts_with("../") => cwd.needed_by(&target, "")?,
        None => return Ok(target),
    };
    let written = cwd.join(&target);
    if !target.contains('/') && !written.is_file() {
        return Ok(target);
    }
    let path = forkful_config::tidy(&written);
    let typed = cwd.to_str().and_then(|folder| Target::typed_in(folder, &target));
    // A text with `..` is a path.
    let typed = typed.filter(|typed| typed.script().is_some_and(|script| path == Path::new(&script)));
    Ok(typed.map_or_else(|| path.to_string_lossy().into_owned(), |typed| typed.to_string()))
}

/// A connection to the daemon for these targets. Without a daemon there are no apps.
pub(super) async fn client_for(home: &Home, targets: &[String]) -> Result<Client, Failure> {
    match connection::running(home).await? {
        Some(client) => Ok(client),
        None => Err(connection::no_such_app(home, targets.first().map_or("all", |target| as_typed(target)))),
    }
}

/// All that can be told about the apps of targets, each app once; their agents measure for it.
pub(super) async fn described(client: &mut Client, targets: &[String]) -> Result<Vec<AppView>, Failure> {
    let mut found = Vec::new();
    for target in targets {
        let described = client.describe(target).await;
        add_new(&mut found, described.map_err(|error| refused_for(error, client, targets))?.apps);
    }
    Ok(found)
}

/// What is already known of the apps of targets, each app once.
pub(super) async fn apps(client: &mut Client, targets: &[String]) -> Result<Vec<AppView>, Failure> {
    let mut found = Vec::new();
    for target in targets {
        add_new(&mut found, find(client, target).await?);
    }
    Ok(found)
}

async fn find(client: &mut Client, target: &String) -> Result<Vec<AppView>, Failure> {
    let found = client.find(target).await;
    Ok(found.map_err(|error| refused_for(error, client, std::slice::from_ref(target)))?.apps)
}

fn add_new(found: &mut Vec<AppView>, apps: Vec<AppView>) {
    for app in apps {
        if !found.iter().any(|known| known.definition.name == app.definition.name) {
            found.push(app);
        }
    }
}

/// The workers of targets by id; an id is a single worker.
pub(super) async fn workers(client: &mut Client, targets: &[String]) -> Result<Vec<WorkerView>, Failure> {
    let mut found: Vec<WorkerView> = Vec::new();
    for target in targets {
        let id: Option<u32> = target.parse().ok();
        let apps = find(client, target).await?;
        let workers = apps.into_iter().flat_map(|app| app.workers);
        found.extend(workers.filter(|worker| id.is_none_or(|id| id == worker.pm_id)));
    }
    found.sort_by_key(|worker| worker.pm_id);
    found.dedup_by_key(|worker| worker.pm_id);
    Ok(found)
}
