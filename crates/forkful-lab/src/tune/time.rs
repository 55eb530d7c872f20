//! What fits into the budget of `tune`. Pure, but for what trials took before.

use std::time::{Duration, Instant};

use super::{Candidate, TuneSetup, warmup};
use crate::compare::TrialPlan;

/// The budget's moments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time {
    /// Starting and ending a server once, as the pilot found it.
    pub(super) overhead: Duration,
    /// The race's time is up.
    pub(super) until: Instant,
    /// After this not even the best one's latency fits.
    pub(super) last: Instant,
}

impl Time {
    /// What one trial of a candidate takes.
    pub(super) fn of(&self, tune: &TuneSetup, candidate: Candidate, trial: &TrialPlan) -> Duration {
        self.overhead + warmup(tune, candidate, trial) + trial.window
    }
}

/// How many of these, from the first on, can have the runs that they lack beside one more in each round, in this time.
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

    #[test]
    fn as_many_fit_as_have_time_for_all_that_they_lack() {
        let second = Duration::from_secs(1);
        let three = [(second, 2), (second, 2), (2 * second, 2)];
        // Two rounds of 1 + 1 + 2 s, and one more of 1 s in each.
        assert_eq!(fitting(&three, second, 10 * second), 3);
        assert_eq!(fitting(&three, second, 9 * second), 2);
        assert_eq!(fitting(&three, second, 5 * second), 1);
        assert_eq!(fitting(&three, second, 3 * second), 0);
        assert_eq!(fitting(&[(second, 1)], second, 2 * second), 1, "who lacks one run needs one round");
        assert_eq!(fitting(&[], second, Duration::ZERO), 0);
    }
}
