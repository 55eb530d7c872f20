//! The control group of an app with a CPU limit: in each period its processes share a quota, and then wait.

use std::time::Duration;

use crate::machine::Pid;
use crate::watch::Invariant;
use crate::world::World;

const PERIOD: Duration = Duration::from_millis(100);

/// CPU time used by an app's processes.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// The last period of which CPU time is used, counted from the start of the run.
    period: u32,
    used: Duration,
}

impl Group {
    /// Uses `work` from `now` on; returns how long it takes to complete.
    fn run(&mut self, now: Duration, work: Duration, quota: Duration) -> Duration {
        let current = (now.as_nanos() / PERIOD.as_nanos()) as u32;
        if self.period < current {
            *self = Self { period: current, used: Duration::ZERO };
        }
        let (mut began, mut left) = (now.max(PERIOD * self.period), work);
        while left > quota.saturating_sub(self.used) {
            left -= quota.saturating_sub(self.used);
            self.period += 1;
            self.used = Duration::ZERO;
            began = PERIOD * self.period;
        }
        self.used += left;
        (began + left).saturating_sub(now)
    }
}

impl World {
    /// How long a worker needs for its work if its app has a CPU limit.
    pub(super) fn throttled(&mut self, pid: Pid, work: Duration) -> Duration {
        let Some(process) = self.machine.processes.get(pid) else { return work };
        let app = process.whose.0;
        let limit = self.daemon.apps.get(&app).and_then(|entry| entry.supervisor.spec().limits.millicores);
        let Some(millicores) = limit else { return work };
        if !process.joins_group {
            let seen = format!("process {} of app {} runs outside its group", pid.0, app.0);
            self.watch.fail(Invariant::LimitsKept, seen);
        }
        let quota = PERIOD * millicores / 1000;
        self.net.groups.entry(app).or_default().run(self.now.since_start(), work, quota)
    }
}
