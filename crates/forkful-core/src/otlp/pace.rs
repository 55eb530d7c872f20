//! When the metrics of an app are sent: one export at a time, at its interval.

use std::time::Duration;

use super::Fault;
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
    /// Why the last export failed, if it did.
    fault: Option<String>,
}

impl Pace {
    /// The app sends its metrics at this interval; `None`: it does not.
    pub fn follow(&mut self, interval: Option<Duration>, now: Time) {
        if interval.is_none() {
            self.fault = None;
        }
        self.next = interval.map(|interval| {
            let first = now + interval;
            self.next.map_or(first, |next| next.min(first))
        });
    }

    /// Whether an export begins now. While one is under way, the next one is left out: counters are sums, so nothing is lost.
    pub fn begin(&mut self, interval: Duration, now: Time) -> bool {
        if self.next.is_none_or(|next| next > now) {
            return false;
        }
        self.next = Some(now + interval);
        !std::mem::replace(&mut self.is_under_way, true)
    }

    /// An export has ended. The first failure is noted, and the first success after it. When the receiver has asked for a pause, the
    /// next export follows after the pause.
    pub fn ended(&mut self, outcome: Result<(), Fault>, now: Time) -> Option<Note> {
        self.is_under_way = false;
        let failed = self.fault.is_some();
        match outcome {
            Ok(()) => {
                self.fault = None;
                failed.then_some(Note::Works)
            }
            Err(Fault { why, retry_after }) => {
                if let Some(pause) = retry_after {
                    self.next = self.next.map(|next| next.max(now + pause));
                }
                self.fault = Some(why.clone());
                (!failed).then_some(Note::Fails(why))
            }
        }
    }

    /// Why the last export failed, if it did.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    pub fn next_wake(&self) -> Option<Time> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Time {
        Time::default() + Duration::from_secs(seconds)
    }

    #[test]
    fn one_export_at_a_time_at_its_interval() {
        let mut pace = Pace::default();
        assert!(!pace.begin(SECOND, at(9)) && pace.next_wake().is_none());
        pace.follow(Some(10 * SECOND), at(0));
        assert_eq!(pace.next_wake(), Some(at(10)));
        assert!(!pace.begin(10 * SECOND, at(9)) && pace.begin(10 * SECOND, at(10)));
        assert!(!pace.begin(10 * SECOND, at(20)), "the last one has not ended");
        assert_eq!(pace.ended(Ok(()), at(0)), None);
        assert!(!pace.begin(10 * SECOND, at(29)) && pace.begin(10 * SECOND, at(30)));
        pace.follow(Some(SECOND), at(31));
        assert_eq!(pace.next_wake(), Some(at(32)), "a shorter interval holds at once");
        pace.follow(None, at(31));
        assert_eq!(pace.next_wake(), None);
    }

    #[test]
    fn a_failure_and_its_end_are_told_once() {
        let mut pace = Pace::default();
        let failed = || Err(Fault::from("no".to_owned()));
        assert_eq!(pace.ended(failed(), at(0)), Some(Note::Fails("no".to_owned())));
        assert_eq!(pace.ended(failed(), at(0)), None);
        assert_eq!(pace.fault(), Some("no"));
        assert_eq!(pace.ended(Ok(()), at(0)), Some(Note::Works));
        assert_eq!(pace.fault(), None);
        assert_eq!(pace.ended(Ok(()), at(0)), None);
    }

    #[test]
    fn a_receiver_that_asks_for_a_pause_gets_it() {
        let mut pace = Pace::default();
        pace.follow(Some(10 * SECOND), at(0));
        assert!(pace.begin(10 * SECOND, at(10)));
        let busy = |seconds| Err(Fault { why: "429".to_owned(), retry_after: Some(seconds * SECOND) });
        pace.ended(busy(60), at(11));
        assert_eq!(pace.next_wake(), Some(at(71)));
        assert!(!pace.begin(10 * SECOND, at(70)) && pace.begin(10 * SECOND, at(71)));
        pace.ended(busy(1), at(72));
        assert_eq!(pace.next_wake(), Some(at(81)), "the interval is longer");
    }
}
