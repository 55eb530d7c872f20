//! When a start is given up whose program was not executed in time.
//!
//! Such a start hangs in a file system, or somebody has stopped the new process. On a machine whose cores are all in use it may only
//! wait for a core, as dozens of starts after a boot do: that is no hang.

use std::time::Duration;

/// From the order of a start until its program is executed. A program on a slow network file system takes a second.
pub const START_DEADLINE: Duration = Duration::from_secs(10);
/// A start that goes on is looked at again after this time.
pub const MORE: Duration = Duration::from_secs(1);
/// The machine is short of cores when tasks waited for one in this share of the time (`some avg10` of `/proc/pressure/cpu`, from 0 to 1). A
/// start may then wait for a lock whose holder has no core.
pub const PRESSURE_LEAST: f64 = 0.5;
/// A start that does not wait for a core itself takes no longer on such a machine.
pub const PRESSURE_WAIT_MAX: Duration = Duration::from_secs(60);
/// No start takes longer, whatever it waits for.
pub const START_DEADLINE_MAX: Duration = Duration::from_secs(300);

/// A start whose time is over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LateStart {
    /// Time since its order.
    pub age: Duration,
    pub doing: Doing,
    /// From 0 to 1; `None` where the kernel does not say it.
    pub cpu_pressure: Option<f64>,
}

/// What it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// No thread has begun with it. `hang`: all threads that could are with starts that were given up.
    Queued { hang: bool },
    /// A thread or the new process is at it. `is_runnable`: it has a core, or waits for one now; `waited`: how long it has waited for
    /// one so far.
    UnderWay { is_runnable: bool, waited: Duration },
    /// Nothing is known of its thread and process.
    Unknown,
}

/// For how long the start may go on; `None` gives it up.
pub fn more_time(start: LateStart) -> Option<Duration> {
    let LateStart { age, doing, cpu_pressure } = start;
    let is_busy = cpu_pressure.is_some_and(|share| share >= PRESSURE_LEAST) && age < PRESSURE_WAIT_MAX;
    let waits_for_a_core = match doing {
        Doing::Queued { hang } => !hang,
        Doing::UnderWay { is_runnable, waited } => is_runnable || waited * 2 >= age || is_busy,
        Doing::Unknown => false,
    };
    (waits_for_a_core && age < START_DEADLINE_MAX).then_some(MORE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_waits_for_a_core_goes_on_and_one_that_hangs_does_not() {
        let under_way =
            |is_runnable, waited| Doing::UnderWay { is_runnable, waited: Duration::from_secs(waited) };
        for (age, doing, cpu_pressure, goes_on) in [
            (10, Doing::Queued { hang: false }, None, true),
            (10, Doing::Queued { hang: true }, Some(0.99), false),
            (10, under_way(true, 0), Some(0.0), true),
            (10, under_way(false, 5), None, true),
            (10, under_way(false, 4), None, false),
            (10, under_way(false, 4), Some(0.49), false),
            (10, under_way(false, 4), Some(0.5), true),
            (60, under_way(false, 4), Some(0.99), false),
            (299, under_way(true, 0), None, true),
            (300, under_way(true, 299), None, false),
            (300, Doing::Queued { hang: false }, None, false),
            (10, Doing::Unknown, Some(0.99), false),
        ] {
            let more = more_time(LateStart { age: Duration::from_secs(age), doing, cpu_pressure });
            assert_eq!(more, goes_on.then_some(MORE), "{age} s, {doing:?}");
        }
    }
}
