//! For what the processes of an app wait: the pressure of its control group, or of the machine.

use std::time::Duration;

use forkful_core::Time;
use forkful_core::metrics::Readings;
use forkful_os::cgroup::AppGroup;
use forkful_os::pressure::Pressure;

/// How often it is read: the kernel tells the mean of 10 s.
const EVERY: Duration = Duration::from_secs(10);

/// The pressure of one app.
#[derive(Default)]
pub(super) struct PressureWatch {
    read_at: Option<Time>,
    last: Pressure,
}

impl PressureWatch {
    /// What it is now, by a reading that is at most [`EVERY`] old.
    pub(super) fn look(&mut self, group: Option<&AppGroup>, now: Time) -> Readings {
        if self.read_at.is_none_or(|at| now.since(at) >= EVERY) {
            self.last = group.and_then(AppGroup::pressure).unwrap_or_else(Pressure::of_machine);
            self.read_at = Some(now);
        }
        let Pressure { cpu, memory, io } = self.last;
        let known = [("cpu_pressure", cpu), ("memory_pressure", memory), ("io_pressure", io)];
        let mut readings = Readings::default();
        for (name, value) in known.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            readings.take(name, value);
        }
        readings
    }
}
