//! Blocks and windows for a time budget. Pure: the pilot has measured how long things take.

use std::time::Duration;

use crate::LabError;
use crate::compare::{Setup, pilot::Pilot};
use crate::measure::samples_min;

/// With fewer blocks a signed-rank test cannot be significant.
pub(crate) const BLOCKS_MIN: usize = 6;

/// With fewer blocks there is no spread.
pub(crate) const BLOCKS_TOLD: usize = 2;

/// Maximum blocks of a run, at its third look.
pub(crate) const BLOCKS_MAX: usize = 18;

/// Maximum connections that are chosen automatically. Node's listen queue is 511.
pub(crate) const CONNECTIONS_MAX: usize = 512;

/// Connections per worker, so that no worker is without any in a random distribution.
const CONNECTIONS_PER_WORKER: usize = 32;

/// Minimum measured time of a trial; less is only noise.
const MEASURED_MIN: Duration = Duration::from_millis(1200);

/// Maximum measured time of a trial; a larger budget gives more blocks.
const MEASURED_MAX: Duration = Duration::from_secs(4);

/// The maximum without latency windows.
const MEASURED_MAX_WITHOUT_LATENCY: Duration = Duration::from_secs(2);

/// A trial that may take its time measures for at least the warm-up divided by this.
const MEASURED_OF_WARMUP: u32 = 4;

/// Share of the measured time for the window at saturation; the rest is for the two rates.
const WINDOW_SHARE: f64 = 0.46;

/// Rates for latency, as shares of the slowest arm's capacity.
pub(crate) const LOADS: [f64; 2] = [0.5, 0.8];

/// Factor for planned requests, because arrivals are random: with 10 % more than needed, 999 of 1,000 windows
/// have enough.
const SAMPLES_SPARE: f64 = 1.1;

/// The factor for lower percentiles, which need few requests, so that chance has more effect.
const SAMPLES_SPARE_OF_FEW: f64 = 1.3;

/// Minimum answers of one worker in a window, so that one more or less does not matter.
const ANSWERS_MIN: u32 = 25;

/// The minimum share of the warm-up, however small the budget is.
const WARMTH_MIN: f64 = 0.75;

/// A warm-up shorter than this is not reduced.
const WARMUP_MIN: Duration = Duration::from_millis(500);

/// The facts for the plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    /// The rest of the budget.
    pub left: Duration,
    pub arms: usize,
    /// Time to start and stop the servers of all arms once.
    pub overhead: Duration,
    /// The response time of a single request.
    pub answer: Duration,
    /// Capacity of the slowest arm, in requests per second.
    pub weakest: f64,
    /// Full load that a fresh server needs to reach its final speed, as the mean over all arms.
    pub warmup: Duration,
    /// The expected share of disturbed blocks, from the pilot.
    pub disturbed: f64,
    /// Whether latency at equal rates is measured.
    pub with_latency: bool,
    /// The number of blocks set by the user; `None`: derived from the budget.
    pub blocks: Option<usize>,
    /// A self-test needs many short blocks.
    pub is_self_test: bool,
    /// The run takes as long as it has to.
    pub extends: bool,
}

impl Facts {
    /// From the pilot's results and the time left.
    pub(crate) fn of(setup: &Setup, pilot: &Pilot, left: Duration) -> Self {
        Self {
            left,
            arms: setup.arms.len(),
            overhead: pilot.overhead,
            answer: pilot.answer,
            weakest: pilot.weakest,
            warmup: pilot.warmups.iter().map(|warmup| warmup.time).sum::<Duration>()
                / setup.arms.len().max(1) as u32,
            disturbed: pilot.disturbed,
            with_latency: setup.with_latency,
            blocks: setup.blocks,
            is_self_test: setup.self_test,
            extends: setup.extends,
        }
    }
}

/// The plan of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// The result is judged at these numbers of undisturbed blocks; the last one ends the run.
    pub looks: Vec<usize>,
    /// Full load before each trial's windows, not counted, as the mean over all arms.
    pub warmup: Duration,
    /// The share of the needed warm-up for which there is time, usually 1.
    pub warmth: f64,
    /// Length of the window at saturation.
    pub window: Duration,
    /// Length of each window at a fixed rate; zero if there are none.
    pub latency_window: Duration,
    /// This plan, the smallest that is meaningful, exceeds the budget.
    pub exceeds_budget: bool,
    /// Total time, without repeated blocks.
    pub takes: Duration,
}

impl Plan {
    /// The maximum number of undisturbed blocks.
    pub(crate) fn blocks_max(&self) -> usize {
        self.looks.last().copied().unwrap_or(BLOCKS_MIN)
    }

    /// The mean time of a trial (one arm in a block), without starting and stopping the server.
    pub(crate) fn trial(&self) -> Duration {
        self.warmup + self.window + 2 * self.latency_window
    }

    /// How long the warm-up of an arm is, from how long it needs to be.
    pub(crate) fn warmed(&self, needed: Duration) -> Duration {
        needed.mul_f64(self.warmth).max(needed.min(WARMUP_MIN))
    }

    pub(crate) fn block(&self) -> Duration {
        self.takes / self.blocks_max().max(1) as u32
    }

    /// The measured time of all arms in a block.
    pub(crate) fn measured(&self, arms: usize) -> Duration {
        (self.window + 2 * self.latency_window) * arms as u32
    }

    /// This plan for the remaining blocks, after `made` blocks took `beside` each in addition to the measured
    /// time. Windows are shortened as needed for the first look, but not below the meaningful minimum.
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

/// The error for a user's budget that is too small, with the smallest sufficient budget. The pilot uses more
/// of a larger budget, up to `pilot_share`.
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
        hint: "fewer `--arms` or `--blocks` need less time; `--extend` takes as long as it has to",
    }
}

/// Minimum blocks for which the time must suffice.
fn first_look(facts: &Facts) -> usize {
    facts.blocks.unwrap_or(if facts.is_self_test { 2 * BLOCKS_MIN } else { BLOCKS_MIN })
}

/// Blocks expected to be repeated if the machine stays as disturbed as before. Time is reserved for them, so
/// that they do not prevent a result. A number of blocks set by the user gets all of the time.
fn repeats(facts: &Facts) -> usize {
    let first = first_look(facts);
    let share = facts.disturbed.clamp(0.0, 0.9);
    match facts.blocks {
        None => ((first as f64 * share / (1.0 - share)).ceil() as usize).min(repeats_max(first)),
        Some(_) => 0,
    }
}

/// Maximum repeated blocks if the user set the number of blocks; otherwise the budget limits them.
pub(crate) fn repeats_max(blocks: usize) -> usize {
    blocks / 2
}

/// How much of the warm-up fits, together with the minimum of measured time and blocks, into the budget: it is
/// kept if possible.
fn warmth(facts: &Facts) -> f64 {
    if facts.extends {
        return 1.0;
    }
    let for_block = facts.left / facts.blocks.unwrap_or(BLOCKS_MIN).max(1) as u32;
    let for_trial = for_block.saturating_sub(facts.overhead) / facts.arms.max(1) as u32;
    let for_warmup = for_trial.saturating_sub(least_measured(facts));
    let least = facts.warmup.mul_f64(WARMTH_MIN).max(WARMUP_MIN);
    if facts.warmup <= least {
        return 1.0;
    }
    for_warmup.clamp(least, facts.warmup).as_secs_f64() / facts.warmup.as_secs_f64()
}

/// A slow route needs longer windows for enough answers. After a long warm-up, longer windows cost little.
fn least_measured(facts: &Facts) -> Duration {
    let share_of_window = if facts.with_latency { WINDOW_SHARE } else { 1.0 };
    let after_warmup = if facts.extends { facts.warmup / MEASURED_OF_WARMUP } else { Duration::ZERO };
    let enough = MEASURED_MIN.max(after_warmup.min(MEASURED_MAX_WITHOUT_LATENCY));
    enough.max((facts.answer * ANSWERS_MIN).div_f64(share_of_window))
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

/// Looks after 6, 12 and 18 blocks, as far as there are that many.
fn looks_within(blocks: usize) -> Vec<usize> {
    (1..=3).map(|look| look * BLOCKS_MIN).filter(|look| *look <= blocks.max(BLOCKS_MIN)).collect()
}

/// The length of the window at saturation, and of each window at a rate.
fn shares(measured: Duration, with_latency: bool) -> (Duration, Duration) {
    if with_latency {
        (measured.mul_f64(WINDOW_SHARE), measured.mul_f64((1.0 - WINDOW_SHARE) / 2.0))
    } else {
        (measured, Duration::ZERO)
    }
}

/// The window for the highest percentile that is possible within `bearable`: at all rates if there is time,
/// otherwise at the highest rate. Zero if there is no time for any.
pub(crate) fn telling_window(rates: &[f64], bearable: Duration) -> Duration {
    let slowest_first = [rates.iter().copied().reduce(f64::min), rates.iter().copied().reduce(f64::max)];
    TAILS
        .iter()
        .flat_map(|percentile| slowest_first.iter().flatten().map(|rate| telling(*percentile, *rate)))
        .flatten()
        .find(|window| *window <= bearable)
        .unwrap_or_default()
}

/// The budget, in whole minutes up to an hour, with windows long enough for a 99th percentile at the highest
/// rate.
pub(crate) fn budget_for_p99(facts: &Facts) -> Option<Duration> {
    const MINUTES_MAX: u64 = 60;
    /// Share of a budget for the pilot and repeated blocks.
    const PILOT_SHARE: f64 = 0.1;
    let highest = LOADS.iter().copied().fold(0.0, f64::max);
    let needed = telling(99.0, highest * facts.weakest)?;
    (1..=MINUTES_MAX).map(|minutes| Duration::from_secs(60 * minutes)).find(|budget| {
        let left = budget.mul_f64(1.0 - PILOT_SHARE);
        plan(&Facts { left, ..*facts }).latency_window >= needed
    })
}

/// Percentiles of the tail, best first.
pub(crate) const TAILS: [f64; 3] = [99.0, 95.0, 90.0];

/// The time in which enough requests for this percentile arrive.
fn telling(percentile: f64, rate: f64) -> Option<Duration> {
    let spare = if percentile > 95.0 { SAMPLES_SPARE } else { SAMPLES_SPARE_OF_FEW };
    let seconds = samples_min(percentile) as f64 * spare / rate;
    (rate > 0.0).then(|| Duration::try_from_secs_f64(seconds).ok()).flatten()
}

/// Connections of the closed loop: enough that every worker has work, few enough that a request to the
/// slowest arm, with `weakest` answers per second, waits at most a quarter of a window. The same for all
/// arms.
pub(crate) fn connections(workers_max: u16, weakest: f64, window: Duration) -> usize {
    let workers = usize::from(workers_max.max(1));
    let bearable = (weakest * window.as_secs_f64() / 4.0) as usize;
    bearable.min(workers * CONNECTIONS_PER_WORKER).max(2 * workers).min(CONNECTIONS_MAX)
}

/// Refuses numbers that do not make a valid experiment.
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
            format!("a budget of {budget:?} is too short to measure anything"),
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
