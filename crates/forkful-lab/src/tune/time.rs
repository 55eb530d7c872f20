//! What fits into the budget of `tune`, which is a hard limit: which candidates run, how long their windows
//! are, and whether another trial may start. Pure, except for the durations of past trials.

use std::time::{Duration, Instant};

use super::race::Candidate;
use super::{COARSE_ROUNDS, RACE_SHARE, TuneSetup, WINDOW_MAX, WINDOW_MIN, warmup};
use crate::LabError;
use crate::compare::TrialPlan;

#[derive(Debug, Clone, Copy)]
pub(super) struct Time {
    /// Time to start and stop a server once, from the pilot.
    pub(super) overhead: Duration,
    /// The largest delay of a trial beyond its expected duration so far.
    pub(super) late: Duration,
    /// End of the race.
    pub(super) until: Instant,
    /// After this time not even the latency of the best candidate fits.
    pub(super) last: Instant,
}

impl Time {
    /// The expected duration of a trial of a candidate.
    pub(super) fn of(&self, tune: &TuneSetup, candidate: Candidate, trial: &TrialPlan) -> Duration {
        self.overhead + self.late + warmup(tune, candidate, trial) + trial.window
    }

    /// Whether a trial of this duration may start.
    pub(super) fn fits(&self, takes: Duration) -> bool {
        Instant::now() + takes <= self.last
    }

    /// Records a trial that took longer than expected.
    pub(super) fn took(&mut self, expected: Duration, took: Duration) {
        self.late += took.saturating_sub(expected);
    }
}

/// The first rounds, as far as there is time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct First {
    /// The most important candidates for which there is time, in the given order.
    pub(super) candidates: Vec<Candidate>,
    pub(super) window: Duration,
}

/// The facts before the race.
#[derive(Debug, Clone, Copy)]
pub(super) struct Needs {
    /// The rest of the budget.
    pub(super) left: Duration,
    /// Each trial's duration, without its window.
    pub(super) fixed: Duration,
    /// Minimum window, so that it contains enough answers.
    pub(super) window: Duration,
    /// Pool size and cores, for ranking candidates.
    pub(super) pool: u32,
    pub(super) cores: u16,
}

impl Needs {
    /// The duration of two rounds of this many candidates.
    fn rounds(&self, candidates: usize, window: Duration) -> Duration {
        (self.fixed + window) * (candidates * COARSE_ROUNDS) as u32
    }

    /// The time for the race if the choice's latency is measured too.
    fn for_race(&self) -> Duration {
        self.left.mul_f64(RACE_SHARE).min(self.left.saturating_sub(self.fixed + super::latency::WINDOW_MIN))
    }

    /// First one worker and one per core with the current pool size, then other numbers of workers, then
    /// other pool sizes.
    fn rank(&self, candidate: Candidate) -> (bool, bool, u16, u32) {
        let is_corner = candidate.workers == 1 || candidate.workers == self.cores;
        (candidate.pool != self.pool, !is_corner, candidate.workers.abs_diff(self.cores), candidate.pool)
    }

    /// The first rounds, with windows as long as the time allows; the error is the smallest budget if there
    /// is no time for any.
    pub(super) fn first(&self, list: &[Candidate]) -> Result<First, Duration> {
        let least = self.window.max(WINDOW_MIN).min(WINDOW_MAX * 4);
        let needed = list.len().min(2);
        let count = (needed..=list.len()).rev().find(|count| self.rounds(*count, least) <= self.for_race());
        let (count, least) = match count {
            Some(count) => (count, least),
            // Short windows are better than none.
            None if self.rounds(needed, WINDOW_MIN) <= self.for_race() => (needed, WINDOW_MIN),
            None => {
                let spent = self.rounds(needed, least).div_f64(RACE_SHARE) + self.fixed;
                return Err(spent.max(self.left));
            }
        };
        let mut ranked = list.to_vec();
        ranked.sort_by_key(|candidate| self.rank(*candidate));
        ranked.truncate(count);
        let candidates: Vec<Candidate> =
            list.iter().copied().filter(|candidate| ranked.contains(candidate)).collect();
        // The coarse rounds of all candidates and six more rounds of three survivors.
        let trials = (count * COARSE_ROUNDS + 3 * 6) as u32;
        let each = (self.for_race() / trials).saturating_sub(self.fixed);
        let most = (self.for_race() / (count * COARSE_ROUNDS).max(1) as u32).saturating_sub(self.fixed);
        let window = each.clamp(least, WINDOW_MAX.max(least)).min(most.max(least));
        Ok(First { candidates, window })
    }
}

/// The error for a budget that is too small, with a sufficient budget.
pub(super) fn too_small(budget: Duration, spent: Duration, more: Duration) -> LabError {
    const STEP_S: u64 = 5;
    let seconds = (spent + more).as_secs() + 1;
    LabError::Plan {
        reason: format!(
            "a budget of {} s is too small: {:.0} s went into starting and warming up the app, and the rest does not hold two \
             windows of two candidates; `--budget {}s` would do",
            budget.as_secs(),
            spent.as_secs_f64(),
            seconds.div_ceil(STEP_S) * STEP_S
        ),
        hint: "fewer candidates need less time: `--workers 1,2 --pools 4`",
    }
}

/// How many of these, from the first on, can make up their missing runs within this time, with `beside` in
/// each round.
pub(super) fn fitting(each: &[(Duration, usize)], beside: Duration, left: Duration) -> usize {
    let takes = |count: usize| {
        let rounds = each[..count].iter().map(|(_, runs)| *runs).max().unwrap_or(0);
        let own: Duration = each[..count].iter().map(|(once, runs)| *once * *runs as u32).sum();
        own + beside * rounds as u32
    };
    (0..=each.len()).rev().find(|count| takes(*count) <= left).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn as_many_fit_as_have_time_for_all_that_they_lack() {
        let second = Duration::from_secs(1);
        let three = [(second, 2), (second, 2), (2 * second, 2)];
        // Two rounds of 1 + 1 + 2 s, plus 1 s in each.
        assert_eq!(fitting(&three, second, 10 * second), 3);
        assert_eq!(fitting(&three, second, 9 * second), 2);
        assert_eq!(fitting(&three, second, 5 * second), 1);
        assert_eq!(fitting(&three, second, 3 * second), 0);
        assert_eq!(
            fitting(&[(second, 1)], second, 2 * second),
            1,
            "a candidate that lacks one run needs one round"
        );
        assert_eq!(fitting(&[], second, Duration::ZERO), 0);
    }

    #[test]
    fn the_first_rounds_keep_the_budget_and_the_most_important_candidates() {
        let list: Vec<Candidate> = [(1, 1), (1, 4), (1, 16), (2, 4), (3, 4), (4, 4)]
            .map(|(workers, pool)| Candidate { workers, pool })
            .to_vec();
        let first = |left: f64| {
            let needs =
                Needs { left: second(left), fixed: second(1.5), window: second(1.0), pool: 4, cores: 2 };
            let found = needs.first(&list);
            if let Ok(first) = &found {
                let takes = (needs.fixed + first.window) * 2 * first.candidates.len() as u32;
                assert!(takes <= needs.left.mul_f64(RACE_SHARE), "{left} s: {first:?}");
            }
            found.map(|first| first.candidates.iter().map(|one| (one.workers, one.pool)).collect::<Vec<_>>())
        };
        assert_eq!(first(80.0).unwrap().len(), 6);
        assert_eq!(first(30.0).unwrap(), [(1, 4), (2, 4), (3, 4), (4, 4)], "other pools are the first to go");
        assert_eq!(first(22.0).unwrap(), [(1, 4), (2, 4), (3, 4)]);
        assert_eq!(first(12.0).unwrap(), [(1, 4), (2, 4)], "with short windows");
        assert_eq!(first(6.0), Err(second(10.0 / RACE_SHARE + 1.5)));
    }

    #[test]
    fn a_window_has_the_time_that_there_is() {
        let list = [Candidate { workers: 1, pool: 4 }, Candidate { workers: 2, pool: 4 }];
        let window = |left: f64| {
            let needs =
                Needs { left: second(left), fixed: second(1.0), window: second(0.5), pool: 4, cores: 2 };
            needs.first(&list).unwrap().window
        };
        assert_eq!(window(600.0), WINDOW_MAX);
        assert_eq!(window(12.0), second(0.5));
        assert!(window(60.0) > second(1.0), "{:?}", window(60.0));
    }

    #[test]
    fn a_budget_that_is_too_small_is_told_with_one_that_is_not() {
        let told = too_small(second(10.0), second(8.2), second(14.1)).to_string();
        assert!(told.starts_with("a budget of 10 s is too small: 8 s went into"), "{told}");
        assert!(told.ends_with("`--budget 25s` would do"), "{told}");
    }

    #[test]
    fn a_trial_that_took_longer_makes_the_next_ones_take_longer() {
        let now = Instant::now();
        let mut time = Time {
            overhead: second(1.0),
            late: Duration::ZERO,
            until: now + second(60.0),
            last: now + second(100.0),
        };
        time.took(second(3.0), second(2.5));
        assert_eq!(time.late, Duration::ZERO);
        time.took(second(3.0), second(5.0));
        assert_eq!(time.late, second(2.0));
        assert!(time.fits(second(50.0)) && !time.fits(second(101.0)));
    }
}
