//! When connections that clients keep are moved from one worker to another, and how many.
//!
//! New connections are spread over the workers, and then stay with their worker. After the replacement of a worker that
//! leaves them uneven: all clients of the old worker connect again within milliseconds, the first request keeps the new
//! worker busy (its code is not compiled yet), and the other connections go to the other workers.
//!
//! Therefore, for [`LOOKS_FOR`] after each start or end of a worker, the primary asks all workers for the number of
//! connections that they keep. A worker that has a third more than its share closes the surplus. Its clients connect
//! again, and their new connections are spread like any other.

use std::time::Duration;

use crate::Time;

/// The first interval between two looks. Relevant clients use their connection more often, and two deciding
/// looks (the first look after a change or a move only takes stock) finish within a second.
pub const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Looks become less frequent: the interval is this fraction of the time since the change, so that clients
/// with a request every few seconds are seen too.
const PAUSE_PART: u32 = 4;

/// Looks end this long after the last change.
pub const LOOKS_FOR: Duration = Duration::from_secs(30);

/// After that, an unevenness that appears by itself is examined at most this often.
const REST: Duration = Duration::from_secs(30);

/// In addition: if the primary has not looked for a minute in total, it glances at the connections. A glance
/// costs three short messages to each worker.
const GLANCE_REST: Duration = Duration::from_secs(30);

/// The interval between the questions of a glance: most clients use their connection within it, and only
/// connections in use can be moved.
pub const GLANCE_PAUSE: Duration = Duration::from_secs(2);

/// The first question of a glance takes stock, the second decides, and the third ends the rest of a move.
const GLANCE_QUESTIONS: u32 = 3;

/// A worker may have this multiple of the mean: 8 of 12 connections over two workers are even enough.
const SHARE_MAX: (u64, u64) = (4, 3);

/// Maximum connections moved after one look, over all workers: with [`LOOK_EVERY`] 512 per second, below the
/// rate at which the `auto` balance switches to the kernel.
const MOVED_FEW: u32 = 128;

/// With many connections, this fraction of them is moved instead: a fixed number would take hours to even out
/// a million connections.
const MOVED_PART: u64 = 128;

/// The limit of that number, whatever workers report: enough for a million connections.
pub const MOVED_MAX: u32 = 8_192;

/// Maximum doublings of the interval: it doubles with each move in a row that did not improve the balance.
/// Then clients send requests too rarely to have moved by the next look, or connections return to their
/// worker (for example because only one worker knows their address).
const DOUBLED_MAX: u32 = 6;

/// What a worker reports about its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Connections {
    /// Those that were already open at the previous look.
    pub staying: u32,
    /// Those of them that it could close without a client noticing.
    pub movable: u32,
}

/// The compared connections of all workers.
#[derive(Debug, Clone, Copy, Default)]
struct Total {
    staying: u64,
    workers: u64,
}

impl Total {
    fn of(staying: impl Iterator<Item = u32>) -> Self {
        let add = |total: Self, staying| Self {
            staying: total.staying + u64::from(staying),
            workers: total.workers + 1,
        };
        staying.fold(Self::default(), add)
    }

    /// Maximum connections moved after one look.
    fn moved_max(self) -> u32 {
        u32::try_from(self.staying / MOVED_PART).unwrap_or(u32::MAX).clamp(MOVED_FEW, MOVED_MAX)
    }

    /// How many connections a worker has above its share; 0 while it is within [`SHARE_MAX`].
    fn surplus(self, staying: u32) -> u32 {
        let (over, under) = SHARE_MAX;
        let staying = u64::from(staying);
        // staying > mean × over / under, without fractions.
        let is_uneven =
            staying.saturating_mul(self.workers).saturating_mul(under) > self.staying.saturating_mul(over);
        let share = self.staying.div_ceil(self.workers.max(1));
        let surplus = if is_uneven { staying.saturating_sub(share) } else { 0 };
        u32::try_from(surplus).unwrap_or(u32::MAX)
    }
}

/// Whether some worker has more connections than its share allows; `staying` has an item for each worker.
/// This is called for every connection that is handed over, so it allocates nothing.
pub fn is_uneven(staying: impl Iterator<Item = u32> + Clone) -> bool {
    let total = Total::of(staying.clone());
    staying.max().is_some_and(|most| total.surplus(most) > 0)
}

/// How many connections each worker closes, in the same order; in total at most [`MOVED_FEW`], or a fraction
/// of many connections.
pub fn surplus(workers: &[Connections]) -> Vec<u32> {
    let mut left = Total::of(workers.iter().map(|worker| worker.staying)).moved_max();
    excess(workers)
        .map(|excess| {
            let moved = excess.min(left);
            left -= moved;
            moved
        })
        .collect()
}

/// How many movable connections each worker has above its share.
fn excess(workers: &[Connections]) -> impl Iterator<Item = u32> {
    let total = Total::of(workers.iter().map(|worker| worker.staying));
    workers.iter().map(move |worker| total.surplus(worker.staying).min(worker.movable))
}

/// The looks of one app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evenness {
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No worker is asked.
    Resting { until: Time },
    Looking {
        since: Time,
        until: Time,
        next: Time,
        /// The interval between two looks, at first.
        every: Duration,
        /// The next answers only take stock.
        takes_stock: bool,
        /// The smallest surplus so far.
        least: u64,
        /// Consecutive moves that have not reduced it.
        futile: u32,
    },
}

impl Default for Evenness {
    fn default() -> Self {
        Self { phase: Phase::Resting { until: Time::default() } }
    }
}

impl Evenness {
    /// The set of serving workers has changed, or connections look uneven: looks begin, or begin again.
    pub fn on_change(&mut self, now: Time) {
        self.begin(now, LOOK_EVERY, LOOKS_FOR);
    }

    /// Whether a glance is due.
    pub fn may_glance(&self, now: Time) -> bool {
        matches!(self.phase, Phase::Resting { until } if now >= until + GLANCE_REST)
    }

    /// Begins a glance.
    pub fn glance(&mut self, now: Time) {
        self.begin(now, GLANCE_PAUSE, GLANCE_PAUSE * GLANCE_QUESTIONS);
    }

    fn begin(&mut self, now: Time, every: Duration, lasts: Duration) {
        let (until, next) = (now + lasts, now + every);
        self.phase =
            Phase::Looking { since: now, until, next, every, takes_stock: true, least: u64::MAX, futile: 0 };
    }

    /// Whether looks may begin only because connections look uneven.
    pub fn may_begin(&self, now: Time) -> bool {
        matches!(self.phase, Phase::Resting { until } if now >= until)
    }

    /// There are no workers to compare.
    pub fn stop(&mut self, now: Time) {
        self.phase = Phase::Resting { until: now + REST };
    }

    /// When [`Self::on_time`] is due.
    pub fn next_look(&self) -> Option<Time> {
        match self.phase {
            Phase::Looking { next, .. } => Some(next),
            Phase::Resting { .. } => None,
        }
    }

    /// Handles the passing of time; returns whether to ask the workers now.
    pub fn on_time(&mut self, now: Time) -> bool {
        let Phase::Looking { since, until, next, every, futile, .. } = &mut self.phase else { return false };
        if now < *next {
            return false;
        }
        *next = now + pause(*futile).max(*every).max(now.since(*since) / PAUSE_PART);
        if now >= *until {
            self.stop(now);
        }
        // The last question ends the rest of the last move; its answers decide nothing.
        true
    }

    /// All workers have answered; returns how many connections each closes.
    pub fn on_answers(&mut self, now: Time, workers: &[Connections]) -> Vec<u32> {
        let none = vec![0; workers.len()];
        let Phase::Looking { since, until, next, every, takes_stock, least, futile } = &mut self.phase else {
            return none;
        };
        if std::mem::take(takes_stock) {
            return none;
        }
        let moved = surplus(workers);
        let excess: u64 = excess(workers).map(u64::from).sum();
        if excess == 0 {
            return moved;
        }
        let is_better = excess < *least;
        if *every != LOOK_EVERY || is_better && *least != u64::MAX {
            // A glance has found something, or the last move has improved the balance: continue as after a
            // change.
            (*since, *until, *every) = (now, now + LOOKS_FOR, LOOK_EVERY);
        }
        // Moved connections are new to their worker at the next look.
        *takes_stock = true;
        *futile = if is_better { 0 } else { *futile + 1 };
        *least = excess.min(*least);
        *next = now + pause(*futile);
        moved
    }
}

fn pause(futile: u32) -> Duration {
    LOOK_EVERY * 2_u32.pow(futile.min(DOUBLED_MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_start(Duration::from_millis(millis))
    }

    fn http(staying: &[u32]) -> Vec<Connections> {
        staying.iter().map(|staying| Connections { staying: *staying, movable: *staying }).collect()
    }

    #[test]
    fn a_third_more_than_the_share_is_even_enough() {
        for (staying, expected) in [
            (vec![6, 6], vec![0, 0]),
            (vec![8, 4], vec![0, 0]),
            (vec![9, 3], vec![3, 0]),
            (vec![0, 12], vec![0, 6]),
            (vec![1, 0], vec![0, 0]),
            (vec![2, 0], vec![1, 0]),
            (vec![3, 3, 3, 11], vec![0, 0, 0, 6]),
            (vec![7], vec![0]),
            (vec![], vec![]),
        ] {
            assert_eq!(surplus(&http(&staying)), expected, "{staying:?}");
        }
    }

    #[test]
    fn connections_that_cannot_be_moved_count_and_stay() {
        let websockets = Connections { staying: 10, movable: 0 };
        assert_eq!(surplus(&[websockets, Connections { staying: 10, movable: 10 }]), [0, 0]);
        assert_eq!(surplus(&[Connections { staying: 12, movable: 2 }, Connections::default()]), [2, 0]);
        assert_eq!(surplus(&[Connections { staying: 12, movable: 0 }, Connections::default()]), [0, 0]);
    }

    proptest! {
        #[test]
        fn workers_are_uneven_when_one_would_give_connections_up(staying in prop::collection::vec(0_u32..40, 0..12)) {
            let moved = surplus(&http(&staying));
            prop_assert_eq!(is_uneven(staying.iter().copied()), moved.iter().any(|moved| *moved > 0));
        }

        #[test]
        fn nobody_gives_up_more_than_its_surplus(staying in prop::collection::vec(any::<(u32, u32)>(), 0..40)) {
            let workers: Vec<_> =
                staying.iter().map(|(staying, movable)| Connections { staying: *staying, movable: *movable }).collect();
            let moved = surplus(&workers);
            let all: u64 = workers.iter().map(|worker| u64::from(worker.staying)).sum();
            let most = (all / MOVED_PART).clamp(MOVED_FEW.into(), MOVED_MAX.into());
            prop_assert!(moved.iter().map(|moved| u64::from(*moved)).sum::<u64>() <= most);
            for (worker, moved) in workers.iter().zip(moved) {
                let share = all.div_ceil(workers.len() as u64);
                prop_assert!(moved <= worker.movable);
                prop_assert!(moved == 0 || u64::from(worker.staying - moved) >= share);
            }
        }
    }

    /// Workers that keep the connections they are given: a moved connection goes to the worker with the
    /// fewest.
    struct Workers {
        staying: Vec<u32>,
        fresh: Vec<u32>,
    }

    impl Workers {
        fn answer(&mut self) -> Vec<Connections> {
            let told = http(&self.staying);
            for (staying, fresh) in self.staying.iter_mut().zip(&mut self.fresh) {
                *staying += std::mem::take(fresh);
            }
            told
        }

        fn give_up(&mut self, moved: &[u32]) {
            for (from, moved) in moved.iter().enumerate() {
                for _ in 0..*moved {
                    self.staying[from] -= 1;
                    let all = |at: &usize| self.staying[*at] + self.fresh[*at];
                    let to = (0..self.staying.len()).min_by_key(all).unwrap();
                    self.fresh[to] += 1;
                }
            }
        }
    }

    #[test]
    fn two_seconds_after_a_change_kept_connections_are_even() {
        for staying in [vec![12, 0], vec![11, 1], vec![9, 3], vec![40, 0, 0, 0], vec![100, 1, 30]] {
            let mut workers = Workers { fresh: vec![0; staying.len()], staying };
            let mut evenness = Evenness::default();
            evenness.on_change(at(0));
            for ms in 0..2000 {
                if evenness.on_time(at(ms)) {
                    let answers = workers.answer();
                    let moved = evenness.on_answers(at(ms), &answers);
                    workers.give_up(&moved);
                }
            }
            assert!(
                surplus(&http(&workers.staying)).iter().all(|moved| *moved == 0),
                "{:?}",
                workers.staying
            );
        }
    }

    #[test]
    fn a_million_connections_are_even_within_minutes() {
        let staying: Vec<u32> = (0..100).map(|worker| 4_000 + worker * 120).collect();
        let mut evenness = Evenness::default();
        evenness.on_change(at(0));
        let mut workers = staying.clone();
        let mut last = at(0);
        while let Some(next) = evenness.next_look() {
            assert!(evenness.on_time(next));
            let moved = evenness.on_answers(next, &http(&workers));
            for (from, moved) in moved.iter().enumerate().filter(|(_, moved)| **moved > 0) {
                (workers[from], last) = (workers[from] - moved, next);
                for to in 0..100 {
                    workers[to as usize] += (moved + to) / 100;
                }
            }
        }
        assert!(surplus(&http(&workers)).iter().all(|moved| *moved == 0), "{workers:?}");
        assert!(last < at(120_000), "{last:?}");
    }

    #[test]
    fn looks_become_rarer_and_end() {
        let mut evenness = Evenness::default();
        assert_eq!(evenness.next_look(), None);
        evenness.on_change(at(0));
        let mut looks = Vec::new();
        while let Some(next) = evenness.next_look() {
            assert!(evenness.on_time(next));
            assert!(!evenness.on_time(next));
            looks.push(next);
        }
        assert!((15..25).contains(&looks.len()), "{looks:?}");
        assert_eq!(looks[..4], [at(250), at(500), at(750), at(1000)]);
        assert_eq!(
            evenness.on_answers(at(60_000), &http(&[12, 0])),
            [0, 0],
            "the last answers decide nothing"
        );
    }

    #[test]
    fn answers_after_a_change_or_a_move_only_take_stock() {
        let mut evenness = Evenness::default();
        evenness.on_change(at(0));
        assert_eq!(evenness.on_answers(at(250), &http(&[12, 0])), [0, 0]);
        assert_eq!(evenness.on_answers(at(500), &http(&[12, 0])), [6, 0]);
        assert_eq!(evenness.on_answers(at(750), &http(&[6, 0])), [0, 0]);
        assert_eq!(evenness.on_answers(at(1000), &http(&[9, 3])), [3, 0]);
    }

    #[test]
    fn moves_that_change_nothing_become_rare() {
        let mut evenness = Evenness::default();
        evenness.on_change(at(0));
        let mut moves = Vec::new();
        while let Some(next) = evenness.next_look() {
            assert!(evenness.on_time(next));
            if evenness.on_answers(next, &http(&[10, 0])) == [5, 0] {
                moves.push(next);
            }
        }
        assert!((4..=8).contains(&moves.len()), "{moves:?}");
        let last = moves[moves.len() - 1].since(moves[moves.len() - 2]);
        assert!(last > LOOK_EVERY * 16, "{moves:?}");
    }

    /// From the last look to a glance.
    const GLANCE_AFTER: Duration = Duration::from_secs(60);

    /// The times of all questions until they end, and the total numbers of connections that the workers
    /// closed.
    fn questions(evenness: &mut Evenness, staying: &[u32]) -> (Vec<Time>, u32) {
        let (mut looks, mut moved) = (Vec::new(), 0);
        while let Some(next) = evenness.next_look() {
            assert!(evenness.on_time(next));
            looks.push(next);
            moved += evenness.on_answers(next, &http(staying)).iter().sum::<u32>();
        }
        (looks, moved)
    }

    #[test]
    fn a_glance_at_even_connections_takes_three_questions() {
        let mut evenness = Evenness::default();
        evenness.on_change(at(0));
        let (looks, _) = questions(&mut evenness, &[6, 6]);
        let rests_since = looks[looks.len() - 1];
        assert!(!evenness.may_glance(rests_since + GLANCE_AFTER - Duration::from_millis(1)));
        let now = rests_since + GLANCE_AFTER;
        assert!(evenness.may_glance(now));
        evenness.glance(now);
        assert!(!evenness.may_glance(now), "one at a time");
        let (looks, moved) = questions(&mut evenness, &[6, 6]);
        assert_eq!((looks, moved), ((1..=3).map(|n| now + GLANCE_PAUSE * n).collect(), 0));
        assert!(!evenness.may_glance(now + GLANCE_AFTER) && evenness.may_glance(now + GLANCE_AFTER * 2));
    }

    #[test]
    fn a_glance_at_uneven_connections_is_followed_by_looks_as_after_a_change() {
        let mut evenness = Evenness::default();
        evenness.glance(at(100_000));
        for (ms, moved) in [(102_000, [0, 0]), (104_000, [6, 0]), (104_250, [0, 0]), (104_500, [6, 0])] {
            assert_eq!(evenness.next_look(), Some(at(ms)));
            assert!(evenness.on_time(at(ms)));
            assert_eq!(evenness.on_answers(at(ms), &http(&[12, 0])), moved, "{ms}");
        }
        let (looks, _) = questions(&mut evenness, &[6, 6]);
        assert!(looks[looks.len() - 1] >= at(104_000) + LOOKS_FOR, "{looks:?}");
    }

    #[test]
    fn unevenness_that_shows_by_itself_is_looked_into_but_not_all_the_time() {
        let mut evenness = Evenness::default();
        assert!(evenness.may_begin(at(0)));
        evenness.on_change(at(0));
        assert!(!evenness.may_begin(at(100)), "looks are under way");
        evenness.stop(at(1000));
        assert!(!evenness.may_begin(at(2000)));
        assert!(evenness.may_begin(at(1000) + REST));
    }
}
