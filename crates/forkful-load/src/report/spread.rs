//! Statistics of a histogram of nanoseconds: percentiles with the number of samples that they need, mean,
//! deviation, extremes.

use std::time::Duration;

use crate::Histogram;

/// A percentile in the report.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percentile {
    /// 0 to 1.
    pub quantile: f64,
    /// The usual name: `p99.9`.
    pub name: &'static str,
    /// The key in JSON: `p999`.
    pub key: &'static str,
    /// Samples needed for this percentile: ten beyond it.
    pub samples_min: u64,
}

/// The percentiles of a report.
pub const PERCENTILES: [Percentile; 9] = [
    percentile(0.50, "p50", "p50", 1),
    percentile(0.75, "p75", "p75", 1),
    percentile(0.90, "p90", "p90", 100),
    percentile(0.95, "p95", "p95", 200),
    percentile(0.975, "p97.5", "p975", 400),
    percentile(0.99, "p99", "p99", 1_000),
    percentile(0.999, "p99.9", "p999", 10_000),
    percentile(0.9999, "p99.99", "p9999", 100_000),
    percentile(0.99999, "p99.999", "p99999", 1_000_000),
];

const fn percentile(quantile: f64, name: &'static str, key: &'static str, samples_min: u64) -> Percentile {
    Percentile { quantile, name, key, samples_min }
}

impl Percentile {
    /// Finds a percentile by name or key, with or without `p`, case-insensitive: `p99`, `99.9`, `P999`.
    pub fn named(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let text = text.strip_prefix('p').unwrap_or(&text);
        let is = |name: &str| name.strip_prefix('p') == Some(text);
        PERCENTILES.into_iter().find(|percentile| is(percentile.name) || is(percentile.key))
    }

    /// Its value in nanoseconds, if there are enough samples.
    pub fn of(self, histogram: &Histogram) -> Option<u64> {
        (histogram.len() >= self.samples_min && !histogram.is_empty())
            .then(|| histogram.value_at_quantile(self.quantile).min(histogram.max()))
    }
}

/// Samples needed for a quantile: ten beyond it.
pub fn samples_min(quantile: f64) -> u64 {
    if quantile < 0.9 { 1 } else { (10.0 / (1.0 - quantile)).round() as u64 }
}

/// Mean, deviation and extremes, in nanoseconds; all 0 if there are no samples.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spread {
    pub count: u64,
    pub mean: f64,
    pub deviation: f64,
    pub min: u64,
    pub max: u64,
}

impl Spread {
    pub fn of(histogram: &Histogram) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        Self {
            count: histogram.len(),
            mean: histogram.mean(),
            deviation: histogram.stdev(),
            min: histogram.min(),
            max: histogram.max(),
        }
    }

    /// Share of the samples within one deviation of the mean, 0 to 1; `None` if there are no samples.
    pub fn within_deviation(self, histogram: &Histogram) -> Option<f64> {
        let low = (self.mean - self.deviation).max(0.0).ceil() as u64;
        let high = (self.mean + self.deviation).floor() as u64;
        (self.count > 0).then(|| histogram.count_between(low, high) as f64 / self.count as f64)
    }
}

/// The value at any quantile in nanoseconds, 0 if there are no samples; for the layouts of other tools, which
/// print it for any number of samples.
pub fn at(histogram: &Histogram, quantile: f64) -> u64 {
    if histogram.is_empty() { 0 } else { histogram.value_at_quantile(quantile).min(histogram.max()) }
}

pub fn ms(nanoseconds: f64) -> f64 {
    nanoseconds / 1e6
}

/// A duration for people, with about three significant digits: `830 ns`, `12.3 µs`, `4.56 ms`, `1.23 s`, `2
/// min 5 s`.
pub fn duration(nanoseconds: f64) -> String {
    let value = nanoseconds.max(0.0);
    if value < 1e3 {
        format!("{value:.0} ns")
    } else if value < 999_500.0 {
        format!("{} µs", three_digits(value / 1e3))
    } else if value < 999_500_000.0 {
        format!("{} ms", three_digits(value / 1e6))
    } else if value < 119.5e9 {
        format!("{} s", three_digits(value / 1e9))
    } else {
        let seconds = Duration::from_nanos(value as u64).as_secs_f64().round() as u64;
        format!("{} min {} s", seconds / 60, seconds % 60)
    }
}

/// Three significant digits, no exponent.
pub fn three_digits(value: f64) -> String {
    let value_abs = value.abs();
    if value_abs < 9.995 {
        format!("{value:.2}")
    } else if value_abs < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// An integer with commas: `1,234,567`.
pub fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes for people: `512 B`, `12.3 kB`, `4.56 MB`.
pub fn bytes(count: f64) -> String {
    let units = ["kB", "MB", "GB", "TB", "PB"];
    if count < 999.5 {
        return format!("{count:.0} B");
    }
    let mut value = count / 1e3;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1e3;
        unit += 1;
    }
    format!("{} {}", three_digits(value), units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        for value in values {
            histogram.record(value).unwrap();
        }
        histogram
    }

    #[test]
    fn a_percentile_without_samples_enough_is_not_said() {
        let (p50, p99) = (Percentile::named("p50").unwrap(), Percentile::named("99").unwrap());
        assert_eq!(p50.of(&histogram([])), None);
        assert_eq!(p50.of(&histogram([7])), Some(7));
        assert_eq!(p99.of(&histogram(1..=999)), None);
        assert_eq!(p99.of(&histogram(1..=1_000)), Some(990));
    }

    #[test]
    fn percentiles_have_names_and_keys() {
        for percentile in PERCENTILES {
            assert_eq!(Percentile::named(percentile.name), Some(percentile));
            assert_eq!(Percentile::named(percentile.key), Some(percentile));
            assert_eq!(samples_min(percentile.quantile), percentile.samples_min);
        }
        assert_eq!(Percentile::named("p42"), None);
    }

    #[test]
    fn spread_of_nothing_is_nothing_and_of_equals_has_no_deviation() {
        assert_eq!(Spread::of(&histogram([])), Spread::default());
        let equal = histogram([5, 5, 5]);
        let spread = Spread::of(&equal);
        assert_eq!((spread.count, spread.min, spread.max), (3, 5, 5));
        assert_eq!(spread.within_deviation(&equal), Some(1.0));
    }

    #[test]
    fn numbers_are_written_for_readers() {
        let durations = [12.0, 12_345.0, 999_600.0, 4_560_000.0, 1_230_000_000.0, 125e9].map(duration);
        assert_eq!(durations, ["12 ns", "12.3 µs", "1.00 ms", "4.56 ms", "1.23 s", "2 min 5 s"]);
        assert_eq!([0, 999, 1_000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([12.0, 999.9, 1_234_567.0].map(bytes), ["12 B", "1.00 kB", "1.23 MB"]);
    }
}
