//! One arm in one block: a fresh server, warmed up, measured at saturation and at equal rates, ended.

use std::collections::BTreeMap;
use std::time::Duration;

use forkful_load::{Histogram, Report};

use super::Setup;
use crate::LabError;
use crate::arms::Arm;
use crate::measure::{self, Subject};
use crate::server::Server;
use crate::statistics::steadiness::{Disturbance, disturbance};

/// Rates at which latency is measured, as shares of the weakest arm's capacity.
pub(crate) const RATES: [f64; 2] = [0.5, 0.8];

/// Less than this share of an offered rate answered: the arm cannot keep up.
const KEPT_UP: f64 = 0.97;

/// How a trial is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrialPlan {
    pub(crate) connections: usize,
    pub(crate) warmup: Duration,
    pub(crate) window: Duration,
    pub(crate) latency_window: Duration,
    /// Capacity of the weakest arm, requests per second.
    pub(crate) weakest: f64,
    /// Of the arrivals.
    pub(crate) seed: u64,
}

/// What it brought.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) per_second: f64,
    pub(crate) cpu_per_request: Option<Duration>,
    pub(crate) server_cores: f64,
    pub(crate) generator_cores: f64,
    pub(crate) generator_busy: f64,
    pub(crate) memory_bytes: u64,
    pub(crate) processes: usize,
    pub(crate) started_in: Duration,
    pub(crate) ignores_port: Option<u16>,
    pub(crate) requests: u64,
    pub(crate) errors: BTreeMap<String, u64>,
    /// At saturation.
    pub(crate) service: Histogram,
    /// At each of [`RATES`]; empty when latency is not measured.
    pub(crate) at_rates: Vec<AtRate>,
    /// `[seconds, answers per second]` at saturation.
    pub(crate) timeline: Vec<[f64; 2]>,
    pub(crate) disturbance: Option<Disturbance>,
    /// Concurrency that Little's law finds, against the connections.
    pub(crate) little: Option<f64>,
    pub(crate) listen_overflows: u64,
    pub(crate) throttled: Duration,
}

/// A window at a given rate.
#[derive(Debug)]
pub(crate) struct AtRate {
    pub(crate) load: f64,
    pub(crate) rate: f64,
    pub(crate) response: Histogram,
    pub(crate) overloaded: bool,
}

/// Runs it.
pub(crate) fn run_trial(setup: &Setup, arm: &Arm, plan: &TrialPlan) -> Result<Trial, LabError> {
    let server = Server::start(&setup.start_options(arm))?;
    let subject = Subject {
        server: &server,
        arm: &arm.name,
        target: &setup.target,
        keep_alive: setup.keep_alive,
        threads: setup.threads,
        stop: &setup.stop,
    };
    let warm = measure::closed(&subject, plan.connections, plan.warmup)?;
    measure::must_be_right(&subject, &warm.report)?;
    let lead_in = measure::lead_in(plan.connections, warm.per_second());
    let full = measure::closed_after(&subject, plan.connections, lead_in, plan.window)?;
    measure::must_be_right(&subject, &full.report)?;
    let mut at_rates = Vec::new();
    let mut errors = BTreeMap::new();
    count_errors(&mut errors, &full.report);
    let mut requests = full.report.counts.completed;
    if !plan.latency_window.is_zero() && plan.weakest > 0.0 {
        for load in RATES {
            let rate = plan.weakest * load;
            let window = measure::open(&subject, rate, plan.latency_window, plan.seed)?;
            measure::must_be_right(&subject, &window.report)?;
            count_errors(&mut errors, &window.report);
            requests += window.report.counts.completed;
            at_rates.push(at_rate(load, rate, window.report));
        }
    }
    let used = server.used(true);
    let report = &full.report;
    Ok(Trial {
        per_second: full.per_second(),
        cpu_per_request: full.cpu_per_request(),
        server_cores: full.server_cores(),
        generator_cores: full.generator_cores(),
        generator_busy: full.generator_busy(),
        memory_bytes: used.memory_bytes,
        processes: used.processes(),
        started_in: server.started_in(),
        ignores_port: server.ignores_port().then(|| server.address().port()),
        requests,
        errors,
        timeline: timeline(report),
        disturbance: disturbance(&full.machine),
        little: little(report, plan.connections),
        listen_overflows: report.kernel.listen_overflows.unwrap_or(0),
        throttled: report.host.throttled.unwrap_or_default(),
        service: full.report.response,
        at_rates,
    })
}

fn at_rate(load: f64, rate: f64, report: Report) -> AtRate {
    let answered = report.counts.completed + report.counts.late;
    let offered = report.offered.max(1);
    let overloaded = (answered as f64) < KEPT_UP * offered as f64 || report.unsent > 0;
    AtRate { load, rate, response: report.response, overloaded }
}

fn count_errors(errors: &mut BTreeMap<String, u64>, report: &Report) {
    for error in &report.errors {
        *errors.entry(error.cause.words().to_owned()).or_default() += error.count;
    }
}

fn timeline(report: &Report) -> Vec<[f64; 2]> {
    let full = report.windows.iter().filter(|window| !window.length.is_zero());
    full.map(|window| {
        let middle = window.start + window.length / 2;
        [middle.as_secs_f64(), window.completed as f64 / window.length.as_secs_f64()]
    })
    .collect()
}

/// X · R ÷ c, which is 1 when the accounts are right and all connections were always busy.
fn little(report: &Report, connections: usize) -> Option<f64> {
    (!report.response.is_empty() && connections > 0)
        .then(|| report.per_second() * report.response.mean() / 1e9 / connections as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_is_not_kept_up_with_is_overload() {
        let mut report = Report::empty("test");
        report.offered = 1000;
        report.counts.completed = 980;
        assert!(!at_rate(0.5, 1.0, report.clone()).overloaded);
        report.counts.completed = 900;
        assert!(at_rate(0.5, 1.0, report.clone()).overloaded);
        report.counts.late = 90;
        report.unsent = 5;
        assert!(at_rate(0.5, 1.0, report).overloaded);
    }

    #[test]
    fn littles_law_finds_the_connections_again() {
        let mut report = Report::empty("test");
        report.elapsed = Duration::from_secs(1);
        report.counts.completed = 1000;
        report.response.record_n(64_000_000, 1000).unwrap();
        assert!((little(&report, 64).unwrap() - 1.0).abs() < 0.01);
        assert_eq!(little(&Report::empty("test"), 64), None);
    }
}
