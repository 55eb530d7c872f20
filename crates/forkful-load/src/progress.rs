//! The progress of a running load, and how to end it early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The current phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Connections are being opened; the clock does not run.
    Connecting,
    /// The connections, or the rate, grow to their full number. Not counted.
    Ramp,
    /// Full load that is not counted.
    Warmup,
    Measuring,
    /// No new requests; the run waits for answers to those that were sent.
    Draining,
}

/// A snapshot, about ten times a second. All counts are of the measurement only, without ramp and warm-up.
#[derive(Debug, Clone)]
pub struct Progress {
    pub phase: Phase,
    /// Time since this phase began.
    pub elapsed: Duration,
    /// The completed part of the measurement, 0 to 1, by time or by requests, depending on the plan.
    pub done: f64,
    pub started: u64,
    pub completed: u64,
    /// Requests that ended without a complete answer.
    pub failed: u64,
    /// Errors of any cause: `failed`, and complete answers that were not the expected ones.
    pub errors: u64,
    /// Complete answers per second in the last window, in any phase.
    pub per_second: f64,
    /// Median response time in the last window; `None` if it has no answers.
    pub p50: Option<Duration>,
    /// 99th percentile of the same; with few answers it is their maximum.
    pub p99: Option<Duration>,
    /// Answers in completed windows of the measurement, including answers to requests of the warm-up.
    pub answered: u64,
    /// The sum of their response times. The mean of any period is the difference of these two sums.
    pub response_sum: Duration,
    pub open_connections: u64,
    /// Open loop: requests that are due and not started. 0 in a closed loop.
    pub backlog: u64,
}

/// Ends a run early, from another thread or a signal handler. The results so far are reported.
#[derive(Debug, Clone, Default)]
pub struct StopHandle {
    stopped: Arc<AtomicBool>,
    at_once: Arc<AtomicBool>,
}

impl StopHandle {
    /// A new, unused handle.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the run within about 100 ms. Further calls have no effect.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Ends the run as soon as possible, without waiting for anything that would otherwise be drained.
    pub fn stop_at_once(&self) {
        self.at_once.store(true, Ordering::Relaxed);
        self.stop();
    }

    /// A handle for the same run that waits for nothing: each stop is a stop at once.
    #[must_use]
    pub fn always_at_once(&self) -> Self {
        Self { stopped: Arc::clone(&self.stopped), at_once: Arc::clone(&self.stopped) }
    }

    /// Whether [`StopHandle::stop_at_once`] was called.
    pub fn is_at_once(&self) -> bool {
        self.at_once.load(Ordering::Relaxed)
    }

    /// Whether [`StopHandle::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}
