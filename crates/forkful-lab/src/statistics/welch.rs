//! Two independent samples: values of two runs that were not interleaved, so that they cannot be paired. On
//! logarithms, so that the result is a ratio (B. L. Welch, Biometrika 34, 1947; degrees of freedom by
//! Satterthwaite).

use super::paired::{Interval, deviation, mean};
use super::student;

/// Maximum autocorrelation that is used; above it a series says almost nothing about its mean.
const CORRELATION_MAX: f64 = 0.9;

/// The mean of logarithms and its precision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    mean: f64,
    /// Variance of the mean.
    variance: f64,
    freedom: f64,
}

impl Sample {
    /// From independent values; `None` for fewer than two, or if one of them is not positive: without it the
    /// others would tell of a better run than there was.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let logs = logs(values)?;
        (logs.len() >= 2).then(|| Self {
            mean: mean(&logs),
            variance: deviation(&logs).powi(2) / logs.len() as f64,
            freedom: logs.len() as f64 - 1.0,
        })
    }

    /// From a time series: autocorrelation ρ increases the variance of the mean by (1 + ρ) ÷ (1 − ρ), as in a
    /// first-order series, and reduces the effective number of values.
    pub(crate) fn of_series(values: &[f64]) -> Option<Self> {
        let plain = Self::of(values)?;
        let correlation = autocorrelation(&logs(values)?).clamp(0.0, CORRELATION_MAX);
        let factor = (1.0 + correlation) / (1.0 - correlation);
        Some(Self {
            variance: plain.variance * factor,
            freedom: ((plain.freedom + 1.0) / factor - 1.0).max(1.0),
            ..plain
        })
    }

    /// The ratio to the baseline, with an interval.
    pub(crate) fn over(&self, baseline: &Self, confidence: f64) -> Interval {
        let difference = self.mean - baseline.mean;
        let variance = self.variance + baseline.variance;
        if variance <= 0.0 {
            return Interval { ratio: difference.exp(), bounds: [difference.exp(); 2] };
        }
        let part = |sample: &Self| sample.variance.powi(2) / sample.freedom;
        let freedom = variance.powi(2) / (part(self) + part(baseline));
        let half = student::quantile(f64::midpoint(confidence, 1.0), freedom) * variance.sqrt();
        Interval { ratio: difference.exp(), bounds: [(difference - half).exp(), (difference + half).exp()] }
    }
}

/// `None` if a value has no logarithm.
fn logs(values: &[f64]) -> Option<Vec<f64>> {
    values.iter().map(|value| (value.is_finite() && *value > 0.0).then(|| value.ln())).collect()
}

/// The lag-1 autocorrelation, −1 to 1.
fn autocorrelation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let products: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use forkful_core::random::Random;

    use super::*;

    #[test]
    fn the_interval_is_welchs() {
        // Calculated by hand: means 0 and ln 2, variances of the means 0.01 and 0.04, 3 and 2 degrees of
        // freedom.
        let baseline = Sample { mean: 0.0, variance: 0.01, freedom: 3.0 };
        let other = Sample { mean: std::f64::consts::LN_2, variance: 0.04, freedom: 2.0 };
        let interval = other.over(&baseline, 0.95);
        let freedom = 0.05_f64.powi(2) / (0.01_f64.powi(2) / 3.0 + 0.04_f64.powi(2) / 2.0);
        let half = student::quantile(0.975, freedom) * 0.05_f64.sqrt();
        assert!((interval.ratio - 2.0).abs() < 1e-12);
        assert!((interval.low() - (std::f64::consts::LN_2 - half).exp()).abs() < 1e-12);
        assert!(Sample::of(&[1.0]).is_none() && Sample::of(&[1.0, 2.0, 3.0]).is_some());
        assert!(Sample::of(&[1.0, 2.0, 0.0]).is_none() && Sample::of(&[1.0, 2.0, f64::NAN]).is_none());
    }

    #[test]
    fn the_interval_holds_the_truth_about_as_often_as_it_says_also_for_series_that_carry_over() {
        let mut random = Random::new(11);
        let mut held = [0; 2];
        for _ in 0..500 {
            let mut series = |carries: f64, level: f64| -> Vec<f64> {
                let mut last = 0.0;
                let mut next = || {
                    last = carries * last + 0.05 * random.normal();
                    level * f64::exp(last)
                };
                (0..20).map(|_| next()).collect()
            };
            let pairs = [(series(0.0, 100.0), series(0.0, 90.0)), (series(0.5, 100.0), series(0.5, 90.0))];
            for (count, (a, b)) in held.iter_mut().zip(pairs) {
                let [a, b] = [a, b].map(|values| Sample::of_series(&values).unwrap());
                let interval = b.over(&a, 0.95);
                *count += usize::from(interval.low() <= 0.9 && 0.9 <= interval.high());
            }
        }
        assert!(held[0] >= 460 && held[1] >= 430, "{held:?} of 500");
    }
}
