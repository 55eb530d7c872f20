//! `forkful doctor`: watches apps for several seconds and reports what limits them. The daemon measures once
//! a second; `forkful_core::doctor` makes the diagnosis.

mod fix;
mod past;
mod profile;
mod report;
mod steps;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use forkful_api::client::Client;
use forkful_api::types::{AppView, DoctorReply, DoctorReport, Status};
use forkful_core::doctor::{App, Diagnosis, SECONDS_MIN, Signs, examine, unseen};
use forkful_core::outgoing::{HostLoad, RefusalWatch};
use forkful_os::cores::usable_cores;
use tokio::time::{MissedTickBehavior, interval};

use self::fix::Trial;
use super::targets::{client_for, described, expand};
use crate::cli::duration;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::output::paint::Paint;
use crate::output::progress::Progress;
use crate::output::{self, doctor, profiled};

#[derive(Debug, Args)]
#[command(after_help = "\
Run it while the app is slow: the verdict covers only these seconds. docs/DOCTOR.md describes every
verdict, its rule and what to do.

Examples:
  forkful doctor api
  forkful doctor api --for 30s
  forkful doctor api --ago 10m
  forkful doctor api --profile             the hottest functions of its busiest worker
  forkful doctor api --fix
  forkful doctor --json | jq '.apps[].verdict'")]
pub(crate) struct DoctorArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, `all`, or config files.
    #[arg(value_name = "APP|CONFIG", default_value = "all")]
    pub(crate) targets: Vec<String>,
    /// How long to watch; a verdict needs 10 s.
    #[arg(long = "for", value_name = "DURATION", default_value = "12s", value_parser = duration)]
    pub(crate) watch_for: Duration,
    /// Use measurements of the last hour instead of watching: `--ago 5m --for 30s` covers the 30 seconds that
    /// ended 5 minutes ago, `--ago 0s` the last seconds.
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "fix")]
    pub(crate) ago: Option<Duration>,
    /// Then take a CPU profile of the busiest worker (or of the one whose id is given), for as long again, 60 s at most: the hottest functions are named,
    /// and the profile is written as a flame graph for the browser and as a `.cpuprofile` for the developer tools of Chrome and VS Code.
    #[arg(long, conflicts_with_all = ["ago", "fix"])]
    pub(crate) profile: bool,
    /// The folder for the files of `--profile`; it is created if needed.
    #[arg(long, value_name = "FOLDER", default_value = ".", hide_default_value = true, requires = "profile")]
    pub(crate) out: PathBuf,
    /// Try the change that would help most (workers, pool, memory of Node.js, balance): measure again for as
    /// long, and revert it unless it helped. The exit code is 1 if nothing helped. Ctrl-C reverts it, too.
    #[arg(long)]
    pub(crate) fix: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measurements are means over a second.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A verdict never needs more than an hour of seconds.
const LOOKS_MAX: u64 = 3600;

/// Seconds of each worker, by app and slot.
type Seen = BTreeMap<String, BTreeMap<u16, Vec<Signs>>>;

pub(super) async fn run(home: &Home, args: &DoctorArgs) -> Result<Exit, Failure> {
    let targets = expand(args.targets.clone(), &[])?;
    let looks = args.watch_for.as_secs().min(LOOKS_MAX);
    if looks < SECONDS_MIN as u64 {
        let hint = format!("`--for {SECONDS_MIN}s` or longer gives a verdict");
        return Err(Failure::new(Exit::WrongUse, format!("{looks} s are too short for a verdict")).hint(hint));
    }
    let mut client = client_for(home, &targets).await?;
    if args.profile {
        profile::check(&mut client, &targets, &args.out).await?;
    }
    if args.fix {
        fix::check(&mut client, &targets).await?;
    }
    let watched = match args.ago {
        Some(ago) => past::read(&mut client, &targets, looks, ago).await?,
        None => watch(&mut client, &targets, looks, args.json).await?,
    };
    let watched = without_unmeasured(watched);
    let diagnosed = watched.iter().map(|(view, app)| (view, app, examine(app)));
    let diagnosed: Vec<(&AppView, &App, Diagnosis)> = diagnosed.collect();
    let seen = report::Time { seconds: looks, ago: args.ago.unwrap_or_default() };
    let mut reports: Vec<DoctorReport> = Vec::new();
    for (view, _, diagnosis) in &diagnosed {
        let report = report::report(&mut client, view, diagnosis, seen).await;
        reports.push(if args.profile { report.before_profile() } else { report });
    }
    let unseen = unseen_by(&mut client, &watched).await?;
    let mut reply = DoctorReply { apps: reports, profile: None, fix: None, unseen };
    if !args.json {
        let texts: Vec<String> = reply.apps.iter().map(|app| doctor::report(app, Paint::stdout())).collect();
        output::print(&texts.join("\n"))?;
    }
    if let [(view, _, _)] = diagnosed.as_slice()
        && args.profile
    {
        let wish =
            profile::Wish { folder: &args.out, length: Duration::from_secs(looks), is_quiet: args.json };
        let taken = match profile::take(client, &targets, view, &wish).await {
            Ok(taken) => taken,
            Err(failure) => return without_profile(&reply, failure, args.json),
        };
        if !args.json {
            output::print(&profiled::report(&taken, Paint::stdout()))?;
        }
        reply.profile = Some(taken);
    }
    if !args.json {
        output::print(&doctor::unseen(&reply.unseen, Paint::stdout()))?;
    }
    if let [(view, app, diagnosis)] = diagnosed.as_slice()
        && args.fix
    {
        let trial = Trial { home, view, before: app, diagnosis, looks, is_quiet: args.json };
        let fixed = trial.run().await?;
        if !args.json {
            output::print(&doctor::fix(&fixed, Paint::stdout()))?;
        }
        reply.fix = Some(fixed);
    }
    if args.json {
        output::print_json(&reply)?;
    }
    Ok(match &reply.fix {
        Some(fix) if fix.interrupted => Exit::Interrupted,
        Some(fix) if !fix.kept => Exit::Failed,
        _ => Exit::Done,
    })
}

/// No profile could be taken: the verdict was measured all the same. As text, it is printed already.
fn without_profile(reply: &DoctorReply, failure: Failure, is_json: bool) -> Result<Exit, Failure> {
    if is_json {
        output::print_json(reply)?;
    }
    Err(failure)
}

/// The verdict on an app's seconds that ended this long ago.
pub(super) async fn past(
    client: &mut Client,
    target: &str,
    seconds: u64,
    ago: Duration,
) -> Result<DoctorReply, Failure> {
    let watched = past::read(client, &[target.to_owned()], seconds, ago).await?;
    let mut apps = Vec::new();
    for (view, app) in &watched {
        let seen = report::Time { seconds, ago };
        apps.push(report::report(client, view, &examine(app), seen).await);
    }
    let unseen = unseen_by(client, &watched).await?;
    Ok(DoctorReply { apps, profile: None, fix: None, unseen })
}

/// What a daemon in the portable mode did not measure; nothing for any other.
async fn unseen_by(client: &mut Client, watched: &[(AppView, App)]) -> Result<Vec<String>, Failure> {
    if !client.ping().await?.portable {
        return Ok(Vec::new());
    }
    Ok(unseen(watched.iter().map(|(_, app)| app)).into_iter().map(str::to_owned).collect())
}

/// Samples the apps this many times; returns the samples, and the apps as they were at the end.
async fn watch(
    client: &mut Client,
    targets: &[String],
    looks: u64,
    is_quiet: bool,
) -> Result<Vec<(AppView, App)>, Failure> {
    let progress = (!is_quiet).then(|| Progress::start("watching".to_owned()));
    // The first request makes the agents measure; it contains no data about the last second yet.
    let mut found = described(client, targets).await?;
    refuse_without_processes(&found)?;
    let mut seen = Seen::new();
    let mut refusals: BTreeMap<String, RefusalWatch> = BTreeMap::new();
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    for look in 0..looks {
        ticks.tick().await;
        progress.iter().for_each(|progress| progress.say(format!("watching, {} s left", looks - look)));
        found = described(client, targets).await?;
        for app in &found {
            refusals.entry(app.definition.name.clone()).or_default().look(&app.outgoing);
            let slots = seen.entry(app.definition.name.clone()).or_default();
            for worker in app.workers.iter().filter(|worker| worker.status == Status::Online) {
                let signs = Signs::of_watched(|name| worker.metrics.get(name).copied(), worker.blocked_ms);
                slots.entry(worker.slot).or_default().push(signs);
            }
        }
    }
    let with_seconds = |view: AppView| {
        let name = &view.definition.name;
        let refusing = refusals.get(name).and_then(RefusalWatch::worst).cloned();
        let app = watched(&view, seen.remove(name).unwrap_or_default(), refusing);
        (view, app)
    };
    Ok(found.into_iter().map(with_seconds).collect())
}

/// Leaves out apps that did not run, of several: more time would not give them a verdict.
fn without_unmeasured(watched: Vec<(AppView, App)>) -> Vec<(AppView, App)> {
    let is_measured = |(_, app): &(AppView, App)| app.workers.iter().any(|worker| !worker.seconds.is_empty());
    if !watched.iter().any(is_measured) {
        return watched;
    }
    let (measured, others): (Vec<_>, Vec<_>) = watched.into_iter().partition(is_measured);
    for (_, app) in &others {
        output::note(&format!("{} is left out: none of its workers ran in this time", app.name));
    }
    measured
}

/// Refuses apps of which no process is there: to watch them for longer would not help.
fn refuse_without_processes(apps: &[AppView]) -> Result<(), Failure> {
    let runs = |app: &AppView| {
        app.workers
            .iter()
            .any(|worker| matches!(worker.status, Status::Online | Status::Launching | Status::Stopping))
    };
    let Some(app) = apps.first().filter(|_| !apps.iter().any(runs)) else { return Ok(()) };
    let name = &app.definition.name;
    let status = app.workers.first().map_or(Status::Stopped, |worker| worker.status);
    let hint = match status {
        Status::Errored | Status::WaitingRestart => format!("`forkful describe {name}` says why"),
        _ => format!("`forkful start {name}` starts it; `--ago` looks at an earlier time"),
    };
    Err(Failure::new(Exit::Failed, format!("`{name}` does not run ({status}): there is nothing to watch"))
        .hint(hint))
}

/// The app's data for the diagnosis.
fn watched(app: &AppView, seconds: BTreeMap<u16, Vec<Signs>>, refusing: Option<HostLoad>) -> App {
    app.watched(usable_cores().of_app(app.definition.cpu_max_millicores), seconds, refusing)
}
