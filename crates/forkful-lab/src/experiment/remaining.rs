//! How much longer blocks of arms will take, from what the arms took before and how far the present one is. Pure.

use std::time::Duration;

/// Before so much of a run is done, its speed says nothing of its end.
const DONE_MIN: f64 = 0.05;

/// What is still to be run.
#[derive(Debug)]
pub(super) struct Remaining {
    /// Seconds of the runs that are over, by arm.
    took: Vec<Vec<f64>>,
    blocks: u32,
}

impl Remaining {
    /// Every arm once in each block.
    pub(super) fn of(arms: usize, blocks: u32) -> Self {
        Self { took: vec![Vec::new(); arms], blocks }
    }

    /// A run of an arm is over.
    pub(super) fn took(&mut self, arm: usize, whole: Duration) {
        self.took[arm].push(whole.as_secs_f64());
    }

    /// Until all runs are over; `None` as long as nothing is known. An arm that has not run yet is taken to be as slow
    /// as the slowest that is known.
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

/// `, about 40 s left`, `, about 3 min left`: no more exact than it is.
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
        // A quarter in 10 s: 30 s more, and three runs like it.
        assert_eq!(remaining.about(0, 10 * SECOND, 0.25), Some(150 * SECOND));
        remaining.took(0, 40 * SECOND);
        // The other one is faster: 10 s more, its second run, and the first's second one.
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
