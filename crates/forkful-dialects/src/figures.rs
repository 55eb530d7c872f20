//! Statistics and number formats used by several tools.

use std::time::Duration;

use forkful_load::report::spread::{at, duration};
use forkful_load::{Histogram, LoadError, Report};

/// Appends a line of text.
macro_rules! line {
    ($out:expr) => {
        $out.push('\n')
    };
    ($out:expr, $($text:tt)*) => {{
        $out.push_str(&format!($($text)*));
        $out.push('\n');
    }};
}
pub(crate) use line;

/// `errors by cause: no answer in time: 7; …`.
pub(crate) fn causes(report: &Report) -> String {
    let causes: Vec<String> =
        report.errors.iter().map(|error| format!("{}: {}", error.cause.words(), error.count)).collect();
    format!("errors by cause: {}.", causes.join("; "))
}

/// Quantiles for display.
pub(crate) fn quantiles<const N: usize>(histogram: &Histogram, quantiles: [f64; N]) -> [String; N] {
    quantiles.map(|quantile| duration(at(histogram, quantile) as f64))
}

/// A rate per second; 0 if no time has passed.
pub(crate) fn per_second(report: &Report, value: f64) -> f64 {
    let seconds = report.elapsed.as_secs_f64();
    if seconds > 0.0 { value / seconds } else { 0.0 }
}

/// A number with at most this many decimal places, as JavaScript prints it.
pub(crate) fn decimals(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A whole number with one of the units and its factor; the unit `""` means a bare number.
pub(crate) fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let (_, factor) = units.iter().find(|(unit, _)| *unit == &text[digits.len()..])?;
    digits.trim().parse::<u64>().ok()?.checked_mul(*factor)
}

/// A time in seconds, which is at least 0; the longest one if it is too long. A plan refuses it then.
pub(crate) fn time(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Whether no connection was possible, which some tools report like any other error.
pub(crate) fn found_no_server(error: &LoadError) -> bool {
    matches!(error, LoadError::Unreachable { .. } | LoadError::Resolve { .. })
}

#[cfg(test)]
mod tests {
    use super::decimals;

    #[test]
    fn numbers_are_written_as_javascript_writes_them() {
        let written = [0.084, 0.19, 15.0, 1.01, 2.50].map(|value| decimals(value, 3));
        assert_eq!(written, ["0.084", "0.19", "15", "1.01", "2.5"]);
        assert_eq!(decimals(100.0, 0), "100");
    }
}
