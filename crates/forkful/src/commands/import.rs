//! `forkful import pm2`: imports the apps that PM2 runs or has saved. While PM2 runs, they are imported
//! stopped.

mod pm2;

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, Subcommand};
use forkful_api::types::{AppDefinition, StartRequest, StartStep, StartTarget};
use forkful_config::AppOptions;
use forkful_core::pages::Page;
use forkful_core::start::IfRunning;
use serde_json::{Value, json};

use self::pm2::Origin;
use super::act::tell;
use crate::connection;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output;
use crate::output::progress::Progress;
use crate::specs::Specs;

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    pub(crate) from: ImportFrom,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImportFrom {
    /// Start the apps that PM2 runs, or has saved.
    Pm2(ImportPm2Args),
}

#[derive(Debug, Args)]
#[command(after_help = "\
The apps are read from a running PM2, or from its dump.pm2. PM2 and its apps are left alone: if they
listen on the same ports, stop them first with `pm2 kill`, or use --stop-pm2.

Examples:
  forkful import pm2 --dry-run
  forkful import pm2 --stop-pm2
  forkful import pm2 --file /backup/dump.pm2 --only api,worker")]
pub(crate) struct ImportPm2Args {
    /// PM2's folder.
    #[arg(long, env = "PM2_HOME", value_name = "FOLDER", hide_env_values = true)]
    pub(crate) home: Option<PathBuf>,
    /// Read this dump instead of asking PM2.
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Only the apps with these names.
    #[arg(long, value_name = "NAMES")]
    pub(crate) only: Vec<String>,
    /// Only print the apps as a configuration file.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// With --dry-run: also show the values of secrets.
    #[arg(long)]
    pub(crate) show_env: bool,
    /// Stop PM2 and its apps first, then start the apps here; refused if PM2 runs apps that are not imported. Without this option, apps are imported stopped while PM2 runs.
    #[arg(long)]
    pub(crate) stop_pm2: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Maximum size of a dump, or of PM2's answer: about 10,000 processes with large environments.
const DUMP_BYTES_MAX: u64 = 256 << 20;

pub(super) async fn run(home: &Home, args: &ImportArgs) -> Result<Exit, Failure> {
    let ImportFrom::Pm2(args) = &args.from;
    let pm2_home = pm2_home(args)?;
    let pm2_runs = pm2::is_running(&pm2_home);
    let (processes, source) = processes(args, &pm2_home, pm2_runs)?;
    let imported = pm2::config(&processes, &pm2_home);
    for note in &imported.notes {
        output::note(note);
    }
    let Importable { apps, definitions, is_complete } = importable(imported.apps, &args.only, &source)?;
    let done = if is_complete { Exit::Done } else { Exit::Failed };
    if args.dry_run {
        show(apps, args.show_env)?;
        return Ok(done);
    }
    let ends_pm2 = pm2_runs && args.stop_pm2;
    if ends_pm2 {
        let origins = definitions.iter().filter_map(|app| imported.origins.get(app.name.as_str()));
        refuse_to_end_others(&pm2_home, &origins.collect::<Vec<_>>())?;
    }
    let (mut client, ran_before) = connection::needed(home).await?;
    ran_before.tell(definitions.iter().map(|app| app.name.as_str()));
    // Imported stopped before, while PM2 ran them, they run here now: nobody else does.
    let if_running = if ends_pm2 {
        stop_pm2(&pm2_home)?;
        IfRunning::LeaveRunning
    } else {
        IfRunning::LeaveExisting
    };
    // Two managers of one app would run its jobs twice.
    let pm2_goes_on = pm2_runs && !ends_pm2;
    let reply = {
        let _progress = Progress::start(super::start::doing(&definitions));
        let targets = vec![StartTarget { apps: definitions, if_running, ..StartTarget::default() }];
        let request = StartRequest { targets, wait: true, stopped: pm2_goes_on, ..StartRequest::default() };
        client.start(&request).await
    };
    let reply = reply.map_err(|error| connection::refused(error, &client))?;
    let meant = reply.targets.iter().flat_map(|target| &target.apps);
    for app in meant.filter(|app| app.step == StartStep::Left) {
        output::note(&format!("{}: exists already, left unchanged", app.name));
    }
    if pm2_goes_on && !reply.apps.is_empty() {
        output::note(
            "PM2 still runs these apps, so they are imported stopped and nothing runs twice; end PM2 with `pm2 kill`, \
             then `forkful start all`; `forkful import pm2 --stop-pm2` does both",
        );
    }
    let verb = if pm2_goes_on { "imported, stopped" } else { "imported" };
    let exit = tell(&mut client, vec![(verb, reply)], args.json).await?;
    Ok(if exit == Exit::Done { done } else { exit })
}

fn pm2_home(args: &ImportPm2Args) -> Result<PathBuf, Failure> {
    if let Some(home) = args.home.as_ref().filter(|home| !home.as_os_str().is_empty()) {
        return Ok(home.clone());
    }
    match std::env::var_os("HOME").filter(|home| !home.is_empty()) {
        Some(home) => Ok(Path::new(&home).join(".pm2")),
        None => Err(Failure::new(Exit::WrongUse, "neither PM2_HOME nor HOME is set")
            .hint("name PM2's folder with --home")
            .see(Page::FromPm2)),
    }
}

/// PM2's list of processes, and its source.
fn processes(args: &ImportPm2Args, home: &Path, pm2_runs: bool) -> Result<(Vec<Value>, String), Failure> {
    let dump = args.file.clone().unwrap_or_else(|| home.join("dump.pm2"));
    let unasked = match (pm2_runs && args.file.is_none()).then(|| pm2::ask(home, DUMP_BYTES_MAX)) {
        Some(Ok(list)) => return Ok((list, "PM2".to_owned())),
        Some(Err(fault)) => Some(fault),
        None => None,
    };
    let source = dump.display().to_string();
    match pm2::read_dump(&dump, DUMP_BYTES_MAX) {
        Ok(list) => {
            if let Some(fault) = unasked {
                output::warn(&format!("PM2 is running, but {fault}; its dump is read instead"));
            }
            Ok((list, source))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && args.file.is_none() => {
            Err(no_list(home, unasked).see(Page::FromPm2))
        }
        Err(error) => {
            let error = anyhow::Error::new(error).context(format!("cannot read {source}"));
            Err(Failure::caused(Exit::WrongUse, error)
                .hint("it must be what `pm2 save` wrote")
                .see(Page::FromPm2))
        }
    }
}

/// Without a dump: `unasked` is why a running PM2 could not be asked.
fn no_list(home: &Path, unasked: Option<String>) -> Failure {
    match unasked {
        Some(fault) => Failure::new(Exit::Failed, format!("PM2 runs, but cannot be asked: {fault}"))
            .hint("put `pm2` into PATH, or run `npx pm2 save`"),
        None => {
            let error =
                format!("no PM2 is running with its folder at {}, and it has saved nothing", home.display());
            Failure::new(Exit::NoSuchApp, error)
                .hint("`pm2 save` writes a dump; --home or PM2_HOME names another folder")
        }
    }
}

/// The wanted apps that can be imported.
struct Importable {
    /// As in a configuration file.
    apps: Vec<Value>,
    definitions: Vec<AppDefinition>,
    /// Whether these are all wanted apps; warnings tell of the others.
    is_complete: bool,
}

/// Checks the apps that `only` chooses (all, if it is empty) as if a user had written them. PM2 keeps apps whose files are gone; these
/// do not keep the others back.
fn importable(apps: Vec<Value>, only: &[String], source: &str) -> Result<Importable, Failure> {
    if apps.is_empty() {
        return Err(Failure::new(Exit::NoSuchApp, format!("{source} contains no apps")));
    }
    let specs = Specs::new(&[], &[])?;
    // Otherwise each app would be left out for this reason.
    specs.cwd.needed("paths of imported apps may be relative to it")?;
    let name_of = |app: &Value| app["name"].as_str().unwrap_or_default().to_owned();
    let names: Vec<String> = apps.iter().map(name_of).collect();
    let only = forkful_config::chosen_names(only, &names);
    let is_wanted = |app: &Value| only.is_empty() || only.contains(&name_of(app));
    let mut good = Importable { apps: Vec::new(), definitions: Vec::new(), is_complete: true };
    let mut left_out = Vec::new();
    for app in apps.into_iter().filter(is_wanted) {
        let name = name_of(&app);
        let read = forkful_config::of_value(&app, Path::new(&name)).map_err(Failure::from);
        match read.and_then(|file| specs.resolved(file, &AppOptions::default())) {
            Ok(specs) => {
                good.definitions.extend(specs.iter().map(AppDefinition::from));
                good.apps.push(app);
            }
            Err(failure) => left_out.push((name, failure)),
        }
    }
    if good.apps.is_empty() && left_out.is_empty() {
        let error = format!("{source} contains no app named {}", only.join(", "));
        return Err(Failure::new(Exit::NoSuchApp, error));
    }
    for name in only.iter().filter(|name| !names.contains(name)) {
        output::warn(&format!("--only {name}: {source} contains no app of this name"));
        good.is_complete = false;
    }
    if good.apps.is_empty() && left_out.len() == 1 {
        return Err(left_out.remove(0).1);
    }
    for (name, failure) in &left_out {
        output::warn(&format!("{name} is not imported: {}", reason(failure, name)));
        good.is_complete = false;
    }
    if good.apps.is_empty() {
        return Err(Failure::new(Exit::WrongUse, format!("no app of {source} can be imported")));
    }
    Ok(good)
}

/// Why an app is left out, without its name.
fn reason(failure: &Failure, name: &str) -> String {
    let why = failure.error.to_string();
    why.strip_prefix(&format!("{name}: ")).map(str::to_owned).unwrap_or(why)
}

fn show(mut apps: Vec<Value>, show_env: bool) -> Result<(), Failure> {
    if !show_env {
        let masked = pm2::redact(&mut apps);
        if !masked.is_empty() {
            let names = masked.into_iter().collect::<Vec<_>>().join(", ");
            output::note(&format!("values of secrets are masked: {names}; `--show-env` prints them"));
        }
    }
    output::print_json(&json!({ "apps": apps }))
}

/// Stopping PM2 ends all of its apps: refuses if some of them are not among those that start here.
fn refuse_to_end_others(home: &Path, imported: &[&Origin]) -> Result<(), Failure> {
    let list = pm2::ask(home, DUMP_BYTES_MAX).map_err(|fault| {
        Failure::new(
            Exit::Failed,
            format!("PM2 is not stopped, because it cannot be asked what it runs: {fault}"),
        )
        .hint("end PM2 with `pm2 kill`, then import the apps without --stop-pm2")
        .see(Page::FromPm2)
    })?;
    let origins = pm2::config(&list, home).origins;
    let is_imported = |origin: &Origin| imported.iter().any(|other| other.identity == origin.identity);
    let others = origins.values().filter(|origin| origin.is_in_use && !is_imported(origin));
    let has_namesake = |origin: &Origin| imported.iter().any(|other| other.name == origin.name);
    let told = |origin: &Origin| {
        let of_other = " (it is another app than the imported one of this name)";
        format!("{}{}", origin.name, if has_namesake(origin) { of_other } else { "" })
    };
    let others: Vec<String> = others.map(told).collect();
    if others.is_empty() {
        return Ok(());
    }
    let error = format!("--stop-pm2 would also end apps of PM2 that are not imported: {}", others.join(", "));
    Err(Failure::new(Exit::WrongUse, error)
        .hint(
            "import them too, or end them first with `pm2 stop NAME` (`pm2 delete NAME` if they have `cron_restart`); without \
             --stop-pm2, apps are imported stopped and PM2 goes on",
        )
        .see(Page::FromPm2))
}

/// Stops PM2 after it has saved its list, so that nothing is lost.
fn stop_pm2(home: &Path) -> Result<(), Failure> {
    for arguments in [&["save", "--force"][..], &["kill"]] {
        let status = Command::new("pm2").args(arguments).env("PM2_HOME", home).output();
        let fault = match status {
            Ok(output) if output.status.success() => continue,
            Ok(output) => format!("it ended with {}", output.status),
            Err(error) => error.to_string(),
        };
        return Err(Failure::new(Exit::Failed, format!("`pm2 {}` failed: {fault}", arguments.join(" ")))
            .hint("end PM2 by hand, then import its dump")
            .see(Page::FromPm2));
    }
    Ok(())
}
