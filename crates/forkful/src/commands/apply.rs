//! `forkful apply`: makes the apps match a config file. The daemon plans and performs it.

use std::fmt::Write as _;
use std::path::Path;

use clap::Args;
use forkful_api::apply::{ApplyChange, ApplyReply, ApplyRequest, PlannedApp, plan_without_apps};
use forkful_api::client::ClientError;
use forkful_api::types::{ActionReply, AppDefinition, AppView, Verb};
use forkful_config::AppOptions;

use super::act::print_table;
use super::restart::{code_changes, deployment};
use crate::cli::TableArgs;
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::format::{count, visible};
use crate::output::paint::Paint;
use crate::output::progress::Progress;
use crate::output::{self, outcome};
use crate::specs::{Specs, default_config};

#[derive(Debug, Args)]
#[command(after_help = "\
Missing apps are started, apps with a changed definition or newer code are reloaded, others keep
running. The plan is printed first. If a new version does not become ready, all changes are rolled
back, and the exit code is 1.

Examples:
  forkful apply
  forkful apply forkful.config.js --dry-run
  forkful apply forkful.config.js --prune      also delete apps that are not in the file")]
pub(crate) struct ApplyArgs {
    /// A config file; by default the one in this directory.
    #[arg(value_name = "CONFIG")]
    pub(crate) config: Option<String>,
    /// Delete the other apps in the namespaces of the file's apps.
    #[arg(long, conflicts_with = "only")]
    pub(crate) prune: bool,
    /// Only print the plan.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Only the apps with these names.
    #[arg(long, value_name = "NAMES")]
    pub(crate) only: Vec<String>,
    /// The block `env_NAME` of the config file.
    #[arg(long, value_name = "NAME")]
    pub(crate) env: Option<String>,
    /// Apps that exist get the environment of this shell. By default they keep the variables and the interpreter that they had from
    /// the shell that started them.
    #[arg(long, short = 'a')]
    pub(crate) update_env: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) table: TableArgs,
}

pub(super) async fn run(home: &Home, args: &ApplyArgs) -> Result<Exit, Failure> {
    let env: Vec<String> = args.env.iter().cloned().collect();
    let specs = Specs::new(&env, &args.only)?;
    let config = match &args.config {
        Some(config) => config.clone(),
        None => default_config("`forkful init` writes one")?,
    };
    let apps = specs.apps_of_config(Path::new(&config), &AppOptions::default())?;
    let apps: Vec<AppDefinition> = apps.iter().map(AppDefinition::from).collect();
    let code_changed_at_ms = code_changes(&apps, &[Path::new(&config)]);
    let mut request = ApplyRequest {
        apps,
        prune: args.prune,
        dry_run: true,
        update_env: args.update_env,
        code_changed_at_ms,
        deployment: deployment(),
    };
    let running = connection::running(home).await?;
    if args.dry_run && running.is_none() {
        let planned =
            plan_without_apps(request.apps.clone()).map_err(|reply| ClientError::Refused { reply })?;
        show_plan(&planned, &request.apps, args.json)?;
        return show_nothing_done(&planned, args.json);
    }
    let (mut client, ran_before) = connection::or_started(home, running).await?;
    ran_before.tell(request.apps.iter().map(|app| app.name.as_str()));
    let planned = client.apply(&request).await?;
    show_plan(&planned, &request.apps, args.json)?;
    let changes = planned.plan.iter().filter(|app| app.change != ApplyChange::Keep).count();
    if args.dry_run || changes == 0 {
        return show_nothing_done(&planned, args.json);
    }
    request.dry_run = false;
    let existing = super::targets::apps(&mut client, &["all".to_owned()]).await.unwrap_or_default();
    let reply = {
        let _progress = Progress::start(format!("applying {}…", count(changes, "change")));
        client.apply(&request).await?
    };
    let existed = |name: &str| existing.iter().any(|app| app.definition.name == name);
    let new: Vec<_> = started(&request, &reply).into_iter().filter(|app| !existed(&app.name)).collect();
    super::unsaved::tell(&new, &ActionReply::of(reply.apps.clone()));
    if !args.update_env {
        let changes =
            |planned: &&PlannedApp| !matches!(planned.change, ApplyChange::Keep | ApplyChange::Delete);
        let changed: Vec<&str> =
            reply.plan.iter().filter(changes).map(|planned| planned.name.as_str()).collect();
        let is_again = |app: &AppView| changed.contains(&app.definition.name.as_str());
        let again: Vec<AppView> = existing.into_iter().filter(is_again).collect();
        super::unsaved::tell_of_new(&mut client, &specs.env, &again, Verb::Restart).await;
    }
    if args.json {
        output::print_json(&reply)?;
    } else {
        print_table(&client.table().await?)?;
    }
    Ok(tell(reply))
}

/// Prints the plan, unless the reply is printed as JSON.
fn show_plan(planned: &ApplyReply, apps: &[AppDefinition], is_json: bool) -> Result<(), Failure> {
    if !is_json {
        output::say(&plan_text(&planned.plan, apps, Paint::stdout()))?;
    }
    Ok(())
}

/// The end of a command that only plans, or has nothing to do.
fn show_nothing_done(planned: &ApplyReply, is_json: bool) -> Result<Exit, Failure> {
    if is_json {
        output::print_json(planned)?;
    }
    Ok(Exit::Done)
}

/// The definitions of apps that were started.
fn started(request: &ApplyRequest, reply: &ApplyReply) -> Vec<AppDefinition> {
    let is_new = |app: &&AppDefinition| {
        reply.plan.iter().any(|planned| planned.name == app.name && planned.change == ApplyChange::Start)
    };
    request.apps.iter().filter(is_new).cloned().collect()
}

/// One line for each app of the plan.
fn plan_text(plan: &[PlannedApp], apps: &[AppDefinition], paint: Paint) -> String {
    let mut text = String::new();
    for PlannedApp { name, change, notes } in plan {
        let what = match change {
            ApplyChange::Start => "start ",
            ApplyChange::Reload => "reload",
            ApplyChange::Scale => "scale ",
            ApplyChange::Keep => "keep  ",
            ApplyChange::Delete => "delete",
        };
        let workers = apps.iter().find(|app| app.name == *name && *change == ApplyChange::Start);
        let why = match workers {
            Some(app) => format!(" ({})", count(usize::from(app.instances), "worker")),
            None if notes.is_empty() => String::new(),
            None => format!(": {}", notes.join("; ")),
        };
        writeln!(text, "{what} {}{why}", paint.bold(&visible(name))).expect("a String takes everything");
    }
    text
}

/// Prints failures and rollbacks to stderr.
fn tell(reply: ApplyReply) -> Exit {
    let ApplyReply { mut apps, undone, .. } = reply;
    let failed = apps.iter().any(|app| !app.ok);
    let taken_back: Vec<&str> = undone.iter().filter(|app| app.ok).map(|app| app.name.as_str()).collect();
    // Notes tell what changed, and these apps are what they were.
    apps.iter_mut().filter(|app| taken_back.contains(&app.name.as_str())).for_each(|app| app.notes.clear());
    outcome::tell(&ActionReply::of(apps));
    if failed {
        let text = match taken_back.as_slice() {
            [] => "nothing else was changed".to_owned(),
            names => format!("taken back: {}", names.join(", ")),
        };
        output::note(&text);
        outcome::tell(&ActionReply::of(undone.into_iter().filter(|app| !app.ok).collect()));
    }
    if failed { Exit::Failed } else { Exit::Done }
}
