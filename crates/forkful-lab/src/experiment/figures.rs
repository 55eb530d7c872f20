//! Figures and plots from the load engine's reports.

use forkful_load::report::Check;
use forkful_load::report::spread::samples_min;
use forkful_load::{Histogram, Report};
use serde_json::{Value, json};

use super::document::time;
use crate::measure::percentile_ms;

/// A generator thread above this share of a core influences the measurement.
const GENERATOR_BUSY_MAX: f64 = 0.8;

/// Allowed deviation of connections from rate × mean latency (Little's law) in a closed loop.
const LITTLE_TOLERANCE: f64 = 0.10;

/// Percentiles of a spectrum plot.
const SPECTRUM: [f64; 15] =
    [0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 97.5, 99.0, 99.5, 99.9, 99.95, 99.99, 99.999, 100.0];

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Latency {
    pub(super) mean: f64,
    pub(super) p50: f64,
    /// `None` if there are too few samples.
    pub(super) p90: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) max: f64,
}

impl Latency {
    pub(super) fn of(histogram: &Histogram) -> Self {
        let at = |percentile: f64| milliseconds(histogram.value_at_percentile(percentile));
        Self {
            mean: histogram.mean() / 1e6,
            p50: at(50.0),
            p90: percentile_ms(histogram, 90.0),
            p99: percentile_ms(histogram, 99.0),
            max: milliseconds(histogram.max()),
        }
    }

    /// The highest percentile with enough samples, with its name; empty if that is the median.
    pub(super) fn tail(&self) -> String {
        let named = |name: &str, value: Option<f64>| Some(format!("{name} {}", time(value?)));
        named("p99", self.p99).or_else(|| named("p90", self.p90)).unwrap_or_default()
    }
}

fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

/// A time, or that there are too few samples.
pub(super) fn time_or_few(milliseconds: Option<f64>) -> String {
    milliseconds.map_or_else(|| "unknown (too few requests)".to_owned(), time)
}

/// A series of the percentile plot. Percentiles with fewer than ten samples beyond them are left out.
pub(super) fn spectrum(name: &str, histogram: &Histogram) -> Value {
    let samples = histogram.len();
    let points: Vec<Value> = SPECTRUM
        .iter()
        .filter(|percentile| **percentile >= 100.0 || samples >= samples_min(**percentile / 100.0))
        .map(|percentile| {
            json!([percentile / 100.0, milliseconds(histogram.value_at_percentile(*percentile))])
        })
        .collect();
    json!({"name": name, "points": points, "samples": samples})
}

/// Response times over the measurement, one point for each sampled request.
pub(super) fn over_time(name: &str, report: &Report) -> Value {
    let points: Vec<Value> = report
        .samples
        .iter()
        .map(|sample| json!([sample.at.as_secs_f64(), sample.response.as_secs_f64() * 1000.0]))
        .collect();
    json!({"name": name, "points": points})
}

/// Response times of all requests in ms, shortest first.
pub(super) fn each_response(report: &Report) -> Vec<f64> {
    let mut times: Vec<f64> =
        report.samples.iter().map(|sample| sample.response.as_secs_f64() * 1000.0).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// The busiest generator thread, 0 to 1.
pub(super) fn generator_busy(report: &Report) -> f64 {
    report.threads.iter().map(|thread| thread.busy).fold(0.0, f64::max)
}

/// Whether the generator had capacity left.
pub(super) fn generator_check(busiest: f64) -> Check {
    let ok = busiest < GENERATOR_BUSY_MAX;
    Check::judged("The load generator has room", Some(ok))
        .found(
            format!("{:.0} % of a core", busiest * 100.0),
            format!("below {:.0} %", GENERATOR_BUSY_MAX * 100.0),
        )
        .means(if ok {
            String::new()
        } else {
            "The generator was busy itself and shaped what it measured.".to_owned()
        })
}

pub(super) fn errors_check(errors: u64, requests: u64, words: &str) -> Check {
    Check::judged("Requests that failed", Some(errors == 0))
        .found(format!("{errors} of {requests}"), "none")
        .means(if errors == 0 { String::new() } else { format!("Requests failed: {words}.") })
}

/// The errors of reports by cause, as text.
pub(super) fn error_words<'a>(reports: impl IntoIterator<Item = &'a Report>) -> String {
    let mut words: Vec<String> = Vec::new();
    for error in reports.into_iter().flat_map(|report| &report.errors) {
        let text = error.cause.words().to_owned();
        if !words.contains(&text) {
            words.push(text);
        }
    }
    words.join(", ")
}

/// Closed loop: connections must equal rate × mean latency; otherwise a count is wrong.
pub(super) fn little_check(connections: f64, per_second: f64, mean_ms: f64) -> Check {
    let inside = per_second * mean_ms / 1000.0;
    let ok = (inside / connections - 1.0).abs() <= LITTLE_TOLERANCE;
    // At the end of a short run, connections are idle while the last answers arrive; the law then does not
    // apply.
    Check::judged("Little's law", ok.then_some(true))
        .found(format!("{inside:.1} requests inside"), format!("{connections:.0} connections"))
        .means(if ok {
            String::new()
        } else {
            "Connections were idle for part of the run, as at the end of a fixed number of requests."
                .to_owned()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_need_samples() {
        let mut histogram = forkful_load::Histogram::default();
        let shares = |histogram: &Histogram| -> Vec<f64> {
            let series = spectrum("one", histogram);
            let points = series["points"].as_array().unwrap();
            points.iter().map(|point| point[0].as_f64().unwrap()).collect()
        };
        for value in 1..=100_u64 {
            histogram.record(value * 1_000_000).unwrap();
        }
        assert_eq!(
            shares(&histogram),
            [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0],
            "a hundred carry p90 and no more"
        );
        let latency = Latency::of(&histogram);
        assert!((latency.p50 - 50.0).abs() < 0.1 && (latency.max - 100.0).abs() < 0.2, "{latency:?}");
        assert!(latency.p90.is_some() && latency.p99.is_none(), "{latency:?}");
        assert!(
            latency.tail().starts_with("p90 90") && latency.tail().ends_with(" ms"),
            "{}",
            latency.tail()
        );
        assert_eq!(Latency::default().tail(), "");
        histogram.record_n(1_000_000, 899).unwrap();
        assert_eq!(
            (shares(&histogram).last_chunk::<2>(), Latency::of(&histogram).p99),
            (Some(&[0.975, 1.0]), None)
        );
        histogram.record(1_000_000).unwrap();
        assert_eq!(shares(&histogram).last_chunk::<2>(), Some(&[0.99, 1.0]), "a thousand carry p99");
        assert!(Latency::of(&histogram).tail().starts_with("p99 "));
        assert_eq!([0.5, 0.9, 0.95, 0.99, 0.999].map(samples_min), [1, 100, 200, 1_000, 10_000]);
    }

    #[test]
    fn idle_connections_are_no_fault_but_told() {
        assert_eq!(little_check(10.0, 100.0, 100.0).ok, Some(true));
        assert_eq!(little_check(10.0, 100.0, 50.0).ok, None);
    }
}
