//! State shared by the threads of a run. Requests do not touch it one by one: request numbers are claimed in
//! blocks, and the rest is read-only.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::clock::{Clock, NEVER, Nanos};
use crate::compiled::Compiled;
use crate::recorder::ThreadWindow;

/// Largest block of numbers that a thread claims; blocks shrink towards the end so that no thread runs dry
/// while another has a backlog.
const CLAIM_MAX: u64 = 256;
/// A thread claims 1/8 of its share of the remaining numbers.
const CLAIM_PARTS: u64 = 8;
/// Numbers for requests of ramp and warm-up start here, so that no number occurs twice in a run.
pub(crate) const WARMUP_NUMBERS: u64 = 1_000_000_000_000;

/// Hands out the numbers 0 to `limit`, each once.
#[derive(Debug)]
pub(crate) struct Numbers {
    next: AtomicU64,
    base: u64,
    limit: u64,
    threads: u64,
}

/// The numbers that a thread has claimed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Claim {
    next: u64,
    end: u64,
}

/// A thread's claimed numbers for warm-up and measurement.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Claims {
    warmup: Claim,
    measured: Claim,
    /// No number is left.
    pub(crate) exhausted: bool,
}

impl Numbers {
    pub(crate) fn new(base: u64, limit: u64, threads: usize) -> Self {
        Self { next: AtomicU64::new(0), base, limit, threads: threads as u64 }
    }

    /// The next number, if there is one.
    #[inline]
    pub(crate) fn take(&self, claim: &mut Claim) -> Option<u64> {
        if claim.next == claim.end && !self.claim(claim) {
            return None;
        }
        let number = claim.next;
        claim.next += 1;
        Some(self.base + number)
    }

    #[cold]
    fn claim(&self, claim: &mut Claim) -> bool {
        let mut at = self.next.load(Ordering::Relaxed);
        loop {
            let left = self.limit.saturating_sub(at);
            if left == 0 {
                return false;
            }
            let size = (left / (self.threads * CLAIM_PARTS)).clamp(1, CLAIM_MAX).min(left);
            match self.next.compare_exchange_weak(at, at + size, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    *claim = Claim { next: at, end: at + size };
                    return true;
                }
                Err(now) => at = now,
            }
        }
    }
}

/// The times of a run, fixed once all threads are ready.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Times {
    pub(crate) start: Nanos,
    pub(crate) ramp_end: Nanos,
    pub(crate) measure_from: Nanos,
}

impl Times {
    /// Used before the times are fixed.
    pub(crate) const UNKNOWN: Self = Self { start: NEVER, ramp_end: NEVER, measure_from: NEVER };
}

/// Shared by all threads.
pub(crate) struct Shared {
    pub(crate) compiled: Compiled,
    pub(crate) clock: Clock,
    pub(crate) warmup_numbers: Numbers,
    pub(crate) numbers: Numbers,
    /// The end of the measurement. Set once the start is known; moved earlier if the run is ended early.
    end: AtomicU64,
    times: OnceLock<Times>,
    /// Answers under way are not waited for after the end.
    drain_skipped: AtomicBool,
    /// Set when the threads may close their connections and end.
    released: OnceLock<()>,
}

impl Shared {
    pub(crate) fn new(compiled: Compiled, limit: u64) -> Self {
        let threads = compiled.threads;
        Self {
            compiled,
            clock: Clock::new(),
            warmup_numbers: Numbers::new(WARMUP_NUMBERS, u64::MAX, threads),
            numbers: Numbers::new(0, limit, threads),
            end: AtomicU64::new(NEVER),
            times: OnceLock::new(),
            drain_skipped: AtomicBool::new(false),
            released: OnceLock::new(),
        }
    }

    #[inline]
    pub(crate) fn end(&self) -> Nanos {
        self.end.load(Ordering::Relaxed)
    }

    /// The number of a closed loop's next request, and whether it is measured; `None`: nothing more to start.
    #[inline]
    pub(crate) fn next_number(&self, claims: &mut Claims, is_warmup: bool) -> Option<(u64, bool)> {
        if is_warmup {
            return self.warmup_numbers.take(&mut claims.warmup).map(|id| (id, false));
        }
        let id = self.numbers.take(&mut claims.measured);
        claims.exhausted |= id.is_none();
        id.map(|id| (id, true))
    }

    /// Moves the end to `at` if that is earlier.
    pub(crate) fn end_at(&self, at: Nanos) {
        self.end.fetch_min(at, Ordering::Relaxed);
    }

    /// Lets the threads end without waiting for answers under way.
    pub(crate) fn skip_drain(&self) {
        self.drain_skipped.store(true, Ordering::Relaxed);
    }

    /// When a thread stops waiting for answers, if it may wait for `drain` after the end.
    #[inline]
    pub(crate) fn drain_end(&self, drain: Nanos) -> Nanos {
        let drain = if self.drain_skipped.load(Ordering::Relaxed) { 0 } else { drain };
        self.end().saturating_add(drain)
    }

    /// Lets the threads start, unless they already have.
    pub(crate) fn start(&self, times: Times) {
        self.times.get_or_init(|| times);
    }

    /// Lets the threads end.
    pub(crate) fn release(&self) {
        self.released.get_or_init(|| ());
    }

    /// Waits for [`Shared::release`]: connections stay open until the final inspection is done.
    pub(crate) fn wait_for_release(&self) {
        self.released.wait();
    }

    /// Waits for [`Shared::start`].
    pub(crate) fn wait_for_start(&self) -> Times {
        *self.times.wait()
    }
}

/// A message of a thread, about ten times a second.
#[derive(Debug)]
pub(crate) enum Update {
    /// The thread's first connections were made or have failed: their number, and the cause of the first
    /// failure.
    Ready { opened: u64, failure: Option<(crate::ErrorCause, String)> },
    /// A window ended. `measured`: the window is part of the measurement.
    Window { thread: usize, measured: bool, window: ThreadWindow, totals: Totals },
    /// The thread has finished its part of the measurement.
    Measured,
}

/// A thread's counts so far. Those of [`Totals::life`] include ramp and warm-up.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) started: u64,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    pub(crate) errors: u64,
    pub(crate) opened: u64,
    pub(crate) life: Life,
}

/// Counts of the whole run that say whether the target is there: ramp, warm-up, measurement and drain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Life {
    /// Opened connections and complete answers.
    pub(crate) reached: u64,
    /// Requests without a complete answer.
    pub(crate) failed: u64,
    /// Requests started and not ended.
    pub(crate) under_way: u64,
}

impl Life {
    pub(crate) fn of(report: &crate::Report) -> Self {
        let counts = [&report.counts, &report.warmup];
        let sum = |pick: fn(&crate::Counts) -> u64| counts.into_iter().map(pick).sum::<u64>();
        let answered = sum(|counts| counts.completed + counts.late);
        let failed = sum(|counts| counts.failed);
        Self {
            reached: report.connections.opened + answered,
            failed,
            under_way: sum(|counts| counts.started).saturating_sub(answered + failed),
        }
    }

    /// The sum over all threads.
    pub(crate) fn of_all(totals: &[Totals]) -> Self {
        totals.iter().fold(Self::default(), |sum, Totals { life, .. }| Self {
            reached: sum.reached + life.reached,
            failed: sum.failed + life.failed,
            under_way: sum.under_way + life.under_way,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_handed_out_once_whatever_the_threads() {
        for (limit, threads) in [(1, 4), (3, 2), (1_000, 3), (100_000, 4)] {
            let numbers = Numbers::new(10, limit, threads);
            let mut all: Vec<u64> = std::thread::scope(|scope| {
                let take_all = || {
                    let mut claim = Claim::default();
                    std::iter::from_fn(|| numbers.take(&mut claim)).collect::<Vec<_>>()
                };
                let handles: Vec<_> = (0..threads).map(|_| scope.spawn(take_all)).collect();
                handles.into_iter().flat_map(|handle| handle.join().unwrap()).collect()
            });
            all.sort_unstable();
            assert_eq!(all, (10..10 + limit).collect::<Vec<_>>());
        }
    }
}
