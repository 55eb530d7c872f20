//! `forkful start`: starts new apps from scripts, command lines and config files, and existing apps by name.
//! The daemon decides what each target means, in one request; this command reads files and programs, and prints
//! the results.

mod targets;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::Args;
use forkful_api::types::{
    ActionReply, AppChange, AppDefinition, AppOutcome, ModeKind, StartRequest, StartStep, TargetMeaning, Verb,
};
use forkful_config::AppOptions;
use forkful_core::pages::Page;
use forkful_core::spec::{AppSpec, Balance, Named};
use forkful_core::start::{IfRunning, Reading, steps};

use super::act::{ADDED, RESTART, START, Told, tell_and_attach};
use crate::cli::{AppArgs, TableArgs};
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::format::count;
use crate::output::outcome;
use crate::output::progress::Progress;
use crate::specs::{Specs, default_config, is_config};

pub(super) use targets::Targets;

/// The text after the options in `start --help`.
fn start_help() -> String {
    let modes: String =
        Balance::ALL.iter().map(|(_, name, meaning)| format!("\n- `{name}`: {}", meaning.trim())).collect();
    format!(
        "{START_HELP}\n\nBalance, how new connections are spread over the workers:{modes}\n\n{START_EXAMPLES}"
    )
}

const START_HELP: &str = "\
Without an argument, this directory's config file is used: forkful.config.* or ecosystem.config.*.
Durations are milliseconds, or strings such as 500ms, 10s, 2m.
Existing apps (name, id, namespace, `/pattern/` of names or `all`) are started, or restarted if they
are running; options change them as in `restart`. This also applies to the apps of a config file. A
script that is already running is refused. A target without a slash and an extension is first
looked up as the name of an app, then as a file; all others are first looked up as a file.";

const START_EXAMPLES: &str = "\
Examples:
  forkful start app.js -i max                        one worker per core
  PORT=3000 forkful start app.js --name api -- --verbose
  forkful start \"python3 -m http.server\" --name files
  forkful start forkful.config.js --only api --env production
  forkful start api                                  an existing app
  forkful start api -i 4 --update-env                with other options and this environment
  forkful start all";

#[derive(Debug, Args)]
#[command(after_help = start_help())]
pub(crate) struct StartArgs {
    /// Return at once instead of when the apps are ready.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Start a second copy, under another name, of a script that is already running.
    #[arg(long, short)]
    pub(crate) force: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Follow the apps' output after the start.
    #[arg(long, conflicts_with_all = ["json", "no_wait"])]
    pub(crate) attach: bool,
    /// Run in the foreground, as `forkful run` does.
    #[arg(long, conflicts_with_all = ["json", "no_wait", "force", "attach"])]
    pub(crate) no_daemon: bool,
    #[command(flatten)]
    pub(crate) app: AppArgs,
    #[command(flatten)]
    pub(crate) table: TableArgs,
}

/// How to start.
#[derive(Debug, Clone, Copy)]
pub(super) struct How<'a> {
    /// Do not wait until the apps are ready.
    pub(super) no_wait: bool,
    pub(super) told: Told,
    /// What to do about an app that is already running, instead of the daemon's hint.
    pub(super) conflict_hint: Option<&'a str>,
    /// A note about apps that are started.
    pub(super) note: Option<&'a str>,
}

pub(super) async fn run(home: &Home, args: &StartArgs) -> Result<Exit, Failure> {
    let specs = Specs::new(&args.app.options.other.env, &args.app.options.other.only)?;
    let existing = specs.options_of_existing(&args.app.options)?;
    let options = specs.options(&args.app.options)?;
    let mut targets = Targets::default();
    for target in targets_of(&args.app)? {
        targets.add(&specs, &options, &target, args.force)?;
    }
    let update_env = args.app.options.other.update_env;
    let change = if targets.may_exist() { Some(specs.change(&existing, update_env)?) } else { None };
    let told = Told { json: args.json, attach: args.attach };
    let how = How { no_wait: args.no_wait, told, conflict_hint: None, note: None };
    let variables = (!update_env).then_some(&specs.env);
    perform(home, targets, change, variables, how).await
}

/// Sends the request and prints the results. `variables` is the caller's environment, if existing apps keep theirs.
pub(super) async fn perform(
    home: &Home,
    mut targets: Targets,
    change: Option<AppChange>,
    variables: Option<&BTreeMap<String, String>>,
    how: How<'_>,
) -> Result<Exit, Failure> {
    let running = connection::running(home).await?;
    if running.is_none() {
        targets.check_without_apps(home)?;
    }
    let (mut client, ran_before) = connection::or_started(home, running).await?;
    let (targets, asides) = targets.into_parts();
    let change = change.filter(|change| !change.is_empty());
    let (wait, update_env) = (!how.no_wait, variables.is_none());
    let request = StartRequest { targets, change, update_env, wait, ..StartRequest::default() };
    let reply = {
        let _progress = Progress::start(doing_all(&request));
        client.start(&request).await
    };
    let mut reply = match reply {
        Ok(reply) => reply,
        Err(error) => return Err(asides.explain(error, &client)),
    };
    asides.tell(&reply.targets);
    reply.warnings.iter().for_each(|warning| crate::output::warn(warning));
    let meanings = std::mem::take(&mut reply.targets);
    let new = new_apps(&request, &meanings);
    let groups = Groups::of(reply.apps, &meanings, how.conflict_hint);
    if let Some(note) = how.note.filter(|_| groups.starts_something()) {
        crate::output::note(note);
    }
    ran_before.tell(new.iter().map(|app| app.name.as_str()));
    super::unsaved::tell(&new, &ActionReply::of(groups.new.clone()));
    if let Some(variables) = variables {
        let named = existing_targets(&request, &meanings);
        // A changed name is not found any more; then there is no hint.
        let apps = super::targets::apps(&mut client, &named).await.unwrap_or_default();
        super::unsaved::tell_of_new(&mut client, variables, &apps, Verb::Restart).await;
    }
    tell_and_attach(home, &mut client, groups.told(how.no_wait), how.told).await
}

/// Results by what was done.
struct Groups {
    new: Vec<AppOutcome>,
    started: Vec<AppOutcome>,
    restarted: Vec<AppOutcome>,
    refused: Vec<AppOutcome>,
}

impl Groups {
    fn of(apps: Vec<AppOutcome>, meanings: &[TargetMeaning], conflict_hint: Option<&str>) -> Self {
        let meant = || meanings.iter().flat_map(|meaning| &meaning.apps);
        let are = |step| -> BTreeSet<&str> {
            meant().filter(|app| app.step == step).map(|app| app.name.as_str()).collect()
        };
        let (new, restarted) = (are(StartStep::New), are(StartStep::Restart));
        let refused = are(StartStep::Refused);
        let mut groups =
            Self { new: Vec::new(), started: Vec::new(), restarted: Vec::new(), refused: Vec::new() };
        for mut app in apps {
            let name = app.name.as_str();
            if refused.contains(name) && !app.ok && app.pm_ids.is_empty() {
                app.hint = conflict_hint.map(str::to_owned).or(app.hint);
                groups.refused.push(app);
            } else if new.contains(name) {
                groups.new.push(app);
            } else if restarted.contains(name) {
                groups.restarted.push(app);
            } else {
                groups.started.push(app);
            }
        }
        groups
    }

    fn starts_something(&self) -> bool {
        !(self.new.is_empty() && self.started.is_empty() && self.restarted.is_empty())
    }

    /// With the word for each group.
    fn told(self, no_wait: bool) -> Vec<(&'static str, ActionReply)> {
        let (start, restart) = (START.so_far(no_wait), RESTART.so_far(no_wait));
        let Self { new, started, restarted, refused } = self;
        let new = ActionReply::of(new);
        let (new, added) =
            if no_wait { (new, ActionReply::default()) } else { outcome::without_resting(new) };
        let others = [(start, started), (restart, restarted), (start, refused)];
        let others = others.into_iter().map(|(word, apps)| (word, ActionReply::of(apps)));
        [(start, new), (ADDED, added)].into_iter().chain(others).collect()
    }
}

/// The definitions of the apps that were created, with the names that they got.
fn new_apps(request: &StartRequest, meanings: &[TargetMeaning]) -> Vec<AppDefinition> {
    let defined = request.targets.iter().zip(meanings);
    let defined = defined.filter(|(_, meaning)| meaning.reading == Reading::Definition);
    defined
        .flat_map(|(target, meaning)| target.apps.iter().zip(&meaning.apps))
        .filter(|(_, meant)| meant.step == StartStep::New)
        .map(|(app, meant)| AppDefinition { name: meant.name.clone(), ..app.clone() })
        .collect()
}

/// The targets that name existing apps, and the existing apps that are defined again.
fn existing_targets(request: &StartRequest, meanings: &[TargetMeaning]) -> Vec<String> {
    let read = request.targets.iter().zip(meanings);
    let existing = read.filter(|(_, meaning)| meaning.reading == Reading::Existing);
    let named = existing.filter_map(|(target, _)| target.text.clone());
    let defined = meanings.iter().filter(|meaning| meaning.reading == Reading::Definition);
    let again = defined
        .flat_map(|meaning| &meaning.apps)
        .filter(|app| matches!(app.step, StartStep::Start | StartStep::Restart))
        .map(|app| app.name.clone());
    named.chain(again).collect()
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

fn doing_all(request: &StartRequest) -> String {
    if request.targets.iter().all(|target| !target.apps.is_empty()) {
        let apps: Vec<AppDefinition> =
            request.targets.iter().flat_map(|target| target.apps.iter().cloned()).collect();
        return doing(&apps);
    }
    let names = request.targets.iter().flat_map(|target| {
        target.text.iter().chain(target.apps.iter().filter(|_| target.text.is_none()).map(|app| &app.name))
    });
    format!("starting {}…", names.map(String::as_str).collect::<Vec<_>>().join(", "))
}

/// All apps on the command line of `start` or `run`, resolved.
pub(super) fn named(specs: &Specs, args: &AppArgs) -> Result<Vec<AppSpec>, Failure> {
    let options = specs.options(&args.options)?;
    let mut apps = Vec::new();
    let targets = targets_of(args)?;
    // `pm2-runtime start app.js` is the command of many containers.
    let has_verb = targets.len() > 1 && targets[0] == "start" && !Path::new("start").exists();
    for target in targets.iter().skip(usize::from(has_verb)) {
        apps.extend(from_target(specs, &options, target)?);
    }
    let definitions: Vec<AppDefinition> = apps.iter().map(AppDefinition::from).collect();
    distinct(&definitions)?;
    Ok(apps)
}

/// The targets of the command line, or this directory's config file.
fn targets_of(args: &AppArgs) -> Result<Vec<String>, Failure> {
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

/// Whether all names differ, where no other app exists.
fn distinct(apps: &[AppDefinition]) -> Result<(), Failure> {
    let apps: Vec<_> = apps.iter().map(|app| (app.identity(), IfRunning::default())).collect();
    steps(&apps, |_| None).map(drop).map_err(|twice| {
        Failure::new(Exit::WrongUse, twice)
            .hint("start them one by one, each with its own `--name`")
            .see(Page::AppExists)
    })
}
