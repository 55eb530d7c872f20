//! Local time, and the monotonic clock.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since boot, without suspended time (`CLOCK_MONOTONIC`); the same for all processes.
pub fn monotonic() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Lets sleeps of this thread end on time. By default the system may end them 50 µs late; if it cannot be changed, they do.
pub fn sleep_precisely() {
    #[cfg(target_os = "linux")]
    let _late = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// Offset of local time from UTC in seconds, at a time in milliseconds since the Unix epoch; from `TZ` or the
/// system's setting. 0 if unknown.
pub fn utc_offset_seconds(at_ms: u64) -> i32 {
    let Ok(at) = (at_ms / 1000).try_into() else { return 0 };
    // SAFETY: a structure of integers and a pointer, for which zeros are valid.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call. It reads the environment, which nothing in this program changes.
    let known = unsafe { libc::localtime_r(&raw const at, &raw mut local) };
    if known.is_null() { 0 } else { i32::try_from(local.tm_gmtoff).unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use crate::testing::{read_all, start_shell};

    #[test]
    fn agrees_with_date() {
        let at_ms = 1_770_091_506_789;
        let (_child, output) = start_shell("date -d @1770091506 +%z", &[("PATH", "/usr/bin:/bin")]);
        let text = read_all(output);
        let number: i32 = text.trim().parse().unwrap();
        let expected = number / 100 * 3600 + number % 100 * 60;
        assert_eq!(super::utc_offset_seconds(at_ms), expected);
        assert_eq!(super::utc_offset_seconds(u64::MAX), 0);
    }
}
