//! From a time budget to blocks and windows. Pure: what things cost has been measured before, by the pilot.

use std::time::Duration;

use crate::LabError;

/// Blocks below which a signed-rank test cannot show anything.
pub const BLOCKS_MIN: usize = 6;

/// The most blocks of a run, at its third look.
pub const BLOCKS_MAX: usize = 18;

/// The most connections that are chosen by themselves. Node's listen queue is 511.
pub const CONNECTIONS_MAX: usize = 512;

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

/// A window holds at least so many answers of one worker, so that one more or less is no difference.
const ANSWERS_MIN: u32 = 25;

/// What is known when the plan is made.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// What is left of the budget.
    pub left: Duration,
    /// Arms.
    pub arms: usize,
    /// Starting and ending the servers of all arms once.
    pub overhead: Duration,
    /// How long one answer takes when nothing else is asked.
    pub answer: Duration,
    /// Full load that a fresh server needs until it is as fast as it gets.
    pub warmup: Duration,
    /// Whether latency at equal rates is measured.
    pub with_latency: bool,
    /// Blocks that the user wants; `None` leaves it to the budget.
    pub blocks: Option<usize>,
    /// A self-test wants many short blocks.
    pub is_self_test: bool,
}

/// What is going to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// At these numbers of undisturbed blocks the result is looked at; the last is the end.
    pub looks: Vec<usize>,
    /// Full load before each trial's windows, not counted.
    pub warmup: Duration,
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
    pub fn blocks_max(&self) -> usize {
        self.looks.last().copied().unwrap_or(BLOCKS_MIN)
    }

    /// One trial: an arm in a block, without starting and ending it.
    pub fn trial(&self) -> Duration {
        self.warmup + self.window + 2 * self.latency_window
    }
}

/// Makes the plan.
pub fn plan(facts: &Facts) -> Plan {
    let arms = facts.arms.max(1) as u32;
    let least = least_measured(facts);
    let most = if facts.with_latency { MEASURED_MAX } else { MEASURED_MAX_WITHOUT_LATENCY }.max(least);
    let first = facts.blocks.unwrap_or(if facts.is_self_test { 2 * BLOCKS_MIN } else { BLOCKS_MIN });
    let for_block = facts.left / first.max(1) as u32;
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
    let (window, latency_window) = shares(measured, facts.with_latency);
    let mut plan = Plan {
        looks,
        warmup: facts.warmup,
        window,
        latency_window,
        exceeds_budget: false,
        takes: Duration::ZERO,
    };
    plan.takes = (facts.overhead + plan.trial() * arms) * plan.blocks_max() as u32;
    plan.exceeds_budget = plan.takes > facts.left + facts.left / 20;
    plan
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
    ((facts.left.as_secs_f64() * 1.02 / block.as_secs_f64()) as usize).clamp(BLOCKS_MIN, BLOCKS_MAX)
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

/// Connections of the closed loop: enough that no worker runs dry, few enough that a request at the weakest arm, which
/// answers `weakest` a second, does not wait for more than a quarter of a window. The same for all arms.
pub fn connections(workers_max: u16, weakest: f64, window: Duration) -> usize {
    let workers = usize::from(workers_max.max(1));
    let bearable = (weakest * window.as_secs_f64() / 4.0) as usize;
    bearable.min(workers * CONNECTIONS_PER_WORKER).max(2 * workers).min(CONNECTIONS_MAX)
}

/// Refuses numbers that make no experiment.
pub fn check(budget: Duration, blocks: Option<usize>, connections: Option<usize>) -> Result<(), LabError> {
    let refuse = |reason: String, hint: &'static str| Err(LabError::Plan { reason, hint });
    if budget < Duration::from_secs(5) {
        return refuse(
            format!("a budget of {budget:?} is no time to measure anything"),
            "`--budget 60s` is the default",
        );
    }
    if budget > Duration::from_secs(24 * 3600) {
        return refuse(
            format!("a budget of {} s is more than a day", budget.as_secs()),
            "`--budget 10m` is long",
        );
    }
    match blocks {
        Some(blocks) if blocks < 2 => {
            return refuse(
                format!("{blocks} blocks have no spread to tell"),
                "`--blocks 6` is the least that proves something",
            );
        }
        Some(blocks) if blocks > 1000 => {
            return refuse(format!("{blocks} blocks are more than 1000"), "`--blocks 18` is many");
        }
        _ => {}
    }
    match connections {
        Some(0) => {
            refuse("0 connections send nothing".to_owned(), "leave `--connections` out, or give at least 1")
        }
        Some(many) if many > 20_000 => {
            refuse(format!("{many} connections are more than 20000"), "`--connections 512` is many")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn facts(left: u64) -> Facts {
        Facts {
            left: seconds(left),
            arms: 2,
            overhead: Duration::from_millis(900),
            answer: Duration::from_micros(200),
            warmup: Duration::from_millis(500),
            with_latency: true,
            blocks: None,
            is_self_test: false,
        }
    }

    #[test]
    fn a_minute_makes_six_blocks_that_fit_it() {
        let plan = plan(&facts(54));
        assert_eq!(plan.looks, [6]);
        assert!(!plan.exceeds_budget && plan.takes <= seconds(55), "{plan:?}");
        assert!(plan.window > Duration::from_millis(1200), "{plan:?}");
    }

    #[test]
    fn more_time_makes_more_blocks_and_more_looks() {
        assert_eq!(plan(&facts(140)).looks, [6, 12]);
        assert_eq!(plan(&facts(600)).looks, [6, 12, 18]);
        let few = plan(&Facts { blocks: Some(3), ..facts(600) });
        assert_eq!((few.looks.as_slice(), few.exceeds_budget), ([3].as_slice(), false));
    }

    #[test]
    fn what_does_not_fit_says_so_and_is_still_the_least_that_means_something() {
        let tight = plan(&facts(6));
        assert_eq!(tight.looks, [6]);
        assert!(tight.exceeds_budget);
        assert_eq!(tight.trial(), Duration::from_millis(500) + MEASURED_MIN);
        let cold = plan(&Facts { warmup: seconds(4), ..facts(54) });
        assert_eq!((cold.warmup, cold.looks.as_slice()), (seconds(4), [6].as_slice()));
        assert!(cold.exceeds_budget && cold.takes < seconds(70), "{cold:?}");
        let slow = plan(&Facts { answer: Duration::from_millis(100), ..facts(54) });
        assert!(slow.window >= Duration::from_millis(2400), "{slow:?}");
        assert!(slow.exceeds_budget);
    }

    #[test]
    fn a_self_test_has_more_and_shorter_blocks_without_latency() {
        let test = plan(&Facts { is_self_test: true, with_latency: false, ..facts(54) });
        assert_eq!(test.looks, [6, 12]);
        assert_eq!(test.latency_window, Duration::ZERO);
        assert!(test.takes <= seconds(56), "{test:?}");
        let short = plan(&Facts { is_self_test: true, with_latency: false, ..facts(20) });
        assert_eq!(short.looks, [6]);
    }

    #[test]
    fn connections_feed_every_worker_but_do_not_pile_up_before_a_slow_route() {
        let window = Duration::from_millis(1200);
        assert_eq!(connections(2, 5000.0, window), 64);
        assert_eq!(connections(2, 100.0, window), 30, "20 ms of CPU");
        assert_eq!(connections(2, 0.2, window), 4, "five seconds");
        assert_eq!(connections(1, 0.0, window), 2);
        assert_eq!(connections(64, 50_000.0, window), CONNECTIONS_MAX);
    }

    #[test]
    fn senseless_numbers_are_refused() {
        assert!(check(seconds(60), None, None).is_ok());
        for (budget, blocks, connections) in [
            (1, None, None),
            (100_000, None, None),
            (60, Some(1), None),
            (60, Some(5000), None),
            (60, None, Some(0)),
            (60, None, Some(30_000)),
        ] {
            assert!(
                check(seconds(budget), blocks, connections).is_err(),
                "{budget} {blocks:?} {connections:?}"
            );
        }
    }
}
