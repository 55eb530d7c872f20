//! Whether the target kept up with the rate of an open loop.
//!
//! Answers that come after the end are waited for, so that a target which handles half of the rate may answer
//! everything a moment later, and so may a target whose answers are slow by nature. Therefore the answers
//! within the time decide first, and then whether response times grow: if the target handles a share s of the
//! rate, a request that is answered at the time t was due at s × t, so response times grow by 1 − s for each
//! second of the run. Those of a target that keeps up do not grow, however slow it is.

use super::{Check, Level, percent};
use crate::report::spread::thousands;
use crate::{Load, Plan, Report, Window};

/// A target that answers less of the rate does not keep up.
const KEPT_UP: f64 = 0.97;
/// So many requests may be under way at the end: a queue at 80 to 90 % of its capacity holds 2 to 5.
const QUEUE_SPARE: f64 = 5.0;
/// Response times must have grown by this many standard errors more than is allowed.
const ERRORS_SPARE: f64 = 2.0;

pub(super) fn overload(plan: &Plan, report: &Report) -> Option<Check> {
    let Load::Open { rate, .. } = plan.load else { return None };
    if report.offered == 0 {
        return None;
    }
    let counts = report.counts;
    let share = |answers: u64| answers as f64 / report.offered as f64;
    let (in_time, at_all) = (counts.completed + counts.carried_in, counts.completed + counts.late);
    let is_late = share(in_time) + QUEUE_SPARE / (report.offered as f64) < KEPT_UP;
    let never = share(at_all.max(in_time)) < KEPT_UP || report.unsent * 100 > report.offered;
    let level =
        if never || (is_late && is_falling_behind(&report.windows)) { Level::Fault } else { Level::Fine };
    // Where it kept up, those on their way at the end are no sign of anything.
    let answered = if level == Level::Fault { share(in_time) } else { share(at_all.max(in_time)) };
    Some(
        Check::graded("overload", "answered of the rate asked for", level)
            .found(percent(answered.min(1.0)), percent(KEPT_UP))
            .means(format!(
                "the target answered {} of the {} requests/s asked for, so latencies only say how long the run was; \
                 ask for a lower --rate",
                thousands(report.per_second().round() as u64),
                thousands(rate.round() as u64)
            )),
    )
}

/// Whether response times grew by more than at [`KEPT_UP`] of the rate, and by more than chance explains.
fn is_falling_behind(windows: &[Window]) -> bool {
    let points: Vec<(f64, f64)> = windows
        .iter()
        .filter_map(|window| {
            Some(((window.start + window.length / 2).as_secs_f64(), window.p50?.as_secs_f64()))
        })
        .collect();
    let Some((slope, error)) = slope(&points) else { return false };
    slope > 1.0 - KEPT_UP + ERRORS_SPARE * error
}

/// The slope of the line through points by least squares, and its standard error; `None` for fewer than three
/// points, or points of one moment.
fn slope(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    if points.len() < 3 {
        return None;
    }
    let mean = |pick: fn(&(f64, f64)) -> f64| points.iter().map(pick).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    if spread <= 0.0 {
        return None;
    }
    let slope = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>() / spread;
    let residual: f64 = points.iter().map(|(x, y)| (y - mean_y - slope * (x - mean_x)).powi(2)).sum();
    Some((slope, (residual / (count - 2.0) / spread).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_has_its_error() {
        let line: Vec<(f64, f64)> = (0..10).map(|x| (f64::from(x), 3.0 + 0.5 * f64::from(x))).collect();
        let (slope_of_line, error) = slope(&line).unwrap();
        assert!((slope_of_line - 0.5).abs() < 1e-9 && error < 1e-6, "{slope_of_line} ± {error}");
        let noisy: Vec<(f64, f64)> = (0..10).map(|x| (f64::from(x), f64::from(x % 2))).collect();
        let (slope_of_noise, error) = slope(&noisy).unwrap();
        assert!(slope_of_noise.abs() < 2.0 * error, "{slope_of_noise} ± {error}");
        assert_eq!(slope(&line[..2]), None);
        assert_eq!(slope(&[(1.0, 1.0); 5]), None);
    }
}
