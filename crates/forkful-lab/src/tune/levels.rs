//! What the rounds of a race say together: a level for every candidate, and the noise of one window. Pure.
//!
//! The logarithm of a throughput is the candidate's level plus what the machine did in that round plus noise: the
//! two-way additive model of analysis of variance. It uses every window, also of candidates that came late or left
//! early, and it knows the noise from all of them together: two rounds of six candidates tell more about it than
//! twelve rounds of two do, whereas each pair's own two differences say next to nothing.
//!
//! A core whose neighbour is busy is slower by a third for seconds, which no account of the system shows. A window that
//! fell into that is an outlier, and one in twenty of them is enough to mislead means: what is [`SLOW`] against its
//! candidate's and its round's other windows is left out. Nothing makes a window so much faster, so that of two windows the
//! slower one is the wrong one.

use crate::statistics::paired::Interval;
use crate::statistics::student;

/// Passes of the fit, which alternates between candidates and rounds; a table with gaps needs some.
const PASSES: usize = 40;

/// Passes of the rough fit by medians, which only finds outliers.
const ROUGH_PASSES: usize = 10;

/// A window that is slower by so much is left out, or by so many standard deviations of all where that is more.
const SLOW: f64 = 0.1;
const SLOW_DEVIATIONS: f64 = 4.0;

/// A median absolute deviation times this is a standard deviation.
const MEDIAN_DEVIATION: f64 = 1.4826;

/// Noise below which so few windows are never believed to be.
const NOISE_MIN: f64 = 0.003;

#[derive(Debug, Clone)]
pub(super) struct Levels {
    /// Logarithms of the windows that are in the fit, by candidate and round of the sample.
    logs: Vec<Vec<Option<f64>>>,
    /// Logarithm of throughput by candidate; `None` where nothing was measured.
    by_candidate: Vec<Option<f64>>,
    /// What the machine did in each round of the sample, on the same scale: what it does usually is in the levels.
    by_round: Vec<f64>,
    /// Windows of each candidate.
    windows: Vec<usize>,
    /// Standard deviation of one window, and its degrees of freedom. `None`: no window is more than the model needs.
    noise: Option<(f64, usize)>,
}

impl Levels {
    /// Fits to `rounds[candidate][round]`, over these rounds; a round may be in it several times.
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

    /// A candidate's windows without what the machine did in them.
    pub(super) fn windows(&self, index: usize) -> Vec<f64> {
        self.logs[index].iter().zip(&self.by_round).filter_map(|(log, round)| Some((*log)? - round)).collect()
    }

    /// What the machine did on average while a candidate ran.
    pub(super) fn machine_of(&self, index: usize) -> f64 {
        let ran = self.logs[index].iter().zip(&self.by_round).filter(|(log, _)| log.is_some());
        mean(&mut ran.map(|(_, round)| *round).collect::<Vec<_>>())
    }

    /// The logarithm of the ratio of one to another.
    pub(super) fn difference(&self, index: usize, other: usize) -> Option<f64> {
        Some(self.by_candidate[index]? - self.by_candidate[other]?)
    }

    /// The standard error of that.
    pub(super) fn error(&self, index: usize, other: usize) -> Option<f64> {
        let (deviation, _) = self.noise?;
        let share = |index: usize| 1.0 / self.windows[index] as f64;
        Some(deviation * (share(index) + share(other)).sqrt())
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

/// Levels of candidates and of rounds, each the center of what the other leaves.
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

/// Takes outliers to the slow side out, by a fit that they do not move. Nobody loses all windows.
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

/// 0 of nothing, as for the median.
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
        // The machine was 10 % faster in the last two rounds, the only ones of the third candidate.
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
        // All are slower in the second round; the first candidate was hit in the first one.
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
