//! The reports of an app's workers: which worker is asked and waited for, what is known of it when it does not answer, and the
//! counters of workers that have ended, so that no sum falls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::merge::merge;
use super::report::AppReport;
use crate::Time;

/// A worker that does not answer for so long is not waited for: its last report counts. Scrapers wait for 10 s.
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(1);
/// The longest text that is written down of an app. Beyond it, counters may fall when a daemon dies.
const WRITTEN_BYTES_MAX: usize = 256 * 1024;

/// What a worker has said to the question for its metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Said {
    /// It was never asked, or has its first time to answer.
    #[default]
    NotYet,
    /// Its agent did not answer: it is of an older version.
    Nothing,
    /// It has no prom-client.
    HasNone,
    HasSome,
}

#[derive(Debug, Clone, Default)]
struct Known {
    said: Said,
    /// Since when it owes an answer.
    asked: Option<Time>,
    last: Option<Arc<AppReport>>,
    /// It has said something without being asked, which an agent does once, before its worker ends.
    has_parted: bool,
}

/// See the module's documentation. Workers are known by the daemon's numbers.
#[derive(Debug, Clone, Default)]
pub struct Collection {
    workers: BTreeMap<u32, Known>,
    ended: Arc<AppReport>,
    /// As it was written down last.
    written: String,
}

/// What another daemon needs.
#[derive(Serialize, Deserialize)]
struct Written {
    ended: String,
    workers: BTreeMap<u32, String>,
}

impl Collection {
    /// Whether this worker is to be asked now: it has answered the last question, or was never asked.
    pub fn ask(&mut self, worker: u32, now: Time) -> bool {
        let known = self.workers.entry(worker).or_default();
        match known.asked {
            Some(since) => {
                if known.said == Said::NotYet && now.since(since) >= ANSWER_PATIENCE {
                    known.said = Said::Nothing;
                }
                false
            }
            None => {
                known.asked = Some(now);
                true
            }
        }
    }

    /// Whether an answer of this worker is to be read: it was asked, or may be ending. Reading takes time, and anybody can write.
    pub fn expects(&mut self, worker: u32) -> bool {
        let known = self.workers.get_mut(&worker);
        known.is_some_and(|known| known.asked.is_some() || !std::mem::replace(&mut known.has_parted, true))
    }

    /// A worker has answered: with `None` it could not say what its metrics are now.
    pub fn answered(&mut self, worker: u32, report: Option<AppReport>) {
        let known = self.workers.entry(worker).or_default();
        known.asked = None;
        known.said = Said::HasSome;
        if let Some(report) = report {
            known.last = Some(Arc::new(report));
        }
    }

    /// A worker has answered that it has no prom-client.
    pub fn has_none(&mut self, worker: u32) {
        let known = self.workers.entry(worker).or_default();
        (known.said, known.asked) = (Said::HasNone, None);
    }

    /// Whether a worker still has time to answer.
    pub fn is_awaited(&self, now: Time) -> bool {
        self.workers.values().any(|known| {
            let is_expected = matches!(known.said, Said::NotYet | Said::HasSome);
            is_expected && known.asked.is_some_and(|since| now.since(since) < ANSWER_PATIENCE)
        })
    }

    /// A worker has closed its channel, and will not answer any more.
    pub fn gone(&mut self, worker: u32) {
        if let Some(known) = self.workers.get_mut(&worker) {
            (known.said, known.asked) = (Said::Nothing, None);
        }
    }

    /// A worker has ended; what it had counted stays.
    pub fn ended(&mut self, worker: u32) {
        let Some(last) = self.workers.remove(&worker).and_then(|known| known.last) else { return };
        let counters = last.counters();
        if !counters.families.is_empty() {
            self.ended = Arc::new(merge([&*self.ended, &counters]));
        }
    }

    /// The last report of each worker, and what ended ones had counted.
    pub fn reports(&self) -> Vec<Arc<AppReport>> {
        let living = self.workers.values().filter_map(|known| known.last.clone());
        let ended = Some(&self.ended).filter(|ended| !ended.families.is_empty()).cloned();
        living.chain(ended).collect()
    }

    /// Writes down what has been counted; see [`Self::written`].
    pub fn write_down(&mut self) {
        self.written = self.in_short().unwrap_or_default();
    }

    /// `None` when there is nothing, or too much.
    fn in_short(&self) -> Option<String> {
        let ended = self.ended.write();
        let mut room = WRITTEN_BYTES_MAX.checked_sub(ended.len())?;
        let mut workers = BTreeMap::new();
        for (worker, known) in &self.workers {
            let Some(last) = &known.last else { continue };
            let counters = last.counters();
            if !counters.families.is_empty() {
                let text = counters.write();
                room = room.checked_sub(text.len())?;
                workers.insert(*worker, text);
            }
        }
        if workers.is_empty() && self.ended.families.is_empty() {
            return None;
        }
        serde_json::to_string(&Written { ended, workers }).ok()
    }

    /// As it was written down last.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// Goes on from what a daemon before has written down. Workers that are gone since have ended.
    pub fn resume(written: &str, is_there: impl Fn(u32) -> bool) -> Self {
        let mut collection = Self::default();
        let Ok(Written { ended, workers }) = serde_json::from_str(written) else { return collection };
        collection.ended = Arc::new(AppReport::read(&ended).unwrap_or_default());
        for (worker, text) in workers {
            let last = AppReport::read(&text).map(Arc::new);
            collection.workers.insert(worker, Known { last, ..Known::default() });
            if !is_there(worker) {
                collection.ended(worker);
            }
        }
        collection.write_down();
        collection
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(count: u32) -> AppReport {
        let text = format!(
            r#"[{{"name":"hits","type":"counter","values":[{{"value":{count}}}]}},{{"name":"open","type":"gauge","values":[{{"value":{count}}}]}}]"#
        );
        AppReport::read(&text).unwrap()
    }

    /// The merged values of `hits` and `open`.
    fn sums(collection: &Collection) -> [Option<f64>; 2] {
        let reports = collection.reports();
        let merged = merge(reports.iter().map(AsRef::as_ref));
        ["hits", "open"].map(|name| {
            let family = merged.families.iter().find(|family| family.name == name);
            family.and_then(|family| Some(family.samples.first()?.value))
        })
    }

    fn at(ms: u64) -> Time {
        Time::default() + Duration::from_millis(ms)
    }

    #[test]
    fn a_worker_is_waited_for_while_it_may_answer() {
        let mut collection = Collection::default();
        assert!(!collection.is_awaited(at(0)));
        assert!(collection.ask(1, at(0)) && collection.is_awaited(at(999)));
        assert!(!collection.ask(1, at(500)), "it has not answered yet");
        assert!(!collection.is_awaited(at(1000)));
        // An agent of an older version never answers; it is not waited for again.
        assert!(!collection.ask(1, at(2000)) && !collection.is_awaited(at(2000)));
        collection.answered(1, Some(hits(1)));
        assert!(collection.ask(1, at(3000)) && collection.is_awaited(at(3000)));
        collection.answered(1, None);
        assert_eq!(sums(&collection), [Some(1.0), Some(1.0)], "the last known report counts");
        assert!(collection.expects(1) && !collection.expects(1), "unasked, it may say its last word");
        assert!(!collection.expects(7));
        collection.ask(3, at(4000));
        assert!(collection.expects(3) && collection.expects(3) && collection.is_awaited(at(4000)));
        collection.gone(3);
        assert!(!collection.is_awaited(at(4000)));
        collection.has_none(2);
        assert!(collection.ask(2, at(4000)) && !collection.is_awaited(at(4000)));
    }

    #[test]
    fn counters_of_ended_workers_stay_and_gauges_do_not() {
        let mut collection = Collection::default();
        for worker in 1..=4 {
            collection.answered(worker, Some(hits(worker)));
        }
        assert_eq!(sums(&collection), [Some(10.0), Some(10.0)]);
        collection.ended(4);
        collection.ended(1);
        collection.ended(9);
        assert_eq!(sums(&collection), [Some(10.0), Some(5.0)]);
        collection.answered(5, Some(hits(0)));
        assert_eq!(sums(&collection), [Some(10.0), Some(5.0)]);
    }

    #[test]
    fn another_daemon_goes_on_with_all_counters() {
        let mut collection = Collection::default();
        for worker in 1..=3 {
            collection.answered(worker, Some(hits(worker)));
        }
        collection.ended(1);
        collection.write_down();
        let next = Collection::resume(collection.written(), |worker| worker == 3);
        assert_eq!(sums(&next), [Some(6.0), None]);
        let mut next = Collection::resume(next.written(), |worker| worker == 3);
        next.answered(3, Some(hits(5)));
        assert_eq!(sums(&next), [Some(8.0), Some(5.0)]);
        let label = "x".repeat(1000);
        let many: Vec<_> =
            (0..300).map(|n| format!(r#"{{"value":1,"labels":{{"a":"{label}{n}"}}}}"#)).collect();
        let many = format!(r#"[{{"name":"hits","type":"counter","values":[{}]}}]"#, many.join(","));
        next.answered(4, AppReport::read(&many));
        next.write_down();
        assert_eq!(next.written(), "", "too much is not written down");
        for nonsense in ["", "{}", "7", r#"{"ended":"x","workers":{"1":"y"}}"#] {
            assert_eq!(sums(&Collection::resume(nonsense, |_| true)), [None, None], "{nonsense}");
        }
    }
}
