//! Checks of the generator: its CPU, its delays, and whether its numbers are consistent.

use std::time::Duration;

use super::{Check, Level, percent};
use crate::report::findings::{WorkerShare, Workers};
use crate::report::spread::{at, duration, thousands};
use crate::system::MACHINE_FULL;
use crate::{Load, Plan, Report, Think};

/// A busier thread influences the result; measurements showed distortion at 81 to 91 %.
const BUSY_WARNING: f64 = 0.8;
/// From here on the generator is the bottleneck.
const BUSY_FAULT: f64 = 0.9;
/// From this share on, a thread or process counts as CPU-bound.
const BUSY_LIMIT: f64 = 0.85;
/// In a shorter run the CPU of other processes is not meaningful: it is counted in 1/100 s.
const WORKERS_ELAPSED_MIN: Duration = Duration::from_secs(1);
/// In a shorter run CPU shares are not meaningful.
const CPU_ELAPSED_MIN: Duration = Duration::from_millis(200);

/// CPU of the busiest thread, and the generator's estimated maximum rate.
pub(super) fn cpu(report: &Report) -> Option<Check> {
    if report.elapsed < CPU_ELAPSED_MIN {
        return None;
    }
    let busiest = report.threads.iter().map(|thread| thread.busy).fold(f64::NAN, f64::max);
    if busiest.is_nan() {
        return None;
    }
    let ceiling = if busiest > 0.0 { report.per_second() / busiest } else { 0.0 };
    let above = if ceiling >= 1.0 {
        format!("; it could make about {} requests/s like these", thousands(two_digits(ceiling)))
    } else {
        String::new()
    };
    let threads = report.threads.len();
    let of = if threads == 1 {
        "of its thread".to_owned()
    } else {
        format!("of the busiest of {threads} threads")
    };
    Some(
        Check::graded("generator_cpu", "generator CPU", Level::above(busiest, BUSY_WARNING, BUSY_FAULT))
            .found(format!("{} {of}{above}", percent(busiest)), "80 %; from 90 % on it is the bottleneck")
            .means(format!(
                "the generator was the bottleneck ({} CPU of a thread): the target can do more than \
                 this; use more --threads, or another machine",
                percent(busiest)
            )),
    )
}

/// In a closed loop without pauses something is at its limit: a worker, the generator, or what both wait for.
pub(super) fn bottleneck(plan: &Plan, report: &Report, workers: &Workers) -> Option<Check> {
    if plan.load != (Load::Closed { think: Think::None }) || report.elapsed < WORKERS_ELAPSED_MIN {
        return None;
    }
    let share = |worker: &WorkerShare| Some(worker.cpu_seconds? / report.elapsed.as_secs_f64());
    let shares: Vec<f64> = workers.workers.iter().map(share).collect::<Option<_>>()?;
    let worker = shares.into_iter().reduce(f64::max)?;
    let thread = report.threads.iter().map(|thread| thread.busy).reduce(f64::max)?;
    let limit = match report.host.busy {
        Some(busy) if busy > MACHINE_FULL => {
            format!("all CPUs of the machine together are {} busy", percent(busy))
        }
        _ => "the limit is elsewhere: a database, a timer, a lock, too few connections".to_owned(),
    };
    Some(
        Check::graded(
            "bottleneck",
            "busiest worker, busiest thread of the generator",
            if worker.max(thread) > BUSY_LIMIT { Level::Fine } else { Level::Note },
        )
        .found(format!("{}, {} of a core", percent(worker), percent(thread)), "85 %")
        .means(format!("neither the generator nor a worker is near its limit; {limit}")),
    )
}

/// Two significant digits, because it is an estimate.
fn two_digits(value: f64) -> u64 {
    let scale = 10_f64.powf((value.max(1.0).log10().floor() - 1.0).max(0.0));
    ((value / scale).round() * scale) as u64
}

/// In an open loop, which sends the next request at its time all the same, shorter waits are no distortion.
const OPEN_RESIDENCY_MIN_NS: f64 = 1e6;

/// How long the generator kept answers waiting, relative to the reported latency: in a closed loop, this
/// delays the next request.
pub(super) fn residency(plan: &Plan, report: &Report) -> Option<Check> {
    if report.residency.len() < 100 || report.response.is_empty() {
        return None;
    }
    let p99 = at(&report.residency, 0.99) as f64;
    let share = p99 / (at(&report.response, 0.5) as f64).max(1.0);
    let is_short = matches!(plan.load, Load::Open { .. }) && p99 < OPEN_RESIDENCY_MIN_NS;
    Some(
        Check::graded(
            "batch_residency",
            "answers waiting in the generator, p99",
            if is_short { Level::Fine } else { Level::above(share, 0.1, 0.5) },
        )
        .found(format!("{} ({} of the median latency)", duration(p99), percent(share)), "10 % of the median")
        .means(format!(
            "1 % of the answers waited {} or more in the generator itself, {} of the median latency",
            duration(p99),
            percent(share)
        )),
    )
}

/// Little's law: requests under way = rate × response time. In a closed loop that is the number of
/// connections.
pub(super) fn little(plan: &Plan, report: &Report) -> Option<Check> {
    if plan.load != (Load::Closed { think: Think::None }) || report.stopped_early() {
        return None;
    }
    // HTTP/2: the server may allow fewer streams than the plan has.
    let each = match report.connections.streams {
        0 => plan.pipelining.max(1) as u64,
        streams => streams,
    };
    // With a connection for each request, a request is under way from the start, also while the connection is
    // established.
    let slots =
        if plan.reuse.is_one_each() { report.connections.asked } else { report.connections.reached * each };
    let samples = report.total.len();
    // The beginning, the end, and failures without a sample must be negligible.
    if slots == 0 || samples < 50 * slots || report.counts.failed * 100 > samples {
        return None;
    }
    let seconds = report.elapsed.as_secs_f64();
    let held = report.unread.as_secs_f64();
    let under_way = (samples as f64 * report.total.mean() / 1e9 + held) / seconds;
    let off = (under_way / slots as f64 - 1.0).abs();
    Some(
        Check::graded("littles_law", "Little's law", Level::above(off, 0.05, 0.15))
            .found(format!("rate × mean latency = {under_way:.1} of {slots} under way"), "within 5 %")
            .means(format!(
                "rate and latency do not fit together ({} off): connections were idle, or time is \
                 unaccounted for",
                percent(off)
            )),
    )
}

/// Open loop: how late requests were sent.
pub(super) fn slip(plan: &Plan, report: &Report) -> Option<Check> {
    if !matches!(plan.load, Load::Open { .. }) || report.slip.is_empty() {
        return None;
    }
    let p99 = at(&report.slip, 0.99) as f64;
    let limit = (at(&report.response, 0.5) as f64 * 0.05).max(1e6);
    Some(
        Check::graded("send_slip", "sent late, p99", Level::above(p99, limit, limit * 10.0))
            .found(duration(p99), duration(limit))
            .means(format!(
                "1 % of the requests were sent {} late or more; that is part of their latency",
                duration(p99)
            )),
    )
}

/// Shorter pauses are normal on a machine that others use as well.
const STILL_MIN: Duration = Duration::from_millis(100);
/// From this share of the run on, the results are those of the generator's pauses.
const STILL_FAULT: f64 = 0.2;

/// Whether the generator itself did not run: what it waited for had arrived meanwhile.
pub(super) fn stood_still(report: &Report) -> Option<Check> {
    let longest = report.threads.iter().map(|thread| thread.stood_still_max).max()?;
    let median = Duration::from_nanos(at(&report.response, 0.5));
    let share = longest.as_secs_f64() / report.elapsed.as_secs_f64().max(1e-9);
    let level = match longest > STILL_MIN.max(median) {
        true if share > STILL_FAULT => Level::Fault,
        true => Level::Warning,
        false => Level::Fine,
    };
    let words = |duration_of: Duration| duration(duration_of.as_nanos() as f64);
    Some(
        Check::graded("generator_stood_still", "longest time that the generator did not run", level)
            .found(words(longest), format!("{}, and the median latency", words(STILL_MIN)))
            .means(format!(
                "the generator did not run for {}: it had no core, or was stopped; the longest latencies are its own",
                words(longest)
            )),
    )
}
