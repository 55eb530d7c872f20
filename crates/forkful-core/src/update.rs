//! Updates of the daemon: which programs may replace it, and when. The keeper tries an update out and may undo it
//! (`forkful-keeper`).

use std::time::Duration;

use crate::Time;

/// After a trial the keeper replaces its own program. On a busy machine that takes longer than the trial's end tells.
const AFTER_TRIAL: Duration = Duration::from_secs(2);

/// Whether a program is Forkful, by its output for `--version`. It is one line in every version.
pub fn is_forkful(output: &str) -> bool {
    let version = output.strip_prefix("forkful ");
    version.is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
}

/// The trial of a daemon that has just replaced another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    over_at: Time,
}

impl Trial {
    pub fn begin(now: Time, length: Duration) -> Self {
        Self { over_at: now + length + AFTER_TRIAL }
    }

    /// How many seconds another update has to wait: if this trial failed, both would be undone. `keeper_follows`: whether the
    /// keeper runs this daemon's program, which it does once the trial is passed.
    pub fn seconds_left(self, now: Time, keeper_follows: bool) -> Option<u64> {
        let left = self.over_at.since(now);
        (!keeper_follows && !left.is_zero()).then(|| left.as_millis().div_ceil(1000) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forkful_is_told_from_other_programs_by_its_version() {
        for output in ["forkful 0.1.0", "forkful 1.2.3-beta.1\n"] {
            assert!(is_forkful(output), "{output}");
        }
        for output in
            ["", "forkful", "forkful update", "v24.1.0", "true (GNU coreutils) 9.1", "error: forkful 1"]
        {
            assert!(!is_forkful(output), "{output}");
        }
    }

    #[test]
    fn an_update_waits_until_the_trial_of_the_one_before_is_over() {
        let at = |millis| Time::from_start(Duration::from_millis(millis));
        let trial = Trial::begin(at(1000), Duration::from_secs(5));
        let left = [1000, 1001, 7000, 7999, 8000, 9000].map(|now| trial.seconds_left(at(now), false));
        assert_eq!(left, [Some(7), Some(7), Some(1), Some(1), None, None]);
        assert_eq!(trial.seconds_left(at(1000), true), None, "the keeper has decided");
    }
}
