//! `forkful compare`: one arm against another, by load test.

use std::time::Duration;

use forkful_lab::arms::{self, Defaults};
use forkful_lab::compare::{Setup, compare};
use forkful_lab::text;

use super::lab;
use crate::cli::CompareArgs;
use crate::exit::{Exit, Failure};

/// What is compared when nothing is said.
const ARMS: &str = "single,cluster";

/// Six blocks of most apps.
const BUDGET: Duration = Duration::from_secs(60);

/// The same for two scripts: as they are, or as clusters of `-i` workers.
fn arms_of_two(with_workers: bool) -> &'static str {
    if with_workers { "cluster" } else { "single" }
}

pub(super) fn run(args: &CompareArgs) -> Result<Exit, Failure> {
    let target = lab::target(&args.lab.request)?;
    let apps = args
        .targets
        .iter()
        .map(|target| lab::app(target, &args.lab.app, &args.lab.args))
        .collect::<Result<Vec<_>, _>>()?;
    let workers = match args.lab.app.text("instances") {
        Some(_) => apps[0].instances,
        None => forkful_os::cores::usable_cores().count,
    };
    let defaults =
        Defaults { workers, workers_given: args.lab.app.text("instances").is_some(), apps: apps.len() };
    let list = args.arms.as_deref().unwrap_or(if apps.len() > 1 {
        arms_of_two(defaults.workers_given)
    } else {
        ARMS
    });
    let mut arms = if args.aa { arms::self_test(list, defaults)? } else { arms::parse(list, defaults)? };
    arms::naming::after_scripts(&mut arms, &args.targets);
    arms::naming::after_versions(&mut arms, forkful_lab::machine::version_of);
    let setup = Setup {
        blocks: args.blocks,
        with_latency: !args.no_latency && !args.aa,
        self_test: args.aa,
        ..lab::setup(&args.lab, target, &args.targets.join(" "), apps, arms, BUDGET)?
    };
    let document = {
        let mut watch = lab::Watch::new(args.lab.json);
        compare(&setup, &mut watch)?
    };
    lab::show(&document, &text::compare(&document), &args.lab)?;
    Ok(Exit::Done)
}
