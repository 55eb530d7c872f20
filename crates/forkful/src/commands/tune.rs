//! `forkful tune`: finds the best number of workers and thread-pool size by measurement; `--apply` writes
//! them to the configuration, `--save` saves the measurements.

mod save;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use forkful_config::NodeEvaluator;
use forkful_core::pages::Page;
use forkful_lab::compare::Setup;
use forkful_lab::document::{Patch, TuneDocument};
use forkful_lab::patch::{self, Change, PatchError};
use forkful_lab::text;
use forkful_lab::tune::{TuneSetup, parse_pools, parse_workers, pilot_arms, tune};

use super::lab;
use crate::cli::LabArgs;
use crate::exit::{Exit, Failure};
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = "\
Candidates race: all are measured in rounds of random order, and those that are certainly worse
than the best are dropped. Of the rest, the smallest within 2 % of the best is chosen, because
workers cost memory and connections. Thread-pool sizes are only compared if they make a difference.

Examples:
  forkful tune server.js --path /heavy
  forkful tune server.js --path /heavy --workers 1-8 --budget 5m
  forkful tune server.js --path /heavy --https --insecure
  forkful tune forkful.config.json --path /heavy --apply
  forkful tune forkful.config.json --path /heavy --save     for `forkful export`")]
pub(crate) struct TuneArgs {
    /// A script or a config file.
    #[arg(value_name = "SCRIPT|CONFIG")]
    pub(crate) target: String,
    /// Numbers of workers to try, such as 1,2,4 or 1-8; by default 1, 2, 4 … up to two per core.
    #[arg(long, value_name = "LIST")]
    pub(crate) workers: Option<String>,
    /// Thread-pool sizes to try, such as 1,4,16; by default those that may matter.
    #[arg(long, value_name = "LIST")]
    pub(crate) pools: Option<String>,
    /// Write the choice to the config file (forkful.config.json is created if there is none).
    #[arg(long)]
    pub(crate) apply: bool,
    /// Write the measurements to forkful.measured.json next to the config file, for `forkful export`; takes 120s by default.
    #[arg(long)]
    pub(crate) save: bool,
    #[command(flatten)]
    pub(crate) lab: LabArgs,
}

/// The configuration to write if there is none.
const FRESH: &str = "forkful.config.json";

/// Enough to distinguish thread-pool sizes on a busy machine with two cores.
const BUDGET: Duration = Duration::from_secs(90);

/// The default with `--save`, which also measures the latency of every number of workers at its own load.
const BUDGET_TO_SAVE: Duration = Duration::from_secs(120);

pub(super) fn run(args: &TuneArgs) -> Result<Exit, Failure> {
    lab::check_page(args.lab.html.as_deref())?;
    let target = lab::target(&args.lab.request)?;
    let app = lab::app(&args.target, &args.lab.app, &args.lab.args)?;
    let workers = args.workers.as_deref().map(parse_workers).transpose()?;
    let pools = args.pools.as_deref().map(parse_pools).transpose()?;
    let cores = forkful_os::cores::usable_cores().count;
    let arms = pilot_arms(cores, workers.as_deref());
    let budget = if args.save { BUDGET_TO_SAVE } else { BUDGET };
    let setup = lab::setup(&args.lab, target, &args.target, vec![app], arms, budget, lab::interruptible()?)?;
    let own_load = args.save;
    let setup = TuneSetup { setup: Setup { keeps_budget: true, ..setup }, workers, pools, own_load };
    let mut document = {
        let mut watch = lab::Watch::new(args.lab.json);
        tune(&setup, &mut watch)?
    };
    let patched = suggest(args, &setup, &mut document);
    lab::show(&document, &text::tune(&document), &args.lab)?;
    patched?;
    if document.trustworthy {
        if args.save {
            let folder = place(&args.target).0.parent().map(Path::to_owned).unwrap_or_default();
            save::save(&folder, setup.setup.apps[0].name.as_str(), &document)?;
        }
        return Ok(Exit::Done);
    }
    if args.apply || args.save {
        output::talk("note: nothing was written, because the result cannot be trusted\n");
    }
    Ok(Exit::NotTrustworthy)
}

/// Where the choice would be written; with `--apply`, writes it. An untrustworthy result is not written.
fn suggest(args: &TuneArgs, setup: &TuneSetup, document: &mut TuneDocument) -> Result<(), Failure> {
    if document.table.is_empty() || !document.trustworthy {
        return Ok(());
    }
    let choice = &document.choice;
    let pool = (choice.pool != setup.present_pool()).then_some(choice.pool);
    let change = Change { workers: choice.workers, pool };
    let name = setup.setup.apps[0].name.as_str();
    let (file, is_new) = place(&args.target);
    let mut patch = Patch { file: file.display().to_string(), applied: false, text: change.text() };
    let result = if args.apply { apply(&file, is_new, name, &args.target, change) } else { Ok(()) };
    patch.applied = args.apply && result.is_ok();
    document.patch = Some(patch);
    result
}

/// The configuration that contains the app, and whether it must be created.
fn place(target: &str) -> (PathBuf, bool) {
    if forkful_config::is_config(Path::new(target)) {
        return (PathBuf::from(target), false);
    }
    match forkful_config::find_default(Path::new("")) {
        Some(path) => (path, false),
        None => (PathBuf::from(FRESH), true),
    }
}

fn apply(file: &Path, is_new: bool, name: &str, script: &str, change: Change) -> Result<(), Failure> {
    if is_new {
        return fs_err::write(file, patch::fresh(name, script, change))
            .map_err(|e| Failure::caused(Exit::Failed, e.into()));
    }
    let cwd = std::env::current_dir().map_err(|e| Failure::caused(Exit::Failed, e.into()))?;
    let (env, _warnings) = forkful_config::caller_environment();
    patch::apply(file, name, change, &NodeEvaluator::new(cwd, env)).map_err(|error| {
        let hint = format!("write it there by hand: {}", change.text().replace('\n', ", "));
        match error {
            PatchError::Config(error) => Failure::from(error),
            error => Failure::caused(Exit::Failed, error.into()).hint(hint).see(Page::Tune),
        }
    })
}
