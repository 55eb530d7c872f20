//! `forkful restart`: stops apps and starts them again, with the new definitions of a config file or with
//! other options.

mod code;

use std::collections::BTreeMap;
use std::path::Path;

use forkful_api::client::Client;
use forkful_api::types::{ActionReply, ActionRequest, AppChange, AppDefinition, Verb};
use forkful_config::AppOptions;

use super::act::{START, Told, Words, request, tell_and_attach};
use super::targets::{client_for, expand};
use crate::changes::Wanted;
use crate::cli::RestartArgs;
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::progress::Progress;
use crate::specs::Specs;

/// Shared by `restart` and `reload`. Apps of a config file that the daemon does not know are started.
pub(super) async fn run(home: &Home, args: &RestartArgs, words: Words<'_>) -> Result<Exit, Failure> {
    let specs = Specs::new(&args.options.other.env, &args.options.other.only)?;
    let options = specs.options_of_existing(&args.options)?;
    let (definitions, targets) = definitions(&specs, &options, args)?;
    let targets = expand(home, targets, &[]).await?;
    let mut client = if definitions.is_empty() {
        client_for(home, &targets).await?
    } else {
        connection::needed(home).await?
    };
    let wanted = Wanted::of_command_line(&specs, &options, &args.options);
    let defined = definitions.clone();
    let known = Again { definitions, targets, no_wait: args.no_wait, force: args.force };
    let reply = again(&mut client, &wanted, known, words).await?;
    let (started, rolled): (Vec<_>, Vec<_>) = reply.apps.into_iter().partition(|app| app.started);
    let (started, rolled) = (ActionReply { apps: started }, ActionReply { apps: rolled });
    let is_new = |definition: &AppDefinition| started.apps.iter().any(|app| app.name == definition.name);
    let new: Vec<AppDefinition> = defined.into_iter().filter(is_new).collect();
    super::unsaved::tell(&new, &started);
    let groups = vec![(words.so_far(args.no_wait), rolled), (START.so_far(args.no_wait), started)];
    let told = Told { json: args.json, attach: args.attach };
    tell_and_attach(home, &mut client, groups, told).await
}

/// Existing apps to restart or reload.
pub(super) struct Again {
    /// New definitions for some of them.
    pub(super) definitions: Vec<AppDefinition>,
    /// Targets of the others, which keep their definitions except for the requested changes.
    pub(super) targets: Vec<String>,
    /// Do not wait until they are ready.
    pub(super) no_wait: bool,
    /// Also reload apps that have not changed.
    pub(super) force: bool,
}

/// Restarts or reloads apps (`verb`) with new definitions or with changes.
pub(super) async fn again(
    client: &mut Client,
    wanted: &Wanted<'_>,
    known: Again,
    words: Words<'_>,
) -> Result<ActionReply, Failure> {
    let verb = words.verb;
    let Again { definitions, targets, no_wait, force } = known;
    let named = targets.clone();
    let (changes, targets) = changes(client, wanted, targets).await?;
    let names = targets.iter().cloned().chain(definitions.iter().map(|definition| definition.name.clone()));
    let _progress = Progress::start(format!("{} {}…", words.doing, names.collect::<Vec<_>>().join(", ")));
    let code_changed_at_ms =
        if force || verb != Verb::Reload { BTreeMap::new() } else { code_changes(&definitions) };
    let request = ActionRequest { definitions, changes, code_changed_at_ms, ..request(targets, no_wait) };
    let reply = client.action(verb, &request).await?;
    if !wanted.update_env && !named.is_empty() {
        // A changed name is not found any more; then there is no hint.
        let apps = super::targets::apps(client, &named).await.unwrap_or_default();
        super::unsaved::tell_of_new(client, &wanted.specs.env, &apps, verb).await;
    }
    Ok(reply)
}

/// When the code of apps last changed, if known.
pub(super) fn code_changes(definitions: &[AppDefinition]) -> BTreeMap<String, u64> {
    let known = definitions.iter().filter_map(|app| Some((app.name.clone(), code::changed_at_ms(app)?)));
    known.collect()
}

/// The definitions in config files among the targets, and the other targets.
fn definitions(
    specs: &Specs,
    options: &AppOptions,
    args: &RestartArgs,
) -> Result<(Vec<AppDefinition>, Vec<String>), Failure> {
    let (configs, names): (Vec<&String>, Vec<&String>) =
        args.targets.iter().partition(|target| crate::specs::is_config(target));
    if configs.is_empty() {
        if !args.options.other.only.is_empty() {
            return Err(super::targets::only_without_config());
        }
        return Ok((Vec::new(), args.targets.clone()));
    }
    let mut definitions = Vec::new();
    for config in configs {
        let apps = specs.apps_of_config(Path::new(config), options)?;
        definitions.extend(apps.iter().map(AppDefinition::from));
    }
    Ok((definitions, names.into_iter().cloned().collect()))
}

/// The changes of the targets' apps, and the targets. A change affects all workers of an app, even if only
/// some were named.
async fn changes(
    client: &mut Client,
    wanted: &Wanted<'_>,
    targets: Vec<String>,
) -> Result<(Vec<AppChange>, Vec<String>), Failure> {
    if wanted.is_nothing() || targets.is_empty() {
        return Ok((Vec::new(), targets));
    }
    let apps = super::targets::apps(client, &targets).await?;
    if wanted.options.get("name").is_some() && apps.len() > 1 {
        let error = format!("--name would give {} apps the same name", apps.len());
        return Err(Failure::new(Exit::WrongUse, error).hint("rename them one by one"));
    }
    wanted.check_block(&apps)?;
    let changes = apps.iter().map(|app| wanted.of(&app.definition)).collect::<Result<Vec<_>, _>>()?;
    Ok((changes, apps.into_iter().map(|app| app.definition.name).collect()))
}
