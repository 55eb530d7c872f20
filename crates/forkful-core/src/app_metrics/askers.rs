//! The workers of an app that want its merged metrics (`metrics: "merge"`): a scrape of the app's own route. They are answered when
//! all workers have said what they have, or have had their time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::collection::ANSWER_PATIENCE;
use crate::Time;

/// Between two rounds of questions to the workers of an app: a worker that asks again and again does not keep the daemon busy.
const ROUND_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy)]
struct Asker {
    /// Its own number for what it asks.
    question: u64,
    /// When its round began, or begins.
    round: Time,
    has_begun: bool,
}

/// See the module's documentation. Workers are known by the daemon's numbers; each has one question.
#[derive(Debug, Clone, Default)]
pub struct Askers {
    waiting: BTreeMap<u32, Asker>,
    last_round: Option<Time>,
}

impl Askers {
    /// A worker asks. What it asked before is not answered any more, unless it is the same question.
    pub fn note(&mut self, worker: u32, question: u64, now: Time) {
        if self.waiting.get(&worker).is_some_and(|asker| asker.question == question) {
            return;
        }
        let round = self.last_round.map_or(now, |last| now.max(last + ROUND_PAUSE));
        self.waiting.insert(worker, Asker { question, round, has_begun: false });
    }

    /// Whether the workers are to be asked now. That answers all who asked before.
    pub fn begin(&mut self, now: Time) -> bool {
        let mut asked = self.waiting.values_mut().filter(|asker| !asker.has_begun);
        if !asked.any(|asker| asker.round <= now) {
            return false;
        }
        for asker in self.waiting.values_mut().filter(|asker| !asker.has_begun) {
            (asker.round, asker.has_begun) = (now, true);
        }
        self.last_round = Some(now);
        true
    }

    /// Takes those that need not wait any longer, each with its question.
    pub fn take_done(&mut self, is_awaited: bool, now: Time) -> Vec<(u32, u64)> {
        let mut done = Vec::new();
        self.waiting.retain(|worker, asker| {
            let is_done = asker.has_begun && (!is_awaited || now.since(asker.round) >= ANSWER_PATIENCE);
            if is_done {
                done.push((*worker, asker.question));
            }
            !is_done
        });
        done
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// When something is due at the latest.
    pub fn next_wake(&self) -> Option<Time> {
        let wakes = self.waiting.values();
        let wake = |asker: &Asker| if asker.has_begun { asker.round + ANSWER_PATIENCE } else { asker.round };
        wakes.map(wake).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::default() + Duration::from_millis(ms)
    }

    #[test]
    fn a_round_answers_all_who_asked_before_it() {
        let mut askers = Askers::default();
        assert!(!askers.begin(at(0)) && askers.is_empty() && askers.next_wake().is_none());
        askers.note(1, 7, at(0));
        askers.note(2, 1, at(0));
        assert_eq!(askers.take_done(false, at(0)), [], "nobody was asked yet");
        assert!(askers.begin(at(0)) && !askers.begin(at(0)));
        assert_eq!((askers.take_done(true, at(999)), askers.next_wake()), (vec![], Some(at(1000))));
        askers.note(1, 7, at(999));
        assert_eq!(askers.take_done(false, at(999)), [(1, 7), (2, 1)]);
        assert!(askers.is_empty());
    }

    #[test]
    fn a_worker_that_does_not_answer_is_not_waited_for() {
        let mut askers = Askers::default();
        askers.note(1, 1, at(0));
        askers.begin(at(0));
        assert_eq!(askers.take_done(true, at(1000)), [(1, 1)]);
    }

    #[test]
    fn rounds_have_a_pause_and_a_question_replaces_the_one_before() {
        let mut askers = Askers::default();
        askers.note(1, 1, at(0));
        assert!(askers.begin(at(0)));
        askers.note(1, 2, at(10));
        assert!(!askers.begin(at(99)) && askers.take_done(false, at(99)).is_empty());
        assert_eq!(askers.next_wake(), Some(at(100)));
        assert!(askers.begin(at(100)));
        assert_eq!(askers.take_done(false, at(100)), [(1, 2)]);
        askers.note(1, 3, at(500));
        assert!(askers.begin(at(500)), "a pause that is over holds nobody");
    }
}
