//! `forkful restart`: stops apps and starts them again, with the new definitions of a config file or with
//! other options.

mod code;

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;
use forkful_api::client::Client;
use forkful_api::types::{ActionReply, ActionRequest, AppDefinition, AppOutcome, Deployment, Verb};
use forkful_config::AppOptions;
use forkful_core::targets::as_typed;

use super::act::{ADDED, START, Told, Words, request, tell_and_attach};
use super::targets::{client_for, expand};
use crate::cli::{ActionArgs, AppOptionArgs};
use crate::connection::{self, RanBefore};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::outcome;
use crate::output::progress::Progress;
use crate::specs::Specs;

#[derive(Debug, Args)]
#[command(after_help = "\
A config file as target applies its changes, and starts its new apps. `reload` skips apps whose
definition and files have not changed, unless `--force` is given; `restart` restarts all apps.
If the new version does not become ready, `reload` keeps the old one and exits with 1.

Other targets keep their options and their environment, except for what is given here.
`--update-env` (`-a`) adds this environment to the app's, `--env KEY=VALUE` one variable, `--env
NAME` the block `env_NAME` of its config file; `--name` renames it, `--node-args null` removes the
interpreter's arguments.

Examples:
  forkful reload api
  forkful reload all
  forkful reload api --max-memory-restart 300M -i 4
  PORT=4000 forkful restart api --update-env
  forkful reload api --env production
  forkful restart forkful.config.js --env production --only api,worker")]
pub(crate) struct RestartArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, `all`, or config files.
    #[arg(required = true, value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
    /// `reload` of a config file: also reload unchanged apps.
    #[arg(long, short)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) action: ActionArgs,
    /// Follow the apps' output afterwards.
    #[arg(long, conflicts_with_all = ["json", "no_wait"])]
    pub(crate) attach: bool,
    #[command(flatten)]
    pub(crate) options: AppOptionArgs,
}

/// Shared by `restart` and `reload`. Apps of a config file that the daemon does not know are started.
pub(super) async fn run(home: &Home, args: &RestartArgs, words: Words<'_>) -> Result<Exit, Failure> {
    let specs = Specs::new(&args.options.other.env, &args.options.other.only)?;
    let options = specs.options_of_existing(&args.options)?;
    let (definitions, targets) = definitions(&specs, &options, args)?;
    let targets = expand(targets, &[])?;
    let (mut client, ran_before) = if definitions.is_empty() {
        (client_for(home, &targets).await?, RanBefore::default())
    } else {
        connection::needed(home).await?
    };
    ran_before.tell(definitions.iter().map(|app| app.name.as_str()));
    let update_env = args.options.other.update_env;
    let change = if targets.is_empty() { None } else { Some(specs.change(&options, update_env)?) };
    let changes = change.into_iter().filter(|change| !change.is_empty()).collect();
    let mut request = ActionRequest {
        definitions: definitions.clone(),
        update_env,
        changes,
        deployment: deployment(),
        ..request(targets.clone(), args.action.no_wait)
    };
    if !args.force && words.verb == Verb::Reload {
        request.code_changed_at_ms = code_changes(&request.definitions, &configs_of(&args.targets));
    }
    let reply = again(&mut client, request, words).await?;
    reply.warnings.iter().for_each(|warning| crate::output::warn(warning));
    if !update_env {
        let is_again = |app: &&AppOutcome| !app.started && definitions.iter().any(|new| new.name == app.name);
        let again = reply.apps.iter().filter(is_again).map(|app| app.name.clone());
        let named: Vec<String> = targets.iter().cloned().chain(again).collect();
        // A changed name is not found any more; then there is no hint.
        let apps = super::targets::apps(&mut client, &named).await.unwrap_or_default();
        super::unsaved::tell_of_new(&mut client, &specs.env, &apps, words.verb).await;
    }
    let (started, rolled): (Vec<_>, Vec<_>) = reply.apps.into_iter().partition(|app| app.started);
    let (started, rolled) = (ActionReply::of(started), ActionReply::of(rolled));
    let is_new = |definition: &AppDefinition| started.apps.iter().any(|app| app.name == definition.name);
    let new: Vec<AppDefinition> = definitions.into_iter().filter(is_new).collect();
    super::unsaved::tell(&new, &started);
    let (started, added) = if args.action.no_wait {
        (started, ActionReply::default())
    } else {
        outcome::without_resting(started)
    };
    let (done, begun) = (words.so_far(args.action.no_wait), START.so_far(args.action.no_wait));
    let groups = vec![(done, rolled), (begun, started), (ADDED, added)];
    let told = Told { json: args.action.json, attach: args.attach };
    tell_and_attach(home, &mut client, groups, told).await
}

/// The version that a deployment brings by this command, if it says so.
pub(super) fn deployment() -> Option<Deployment> {
    Deployment::of(&std::env::var_os(Deployment::VARIABLE)?.to_string_lossy())
}

/// Sends the request: new definitions of some apps, and a change of the targets' apps.
async fn again(
    client: &mut Client,
    request: ActionRequest,
    words: Words<'_>,
) -> Result<ActionReply, Failure> {
    let names = request.targets.iter().chain(request.definitions.iter().map(|definition| &definition.name));
    let names: Vec<&str> = names.map(|name| as_typed(name)).collect();
    let _progress = Progress::start(format!("{} {}…", words.doing, names.join(", ")));
    match client.action(words.verb, &request).await {
        Ok(reply) => Ok(reply),
        Err(error) => Err(connection::refused_for(error, client, &request.targets)),
    }
}

/// When the code of apps last changed, if known. What config files say of the apps is compared by itself, so these files are no code.
pub(super) fn code_changes(definitions: &[AppDefinition], configs: &[&Path]) -> BTreeMap<String, u64> {
    let known =
        definitions.iter().filter_map(|app| Some((app.name.clone(), code::changed_at_ms(app, configs)?)));
    known.collect()
}

/// The config files among targets.
fn configs_of(targets: &[String]) -> Vec<&Path> {
    targets.iter().filter(|target| crate::specs::is_config(target)).map(Path::new).collect()
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
