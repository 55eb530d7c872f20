//! Measures arms in interleaved blocks of random order, each on a fresh server. The difference between two
//! arms of a block then does not include changes of the machine over time.

use std::fmt::Display;
use std::time::{Duration, Instant};

use forkful_core::spec::AppSpec;
use forkful_load::report::Check;
use forkful_load::{Histogram, Phase, Plan, Progress, Report, Stop, StopHandle, run};
use serde_json::{Value, json};

use super::document::{Document, number};
use super::figures::{self, Latency};
use super::observe::{self, Observer, Watched, now_ms};
use super::remaining::{Remaining, words};
use super::setting::{START_TIMEOUT, Setting};
use crate::LabError;
use crate::arms::Arm;
use crate::measure::{machine_use, percentile_ms};
use crate::server::{Server, StartOptions};
use crate::statistics::paired::{Interval, log_ratios, mean, t_interval};
use crate::statistics::steadiness::disturbance;
use crate::target::Target;
use forkful_core::random::Random;

/// Requests to every worker before the clock starts, and for how long at least: V8 compiles CPU-heavy code
/// within the first requests, but code that runs for a fraction of a millisecond only after thousands.
const WARM_UP_REQUESTS: u64 = 4;
const WARM_UP: Duration = Duration::from_secs(1);

/// A window of at least this length without an answer is not repeated.
const WINDOW_MAX: Duration = Duration::from_secs(10);

/// One arm in one block.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) block: u32,
    pub(super) report: Report,
    pub(super) latency: Latency,
    /// CPU time per answer of all of the server's processes, in ms.
    pub(super) cpu_ms: f64,
    pub(super) workers: Vec<Watched>,
    /// Other processes, or the host, took CPU meanwhile.
    pub(super) is_disturbed: bool,
}

/// One arm in all blocks.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) arm: Arm,
    pub(super) measured: Vec<Measured>,
}

/// The measurement to perform.
pub(super) struct Task<'a> {
    pub(super) arms: Vec<Arm>,
    pub(super) target: Target,
    pub(super) blocks: u32,
    /// Creates the load for a server's address.
    pub(super) plan: &'a dyn Fn(&str) -> Result<Plan, LabError>,
}

/// Measures all arms in all blocks.
pub(super) fn measure(
    task: &Task<'_>,
    setting: &Setting,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Series>, LabError> {
    let mut random = Random::new(setting.seed);
    let mut series: Vec<Series> =
        task.arms.iter().map(|arm| Series { arm: arm.clone(), measured: Vec::new() }).collect();
    let mut remaining = Remaining::of(task.arms.len(), task.blocks);
    for block in 1..=task.blocks {
        let mut order: Vec<usize> = (0..series.len()).collect();
        random.shuffle(&mut order);
        for index in order {
            let arm = series[index].arm.clone();
            let text = format!("block {block} of {}: {}", task.blocks, arm.label);
            say(&text);
            let (began, mut told) = (Instant::now(), String::new());
            let mut watch = |progress: &Progress| {
                let done = if progress.phase == Phase::Measuring { progress.done } else { 0.0 };
                let left = remaining.about(index, began.elapsed(), done).map_or_else(String::new, words);
                if left != told {
                    say(&format!("{text}{left}"));
                    told = left;
                }
            };
            let measured = one(task, setting, &arm, block, &mut watch)?;
            series[index].measured.push(measured);
            remaining.took(index, began.elapsed());
        }
    }
    Ok(series)
}

fn one(
    task: &Task<'_>,
    setting: &Setting,
    arm: &Arm,
    block: u32,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Measured, LabError> {
    let observer = Observer::new(false)?;
    let server = start(setting, arm, &task.target, &observer)?;
    let address = server.address().to_string();
    let mut load = (task.plan)(&address)?;
    warm_up(&load, arm, setting)?;
    loop {
        let (before, from) = (server.used(false), now_ms());
        let report = watched(&load, arm, &setting.stop, watch)?;
        let to = now_ms();
        let cpu = server.used(false).cpu_since(&before);
        let answers = report.counts.completed + report.counts.late;
        if answers > 0 {
            return Ok(Measured {
                block,
                latency: Latency::of(&report.response),
                cpu_ms: cpu.as_secs_f64() * 1000.0 / answers as f64,
                workers: observer.seen_whole(from, to),
                is_disturbed: disturbance(&machine_use(&report, cpu)).is_some(),
                report,
            });
        }
        load.stop =
            longer(load.stop, report.errors_total()).ok_or_else(|| unanswered(arm, &report, &server))?;
    }
}

/// Twice the time of a window that ended before its first answer, as on a machine that stood still
/// meanwhile; `None` when another window would not help: requests failed, or the time was long already.
fn longer(stop: Stop, failed: u64) -> Option<Stop> {
    match stop {
        Stop::Duration(time) if failed == 0 && time < WINDOW_MAX => Some(Stop::Duration(time * 2)),
        _ => None,
    }
}

/// Sends a few requests; if they are very fast, also runs the load itself for a while.
fn warm_up(load: &Plan, arm: &Arm, setting: &Setting) -> Result<(), LabError> {
    let began = Instant::now();
    let workers = u64::from(arm.runner.workers());
    let mut few = load.clone();
    few.stop = Stop::Requests(workers * WARM_UP_REQUESTS);
    few.connections = workers as usize * 2;
    perform(&few, arm, &setting.stop)?;
    let left = WARM_UP.saturating_sub(began.elapsed());
    if left > WARM_UP / 2 {
        let mut more = load.clone();
        more.stop = Stop::Duration(left);
        perform(&more, arm, &setting.stop)?;
    }
    Ok(())
}

/// Runs a load on an arm. A load that the user stopped is not a result.
pub(super) fn perform(plan: &Plan, arm: &Arm, stop: &StopHandle) -> Result<Report, LabError> {
    watched(plan, arm, stop, &mut |_| {})
}

fn watched(
    plan: &Plan,
    arm: &Arm,
    stop: &StopHandle,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Report, LabError> {
    // What was under way when the user stopped is no result, so that its answers are not waited for.
    let outcome = run(plan, watch, &stop.always_at_once());
    if stop.is_stopped() {
        return Err(LabError::Interrupted);
    }
    outcome.map_err(LabError::load(&arm.name))
}

/// A load on a path of a server.
pub(super) fn load(address: impl Display, path: &str) -> Result<Plan, LabError> {
    Plan::get(&format!("http://{address}{path}")).map_err(LabError::load("the load"))
}

/// Fails if no request has an answer.
pub(super) fn unanswered(arm: &Arm, report: &Report, server: &Server) -> LabError {
    let total = report.counts.started;
    let without_answer = total.saturating_sub(report.counts.completed + report.counts.late);
    LabError::Errors {
        arm: arm.name.clone(),
        failed: without_answer.max(report.errors_total()),
        total,
        cause: figures::error_words([report]),
        refused: None,
        tail: server.tail(),
    }
}

/// Starts the experiment's app as an arm, with observation.
pub(super) fn start(
    setting: &Setting,
    arm: &Arm,
    target: &Target,
    observer: &Observer,
) -> Result<Server, LabError> {
    start_app(&setting.app, setting, arm, target, observer)
}

/// The same with a modified app.
pub(super) fn start_app(
    app: &AppSpec,
    setting: &Setting,
    arm: &Arm,
    target: &Target,
    observer: &Observer,
) -> Result<Server, LabError> {
    let app = observer.watch(app);
    Server::start(&StartOptions {
        app: &app,
        arm,
        target,
        forkful: &setting.forkful,
        port: None,
        start_timeout: START_TIMEOUT,
        stop: &setting.stop,
    })
}

impl Series {
    /// The mean of a figure over all blocks.
    pub(super) fn mean(&self, figure: impl Fn(&Measured) -> f64) -> f64 {
        mean(&self.measured.iter().map(figure).collect::<Vec<_>>())
    }

    /// The ratio to another arm over the blocks, with its interval.
    pub(super) fn ratio_to(&self, baseline: &Self, figure: impl Fn(&Measured) -> f64) -> Option<Interval> {
        let pairs = self.measured.iter().filter_map(|measured| {
            let other = baseline.measured.iter().find(|other| other.block == measured.block)?;
            Some((figure(other), figure(measured)))
        });
        t_interval(&log_ratios(pairs), 0.95)
    }

    /// A tail percentile in milliseconds: the mean over blocks if each has enough samples, otherwise that of
    /// all blocks merged; `None` if even these are too few.
    pub(super) fn percentile(&self, percentile: f64) -> Option<f64> {
        let of = |measured: &Measured| percentile_ms(&measured.report.response, percentile);
        let each: Option<Vec<f64>> = self.measured.iter().map(of).collect();
        each.filter(|each| !each.is_empty())
            .map(|each| mean(&each))
            .or_else(|| percentile_ms(&self.merged(), percentile))
    }

    /// Response times of all blocks merged.
    pub(super) fn merged(&self) -> Histogram {
        Histogram::of_all(self.measured.iter().map(|measured| &measured.report.response))
    }

    fn errors(&self) -> u64 {
        self.measured.iter().map(|measured| measured.report.errors_total()).sum()
    }

    /// A row of the table of arms.
    fn row(&self) -> Value {
        json!({
            "name": self.arm.name,
            "what": self.arm.label,
            "workers": self.arm.runner.workers(),
            "requests_per_second": self.mean(|measured| measured.report.per_second()),
            "mean_ms": self.mean(|measured| measured.latency.mean),
            "p50_ms": self.mean(|measured| measured.latency.p50),
            "p90_ms": self.percentile(90.0),
            "p99_ms": self.percentile(99.0),
            "max_ms": self.measured.iter().map(|measured| measured.latency.max).fold(0.0, f64::max),
            "cpu_per_request_ms": self.mean(|measured| measured.cpu_ms),
            "errors": self.errors(),
        })
    }
}

/// Adds what every such measurement shows: a row for each arm, plots, checks.
pub(super) fn show(document: &mut Document, series: &[Series], connections: usize) {
    document.arms = series.iter().map(Series::row).collect();
    document.plots.extend(plots(series));
    for check in checks(series, connections) {
        document.check(check);
    }
    let windows = series.iter().flat_map(|one| &one.measured);
    let check = undisturbed(windows.clone().filter(|one| one.is_disturbed).count(), windows.count());
    if check.ok != Some(true) {
        document.details.push(check.meaning.clone());
    }
    document.check(check);
}

/// Plots of every such measurement: blocks, differences, spectrum, requests per worker, event-loop
/// utilisation.
fn plots(series: &[Series]) -> Vec<Value> {
    let mut plots = vec![blocks_plot(series)];
    plots.extend(ratios_plot(series));
    let spectra: Vec<Value> =
        series.iter().map(|one| figures::spectrum(&one.arm.name, &one.merged())).collect();
    plots.push(json!({
        "type": "percentiles", "title": "The whole latency spectrum", "unit": "ms", "series": spectra,
        "note": "All blocks together. A closed loop: each connection asks again when it has been answered. Lower is better.",
    }));
    plots.extend(series.iter().filter(|one| one.arm.runner.workers() > 1).filter_map(shares_plot));
    plots.extend(loops_plot(series));
    plots
}

fn blocks_plot(series: &[Series]) -> Value {
    let points: Vec<Value> = series
        .iter()
        .flat_map(|one| {
            one.measured.iter().map(|measured| {
                json!({"arm": one.arm.name, "block": measured.block, "value": measured.report.per_second()})
            })
        })
        .collect();
    json!({"type": "blocks", "title": "Requests per second, every block", "unit": "requests/s", "points": points})
}

fn ratios_plot(series: &[Series]) -> Option<Value> {
    let (baseline, others) = series.split_first()?;
    let figures: [(&str, fn(&Measured) -> Option<f64>); 4] = [
        ("requests/s", |measured| Some(measured.report.per_second())),
        ("p50", |measured| Some(measured.latency.p50)),
        ("p90", |measured| measured.latency.p90),
        ("p99", |measured| measured.latency.p99),
    ];
    let rows: Vec<Value> = others
        .iter()
        .flat_map(|one| {
            figures.iter().filter_map(|(name, figure)| {
                // An interval only if every block has enough samples for the figure.
                let is_known = |one: &Series| one.measured.iter().all(|measured| figure(measured).is_some());
                if !is_known(one) || !is_known(baseline) {
                    return None;
                }
                let interval = one.ratio_to(baseline, |measured| figure(measured).unwrap_or_default())?;
                let name = format!("{name}, {}", one.arm.name);
                Some(json!({"name": name, "value": interval.ratio, "low": interval.low(), "high": interval.high()}))
            })
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    Some(json!({
        "type": "intervals", "title": "How large the differences are", "unit": "×", "rows": rows,
        "note": format!("Against {}, with 95 % confidence intervals. More requests per second are better, lower latencies are.", baseline.arm.label),
    }))
}

/// Requests per worker in the last block.
fn shares_plot(one: &Series) -> Option<Value> {
    let workers = &one.measured.last()?.workers;
    let rows: Vec<Value> = workers
        .iter()
        .filter(|worker| worker.requests() > 0)
        .enumerate()
        .map(|(index, worker)| {
            json!({"name": format!("{} worker {index}", one.arm.name), "value": worker.requests(), "note": format!("pid {}", worker.pid)})
        })
        .collect();
    if rows.len() < 2 {
        return None;
    }
    Some(json!({
        "type": "bars", "title": format!("Requests per worker, {}", one.arm.name), "unit": "requests", "rows": rows,
        "note": "As each worker counted them itself, in the last block.",
    }))
}

/// Event-loop utilisation of every worker in the last block.
fn loops_plot(series: &[Series]) -> Option<Value> {
    let lines: Vec<Value> = series
        .iter()
        .filter_map(|one| Some((one, one.measured.last()?)))
        .flat_map(|(one, measured)| {
            let begin = measured
                .workers
                .iter()
                .filter_map(|worker| worker.looks.first())
                .map(|look| look.at - look.length_ms)
                .fold(f64::MAX, f64::min);
            let busy = measured.workers.iter().filter(|worker| worker.requests() > 0);
            busy.enumerate().map(move |(index, worker)| {
                let points = observe::line(&worker.looks, begin, |look| look.event_loop * 100.0);
                json!({"name": format!("{} worker {index}", one.arm.name), "points": points})
            })
        })
        .collect();
    if lines.is_empty() {
        return None;
    }
    Some(json!({
        "type": "timeline", "title": "How busy the event loops are", "unit": "%", "series": lines,
        "note": "Event-loop utilisation of each worker in the last block.",
    }))
}

/// Checks the whole measurement.
fn checks(series: &[Series], connections: usize) -> Vec<Check> {
    let reports = || series.iter().flat_map(|one| one.measured.iter().map(|measured| &measured.report));
    let busiest = reports().map(figures::generator_busy).fold(0.0, f64::max);
    let errors: u64 = reports().map(Report::errors_total).sum();
    let requests: u64 = reports().map(|report| report.counts.started).sum();
    let mut checks = vec![
        figures::generator_check(busiest),
        figures::errors_check(errors, requests, &figures::error_words(reports())),
    ];
    if let Some(single) = series.first() {
        let rate = single.mean(|measured| measured.report.per_second());
        let latency = single.mean(|measured| measured.latency.mean);
        checks.push(figures::little_check(connections as f64, rate, latency));
    }
    let blocks = series.first().map_or(0, |one| one.measured.len());
    checks.push(Check::judged("Blocks", None).found(number(blocks as f64), "6 for a sure interval").means(
        if blocks < 6 {
            "With few blocks the intervals are wide, which they show.".to_owned()
        } else {
            String::new()
        },
    ));
    checks
}

/// Whether anything else took CPU.
fn undisturbed(disturbed: usize, windows: usize) -> Check {
    let meaning = format!(
        "Other processes took CPU in {disturbed} of {windows} measurements, so that the figures are in part theirs; a quiet \
         machine gives better ones."
    );
    Check::judged("Undisturbed", (disturbed == 0).then_some(true))
        .found(format!("{disturbed} of {windows} measurements disturbed"), "none")
        .means(if disturbed == 0 { String::new() } else { meaning })
}

/// How long to wait for answers after the end of a measurement.
pub(super) const DRAIN: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_without_an_answer_is_repeated_for_longer_up_to_a_bound() {
        let mut stop = Stop::Duration(Duration::from_millis(200));
        let mut windows = Vec::new();
        while let Some(next) = longer(stop, 0) {
            windows.push(next);
            stop = next;
        }
        let seconds = [0.4, 0.8, 1.6, 3.2, 6.4, 12.8];
        assert_eq!(windows, seconds.map(|time| Stop::Duration(Duration::from_secs_f64(time))));
        assert_eq!(longer(Stop::Duration(Duration::from_millis(200)), 1), None, "failures are told at once");
        assert_eq!(longer(Stop::Requests(8), 0), None, "all requests were made already");
    }
}
