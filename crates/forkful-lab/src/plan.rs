//! From a time budget to blocks and windows. Pure: what things cost has been measured before, by the pilot.

use std::time::Duration;

use crate::LabError;
use crate::compare::{Setup, pilot::Pilot};
use crate::measure::samples_min;

/// Blocks below which a signed-rank test cannot show anything.
pub(crate) const BLOCKS_MIN: usize = 6;

/// Blocks below which there is no spread to tell.
pub(crate) const BLOCKS_TOLD: usize = 2;

/// The most blocks of a run, at its third look.
pub(crate) const BLOCKS_MAX: usize = 18;

/// The most connections that are chosen by themselves. Node's listen queue is 511.
pub(crate) const CONNECTIONS_MAX: usize = 512;

/// Connections for each worker, so that no worker goes without when they are dealt at random.
const CONNECTIONS_PER_WORKER: usize = 32;

/// What a trial measures at least, less is all noise.
const MEASURED_MIN: Duration = Duration::from_millis(1200);

/// What a trial measures at most; a larger budget makes more blocks.
const MEASURED_MAX: Duration = Duration::from_secs(4);

/// Without windows for latency.
const MEASURED_MAX_WITHOUT_LATENCY: Duration = Duration::from_secs(2);

/// Share of what is measured that goes to the window at saturation; the rest is for the two rates.
const WINDOW_SHARE: f64 = 0.46;

/// Shares of the weakest arm's capacity at which latency is measured.
pub(crate) const LOADS: [f64; 2] = [0.5, 0.8];

/// So many requests more than the least are planned for, because arrivals are random: with a tenth more, 999 of 1,000
/// windows have enough.
const SAMPLES_SPARE: f64 = 1.1;

/// The same for the few that lower percentiles need, where chance weighs more.
const SAMPLES_SPARE_OF_FEW: f64 = 1.3;

/// A window holds at least so many answers of one worker, so that one more or less is no difference.
const ANSWERS_MIN: u32 = 25;

/// The share of the warm-up that no budget takes away.
const WARMTH_MIN: f64 = 0.75;

/// A warm-up that is not worth a cut.
const WARMUP_MIN: Duration = Duration::from_millis(500);

/// What is known when the plan is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    /// What is left of the budget.
    pub left: Duration,
    pub arms: usize,
    /// Starting and ending the servers of all arms once.
    pub overhead: Duration,
    /// How long one answer takes when nothing else is asked.
    pub answer: Duration,
    /// Capacity of the weakest arm, requests per second.
    pub weakest: f64,
    /// Full load that a fresh server needs until it is as fast as it gets, in the mean over all arms.
    pub warmup: Duration,
    /// The share of blocks in which something else will use the machine, as far as the pilot tells.
    pub disturbed: f64,
    /// Whether latency at equal rates is measured.
    pub with_latency: bool,
    /// Blocks that the user wants; `None` leaves it to the budget.
    pub blocks: Option<usize>,
    /// A self-test wants many short blocks.
    pub is_self_test: bool,
}

impl Facts {
    /// What a pilot found, with so much time left.
    pub(crate) fn of(setup: &Setup, pilot: &Pilot, left: Duration) -> Self {
        Self {
            left,
            arms: setup.arms.len(),
            overhead: pilot.overhead,
            answer: pilot.answer,
            weakest: pilot.weakest,
            warmup: pilot.warmups.iter().sum::<Duration>() / setup.arms.len().max(1) as u32,
            disturbed: pilot.disturbed,
            with_latency: setup.with_latency,
            blocks: setup.blocks,
            is_self_test: setup.self_test,
        }
    }
}

/// What is going to be done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// At these numbers of undisturbed blocks the result is looked at; the last is the end.
    pub looks: Vec<usize>,
    /// Full load before each trial's windows, not counted, in the mean over all arms.
    pub warmup: Duration,
    /// The share of the warm-up needed that there is time for, 1 in most cases.
    pub warmth: f64,
    /// The window at saturation.
    pub window: Duration,
    /// Each window at a given rate; zero when there are none.
    pub latency_window: Duration,
    /// The budget is too small for this, which is the least that means something.
    pub exceeds_budget: bool,
    /// All of it, with no block repeated.
    pub takes: Duration,
}

impl Plan {
    /// The most undisturbed blocks.
    pub(crate) fn blocks_max(&self) -> usize {
        self.looks.last().copied().unwrap_or(BLOCKS_MIN)
    }

    /// One trial in the mean: an arm in a block, without starting and ending it.
    pub(crate) fn trial(&self) -> Duration {
        self.warmup + self.window + 2 * self.latency_window
    }

    /// What an arm gets of the warm-up that it needs.
    pub(crate) fn warmed(&self, needed: Duration) -> Duration {
        needed.mul_f64(self.warmth).max(needed.min(WARMUP_MIN))
    }

    pub(crate) fn block(&self) -> Duration {
        self.takes / self.blocks_max().max(1) as u32
    }

    /// What all arms of a block are measured for.
    pub(crate) fn measured(&self, arms: usize) -> Duration {
        (self.window + 2 * self.latency_window) * arms as u32
    }

    /// This plan for the blocks that are left, after `made` of them took `beside` each beside what was measured: windows
    /// are shortened as far as the first look needs it and as they still mean something.
    pub(crate) fn fitted(&self, facts: &Facts, beside: Duration, made: usize, left: Duration) -> Self {
        let arms = facts.arms.max(1) as u32;
        let measured = self.window + 2 * self.latency_window;
        let for_block = left / self.looks[0].saturating_sub(made).max(1) as u32;
        let affordable = for_block.saturating_sub(beside) / arms;
        let least = least_measured(facts).min(measured);
        let fitting = affordable.clamp(least, measured);
        let share = fitting.as_secs_f64() / measured.as_secs_f64().max(1e-9);
        Self {
            window: self.window.mul_f64(share),
            latency_window: self.latency_window.mul_f64(share),
            takes: (beside + fitting * arms) * self.blocks_max() as u32,
            ..self.clone()
        }
    }
}

pub(crate) fn plan(facts: &Facts) -> Plan {
    let needed = facts.warmup;
    let warmth = warmth(facts);
    let facts = &Facts { warmup: needed.mul_f64(warmth), ..*facts };
    let arms = facts.arms.max(1) as u32;
    let least = least_measured(facts);
    let most = if facts.with_latency { MEASURED_MAX } else { MEASURED_MAX_WITHOUT_LATENCY }.max(least);
    let first = first_look(facts);
    let for_block = facts.left / (first + repeats(facts)).max(1) as u32;
    let affordable = (for_block.saturating_sub(facts.overhead) / arms).saturating_sub(facts.warmup);
    let mut measured = affordable.clamp(least, most);
    let mut looks = match facts.blocks {
        Some(blocks) => vec![blocks],
        None => looks_within(blocks_within(facts, measured)),
    };
    if facts.is_self_test && facts.blocks.is_none() && affordable < least {
        // Fewer blocks, but none that is too short.
        looks = looks_within(blocks_within(facts, least));
        measured = least;
    }
    let (window, mut latency_window) = shares(measured, facts.with_latency);
    if facts.with_latency {
        let bearable = latency_window + affordable.saturating_sub(measured) / 2;
        latency_window =
            latency_window.max(telling_window(&LOADS.map(|load| load * facts.weakest), bearable));
        measured = window + 2 * latency_window;
        if facts.blocks.is_none() {
            looks = looks_within(blocks_within(facts, measured));
        }
    }
    let mut plan = Plan {
        looks,
        warmup: facts.warmup,
        warmth,
        window,
        latency_window,
        exceeds_budget: false,
        takes: Duration::ZERO,
    };
    plan.takes = (facts.overhead + plan.trial() * arms) * plan.blocks_max() as u32;
    plan.exceeds_budget = plan.takes > facts.left + facts.left / 20;
    plan
}

/// The refusal of a budget that its user gave and that the plan exceeds, with the least budget that would do. The pilot
/// takes more of a larger budget, up to `pilot_share`.
pub(crate) fn too_small(budget: Duration, spent: Duration, takes: Duration, pilot_share: f64) -> LabError {
    const STEP_S: u64 = 5;
    let enough = (spent + takes).max(takes.div_f64(1.0 - pilot_share));
    LabError::Plan {
        reason: format!(
            "a budget of {:.0} s is too small: {:.0} s went into starting and warming up the arms, and the least that \
             means something takes {:.0} s more; `--budget {}s` would do",
            budget.as_secs_f64(),
            spent.as_secs_f64(),
            takes.as_secs_f64(),
            (enough.as_secs() + 1).div_ceil(STEP_S) * STEP_S
        ),
        hint: "fewer `--arms` or `--blocks` need less time; without `--budget` the run takes as long as it has to",
    }
}

/// Blocks that have to fit.
fn first_look(facts: &Facts) -> usize {
    facts.blocks.unwrap_or(if facts.is_self_test { 2 * BLOCKS_MIN } else { BLOCKS_MIN })
}

/// Blocks that will have to be repeated, if the machine stays as it was: time is left for them, so that they do not end
/// what would otherwise have had a result. A user's own number of blocks gets the whole time.
fn repeats(facts: &Facts) -> usize {
    let first = first_look(facts);
    let share = facts.disturbed.clamp(0.0, 0.9);
    match facts.blocks {
        None => ((first as f64 * share / (1.0 - share)).ceil() as usize).min(repeats_max(first)),
        Some(_) => 0,
    }
}

/// Blocks that are repeated at most where a user wants so many; otherwise the budget is their end.
pub(crate) fn repeats_max(blocks: usize) -> usize {
    blocks / 2
}

/// How much of the warm-up fits beside the least that is measured in the fewest blocks: a budget that the user gave is kept if it can be.
fn warmth(facts: &Facts) -> f64 {
    let for_block = facts.left / facts.blocks.unwrap_or(BLOCKS_MIN).max(1) as u32;
    let for_trial = for_block.saturating_sub(facts.overhead) / facts.arms.max(1) as u32;
    let for_warmup = for_trial.saturating_sub(least_measured(facts));
    let least = facts.warmup.mul_f64(WARMTH_MIN).max(WARMUP_MIN);
    if facts.warmup <= least {
        return 1.0;
    }
    for_warmup.clamp(least, facts.warmup).as_secs_f64() / facts.warmup.as_secs_f64()
}

/// A slow route needs longer windows to answer often enough.
fn least_measured(facts: &Facts) -> Duration {
    let share_of_window = if facts.with_latency { WINDOW_SHARE } else { 1.0 };
    MEASURED_MIN.max((facts.answer * ANSWERS_MIN).div_f64(share_of_window))
}

fn blocks_within(facts: &Facts, measured: Duration) -> usize {
    let block = facts.overhead + (facts.warmup + measured) * facts.arms.max(1) as u32;
    if block.is_zero() {
        return BLOCKS_MAX;
    }
    let first = first_look(facts);
    let not_repeated = first as f64 / (first + repeats(facts)).max(1) as f64;
    let fitting = facts.left.as_secs_f64() * 1.02 / block.as_secs_f64() * not_repeated;
    (fitting as usize).clamp(BLOCKS_MIN, BLOCKS_MAX)
}

/// Looks after 6, 12 and 18 blocks, as far as there are blocks.
fn looks_within(blocks: usize) -> Vec<usize> {
    (1..=3).map(|look| look * BLOCKS_MIN).filter(|look| *look <= blocks.max(BLOCKS_MIN)).collect()
}

/// Saturation, each of two rates.
fn shares(measured: Duration, with_latency: bool) -> (Duration, Duration) {
    if with_latency {
        (measured.mul_f64(WINDOW_SHARE), measured.mul_f64((1.0 - WINDOW_SHARE) / 2.0))
    } else {
        (measured, Duration::ZERO)
    }
}

/// The window in which the highest percentile can be told that can be told within `bearable`: at all of these rates if
/// there is time for it, and otherwise at the highest. Zero where there is no time for any.
pub(crate) fn telling_window(rates: &[f64], bearable: Duration) -> Duration {
    let slowest_first = [rates.iter().copied().reduce(f64::min), rates.iter().copied().reduce(f64::max)];
    TAILS
        .iter()
        .flat_map(|percentile| slowest_first.iter().flatten().map(|rate| telling(*percentile, *rate)))
        .flatten()
        .find(|window| *window <= bearable)
        .unwrap_or_default()
}

/// The budget, in whole minutes up to an hour, that makes windows long enough for a 99th percentile at the highest rate.
pub(crate) fn budget_for_p99(facts: &Facts) -> Option<Duration> {
    const MINUTES_MAX: u64 = 60;
    /// What the pilot and repeated blocks take of a budget.
    const PILOT_SHARE: f64 = 0.1;
    let highest = LOADS.iter().copied().fold(0.0, f64::max);
    let needed = telling(99.0, highest * facts.weakest)?;
    (1..=MINUTES_MAX).map(|minutes| Duration::from_secs(60 * minutes)).find(|budget| {
        let left = budget.mul_f64(1.0 - PILOT_SHARE);
        plan(&Facts { left, ..*facts }).latency_window >= needed
    })
}

/// Percentiles that tell about the tail, best first.
pub(crate) const TAILS: [f64; 3] = [99.0, 95.0, 90.0];

/// So long that requests enough for this percentile come.
fn telling(percentile: f64, rate: f64) -> Option<Duration> {
    let spare = if percentile > 95.0 { SAMPLES_SPARE } else { SAMPLES_SPARE_OF_FEW };
    let seconds = samples_min(percentile) as f64 * spare / rate;
    (rate > 0.0).then(|| Duration::try_from_secs_f64(seconds).ok()).flatten()
}

/// Connections of the closed loop: enough that no worker runs dry, few enough that a request at the weakest arm, which
/// answers `weakest` a second, does not wait for more than a quarter of a window. The same for all arms.
pub(crate) fn connections(workers_max: u16, weakest: f64, window: Duration) -> usize {
    let workers = usize::from(workers_max.max(1));
    let bearable = (weakest * window.as_secs_f64() / 4.0) as usize;
    bearable.min(workers * CONNECTIONS_PER_WORKER).max(2 * workers).min(CONNECTIONS_MAX)
}

/// Refuses numbers that make no experiment.
pub(crate) fn check(
    budget: Duration,
    blocks: Option<usize>,
    connections: Option<usize>,
) -> Result<(), LabError> {
    let blocks = blocks.unwrap_or(BLOCKS_MIN);
    let connections = connections.unwrap_or(1);
    let refusals = [
        (
            budget < Duration::from_secs(5),
            format!("a budget of {budget:?} is no time to measure anything"),
            "`--budget 60s` is the default",
        ),
        (
            budget > Duration::from_secs(24 * 3600),
            format!("a budget of {} s is more than a day", budget.as_secs()),
            "`--budget 10m` is long",
        ),
        (
            blocks < 2,
            format!("{blocks} blocks have no spread to tell"),
            "`--blocks 6` is the least that proves something",
        ),
        (blocks > 1000, format!("{blocks} blocks are more than 1000"), "`--blocks 18` is many"),
        (
            connections == 0,
            "0 connections send nothing".to_owned(),
            "leave `--connections` out, or give at least 1",
        ),
        (
            connections > 20_000,
            format!("{connections} connections are more than 20000"),
            "`--connections 512` is many",
        ),
    ];
    match refusals.into_iter().find(|(is_refused, ..)| *is_refused) {
        Some((_, reason, hint)) => Err(LabError::Plan { reason, hint }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
