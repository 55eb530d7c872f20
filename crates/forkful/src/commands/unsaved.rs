//! Notes about variables of the caller's shell: their values are not saved when apps start or when the daemon
//! is installed to start at boot, and they do not reach an app that keeps its environment. Only names are
//! printed, never values.

use std::collections::BTreeMap;

use forkful_api::client::Client;
use forkful_api::types::{ActionReply, AppDefinition, AppView, Verb};
use forkful_core::spec::environment::{belongs_to_login, is_for_other_users};

use crate::home::Home;
use crate::output;
use crate::output::format::shortened;

/// Warns about started apps that would lack variables after a crash or at boot. For an app that failed, only
/// its error is printed.
pub(super) fn tell(apps: &[AppDefinition], reply: &ActionReply) {
    let has_started =
        |app: &&AppDefinition| reply.apps.iter().any(|outcome| outcome.ok && outcome.name == app.name);
    for note in notes(apps.iter().filter(has_started)) {
        output::note(&note);
    }
}

/// The same for running apps, if there is a daemon.
pub(super) async fn tell_of_running(home: &Home) {
    let Ok((mut client, _)) = Client::connect(&home.socket()).await else { return };
    let Ok(list) = client.list().await else { return };
    for note in notes(list.apps.iter().map(|app| &app.definition)) {
        output::note(&note);
    }
}

fn notes<'a>(apps: impl Iterator<Item = &'a AppDefinition>) -> Vec<String> {
    let mut by_names: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    for app in apps {
        let names = app.unsaved_variables();
        if names.is_empty() {
            continue;
        }
        match by_names.iter_mut().find(|(known, _)| *known == names) {
            Some((_, apps)) => apps.push(&app.name),
            None => by_names.push((names, vec![&app.name])),
        }
    }
    let note = |(names, apps): (Vec<&str>, Vec<&str>)| {
        format!(
            "{}: the value of {} comes from this shell and is not saved: it is missing after a crash or a reboot. \
             Write it into a file that `env_file` names, or keep it with `save_env: true` or `forkful save --with-env`",
            shortened(&apps),
            shortened(&names)
        )
    };
    by_names.into_iter().map(note).collect()
}

/// Notes about variables of this shell that are new to apps that keep their environment.
pub(super) async fn tell_of_new(
    client: &mut Client,
    caller: &BTreeMap<String, String>,
    apps: &[AppView],
    verb: Verb,
) {
    for app in apps {
        let name = &app.definition.name;
        // A daemon of another version may not support this; then there is no hint.
        let Ok(reply) = client.environment(name, true).await else { return };
        let Some(present) = reply.apps.get(name) else { continue };
        let is_others = app.definition.is_of_another_user(rustix::process::geteuid().as_raw());
        let new = new_names(caller, present, &app.definition, is_others);
        if !new.is_empty() {
            output::note(&format!(
                "{name} keeps its environment: {} of this shell {} not reach it; `forkful {verb} {name} --update-env` \
                 applies this environment",
                shortened(&new),
                if new.len() == 1 { "does" } else { "do" },
            ));
        }
    }
}

/// What `--update-env` would change: variables that the app lacks, or has from a shell with another value.
fn new_names<'a>(
    caller: &'a BTreeMap<String, String>,
    present: &BTreeMap<String, String>,
    app: &AppDefinition,
    is_others: bool,
) -> Vec<&'a str> {
    let inherited = &app.env_sources.inherited;
    let is_new = |(name, value): &(&String, &String)| match present.get(*name) {
        None => true,
        Some(known) => known != *value && inherited.contains(*name),
    };
    caller
        .iter()
        .filter(is_new)
        .map(|(name, _)| name.as_str())
        .filter(|name| !belongs_to_login(name) && (!is_others || is_for_other_users(name)))
        .filter(|name| app.env_sources.filter.admits(name))
        .collect()
}
