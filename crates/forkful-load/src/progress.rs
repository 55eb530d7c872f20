//! What a running load tells, and how to end it early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The part of a run that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Connections are being opened; the clock does not run.
    Connecting,
    /// Connections, or the rate, grow to what was asked for. Not counted.
    Ramp,
    /// Full load that is not counted.
    Warmup,
    Measuring,
    /// No new requests; answers to those that were sent are awaited.
    Draining,
}

/// A snapshot, about ten times a second. All counts are of the measurement, without ramp and warm-up.
#[derive(Debug, Clone)]
pub struct Progress {
    pub phase: Phase,
    /// Since this phase began.
    pub elapsed: Duration,
    /// Part of the measurement that is done, 0 to 1, by time or by requests, whichever the plan stops at.
    pub done: f64,
    pub started: u64,
    pub completed: u64,
    /// Requests that ended without a complete answer.
    pub failed: u64,
    /// Errors of any cause: `failed`, and complete answers that were not the wanted ones.
    pub errors: u64,
    /// Complete answers per second in the last window, in any phase.
    pub per_second: f64,
    /// Median of the response time in the last window; `None` without an answer in it.
    pub p50: Option<Duration>,
    /// 99th percentile of the same; of few answers it is their maximum.
    pub p99: Option<Duration>,
    /// Answers of the measurement's windows that have ended; those to requests of the warm-up are among them.
    pub answered: u64,
    /// Their response times together: means of any stretch are differences of these two.
    pub response_sum: Duration,
    pub open_connections: u64,
    /// Open loop: requests that should have started and have not. 0 in a closed loop.
    pub backlog: u64,
}

/// Ends a run early from another thread or a signal handler; what was measured until then is reported.
#[derive(Debug, Clone, Default)]
pub struct StopHandle {
    stopped: Arc<AtomicBool>,
    at_once: Arc<AtomicBool>,
}

impl StopHandle {
    /// A handle that has not been used.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the run within about 100 ms. Calling it again changes nothing.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Ends the run, and everything that would otherwise be ended with patience, as soon as possible.
    pub fn stop_at_once(&self) {
        self.at_once.store(true, Ordering::Relaxed);
        self.stop();
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
