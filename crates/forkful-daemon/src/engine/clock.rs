//! The one place of the daemon that reads clocks.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use forkful_core::Time;

/// Translates between the core's [`Time`] and the clocks of the machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now() }
    }

    pub(crate) fn now(self) -> Time {
        Time::from_start(self.start.elapsed())
    }
}

/// Milliseconds since the Unix epoch.
pub(crate) fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
