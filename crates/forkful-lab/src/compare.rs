//! `compare`: is one arm faster than another? Arms run in blocks. Each block has all arms in random order,
//! each on a fresh server, so that random effects of a start (memory layout, JIT timing, distribution of
//! connections) are part of the spread and not a bias.
//!
//! This is the acting part: pilot → plan → blocks, with a look at the result where the plan has one. All
//! decisions are made in [`crate::plan`], [`crate::statistics`] and `judge`.

mod best;
mod judge;
mod overload;
pub(crate) mod pilot;
mod trial;
mod trust;
pub(crate) mod warming;
mod words;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use forkful_core::spec::AppSpec;
use forkful_load::StopHandle;

use crate::LabError;
use crate::arms::Arm;
use crate::document::{CompareDocument, Heading, PlanDocument};
use crate::plan::{self, Facts, Plan};
use crate::progress::{Observer, Stage};
use crate::target::Target;
use forkful_core::random::Random;
use pilot::Pilot;
pub(crate) use trial::{AtRate, Trial, TrialPlan, at_rate, run_trial, run_trials};
use warming::Warmup;

/// The input of a comparison.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The apps, one for each script.
    pub apps: Vec<AppSpec>,
    /// At least two; the first arm is the baseline.
    pub arms: Vec<Arm>,
    pub target: Target,
    /// Path of the `forkful` program.
    pub forkful: PathBuf,
    /// The port for requests; `None`: detected.
    pub port: Option<u16>,
    /// Timeout for a server's start.
    pub start_timeout: Duration,
    pub budget: Duration,
    /// Whether the budget is a hard limit because the user set it. Otherwise a run may take longer to reach a
    /// result.
    pub keeps_budget: bool,
    /// The run takes as long as a result needs on this machine: servers are warmed up until they have their final
    /// speed, however slow it is.
    pub extends: bool,
    /// Number of blocks; `None`: derived from the budget.
    pub blocks: Option<usize>,
    /// Connections of the closed loop; `None`: found by searching the saturation point.
    pub connections: Option<usize>,
    /// Whether connections are reused (keep-alive).
    pub keep_alive: bool,
    /// Threads of the generator.
    pub threads: Option<usize>,
    /// Whether latency at equal rates is measured.
    pub with_latency: bool,
    /// The arm is compared with itself.
    pub self_test: bool,
    /// Seed for the order of blocks.
    pub seed: u64,
    /// Stops the experiment early.
    pub stop: StopHandle,
    /// The document's header data; the headline is filled in here.
    pub heading: Heading,
}

impl Setup {
    pub(crate) fn workers_max(&self) -> u16 {
        self.arms.iter().map(|arm| arm.runner.workers()).max().unwrap_or(1)
    }
}

/// Maximum servers that run at the same time, to limit memory; more arms run one after the other.
const TOGETHER_MAX: usize = 4;

/// All arms once, in random order.
#[derive(Debug)]
pub(crate) struct Block {
    /// Indices of arms in the order in which they ran.
    pub(crate) order: Vec<usize>,
    pub(crate) trials: Vec<Trial>,
}

impl Block {
    /// Why the block does not count.
    pub(crate) fn disturbed(&self) -> Option<String> {
        self.trials.iter().find_map(|trial| trial.disturbance.as_ref().map(ToString::to_string))
    }
}

pub fn compare(setup: &Setup, observer: &mut dyn Observer) -> Result<CompareDocument, LabError> {
    compared(setup, observer).map_err(|error| error.unless_stopped(&setup.stop))
}

fn compared(setup: &Setup, observer: &mut dyn Observer) -> Result<CompareDocument, LabError> {
    plan::check(setup.budget, setup.blocks, setup.connections)?;
    let begun = Instant::now();
    let pilot = pilot::run(setup, observer)?;
    let facts = Facts::of(setup, &pilot, setup.budget.saturating_sub(begun.elapsed()));
    let plan = plan::plan(&facts);
    if setup.keeps_budget && plan.exceeds_budget {
        return Err(plan::too_small(setup.budget, begun.elapsed(), plan.takes, pilot::PILOT_SHARE));
    }
    observer.note(&words::plan(setup, &plan, &pilot));
    let deadline = begun + setup.budget;
    let blocks = run_blocks(setup, &facts, &plan, &pilot, deadline, observer)?;
    let document = PlanDocument {
        budget_s: setup.budget.as_secs_f64(),
        took_s: begun.elapsed().as_secs_f64(),
        blocks: judge::counting(&blocks).count(),
        looks: plan.looks.clone(),
        connections: pilot.connections,
        keep_alive: setup.keep_alive,
        warmup_s: plan.warmed(pilot.warmup_max()).as_secs_f64(),
        window_s: plan.window.as_secs_f64(),
        latency_window_s: plan.latency_window.as_secs_f64(),
        restarts: "every server is started anew for every block".to_owned(),
    };
    Ok(judge::document(setup, &plan, &pilot, &blocks, document))
}

fn run_blocks(
    setup: &Setup,
    facts: &Facts,
    plan: &Plan,
    pilot: &Pilot,
    deadline: Instant,
    observer: &mut dyn Observer,
) -> Result<Vec<Block>, LabError> {
    let mut random = Random::new(setup.seed);
    let mut blocks: Vec<Block> = Vec::new();
    let begun = Instant::now();
    let mut measured = Duration::ZERO;
    // Disturbed blocks are repeated a limited number of times: on a machine that is never quiet there would
    // be no end.
    let repeats_max = setup.blocks.map_or(usize::MAX, plan::repeats_max);
    let mut together = setup.port.is_none() && !pilot.ignores_port && setup.arms.len() <= TOGETHER_MAX;
    loop {
        let quiet = judge::undisturbed(&blocks).count();
        let is_look = plan.looks.contains(&quiet) && judge::just_counted(&blocks);
        if quiet >= plan.blocks_max() || (is_look && judge::is_settled(setup, plan, &blocks)) {
            return Ok(blocks);
        }
        let disturbed = blocks.len() - quiet;
        // Blocks may take longer than the pilot suggested. Windows are then shortened as far as possible.
        let left = deadline.saturating_duration_since(Instant::now());
        let fitted = match blocks.len() {
            0 => plan.clone(),
            made => plan.fitted(facts, begun.elapsed().saturating_sub(measured) / made as u32, made, left),
        };
        let is_out_of_time = fitted.block() > left;
        if disturbed > repeats_max
            || (is_out_of_time && may_end(setup, blocks.len(), plan.looks[0], disturbed > 0))
        {
            return Ok(blocks);
        }
        let plan = &fitted;
        measured += plan.measured(setup.arms.len());
        let number = blocks.len() + 1;
        let block = run_block(setup, plan, pilot, number, together, &mut random, observer);
        let block = match block {
            // Some apps cannot run twice at the same time because of a lock or a second port.
            Err(
                error @ (LabError::Failed { .. }
                | LabError::NotListening { .. }
                | LabError::NoAnswer { .. }
                | LabError::Errors { .. }),
            ) if together && blocks.is_empty() => {
                together = false;
                observer.note(&format!(
                    "the arms cannot run side by side ({error}), so that they run one after the other"
                ));
                run_block(setup, plan, pilot, number, together, &mut random, observer)?
            }
            block => block?,
        };
        if let Some(reason) = block.disturbed() {
            observer
                .note(&format!("block {number} was disturbed ({reason}); it is repeated if there is time"));
        }
        blocks.push(block);
    }
}

/// Whether a run that has used its time may end after this many blocks. A budget set by the user ends it as
/// soon as there is a spread; otherwise it ends when there is a result. A number of blocks set by the user is
/// always completed.
fn may_end(setup: &Setup, made: usize, first_look: usize, has_repeats: bool) -> bool {
    if setup.keeps_budget {
        return made >= plan::BLOCKS_TOLD;
    }
    made >= first_look && (setup.blocks.is_none() || has_repeats)
}

fn run_block(
    setup: &Setup,
    plan: &Plan,
    pilot: &Pilot,
    number: usize,
    together: bool,
    random: &mut Random,
    observer: &mut dyn Observer,
) -> Result<Block, LabError> {
    let mut order: Vec<usize> = (0..setup.arms.len()).collect();
    random.shuffle(&mut order);
    let trial_plan = TrialPlan {
        connections: pilot.connections,
        warmup: plan.warmup,
        window: plan.window,
        latency_window: plan.latency_window,
        weakest: pilot.weakest,
        // The same arrivals for all arms of a block.
        seed: random.bits(),
    };
    let of = plan.blocks_max().max(number);
    let expected = plan.block().as_secs_f64().max(0.1);
    let begun = Instant::now();
    let mut began = |arm: &Arm| {
        let part = (begun.elapsed().as_secs_f64() / expected).min(1.0);
        observer.stage(&Stage {
            text: format!("block {number} of {of}: {}", arm.name),
            done: ((number - 1) as f64 + part) / of as f64,
        });
    };
    let group = if together { order.len() } else { 1 };
    let mut trials: Vec<Option<Trial>> = setup.arms.iter().map(|_| None).collect();
    for indices in order.chunks(group.max(1)) {
        let warmed = |index: &usize| {
            let needed = pilot.warmups[*index];
            // A budget has no time for more than was planned.
            let requests = if setup.extends { needed.requests } else { 0 };
            (&setup.arms[*index], Warmup { time: plan.warmed(needed.time), requests })
        };
        let arms: Vec<(&Arm, Warmup)> = indices.iter().map(warmed).collect();
        for (index, trial) in indices.iter().zip(run_trials(setup, &arms, &trial_plan, &mut began)?) {
            trials[*index] = Some(trial);
        }
    }
    Ok(Block { order, trials: trials.into_iter().flatten().collect() })
}
