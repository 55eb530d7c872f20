//! CPU use of a process or a control group: the share of one core between two samples of its CPU time.

use std::time::Duration;

use forkful_core::Time;
use forkful_os::procinfo;

/// The last sample of a CPU time, and the share between the last two samples.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CpuSample {
    pid: u32,
    pub(crate) at: Time,
    used: Duration,
    pub(crate) percent: f32,
}

impl CpuSample {
    /// The minimum time between two samples, so that a share is meaningful.
    const PAUSE_MIN: Duration = Duration::from_millis(500);

    /// Starts again if the process is a new one: it had used no CPU time when it was spawned.
    pub(crate) fn follow(&mut self, pid: u32, spawned: Time) {
        if self.pid != pid {
            *self = Self { pid, at: spawned, ..Self::default() };
        }
    }

    /// Whether the last sample is old enough for another one.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        now.since(self.at) >= Self::PAUSE_MIN
    }

    /// Samples a process if a sample is due. A process that is younger than the interval has no share yet: it
    /// may have used more CPU time before its start was recorded than since.
    pub(crate) fn look(&mut self, pid: u32, spawned: Time, now: Time) {
        self.follow(pid, spawned);
        if self.is_due(now)
            && let Ok(used) = procinfo::cpu_time(pid)
        {
            self.take(used, now);
        }
    }

    /// Takes a sample: the share of one core since the last one.
    pub(crate) fn take(&mut self, used: Duration, now: Time) {
        let passed_s = now.since(self.at).as_secs_f32().max(0.001);
        let percent = used.saturating_sub(self.used).as_secs_f32() / passed_s * 100.0;
        *self = Self { pid: self.pid, at: now, used, percent };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_the_share_of_one_core_since_the_last_one() {
        let at = |ms| Time::default() + Duration::from_millis(ms);
        let mut sample = CpuSample::default();
        sample.follow(7, at(1000));
        assert!(!sample.is_due(at(1499)) && sample.is_due(at(1500)));
        sample.take(Duration::from_millis(250), at(1500));
        assert!((sample.percent - 50.0).abs() < 0.1, "{sample:?}");
        sample.follow(7, at(1000));
        sample.take(Duration::from_millis(2250), at(2500));
        assert!((sample.percent - 200.0).abs() < 0.1, "{sample:?}");
        sample.follow(8, at(2400));
        assert_eq!((sample.percent, sample.at), (0.0, at(2400)));
    }

    #[test]
    fn a_process_of_a_few_milliseconds_has_no_share_yet() {
        let at = |ms| Time::default() + Duration::from_millis(ms);
        let (mut sample, own) = (CpuSample::default(), std::process::id());
        assert!(procinfo::cpu_time(own).unwrap() > Duration::ZERO);
        sample.look(own, at(1000), at(1001));
        assert!(sample.percent.total_cmp(&0.0).is_eq(), "{sample:?}");
        sample.look(own, at(1000), at(1500));
        assert!(sample.percent > 0.0, "{sample:?}");
    }
}
