//! For what the processes of an app wait: the pressure of its control group, or of the machine. What is the same for all apps is read
//! one time for all of them.

use std::time::Duration;

use forkful_core::Time;
use forkful_core::metrics::Readings;
use forkful_os::cgroup::{AppGroup, Surroundings, Throttling};
use forkful_os::pressure::Pressure;

use super::outside::GroupMemory;

/// How often these are read: the kernel tells pressure as the mean of 10 s.
const EVERY: Duration = Duration::from_secs(10);

/// The last reading of something.
#[derive(Default)]
struct LastReading<R> {
    at: Option<Time>,
    reading: R,
}

impl<R: Copy> LastReading<R> {
    /// A reading that is at most [`EVERY`] old.
    fn refresh(&mut self, now: Time, read: impl FnOnce() -> R) -> R {
        if self.at.is_none_or(|at| now.since(at) >= EVERY) {
            *self = Self { at: Some(now), reading: read() };
        }
        self.reading
    }
}

/// Readings that are the same for all apps.
#[derive(Default)]
pub(in crate::engine) struct Machine {
    pressure: LastReading<Pressure>,
    memory: LastReading<GroupMemory>,
    /// The control groups around the daemon that have a CPU quota; found at the first use.
    surroundings: Option<Surroundings>,
}

impl Machine {
    fn pressure(&mut self, now: Time) -> Pressure {
        self.pressure.refresh(now, Pressure::of_machine)
    }

    /// The memory of the control groups around the daemon.
    pub(super) fn memory(&mut self, now: Time) -> GroupMemory {
        self.memory.refresh(now, GroupMemory::of_surroundings)
    }

    /// How often the CPU quota of the container or the service was exhausted; `None` without a quota.
    pub(super) fn throttling(&mut self) -> Option<Throttling> {
        self.surroundings.get_or_insert_with(Surroundings::find).throttling()
    }
}

/// The pressure of one app's group; nothing is known of it where there is no group, or the kernel does not measure it.
#[derive(Default)]
pub(super) struct PressureWatch(LastReading<Pressure>);

impl PressureWatch {
    /// What it is now: of the app's group, or of the machine.
    pub(super) fn look(&mut self, group: Option<&AppGroup>, machine: &mut Machine, now: Time) -> Readings {
        let own = self.0.refresh(now, || group.and_then(AppGroup::pressure).unwrap_or_default());
        let pressure = if own.is_known() { own } else { machine.pressure(now) };
        let Pressure { cpu, memory, io } = pressure;
        let known = [("cpu_pressure", cpu), ("memory_pressure", memory), ("io_pressure", io)];
        let mut readings = Readings::default();
        for (name, value) in known.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            readings.take(name, value);
        }
        readings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pressure_is_read_again_after_ten_seconds() {
        let (begin, mut last, mut readings) = (Time::default(), LastReading::default(), 0);
        let mut look = |second| {
            last.refresh(begin + Duration::from_secs(second), || {
                readings += 1;
                Pressure { cpu: Some(f64::from(readings)), ..Pressure::default() }
            })
            .cpu
        };
        assert_eq!([0, 9, 10, 19, 25].map(&mut look), [1.0, 1.0, 2.0, 2.0, 3.0].map(Some));
    }

    #[test]
    fn the_machine_is_read_once_for_all_apps() {
        let (begin, mut machine) = (Time::default(), Machine::default());
        let mut apps = [PressureWatch::default(), PressureWatch::default()];
        for second in 0..10 {
            for app in &mut apps {
                app.look(None, &mut machine, begin + Duration::from_secs(second));
            }
            assert_eq!(machine.pressure.at, Some(begin));
        }
    }
}
