//! Points in time of a cron pattern, on a wall clock.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, TimeZone};
use serde::{Deserialize, Serialize};

use crate::Time;
use crate::spec::CronPattern;

/// The wall clock can be set, and time zones change their offset: it is checked at least this often.
const LOOK_EVERY_MAX: Duration = Duration::from_secs(60);

/// A clock that was set back by less than this is waited for: a point that has struck does not strike again.
const SET_BACK_MS: i64 = 60_000;

/// A wall clock, with the time zone in which cron patterns are read.
pub trait WallClock: fmt::Debug {
    /// The current time, in milliseconds since 1970 (UTC).
    fn now_ms(&self) -> i64;

    /// The first point of a pattern after the current time, in the same unit; `None` if there is none.
    fn next_point(&self, pattern: &CronPattern) -> Option<i64>;
}

/// A clock that stands still.
impl<Tz: TimeZone> WallClock for DateTime<Tz> {
    fn now_ms(&self) -> i64 {
        self.timestamp_millis()
    }

    fn next_point(&self, pattern: &CronPattern) -> Option<i64> {
        let next = pattern.pattern().find_next_occurrence(self, false);
        next.ok().map(|at| at.timestamp_millis())
    }
}

/// The next point in time of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cron {
    pattern: CronPattern,
    /// `None` if the pattern has no point in the future.
    next_ms: Option<i64>,
    look: Time,
}

impl Cron {
    /// Plans the next point.
    pub fn new(pattern: &CronPattern, now: Time, wall: &dyn WallClock) -> Self {
        let mut cron = Self { pattern: pattern.clone(), next_ms: None, look: now };
        cron.plan(now, wall);
        cron
    }

    /// Continues with an earlier planned point, which may have passed meanwhile.
    pub fn resume(pattern: &CronPattern, next_ms: i64, now: Time) -> Self {
        Self { pattern: pattern.clone(), next_ms: Some(next_ms), look: now }
    }

    /// The planned point, in wall-clock milliseconds.
    pub fn next_ms(&self) -> Option<i64> {
        self.next_ms
    }

    /// Whether it belongs to this pattern.
    pub fn is_of(&self, pattern: &CronPattern) -> bool {
        self.pattern == *pattern
    }

    /// When to check the clock.
    pub fn next_look(&self) -> Time {
        self.look
    }

    /// Whether a point has been reached; true once for each point.
    pub fn strikes(&mut self, now: Time, wall: &dyn WallClock) -> bool {
        if self.look > now {
            return false;
        }
        let struck = self.next_ms.is_some_and(|next| next <= wall.now_ms());
        if struck || self.next_ms.is_none() {
            self.plan(now, wall);
        } else {
            // Where another point comes before the planned one, the clock was set back since.
            let soonest = wall.next_point(&self.pattern);
            let is_set_back = |at: &i64| self.next_ms.is_some_and(|next| at + SET_BACK_MS < next);
            self.next_ms = soonest.filter(is_set_back).or(self.next_ms);
            self.wait(now, wall);
        }
        struck
    }

    fn plan(&mut self, now: Time, wall: &dyn WallClock) {
        self.next_ms = wall.next_point(&self.pattern);
        self.wait(now, wall);
    }

    fn wait(&mut self, now: Time, wall: &dyn WallClock) {
        let left = self.next_ms.and_then(|next| u64::try_from(next - wall.now_ms()).ok());
        let left = left.map_or(LOOK_EVERY_MAX, Duration::from_millis);
        // The monotonic clock must not wake too early.
        self.look = now + left.min(LOOK_EVERY_MAX) + Duration::from_millis(1);
    }
}

#[cfg(test)]
mod tests {
    use chrono::Utc;

    use super::*;

    fn wall(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    #[test]
    fn the_next_point_is_waited_for_and_strikes_once() {
        let now = Time::default();
        let mut cron = Cron::new(&CronPattern::new("*/5 * * * * *").unwrap(), now, &wall(1));
        assert_eq!(cron.next_look().since(now), Duration::from_millis(4_001));
        assert!(!cron.strikes(now, &wall(5)), "it is not looked at before");
        let at = cron.next_look();
        assert!(cron.strikes(at, &wall(5)));
        assert_eq!(cron.next_look().since(at), Duration::from_millis(5_001), "the next one is planned");
        assert!(!cron.strikes(at, &wall(5)));
    }

    #[test]
    fn a_point_that_passed_while_nobody_looked_strikes_once() {
        let pattern = CronPattern::new("*/5 * * * * *").unwrap();
        let before = Cron::new(&pattern, Time::default(), &wall(1));
        let now = Time::default() + Duration::from_secs(60);
        let mut cron = Cron::resume(&pattern, before.next_ms().unwrap(), now);
        assert!(cron.strikes(now, &wall(61)));
        assert!(!cron.strikes(now, &wall(61)));
        assert_eq!(cron.next_ms(), Some(65_000));
    }

    #[test]
    fn a_clock_that_is_set_back_has_its_points_again_and_a_small_step_has_not() {
        let pattern = CronPattern::new("*/10 * * * * *").unwrap();
        let mut now = Time::default();
        let mut cron = Cron::new(&pattern, now, &wall(7_201));
        let mut strikes = |from: i64, seconds: u64| {
            let began = now;
            let mut struck = Vec::new();
            for second in 0..seconds {
                now = began + Duration::from_secs(second + 1);
                let at = from + i64::try_from(second).unwrap();
                if cron.strikes(now, &wall(at)) {
                    struck.push(at);
                }
            }
            struck
        };
        // The clock is looked at a moment after each point, here with the next second.
        assert_eq!(strikes(7_202, 20), [7_211, 7_221]);
        assert_eq!(strikes(1, 45), [21, 31, 41], "two hours back, which is seen at the next look");
        assert_eq!(strikes(36, 20), [51], "ten seconds back: 40 has struck");
    }

    #[test]
    fn a_far_point_is_looked_for_each_minute_as_the_clock_may_be_set() {
        let now = Time::default();
        let mut cron = Cron::new(&CronPattern::new("0 0 29 2 *").unwrap(), now, &wall(0));
        let at = cron.next_look();
        assert_eq!(at.since(now), Duration::from_millis(60_001));
        // The clock was set to a time after the point.
        assert!(cron.strikes(at, &wall(100_000_000)));
    }
}
