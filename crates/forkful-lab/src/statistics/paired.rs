//! Compares two arms by paired blocks: the unit of replication is a block, never a request.
//!
//! Each block gives d = ln(arm ÷ baseline). The effect is exp(mean of d), its interval Student's t on d. The
//! Hodges–Lehmann estimate and the signed-rank test are reported too, because they are robust against a
//! single outlier.

use serde::Serialize;

use super::student;

/// A ratio with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Interval {
    pub ratio: f64,
    /// Lower and upper end.
    pub bounds: [f64; 2],
}

impl Interval {
    pub(crate) fn low(&self) -> f64 {
        self.bounds[0]
    }

    pub(crate) fn high(&self) -> f64 {
        self.bounds[1]
    }
}

/// The logarithm of each block's ratio. Blocks in which a value is not a positive number are left out.
pub(crate) fn log_ratios(pairs: impl IntoIterator<Item = (f64, f64)>) -> Vec<f64> {
    pairs
        .into_iter()
        .filter(|(baseline, arm)| is_usable(*baseline) && is_usable(*arm))
        .map(|(baseline, arm)| (arm / baseline).ln())
        .collect()
}

fn is_usable(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// The mean; 0 if empty.
pub(crate) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// The sample standard deviation (divided by n − 1); 0 for fewer than two values.
pub(crate) fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

/// Half the width of Student's interval of the mean; `None` for fewer than two values.
pub(crate) fn half_width(values: &[f64], confidence: f64) -> Option<f64> {
    let factor = student::two_sided(confidence, values.len())?;
    Some(factor * deviation(values) / (values.len() as f64).sqrt())
}

/// The ratio and Student's interval from logarithms; `None` for fewer than two blocks.
pub(crate) fn t_interval(log_ratios: &[f64], confidence: f64) -> Option<Interval> {
    let half = half_width(log_ratios, confidence)?;
    let mean = mean(log_ratios);
    Some(Interval { ratio: mean.exp(), bounds: [(mean - half).exp(), (mean + half).exp()] })
}

/// The geometric mean of positive values with Student's interval; for a single value the interval has no
/// width.
pub(crate) fn geometric(values: &[f64], confidence: f64) -> Option<Interval> {
    let logs: Vec<f64> = values.iter().filter(|value| is_usable(**value)).map(|value| value.ln()).collect();
    t_interval(&logs, confidence)
}

/// The Hodges–Lehmann ratio (median of the Walsh averages) with the signed-rank interval of at least this
/// confidence.
///
/// `None` if there are too few blocks for the confidence: 95 % needs 6.
pub(crate) fn hodges_lehmann(log_ratios: &[f64], confidence: f64) -> Option<Interval> {
    let n = log_ratios.len();
    if n == 0 {
        return None;
    }
    let mut walsh: Vec<f64> = Vec::with_capacity(n * (n + 1) / 2);
    for (index, first) in log_ratios.iter().enumerate() {
        walsh.extend(log_ratios[index..].iter().map(|second| f64::midpoint(*first, *second)));
    }
    walsh.sort_by(f64::total_cmp);
    let cumulative = signed_rank_distribution(n);
    // The largest k with P(W ≤ k − 1) ≤ α/2: the k-th smallest and k-th largest Walsh averages are the ends.
    let tail = (1.0 - confidence) / 2.0;
    let k = cumulative.iter().take_while(|probability| **probability <= tail).count();
    if k == 0 {
        return None;
    }
    let middle = f64::midpoint(walsh[(walsh.len() - 1) / 2], walsh[walsh.len() / 2]);
    Some(Interval { ratio: middle.exp(), bounds: [walsh[k - 1].exp(), walsh[walsh.len() - k].exp()] })
}

/// The two-sided p-value of Wilcoxon's signed-rank test that the median ratio is 1; exact when there are no ties.
/// 1 when no block differs.
pub(crate) fn signed_rank_p(log_ratios: &[f64]) -> f64 {
    let mut values: Vec<f64> = log_ratios.iter().copied().filter(|value| *value != 0.0).collect();
    if values.is_empty() {
        return 1.0;
    }
    values.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let positive: usize =
        values.iter().enumerate().filter(|(_, value)| **value > 0.0).map(|(index, _)| index + 1).sum();
    let total = values.len() * (values.len() + 1) / 2;
    let cumulative = signed_rank_distribution(values.len());
    (2.0 * cumulative[positive.min(total - positive)]).min(1.0)
}

/// P(W ≤ w) for w = 0 … n(n+1)/2 under the hypothesis that signs are coin tosses.
fn signed_rank_distribution(n: usize) -> Vec<f64> {
    let total = n * (n + 1) / 2;
    let mut chances = vec![0.0; total + 1];
    chances[0] = 1.0;
    for rank in 1..=n {
        for sum in (0..=total).rev() {
            let without = chances[sum];
            let with = if sum >= rank { chances[sum - rank] } else { 0.0 };
            chances[sum] = f64::midpoint(without, with);
        }
    }
    let mut running = 0.0;
    for chance in &mut chances {
        running += *chance;
        *chance = running;
    }
    chances
}

#[cfg(test)]
mod tests {
    use super::*;
    use forkful_core::random::Random;

    /// Student's own data (Cushny and Peebles, 1908): extra hours of sleep, the classic paired example.
    const SLEEP: [f64; 10] = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4];

    #[test]
    fn the_t_interval_of_students_sleep_data_is_the_published_one() {
        let interval = t_interval(&SLEEP, 0.95).unwrap();
        assert!((interval.ratio.ln() - 1.58).abs() < 1e-9);
        assert!((interval.low().ln() - 0.700_114).abs() < 1e-5, "{interval:?}");
        assert!((interval.high().ln() - 2.459_886).abs() < 1e-5);
    }

    #[test]
    fn ratios_of_unusable_values_are_left_out() {
        let pairs = [(1.0, 2.0), (0.0, 1.0), (1.0, f64::NAN), (2.0, 1.0), (-1.0, 1.0)];
        let logs = log_ratios(pairs);
        assert_eq!(logs.len(), 2);
        assert!(mean(&logs).abs() < 1e-12);
        assert!(t_interval(&[0.1], 0.95).is_none());
        assert!(t_interval(&[], 0.95).is_none());
    }

    #[test]
    fn the_signed_rank_test_has_its_exact_values() {
        // All six differ in the same direction: 2 of 64 orders.
        assert!((signed_rank_p(&[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]) - 0.03125).abs() < 1e-12);
        assert!((signed_rank_p(&[0.1, 0.2, 0.3, 0.4, 0.5]) - 0.0625).abs() < 1e-12);
        assert!((signed_rank_p(&[-0.1, 0.2, -0.3, 0.4]) - 0.875).abs() < 1e-12);
        assert!((signed_rank_p(&[0.0, 0.0]) - 1.0).abs() < 1e-12);
        assert!((signed_rank_distribution(20)[52] - 0.024_2).abs() < 1e-3, "the table's critical value");
    }

    #[test]
    fn hodges_lehmann_needs_six_blocks_and_shrugs_off_a_wild_one() {
        assert!(hodges_lehmann(&[0.1, 0.2, 0.3, 0.4, 0.5], 0.95).is_none());
        let mut blocks: Vec<f64> = (0..12).map(|n| 0.01 * f64::from(n % 3)).collect();
        let calm = hodges_lehmann(&blocks, 0.95).unwrap();
        blocks[3] = 2.0;
        let wild = hodges_lehmann(&blocks, 0.95).unwrap();
        assert!((wild.ratio - calm.ratio).abs() < 0.01, "{calm:?} {wild:?}");
        assert!(t_interval(&blocks, 0.95).unwrap().ratio > calm.ratio + 0.1);
        assert!(wild.low() <= wild.ratio && wild.ratio <= wild.high());
    }

    /// The share of simulated experiments whose interval contains the true ratio.
    fn coverage(of: impl Fn(&[f64]) -> Interval, blocks: usize, outliers: f64) -> f64 {
        let mut random = Random::new(11);
        let rounds = 4000;
        let held = (0..rounds).filter(|_| {
            let sample: Vec<f64> = (0..blocks)
                .map(|_| {
                    let wild = if random.unit() < outliers { 0.3 } else { 0.05 };
                    0.2 + wild * random.normal()
                })
                .collect();
            let interval = of(&sample);
            interval.low() <= 0.2_f64.exp() && 0.2_f64.exp() <= interval.high()
        });
        held.count() as f64 / f64::from(rounds)
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        for blocks in [3, 6, 12] {
            let share = coverage(|sample| t_interval(sample, 0.95).unwrap(), blocks, 0.0);
            assert!((0.938..0.962).contains(&share), "{blocks}: {share}");
            let share = coverage(|sample| t_interval(sample, 0.95).unwrap(), blocks, 0.1);
            assert!(share > 0.94, "with outliers, {blocks}: {share}");
        }
        let share = coverage(|sample| hodges_lehmann(sample, 0.95).unwrap(), 12, 0.1);
        assert!(share > 0.93, "{share}");
    }
}
