//! Combines the rounds of a race: a level for every candidate, and the noise of one window. Pure.
//!
//! The logarithm of a throughput is the candidate's level plus the round's machine effect plus noise: the
//! two-way additive model of analysis of variance. It uses every window, including those of candidates that
//! joined late or left early, and estimates the noise from all of them together: two rounds of six candidates
//! give a better estimate than twelve rounds of two, whereas a pair's own two differences say almost nothing.
//!
//! A core whose neighbour core is busy is a third slower for seconds, which no CPU account shows. Such a
//! window is an outlier, and one in twenty is enough to mislead means. A window that is [`SLOW`] compared
//! with the other windows of its candidate and round is left out. Nothing makes a window that much faster, so
//! of two windows the slower one is wrong.

use crate::statistics::paired::Interval;
use crate::statistics::student;

/// Passes of the fit, which alternates between candidates and rounds; a table with gaps needs several.
const PASSES: usize = 40;

/// Passes of the rough fit by medians, which only detects outliers.
const ROUGH_PASSES: usize = 10;

/// A window that is slower by this, or by a number of standard deviations if that is more, is left out.
const SLOW: f64 = 0.1;
const SLOW_DEVIATIONS: f64 = 4.0;

/// Factor from a median absolute deviation to a standard deviation.
const MEDIAN_DEVIATION: f64 = 1.4826;

/// Lower limit for the noise estimated from few windows.
const NOISE_MIN: f64 = 0.003;

#[derive(Debug, Clone)]
pub(super) struct Levels {
    /// Logarithms of the windows in the fit, by candidate and round of the sample.
    logs: Vec<Vec<Option<f64>>>,
    /// Logarithm of the throughput by candidate; `None` if not measured.
    by_candidate: Vec<Option<f64>>,
    /// The machine effect of each round of the sample, on the same scale; its mean is part of the levels.
    by_round: Vec<f64>,
    /// Number of windows of each candidate.
    windows: Vec<usize>,
    /// Standard deviation of one window, and its degrees of freedom. `None`: there are no more windows than
    /// parameters.
    noise: Option<(f64, usize)>,
}

impl Levels {
    /// Fits to `rounds[candidate][round]` over the rounds of the sample; a round may occur several times.
    pub(super) fn fit(rounds: &[&[Option<f64>]], sample: &[usize]) -> Self {
        let mut logs: Vec<Vec<Option<f64>>> =
            rounds.iter().map(|row| sample.iter().map(|round| row[*round].map(f64::ln)).collect()).collect();
        leave_out_slow(&mut logs);
        let windows: Vec<usize> = logs.iter().map(|row| row.iter().flatten().count()).collect();
        let (levels, machine) = alternate(&logs, PASSES, mean);
        let squares: f64 =
            residuals(&logs, &levels, &machine).iter().flatten().flatten().map(|r| r * r).sum();
        let measured = windows.iter().filter(|windows| **windows > 0).count();
        let filled = (0..sample.len()).filter(|column| logs.iter().any(|row| row[*column].is_some())).count();
        let free = (windows.iter().sum::<usize>() + 1).saturating_sub(measured + filled);
        let noise = (free > 0).then(|| ((squares / free as f64).sqrt().max(NOISE_MIN), free));
        let levels = levels.into_iter().zip(&windows).map(|(level, windows)| (*windows > 0).then_some(level));
        Self { by_candidate: levels.collect(), by_round: machine, logs, windows, noise }
    }

    pub(super) fn level(&self, index: usize) -> Option<f64> {
        self.by_candidate[index]
    }

    /// A candidate's windows without the machine effect.
    pub(super) fn windows(&self, index: usize) -> Vec<f64> {
        self.logs[index].iter().zip(&self.by_round).filter_map(|(log, round)| Some((*log)? - round)).collect()
    }

    /// The mean machine effect while a candidate ran.
    pub(super) fn machine_of(&self, index: usize) -> f64 {
        let ran = self.logs[index].iter().zip(&self.by_round).filter(|(log, _)| log.is_some());
        mean(&mut ran.map(|(_, round)| *round).collect::<Vec<_>>())
    }

    /// The logarithm of the ratio of two candidates.
    pub(super) fn difference(&self, index: usize, other: usize) -> Option<f64> {
        Some(self.by_candidate[index]? - self.by_candidate[other]?)
    }

    /// The standard error of that logarithm; `None` if one of them has no windows.
    pub(super) fn error(&self, index: usize, other: usize) -> Option<f64> {
        let (deviation, _) = self.noise?;
        let share = |index: usize| (self.windows[index] > 0).then(|| 1.0 / self.windows[index] as f64);
        Some(deviation * (share(index)? + share(other)?).sqrt())
    }

    /// The ratio with its interval.
    pub(super) fn against(&self, index: usize, other: usize, confidence: f64) -> Option<Interval> {
        let (_, free) = self.noise?;
        let difference = self.difference(index, other)?;
        let half = student::two_sided(confidence, free + 1)? * self.error(index, other)?;
        Some(Interval {
            ratio: difference.exp(),
            bounds: [(difference - half).exp(), (difference + half).exp()],
        })
    }
}

type Table = [Vec<Option<f64>>];

/// Levels of candidates and of rounds, each the center of the residuals of the other.
fn alternate(logs: &Table, passes: usize, center: fn(&mut [f64]) -> f64) -> (Vec<f64>, Vec<f64>) {
    let mut levels = vec![0.0; logs.len()];
    let mut machine = vec![0.0; logs.first().map_or(0, Vec::len)];
    let mut left = Vec::new();
    for _ in 0..passes {
        for (level, row) in levels.iter_mut().zip(logs) {
            left.clear();
            left.extend(row.iter().zip(&machine).filter_map(|(log, round)| Some((*log)? - round)));
            *level = center(&mut left);
        }
        for (column, round) in machine.iter_mut().enumerate() {
            left.clear();
            left.extend(logs.iter().zip(&levels).filter_map(|(row, level)| Some(row[column]? - level)));
            *round = center(&mut left);
        }
    }
    (levels, machine)
}

fn residuals(logs: &Table, levels: &[f64], machine: &[f64]) -> Vec<Vec<Option<f64>>> {
    let of_row = |(row, level): (&Vec<Option<f64>>, &f64)| {
        row.iter().zip(machine).map(|(log, round)| Some((*log)? - level - round)).collect()
    };
    logs.iter().zip(levels).map(of_row).collect()
}

/// Removes slow outliers, using a fit that they do not influence. No candidate loses all windows.
fn leave_out_slow(logs: &mut Table) {
    let (levels, machine) = alternate(logs, ROUGH_PASSES, median);
    let residuals = residuals(logs, &levels, &machine);
    let mut sizes: Vec<f64> = residuals.iter().flatten().flatten().map(|found| found.abs()).collect();
    let limit = SLOW.max(SLOW_DEVIATIONS * MEDIAN_DEVIATION * median(&mut sizes));
    let is_slow = |found: &Option<f64>| found.is_some_and(|found| found < -limit);
    for (row, residuals) in logs.iter_mut().zip(&residuals) {
        if residuals.iter().flatten().count() == residuals.iter().filter(|found| is_slow(found)).count() {
            continue;
        }
        for (log, residual) in row.iter_mut().zip(residuals) {
            if is_slow(residual) {
                *log = None;
            }
        }
    }
}

/// 0 if empty, like the median.
fn mean(values: &mut [f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_did_is_no_part_of_a_level_also_for_who_came_late() {
        // The machine was 10 % faster in the last two rounds, the only rounds of the third candidate.
        let rows = [
            vec![Some(100.0), Some(100.0), Some(110.0), Some(110.0)],
            vec![Some(200.0), None, Some(220.0), Some(220.0)],
            vec![None, None, Some(220.0), Some(220.0)],
        ];
        let rows: Vec<&[Option<f64>]> = rows.iter().map(Vec::as_slice).collect();
        let found = Levels::fit(&rows, &[0, 1, 2, 3]);
        assert!((found.difference(2, 0).unwrap().exp() - 2.0).abs() < 1e-6, "{found:?}");
        assert!(found.difference(2, 1).unwrap().abs() < 1e-6, "{found:?}");
        assert_eq!(found.noise.map(|(_, free)| free), Some(3), "9 windows, 3 candidates, 4 rounds");
        let interval = found.against(1, 0, 0.95).unwrap();
        assert!(interval.low() > 1.9 && interval.high() < 2.1, "{interval:?}");
    }

    #[test]
    fn a_window_that_was_slower_by_a_third_is_left_out_and_a_slow_round_is_not() {
        // All are slower in the second round; the first candidate was disturbed in the first round.
        let rows = [
            vec![Some(67.0), Some(81.0), Some(100.0)],
            vec![Some(101.0), Some(80.0), Some(100.0)],
            vec![Some(100.0), Some(80.0), Some(99.0)],
        ];
        let rows: Vec<&[Option<f64>]> = rows.iter().map(Vec::as_slice).collect();
        for sample in [&[0, 1, 2][..], &[0, 1], &[0, 2], &[0, 1, 1]] {
            let found = Levels::fit(&rows, sample);
            assert!(found.difference(0, 1).unwrap().abs() < 0.02, "{sample:?}: {found:?}");
        }
        let found = Levels::fit(&rows, &[0, 1, 2]);
        assert_eq!((found.windows.as_slice(), found.noise.unwrap().1), ([2, 3, 3].as_slice(), 3));
        assert!((found.by_round[1] - found.by_round[2] - 0.8_f64.ln()).abs() < 0.02, "{found:?}");
        let alone = Levels::fit(&rows, &[0]);
        assert!(alone.difference(0, 1).unwrap() < -0.35, "one window of each has nothing to compare with");
    }

    #[test]
    fn one_window_of_each_has_no_noise_to_tell() {
        let rows = [vec![Some(100.0)], vec![Some(300.0)], vec![None]];
        let rows: Vec<&[Option<f64>]> = rows.iter().map(Vec::as_slice).collect();
        let found = Levels::fit(&rows, &[0]);
        assert!((found.difference(1, 0).unwrap().exp() - 3.0).abs() < 1e-9);
        assert_eq!(found.against(1, 0, 0.95), None);
        assert_eq!(found.level(2), None);
        assert_eq!(found.difference(2, 0), None);
    }
}
