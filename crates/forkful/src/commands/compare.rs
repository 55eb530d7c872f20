//! `forkful compare`: compares arms by load test.

mod git;
mod saved;

use std::time::Duration;

use forkful_core::pages::Page;
use forkful_core::spec::AppSpec;
use forkful_lab::arms::{self, Arm, Defaults};
use forkful_lab::compare::{Setup, compare};
use forkful_lab::gate::gate;
use forkful_lab::versions::{self, Version};
use forkful_lab::{markdown, text};

use super::lab;
use crate::cli::CompareArgs;
use crate::exit::{Exit, Failure};

/// The default arms.
const ARMS: &str = "single,cluster";

/// Enough for six blocks of most apps.
const BUDGET: Duration = Duration::from_secs(60);

/// The default arms for two scripts: plain processes, or clusters of `-i` workers.
fn arms_of_two(with_workers: bool) -> &'static str {
    if with_workers { "cluster" } else { "single" }
}

pub(super) fn run(args: &CompareArgs) -> Result<Exit, Failure> {
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
    let mut setup = Setup {
        blocks: args.blocks,
        with_latency: !args.no_latency && !args.aa,
        self_test: args.aa,
        ..lab::setup(&args.lab, target, &script, apps, arms, BUDGET, stop)?
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
