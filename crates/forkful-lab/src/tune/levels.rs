//! What the rounds of a race say together: a level for every candidate, and the noise of one window. Pure.
//!
//! The logarithm of a throughput is the candidate's level plus what the machine did in that round plus noise: the
//! two-way additive model of analysis of variance. It uses every window, also of candidates that came late or left
//! early, and it knows the noise from all of them together: two rounds of six candidates tell more about it than
//! twelve rounds of two do, whereas each pair's own two differences say next to nothing.

use crate::statistics::paired::Interval;
use crate::statistics::student;

/// Passes of the fit, which alternates between candidates and rounds; a table with gaps needs some.
const PASSES: usize = 40;

/// Noise below which so few windows are never believed to be.
const NOISE_MIN: f64 = 0.003;

/// The fitted model.
#[derive(Debug, Clone)]
pub(super) struct Levels {
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
        let logs: Vec<Vec<Option<f64>>> =
            rounds.iter().map(|row| sample.iter().map(|round| row[*round].map(f64::ln)).collect()).collect();
        let windows: Vec<usize> = logs.iter().map(|row| row.iter().flatten().count()).collect();
        let mut levels = vec![0.0; logs.len()];
        let mut machine = vec![0.0; sample.len()];
        for _ in 0..PASSES {
            for (level, row) in levels.iter_mut().zip(&logs) {
                *level = mean(row.iter().zip(&machine).filter_map(|(log, round)| Some((*log)? - round)));
            }
            for (column, round) in machine.iter_mut().enumerate() {
                *round = mean(logs.iter().zip(&levels).filter_map(|(row, level)| Some(row[column]? - level)));
            }
        }
        let squares: f64 = logs
            .iter()
            .zip(&levels)
            .flat_map(|(row, level)| {
                row.iter()
                    .zip(&machine)
                    .filter_map(move |(log, round)| Some(((*log)? - level - round).powi(2)))
            })
            .sum();
        let measured = windows.iter().filter(|windows| **windows > 0).count();
        let filled = (0..sample.len()).filter(|column| logs.iter().any(|row| row[*column].is_some())).count();
        let free = (windows.iter().sum::<usize>() + 1).saturating_sub(measured + filled);
        let noise = (free > 0).then(|| ((squares / free as f64).sqrt().max(NOISE_MIN), free));
        let levels = levels.into_iter().zip(&windows).map(|(level, windows)| (*windows > 0).then_some(level));
        Self { by_candidate: levels.collect(), by_round: machine, windows, noise }
    }

    /// A candidate's level.
    pub(super) fn level(&self, index: usize) -> Option<f64> {
        self.by_candidate[index]
    }

    /// What the machine did in a round of the sample.
    pub(super) fn machine(&self, round: usize) -> f64 {
        self.by_round[round]
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

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_usize), |(sum, count), value| (sum + value, count + 1));
    sum / count.max(1) as f64
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
