//! Checks of steadiness: a run that is too short, a target that dies, drift over the run, and CPU taken by others.

use std::time::Duration;

use super::{Check, Level, percent};
use crate::report::spread::{at, duration};
use crate::{EarlyEnd, HttpVersion, Load, Plan, Report, Stop, Think};

/// Thirds of a shorter run are too short to compare.
const DRIFT_ELAPSED_MIN: Duration = Duration::from_secs(3);
/// The minimum number of windows.
const DRIFT_WINDOWS_MIN: usize = 15;
/// A change below this many standard errors is noise.
const ERRORS_OF_MEAN: f64 = 4.0;

/// From this share of the run on, a target that is gone is a fault: figures by the second are then too low by as much.
const SILENCE_FAULT: f64 = 0.05;

/// A run should be at least this many response times long: the rate is right to one part in as many.
const ROUNDS_MIN: f64 = 10.0;

/// Whether a closed loop was long enough: each connection gets one answer for each response time, so that the rate of a
/// shorter run says how many of them fitted in.
pub(super) fn length(plan: &Plan, report: &Report) -> Option<Check> {
    let is_timed = matches!((plan.load, plan.stop), (Load::Closed { think: Think::None }, Stop::Duration(_)));
    let is_pushed = plan.http == HttpVersion::EventStream;
    if !is_timed || is_pushed || report.stopped_early() || report.response.is_empty() {
        return None;
    }
    let median = at(&report.response, 0.5) as f64;
    let elapsed = report.elapsed.as_nanos() as f64;
    let rounds = elapsed / median.max(1.0);
    let level = match rounds {
        ..1.0 => Level::Fault,
        1.0..ROUNDS_MIN => Level::Warning,
        _ => Level::Fine,
    };
    let meaning = if level == Level::Fault {
        format!(
            "half of the answers took {} or more, longer than the run of {}: there is no rate to measure",
            duration(median),
            duration(elapsed)
        )
    } else {
        format!(
            "the run was only {rounds:.1} times as long as an answer takes ({}), so that requests/s is a rough figure; \
             `-d` makes it longer",
            duration(median)
        )
    };
    Some(
        Check::graded("length", "length of the run, in response times", level)
            .found(format!("{rounds:.1}"), format!("{ROUNDS_MIN:.0}"))
            .means(meaning),
    )
}

/// From this share of the CPU on, other programs count. It is that of `compare`, whose blocks beside others are repeated.
const OTHERS_MAX: f64 = 0.05;

/// Whether other programs had used the CPUs that target and generator needed. A warning at most: what of their work
/// belongs to the target is unknown.
pub(super) fn others(report: &Report) -> Option<Check> {
    let share = report.host.others?;
    Some(
        Check::graded("other_programs", "CPU of other programs, before and after", Level::above(share, OTHERS_MAX, 1.0))
            .found(percent(share), percent(OTHERS_MAX))
            .means(format!(
                "other programs used the CPU before and after the run ({} of it), and all CPUs were busy in it: the target \
                 had less CPU than it has alone",
                percent(share)
            )),
    )
}

/// Whether the target went away: it had answered, and from some moment to the end connections failed and nothing was answered.
pub(super) fn silence(report: &Report) -> Option<Check> {
    if report.early_end == Some(EarlyEnd::TargetGone) {
        let what = "time without answers at the end, until the run ended early";
        return Some(Check::graded("silence", what, Level::Fault).found("the whole timeout", "none").means(
            "the target could not be reached any more, and the run ended before all of its requests were made: \
             it went away",
        ));
    }
    let last = report.windows.iter().rposition(|window| window.completed > 0)?;
    let after = &report.windows[last + 1..];
    let from = after.first()?.start;
    if report.connections.failed == 0 || after.iter().all(|window| window.errors == 0) {
        return None;
    }
    let share = report.elapsed.saturating_sub(from).as_secs_f64() / report.elapsed.as_secs_f64().max(1e-9);
    let level = if share > SILENCE_FAULT { Level::Fault } else { Level::Warning };
    let (from, elapsed) = (from.as_secs_f64(), report.elapsed.as_secs_f64());
    Some(
        Check::graded("silence", "time without answers at the end, while connections fail", level)
            .found(percent(share), "none")
            .means(format!(
                "the target answered nothing from second {from:.1} to the end at {elapsed:.1}, and connections failed: it went away"
            )),
    )
}

/// Compares the rate of the last third with the first.
pub(super) fn drift(report: &Report) -> Option<Check> {
    let full = report.windows.iter().map(|window| window.length).max()?;
    let rates: Vec<f64> = report
        .windows
        .iter()
        .filter(|window| window.length * 10 >= full * 9)
        .map(|window| window.completed as f64 / window.length.as_secs_f64())
        .collect();
    let is_short = report.elapsed < DRIFT_ELAPSED_MIN || rates.len() < DRIFT_WINDOWS_MIN;
    if is_short || report.stopped_early() || silence(report).is_some() {
        return None;
    }
    let third = rates.len() / 3;
    let (first, last) = (moments(&rates[..third]), moments(&rates[rates.len() - third..]));
    // Without answers at the beginning there is nothing to compare with.
    let base = if first.0 > 0.0 { first.0 } else { moments(&rates).0 };
    if base <= 0.0 {
        return None;
    }
    let change = (last.0 - first.0) / base;
    let noise = ((first.1 + last.1) / third as f64).sqrt() / base;
    let significant = change.abs() > ERRORS_OF_MEAN * noise;
    let level = if significant { Level::above(change.abs(), 0.02, 0.2) } else { Level::Fine };
    let word = if change < 0.0 { "fell" } else { "rose" };
    Some(
        Check::graded("drift", "rate, last third against first", level)
            .found(
                format!("{:+.1} % (noise ± {:.1} %)", change * 100.0, ERRORS_OF_MEAN * noise * 100.0),
                "2 % beyond noise",
            )
            .means(if last.0 > 0.0 {
                format!(
                    "the rate {word} by {} during the run: the target was still warming up, or was slowed \
                     down; try --warmup",
                    percent(change.abs())
                )
            } else {
                "the target answered nothing in the last third of the run".to_owned()
            }),
    )
}

fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    (mean, variance)
}

/// CPU taken by the hypervisor or by a cgroup limit.
pub(super) fn stolen(report: &Report) -> Option<Check> {
    let host = report.host;
    if host.steal.is_none() && host.throttled.is_none() {
        return None;
    }
    let steal = host.steal.unwrap_or(0.0);
    let seconds = report.elapsed.as_secs_f64().max(1e-9);
    let throttled = host.throttled.unwrap_or_default().as_secs_f64() / seconds;
    let worst = steal.max(throttled);
    let mut level = Level::above(worst, 0.01, 0.05);
    if host.throttled_times.unwrap_or(0) > 0 {
        level = level.max(Level::Warning);
    }
    let what = if throttled > 0.0 || host.throttled_times.unwrap_or(0) > 0 {
        format!("this process was throttled by its cgroup for {} of the time", percent(throttled))
    } else {
        format!("the hypervisor took {} of the CPU", percent(steal))
    };
    Some(
        Check::graded("throttling", "CPU taken away", level)
            .found(format!("stolen {}, throttled {}", percent(steal), percent(throttled)), "1 %; 5 %")
            .means(what),
    )
}
