//! `forkful compare`: compares arms by load test.

mod git;
mod saved;

use std::time::Duration;

use clap::Args;
use forkful_core::pages::Page;
use forkful_core::spec::AppSpec;
use forkful_lab::arms::{self, Arm, Defaults};
use forkful_lab::compare::{Setup, compare};
use forkful_lab::gate::gate;
use forkful_lab::versions::{self, Version};
use forkful_lab::{markdown, text};

use super::lab;
use crate::cli::LabArgs;
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
#[command(after_help = "\
This command starts every arm on a free port, passed as PORT, and stops it afterwards. Arms run in
blocks of random order, each on a fresh server: first at saturation, then at 50 and 80 % of the
slower arm's capacity, where latencies can be compared. The default is single,cluster.
Arms: single (plain node), cluster (Forkful, one worker per core), workers=1,2,4, pool=1,4
(UV_THREADPOOL_SIZE), balance=direct,exact,shared, node=PATH,PATH, node-cluster, pm2. The first arm
is the baseline. Two scripts are compared with each other. The verdict is one of faster, slower, no
difference, inconclusive; docs/COMPARE.md explains the rule.

--git compares two commits: both are checked out in a temporary folder, built with --build, and
measured in turn; your checkout is not changed. Without --build, the packages installed here are
used if the lock files are the same. The exit code is then a gate:
  0  not slower    5  slower    6  inconclusive, or the figures cannot be trusted

Two saved reports of `bench --json` or `compare --json` are compared without a run, with the same
exit codes. The output starts with the differences in settings, and states its limitations.

Examples:
  forkful compare server.js --path /fast
  forkful compare --git main HEAD server.js --path /fast --build 'npm ci' --markdown
  forkful compare server.js --path /fast --html result.html --budget 2m
  forkful compare server.js --path /pool --arms pool=1,4 -i 1
  forkful compare old.js new.js --path / --arms cluster
  forkful compare before.json after.json --html result.html
  forkful compare server.js --path / --arms single,cluster,node-cluster,pm2
  forkful compare server.js --path / --https --cacert ca.pem --server-name localhost
  forkful compare server.js --path /fast --beside '/delay@2' --no-keep-alive
  forkful compare server.js --path / --aa             the smallest detectable difference")]
pub(crate) struct CompareArgs {
    /// One script or config file, two scripts, or two saved reports. With --git: one, or none if package.json
    /// or a config file names the script.
    #[arg(required_unless_present = "git", value_name = "SCRIPT|CONFIG|REPORT", num_args = 1..=2)]
    pub(crate) targets: Vec<String>,
    /// Compare two commits of this repository.
    #[arg(long, value_names = ["BASE", "HEAD"], num_args = 2, conflicts_with = "aa")]
    pub(crate) git: Vec<String>,
    /// With --git: a shell command that builds each version, such as 'npm ci && npm run build'.
    #[arg(long, value_name = "COMMAND", requires = "git")]
    pub(crate) build: Option<String>,
    /// Print Markdown, for a comment on a pull request.
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// The setups to compare.
    #[arg(long, value_name = "LIST")]
    pub(crate) arms: Option<String>,
    /// Compare the last arm with itself, to find the smallest difference that this machine can detect.
    #[arg(long)]
    pub(crate) aa: bool,
    /// Number of blocks; by default as many as the budget allows (6 to 18).
    #[arg(long, value_name = "NUMBER")]
    pub(crate) blocks: Option<usize>,
    /// Take longer than --budget if it is too short for a result.
    #[arg(long, requires = "budget")]
    pub(crate) extend: bool,
    /// Do not measure latency at equal rates.
    #[arg(long, conflicts_with = "beside_latency")]
    pub(crate) no_latency: bool,
    #[command(flatten)]
    pub(crate) lab: LabArgs,
}

/// The default arms.
const ARMS: &str = "single,cluster";

/// Enough for six blocks of most apps.
const BUDGET: Duration = Duration::from_secs(60);

/// The default arms for two scripts: plain processes, or clusters of `-i` workers.
fn arms_of_two(with_workers: bool) -> &'static str {
    if with_workers { "cluster" } else { "single" }
}

pub(super) fn run(args: &CompareArgs) -> Result<Exit, Failure> {
    lab::check_page(args.lab.html.as_deref())?;
    if let Some(texts) = saved::reports_of(args)? {
        return saved::compare(args, &texts);
    }
    let target = lab::target(&args.lab.request)?;
    let stop = lab::interruptible()?;
    let mut watch = lab::Watch::new(args.lab.json);
    let checked = if args.git.is_empty() { None } else { Some(git::check_out(args, &stop, &mut watch)?) };
    let (apps, script) = match &checked {
        Some(checked) => (checked.apps.clone(), checked.script.clone()),
        None => (apps(args)?, args.targets.join(" ")),
    };
    let mut arms = arms(args, &apps)?;
    let versions = checked.as_ref().map(|checked| &checked.worktrees.versions);
    match versions {
        Some(versions) if arms.len() == versions.len() => versions::name_arms(&mut arms, versions),
        Some(_) => {
            let error = format!(
                "--git compares two versions with one arm, but `{}` has several",
                arms_list(args, &apps)
            );
            return Err(Failure::new(Exit::WrongUse, error)
                .hint("`--arms cluster` compares both as clusters")
                .see(Page::Arms));
        }
        None => {
            arms::naming::after_scripts(&mut arms, &args.targets);
            arms::naming::after_versions(&mut arms, forkful_lab::machine::version_of);
        }
    }
    let setup = lab::setup(&args.lab, target, &script, apps, arms, BUDGET, stop)?;
    let mut setup = Setup {
        keeps_budget: setup.keeps_budget && !args.extend,
        extends: args.extend,
        blocks: args.blocks,
        with_latency: !args.no_latency && !args.aa,
        self_test: args.aa,
        ..setup
    };
    setup.heading.versions = versions.into_iter().flatten().map(Version::document).collect();
    let document = compare(&setup, &mut watch)?;
    drop(watch);
    let is_gate = checked.is_some();
    // Remove the worktrees before printing anything.
    drop(checked);
    let report = if args.markdown { markdown::compare(&document) } else { text::compare(&document) };
    lab::show(&document, &report, &args.lab)?;
    Ok(if is_gate { git::exit(&gate(&document)) } else { Exit::Done })
}

fn apps(args: &CompareArgs) -> Result<Vec<AppSpec>, Failure> {
    args.targets.iter().map(|target| lab::app(target, &args.lab.app, &args.lab.args)).collect()
}

fn arms_list<'a>(args: &'a CompareArgs, apps: &[AppSpec]) -> &'a str {
    let with_workers = args.lab.app.text("instances").is_some();
    args.arms.as_deref().unwrap_or(if apps.len() > 1 { arms_of_two(with_workers) } else { ARMS })
}

fn arms(args: &CompareArgs, apps: &[AppSpec]) -> Result<Vec<Arm>, Failure> {
    let workers = match args.lab.app.text("instances") {
        Some(_) => apps[0].instances,
        None => forkful_os::cores::usable_cores().count,
    };
    let defaults =
        Defaults { workers, workers_given: args.lab.app.text("instances").is_some(), apps: apps.len() };
    let list = arms_list(args, apps);
    Ok(if args.aa { arms::self_test(list, defaults)? } else { arms::parse(list, defaults)? })
}
