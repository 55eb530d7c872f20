//! `forkful restart`: stops apps and starts them again, with a config file's new definitions if one is named.

use std::path::Path;

use forkful_api::client::Client;
use forkful_api::types::{ActionReply, ActionRequest, AppDefinition, AppOutcome, AppView, StartRequest};

use super::act::{Words, request, tell};
use crate::cli::RestartArgs;
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::format::count;
use crate::output::progress::Progress;
use crate::specs::Specs;

pub(super) async fn run(home: &Home, args: &RestartArgs) -> Result<Exit, Failure> {
    roll(home, args, Words { verb: "restart", doing: "restarting", done: "restarted" }).await
}

/// What `restart` and `reload` share. Apps of a config file that the daemon does not know are started.
pub(super) async fn roll(home: &Home, args: &RestartArgs, words: Words<'_>) -> Result<Exit, Failure> {
    let (definitions, mut targets) = definitions(args)?;
    let mut client = if definitions.is_empty() {
        match connection::running(home).await? {
            Some(client) => client,
            None => return Err(Failure::no_such_app(targets.first().map_or("all", String::as_str))),
        }
    } else {
        connection::needed(home).await?
    };
    let (known, new) = split(&mut client, definitions).await?;
    targets.extend(known.iter().map(|definition| definition.name.clone()));
    let mut groups = Vec::new();
    if !targets.is_empty() {
        let _progress = Progress::start(format!("{} {}…", words.doing, targets.join(", ")));
        let numbers: Vec<(String, u16)> =
            known.iter().map(|definition| (definition.name.clone(), definition.instances)).collect();
        let request = ActionRequest { definitions: known, ..request(targets, args.no_wait) };
        let mut reply = client.action(words.verb, &request).await?;
        scale(&mut client, &numbers, &mut reply, !args.no_wait).await?;
        groups.push((if args.no_wait { words.doing } else { words.done }, reply));
    }
    if !new.is_empty() {
        let _progress = Progress::start(super::start::doing(&new));
        let request = StartRequest { apps: new, wait: !args.no_wait };
        groups.push((super::start::done(args.no_wait), client.start(&request).await?));
    }
    tell(&mut client, groups, args.json).await
}

/// Gives apps the number of workers that their config asks for: a reload replaces workers and leaves
/// their number alone. Apps that could not be reloaded keep theirs.
async fn scale(
    client: &mut Client,
    numbers: &[(String, u16)],
    reply: &mut ActionReply,
    wait: bool,
) -> Result<(), Failure> {
    if numbers.is_empty() {
        return Ok(());
    }
    let list = client.list().await?;
    for (name, instances) in numbers {
        let is_other =
            |app: &AppView| app.definition.name == *name && app.workers.len() != usize::from(*instances);
        let Some(outcome) = reply.apps.iter_mut().find(|outcome| outcome.name == *name && outcome.ok) else {
            continue;
        };
        if !list.apps.iter().any(is_other) {
            continue;
        }
        let request = ActionRequest { instances: Some(*instances), ..request(vec![name.clone()], !wait) };
        for scaled in client.action("scale", &request).await?.apps {
            outcome.notes.push(format!("scaled to {}", count(usize::from(*instances), "worker")));
            outcome.notes.extend(scaled.notes);
            if !scaled.ok {
                *outcome = AppOutcome { notes: std::mem::take(&mut outcome.notes), ..scaled };
            }
        }
    }
    Ok(())
}

/// The definitions of the config files among the targets, and the other targets.
fn definitions(args: &RestartArgs) -> Result<(Vec<AppDefinition>, Vec<String>), Failure> {
    let (configs, names): (Vec<&String>, Vec<&String>) =
        args.targets.iter().partition(|target| crate::specs::is_config(target));
    if configs.is_empty() {
        if !args.env.is_empty() || !args.only.is_empty() {
            let error = "--env and --only belong to a config file, and none is named";
            return Err(Failure::new(Exit::WrongUse, error)
                .hint("name the config file, as in `forkful reload forkful.config.js --env production`"));
        }
        return Ok((Vec::new(), args.targets.clone()));
    }
    let specs = Specs::new(&args.env, &args.only)?;
    let mut definitions = Vec::new();
    for config in configs {
        let apps = specs.apps_of_config(Path::new(config), &specs.only_env())?;
        definitions.extend(apps.iter().map(AppDefinition::from));
    }
    Ok((definitions, names.into_iter().cloned().collect()))
}

/// Parts the apps that the daemon knows from those that it does not.
async fn split(
    client: &mut Client,
    definitions: Vec<AppDefinition>,
) -> Result<(Vec<AppDefinition>, Vec<AppDefinition>), Failure> {
    if definitions.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let list = client.list().await?;
    let is_known =
        |definition: &AppDefinition| list.apps.iter().any(|app| app.definition.name == definition.name);
    Ok(definitions.into_iter().partition(is_known))
}
