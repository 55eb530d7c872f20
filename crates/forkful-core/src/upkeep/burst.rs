//! When changed files are followed: as soon as nothing more has changed for a while, but not later than a bound.

use std::time::Duration;

use crate::Time;

/// If files keep changing, the changes are followed after this many delays.
const DELAYS_MAX: u32 = 20;

/// Changes that are followed together.
#[derive(Debug)]
pub struct Burst {
    delay: Duration,
    /// When nothing more has changed for the delay, and when the changes are followed in any case.
    until: Option<(Time, Time)>,
}

impl Burst {
    /// Without a change. `delay` is how long nothing may change before changes are followed.
    pub fn new(delay: Duration) -> Self {
        Self { delay, until: None }
    }

    /// Something has changed.
    pub fn on_change(&mut self, now: Time) {
        let latest = self.until.map_or(now + self.delay * DELAYS_MAX, |(_, latest)| latest);
        self.until = Some((now + self.delay, latest));
    }

    /// When the changes are followed unless there are more before; `None` without a change.
    pub fn due(&self) -> Option<Time> {
        self.until.map(|(quiet, latest)| quiet.min(latest))
    }

    /// Whether the changes are followed now; later ones are another burst.
    pub fn ends(&mut self, now: Time) -> bool {
        let is_over = self.due().is_some_and(|at| at <= now);
        if is_over {
            self.until = None;
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_start(Duration::from_millis(ms))
    }

    #[test]
    fn changes_are_followed_once_nothing_more_changes() {
        let mut burst = Burst::new(Duration::from_millis(100));
        assert_eq!(burst.due(), None);
        assert!(!burst.ends(at(1_000)), "nothing has changed");
        burst.on_change(at(1_000));
        burst.on_change(at(1_060));
        assert_eq!(burst.due(), Some(at(1_160)));
        assert!(!burst.ends(at(1_159)));
        assert!(burst.ends(at(1_160)));
        assert!(!burst.ends(at(1_200)), "once");
    }

    #[test]
    fn files_that_keep_changing_are_followed_after_twenty_delays() {
        let mut burst = Burst::new(Duration::from_millis(100));
        let changes = (0..100).map(|change| at(1_000 + change * 50));
        let mut followed = Vec::new();
        for now in changes {
            if burst.ends(now) {
                followed.push(now);
            }
            burst.on_change(now);
        }
        assert_eq!(followed, [at(3_000), at(5_000)]);
    }
}
