//! Whether the target is gone, so that a run that ends by its number of requests would never end, or only
//! after its requests have failed one by one. Pure.

use crate::clock::{Nanos, nanos};
use crate::plan::{Load, Plan, Stop};
use crate::shared::Life;

/// The target counts as gone after it was not reached for as long as a request may take, plus this time (or
/// two windows, whose ends update the counts): a connection for the next request shows that it is there.
const SPARE: Nanos = 1_000_000_000;
/// Failures of each connection until the target may count as gone while no request is under way.
const FAILURES_EACH: u64 = 3;

/// How long the target has not been reached although it was asked.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    /// The counts when the target was last reached.
    last: Life,
    /// The silence began here; `None` before the first look.
    since: Option<Nanos>,
}

impl Silence {
    /// Notes the counts, and whether the silence lasts too long. Pauses that the plan makes are no silence:
    /// think time, or a low rate.
    pub(crate) fn is_too_long(&mut self, plan: &Plan, life: Life, now: Nanos) -> bool {
        let Stop::Requests(_) = plan.stop else { return false };
        if life.reached != self.last.reached {
            (self.last, self.since) = (life, Some(now));
        }
        let failures = life.failed.saturating_sub(self.last.failed);
        if life.under_way == 0 && failures < FAILURES_EACH * together(plan) {
            self.since = Some(now);
        }
        let spare = SPARE.max(nanos(plan.window).saturating_mul(2));
        now.saturating_sub(*self.since.get_or_insert(now)) > nanos(plan.timeout).saturating_add(spare)
    }
}

/// Requests that may fail at the same time and are followed by a pause of the plan.
fn together(plan: &Plan) -> u64 {
    match plan.load {
        Load::Closed { .. } => (plan.connections * plan.pipelining) as u64,
        Load::Open { .. } => 1,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    fn plan() -> Plan {
        let mut plan = Plan::get("http://127.0.0.1:1/").unwrap();
        (plan.connections, plan.timeout, plan.stop) = (2, Duration::from_secs(1), Stop::Requests(100));
        plan
    }

    fn life(reached: u64, failed: u64, under_way: u64) -> Life {
        Life { reached, failed, under_way }
    }

    /// The second after which the target counted as gone.
    fn gone_at(plan: &Plan, looks: impl Fn(u64) -> Life) -> Option<u64> {
        let mut silence = Silence::default();
        (100..160).find(|second| silence.is_too_long(plan, looks(*second), second * SECOND))
    }

    #[test]
    fn a_target_that_was_asked_and_not_reached_is_gone() {
        assert_eq!(gone_at(&plan(), |_| life(5, 0, 1)), Some(103), "under way for more than 2 s");
        assert_eq!(gone_at(&plan(), |second| life(5, second * 9, 0)), Some(103), "it refuses");
        let timed = Plan { stop: Stop::Duration(Duration::from_secs(60)), ..plan() };
        assert_eq!(gone_at(&timed, |_| life(5, 0, 1)), None, "time ends it");
    }

    #[test]
    fn pauses_of_the_plan_are_no_silence() {
        assert_eq!(gone_at(&plan(), |_| life(5, 0, 0)), None, "think time");
        assert_eq!(gone_at(&plan(), |second| life(second, 0, 1)), None, "answers of the warm-up");
        // A request that fails now and then, between pauses of three seconds.
        let looks = |second: u64| life(5 + second / 6, second / 6, u64::from(second.is_multiple_of(3)));
        assert_eq!(gone_at(&plan(), looks), None);
        let looks = |second: u64| life(5, u64::from(second > 100), 0);
        assert_eq!(gone_at(&plan(), looks), None, "one failure before a long pause");
    }

    #[test]
    fn an_open_loop_ends_after_three_failures_without_an_answer() {
        let load = Load::Open { rate: 0.5, connections_max: 1, arrivals: crate::Arrivals::Even };
        let plan = Plan { load, ..plan() };
        // A failure every two seconds: the third after the first look comes at 106.
        assert_eq!(gone_at(&plan, |second| life(5, (second - 100) / 2 + 1, 0)), Some(108));
        assert_eq!(gone_at(&plan, |second| life(5 + (second - 100) / 4, (second - 100) / 2 + 1, 0)), None);
    }
}
