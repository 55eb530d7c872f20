//! `forkful start`: new apps from scripts, command lines and config files, and stopped apps by name.

use std::collections::BTreeSet;
use std::path::Path;

use forkful_api::types::{
    ActionReply, ActionRequest, AppDefinition, AppOutcome, AppView, StartRequest, Status, WorkerView,
};
use forkful_config::AppOptions;
use forkful_core::spec::AppSpec;

use super::act::{request, tell};
use crate::cli::{AppArgs, StartArgs};
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::format::count;
use crate::output::progress::Progress;
use crate::specs::Specs;

/// What a start comes to, once it is known which apps exist.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Apps that do not exist yet.
    new: Vec<AppDefinition>,
    /// Apps that exist and are stopped, with a new definition.
    again: Vec<AppDefinition>,
    /// Names and ids that exist and are stopped.
    existing: Vec<String>,
    /// Apps that cannot be started because they are running.
    conflicts: Vec<AppOutcome>,
}

pub(super) async fn run(home: &Home, args: &StartArgs) -> Result<Exit, Failure> {
    let known = super::list::apps(home).await?.apps;
    let plan = plan(args, &known)?;
    perform(home, plan, args.no_wait, args.json).await
}

/// Starts what is planned, and tells what became of it.
pub(super) async fn perform(home: &Home, plan: Plan, no_wait: bool, json: bool) -> Result<Exit, Failure> {
    let mut client = connection::needed(home).await?;
    let mut reply = ActionReply { apps: Vec::new() };
    if !plan.new.is_empty() {
        let _progress = Progress::start(doing(&plan.new));
        let request = StartRequest { apps: plan.new, wait: !no_wait };
        reply.apps.extend(client.start(&request).await?.apps);
    }
    if !plan.existing.is_empty() || !plan.again.is_empty() {
        let names = plan.again.iter().map(|definition| definition.name.clone());
        let targets: Vec<String> = plan.existing.into_iter().chain(names).collect();
        let _progress = Progress::start(format!("starting {}…", targets.join(", ")));
        let request = ActionRequest { definitions: plan.again, ..request(targets, no_wait) };
        reply.apps.extend(client.action("restart", &request).await?.apps);
    }
    reply.apps.extend(plan.conflicts);
    tell(&mut client, vec![(done(no_wait), reply)], json).await
}

/// What has happened to apps after a start that waited, or did not.
pub(super) fn done(no_wait: bool) -> &'static str {
    if no_wait { "starting" } else { "started" }
}

/// `starting api: 2 workers…`
pub(super) fn doing(apps: &[AppDefinition]) -> String {
    let apps: Vec<String> = apps
        .iter()
        .map(|app| format!("{}: {}", app.name, count(usize::from(app.instances), "worker")))
        .collect();
    format!("starting {}…", apps.join(", "))
}

/// All apps that the command line of `start` or `run` names, complete.
pub(super) fn named(specs: &Specs, args: &AppArgs) -> Result<Vec<AppSpec>, Failure> {
    let options = specs.options(&args.options)?;
    let mut apps = Vec::new();
    for target in targets(specs, args)? {
        apps.extend(from_target(specs, &options, &target)?);
    }
    distinct(&apps)?;
    Ok(apps)
}

fn plan(args: &StartArgs, known: &[AppView]) -> Result<Plan, Failure> {
    let specs = Specs::new(&args.app.options.env, &args.app.options.only)?;
    let options = specs.options(&args.app.options)?;
    let mut plan = Plan::default();
    let mut wanted = Vec::new();
    for target in targets(&specs, &args.app)? {
        match existing(&target, known) {
            Some(stopped) => {
                if options != AppOptions::default() {
                    let error = format!("`{target}` is an app that exists; options would not change it");
                    return Err(Failure::new(Exit::WrongUse, error)
                        .hint(format!("`forkful restart {target}` takes options and starts it")));
                }
                match stopped {
                    Ok(targets) => plan.existing.extend(targets),
                    Err(conflict) => plan.conflicts.push(conflict),
                }
            }
            None => wanted.extend(from_target(&specs, &options, &target)?),
        }
    }
    distinct(&wanted)?;
    for spec in &wanted {
        plan.add(AppDefinition::from(spec), known, args.force);
    }
    Ok(plan)
}

impl Plan {
    /// Whether anything will be started.
    pub(super) fn starts_something(&self) -> bool {
        !(self.new.is_empty() && self.again.is_empty() && self.existing.is_empty())
    }

    /// What to do about apps that are running already, instead of what `start` would say.
    pub(super) fn hint_at_conflicts(&mut self, hint: &str) {
        self.conflicts.iter_mut().for_each(|conflict| conflict.hint = Some(hint.to_owned()));
    }

    /// Plans an app, which may be known already.
    pub(super) fn add(&mut self, mut definition: AppDefinition, known: &[AppView], force: bool) {
        let Some(app) = known.iter().find(|app| app.definition.name == definition.name) else {
            return self.new.push(definition);
        };
        if app.workers.iter().all(is_stopped) {
            self.again.push(definition);
        } else if force {
            definition.name = free_name(&definition.name, known);
            self.new.push(definition);
        } else {
            self.conflicts.push(conflict(app, &definition));
        }
    }
}

/// What the command line names, or the config file that this directory has.
fn targets(specs: &Specs, args: &AppArgs) -> Result<Vec<String>, Failure> {
    if !args.targets.is_empty() {
        return Ok(args.targets.clone());
    }
    // Looked for by a relative path, so that messages name it as the user would.
    match forkful_config::find_default(Path::new("")) {
        Some(path) => Ok(vec![path.to_string_lossy().into_owned()]),
        None => Err(Failure::new(
            Exit::WrongUse,
            format!("nothing is named, and {} holds no config file", specs.cwd().display()),
        )
        .hint("name a script, as in `forkful start app.js`, or write a forkful.config.js")),
    }
}

fn from_target(specs: &Specs, options: &AppOptions, target: &str) -> Result<Vec<AppSpec>, Failure> {
    let path = Path::new(target);
    if crate::specs::is_config(target) {
        return specs.apps_of_config(path, options);
    }
    Ok(vec![specs.app_of_command_line(target, options)?])
}

/// What a target means that is the name or id of a known app: the targets to start, or why not. A
/// path is never one.
fn existing(target: &str, known: &[AppView]) -> Option<Result<Vec<String>, AppOutcome>> {
    let id: Option<u32> = target.parse().ok();
    let app = known.iter().find(|app| {
        app.definition.name == target || app.workers.iter().any(|worker| Some(worker.pm_id) == id)
    })?;
    let by_name = app.definition.name == target;
    let meant = || app.workers.iter().filter(|worker| by_name || Some(worker.pm_id) == id);
    if by_name && meant().all(is_stopped) {
        return Some(Ok(vec![target.to_owned()]));
    }
    let stopped: Vec<String> =
        meant().filter(|worker| is_stopped(worker)).map(|worker| worker.pm_id.to_string()).collect();
    Some(if stopped.is_empty() { Err(conflict(app, &app.definition)) } else { Ok(stopped) })
}

fn is_stopped(worker: &WorkerView) -> bool {
    matches!(worker.status, Status::Stopped | Status::Errored)
}

fn conflict(app: &AppView, wanted: &AppDefinition) -> AppOutcome {
    let name = &app.definition.name;
    let is_same = app.definition.script == wanted.script && app.definition.program == wanted.program;
    let (error, hint) = if is_same {
        let workers = count(app.workers.iter().filter(|worker| !is_stopped(worker)).count(), "worker");
        let hint = format!(
            "`forkful reload {name}` takes new code without losing a request; `--force` starts it once more"
        );
        (format!("already running, with {workers}"), hint)
    } else {
        let script = app.definition.script.as_ref().unwrap_or(&app.definition.program);
        (
            format!("the name belongs to another app, {script}, which is running"),
            "`--name` gives this one another name".to_owned(),
        )
    };
    AppOutcome {
        name: name.clone(),
        ok: false,
        pm_ids: Vec::new(),
        error: Some(error),
        hint: Some(hint),
        notes: Vec::new(),
        stderr_tail: Vec::new(),
    }
}

/// `api-2`, or the first after it that is free.
fn free_name(name: &str, known: &[AppView]) -> String {
    let is_taken = |candidate: &String| known.iter().any(|app| app.definition.name == *candidate);
    (2..known.len() + 3)
        .map(|number| format!("{name}-{number}"))
        .find(|candidate| !is_taken(candidate))
        .expect("more names are tried than there are apps")
}

fn distinct(apps: &[AppSpec]) -> Result<(), Failure> {
    let mut names = BTreeSet::new();
    match apps.iter().find(|app| !names.insert(app.name.as_str())) {
        None => Ok(()),
        Some(app) => Err(Failure::new(Exit::WrongUse, format!("two apps would be called `{}`", app.name))
            .hint("start them one by one, each with its own `--name`")),
    }
}
