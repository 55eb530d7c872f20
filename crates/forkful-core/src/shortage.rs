//! Starts that fail because the daemon itself lacks descriptors or memory. That is no fault of the app: they are tried again, for a
//! while.

use std::time::Duration;

use crate::Time;

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(500);
/// After so long without a single start, starts fail.
const LONGEST: Duration = Duration::from_secs(30);

/// The time in which starts fail because the daemon lacks descriptors or memory.
#[derive(Debug, Default)]
pub struct Shortage {
    since: Option<Time>,
}

/// A start is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Again {
    pub at: Time,
    /// The shortage has begun with this failure.
    pub is_first: bool,
}

impl Shortage {
    /// A start has failed because the daemon lacks descriptors or memory. `None` if starts have failed for too long: then this start is
    /// not tried again.
    pub fn on_lack(&mut self, now: Time) -> Option<Again> {
        let since = *self.since.get_or_insert(now);
        if now.since(since) < LONGEST {
            return Some(Again { at: now + PAUSE, is_first: since == now });
        }
        self.since = None;
        None
    }

    /// A process was started, or a start has failed for another reason.
    pub fn end(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_start(Duration::from_millis(ms))
    }

    #[test]
    fn starts_are_tried_again_for_half_a_minute() {
        let mut shortage = Shortage::default();
        let tries: Vec<_> = (0..).map_while(|number| shortage.on_lack(at(number * 500))).collect();
        assert_eq!(tries.len(), 60);
        assert_eq!(tries[0], Again { at: at(500), is_first: true });
        assert_eq!(tries[1], Again { at: at(1_000), is_first: false });
        assert!(
            shortage.on_lack(at(30_500)).is_some_and(|again| again.is_first),
            "the next one has its own time"
        );
    }

    #[test]
    fn a_start_that_succeeds_ends_it() {
        let mut shortage = Shortage::default();
        assert!(shortage.on_lack(at(0)).is_some());
        shortage.end();
        assert_eq!(shortage.on_lack(at(40_000)), Some(Again { at: at(40_500), is_first: true }));
    }
}
