//! The only place of the engine that reads clocks.

use chrono::Local;
use forkful_core::Time;
use forkful_core::spec::CronPattern;
use forkful_core::upkeep::cron::WallClock;
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

/// The machine's wall clock, in its time zone.
impl WallClock for Clock {
    fn now_ms(&self) -> i64 {
        i64::try_from(wall_ms()).unwrap_or(i64::MAX)
    }

    fn next_point(&self, pattern: &CronPattern) -> Option<i64> {
        Local::now().next_point(pattern)
    }
}
