//! When the metrics of an app are sent: one export at a time, at its interval.

use std::time::Duration;

use super::{Fault, OtlpPolicy};
use crate::Time;

/// What is said of an export that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// It failed, after one that did not.
    Fails(String),
    /// It succeeded, after one that failed.
    Works,
}

/// See the module's documentation.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    next: Option<Time>,
    is_under_way: bool,
    /// The receiver that the rest is about.
    receiver: String,
    /// Until when it has asked for a pause.
    paused_until: Option<Time>,
    /// Why the last export to it failed, if it did.
    fault: Option<String>,
}

impl Pace {
    /// The app sends its metrics so from now on; `None`: it does not.
    pub fn follow(&mut self, otlp: Option<&OtlpPolicy>, now: Time) {
        let Some(otlp) = otlp else {
            (self.next, self.fault) = (None, None);
            return;
        };
        let receiver = otlp.url();
        if self.receiver != receiver {
            (self.receiver, self.paused_until, self.fault) = (receiver, None, None);
        }
        let first = now + otlp.interval;
        self.next = Some(self.next.map_or(first, |next| next.min(first)));
    }

    /// Whether an export begins now. While one is under way, the next one is left out: counters are sums, so nothing is lost.
    pub fn begin(&mut self, interval: Duration, now: Time) -> bool {
        if self.next_wake().is_none_or(|next| next > now) {
            return false;
        }
        self.next = Some(now + interval);
        !std::mem::replace(&mut self.is_under_way, true)
    }

    /// An export to a receiver has ended. The first failure is noted, and the first success after it. When the receiver has asked for a
    /// pause, the next export follows after the pause. What another receiver has said does not matter any more.
    pub fn ended(&mut self, receiver: &str, outcome: Result<(), Fault>, now: Time) -> Option<Note> {
        self.is_under_way = false;
        if self.receiver != receiver {
            return None;
        }
        let failed = self.fault.is_some();
        match outcome {
            Ok(()) => {
                self.fault = None;
                failed.then_some(Note::Works)
            }
            Err(Fault { why, retry_after }) => {
                self.paused_until = retry_after.map(|pause| now + pause);
                self.fault = Some(why.clone());
                (!failed).then_some(Note::Fails(why))
            }
        }
    }

    /// Whether the receiver has asked that nothing be sent now.
    pub fn is_paused(&self, now: Time) -> bool {
        self.paused_until.is_some_and(|until| until > now)
    }

    /// Why the last export failed, if it did.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    pub fn next_wake(&self) -> Option<Time> {
        self.next.map(|next| self.paused_until.map_or(next, |pause| next.max(pause)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Time {
        Time::default() + Duration::from_secs(seconds)
    }

    const HERE: &str = "http://here/v1/metrics";

    fn to(endpoint: &str, seconds: u32) -> OtlpPolicy {
        OtlpPolicy { endpoint: endpoint.to_owned(), interval: seconds * SECOND }
    }

    /// A pace that is told to send to `http://here` at this interval.
    fn each(seconds: u32) -> Pace {
        let mut pace = Pace::default();
        pace.follow(Some(&to("http://here", seconds)), at(0));
        pace
    }

    #[test]
    fn one_export_at_a_time_at_its_interval() {
        let mut pace = Pace::default();
        assert!(!pace.begin(SECOND, at(9)) && pace.next_wake().is_none());
        let mut pace = each(10);
        assert_eq!(pace.next_wake(), Some(at(10)));
        assert!(!pace.begin(10 * SECOND, at(9)) && pace.begin(10 * SECOND, at(10)));
        assert!(!pace.begin(10 * SECOND, at(20)), "the last one has not ended");
        assert_eq!(pace.ended(HERE, Ok(()), at(0)), None);
        assert!(!pace.begin(10 * SECOND, at(29)) && pace.begin(10 * SECOND, at(30)));
        pace.follow(Some(&to("http://here", 1)), at(31));
        assert_eq!(pace.next_wake(), Some(at(32)), "a shorter interval holds at once");
        pace.follow(None, at(31));
        assert_eq!(pace.next_wake(), None);
    }

    #[test]
    fn a_failure_and_its_end_are_told_once() {
        let mut pace = each(10);
        let failed = || Err(Fault::from("no".to_owned()));
        assert_eq!(pace.ended(HERE, failed(), at(0)), Some(Note::Fails("no".to_owned())));
        assert_eq!(pace.ended(HERE, failed(), at(0)), None);
        assert_eq!(pace.fault(), Some("no"));
        assert_eq!(pace.ended(HERE, Ok(()), at(0)), Some(Note::Works));
        assert_eq!(pace.fault(), None);
        assert_eq!(pace.ended(HERE, Ok(()), at(0)), None);
    }

    #[test]
    fn a_receiver_that_asks_for_a_pause_gets_it() {
        let mut pace = each(10);
        assert!(pace.begin(10 * SECOND, at(10)));
        let busy = |seconds| Err(Fault { why: "429".to_owned(), retry_after: Some(seconds * SECOND) });
        pace.ended(HERE, busy(60), at(11));
        assert_eq!(pace.next_wake(), Some(at(71)));
        assert!(!pace.begin(10 * SECOND, at(70)) && pace.begin(10 * SECOND, at(71)));
        pace.ended(HERE, busy(1), at(72));
        assert_eq!(pace.next_wake(), Some(at(81)), "the interval is longer");
    }

    #[test]
    fn a_pause_outlives_changes_of_the_definition_and_ends_with_another_receiver() {
        let mut pace = each(10);
        assert!(pace.begin(10 * SECOND, at(10)));
        let busy = || Err(Fault { why: "429".to_owned(), retry_after: Some(600 * SECOND) });
        pace.ended(HERE, busy(), at(11));
        pace.follow(Some(&to("http://here/", 1)), at(20));
        assert_eq!(pace.next_wake(), Some(at(611)));
        assert!(pace.is_paused(at(610)) && !pace.is_paused(at(611)));
        pace.follow(None, at(21));
        assert_eq!(pace.next_wake(), None);
        pace.follow(Some(&to("http://here", 1)), at(22));
        assert_eq!(pace.next_wake(), Some(at(611)));
        pace.follow(Some(&to("http://there", 10)), at(30));
        assert_eq!(pace.next_wake(), Some(at(23)), "the other receiver has asked for nothing");
    }

    #[test]
    fn a_receiver_is_not_accused_of_what_another_one_has_said() {
        let mut pace = each(10);
        let failed = || Err(Fault { why: "503".to_owned(), retry_after: Some(600 * SECOND) });
        pace.ended(HERE, failed(), at(1));
        assert!(pace.begin(10 * SECOND, at(700)));
        pace.follow(Some(&to("http://there", 10)), at(701));
        assert_eq!(pace.fault(), None);
        assert_eq!(pace.ended(HERE, failed(), at(702)), None);
        assert_eq!((pace.fault(), pace.next_wake()), (None, Some(at(710))));
        assert!(pace.begin(10 * SECOND, at(710)), "the export to the other receiver has ended");
    }
}
