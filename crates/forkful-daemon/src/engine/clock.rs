//! The only place of the engine that reads clocks.

use forkful_core::Time;
pub(crate) use forkful_os::wall_clock::now_ms as wall_ms;

/// The clock of the core's [`Time`]: the machine's monotonic clock, so that a stored time has the same
/// meaning for another daemon.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock;

impl Clock {
    pub(crate) fn now(self) -> Time {
        Time::from_start(forkful_os::clock::monotonic())
    }
}
