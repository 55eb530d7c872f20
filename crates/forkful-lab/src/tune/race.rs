//! Racing: candidates are measured in rounds, and candidates that can no longer be the choice are dropped.
//! Pure.
//!
//! A golden-section or hill-climbing search would be misled: neighbours differ by less than a run's noise,
//! and the domain is tiny. The rules are fixed before the race. A candidate is dropped if it is certainly
//! worse than the best (the 95 % interval of the ratio lies entirely below −2 %), if it is [`HOPELESS`] after
//! the first round, or if it needs more resources than another candidate in the race without being more than
//! 2 % better: it could never be the smallest that is good enough.

use super::levels::Levels;
use crate::statistics::paired::Interval;
use crate::statistics::verdict::CONFIDENCE;
use forkful_core::random::Random;

/// Candidates within this share of the best count as equally good.
pub(crate) const CLOSE: f64 = 0.02;

/// Upper limit for what counts as equal to the best because of noise: with a larger difference the table
/// would contradict the advice.
pub(crate) const CLOSE_MAX: f64 = 0.05;

/// Below this share of the best throughput, a single window is enough to drop a candidate. A core may be a
/// third slower for a whole window, so a candidate at 0.7 in one window may still be the best.
const HOPELESS: f64 = 0.5;

/// Minimum rounds before survivors are called equal.
const ROUNDS_MIN: usize = 3;

/// Resamples for the stability of a choice.
const RESAMPLES: usize = 2000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Candidate {
    pub(crate) workers: u16,
    /// `UV_THREADPOOL_SIZE`.
    pub(crate) pool: u32,
}

/// A candidate with its results.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) candidate: Candidate,
    /// Throughput by round; `None` if it did not run. Disturbed windows are repeated if there is time, and
    /// otherwise count: on a busy machine there would be nothing else.
    pub(crate) rounds: Vec<Option<f64>>,
    /// The round after which it was dropped, from 1, and why.
    pub(crate) dropped: Option<(usize, Out)>,
}

/// Why a candidate is no longer measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Out {
    /// It is certainly worse than the best, or was excluded: it is never chosen.
    Worse,
    /// A smaller candidate is as good. If that one turns out worse than a third, this one may still be
    /// chosen.
    NoBetter,
}

impl Entry {
    pub(crate) fn values(&self) -> Vec<f64> {
        self.rounds.iter().flatten().copied().collect()
    }
}

/// Why a race ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// One candidate is left.
    OneLeft,
    /// The remaining candidates are equal to within 2 %.
    Equal,
}

#[derive(Debug, Clone)]
pub(crate) struct Race {
    entries: Vec<Entry>,
    rounds: usize,
    /// This number of workers and more are never chosen.
    forbidden_from: Option<u16>,
}

impl Race {
    pub(crate) fn new(candidates: impl IntoIterator<Item = Candidate>) -> Self {
        let mut race = Self { entries: Vec::new(), rounds: 0, forbidden_from: None };
        for candidate in candidates {
            race.add(candidate);
        }
        race
    }

    /// Adds a candidate, unless it is already in the race or forbidden.
    pub(crate) fn add(&mut self, candidate: Candidate) {
        if self.is_forbidden(candidate) {
            return;
        }
        if self.entries.iter().all(|entry| entry.candidate != candidate) {
            self.entries.push(Entry { candidate, rounds: vec![None; self.rounds], dropped: None });
        }
    }

    /// All candidates, including dropped ones.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Indices of the candidates still in the race.
    pub(crate) fn survivors(&self) -> Vec<usize> {
        (0..self.entries.len()).filter(|index| self.entries[*index].dropped.is_none()).collect()
    }

    pub(crate) fn rounds(&self) -> usize {
        self.rounds
    }

    /// Records a round and drops candidates that cannot be the choice; returns the dropped ones. `present` is
    /// the app's current pool size.
    pub(crate) fn record(&mut self, results: &[(usize, Option<f64>)], present: u32) -> Vec<usize> {
        self.rounds += 1;
        for entry in &mut self.entries {
            entry.rounds.resize(self.rounds, None);
        }
        for (index, value) in results {
            let usable = value.filter(|value| value.is_finite() && *value > 0.0);
            self.entries[*index].rounds[self.rounds - 1] = usable;
        }
        let levels = self.levels();
        let Some(leader) = self.leader_by(&levels) else { return Vec::new() };
        let worse: Vec<usize> =
            self.survivors().into_iter().filter(|index| is_worse(&levels, *index, leader)).collect();
        self.drop_all(&worse, Out::Worse);
        let survivors = self.survivors();
        let size = |index: usize| size(self.entries[index].candidate, present);
        let no_better: Vec<usize> = survivors
            .iter()
            .copied()
            .filter(|index| {
                survivors.iter().any(|other| {
                    size(*other) < size(*index)
                        && levels
                            .against(*index, *other, CONFIDENCE)
                            .is_some_and(|found| found.high() < 1.0 + CLOSE)
                })
            })
            .collect();
        self.drop_all(&no_better, Out::NoBetter);
        worse.into_iter().chain(no_better).collect()
    }

    fn drop_all(&mut self, indices: &[usize], why: Out) {
        for index in indices {
            self.entries[*index].dropped = Some((self.rounds, why));
        }
    }

    /// Removes all candidates for which `wanted` is false.
    pub(crate) fn keep(&mut self, wanted: impl Fn(Candidate) -> bool) {
        let rounds = self.rounds;
        for entry in &mut self.entries {
            if !wanted(entry.candidate) {
                entry.dropped = Some((entry.dropped.map_or(rounds, |(round, _)| round), Out::Worse));
            }
        }
    }

    /// Excludes this number of workers and all larger ones: a database refused connections of this many workers,
    /// and more workers open more connections. Returns false if the number was excluded before.
    pub(crate) fn forbid_from(&mut self, workers: u16) -> bool {
        if self.forbidden_from.is_some_and(|from| from <= workers) {
            return false;
        }
        self.forbidden_from = Some(workers);
        // The round under way is not recorded yet.
        let round = self.rounds + 1;
        for entry in self.entries.iter_mut().filter(|entry| entry.candidate.workers >= workers) {
            entry.dropped = Some((entry.dropped.map_or(round, |(round, _)| round), Out::Worse));
        }
        true
    }

    /// Whether its number of workers is excluded.
    pub(crate) fn is_forbidden(&self, candidate: Candidate) -> bool {
        self.forbidden_from.is_some_and(|from| candidate.workers >= from)
    }

    /// The best candidate so far among those that may be chosen.
    pub(crate) fn leader(&self) -> Option<usize> {
        self.leader_by(&self.levels())
    }

    fn leader_by(&self, levels: &Levels) -> Option<usize> {
        let measured = (0..self.entries.len())
            .filter(|index| self.is_eligible(*index))
            .filter_map(|index| Some((index, levels.level(index)?)));
        measured.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index)
    }

    fn is_eligible(&self, index: usize) -> bool {
        !matches!(self.entries[index].dropped, Some((_, Out::Worse)))
    }

    /// Requests per second of each candidate, adjusted as if all had run in the same rounds: the leader's
    /// mean, scaled by the difference of their levels. Plain means of different rounds would include the
    /// machine effect.
    pub(crate) fn rates(&self) -> Vec<Option<f64>> {
        let levels = self.levels();
        let scale = self.scale(&levels);
        (0..self.entries.len()).map(|index| Some((levels.level(index)? + scale?).exp())).collect()
    }

    /// The windows of a candidate on the same scale, without the machine effect and without outliers.
    pub(crate) fn level_values(&self, index: usize) -> Vec<f64> {
        let levels = self.levels();
        let Some(scale) = self.scale(&levels) else { return Vec::new() };
        levels.windows(index).into_iter().map(|log| (log + scale).exp()).collect()
    }

    /// Converts a level to the logarithm of requests per second, with the machine effect during the leader's
    /// rounds.
    fn scale(&self, levels: &Levels) -> Option<f64> {
        Some(levels.machine_of(self.leader_by(levels)?))
    }

    /// The ratio of two candidates.
    pub(crate) fn against(&self, index: usize, other: usize) -> Option<Interval> {
        self.levels().against(index, other, CONFIDENCE)
    }

    fn levels(&self) -> Levels {
        self.levels_over(&(0..self.rounds).collect::<Vec<_>>())
    }

    fn levels_over(&self, rounds: &[usize]) -> Levels {
        let table: Vec<&[Option<f64>]> = self.entries.iter().map(|entry| entry.rounds.as_slice()).collect();
        Levels::fit(&table, rounds)
    }

    /// Whether all candidates in the race have run this often.
    pub(crate) fn have_run(&self, times: usize) -> bool {
        self.behind(times).is_empty()
    }

    /// How often a candidate has run.
    pub(crate) fn runs(&self, index: usize) -> usize {
        self.entries[index].rounds.iter().flatten().count()
    }

    /// Candidates in the race that have run less often.
    pub(crate) fn behind(&self, times: usize) -> Vec<usize> {
        self.survivors().into_iter().filter(|index| self.runs(*index) < times).collect()
    }

    /// Removes a candidate that cannot be measured enough: it is not chosen.
    pub(crate) fn withdraw(&mut self, index: usize) {
        self.drop_all(&[index], Out::Worse);
    }

    /// Whether the race has ended.
    pub(crate) fn over(&self) -> Option<Over> {
        let survivors = self.survivors();
        let leader = self.leader()?;
        if survivors.len() == 1 {
            return Some(Over::OneLeft);
        }
        let levels = self.levels();
        let is_equal = |index: &usize| {
            *index == leader
                || levels
                    .against(*index, leader, CONFIDENCE)
                    .is_some_and(|found| found.low() > 1.0 - CLOSE && found.high() < 1.0 + CLOSE)
        };
        (self.have_run(ROUNDS_MIN) && survivors.iter().all(is_equal)).then_some(Over::Equal)
    }

    /// The choice: the smallest of all candidates within 2 % of the best, or within one standard error if
    /// that is more. `present` is the app's current pool size, which is preferred among equals.
    pub(crate) fn choose(&self, present: u32) -> Option<usize> {
        let rounds: Vec<usize> = (0..self.rounds).collect();
        self.choose_over(&rounds, present)
    }

    /// How much two candidates of the race may differ by chance: the largest standard error of a ratio to the
    /// best, among candidates that may be chosen.
    pub(crate) fn noise(&self) -> Option<f64> {
        let levels = self.levels();
        let best = self.leader_by(&levels)?;
        let others = (0..self.entries.len()).filter(|index| *index != best && self.is_eligible(*index));
        others.filter_map(|index| levels.error(index, best)).reduce(f64::max)
    }

    /// The share of resamples in which each candidate is the choice. Whole rounds are drawn, because
    /// candidates of a round share the machine effect.
    pub(crate) fn stability(&self, present: u32, seed: u64) -> Vec<f64> {
        let mut counts = vec![0_usize; self.entries.len()];
        let mut random = Random::new(seed);
        let mut drawn = 0_usize;
        for _ in 0..RESAMPLES {
            let sample: Vec<usize> = (0..self.rounds).map(|_| random.below(self.rounds)).collect();
            if let Some(choice) = self.choose_over(&sample, present) {
                counts[choice] += 1;
                drawn += 1;
            }
        }
        counts.into_iter().map(|count| count as f64 / drawn.max(1) as f64).collect()
    }

    fn choose_over(&self, rounds: &[usize], present: u32) -> Option<usize> {
        let levels = self.levels_over(rounds);
        let best = self.leader_by(&levels)?;
        let is_close = |index: &usize| {
            let Some(difference) = levels.difference(*index, best) else { return false };
            let noise = levels.error(*index, best).unwrap_or(0.0).min(CLOSE_MAX);
            *index == best || difference >= (1.0 - CLOSE.max(noise)).ln()
        };
        (0..self.entries.len())
            .filter(|index| self.is_eligible(*index))
            .filter(is_close)
            .min_by_key(|index| size(self.entries[*index].candidate, present))
    }
}

fn is_worse(levels: &Levels, index: usize, leader: usize) -> bool {
    if index == leader {
        return false;
    }
    match levels.against(index, leader, CONFIDENCE) {
        Some(found) => found.high() < 1.0 - CLOSE,
        None => levels.difference(index, leader).is_some_and(|difference| difference < HOPELESS.ln()),
    }
}

/// The order of "smaller": fewer workers first (memory, database connections), then the current pool size,
/// then a smaller one. Only one route is measured, and others may use the pool too.
fn size(candidate: Candidate, present: u32) -> (u16, bool, u32) {
    (candidate.workers, candidate.pool != present, candidate.pool)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(workers: &[u16]) -> Vec<Candidate> {
        workers.iter().map(|workers| Candidate { workers: *workers, pool: 4 }).collect()
    }

    /// Simulates races with true throughputs, noise and a share of windows that are 25 to 40 % slower, until
    /// the race is over or `rounds` are done; returns the choice.
    fn raced(
        list: Vec<Candidate>,
        truth: impl Fn(Candidate) -> f64,
        [noise, slow]: [f64; 2],
        seed: u64,
    ) -> (Candidate, Race) {
        let mut random = Random::new(seed);
        let mut race = Race::new(list);
        while race.rounds() < 8 && race.over().is_none() {
            let machine = 0.03 * random.normal();
            let results: Vec<(usize, Option<f64>)> = race
                .survivors()
                .into_iter()
                .map(|index| {
                    let is_hit = slow > 0.0 && random.unit() < slow;
                    let hit = if is_hit { 0.6 + 0.15 * random.unit() } else { 1.0 };
                    let exact = truth(race.entries()[index].candidate);
                    (index, Some(hit * exact * (machine + noise * random.normal()).exp()))
                })
                .collect();
            race.record(&results, 4);
        }
        let choice = race.choose(4).unwrap();
        (race.entries()[choice].candidate, race)
    }

    fn right_choices(truth: impl Fn(Candidate) -> f64 + Copy, right: u16, slow: f64) -> usize {
        (0..200)
            .filter(|seed| raced(candidates(&[1, 2, 3, 4]), truth, [0.015, slow], *seed).0.workers == right)
            .count()
    }

    #[test]
    fn forbidden_numbers_of_workers_are_never_chosen_and_do_not_come_back() {
        let mut race = Race::new(candidates(&[1, 2, 4, 6]));
        race.record(&[(0, Some(350.0)), (1, Some(400.0)), (2, Some(500.0)), (3, Some(600.0))], 4);
        assert_eq!(race.choose(4), Some(3));
        assert!(race.forbid_from(6));
        assert_eq!(race.choose(4), Some(2));
        race.add(Candidate { workers: 8, pool: 4 });
        race.add(Candidate { workers: 3, pool: 4 });
        assert_eq!(race.entries().len(), 5, "only 3 workers came in");
        assert!(!race.forbid_from(7), "that follows from the first");
        assert!(race.forbid_from(4));
        assert_eq!(race.choose(4), Some(1));
        assert!(race.forbid_from(1));
        assert_eq!((race.choose(4), race.leader()), (None, None));
    }

    #[test]
    fn known_answers_are_found_through_the_noise() {
        let cpu_bound = |candidate: Candidate| 200.0 * f64::from(candidate.workers.min(2));
        let waiting = |_: Candidate| 1280.0;
        let too_many_hurt = |candidate: Candidate| match candidate.workers {
            1 => 1000.0,
            2 => 1900.0,
            3 => 1700.0,
            _ => 1500.0,
        };
        for (slow, least) in [(0.0, 190), (0.05, 185), (0.1, 175)] {
            for (name, right) in [
                ("cpu", right_choices(cpu_bound, 2, slow)),
                ("waiting", right_choices(waiting, 1, slow)),
                ("hurt", right_choices(too_many_hurt, 2, slow)),
            ] {
                assert!(right >= least, "{name}, {slow} of the windows slow: {right} of 200");
            }
        }
    }

    #[test]
    fn one_slow_window_does_not_cost_the_best_its_place() {
        let mut race = Race::new(candidates(&[1, 2]));
        race.record(&[(0, Some(100.0)), (1, Some(133.0))], 4);
        assert_eq!(race.survivors(), [0, 1]);
        let mut race = Race::new(candidates(&[1, 2]));
        // Two workers are 1.4 × as fast, and were a third slower at the start of the race.
        race.record(&[(0, Some(140.0)), (1, Some(131.0))], 4);
        for machine in [1.0, 0.98, 1.01] {
            let results: Vec<_> = race
                .survivors()
                .into_iter()
                .map(|index| (index, Some(machine * [140.0, 196.0][index])))
                .collect();
            race.record(&results, 4);
        }
        let choice = race.choose(4).unwrap();
        assert_eq!(race.entries()[choice].candidate.workers, 2, "{race:?}");
    }

    #[test]
    fn losers_are_dropped_early_and_so_is_who_needs_more_and_brings_no_more() {
        let truth = |candidate: Candidate| if candidate.workers == 1 { 90.0 } else { 200.0 };
        let (choice, race) = raced(candidates(&[1, 2, 3, 4]), truth, [0.001, 0.0], 5);
        assert_eq!(choice.workers, 2);
        let dropped: Vec<Option<(usize, Out)>> = race.entries().iter().map(|entry| entry.dropped).collect();
        assert_eq!(dropped[0], Some((1, Out::Worse)), "less than half of the throughput");
        assert_eq!(dropped[1], None);
        assert!(dropped[2..].iter().all(|out| matches!(out, Some((2, Out::NoBetter)))), "{dropped:?}");
        assert_eq!(race.over(), Some(Over::OneLeft));
    }

    #[test]
    fn who_is_no_better_than_a_smaller_one_is_chosen_when_that_one_loses() {
        let mut race = Race::new(candidates(&[1, 2, 3]));
        // 2 is 1.5 % better than 1, and 3 is 1.5 % better than 2.
        let round =
            |factor: f64| [(0, 100.0), (1, 101.5), (2, 103.1)].map(|(index, at)| (index, Some(at * factor)));
        race.record(&round(1.0), 4);
        race.entries[1].dropped = Some((1, Out::NoBetter));
        for factor in [1.01, 0.99, 1.0] {
            race.record(&round(factor), 4);
        }
        let choice = race.choose(4).unwrap();
        assert_eq!(race.entries()[choice].candidate.workers, 2, "1 is 3 % below the best");
    }

    #[test]
    fn the_pool_stays_as_it_is_among_equals() {
        let pools = [1, 2, 4, 8].map(|pool| Candidate { workers: 1, pool }).to_vec();
        let bound = |candidate: Candidate| 50.0 * f64::from(candidate.pool.min(2));
        assert_eq!(raced(pools.clone(), bound, [0.004, 0.0], 1).0.pool, 4);
        let (_, race) = raced(pools, bound, [0.004, 0.0], 1);
        let chosen = race.choose(1).unwrap();
        assert_eq!(race.entries()[chosen].candidate.pool, 2, "from a pool of 1 the smallest that does");
    }

    #[test]
    fn stability_is_high_for_a_clear_case_and_shared_for_a_close_one() {
        let clear = |candidate: Candidate| 100.0 * f64::from(candidate.workers);
        let (_, race) = raced(candidates(&[1, 2]), clear, [0.01, 0.0], 3);
        let shares = race.stability(4, 1);
        assert!(shares[1] > 0.99, "{shares:?}");
        let close = |candidate: Candidate| if candidate.workers == 2 { 103.0 } else { 100.0 };
        let (_, race) = raced(candidates(&[1, 2]), close, [0.02, 0.0], 3);
        let shares = race.stability(4, 1);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(shares.iter().all(|share| *share < 0.99), "{shares:?}");
    }

    #[test]
    fn nothing_is_chosen_against_the_table_however_large_the_noise() {
        let mut race = Race::new(candidates(&[1, 2]));
        // 2 workers lead by a third, in windows that vary by more than that.
        for (one, two) in [(60.0, 120.0), (110.0, 90.0), (50.0, 100.0), (100.0, 90.0)] {
            race.record(&[(0, Some(one)), (1, Some(two))], 4);
            race.entries.iter_mut().for_each(|entry| entry.dropped = None);
        }
        let rates = race.rates();
        assert!(rates[0].unwrap() < 0.9 * rates[1].unwrap(), "{rates:?}");
        assert!(race.noise().unwrap() > 0.1, "{:?}", race.noise());
        assert_eq!(race.choose(4), Some(1));
    }

    #[test]
    fn a_candidate_without_a_figure_says_nothing_about_chance() {
        let mut race = Race::new(candidates(&[1, 2, 3]));
        for factor in [1.0, 1.02, 0.99] {
            race.record(&[(0, Some(100.0 * factor)), (1, Some(103.0 * factor)), (2, None)], 4);
        }
        let noise = race.noise().unwrap();
        assert!(noise.is_finite() && noise > 0.0, "{noise}");
    }

    #[test]
    fn rounds_without_a_figure_are_left_out_and_nothing_is_chosen_from_nothing() {
        let mut race = Race::new(candidates(&[1, 2]));
        assert_eq!(race.choose(4), None);
        assert_eq!(race.over(), None);
        race.record(&[(0, Some(10.0)), (1, None)], 4);
        assert_eq!(race.leader(), Some(0));
        assert_eq!(race.against(0, 1), None);
        race.add(Candidate { workers: 3, pool: 4 });
        race.add(Candidate { workers: 3, pool: 4 });
        assert_eq!(race.entries().len(), 3);
        race.record(&[(0, Some(10.0)), (1, Some(f64::NAN)), (2, Some(11.0))], 4);
        assert_eq!(race.choose(4), Some(2), "a tenth more in the round that both ran");
    }
}
