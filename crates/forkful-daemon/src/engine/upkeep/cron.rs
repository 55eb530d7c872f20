//! Points in time that a pattern names, by the wall clock of the daemon's time zone.

use std::time::Duration;

use chrono::Local;
use forkful_core::Time;
use forkful_core::spec::CronPattern;

/// The wall clock can be set, and time zones change their hour: it is looked at at least so often.
const LOOK_EVERY_MAX: Duration = Duration::from_secs(60);

/// The next point of a pattern.
#[derive(Debug)]
pub(super) struct Cron {
    pattern: CronPattern,
    /// `None` when the pattern names no point in the future.
    next_ms: Option<i64>,
    look: Time,
}

impl Cron {
    pub(super) fn new(pattern: &CronPattern, now: Time) -> Self {
        let mut cron = Self { pattern: pattern.clone(), next_ms: None, look: now };
        cron.plan(now);
        cron
    }

    /// When to look at the clock.
    pub(super) fn next_look(&self) -> Time {
        self.look
    }

    /// Whether a point has been reached; once for each.
    pub(super) fn strikes(&mut self, now: Time) -> bool {
        if self.look > now {
            return false;
        }
        let struck = self.next_ms.is_some_and(|next| next <= Local::now().timestamp_millis());
        if struck || self.next_ms.is_none() {
            self.plan(now);
        } else {
            self.wait(now);
        }
        struck
    }

    fn plan(&mut self, now: Time) {
        let after = Local::now();
        let next = self.pattern.pattern().find_next_occurrence(&after, false);
        self.next_ms = next.ok().map(|at| at.timestamp_millis());
        self.wait(now);
    }

    fn wait(&mut self, now: Time) {
        let left = self.next_ms.map(|next| next - Local::now().timestamp_millis());
        let left =
            left.and_then(|left| u64::try_from(left).ok()).map_or(LOOK_EVERY_MAX, Duration::from_millis);
        // The monotonic clock must not be a moment early.
        self.look = now + left.min(LOOK_EVERY_MAX) + Duration::from_millis(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_point_is_waited_for_and_strikes_once() {
        let now = Time::default();
        let mut cron = Cron::new(&CronPattern::new("* * * * * *").expect("every second"), now);
        let wait = cron.next_look().since(now);
        assert!(wait <= Duration::from_millis(1002), "{wait:?}");
        assert!(!cron.strikes(now), "it is not looked at before");
        cron.next_ms = Some(0);
        assert!(cron.strikes(cron.next_look()));
        assert!(cron.next_ms.is_some_and(|next| next > 0), "the next one is planned");
    }

    #[test]
    fn a_far_point_is_looked_for_each_minute_as_the_clock_may_be_set() {
        let cron = Cron::new(&CronPattern::new("0 0 29 2 *").expect("a pattern"), Time::default());
        assert!(cron.next_look().since(Time::default()) <= Duration::from_secs(61));
    }
}
