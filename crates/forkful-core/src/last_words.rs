//! When to disconnect a worker that must stop and has closed all its servers.
//!
//! Its open channel alone would keep the process of an app alive that only calls `server.close()`. But after
//! a disconnect `process.send` fails, and an app may have a last message to send. The channel stays open
//! until the app has been silent for a moment.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;

/// An app that is silent for this long after its last close has nothing more to send; a stop takes this much
/// longer.
pub const SILENCE: Duration = Duration::from_millis(100);

/// An app that keeps sending messages is disconnected after this time.
pub const LAST_WORDS_MAX: Duration = Duration::from_secs(1);

/// A worker that must stop and listens on no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastWords {
    /// Since when both are true.
    pub since: Time,
    /// The time of the app's last message, or the same time.
    pub heard: Time,
}

impl LastWords {
    /// Starts now.
    pub fn from(now: Time) -> Self {
        Self { since: now, heard: now }
    }

    /// When to disconnect the worker, unless the app sends more.
    pub fn end(self) -> Time {
        (self.heard + SILENCE).min(self.since + LAST_WORDS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_has_its_say_and_no_more() {
        let at = |ms| Time::from_start(Duration::from_millis(ms));
        let silent = LastWords::from(at(5_000));
        assert_eq!(silent.end(), at(5_100));
        assert_eq!(LastWords { heard: at(5_080), ..silent }.end(), at(5_180));
        assert_eq!(LastWords { heard: at(5_990), ..silent }.end(), at(6_000), "without end");
    }
}
