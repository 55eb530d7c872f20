//! Work that takes its time, a little of it in each turn of the loop.
//!
//! The start itself happens on another thread (`starting`); what precedes it (pipes, a channel) and follows it takes
//! the engine a fraction of a millisecond, and a machine has only so many cores for new processes. Signals to whole trees and the clearing of what dead
//! workers leave behind look at `/proc`. A command for hundreds of workers would, done in one turn, keep the
//! connections of all other apps waiting; so such work queues here, and the loop serves whatever is ready
//! between two pieces of it. Apps take turns in starting: a worker that crashed does not wait for another
//! app's hundreds.
//!
//! **Bound:** a few entries for each process that a slot holds (the core's contract: every spawn is followed
//! by exactly one exit, and a process is signalled, killed and cleared away once each).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use forkful_core::Time;
use forkful_core::slot::Generation;

use super::app::{AppId, ProcessKey};

/// Starts begun in one turn of the loop: what a connection may have to wait for.
pub(super) const STARTS_PER_TURN: usize = 1;
/// Trees signalled in one turn: half a millisecond, and one look at all processes before it.
pub(super) const SIGNALS_PER_TURN: usize = 8;
/// Dead workers cleared away in one turn; without orphans, that costs a few microseconds each.
pub(super) const CLEARS_PER_TURN: usize = 16;
/// After the loop has served something, starts wait for so long: the next message of a hand-over under way
/// takes less, and would otherwise find the loop in a start each time.
const QUIET: Duration = Duration::from_micros(200);
/// However busy the loop is, a start waits no longer than this for the one before it.
const START_GAP_MAX: Duration = Duration::from_millis(4);

/// Starts under way at a time: one more than a core can use while another reads from a disk.
const STARTS_AT_ONCE: usize = 2;
/// A start under way for longer waits for something slow, and keeps no other app's from being begun. A usual start takes
/// a millisecond.
const START_SLOW: Duration = Duration::from_millis(50);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Work {
    starts: StartQueue,
    signals: VecDeque<(ProcessKey, i32)>,
    clears: VecDeque<ProcessKey>,
    /// When the loop last served something that was ready.
    served_at: Time,
    /// When a start was last begun.
    started_at: Time,
    /// The starts under way, oldest first: number, app, when it was begun. At most one of each app.
    under_way: Vec<(u64, AppId, Time)>,
    /// Starts wait until then.
    paused_until: Time,
}

impl Work {
    pub(super) fn start(&mut self, app: AppId, slot: u16, generation: Generation) {
        self.starts.push(app, slot, generation);
    }

    /// The same for a start that could not be made; nothing is started before `at`.
    pub(super) fn start_after(&mut self, app: AppId, slot: u16, generation: Generation, at: Time) {
        self.starts.waiting.entry(app).or_default().push_front((slot, generation));
        self.paused_until = at;
    }

    pub(super) fn signal(&mut self, app: AppId, slot: u16, generation: Generation, signal: i32) {
        self.signals.push_back(((app, slot, generation), signal));
    }

    pub(super) fn clear(&mut self, app: AppId, slot: u16, generation: Generation) {
        self.clears.push_back((app, slot, generation));
    }

    /// A start was begun.
    pub(super) fn begun(&mut self, app: AppId, number: u64, now: Time) {
        self.under_way.push((number, app, now));
    }

    /// A start is over, or was given up.
    pub(super) fn done(&mut self, number: u64) {
        self.under_way.retain(|(other, _, _)| *other != number);
    }

    /// Takes a start back that was not begun; says whether there was one.
    pub(super) fn cancel(&mut self, app: AppId, slot: u16, generation: Generation) -> bool {
        self.starts.cancel(app, slot, generation)
    }

    /// The next dead worker to clear away, of those for one turn.
    pub(super) fn next_clear(&mut self, done: &mut Done) -> Option<ProcessKey> {
        if done.clears >= CLEARS_PER_TURN {
            return None;
        }
        let next = self.clears.pop_front()?;
        done.clears += 1;
        Some(next)
    }

    /// The next tree to signal, of those for one turn.
    pub(super) fn next_signal(&mut self, done: &mut Done) -> Option<(ProcessKey, i32)> {
        if done.signals >= SIGNALS_PER_TURN {
            return None;
        }
        let next = self.signals.pop_front()?;
        done.signals += 1;
        Some(next)
    }

    /// The next process to start, of those for one turn, if its time has come.
    pub(super) fn next_start(&mut self, done: &mut Done, now: Time) -> Option<ProcessKey> {
        if done.starts >= STARTS_PER_TURN || self.start_at().is_none_or(|at| at > now) {
            return None;
        }
        let next = self.pop_start()?;
        done.starts += 1;
        Some(next)
    }

    /// Whether dead workers wait to be cleared away.
    pub(super) fn has_clears(&self) -> bool {
        !self.clears.is_empty()
    }

    /// A start was begun, or has failed at once.
    pub(super) fn note_started(&mut self, now: Time) {
        self.started_at = now;
    }

    fn pop_start(&mut self) -> Option<ProcessKey> {
        let under_way = &self.under_way;
        self.starts.pop(|app| !under_way.iter().any(|(_, other, _)| *other == app))
    }

    fn is_starting(&self, app: AppId) -> bool {
        self.under_way.iter().any(|(_, other, _)| *other == app)
    }

    /// The loop has served something.
    pub(super) fn note_served(&mut self, now: Time) {
        self.served_at = now;
    }

    /// When there is something to do next.
    pub(super) fn next_wake(&self) -> Option<Time> {
        if !self.signals.is_empty() || !self.clears.is_empty() {
            return Some(Time::default());
        }
        self.start_at()
    }

    /// When the next start may be begun: other work comes first, and the starts under way.
    fn start_at(&self) -> Option<Time> {
        let is_free = self.starts.waiting.keys().any(|app| !self.is_starting(*app));
        if !is_free || !self.signals.is_empty() || !self.clears.is_empty() {
            return None;
        }
        let at = (self.served_at + QUIET).min(self.started_at + START_GAP_MAX);
        // So many of those under way have to be slow before there is room for another.
        let slow = (self.under_way.len() + 1).checked_sub(STARTS_AT_ONCE).filter(|slow| *slow > 0);
        let room =
            slow.and_then(|slow| self.under_way.get(slow - 1)).map(|(_, _, begun)| *begun + START_SLOW);
        Some(room.map_or(at, |room| room.max(at)).max(self.paused_until))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.starts.waiting.is_empty() && self.signals.is_empty() && self.clears.is_empty()
    }
}

/// Processes to be started, by app.
#[derive(Debug, Default)]
struct StartQueue {
    /// Never holds an empty queue.
    waiting: BTreeMap<AppId, VecDeque<(u16, Generation)>>,
    /// The app that had its turn last.
    last: Option<AppId>,
}

impl StartQueue {
    fn push(&mut self, app: AppId, slot: u16, generation: Generation) {
        self.waiting.entry(app).or_default().push_back((slot, generation));
    }

    /// The first of the app whose turn it is, among those that may.
    fn pop(&mut self, may: impl Fn(AppId) -> bool) -> Option<ProcessKey> {
        let next = self.last.map_or(AppId(0), |last| AppId(last.0 + 1));
        let in_turn = self.waiting.range(next..).chain(self.waiting.range(..next));
        let app = in_turn.map(|(app, _)| *app).find(|app| may(*app))?;
        let queue = self.waiting.get_mut(&app)?;
        let (slot, generation) = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting.remove(&app);
        }
        self.last = Some(app);
        Some((app, slot, generation))
    }

    /// Takes one out; says whether it was there.
    fn cancel(&mut self, app: AppId, slot: u16, generation: Generation) -> bool {
        let Some(queue) = self.waiting.get_mut(&app) else { return false };
        let before = queue.len();
        queue.retain(|waiting| *waiting != (slot, generation));
        let found = queue.len() < before;
        if queue.is_empty() {
            self.waiting.remove(&app);
        }
        found
    }
}

/// What a turn has done, for tests.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) starts: usize,
    pub(super) signals: usize,
    pub(super) clears: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(starts: &mut StartQueue) -> Vec<(u32, u16)> {
        std::iter::from_fn(|| starts.pop(|_| true)).map(|(app, slot, _)| (app.0, slot)).collect()
    }

    #[test]
    fn apps_take_turns() {
        let mut starts = StartQueue::default();
        for slot in 0..4 {
            starts.push(AppId(1), slot, Generation(0));
        }
        assert_eq!(starts.pop(|_| true).map(|(app, slot, _)| (app.0, slot)), Some((1, 0)));
        starts.push(AppId(3), 0, Generation(7));
        starts.push(AppId(2), 0, Generation(0));
        starts.push(AppId(2), 1, Generation(0));
        assert_eq!(order(&mut starts), [(2, 0), (3, 0), (1, 1), (2, 1), (1, 2), (1, 3)]);
        assert!(starts.waiting.is_empty());
    }

    #[test]
    fn what_was_cancelled_is_not_started() {
        let mut starts = StartQueue::default();
        for slot in 0..3 {
            starts.push(AppId(1), slot, Generation(0));
        }
        assert!(starts.cancel(AppId(1), 1, Generation(0)));
        assert!(!starts.cancel(AppId(1), 1, Generation(0)));
        assert!(!starts.cancel(AppId(1), 2, Generation(5)));
        assert!(!starts.cancel(AppId(2), 0, Generation(0)));
        assert_eq!(order(&mut starts), [(1, 0), (1, 2)]);
    }

    #[test]
    fn a_start_that_hangs_delays_its_own_app_alone() {
        let mut work = Work::default();
        let at = |ms: u64| Time::default() + Duration::from_millis(1000 + ms);
        for app in 1..=3 {
            work.start(AppId(app), 0, Generation(0));
            work.start(AppId(app), 1, Generation(0));
        }
        let begin = |work: &mut Work, number, now| {
            let (app, _, _) = work.pop_start().unwrap();
            work.begun(app, number, now);
            app.0
        };
        assert_eq!((begin(&mut work, 1, at(0)), begin(&mut work, 2, at(1))), (1, 2));
        assert_eq!(work.start_at(), Some(at(0) + START_SLOW), "two are under way");
        work.done(2);
        assert!(work.start_at().unwrap() < at(0), "there is room");
        assert_eq!(begin(&mut work, 3, at(2)), 3);
        work.done(3);
        // The first still hangs: the others have their turns.
        assert_eq!(begin(&mut work, 4, at(3)), 2);
        work.done(4);
        assert_eq!(begin(&mut work, 5, at(4)), 3);
        work.done(5);
        assert_eq!(work.start_at(), None, "only the app that hangs has one to start");
        work.done(1);
        assert_eq!(begin(&mut work, 6, at(5)), 1);
    }
}
