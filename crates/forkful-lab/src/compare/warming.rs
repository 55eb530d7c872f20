//! The warm-up of a fresh server. V8 compiles functions by how often they were called, in each worker for
//! itself; so how long it takes depends on the number of requests, on the speed of the machine, and on how
//! many workers compile at the same time.

use std::time::Duration;

use super::Setup;
use crate::LabError;
use crate::measure::{Subject, Window};

/// Minimum length of a step of the pilot; after each step the throughput is checked.
const STEP: Duration = Duration::from_millis(500);

/// Maximum length of a step.
const STEP_MAX: Duration = Duration::from_secs(2);

/// Answers of each worker in a step: on a slow machine, half a second is too short for growth to show.
const STEP_ANSWERS: f64 = 1_000.0;

/// Maximum number of steps: more load does not make an app steady that is not steady by then.
const STEPS_MAX: u32 = 16;

/// Minimum steps: growth shows between the first two and the next two.
const STEPS_LEAST: u32 = 4;

/// Maximum time of an arm's steps in a run that takes as long as it has to.
const EXTENDED_MAX: Duration = Duration::from_secs(16);

/// Share of the budget for the steps of all arms in other runs.
const BUDGET_SHARE: f64 = 0.2;

/// No warm-up is longer than this multiple of the longest time that an arm needed in the pilot.
const LONGER_MAX: u32 = 2;

/// Throughput is steady if it grows by less than this factor from two steps to the next two.
const STEADY: f64 = 1.04;

/// At this share of the steady throughput the app is warm.
const WARM: f64 = 0.97;

/// The load that an arm needed in the pilot until it had its final speed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Need {
    /// The index of the app that the arm runs.
    pub(super) app: usize,
    pub(super) workers: u16,
    pub(super) time: Duration,
    /// Requests that were answered in this time.
    pub(super) requests: u64,
    /// The final throughput.
    pub(super) per_second: f64,
}

/// The load before the windows of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Warmup {
    pub(crate) time: Duration,
    /// If fewer requests were answered in this time, the load continues until they are, at most as long again.
    /// 0: the time is enough.
    pub(crate) requests: u64,
}

impl Warmup {
    /// For an arm whose number of requests does not matter.
    pub(crate) fn of(time: Duration) -> Self {
        Self { time, requests: 0 }
    }

    /// Loads a fresh server. Returns its throughput at the end.
    pub(crate) fn run(self, subject: &Subject<'_>, connections: usize) -> Result<f64, LabError> {
        let window = subject.closed(connections, self.time)?;
        let more = self.missing(window.requests());
        if more < STEP {
            return Ok(window.per_second());
        }
        Ok(subject.closed(connections, more)?.per_second())
    }

    /// How long the rest takes at the speed until now, at most as long again.
    fn missing(self, answered: u64) -> Duration {
        let share = self.requests.saturating_sub(answered) as f64 / answered.max(1) as f64;
        self.time.mul_f64(share.min(1.0))
    }
}

/// The warm-up of each arm: as many requests for each worker as the arm of the same app that needs the most,
/// at least as much time as arms with fewer workers, and at least half of the longest. Each need is a single
/// measurement on a machine that may be shared, and an arm that is measured cold looks slow in every block.
pub(super) fn evened(needs: &[Need]) -> Vec<Warmup> {
    let of_each = |need: &Need| need.requests.div_ceil(u64::from(need.workers.max(1)));
    let longest_of = |is_one: &dyn Fn(&Need) -> bool| {
        needs.iter().filter(|need| is_one(need)).map(|need| need.time).max().unwrap_or_default()
    };
    let longest = longest_of(&|_| true);
    let warmup = |need: &Need| {
        let of_app = needs.iter().filter(|other| other.app == need.app);
        let requests = of_app.map(of_each).max().unwrap_or_default() * u64::from(need.workers.max(1));
        let more = requests.saturating_sub(need.requests) as f64 / need.per_second.max(f64::MIN_POSITIVE);
        let time = need.time + Duration::try_from_secs_f64(more).unwrap_or(longest);
        let least = longest_of(&|other| other.workers <= need.workers).max(longest / 2);
        Warmup { time: time.min(longest * LONGER_MAX).max(least), requests }
    };
    needs.iter().map(warmup).collect()
}

/// How long an arm may take in the pilot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// All steps.
    time: Duration,
    step: Duration,
}

impl Limits {
    pub(super) fn of(setup: &Setup) -> Self {
        Self::within(setup.extends, setup.budget, setup.arms.len())
    }

    fn within(extends: bool, budget: Duration, arms: usize) -> Self {
        if extends {
            return Self { time: EXTENDED_MAX, step: STEP_MAX };
        }
        let share = budget.mul_f64(BUDGET_SHARE) / arms.max(1) as u32;
        Self { time: share.clamp(STEP * STEPS_LEAST, STEP * STEPS_MAX), step: STEP }
    }

    /// The length of the next step. Steps never get shorter, so that their rates can be compared.
    fn next_step(self, step: Duration, per_second: f64, workers: u16) -> Duration {
        let wish = Duration::try_from_secs_f64(STEP_ANSWERS * f64::from(workers) / per_second);
        wish.unwrap_or(self.step).min(self.step).max(step)
    }
}

/// Loads a fresh server until its throughput stops growing, within `limits`. `answer` is how long a request
/// takes.
pub(super) fn pilot(
    subject: &Subject<'_>,
    connections: usize,
    answer: Duration,
    limits: Limits,
    saw: &mut dyn FnMut(&Window),
) -> Result<Need, LabError> {
    let workers = subject.arm.runner.workers();
    let mut step = STEP.max(answer);
    let (mut rates, mut answered, mut spent) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let window = subject.closed(connections, step)?;
        saw(&window);
        rates.push(window.per_second());
        answered.push(window.requests());
        spent.push(step);
        // JIT compilation does not speed up a route that takes seconds.
        let is_slow = answer > STEP;
        let is_over =
            spent.iter().sum::<Duration>() + step > limits.time || rates.len() >= STEPS_MAX as usize;
        if is_slow || is_steady(&rates) || is_over {
            let cold = steps_needed(&rates);
            return Ok(Need {
                app: subject.arm.app,
                workers,
                time: spent[..cold].iter().sum(),
                requests: answered[..cold].iter().sum(),
                per_second: steady(&rates),
            });
        }
        step = limits.next_step(step, window.per_second(), workers);
    }
}

fn is_steady(rates: &[f64]) -> bool {
    let Some([a, b, c, d]) = rates.last_chunk::<4>() else { return false };
    c + d <= STEADY * (a + b)
}

/// The throughput of the last two steps.
fn steady(rates: &[f64]) -> f64 {
    let last = &rates[rates.len().saturating_sub(2)..];
    last.iter().sum::<f64>() / last.len().max(1) as f64
}

/// Steps until the throughput was close to that of the last two steps; at least one. One fast step among
/// slow ones is chance.
fn steps_needed(rates: &[f64]) -> usize {
    let steady = steady(rates);
    let cold = rates.windows(2).take_while(|pair| pair[0].min(pair[1]) < WARM * steady).count();
    cold.clamp(1, rates.len().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gets_faster_is_warmed_up_until_it_does_no_more() {
        let express = [1200.0, 2400.0, 3800.0, 4400.0, 5300.0, 5600.0, 5500.0, 5700.0];
        let steady_at = (1..=express.len()).find(|steps| is_steady(&express[..*steps]));
        assert_eq!(steady_at, Some(8));
        assert_eq!(steps_needed(&express), 5);
        assert!(is_steady(&[9000.0, 9100.0, 9050.0, 8990.0]));
        assert_eq!(steps_needed(&[9000.0, 9100.0, 9050.0, 8990.0]), 1);
        assert!(!is_steady(&[9000.0, 9000.0, 9000.0]));
        assert_eq!(steps_needed(&[0.5]), 1);
        assert_eq!(
            steps_needed(&[1000.0, 3000.0, 1500.0, 2000.0, 3000.0, 3000.0]),
            4,
            "the second is chance"
        );
    }

    /// A need at 2,000 requests/s for each worker.
    fn need(workers: u16, seconds: u64) -> Need {
        let per_second = 2000 * u64::from(workers);
        Need {
            app: 0,
            workers,
            time: Duration::from_secs(seconds),
            requests: per_second * seconds,
            per_second: per_second as f64,
        }
    }

    #[test]
    fn each_worker_gets_as_many_requests_as_the_arm_that_needs_the_most() {
        let evened = |needs: &[Need]| {
            let warmup = |warmup: &Warmup| (warmup.time.as_secs(), warmup.requests / 2000);
            evened(needs).iter().map(warmup).collect::<Vec<_>>()
        };
        assert_eq!(evened(&[need(1, 2), need(2, 4)]), [(4, 4), (4, 8)], "one process, too");
        assert_eq!(evened(&[need(1, 4), need(2, 1)]), [(4, 4), (4, 8)], "two workers compile twice");
        assert_eq!(evened(&[need(2, 1), need(2, 5)]), [(5, 10), (5, 10)], "equals are treated equally");
        let slower = Need { per_second: 1000.0, requests: 4000, ..need(2, 4) };
        assert_eq!(
            evened(&[need(1, 3), slower]),
            [(3, 3), (8, 6)],
            "longer, but not more than twice as long"
        );
        let other = Need { app: 1, per_second: 20.0, requests: 20, ..need(1, 1) };
        assert_eq!(evened(&[need(1, 6), other]), [(6, 6), (6, 0)], "another app compiles other code");
        assert_eq!(evened(&[Need { per_second: 0.0, requests: 0, ..need(1, 1) }, need(1, 2)])[0].1, 2);
        assert_eq!(evened(&[]), []);
    }

    #[test]
    fn requests_that_were_not_answered_in_time_take_as_long_again_at_most() {
        let warmup = Warmup { time: Duration::from_secs(4), requests: 8000 };
        let missing = |answered| warmup.missing(answered).as_secs();
        assert_eq!([9000, 8000, 6400, 4000, 1000, 0].map(missing), [0, 0, 1, 4, 4, 4]);
        assert_eq!(Warmup::of(Duration::from_secs(4)).missing(0), Duration::ZERO);
    }

    #[test]
    fn steps_are_longer_on_a_slow_machine_and_fit_a_budget() {
        let (half, minute) = (STEP, Duration::from_secs(60));
        let patient = Limits::within(true, minute, 3);
        assert_eq!(patient.next_step(half, 6000.0, 1), half);
        assert_eq!(patient.next_step(half, 1600.0, 2), Duration::from_millis(1250));
        assert_eq!(patient.next_step(half, 0.0, 2), STEP_MAX);
        assert_eq!(patient.next_step(Duration::from_secs(3), 6000.0, 1), Duration::from_secs(3));
        let within = |seconds| Limits::within(false, Duration::from_secs(seconds), 2);
        assert_eq!([10, 60, 600].map(|seconds| within(seconds).time.as_secs()), [2, 6, 8]);
        assert_eq!(within(60).next_step(half, 100.0, 2), half);
    }
}
