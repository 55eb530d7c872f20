//! Latency of candidates at the same rate: the acting part, and the length of a window.

use std::time::{Duration, Instant};

use super::{LOAD, RACE_SHARE, Raced, TuneSetup, arm, warmup};
use crate::LabError;
use crate::compare::{TrialPlan, at_rate};
use crate::measure::Subject;
use crate::plan::telling_window;
use crate::progress::{Observer, Stage};

/// Minimum length of a window.
pub(super) const WINDOW_MIN: Duration = Duration::from_millis(1500);

/// Candidates below this share of the best capacity cannot sustain [`LOAD`].
const CAPACITY_FOR_LOAD: f64 = 0.8;

/// Measures the latency of every candidate that can sustain the load, and at its own load if requested, as
/// long as there is time. Returns the length of a window.
pub(super) fn measure(
    tune: &TuneSetup,
    trial: &TrialPlan,
    deadline: Instant,
    overhead: Duration,
    raced: &mut Raced,
    observer: &mut dyn Observer,
) -> Result<Duration, LabError> {
    let Some(leader) = raced.race.leader() else { return Ok(WINDOW_MIN) };
    // The other half is for windows at the candidates' own loads.
    let left = deadline.saturating_duration_since(Instant::now());
    let until = if tune.own_load { deadline.checked_sub(left / 2).unwrap_or(deadline) } else { deadline };
    let rates = raced.race.rates();
    let capacity = |index: usize| rates[index].unwrap_or_default();
    let best = capacity(leader);
    let mut able: Vec<usize> = (0..raced.race.entries().len())
        .filter(|index| !raced.race.is_forbidden(raced.race.entries()[*index].candidate))
        .filter(|index| capacity(*index) >= CAPACITY_FOR_LOAD * best)
        .collect();
    // Candidates that may be chosen come first, in case time runs out.
    able.sort_by_key(|index| raced.race.entries()[*index].dropped.is_some());
    able.iter().for_each(|index| raced.costs[*index].carries = true);
    let fixed: Vec<Duration> = able
        .iter()
        .map(|index| overhead + warmup(tune, raced.race.entries()[*index].candidate, trial))
        .collect();
    let window = window(best * LOAD, &fixed, until.saturating_duration_since(Instant::now()));
    let count = able.len();
    for (place, index) in able.into_iter().enumerate() {
        let candidate = raced.race.entries()[index].candidate;
        if Instant::now() + fixed[place] + window > until {
            break;
        }
        let arm = arm(candidate);
        observer.stage(&Stage {
            text: format!("latency at equal load: {}", arm.name),
            done: RACE_SHARE + (1.0 - RACE_SHARE) * place as f64 / count as f64,
        });
        let subject = Subject::start(&tune.setup, &arm)?;
        subject.closed(trial.connections, warmup(tune, candidate, trial))?;
        let measured = subject.open(best * LOAD, window, tune.setup.seed)?;
        let found = at_rate(LOAD, best * LOAD, &[measured]);
        raced.costs[index].carries = !found.overloaded;
        raced.costs[index].at_load = Some(found);
    }
    if tune.own_load {
        measure_own(tune, trial, deadline, overhead, raced, observer)?;
    }
    Ok(window)
}

/// The latency of each number of workers, with the chosen pool size, at [`LOAD`] of its own capacity: the
/// latency of a pod with that many workers if pods of all sizes carry the same total load. As long as there
/// is time.
fn measure_own(
    tune: &TuneSetup,
    trial: &TrialPlan,
    deadline: Instant,
    overhead: Duration,
    raced: &mut Raced,
    observer: &mut dyn Observer,
) -> Result<(), LabError> {
    let Some(chosen) = raced.race.choose(tune.present_pool()) else { return Ok(()) };
    let Some(leader) = raced.race.leader() else { return Ok(()) };
    // The best candidate was already measured at its own load: the others were compared at it.
    raced.costs[leader].at_own_load = raced.costs[leader].at_load.clone();
    let rates = raced.race.rates();
    let rate = |index: usize| rates[index].unwrap_or_default() * LOAD;
    let pool = raced.race.entries()[chosen].candidate.pool;
    let is_wanted = |index: &usize| {
        raced.race.entries()[*index].candidate.pool == pool
            && !raced.race.is_forbidden(raced.race.entries()[*index].candidate)
            && raced.costs[*index].at_own_load.is_none()
            && rate(*index) > 0.0
    };
    let mut wanted: Vec<usize> = (0..raced.race.entries().len()).filter(is_wanted).collect();
    // The chosen candidate comes first, in case time runs out.
    wanted.sort_by_key(|index| *index != chosen);
    for (place, index) in wanted.iter().copied().enumerate() {
        let candidate = raced.race.entries()[index].candidate;
        let fixed: Vec<Duration> = wanted[place..]
            .iter()
            .map(|index| overhead + warmup(tune, raced.race.entries()[*index].candidate, trial))
            .collect();
        let window = window(rate(index), &fixed, deadline.saturating_duration_since(Instant::now()));
        if Instant::now() + fixed[0] + window > deadline {
            break;
        }
        let arm = arm(candidate);
        observer.stage(&Stage { text: format!("latency at its own load: {}", arm.name), done: 1.0 });
        let subject = Subject::start(&tune.setup, &arm)?;
        subject.closed(trial.connections, warmup(tune, candidate, trial))?;
        let measured = subject.open(rate(index), window, tune.setup.seed)?;
        raced.costs[index].at_own_load = Some(at_rate(LOAD, rate(index), &[measured]));
    }
    Ok(())
}

/// The window for the highest percentile for which there is time if all candidates have such a window.
/// `fixed` is the time of each candidate beside the window.
fn window(rate: f64, fixed: &[Duration], left: Duration) -> Duration {
    let bearable = left.saturating_sub(fixed.iter().sum()) / fixed.len().max(1) as u32;
    telling_window(&[rate], bearable).max(WINDOW_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_as_long_as_the_highest_percentile_needs_that_there_is_time_for() {
        let (second, fixed) = (Duration::from_secs(1), [Duration::from_secs(1); 3]);
        let samples = |rate: f64, left: u32| rate * window(rate, &fixed, left * second).as_secs_f64();
        assert_eq!(window(2_000.0, &fixed, 60 * second), WINDOW_MIN, "3,000 requests are enough");
        assert!((1_099.0..1_101.0).contains(&samples(100.0, 37)), "11 s for each");
        assert!((259.0..261.0).contains(&samples(100.0, 35)), "2.6 s for each, for the 95th percentile");
        assert!((129.0..131.0).contains(&samples(50.0, 11)), "2.6 s for each, for the 90th");
        assert_eq!(window(50.0, &fixed, 5 * second), WINDOW_MIN);
        assert_eq!(window(0.0, &fixed, 60 * second), WINDOW_MIN);
    }
}
