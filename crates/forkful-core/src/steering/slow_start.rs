//! The share of new connections of a worker that has just begun to serve (`slow_start`).
//!
//! Its first requests load and compile code, so it serves fewer requests at first. Its share of new
//! connections rises in equal steps. Shares are relative: if all workers are new, all get the same.

use std::time::Duration;

use crate::Time;

/// The share of a worker that is not new; a new worker begins at 1.
pub const FULL: u32 = 8;

/// The rising share of one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rise {
    since: Time,
    over: Duration,
    share: u32,
}

impl Rise {
    /// A worker begins to serve; `None` if it gets its full share at once.
    pub fn begin(now: Time, over: Duration) -> Option<Self> {
        (!over.is_zero()).then_some(Self { since: now, over, share: 1 })
    }

    /// From 1 to [`FULL`].
    pub fn share(&self) -> u32 {
        self.share
    }

    /// When the share rises next.
    pub fn next_step(&self) -> Time {
        self.since + self.over.mul_f64(f64::from(self.share + 1) / f64::from(FULL))
    }

    /// Handles the passing of time; returns whether the share has risen. At [`FULL`] the rise is over.
    pub fn on_time(&mut self, now: Time) -> bool {
        let before = self.share;
        while self.share < FULL && self.next_step() <= now {
            self.share += 1;
        }
        self.share > before
    }

    /// Whether other workers come first, if a worker with this share got none of the last `others_had`
    /// connections and `serving` workers take turns.
    pub fn gives_way(&self, others_had: u64, serving: usize) -> bool {
        others_had.saturating_mul(u64::from(self.share)) < (serving as u64).saturating_mul(u64::from(FULL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_start(Duration::from_millis(millis))
    }

    #[test]
    fn a_share_rises_in_equal_steps() {
        assert_eq!(Rise::begin(at(0), Duration::ZERO), None);
        let mut rise = Rise::begin(at(1000), Duration::from_millis(800)).unwrap();
        let mut steps = Vec::new();
        while rise.share() < FULL {
            let next = rise.next_step();
            assert!(!rise.on_time(at(next.since_start().as_millis() as u64 - 1)));
            assert!(rise.on_time(next));
            steps.push((next.since_start().as_millis(), rise.share()));
        }
        assert_eq!(steps, [(1200, 2), (1300, 3), (1400, 4), (1500, 5), (1600, 6), (1700, 7), (1800, 8)]);
        let mut late = Rise::begin(at(0), Duration::from_millis(800)).unwrap();
        assert!(late.on_time(at(5000)) && late.share() == FULL, "whoever looks late finds it at its end");
    }

    #[test]
    fn a_worker_with_an_eighth_gets_one_connection_where_the_others_get_eight() {
        let mut rise = Rise::begin(at(0), Duration::from_millis(800)).unwrap();
        let pause = |rise: &Rise, serving| (0..100).find(|had| !rise.gives_way(*had, serving)).unwrap();
        assert_eq!([1, 2, 4].map(|serving| pause(&rise, serving)), [8, 16, 32]);
        rise.on_time(at(400));
        assert_eq!([1, 2, 4].map(|serving| pause(&rise, serving)), [2, 4, 8]);
    }
}
