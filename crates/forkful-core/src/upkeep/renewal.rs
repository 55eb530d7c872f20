//! When a worker is too large, too old, or has served enough requests, and how often it may be replaced.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::spec::Renewal;

/// How much limits vary from worker to worker, downwards: workers that started together are not renewed
/// together, and no limit is exceeded.
pub const VARIATION: f64 = 0.1;

/// If a worker needs renewal again this soon after its start, renewing has no benefit: the pause before the
/// next renewal doubles.
pub const TOO_SOON: Duration = Duration::from_secs(60);

/// The same for a worker that its memory plan has replaced, with a gain of memory: without the renewal it
/// would die soon.
pub const TOO_SOON_PLANNED: Duration = Duration::from_secs(5);

/// The first pause after a renewal that was too soon, or failed.
pub const PAUSE_FIRST: Duration = Duration::from_secs(5);

/// The longest pause.
pub const PAUSE_MAX: Duration = Duration::from_secs(600);

/// Interval between two checks of memory, requests and age.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The shortest interval between two checks of a fast-growing worker: a check costs about 20 µs per worker.
pub const LOOK_SOONEST: Duration = Duration::from_millis(50);

/// A worker's memory at a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySample {
    /// When it was read.
    pub at: Time,
    /// Resident bytes of its process tree.
    pub bytes: u64,
}

/// Memory used only by a worker's process tree, and the limit of its memory plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnMemory {
    pub bytes: u64,
    /// A worker above this is replaced.
    pub limit: u64,
}

impl OwnMemory {
    /// Whether a new worker would use less memory: a new worker had `first` bytes at its first check.
    pub fn gains(self, first: Option<u64>) -> bool {
        first.is_some_and(|first| first <= self.limit - self.limit / 4)
    }
}

/// When to check a worker's memory again: halfway to the time at which it would exceed `limit`, if it
/// continues to grow as it did since the check `before`.
pub fn look_again_after(limit: u64, before: MemorySample, now: MemorySample) -> Duration {
    let growth = now.bytes.saturating_sub(before.bytes) as f64;
    let passed = now.at.since(before.at).as_secs_f64();
    if growth <= 0.0 || passed <= 0.0 || now.bytes > limit {
        return LOOK_EVERY;
    }
    let seconds_left = limit.saturating_sub(now.bytes) as f64 / (growth / passed);
    let halfway = (seconds_left / 2.0).clamp(LOOK_SOONEST.as_secs_f64(), LOOK_EVERY.as_secs_f64());
    Duration::from_secs_f64(halfway)
}

/// What is known of a running worker; `None` is unknown, and never a reason to renew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Observed {
    /// Time since its start.
    pub age: Duration,
    /// Resident bytes of its process tree.
    pub memory_bytes: Option<u64>,
    /// Its private memory, for a plan.
    pub own_memory: Option<OwnMemory>,
    /// Requests that it has answered or is answering.
    pub requests: Option<u64>,
}

/// Why a worker is renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Its process tree uses more memory than `max_memory_restart`.
    Memory {
        /// Resident bytes.
        bytes: u64,
        /// The user's limit.
        limit: u64,
    },
    /// It uses more private memory than `memory: auto` allows.
    OwnMemory(OwnMemory),
    /// It has reached its number of requests.
    Requests { served: u64 },
    /// It has reached its maximum age.
    Age {
        /// Time since its start.
        age: Duration,
    },
}

/// Whether a worker is due. `share` in 0..1 is this worker's random number, drawn at its start.
pub fn due(renewal: &Renewal, share: f64, observed: &Observed) -> Option<Cause> {
    // The user's memory limit is a limit of the machine, and is not varied.
    if let (Some(limit), Some(bytes)) = (renewal.max_memory_bytes, observed.memory_bytes)
        && bytes > limit
    {
        return Some(Cause::Memory { bytes, limit });
    }
    if let Some(own) = observed.own_memory.filter(|own| own.bytes > own.limit) {
        return Some(Cause::OwnMemory(own));
    }
    let varied = 1.0 - VARIATION * share.clamp(0.0, 1.0);
    if let (Some(most), Some(served)) = (renewal.max_requests, observed.requests)
        && served as f64 >= most as f64 * varied
    {
        return Some(Cause::Requests { served });
    }
    match renewal.max_age {
        Some(most) if observed.age >= most.mul_f64(varied) => Some(Cause::Age { age: observed.age }),
        Some(_) | None => None,
    }
}

/// A slot's pause between renewals, which prevents repeated renewals without delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pause {
    in_a_row: u32,
    until: Option<Time>,
    /// When a new worker last failed to become ready.
    failed: Option<Time>,
}

impl Pause {
    /// Whether the slot may be renewed now.
    pub fn is_over(&self, now: Time) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    /// A renewal begins; the replaced worker has lived for `age`. If that is less than `too_soon`, the next
    /// renewal has to wait.
    pub fn on_renewal(&mut self, now: Time, age: Duration, too_soon: Duration) {
        // The worker is old only because its replacement did not become ready. That does not prove that
        // workers live long.
        if self.failed.is_some_and(|failed| now.since(failed) <= age) {
            return;
        }
        if age >= too_soon {
            *self = Self::default();
        } else {
            self.lengthen(now);
        }
    }

    /// The new worker did not become ready; the old one stays.
    pub fn on_failure(&mut self, now: Time) {
        self.failed = Some(now);
        self.lengthen(now);
    }

    fn lengthen(&mut self, now: Time) {
        let pause = PAUSE_FIRST.saturating_mul(1 << self.in_a_row.min(16)).min(PAUSE_MAX);
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.until = Some(now + pause);
    }
}

impl Cause {
    /// How urgently a worker needs to be replaced: the most urgent worker comes first.
    pub fn urgency(&self) -> f64 {
        match *self {
            // The kernel or V8 would kill it.
            Self::OwnMemory(OwnMemory { bytes, limit }) => 1.0 + bytes as f64 / limit.max(1) as f64,
            Self::Memory { bytes, limit } => bytes as f64 / limit.max(1) as f64,
            Self::Requests { .. } | Self::Age { .. } => 1.0,
        }
    }

    /// Below which age replacing a worker has no benefit; `first` was its private memory at the first check.
    pub fn too_soon(&self, first: Option<u64>) -> Duration {
        match self {
            Self::OwnMemory(own) if own.gains(first) => TOO_SOON_PLANNED,
            // A new worker would soon use as much.
            Self::OwnMemory(_) => Duration::MAX,
            Self::Memory { .. } | Self::Requests { .. } | Self::Age { .. } => TOO_SOON,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory { bytes, limit } => {
                write!(
                    f,
                    "it holds {}, more than the {} that `max_memory_restart` allows",
                    mebi(*bytes),
                    mebi(*limit)
                )
            }
            Self::OwnMemory(OwnMemory { bytes, limit }) => {
                let (bytes, limit) = (mebi(*bytes), mebi(*limit));
                write!(f, "it has {bytes} of its own, more than the {limit} that `memory: auto` gives it")
            }
            Self::Requests { served } => write!(f, "it has served {served} requests (`max_requests`)"),
            Self::Age { age } => write!(f, "it is {} s old (`max_age`)", age.as_secs()),
        }
    }
}

/// A number of bytes in words, such as `12.3 MiB`.
pub fn mebi(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_start(Duration::from_secs(seconds))
    }

    #[test]
    fn each_limit_is_a_cause_of_its_own() {
        let observed = Observed {
            age: Duration::from_secs(95),
            memory_bytes: Some(300),
            requests: Some(950),
            ..Observed::default()
        };
        let none = Renewal::default();
        assert_eq!(due(&none, 0.5, &observed), None);
        let memory = Renewal { max_memory_bytes: Some(299), ..Renewal::default() };
        assert_eq!(due(&memory, 1.0, &observed), Some(Cause::Memory { bytes: 300, limit: 299 }));
        let enough = Renewal { max_memory_bytes: Some(300), ..Renewal::default() };
        assert_eq!(due(&enough, 1.0, &observed), None);
        let requests = Renewal { max_requests: Some(1000), ..Renewal::default() };
        assert_eq!(due(&requests, 1.0, &observed), Some(Cause::Requests { served: 950 }));
        assert_eq!(due(&requests, 0.0, &observed), None, "this worker's share is the whole limit");
        let age = Renewal { max_age: Some(Duration::from_secs(100)), ..Renewal::default() };
        assert_eq!(due(&age, 0.5, &observed), Some(Cause::Age { age: Duration::from_secs(95) }));
        assert_eq!(due(&age, 0.4, &observed), None);
    }

    #[test]
    fn a_cause_tells_its_memory_in_mebibytes() {
        let cause = Cause::Memory { bytes: 157_286_400, limit: 1 << 20 };
        let words = "it holds 150.0 MiB, more than the 1.0 MiB that `max_memory_restart` allows";
        assert_eq!(cause.to_string(), words);
    }

    #[test]
    fn a_worker_that_grows_towards_its_limit_is_looked_at_sooner() {
        let sample =
            |ms: u64, bytes: u64| MemorySample { at: Time::from_start(Duration::from_millis(ms)), bytes };
        let after = |before, now| look_again_after(1_000, before, now);
        assert_eq!(after(sample(0, 500), sample(1_000, 500)), LOOK_EVERY, "it does not grow");
        assert_eq!(after(sample(0, 500), sample(1_000, 400)), LOOK_EVERY, "it shrinks");
        assert_eq!(after(sample(0, 100), sample(1_000, 200)), LOOK_EVERY, "8 s are left");
        assert_eq!(after(sample(0, 0), sample(1_000, 500)), Duration::from_millis(500));
        assert_eq!(after(sample(0, 0), sample(100, 500)), LOOK_SOONEST);
        assert_eq!(after(sample(0, 0), sample(0, 500)), LOOK_EVERY, "no time has passed");
        assert_eq!(after(sample(0, 0), sample(1_000, 1_001)), LOOK_EVERY, "it is due already");
        // 400 MB per second towards 150 MB: it is noticed before it has twice the limit.
        let (limit, rate) = (150.0_f64, 400.0);
        let bytes = |ms: u64| (rate * ms as f64 / 1_000.0) as u64;
        let (mut before, mut at) = (sample(0, 0), 100);
        while bytes(at) as f64 <= limit {
            let now = sample(at, bytes(at));
            at += look_again_after(limit as u64, before, now).as_millis() as u64;
            before = now;
        }
        assert!((bytes(at) as f64) < 1.3 * limit, "seen at {} of {limit}", bytes(at));
    }

    #[test]
    fn what_is_not_known_is_no_cause() {
        let all = Renewal { max_memory_bytes: Some(1), max_requests: Some(1), max_age: None, cron: None };
        assert_eq!(due(&all, 0.5, &Observed { age: Duration::from_secs(9), ..Observed::default() }), None);
    }

    #[test]
    fn a_worker_that_grows_at_once_is_not_renewed_without_end() {
        let mut pause = Pause::default();
        let mut now = at(0);
        let mut renewals = 0;
        while now < at(3600) {
            if pause.is_over(now) {
                pause.on_renewal(now, Duration::from_secs(2), TOO_SOON);
                renewals += 1;
            }
            now = now + Duration::from_secs(1);
        }
        assert!((8..=14).contains(&renewals), "{renewals} in an hour");
        pause.on_renewal(at(5000), TOO_SOON, TOO_SOON);
        assert!(pause.is_over(at(5000)), "one that lived long is renewed at once the next time");
    }

    #[test]
    fn a_worker_whose_successors_fail_is_not_renewed_without_end_however_old_it_is() {
        let mut pause = Pause::default();
        let (began, mut now) = (at(0), at(100));
        let mut renewals = 0;
        while now < at(3700) {
            if pause.is_over(now) {
                pause.on_renewal(now, now.since(began), TOO_SOON);
                now = now + Duration::from_secs(2);
                pause.on_failure(now);
                renewals += 1;
            }
            now = now + Duration::from_secs(1);
        }
        assert!((8..=14).contains(&renewals), "{renewals} in an hour");
        pause.on_renewal(at(9000), TOO_SOON, TOO_SOON);
        assert!(pause.is_over(at(9000)), "the worker that goes began after the last failure");
    }

    #[test]
    fn a_fresh_worker_that_fails_makes_the_pause_longer() {
        let mut pause = Pause::default();
        pause.on_renewal(at(100), Duration::from_secs(3600), TOO_SOON);
        pause.on_failure(at(101));
        assert!(!pause.is_over(at(105)));
        assert!(pause.is_over(at(106)));
        pause.on_failure(at(110));
        assert!(!pause.is_over(at(119)));
    }

    #[test]
    fn a_plan_replaces_a_worker_that_grows_as_often_as_it_gives_memory_back() {
        let own = |bytes| OwnMemory { bytes, limit: 100 };
        let observed = |bytes| Observed { own_memory: Some(own(bytes)), ..Observed::default() };
        assert_eq!(due(&Renewal::default(), 0.5, &observed(100)), None);
        let cause = due(&Renewal::default(), 0.5, &observed(101)).unwrap();
        assert_eq!(cause, Cause::OwnMemory(own(101)));
        assert_eq!(cause.too_soon(Some(75)), TOO_SOON_PLANNED);
        assert_eq!(cause.too_soon(Some(76)), Duration::MAX, "a fresh worker would soon have as much");
        assert_eq!(cause.too_soon(None), Duration::MAX);
        assert!(cause.urgency() > Cause::Requests { served: 5 }.urgency());
        assert!(Cause::OwnMemory(own(120)).urgency() > cause.urgency());
        let mut pause = Pause::default();
        pause.on_renewal(at(100), Duration::from_secs(6), TOO_SOON_PLANNED);
        assert!(pause.is_over(at(100)));
        pause.on_renewal(at(103), Duration::from_secs(3), TOO_SOON_PLANNED);
        assert!(!pause.is_over(at(104)), "it grows faster than workers can be replaced");
    }
}
