//! For how long the daemon waits for what is left of a worker's tree, after it was killed.

use std::time::Duration;

/// A process that survives SIGKILL for this long waits in the kernel and is left alone.
pub const TREE_WAIT_MAX: Duration = Duration::from_secs(2);
/// The same while a killed process has a core or waits for one: on a machine whose cores are all in use, even the end of a process takes
/// time.
pub const RUNNABLE_WAIT_MAX: Duration = Duration::from_secs(60);

/// Whether to wait on. `since`: time since the end of the worker; `is_runnable`: whether one of the killed processes has a core or waits
/// for one, which is asked only when it matters.
pub fn waits_for_rest(since: Duration, is_runnable: impl FnOnce() -> bool) -> bool {
    since < TREE_WAIT_MAX || since < RUNNABLE_WAIT_MAX && is_runnable()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_still_end_is_waited_for_longer() {
        for (seconds, is_runnable, waits) in
            [(1, false, true), (2, false, false), (2, true, true), (59, true, true), (60, true, false)]
        {
            assert_eq!(waits_for_rest(Duration::from_secs(seconds), || is_runnable), waits, "{seconds} s");
        }
    }

    #[test]
    fn nobody_is_looked_at_before_it_matters() {
        assert!(waits_for_rest(Duration::ZERO, || panic!("it was asked")));
        assert!(!waits_for_rest(RUNNABLE_WAIT_MAX, || panic!("it was asked")));
    }
}
