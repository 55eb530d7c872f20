//! When a worker is called blocked: its event loop does not turn.
//!
//! Steering passes over a worker after milliseconds (see [`Suspicion`](super::Suspicion)), which costs nothing when it
//! is wrong. What people are told is another matter: a garbage collection or a busy machine is no fault.

use std::time::Duration;

/// A worker whose loop has not answered for so long is called blocked.
pub const BLOCKED_AFTER: Duration = Duration::from_millis(200);

/// How long a list of workers waits for the replies of workers that it has just probed. It is a little more than
/// [`BLOCKED_AFTER`], so that the first list shows a worker without a reply as blocked.
pub const LOOK_PATIENCE: Duration = Duration::from_millis(210);

/// For how long a worker has been blocked, if it owes an answer for `silent`.
pub fn blocked_for(silent: Option<Duration>) -> Option<Duration> {
    silent.filter(|silent| *silent >= BLOCKED_AFTER)
}

/// Whether a look has to wait for a worker: it was asked, and may still answer in time.
pub fn is_awaited(silent: Option<Duration>) -> bool {
    silent.is_some_and(|silent| silent < BLOCKED_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

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
