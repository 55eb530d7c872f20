//! Racing: candidates are measured in rounds, and those that are certainly worse than the best are dropped. Pure.
//!
//! A golden-section or hill-climbing search would be misled: neighbours differ by less than a run's noise, and the
//! domain is tiny. The rule is fixed before the race: a candidate is out when the 95 % interval of its ratio to the
//! leader, over the rounds that both ran, lies wholly below −2 %.

use crate::statistics::paired::{Interval, log_ratios, mean, t_interval};
use crate::statistics::random::Random;
use crate::statistics::verdict::CONFIDENCE;

/// What is worth no second look: candidates within this of the best are as good as it.
pub(crate) const CLOSE: f64 = 0.02;

/// Rounds below which survivors are not called equal.
const ROUNDS_MIN: usize = 3;

/// Resamples for the stability of a choice.
const RESAMPLES: usize = 2000;

/// What is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Candidate {
    /// Workers.
    pub(crate) workers: u16,
    /// `UV_THREADPOOL_SIZE`.
    pub(crate) pool: u32,
}

/// A candidate with its results.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) candidate: Candidate,
    /// Throughput by round; `None` where it did not run or was disturbed.
    pub(crate) rounds: Vec<Option<f64>>,
    /// The round after which it was out, from 1.
    pub(crate) dropped: Option<usize>,
}

impl Entry {
    /// Its values.
    pub(crate) fn values(&self) -> Vec<f64> {
        self.rounds.iter().flatten().copied().collect()
    }

    /// Mean of the logarithms; nothing has been measured yet: minus infinity.
    fn level(&self) -> f64 {
        let logs: Vec<f64> = self.values().iter().map(|value| value.ln()).collect();
        if logs.is_empty() { f64::NEG_INFINITY } else { mean(&logs) }
    }
}

/// Why a race ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// One candidate is left.
    OneLeft,
    /// Those that are left are equal to within 2 %.
    Equal,
}

/// The race.
#[derive(Debug, Clone)]
pub(crate) struct Race {
    entries: Vec<Entry>,
    rounds: usize,
}

impl Race {
    /// With these candidates.
    pub(crate) fn new(candidates: impl IntoIterator<Item = Candidate>) -> Self {
        let mut race = Self { entries: Vec::new(), rounds: 0 };
        for candidate in candidates {
            race.add(candidate);
        }
        race
    }

    /// Lets one more in; those that are in it already are not doubled.
    pub(crate) fn add(&mut self, candidate: Candidate) {
        if self.entries.iter().all(|entry| entry.candidate != candidate) {
            self.entries.push(Entry { candidate, rounds: vec![None; self.rounds], dropped: None });
        }
    }

    /// All, dropped ones too.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Indices of those that are in the race.
    pub(crate) fn survivors(&self) -> Vec<usize> {
        (0..self.entries.len()).filter(|index| self.entries[*index].dropped.is_none()).collect()
    }

    /// Rounds so far.
    pub(crate) fn rounds(&self) -> usize {
        self.rounds
    }

    /// Writes down a round and drops who is certainly worse; returns the dropped.
    pub(crate) fn record(&mut self, results: &[(usize, Option<f64>)]) -> Vec<usize> {
        self.rounds += 1;
        for entry in &mut self.entries {
            entry.rounds.resize(self.rounds, None);
        }
        for (index, value) in results {
            let usable = value.filter(|value| value.is_finite() && *value > 0.0);
            self.entries[*index].rounds[self.rounds - 1] = usable;
        }
        let Some(leader) = self.leader() else { return Vec::new() };
        let losers: Vec<usize> = self
            .survivors()
            .into_iter()
            .filter(|index| *index != leader)
            .filter(|index| self.against(*index, leader).is_some_and(|found| found.high() < 1.0 - CLOSE))
            .collect();
        for loser in &losers {
            self.entries[*loser].dropped = Some(self.rounds);
        }
        losers
    }

    /// Takes everybody out for whom `wanted` does not hold.
    pub(crate) fn keep(&mut self, wanted: impl Fn(Candidate) -> bool) {
        let rounds = self.rounds;
        for entry in &mut self.entries {
            if !wanted(entry.candidate) {
                entry.dropped.get_or_insert(rounds);
            }
        }
    }

    /// Lets those in again who were measured against a leader that has company now: newcomers may beat it, and nobody
    /// is to be out by an interval of two rounds alone.
    pub(crate) fn revive(&mut self) {
        let best = self.entries.iter().map(Entry::level).fold(f64::NEG_INFINITY, f64::max);
        for entry in &mut self.entries {
            // Half the best is no matter of two more rounds.
            if entry.level() > best - std::f64::consts::LN_2 / 2.0 {
                entry.dropped = None;
            }
        }
    }

    /// The best so far among those that are in the race.
    pub(crate) fn leader(&self) -> Option<usize> {
        let measured = self.survivors().into_iter().filter(|index| self.entries[*index].level().is_finite());
        measured.max_by(|a, b| self.entries[*a].level().total_cmp(&self.entries[*b].level()))
    }

    /// The ratio of one to another over the rounds that both ran.
    pub(crate) fn against(&self, index: usize, other: usize) -> Option<Interval> {
        t_interval(&self.logs(index, other), CONFIDENCE)
    }

    fn logs(&self, index: usize, other: usize) -> Vec<f64> {
        let (one, two) = (&self.entries[index].rounds, &self.entries[other].rounds);
        log_ratios(one.iter().zip(two).filter_map(|(one, two)| Some(((*two)?, (*one)?))))
    }

    /// Whether there is anything left to find out.
    pub(crate) fn over(&self) -> Option<Over> {
        let survivors = self.survivors();
        let leader = self.leader()?;
        if survivors.len() == 1 {
            return Some(Over::OneLeft);
        }
        let is_equal = |index: &usize| {
            *index == leader
                || self
                    .against(*index, leader)
                    .is_some_and(|found| found.low() > 1.0 - CLOSE && found.high() < 1.0 + CLOSE)
        };
        (self.rounds >= ROUNDS_MIN && survivors.iter().all(is_equal)).then_some(Over::Equal)
    }

    /// The choice: of all within 2 % of the best, or within one standard error where that is more, the smallest.
    /// `present` is the pool that the app has now, which is kept among equals.
    pub(crate) fn choose(&self, present: u32) -> Option<usize> {
        let rounds: Vec<usize> = (0..self.rounds).collect();
        self.choose_over(&rounds, present)
    }

    /// The share of resamples in which each candidate is the choice. Rounds are drawn, not single values, because
    /// candidates of a round share what the machine did.
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
        let logs_against = |index: usize, other: usize| {
            let pairs = rounds.iter().filter_map(|round| {
                Some((self.entries[other].rounds[*round]?, self.entries[index].rounds[*round]?))
            });
            log_ratios(pairs)
        };
        let level = |index: usize| {
            let logs: Vec<f64> =
                rounds.iter().filter_map(|round| Some(self.entries[index].rounds[*round]?.ln())).collect();
            if logs.is_empty() { f64::NEG_INFINITY } else { mean(&logs) }
        };
        let survivors = self.survivors();
        let best = survivors
            .iter()
            .copied()
            .filter(|index| level(*index).is_finite())
            .max_by(|a, b| level(*a).total_cmp(&level(*b)))?;
        let is_close = |index: usize| {
            if index == best {
                return true;
            }
            let logs = logs_against(index, best);
            if logs.is_empty() {
                return false;
            }
            let error = crate::statistics::paired::deviation(&logs) / (logs.len() as f64).sqrt();
            mean(&logs) >= -CLOSE.max(error)
        };
        survivors
            .into_iter()
            .filter(|index| is_close(*index))
            .min_by_key(|index| size(self.entries[*index].candidate, present))
    }
}

/// What "smaller" means: fewer workers first (memory, connections to databases), then the pool as it is, then a smaller
/// one: only one route is measured, and others may use the pool too.
fn size(candidate: Candidate, present: u32) -> (u16, bool, u32) {
    (candidate.workers, candidate.pool != present, candidate.pool)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(workers: &[u16]) -> Vec<Candidate> {
        workers.iter().map(|workers| Candidate { workers: *workers, pool: 4 }).collect()
    }

    /// Races with true throughputs and noise until it is over or `rounds` are through; the choice's candidate.
    fn raced(
        list: Vec<Candidate>,
        truth: impl Fn(Candidate) -> f64,
        noise: f64,
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
                    let exact = truth(race.entries()[index].candidate);
                    (index, Some(exact * (machine + noise * random.normal()).exp()))
                })
                .collect();
            race.record(&results);
        }
        let choice = race.choose(4).unwrap();
        (race.entries()[choice].candidate, race)
    }

    fn right_choices(truth: impl Fn(Candidate) -> f64 + Copy, right: u16) -> usize {
        (0..200)
            .filter(|seed| raced(candidates(&[1, 2, 3, 4]), truth, 0.015, *seed).0.workers == right)
            .count()
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
        for (name, right) in [
            ("cpu", right_choices(cpu_bound, 2)),
            ("waiting", right_choices(waiting, 1)),
            ("hurt", right_choices(too_many_hurt, 2)),
        ] {
            assert!(right >= 190, "{name}: {right} of 200");
        }
    }

    #[test]
    fn losers_are_dropped_early_and_equals_end_the_race() {
        let truth = |candidate: Candidate| 100.0 * f64::from(candidate.workers.min(2));
        let (_, race) = raced(candidates(&[1, 2, 3, 4]), truth, 0.001, 5);
        assert!(race.entries()[0].dropped.is_some_and(|round| round <= 2), "half the throughput");
        assert_eq!(race.over(), Some(Over::Equal));
        assert_eq!(race.rounds(), ROUNDS_MIN);
        let (_, race) = raced(candidates(&[1, 2]), truth, 0.001, 5);
        assert_eq!(race.over(), Some(Over::OneLeft));
    }

    #[test]
    fn the_pool_stays_as_it_is_among_equals() {
        let pools = [1, 2, 4, 8].map(|pool| Candidate { workers: 1, pool }).to_vec();
        let bound = |candidate: Candidate| 50.0 * f64::from(candidate.pool.min(2));
        assert_eq!(raced(pools.clone(), bound, 0.004, 1).0.pool, 4);
        let (_, race) = raced(pools, bound, 0.004, 1);
        let chosen = race.choose(1).unwrap();
        assert_eq!(race.entries()[chosen].candidate.pool, 2, "from a pool of 1 the smallest that does");
    }

    #[test]
    fn stability_is_high_for_a_clear_case_and_shared_for_a_close_one() {
        let clear = |candidate: Candidate| 100.0 * f64::from(candidate.workers);
        let (_, race) = raced(candidates(&[1, 2]), clear, 0.01, 3);
        let shares = race.stability(4, 1);
        assert!(shares[1] > 0.99, "{shares:?}");
        let close = |candidate: Candidate| if candidate.workers == 2 { 103.0 } else { 100.0 };
        let (_, race) = raced(candidates(&[1, 2]), close, 0.02, 3);
        let shares = race.stability(4, 1);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(shares.iter().all(|share| *share < 0.99), "{shares:?}");
    }

    #[test]
    fn disturbed_rounds_are_left_out_and_nothing_is_chosen_from_nothing() {
        let mut race = Race::new(candidates(&[1, 2]));
        assert_eq!(race.choose(4), None);
        assert_eq!(race.over(), None);
        race.record(&[(0, Some(10.0)), (1, None)]);
        assert_eq!(race.leader(), Some(0));
        assert_eq!(race.against(0, 1), None);
        race.add(Candidate { workers: 3, pool: 4 });
        race.add(Candidate { workers: 3, pool: 4 });
        assert_eq!(race.entries().len(), 3);
        race.record(&[(0, Some(10.0)), (1, Some(f64::NAN)), (2, Some(11.0))]);
        assert_eq!(race.choose(4), Some(2), "a tenth more in the round that both ran");
    }
}
