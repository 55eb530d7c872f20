//! Whether a running worker still works: counts failed checks in a row.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::spec::HealthCheck;

/// The checks of one worker since its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// When the next check is due; none while a check is running.
    next: Option<Time>,
    failures: u32,
    last_fault: Option<String>,
    asked: u64,
}

/// The result of a finished check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Healthy,
    /// It failed, but not often enough in a row.
    Failing {
        /// Failures in a row.
        failures: u32,
    },
    /// The worker must be replaced.
    Unhealthy {
        /// Failures in a row.
        failures: u32,
        /// The last error.
        fault: String,
    },
}

impl Health {
    /// A worker that has just become ready.
    pub fn new(check: &HealthCheck, now: Time) -> Self {
        Self { next: Some(now + check.start_period), failures: 0, last_fault: None, asked: 0 }
    }

    /// When the next check is due.
    pub fn next_question(&self) -> Option<Time> {
        self.next
    }

    /// Whether to check now; if so, an answer is expected.
    pub fn ask(&mut self, now: Time) -> bool {
        let due = self.next.is_some_and(|at| at <= now);
        if due {
            self.next = None;
            self.asked += 1;
        }
        due
    }

    /// An answer, or an error.
    pub fn on_answer(&mut self, check: &HealthCheck, now: Time, answer: Result<(), String>) -> Verdict {
        self.next = Some(now + check.interval.max(Duration::from_millis(1)));
        match answer {
            Ok(()) => {
                self.failures = 0;
                self.last_fault = None;
                Verdict::Healthy
            }
            Err(fault) => {
                self.failures = self.failures.saturating_add(1);
                self.last_fault = Some(fault.clone());
                if self.failures >= check.failures_max {
                    let failures = std::mem::take(&mut self.failures);
                    Verdict::Unhealthy { failures, fault }
                } else {
                    Verdict::Failing { failures: self.failures }
                }
            }
        }
    }

    /// The error of the last check, if it failed.
    pub fn last_fault(&self) -> Option<&str> {
        self.last_fault.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::HealthProbe;

    fn at(millis: u64) -> Time {
        Time::from_start(Duration::from_millis(millis))
    }

    fn check() -> HealthCheck {
        HealthCheck {
            probe: HealthProbe::Tcp { port: None },
            interval: Duration::from_secs(1),
            timeout: Duration::from_millis(500),
            start_period: Duration::from_secs(3),
            failures_max: 3,
            stuck_limit: None,
        }
    }

    #[test]
    fn the_first_question_waits_for_the_start_period_and_one_is_under_way_at_a_time() {
        let mut health = Health::new(&check(), at(0));
        assert!(!health.ask(at(2999)));
        assert!(health.ask(at(3000)));
        assert!(!health.ask(at(9000)), "its answer is owed");
        assert_eq!(health.on_answer(&check(), at(9000), Ok(())), Verdict::Healthy);
        assert_eq!(health.next_question(), Some(at(10_000)));
    }

    #[test]
    fn only_failures_in_a_row_count() {
        let check = check();
        let mut health = Health::new(&check, at(0));
        let mut fail = |ok: bool| {
            let answer = if ok { Ok(()) } else { Err("status 500".to_owned()) };
            health.on_answer(&check, at(0), answer)
        };
        assert_eq!(fail(false), Verdict::Failing { failures: 1 });
        assert_eq!(fail(false), Verdict::Failing { failures: 2 });
        assert_eq!(fail(true), Verdict::Healthy);
        assert_eq!(fail(false), Verdict::Failing { failures: 1 });
        assert_eq!(fail(false), Verdict::Failing { failures: 2 });
        assert_eq!(fail(false), Verdict::Unhealthy { failures: 3, fault: "status 500".to_owned() });
        assert_eq!(fail(false), Verdict::Failing { failures: 1 }, "counted anew while it is being replaced");
    }
}
