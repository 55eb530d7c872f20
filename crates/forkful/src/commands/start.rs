//! `forkful start`: starts new apps from scripts, command lines and config files, and existing apps by name.
//! As in PM2, a running app that is named, directly or in a config file, is restarted; a script that is
//! already running is refused.

mod names;

use std::collections::BTreeSet;
use std::path::Path;

use forkful_api::types::{
    ActionReply, AppDefinition, AppOutcome, AppView, ModeKind, StartRequest, Status, WorkerView,
};
use forkful_config::AppOptions;
use forkful_core::pages::Page;
use forkful_core::spec::AppSpec;

use super::act::{RESTART, START, Told, tell_and_attach};
use super::restart::{Again, again};
use crate::changes::Wanted;
use crate::cli::{AppArgs, StartArgs};
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::format::count;
use crate::output::progress::Progress;
use crate::specs::{Specs, default_config, is_config};

/// The plan of a start, based on the existing apps.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Apps that do not exist yet.
    new: Vec<AppDefinition>,
    /// Existing apps with a new definition.
    again: Vec<AppDefinition>,
    /// Targets of existing apps.
    existing: Vec<String>,
    /// The running ones among these apps.
    running: BTreeSet<String>,
    /// Apps that cannot be started because they are running.
    conflicts: Vec<AppOutcome>,
}

/// What to do with an app that is already running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfRunning {
    /// Refuse with a message.
    Refuse,
    /// Restart it with the new definition.
    Restart,
    /// Start a second copy under another name.
    StartAnother,
}

pub(super) async fn run(home: &Home, args: &StartArgs) -> Result<Exit, Failure> {
    let known = super::list::apps(home).await?.apps;
    let specs = Specs::new(&args.app.options.other.env, &args.app.options.other.only)?;
    let options = specs.options_of_existing(&args.app.options)?;
    let plan = plan(&specs, args, &known)?;
    let wanted = Wanted::of_command_line(&specs, &options, &args.app.options);
    perform(home, plan, &wanted, args.no_wait, Told { json: args.json, attach: args.attach }).await
}

/// Performs the plan and prints the results. `wanted` is for apps that are named.
pub(super) async fn perform(
    home: &Home,
    plan: Plan,
    wanted: &Wanted<'_>,
    no_wait: bool,
    told: Told,
) -> Result<Exit, Failure> {
    let mut client = connection::needed(home).await?;
    let mut groups = Vec::new();
    if !plan.new.is_empty() {
        let request = StartRequest { apps: plan.new, wait: !no_wait, stopped: false };
        let reply = {
            let _progress = Progress::start(doing(&request.apps));
            client.start(&request).await?
        };
        super::unsaved::tell(&request.apps, &reply);
        groups.push((START.so_far(no_wait), reply));
    }
    if !plan.existing.is_empty() || !plan.again.is_empty() {
        let known = Again { definitions: plan.again, targets: plan.existing, no_wait, force: true };
        let reply = again(&mut client, wanted, known, START).await?;
        let (restarted, started) = reply.apps.into_iter().partition(|app| plan.running.contains(&app.name));
        groups.push((START.so_far(no_wait), ActionReply { apps: started }));
        groups.push((RESTART.so_far(no_wait), ActionReply { apps: restarted }));
    }
    groups.push((START.so_far(no_wait), ActionReply { apps: plan.conflicts }));
    tell_and_attach(home, &mut client, groups, told).await
}

/// `starting api: 2 workers…`
pub(super) fn doing(apps: &[AppDefinition]) -> String {
    // An app in fork mode reports nothing: it counts as started when it has been up for `min_uptime`.
    let only_forks = apps.iter().all(|app| app.mode == ModeKind::Fork && !app.wait_ready);
    let waiting = if only_forks { " checking that it stays up" } else { " waiting until it is ready" };
    let apps: Vec<String> = apps
        .iter()
        .map(|app| format!("{}: {}", app.name, count(usize::from(app.instances), "worker")))
        .collect();
    format!("starting {}…{waiting}", apps.join(", "))
}

/// All apps on the command line of `start` or `run`, resolved.
pub(super) fn named(specs: &Specs, args: &AppArgs) -> Result<Vec<AppSpec>, Failure> {
    let options = specs.options(&args.options)?;
    let mut apps = Vec::new();
    for target in targets(args)? {
        apps.extend(from_target(specs, &options, &target)?);
    }
    distinct(apps.iter())?;
    Ok(apps)
}

fn plan(specs: &Specs, args: &StartArgs, known: &[AppView]) -> Result<Plan, Failure> {
    let options = specs.options(&args.app.options)?;
    let mut plan = Plan::default();
    let mut wanted = Vec::new();
    for target in targets(&args.app)? {
        if names::existing(&target, known, options.text("name"))? {
            plan.add_running(&target, known);
            plan.existing.push(target);
        } else {
            let if_running = match (args.force, is_config(&target)) {
                (true, _) => IfRunning::StartAnother,
                (false, true) => IfRunning::Restart,
                (false, false) => IfRunning::Refuse,
            };
            let apps = from_target(specs, &options, &target)?;
            wanted.extend(apps.into_iter().map(|app| (app, if_running)));
        }
    }
    distinct(wanted.iter().map(|(app, _)| app))?;
    for (spec, if_running) in &wanted {
        plan.add(AppDefinition::from(spec), known, *if_running);
    }
    Ok(plan)
}

impl Plan {
    /// Whether the plan starts anything.
    pub(super) fn starts_something(&self) -> bool {
        !(self.new.is_empty() && self.again.is_empty() && self.existing.is_empty())
    }

    /// Sets the hint about apps that are already running, instead of that of `start`.
    pub(super) fn hint_at_conflicts(&mut self, hint: &str) {
        self.conflicts.iter_mut().for_each(|conflict| conflict.hint = Some(hint.to_owned()));
    }

    /// Plans an app, which may exist already.
    pub(super) fn add(&mut self, mut definition: AppDefinition, known: &[AppView], if_running: IfRunning) {
        let Some(app) = known.iter().find(|app| app.definition.name == definition.name) else {
            return self.new.push(definition);
        };
        if app.workers.iter().all(is_stopped) {
            return self.again.push(definition);
        }
        match if_running {
            IfRunning::Refuse => self.conflicts.push(conflict(app, &definition)),
            IfRunning::Restart => {
                self.running.insert(definition.name.clone());
                self.again.push(definition);
            }
            IfRunning::StartAnother => {
                definition.name = free_name(&definition.name, known);
                self.new.push(definition);
            }
        }
    }

    /// Records which of a target's apps are already running.
    fn add_running(&mut self, target: &str, known: &[AppView]) {
        let meant = known.iter().flat_map(|app| app.workers.iter().map(move |worker| (app, worker)));
        let running = meant
            .filter(|(app, worker)| names::means(target, app, worker, known) && !is_stopped(worker))
            .map(|(app, _)| app.definition.name.clone());
        self.running.extend(running);
    }
}

/// The targets of the command line, or this directory's config file.
fn targets(args: &AppArgs) -> Result<Vec<String>, Failure> {
    if args.targets.is_empty() {
        let hint = "name a script, as in `forkful start app.js`, or write a config file with `forkful init`";
        Ok(vec![default_config(hint)?])
    } else {
        Ok(args.targets.clone())
    }
}

fn from_target(specs: &Specs, options: &AppOptions, target: &str) -> Result<Vec<AppSpec>, Failure> {
    let path = Path::new(target);
    if is_config(target) {
        return specs.apps_of_config(path, options);
    }
    Ok(vec![specs.app_of_command_line(target, options)?])
}

fn is_stopped(worker: &WorkerView) -> bool {
    matches!(worker.status, Status::Stopped | Status::Finished | Status::Errored)
}

fn conflict(app: &AppView, wanted: &AppDefinition) -> AppOutcome {
    let name = &app.definition.name;
    let is_same = app.definition.script == wanted.script && app.definition.program == wanted.program;
    let (error, hint) = if is_same {
        let workers = count(app.workers.iter().filter(|worker| !is_stopped(worker)).count(), "worker");
        let hint = format!(
            "`forkful reload {name}` loads new code without losing a request; `--force` starts another copy"
        );
        (format!("already running, with {workers}"), hint)
    } else {
        let script = app.definition.script.as_ref().unwrap_or(&app.definition.program);
        (
            format!("the name belongs to another app, {script}, which is running"),
            "`--name` gives this one another name".to_owned(),
        )
    };
    let see = Some(Page::AppExists.url());
    AppOutcome { name: name.clone(), error: Some(error), hint: Some(hint), see, ..AppOutcome::default() }
}

/// The first free name: `api-2`, `api-3`, ….
fn free_name(name: &str, known: &[AppView]) -> String {
    let is_taken = |candidate: &String| known.iter().any(|app| app.definition.name == *candidate);
    (2..known.len() + 3)
        .map(|number| format!("{name}-{number}"))
        .find(|candidate| !is_taken(candidate))
        .expect("more names are tried than there are apps")
}

fn distinct<'a>(mut apps: impl Iterator<Item = &'a AppSpec>) -> Result<(), Failure> {
    let mut names = BTreeSet::new();
    match apps.find(|app| !names.insert(app.name.as_str())) {
        None => Ok(()),
        Some(app) => {
            Err(Failure::new(Exit::WrongUse, format!("two apps would have the name `{}`", app.name))
                .hint("start them one by one, each with its own `--name`")
                .see(Page::AppExists))
        }
    }
}
