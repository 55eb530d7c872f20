//! Time of a run: nanoseconds since a base that all threads share.

use std::time::{Duration, Instant};

/// Nanoseconds since the run's base. A `u64` holds 584 years.
pub(crate) type Nanos = u64;

/// Later than any moment of a run.
pub(crate) const NEVER: Nanos = u64::MAX;

/// The monotonic clock, read through the vDSO.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    base: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { base: Instant::now() }
    }

    #[inline]
    pub(crate) fn now(self) -> Nanos {
        nanos(self.base.elapsed())
    }
}

/// A duration in nanoseconds, limited to what fits.
#[inline]
pub(crate) fn nanos(duration: Duration) -> Nanos {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(duration.subsec_nanos()))
}
