//! The one place of the engine that reads clocks.

use forkful_core::Time;
pub(crate) use forkful_os::wall_clock::now_ms as wall_ms;

/// The clock that the core's [`Time`] is of: the monotonic one of the machine as it is, so that a time that was written
/// down means the same to another daemon.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock;

impl Clock {
    pub(crate) fn now(self) -> Time {
        Time::from_start(forkful_os::clock::monotonic())
    }
}
