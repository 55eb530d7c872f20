//! Which of the killed processes of an app the kernel has killed for lack of memory.
//!
//! The kernel only counts them, and may kill several before the memory of the first is free.

use std::time::Duration;

use crate::Time;

/// A process that the kernel has killed is known to have ended within this time. Otherwise it was one below a worker.
const KNOWN_WITHIN: Duration = Duration::from_secs(2);

/// The kernel's count, and those of it whose end is not known yet.
#[derive(Debug, Default)]
pub struct MemoryKills {
    seen: Option<u64>,
    left: u64,
    until: Time,
}

impl MemoryKills {
    /// The count with which the app begins; later ones change nothing.
    pub fn begin(&mut self, kills: u64) {
        self.seen.get_or_insert(kills);
    }

    /// A process was killed, and this is the count now: whether the process is one of those counted.
    pub fn explain(&mut self, kills: u64, now: Time) -> bool {
        let new = self.seen.replace(kills).map_or(0, |seen| kills.saturating_sub(seen));
        if now > self.until {
            self.left = 0;
        }
        if new > 0 {
            self.until = now + KNOWN_WITHIN;
        }
        self.left += new;
        let is_one = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kill_explains_one_end_and_is_forgotten_after_a_while() {
        let at = |ms| Time::default() + Duration::from_millis(ms);
        let mut kills = MemoryKills::default();
        assert!(!kills.explain(7, at(0)), "those of before are not known");
        kills.begin(0);
        assert!(!kills.explain(7, at(1)));
        assert!(kills.explain(9, at(10)), "two were killed");
        assert!(kills.explain(9, at(90)));
        assert!(!kills.explain(9, at(95)));
        assert!(kills.explain(11, at(200)));
        assert!(!kills.explain(11, at(2201)), "the other one was no worker");
        assert!(kills.explain(12, at(9000)), "nor does it count later");
        assert!(!kills.explain(12, at(9001)));
    }
}
