//! The switch of the `auto` balance: a token bucket, which connections empty and time fills.

use std::time::Duration;

use crate::Time;

/// Connections that may arrive at once and are still distributed exactly. Evenness matters for a page full of
/// websockets, or a load generator that opens its connections at the start; handing out 256 connections one
/// by one costs about 25 ms of CPU in total on both sides.
pub const BURST: u32 = 256;

/// Connections per second that are handed out one by one continuously. Above this rate connections are short,
/// so they even out by themselves, and the cost of each matters.
pub const RATE: u32 = 800;

/// Connections after which a return to exact is cancelled, if they arrive faster than [`RATE`].
pub const TASTE: u32 = 32;

/// How long direct lasts before exact is tried again, so that switching costs at most one `setsockopt` and
/// [`TASTE`] hand-outs per second.
pub const DIRECT_SPELL: Duration = Duration::from_secs(1);

/// Who distributes the next connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dispatch {
    /// The daemon accepts it and hands it to one worker.
    Exact,
    /// The kernel puts it into one worker's queue.
    Direct,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AutoBalance {
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Exact { tokens: f64, filled: Time },
    Direct { until: Time },
}

impl AutoBalance {
    /// Begins exact, with a full bucket.
    pub fn new(now: Time) -> Self {
        Self { phase: Phase::Exact { tokens: f64::from(BURST), filled: now } }
    }

    /// Begins direct: another daemon may have been in this phase.
    pub fn resumed(now: Time) -> Self {
        Self { phase: Phase::Direct { until: now + DIRECT_SPELL } }
    }

    /// The daemon has accepted `n` connections.
    pub fn on_accept(&mut self, now: Time, n: u32) -> Dispatch {
        let _ = self.on_time(now);
        match &mut self.phase {
            Phase::Exact { tokens, filled } => {
                let gained = now.since(*filled).as_secs_f64() * f64::from(RATE);
                *tokens = (*tokens + gained).min(f64::from(BURST)) - f64::from(n);
                *filled = (*filled).max(now);
                if *tokens <= 0.0 {
                    self.phase = Phase::Direct { until: now + DIRECT_SPELL };
                }
            }
            Phase::Direct { .. } => {}
        }
        self.dispatch()
    }

    /// The number of connections that wait in the daemon's queue: if there are more than it would hand over,
    /// they do not wait for that, and the queue does not fill up meanwhile.
    pub fn on_waiting(&mut self, now: Time, waiting: u32) -> Dispatch {
        // Waiting connections are counted when they are accepted.
        if self.on_accept(now, 0) == Dispatch::Exact
            && let Phase::Exact { tokens, .. } = self.phase
            && f64::from(waiting) > tokens
        {
            self.phase = Phase::Direct { until: now + DIRECT_SPELL };
        }
        self.dispatch()
    }

    /// Handles the passing of time.
    pub fn on_time(&mut self, now: Time) -> Dispatch {
        match self.phase {
            Phase::Direct { until } if now >= until => {
                self.phase = Phase::Exact { tokens: f64::from(TASTE), filled: now };
            }
            Phase::Direct { .. } | Phase::Exact { .. } => {}
        }
        self.dispatch()
    }

    /// When [`Self::on_time`] has to be called.
    pub fn next_check(&self) -> Option<Time> {
        match self.phase {
            Phase::Direct { until } => Some(until),
            Phase::Exact { .. } => None,
        }
    }

    pub fn dispatch(&self) -> Dispatch {
        match self.phase {
            Phase::Direct { .. } => Dispatch::Direct,
            Phase::Exact { .. } => Dispatch::Exact,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_start(Duration::from_millis(millis))
    }

    /// Feeds `per_second` connections evenly over `seconds`; returns the milliseconds spent in direct.
    fn run(balance: &mut AutoBalance, from_ms: u64, seconds: u64, per_second: u32) -> u64 {
        let mut due = 0.0;
        let mut direct = 0;
        for ms in from_ms..from_ms + seconds * 1000 {
            due += f64::from(per_second) / 1000.0;
            let n = due as u32;
            due -= f64::from(n);
            // In direct mode the kernel distributes them; the daemon only sees time pass.
            let dispatch = match balance.on_time(at(ms)) {
                Dispatch::Exact => balance.on_accept(at(ms), n),
                Dispatch::Direct => Dispatch::Direct,
            };
            direct += u64::from(dispatch == Dispatch::Direct);
        }
        direct
    }

    #[test]
    fn a_burst_that_waits_is_left_to_the_kernel_when_it_is_more_than_the_bucket_holds() {
        let mut balance = AutoBalance::new(at(0));
        assert_eq!(balance.on_waiting(at(0), BURST), Dispatch::Exact);
        assert_eq!(balance.on_accept(at(0), 1), Dispatch::Exact);
        assert_eq!(balance.on_waiting(at(0), BURST - 1), Dispatch::Exact, "none is counted twice");
        assert_eq!(balance.on_waiting(at(0), BURST), Dispatch::Direct);
        assert_eq!(balance.on_time(at(1000)), Dispatch::Exact);
        assert_eq!(balance.on_waiting(at(1000), TASTE + 1), Dispatch::Direct);
    }

    #[test]
    fn what_is_resumed_is_direct_until_exact_is_tried() {
        let mut balance = AutoBalance::resumed(at(500));
        assert_eq!(balance.on_time(at(1499)), Dispatch::Direct);
        assert_eq!(balance.on_time(at(1500)), Dispatch::Exact);
        assert_eq!(balance.on_accept(at(1500), TASTE), Dispatch::Direct);
    }

    #[test]
    fn a_burst_is_spread_exactly() {
        let mut balance = AutoBalance::new(at(0));
        for n in 1..BURST {
            assert_eq!(balance.on_accept(at(0), 1), Dispatch::Exact, "connection {n}");
        }
        assert_eq!(balance.on_accept(at(0), 1), Dispatch::Direct);
        assert_eq!(balance.next_check(), Some(at(1000)));
    }

    #[test]
    fn slow_connections_stay_exact_for_ever() {
        let mut balance = AutoBalance::new(at(0));
        assert_eq!(run(&mut balance, 0, 60, RATE - 10), 0);
    }

    #[test]
    fn fast_connections_are_direct_but_for_the_tasting() {
        let mut balance = AutoBalance::new(at(0));
        run(&mut balance, 0, 1, 20_000);
        let direct = run(&mut balance, 1000, 20, 20_000);
        assert!(direct >= 20_000 - 20 * 5, "{direct} of 20000 ms were direct");
    }

    #[test]
    fn a_slower_rate_brings_exact_and_the_whole_burst_back() {
        let mut balance = AutoBalance::new(at(0));
        run(&mut balance, 0, 2, 20_000);
        let direct = run(&mut balance, 2000, 20, 100);
        assert!(direct <= 1000, "{direct} ms of direct after the rush");
        assert_eq!(balance.on_accept(at(22_000), BURST - 1), Dispatch::Exact);
    }

    #[test]
    fn tasting_ends_at_once_in_a_rush() {
        let mut balance = AutoBalance::new(at(0));
        assert_eq!(balance.on_accept(at(0), BURST), Dispatch::Direct);
        assert_eq!(balance.on_time(at(999)), Dispatch::Direct);
        assert_eq!(balance.on_time(at(1000)), Dispatch::Exact);
        assert_eq!(balance.on_accept(at(1000), TASTE - 1), Dispatch::Exact);
        assert_eq!(balance.on_accept(at(1000), 1), Dispatch::Direct);
        assert_eq!(balance.next_check(), Some(at(2000)));
    }

    #[test]
    fn an_earlier_time_changes_nothing() {
        let mut balance = AutoBalance::new(at(500));
        assert_eq!(balance.on_accept(at(400), 1), Dispatch::Exact);
        let mut same = AutoBalance::new(at(500));
        assert_eq!(same.on_accept(at(500), 1), Dispatch::Exact);
        assert_eq!(balance, same);
    }
}
