//! Whether a change has helped: compares requests per second, or latency if clients set the rate, before and
//! after it.

use super::{App, Signs};

/// A change with a smaller gain is reverted.
const GAIN_MIN: f64 = 0.03;
/// A median latency must fall by at least this share.
const LATENCY_GAIN_MIN: f64 = 0.1;
/// Differences up to this many standard errors count as chance.
const ERRORS: f64 = 2.5;
/// Minimum seconds of a window for a comparison.
const SECONDS_MIN: usize = 5;

/// The result of a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// The factor of requests per second.
    MoreRequests(f64),
    /// The new median latency as a share of the old, at the same rate.
    LessLatency(f64),
    /// The difference is too small or may be chance: the factor of requests per second.
    NoGain(f64),
    /// One of the windows had no requests.
    NotMeasured,
}

impl Outcome {
    /// Whether the change is worth keeping.
    pub const fn is_gain(self) -> bool {
        matches!(self, Self::MoreRequests(_) | Self::LessLatency(_))
    }
}

/// Mean and standard error over the seconds.
#[derive(Debug, Clone, Copy)]
struct Level {
    mean: f64,
    error: f64,
}

impl Level {
    fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        if values.len() < SECONDS_MIN {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Self { mean, error: (squares / (count - 1.0) / count).sqrt() })
    }

    /// By how much `other` is certainly larger.
    fn surely_less_than(self, other: Self) -> f64 {
        other.mean - self.mean - ERRORS * self.error.hypot(other.error)
    }
}

/// Compares an app before and after a change.
pub fn compare(before: &App, after: &App) -> Outcome {
    let requests = |app| Level::of(&per_second(app, |signs| signs.requests, |sum, _| sum));
    let (Some(old), Some(new)) = (requests(before), requests(after)) else { return Outcome::NotMeasured };
    if old.mean <= 0.0 || new.mean <= 0.0 {
        return Outcome::NotMeasured;
    }
    let factor = new.mean / old.mean;
    if old.surely_less_than(new) > GAIN_MIN * old.mean {
        return Outcome::MoreRequests(factor);
    }
    let latency =
        |app| Level::of(&per_second(app, |signs| signs.latency_p50_ms, |sum, workers| sum / workers));
    if let (Some(old), Some(new)) = (latency(before), latency(after))
        && factor > 1.0 - GAIN_MIN
        && new.surely_less_than(old) > LATENCY_GAIN_MIN * old.mean
    {
        return Outcome::LessLatency(new.mean / old.mean);
    }
    Outcome::NoGain(factor)
}

/// A value summed over all workers, for each second in which a worker has one.
fn per_second(
    app: &App,
    value: impl Fn(&Signs) -> Option<f64>,
    together: impl Fn(f64, f64) -> f64,
) -> Vec<f64> {
    let seconds = app.workers.iter().map(|worker| worker.seconds.len()).max().unwrap_or(0);
    let second = |at: usize| {
        let known: Vec<f64> =
            app.workers.iter().filter_map(|worker| value(worker.seconds.get(at)?)).collect();
        (!known.is_empty()).then(|| together(known.iter().sum(), known.len() as f64))
    };
    (0..seconds).filter_map(second).collect()
}
