//! When a worker that is to end and has closed all its servers is disconnected.
//!
//! Its channel alone would hold the process of an app that only calls `server.close()`. But after a disconnect
//! `process.send` fails, and an app may have a last message to send. The channel stays until the app has been silent
//! for a moment.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;

/// An app that says nothing for so long after its last close has nothing more to say; a stop takes so much longer.
pub const SILENCE: Duration = Duration::from_millis(100);

/// An app that sends messages without end is disconnected all the same.
pub const LAST_WORDS_MAX: Duration = Duration::from_secs(1);

/// A worker that is to end and listens on nothing any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastWords {
    /// Since when both hold.
    pub since: Time,
    /// The last message of the app, or the same moment.
    pub heard: Time,
}

impl LastWords {
    /// From now on.
    pub fn from(now: Time) -> Self {
        Self { since: now, heard: now }
    }

    /// When the worker is disconnected, unless the app says more.
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
