//! Estimates the remaining time of blocks of arms from past runs and the progress of the current run. Pure.

use std::time::Duration;

/// Below this progress, the speed of a run is not a usable estimate.
const DONE_MIN: f64 = 0.05;

/// The runs still to do.
#[derive(Debug)]
pub(super) struct Remaining {
    /// Seconds of the completed runs, by arm.
    took: Vec<Vec<f64>>,
    blocks: u32,
}

impl Remaining {
    /// Every arm runs once in each block.
    pub(super) fn of(arms: usize, blocks: u32) -> Self {
        Self { took: vec![Vec::new(); arms], blocks }
    }

    /// Records a completed run of an arm.
    pub(super) fn took(&mut self, arm: usize, whole: Duration) {
        self.took[arm].push(whole.as_secs_f64());
    }

    /// The time until all runs are done; `None` if there is no estimate yet. An arm that has not run counts
    /// as slow as the slowest known arm.
    pub(super) fn about(&self, running: usize, elapsed: Duration, done: f64) -> Option<Duration> {
        let elapsed = elapsed.as_secs_f64();
        let usual = |arm: usize| {
            let took = &self.took[arm];
            (!took.is_empty()).then(|| took.iter().sum::<f64>() / took.len() as f64)
        };
        let present = if done >= DONE_MIN { Some(elapsed / done) } else { usual(running) };
        let slowest = (0..self.took.len()).filter_map(usual).chain(present).reduce(f64::max)?;
        let to_come = (0..self.took.len()).map(|arm| {
            let runs =
                (self.blocks as usize).saturating_sub(self.took[arm].len() + usize::from(arm == running));
            let each = if arm == running { present } else { usual(arm) };
            each.unwrap_or(slowest) * runs as f64
        });
        let left = (present.unwrap_or(slowest) - elapsed).max(0.0) + to_come.sum::<f64>();
        Some(Duration::from_secs_f64(left))
    }
}

/// `, about 40 s left`, `, about 3 min left`: rounded to its precision.
pub(super) fn words(left: Duration) -> String {
    match left.as_secs() {
        seconds @ ..95 => format!(", about {} s left", seconds.div_ceil(10).max(1) * 10),
        seconds => format!(", about {} min left", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_is_left_follows_from_what_was_seen() {
        let mut remaining = Remaining::of(2, 2);
        assert_eq!(remaining.about(0, SECOND, 0.01), None, "nothing is known yet");
        // A quarter took 10 s: 30 s more, and three runs like it.
        assert_eq!(remaining.about(0, 10 * SECOND, 0.25), Some(150 * SECOND));
        remaining.took(0, 40 * SECOND);
        // The other arm is faster: 10 s more, its second run, and the second run of the first arm.
        assert_eq!(remaining.about(1, 10 * SECOND, 0.5), Some((10 + 20 + 40) * SECOND));
        remaining.took(1, 20 * SECOND);
        assert_eq!(remaining.about(0, 5 * SECOND, 0.0), Some((35 + 20) * SECOND));
        remaining.took(0, 40 * SECOND);
        assert_eq!(remaining.about(1, 30 * SECOND, 0.0), Some(Duration::ZERO), "slower than it was");
    }

    #[test]
    fn it_is_told_no_more_exactly_than_it_is_known() {
        assert_eq!(words(Duration::ZERO), ", about 10 s left");
        assert_eq!(words(34 * SECOND), ", about 40 s left");
        assert_eq!(words(150 * SECOND), ", about 3 min left");
    }
}
