//! The one place of the engine that reads clocks.

use std::time::Instant;

use forkful_core::Time;
pub(crate) use forkful_os::wall_clock::now_ms as wall_ms;

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
