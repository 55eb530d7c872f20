//! The progress display while the load runs.

use std::time::Duration;

use forkful_load::report::spread::{duration, thousands};
use forkful_load::{Phase, Progress};

/// Rate, percentiles and errors of the last interval.
pub(super) fn line(progress: &Progress) -> String {
    let phase = match progress.phase {
        Phase::Connecting => "connecting",
        Phase::Ramp => "ramp",
        Phase::Warmup => "warm-up",
        Phase::Measuring => "",
        Phase::Draining => "waiting for the last answers",
    };
    let time = |time: Option<Duration>| time.map_or("–".to_owned(), |time| duration(time.as_nanos() as f64));
    let mut parts = vec![
        format!("{}/s", thousands(progress.per_second.round() as u64)),
        format!("p50 {}", time(progress.p50)),
        format!("p99 {}", time(progress.p99)),
        format!("{} errors", thousands(progress.errors)),
        format!("{} open", thousands(progress.open_connections)),
    ];
    if progress.backlog > 0 {
        parts.push(format!("{} waiting", thousands(progress.backlog)));
    }
    if !phase.is_empty() {
        parts.insert(0, phase.to_owned());
    }
    parts.join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_rate_percentiles_and_errors() {
        let mut progress = Progress {
            phase: Phase::Measuring,
            elapsed: Duration::from_secs(1),
            done: 0.1,
            started: 1_000,
            completed: 999,
            failed: 1,
            errors: 1,
            per_second: 12_345.6,
            p50: Some(Duration::from_micros(1_500)),
            p99: None,
            answered: 999,
            response_sum: Duration::from_secs(2),
            open_connections: 64,
            backlog: 0,
        };
        assert_eq!(line(&progress), "12,346/s  p50 1.50 ms  p99 –  1 errors  64 open");
        progress.phase = Phase::Warmup;
        progress.backlog = 7;
        assert_eq!(line(&progress), "warm-up  12,346/s  p50 1.50 ms  p99 –  1 errors  64 open  7 waiting");
    }
}
