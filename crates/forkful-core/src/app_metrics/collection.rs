//! The reports of an app's workers: which worker is asked and waited for, what is known of it when it does not answer, and the
//! counters of workers that have ended, so that no sum falls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::merge::merge_within;
use super::report::AppReport;
use crate::Time;

/// A worker that does not answer for so long is not waited for: its last report counts. Scrapers wait for 10 s.
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(1);
/// An answer may get lost: a worker that owes one for so long is asked again, each time after twice as long.
const ASK_AGAIN: Duration = Duration::from_secs(30);
/// How often the pause is doubled: to an hour, about.
const DOUBLINGS_MAX: u32 = 7;
/// The longest text that is written down of an app: all apps share one state, which is written at each change of an app. Workers whose
/// counts have no room are left out: counters fall when such a worker ends while there is no daemon.
const WRITTEN_BYTES_MAX: usize = 256 * 1024;
/// The most of it for what ended workers had counted: about 1,000 to 2,000 series. Of more, some are left out, and fall when the daemon dies.
const ENDED_WRITTEN_BYTES_MAX: usize = 192 * 1024;
/// What ended workers had counted takes no more than this, whatever labels they had. Series that come later are left out.
const ENDED_BYTES_MAX: usize = 1024 * 1024;
/// How many answers of one worker may be in reading at a time: the answer to the last question, a late answer to an earlier question, and
/// the report that a worker sends unasked before it ends.
const READING_MAX: u8 = 3;

/// What a worker has said to the question for its metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Said {
    /// It was never asked, or has its first time to answer.
    #[default]
    NotYet,
    /// Its agent did not answer: it is of an older version.
    Nothing,
    /// It answers.
    Something,
}

/// What a worker has answered. It is made where the answer is read, away from the loop: each copy and each text of a long report takes
/// some milliseconds.
#[derive(Debug, Clone)]
pub struct Answer {
    report: Arc<AppReport>,
    /// What of it stays when the worker ends, as it is written down; empty when there is nothing, or more than there ever is room for.
    counters: Arc<str>,
}

impl From<AppReport> for Answer {
    fn from(report: AppReport) -> Self {
        let counters = report.counters();
        let text = if counters.families.is_empty() { String::new() } else { text_of(&counters) };
        let text = if text.len() > WRITTEN_BYTES_MAX { String::new() } else { text };
        Self { report: Arc::new(report), counters: text.into() }
    }
}

#[derive(Debug, Clone, Default)]
struct Known {
    said: Said,
    /// Since when it owes an answer.
    asked: Option<Time>,
    /// How often it was asked again since its last answer.
    asked_again: u32,
    /// Answers that may come beside the one to the last question.
    late: u32,
    /// Answers that are being read. Reading takes some time, and is done elsewhere.
    reading: u8,
    /// It has ended while an answer of it was being read.
    has_ended: bool,
    last: Option<Answer>,
    /// Its last answer could not be read: `last` is an older one.
    is_unreadable: bool,
    /// It has said something without being asked, which an agent does once, before its worker ends.
    has_parted: bool,
}

impl Known {
    fn note_answer(&mut self, said: Said) {
        (self.said, self.asked, self.asked_again) = (said, None, 0);
        self.is_unreadable = false;
    }
}

/// See the module's documentation. Workers are known by the daemon's numbers.
#[derive(Debug, Clone, Default)]
pub struct Collection {
    workers: BTreeMap<u32, Known>,
    ended: Arc<AppReport>,
    /// The same as a text, within its bound; `None` when it has changed since it was written down.
    ended_text: Option<Arc<str>>,
    /// As it was written down last.
    written: String,
}

/// What another daemon needs.
#[derive(Serialize, Deserialize)]
struct Written {
    ended: Arc<str>,
    workers: BTreeMap<u32, Arc<str>>,
}

impl Collection {
    /// Whether this worker is to be asked now: it has answered the last question, or was never asked, or its answer is long overdue.
    pub fn ask(&mut self, worker: u32, now: Time) -> bool {
        let known = self.workers.entry(worker).or_default();
        let Some(since) = known.asked else {
            known.asked = Some(now);
            return true;
        };
        let silent_for = now.since(since);
        if known.said == Said::NotYet && silent_for >= ANSWER_PATIENCE {
            known.said = Said::Nothing;
        }
        let is_lost = silent_for >= ASK_AGAIN * (1 << known.asked_again.min(DOUBLINGS_MAX));
        if !is_lost || known.reading > 0 {
            return false;
        }
        // Nobody waits for it before it has answered once more.
        known.said = Said::Nothing;
        known.asked = Some(now);
        known.asked_again = known.asked_again.saturating_add(1);
        known.late = known.late.saturating_add(1);
        true
    }

    /// Whether a worker that is told to leave is to be asked: its agent says its last word only after a first question, and somebody
    /// scrapes this app.
    pub fn ask_leaving(&mut self, worker: u32, now: Time) -> bool {
        let is_scraped = !self.workers.is_empty() || !self.ended.families.is_empty();
        is_scraped && !self.workers.contains_key(&worker) && self.ask(worker, now)
    }

    /// Whether an answer of this worker is to be read: it was asked, or may be ending. Reading takes time, and anybody can write.
    pub fn expects(&mut self, worker: u32) -> bool {
        let Some(known) = self.workers.get_mut(&worker) else { return false };
        if known.reading >= READING_MAX {
            return false;
        }
        if known.asked.is_some() && known.reading == 0 {
            return true;
        }
        if known.late > 0 {
            known.late -= 1;
            return true;
        }
        !std::mem::replace(&mut known.has_parted, true)
    }

    /// An answer is being read; [`Self::answered`] follows, even when the worker has ended meanwhile.
    pub fn reads(&mut self, worker: u32) {
        let known = self.workers.entry(worker).or_default();
        known.reading = known.reading.saturating_add(1);
    }

    /// What a worker has answered was read; with `None` it made no sense. Says whether more is known now of ended workers.
    pub fn answered(&mut self, worker: u32, answer: Option<Answer>) -> bool {
        let Some(known) = self.workers.get_mut(&worker) else { return false };
        known.reading = known.reading.saturating_sub(1);
        known.note_answer(Said::Something);
        known.is_unreadable = answer.is_none();
        known.last = answer.or(known.last.take());
        let has_ended = known.has_ended && known.reading == 0;
        if has_ended {
            self.ended(worker);
        }
        has_ended
    }

    /// A worker could not say what its metrics are now.
    pub fn failed(&mut self, worker: u32) {
        let known = self.workers.entry(worker).or_default();
        known.note_answer(Said::Something);
        known.is_unreadable = true;
    }

    /// A worker has answered that it has no prom-client.
    pub fn has_none(&mut self, worker: u32) {
        self.workers.entry(worker).or_default().note_answer(Said::Something);
    }

    /// Whether a worker still has time to answer, or an answer is being read.
    pub fn is_awaited(&self, now: Time) -> bool {
        self.workers.values().any(|known| {
            let is_expected = matches!(known.said, Said::NotYet | Said::Something);
            let is_due = known.asked.is_some_and(|since| now.since(since) < ANSWER_PATIENCE);
            (is_expected && is_due) || known.reading > 0
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
        if let Some(known) = self.workers.get_mut(&worker).filter(|known| known.reading > 0) {
            // What is being read is its last word.
            known.has_ended = true;
            return;
        }
        let Some(last) = self.workers.remove(&worker).and_then(|known| known.last) else { return };
        let counters = last.report.counters();
        if !counters.families.is_empty() {
            let left_out_before = self.ended.left_out;
            let mut ended = merge_within([&*self.ended, &counters], ENDED_BYTES_MAX);
            // Each worker has the same series, as a rule.
            ended.left_out = left_out_before.max(ended.left_out - left_out_before);
            self.have_ended(ended);
        }
    }

    fn have_ended(&mut self, ended: AppReport) {
        (self.ended, self.ended_text) = (Arc::new(ended), None);
    }

    /// The last report of each worker, what ended ones had counted, and a report of nothing for each answer that could not be read.
    pub fn reports(&self) -> Vec<Arc<AppReport>> {
        let living = self.workers.values().filter_map(|known| Some(Arc::clone(&known.last.as_ref()?.report)));
        let ended = Some(&self.ended).filter(|ended| !ended.families.is_empty()).cloned();
        let is_unreadable = self.workers.values().any(|known| known.is_unreadable);
        let unreadable = is_unreadable.then(|| Arc::new(AppReport::unreadable()));
        living.chain(ended).chain(unreadable).collect()
    }

    /// Writes down what has been counted; see [`Self::written`].
    pub fn write_down(&mut self) {
        self.written = self.in_short().unwrap_or_default();
    }

    /// `None` when there is nothing. What ended workers had counted comes first: living ones can be asked again.
    fn in_short(&mut self) -> Option<String> {
        let ended = &self.ended;
        let text = self.ended_text.get_or_insert_with(|| text_within(ended, ENDED_WRITTEN_BYTES_MAX).into());
        let ended = Arc::clone(text);
        let mut room = WRITTEN_BYTES_MAX.saturating_sub(ended.len());
        let mut workers = BTreeMap::new();
        for (worker, known) in &self.workers {
            let Some(Answer { counters, .. }) = &known.last else { continue };
            if !counters.is_empty() && counters.len() <= room {
                room -= counters.len();
                workers.insert(*worker, Arc::clone(counters));
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
        collection.have_ended(AppReport::read(&ended).unwrap_or_default());
        for (worker, text) in workers {
            let last = AppReport::read(&text).map(Answer::from);
            collection.workers.insert(worker, Known { last, ..Known::default() });
            if !is_there(worker) {
                collection.ended(worker);
            }
        }
        collection.write_down();
        collection
    }
}

/// A report as a text of at most this number of bytes: with as many of its first series as have room.
fn text_within(report: &AppReport, bytes_max: usize) -> String {
    let (mut text, mut bytes) = (text_of(report), report.bytes());
    while text.len() > bytes_max {
        // A little less than in proportion, so that it ends soon.
        bytes = bytes.saturating_mul(bytes_max) / text.len() / 32 * 31;
        text = text_of(&merge_within([report], bytes));
    }
    text
}

fn text_of(report: &AppReport) -> String {
    #[cfg(test)]
    tests::TEXTS.set(tests::TEXTS.get() + 1);
    report.write()
}

#[cfg(test)]
mod tests {
    use super::super::merge::merge;
    use super::*;

    thread_local! {
        /// How many texts were made of reports.
        pub(super) static TEXTS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

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

    fn answer(collection: &mut Collection, worker: u32, report: Option<AppReport>) {
        collection.reads(worker);
        collection.answered(worker, report.map(Answer::from));
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
        answer(&mut collection, 1, Some(hits(1)));
        assert!(collection.ask(1, at(3000)) && collection.is_awaited(at(3000)));
        answer(&mut collection, 1, None);
        assert_eq!(sums(&collection), [Some(1.0), Some(1.0)], "the last known report counts");
        assert!(collection.expects(1) && !collection.expects(1), "unasked, it may say its last word");
        assert!(!collection.expects(7));
        collection.ask(3, at(4000));
        assert!(collection.expects(3) && collection.expects(3) && collection.is_awaited(at(4000)));
        collection.gone(3);
        assert!(!collection.is_awaited(at(4000)));
        collection.has_none(2);
        assert!(
            collection.ask(2, at(4000)) && collection.is_awaited(at(4999)),
            "it says what its process holds"
        );
        assert!(!collection.is_awaited(at(5000)) && !collection.ask(2, at(6000)));
    }

    #[test]
    fn a_worker_that_leaves_is_asked_if_it_never_was_and_the_app_is_scraped() {
        let mut collection = Collection::default();
        assert!(!collection.ask_leaving(1, at(0)), "nobody scrapes this app");
        assert!(collection.ask(1, at(0)));
        answer(&mut collection, 1, Some(hits(1)));
        assert!(!collection.ask_leaving(1, at(1)), "it says its last word by itself");
        assert!(collection.ask_leaving(2, at(1)) && collection.is_awaited(at(1)));
        // Its answer is being read when its last word comes.
        assert!(collection.expects(2));
        collection.reads(2);
        assert!(collection.expects(2) && !collection.expects(2));
        collection.reads(2);
        collection.ended(2);
        collection.answered(2, Some(hits(3).into()));
        collection.answered(2, Some(hits(4).into()));
        assert_eq!(sums(&collection), [Some(5.0), Some(1.0)]);
    }

    #[test]
    fn counters_of_ended_workers_stay_and_gauges_do_not() {
        let mut collection = Collection::default();
        for worker in 1..=4 {
            answer(&mut collection, worker, Some(hits(worker)));
        }
        assert_eq!(sums(&collection), [Some(10.0), Some(10.0)]);
        collection.ended(4);
        collection.ended(1);
        collection.ended(9);
        assert_eq!(sums(&collection), [Some(10.0), Some(5.0)]);
        answer(&mut collection, 5, Some(hits(0)));
        assert_eq!(sums(&collection), [Some(10.0), Some(5.0)]);
    }

    #[test]
    fn another_daemon_goes_on_with_all_counters() {
        let mut collection = Collection::default();
        for worker in 1..=3 {
            answer(&mut collection, worker, Some(hits(worker)));
        }
        collection.ended(1);
        collection.write_down();
        let next = Collection::resume(collection.written(), |worker| worker == 3);
        assert_eq!(sums(&next), [Some(6.0), None]);
        let mut next = Collection::resume(next.written(), |worker| worker == 3);
        answer(&mut next, 3, Some(hits(5)));
        assert_eq!(sums(&next), [Some(8.0), Some(5.0)]);
        for nonsense in ["", "{}", "7", r#"{"ended":"x","workers":{"1":"y"}}"#] {
            assert_eq!(sums(&Collection::resume(nonsense, |_| true)), [None, None], "{nonsense}");
        }
    }

    /// A counter with this number of series.
    fn series(name: &str, count: usize, label_bytes: usize) -> AppReport {
        let label = "x".repeat(label_bytes);
        let samples: Vec<_> =
            (0..count).map(|n| format!(r#"{{"value":1,"labels":{{"a":"{label}{n}"}}}}"#)).collect();
        let samples = samples.join(",");
        AppReport::read(&format!(r#"[{{"name":"{name}","type":"counter","values":[{samples}]}}]"#)).unwrap()
    }

    /// The sum of all series of `hits`, and their number.
    fn all_hits(collection: &Collection) -> (f64, usize) {
        let reports = collection.reports();
        let merged = merge(reports.iter().map(AsRef::as_ref));
        let samples = merged.families.first().map(|family| family.samples.clone()).unwrap_or_default();
        (samples.iter().map(|sample| sample.value).sum(), samples.len())
    }

    #[test]
    fn sums_of_many_series_do_not_fall_when_a_daemon_dies() {
        let mut collection = Collection::default();
        for worker in 1..=4 {
            answer(&mut collection, worker, Some(series("hits", 560, 40)));
            if worker > 2 {
                collection.ended(worker);
            }
        }
        assert_eq!(all_hits(&collection), (2240.0, 560));
        collection.write_down();
        let next = Collection::resume(collection.written(), |_| true);
        assert_eq!(all_hits(&next), (2240.0, 560));
        // Living workers with more than there is room for change nothing about that.
        for worker in 5..=9 {
            answer(&mut collection, worker, Some(series("hits", 560, 400)));
        }
        collection.write_down();
        assert!(collection.written().len() < WRITTEN_BYTES_MAX * 3 / 2, "{}", collection.written().len());
        let next = Collection::resume(collection.written(), |_| true);
        assert_eq!(all_hits(&next), (2240.0, 560));
    }

    #[test]
    fn of_very_many_series_of_ended_workers_as_many_are_written_down_as_have_room() {
        let mut collection = Collection::default();
        answer(&mut collection, 1, Some(series("hits", 900, 300)));
        collection.ended(1);
        collection.write_down();
        let (sum, count) = all_hits(&Collection::resume(collection.written(), |_| true));
        assert!(sum > 500.0 && count < 900, "{sum} of 900");
        assert!(collection.ended_text.unwrap().len() <= ENDED_WRITTEN_BYTES_MAX);
    }

    /// A histogram with this number of label sets, each of 12 samples.
    fn histogram(label_sets: usize) -> AppReport {
        let samples = (0..label_sets).map(|n| {
            let bounds = ["0.1", "0.2", "0.5", "1", "2", "3", "4", "5", "10", "+Inf"];
            let buckets = bounds.map(|bound| {
                format!(
                    r#"{{"metricName":"took_bucket","value":1,"labels":{{"le":"{bound}","path":"/{n}"}}}}"#
                )
            });
            let rest = ["sum", "count"].map(|part| {
                format!(r#"{{"metricName":"took_{part}","value":1,"labels":{{"path":"/{n}"}}}}"#)
            });
            [buckets.join(","), rest.join(",")].join(",")
        });
        let samples = samples.collect::<Vec<_>>().join(",");
        AppReport::read(&format!(r#"[{{"name":"took","type":"histogram","values":[{samples}]}}]"#)).unwrap()
    }

    #[test]
    fn histograms_of_ended_workers_are_written_down_whole_or_not_at_all() {
        let most = ENDED_WRITTEN_BYTES_MAX;
        let one = text_of(&histogram(100)).len() / 100;
        for label_sets in [most / one - 20, most / one + 1, 500] {
            let mut collection = Collection::default();
            answer(&mut collection, 1, Some(histogram(label_sets)));
            collection.ended(1);
            collection.write_down();
            let text = collection.ended_text.clone().unwrap();
            assert!(text.len() <= most && text.len() > most * 4 / 5, "{} for {label_sets}", text.len());
            let next = Collection::resume(collection.written(), |_| true);
            let samples = &next.reports()[0].families[0].samples;
            let infinite = samples.iter().filter(|sample| sample.point.as_deref() == Some("+Inf")).count();
            assert_eq!(samples.len(), infinite * 12, "{label_sets}");
        }
    }

    #[test]
    fn a_report_is_made_a_text_once_and_what_ended_workers_have_counted_once_for_each_end() {
        let mut collection = Collection::default();
        for worker in 0..64 {
            answer(&mut collection, worker, Some(series("hits", 500, 300)));
        }
        let made = || TEXTS.replace(0);
        assert_eq!(made(), 64, "where they are read");
        collection.write_down();
        made();
        collection.write_down();
        assert_eq!(made(), 0, "nothing has changed");
        (0..4).for_each(|worker| collection.ended(worker));
        assert_eq!(made(), 0);
        collection.write_down();
        assert_eq!(made(), 1);
    }

    #[test]
    fn a_worker_whose_answer_was_lost_is_asked_again_and_not_waited_for() {
        let mut collection = Collection::default();
        collection.ask(1, at(0));
        answer(&mut collection, 1, Some(hits(1)));
        assert!(collection.ask(1, at(1000)) && !collection.ask(1, at(30_999)));
        assert!(collection.ask(1, at(31_000)) && !collection.is_awaited(at(31_000)));
        assert!(!collection.ask(1, at(90_999)), "each time after twice as long");
        assert!(collection.ask(1, at(91_000)));
        // It was stuck, and answers all three questions; its last word counts as well.
        for _ in 0..3 {
            assert!(collection.expects(1));
            answer(&mut collection, 1, Some(hits(2)));
        }
        assert!(collection.expects(1) && !collection.expects(1));
        assert!(collection.ask(1, at(92_000)) && collection.is_awaited(at(92_000)), "it is well again");
    }

    #[test]
    fn what_a_worker_said_last_counts_although_it_is_read_after_its_end() {
        let mut collection = Collection::default();
        collection.ask(1, at(0));
        answer(&mut collection, 1, Some(hits(1)));
        assert!(collection.expects(1));
        collection.reads(1);
        collection.gone(1);
        collection.ended(1);
        assert!(collection.is_awaited(at(0)), "a page waits for what is being read");
        assert_eq!(sums(&collection), [Some(1.0), Some(1.0)]);
        assert!(collection.answered(1, Some(hits(5).into())));
        assert!(!collection.is_awaited(at(0)));
        assert_eq!(sums(&collection), [Some(5.0), None]);
        assert!(!collection.answered(1, Some(hits(7).into())), "it is forgotten");
        assert_eq!(sums(&collection), [Some(5.0), None]);
    }

    #[test]
    fn a_worker_that_does_not_stop_talking_has_few_answers_read_at_a_time() {
        let mut collection = Collection::default();
        collection.ask(1, at(0));
        let read = (0..100).filter(|_| {
            let expects = collection.expects(1);
            if expects {
                collection.reads(1);
            }
            expects
        });
        assert_eq!(read.count(), 2, "its answer and its last word");
    }

    #[test]
    fn an_answer_that_cannot_be_read_shows_in_what_is_left_out() {
        let mut collection = Collection::default();
        let left_out = |collection: &Collection| {
            let reports = collection.reports();
            merge(reports.iter().map(AsRef::as_ref)).left_out
        };
        answer(&mut collection, 1, Some(hits(1)));
        assert_eq!(left_out(&collection), 0);
        answer(&mut collection, 1, None);
        assert_eq!((left_out(&collection), sums(&collection)), (1, [Some(1.0), Some(1.0)]));
        answer(&mut collection, 1, Some(hits(2)));
        assert_eq!(left_out(&collection), 0);
        collection.failed(1);
        assert_eq!((left_out(&collection), sums(&collection)), (1, [Some(2.0), Some(2.0)]));
    }

    #[test]
    fn what_ended_workers_leave_behind_is_bounded_in_bytes() {
        let mut collection = Collection::default();
        let label = "x".repeat(1000);
        for worker in 0..10 {
            let samples: Vec<_> = (0..400)
                .map(|n| format!(r#"{{"value":1,"labels":{{"a":"{label}{worker}.{n}"}}}}"#))
                .collect();
            let text = format!(r#"[{{"name":"hits","type":"counter","values":[{}]}}]"#, samples.join(","));
            answer(&mut collection, worker, Some(AppReport::read(&text).unwrap()));
            collection.ended(worker);
        }
        let kept = collection.ended.bytes();
        assert!((ENDED_BYTES_MAX / 2..=ENDED_BYTES_MAX).contains(&kept), "{kept}");
        assert_eq!(collection.ended.left_out, 400, "of a worker, all of whose series are left out");
    }
}
