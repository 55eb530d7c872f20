//! Where the scalability law predicts the peak of a race, so that the peak is tried and not only reported.
//! Pure.
//!
//! The first candidates double, so there is none between 8 and 15 workers, and an app that is best with 11
//! would not be found. The law does not decide: its predictions run, and the race decides.

use super::Costs;
use super::outcome::fitted;
use super::race::{Candidate, Race};

/// Workers at the law's peak, from the rounds of this pool size; `None` if throughput only grows.
pub(super) fn peak(race: &Race, costs: &[Costs], pool: u32, cores: u16) -> Option<f64> {
    fitted(race, costs, pool, cores)?.law.peak()
}

/// Adds the whole numbers on both sides of the peak to the race, and one more on either side, without
/// exceeding the numbers tried and without duplicates. They have no windows of earlier rounds. Returns the
/// new candidates.
pub(super) fn add_around(race: &mut Race, pool: u32, peak: f64) -> Vec<u16> {
    let known: Vec<u16> = race
        .entries()
        .iter()
        .filter(|entry| entry.candidate.pool == pool)
        .map(|entry| entry.candidate.workers)
        .collect();
    let most = known.iter().copied().max().unwrap_or(1);
    let (floor, ceil) =
        (peak.floor().min(f64::from(u16::MAX)) as u16, peak.ceil().min(f64::from(u16::MAX)) as u16);
    let around = floor.saturating_sub(1).max(1)..=ceil.saturating_add(1);
    let new: Vec<u16> = around.filter(|workers| *workers <= most && !known.contains(workers)).collect();
    new.iter().for_each(|workers| race.add(Candidate { workers: *workers, pool }));
    new
}

#[cfg(test)]
mod tests {
    use super::super::COARSE_ROUNDS;
    use super::super::candidates::default_workers;
    use super::*;
    use crate::statistics::usl::Usl;
    use forkful_core::random::Random;

    const POOL: u32 = 4;

    const NOBODY: [u16; 0] = [];

    fn candidates(workers: &[u16]) -> Vec<Candidate> {
        workers.iter().map(|workers| Candidate { workers: *workers, pool: POOL }).collect()
    }

    /// An app that is best with 11 workers; with 8 or 15 it is 4 % slower.
    fn app() -> Usl {
        Usl { lambda: 1000.0, sigma: 0.05, kappa: 0.95 / 121.0, r_squared: 1.0 }
    }

    /// Eight rounds on 16 cores, with or without the predicted peak after the coarse rounds; returns the
    /// choice.
    fn raced(with_peak: bool, noise: f64, seed: u64) -> u16 {
        let mut random = Random::new(seed);
        let mut race = Race::new(candidates(&default_workers(16)));
        while race.rounds() < 8 {
            let machine = 0.03 * random.normal();
            let results: Vec<(usize, Option<f64>)> = race
                .survivors()
                .into_iter()
                .map(|index| {
                    let exact = app().throughput(f64::from(race.entries()[index].candidate.workers));
                    (index, Some(exact * (machine + noise * random.normal()).exp()))
                })
                .collect();
            race.record(&results, POOL);
            if with_peak && race.rounds() == COARSE_ROUNDS {
                let costs = vec![Costs::default(); race.entries().len()];
                let peak = peak(&race, &costs, POOL, 16).unwrap();
                add_around(&mut race, POOL, peak);
            }
        }
        race.entries()[race.choose(POOL).unwrap()].candidate.workers
    }

    #[test]
    fn a_peak_between_the_first_candidates_is_found() {
        assert!((app().peak().unwrap() - 11.0).abs() < 1e-9);
        let close = |workers: u16| app().throughput(f64::from(workers)) > 0.98 * app().throughput(11.0);
        assert!(close(9) && !close(8) && !close(15));
        assert!(close(raced(true, 0.0, 1)));
        let found = (0..100).filter(|seed| close(raced(true, 0.005, *seed))).count();
        assert!(found >= 90, "{found} of 100");
        let without = (0..100).filter(|seed| close(raced(false, 0.005, *seed))).count();
        assert_eq!(without, 0, "none of the first candidates is close");
    }

    #[test]
    fn who_comes_for_the_peak_is_new_within_what_was_tried_and_late() {
        let mut race = Race::new(candidates(&[1, 2, 4, 8]));
        race.record(&[(0, Some(10.0)), (1, Some(19.0)), (2, Some(33.0)), (3, Some(40.0))], POOL);
        assert_eq!(add_around(&mut race, POOL, 6.4), [5, 6, 7]);
        assert_eq!(race.behind(1).len(), 3, "without a window");
        assert_eq!(add_around(&mut race, POOL, 6.4), NOBODY);
        assert_eq!(add_around(&mut race, POOL, 1.0), NOBODY);
        assert_eq!(add_around(&mut race, POOL, 1e12), NOBODY);
        assert_eq!(add_around(&mut race, 16, 3.0), NOBODY, "of another pool nothing was tried");
    }

    #[test]
    fn without_a_peak_nobody_comes() {
        let mut race = Race::new(candidates(&[1, 2, 4, 8]));
        let values = [10.0, 20.0, 40.0, 80.0];
        let results: Vec<_> = values.into_iter().enumerate().map(|(index, at)| (index, Some(at))).collect();
        race.record(&results, POOL);
        let found = peak(&race, &vec![Costs::default(); 4], POOL, 8);
        assert!(found.is_none_or(|peak| add_around(&mut race, POOL, peak).is_empty()), "{found:?}");
    }
}
