//! When a worker is reported as blocked: its event loop does not run.
//!
//! Steering passes over a worker after milliseconds (see [`Suspicion`](super::Suspicion)), which costs
//! nothing if it is wrong. A report to users needs more time: a garbage collection or a busy machine is not a
//! problem of the worker.

use std::time::Duration;

/// A worker whose event loop has not answered for this long is reported as blocked.
pub const BLOCKED_AFTER: Duration = Duration::from_millis(200);

/// How long a list of workers waits for the replies of workers that were just probed. It is slightly longer
/// than [`BLOCKED_AFTER`], so that the first list shows a worker without a reply as blocked.
pub const LOOK_PATIENCE: Duration = Duration::from_millis(210);

/// When a process used this many cores since the last look, a computation may block its event loop. On a busy machine, even a process
/// that only computes gets a small part of a core.
const COMPUTES_FROM: f64 = 0.1;

/// Whether a worker is asked if its event loop turns, although no list waits for the answer. The time of a block is counted from the first
/// question, so a later list shows it.
pub fn may_be_blocked(cpu_cores: Option<f64>) -> bool {
    cpu_cores.is_some_and(|cores| cores >= COMPUTES_FROM)
}

/// How long a worker has been blocked, if its answer has been due for `silent`.
pub fn blocked_for(silent: Option<Duration>) -> Option<Duration> {
    silent.filter(|silent| *silent >= BLOCKED_AFTER)
}

/// Whether a list has to wait for a worker: it was probed, and may still answer in time.
pub fn is_awaited(silent: Option<Duration>) -> bool {
    silent.is_some_and(|silent| silent < BLOCKED_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_computes_is_asked() {
        assert_eq!(
            [None, Some(0.0), Some(0.02), Some(0.3), Some(3.0)].map(may_be_blocked),
            [false, false, false, true, true]
        );
    }

    #[test]
    fn a_worker_is_waited_for_until_it_is_called_blocked() {
        let table = [
            (None, None, false),
            (Some(0), None, true),
            (Some(199), None, true),
            (Some(200), Some(200), false),
            (Some(3000), Some(3000), false),
        ];
        for (silent, blocked, awaited) in table {
            let silent = silent.map(Duration::from_millis);
            assert_eq!(blocked_for(silent), blocked.map(Duration::from_millis));
            assert_eq!(is_awaited(silent), awaited);
        }
        assert!(LOOK_PATIENCE > BLOCKED_AFTER);
    }
}
