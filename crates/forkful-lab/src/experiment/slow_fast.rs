//! Experiment 1: `/delay` burns CPU, `/fast` answers at once. First, all workers except one are blocked and
//! `/fast` is requested at a steady rate over new connections; then `/fast` alone gets the load of the
//! report.

use std::time::{Duration, Instant};

use forkful_load::{Arrivals, Load, Plan, Report, Reuse, Stop, Think};
use serde_json::json;

use super::blocks::{self, Series, Task};
use super::catalogue::Description;
use super::document::{Claim, Document, counted, number, time};
use super::figures::{self, Latency};
use super::observe::Observer;
use super::setting::Setting;
use crate::LabError;
use crate::arms::Arm;
use crate::server::Server;
use crate::target::Target;

/// Requests per second to `/fast` while workers are blocked: moderate traffic, far from any limit.
const RATE: f64 = 100.0;

/// Connections for that traffic: all arrivals in 5 s.
const CONNECTIONS_MAX: usize = 600;

/// `/delay` has arrived after this time.
const HEAD_START: Duration = Duration::from_millis(100);

/// The load of the report.
const REQUESTS: u64 = 5000;
const CONNECTIONS: usize = 500;

/// Results of `/fast` while workers are blocked, for one arm.
struct Beside {
    arm: Arm,
    blocked: u16,
    report: Report,
    latency: Latency,
}

pub(super) fn run(
    description: &'static Description,
    setting: &Setting,
    say: &mut dyn FnMut(&str),
) -> Result<Document, LabError> {
    let block = setting.extent.seconds(2.0, 5.0);
    // Even on one core the cluster then has a free worker.
    let workers = setting.workers.max(2);
    let arms = [Setting::single(), Setting::cluster("cluster", workers)];
    let mut beside = Vec::new();
    for arm in arms.clone() {
        say(&format!("{}: /fast while /delay burns {}", arm.label, time(block.as_secs_f64() * 1000.0)));
        beside.push(beside_blocked(setting, arm, block)?);
    }
    let requests = setting.extent.requests(REQUESTS, REQUESTS, u64::from(workers) * 4);
    let connections = CONNECTIONS.min(requests as usize);
    let plan = |address: &str| short_connections(address, requests, connections);
    let task = Task {
        arms: arms.to_vec(),
        target: Target::get("/fast"),
        blocks: setting.extent.blocks(5, 10),
        plan: &plan,
    };
    let series = blocks::measure(&task, setting, say)?;
    let mut document = Document::new(description);
    describe(&mut document, &beside, &series, block);
    document.plots = beside_plots(&beside, block);
    blocks::show(&mut document, &series, connections);
    let failed: u64 = beside.iter().map(|one| one.report.errors_total()).sum();
    let asked: u64 = beside.iter().map(|one| one.report.counts.started).sum();
    document.check(figures::errors_check(
        failed,
        asked,
        &figures::error_words(beside.iter().map(|one| &one.report)),
    ));
    document.plan = json!({
        "delay_ms": block.as_secs_f64() * 1000.0, "beside_rate": RATE, "requests": requests, "connections": connections,
        "kept_connections": false, "blocks": task.blocks,
    });
    Ok(document)
}

fn beside_blocked(setting: &Setting, arm: Arm, block: Duration) -> Result<Beside, LabError> {
    let observer = Observer::new(false)?;
    let server = blocks::start(setting, &arm, &Target::get("/fast"), &observer)?;
    // One worker of a cluster stays free; a single process has only itself.
    let blocked = (arm.runner.workers() - 1).max(1);
    warm(&server, &arm, setting)?;
    let slow = slow_plan(&server, blocked, block)?;
    let fast = steady_plan(&server, block)?;
    let (stop, burnt_arm) = (setting.stop.clone(), arm.clone());
    let burning = std::thread::spawn(move || blocks::perform(&slow, &burnt_arm, &stop));
    let begun = Instant::now();
    while begun.elapsed() < HEAD_START.min(block / 4) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let report = blocks::perform(&fast, &arm, &setting.stop);
    let burnt = burning.join().expect("a load does not panic")?;
    let report = report?;
    if burnt.counts.completed + burnt.counts.late == 0 {
        return Err(blocks::unanswered(&arm, &burnt, &server));
    }
    Ok(Beside { blocked, latency: Latency::of(&report.response), report, arm })
}

/// A few requests to every worker, so that the first measured one does not include compiling.
fn warm(server: &Server, arm: &Arm, setting: &Setting) -> Result<(), LabError> {
    let requests = u64::from(arm.runner.workers()) * 20;
    let plan = short_connections(&server.address().to_string(), requests, usize::from(arm.runner.workers()))?;
    blocks::perform(&plan, arm, &setting.stop)?;
    Ok(())
}

fn slow_plan(server: &Server, blocked: u16, block: Duration) -> Result<Plan, LabError> {
    let mut plan = blocks::load(server.address(), &format!("/delay?ms={}", block.as_millis()))?;
    plan.connections = usize::from(blocked);
    plan.stop = Stop::Requests(u64::from(blocked));
    plan.reuse = Reuse::Never;
    plan.timeout = block * 4 + Duration::from_secs(10);
    Ok(plan)
}

fn steady_plan(server: &Server, block: Duration) -> Result<Plan, LabError> {
    let mut plan = blocks::load(server.address(), "/fast")?;
    plan.connections = 4;
    plan.load = Load::Open { rate: RATE, connections_max: CONNECTIONS_MAX, arrivals: Arrivals::Even };
    plan.stop = Stop::Duration(block.mul_f64(0.9));
    plan.reuse = Reuse::Never;
    plan.timeout = block * 4 + Duration::from_secs(10);
    plan.drain = block + Duration::from_secs(5);
    Ok(plan)
}

/// As `ab -n requests -c connections`: one connection per request.
fn short_connections(address: &str, requests: u64, connections: usize) -> Result<Plan, LabError> {
    let mut plan = blocks::load(address, "/fast")?;
    plan.connections = connections;
    plan.stop = Stop::Requests(requests);
    plan.reuse = Reuse::Never;
    plan.load = Load::Closed { think: Think::None };
    Ok(plan)
}

fn describe(document: &mut Document, beside: &[Beside], series: &[Series], block: Duration) {
    let (one, many) = (&beside[0], &beside[1]);
    let burns = time(block.as_secs_f64() * 1000.0);
    let blocked = number(f64::from(many.blocked));
    let tail = many.latency.tail();
    let in_brackets = if tail.is_empty() { String::new() } else { format!(" ({tail})") };
    document.headline = format!(
        "While /delay burns {burns}, /fast takes up to {} in one process; with {}, {blocked} of them blocked, at most {}{in_brackets}.",
        time(one.latency.max),
        counted(u64::from(many.arm.runner.workers()), "worker"),
        time(many.latency.max),
    );
    document.details.push(
        "New connections go to workers whose event loop turns, and what waits in a blocked worker's queue is given to another."
            .to_owned(),
    );
    document.claims.push(Claim::new(
        format!("/fast beside /delay ({burns} here), one process"),
        "/fast waits for /delay",
        format!("median {}, slowest {}", time(one.latency.p50), time(one.latency.max)),
        "one event loop does one thing at a time",
    ));
    document.claims.push(Claim::new(
        format!("the same, {} with {blocked} blocked", many.arm.label),
        "/fast answers at once",
        format!("median {}, slowest {}{in_brackets}", time(many.latency.p50), time(many.latency.max)),
        "with Node's own cluster it does not hold: the blocked worker is given connections in its turn, and they wait",
    ));
    let cluster = &series[1];
    let rate = cluster.mean(|measured| measured.report.per_second());
    let mean = cluster.mean(|measured| measured.latency.mean);
    document.claims.push(Claim::new(
        "ab -c 500 -n 5000 on /fast",
        "6,676 requests/s, mean 74.9 ms, 12 cores",
        format!(
            "{} requests/s, mean {}; one process {} requests/s",
            number(rate),
            time(mean),
            number(series[0].mean(|measured| measured.report.per_second()))
        ),
        "the cores, and ab itself: one thread that takes a core of the same machine",
    ));
    document.claims.push(failures_claim(cluster));
    document.found = json!({
        "single_beside_max_ms": one.latency.max, "cluster_beside_p99_ms": many.latency.p99, "cluster_beside_max_ms": many.latency.max,
        "cluster_requests_per_second": rate, "failed": series.iter().flat_map(|one| &one.measured).map(|measured| measured.report.errors_total()).sum::<u64>(),
        "ab_would_call_failed": length_failures(cluster),
    });
}

/// Answers in the last block whose length differs from the first.
fn length_failures(series: &Series) -> u64 {
    series.measured.last().map_or(0, |measured| measured.report.length_differs)
}

fn failures_claim(cluster: &Series) -> Claim {
    let Some(last) = cluster.measured.last() else {
        return Claim::new("failed requests", "1,902 of 5,000", "–", "");
    };
    let differs = last.report.length_differs;
    let mut lengths: Vec<usize> = last
        .workers
        .iter()
        .filter(|worker| worker.requests() > 0)
        .map(|worker| worker.pid.to_string().len())
        .collect();
    lengths.sort_unstable();
    lengths.dedup();
    let digits: Vec<String> = lengths.iter().map(ToString::to_string).collect();
    let pids = match digits.as_slice() {
        [] => String::new(),
        [one] => format!("; here all pids happen to have {one} digits"),
        several => format!("; here pids have {} digits", several.join(" and ")),
    };
    Claim::new(
        "failed requests",
        "1,902 of 5,000",
        format!("{} failed; ab would say {differs}", last.report.errors_total()),
        format!(
            "none had failed there either: ab calls an answer failed when its length differs from the first one's, and the answer is the worker's pid{pids}. `ab -l` switches that off"
        ),
    )
}

fn beside_plots(beside: &[Beside], block: Duration) -> Vec<serde_json::Value> {
    let lines: Vec<_> = beside.iter().map(|one| figures::over_time(&one.arm.name, &one.report)).collect();
    let spectra: Vec<_> =
        beside.iter().map(|one| figures::spectrum(&one.arm.name, &one.report.response)).collect();
    let end = block.as_secs_f64() - HEAD_START.as_secs_f64();
    vec![
        json!({
            "type": "timeline", "title": "/fast while /delay burns CPU", "unit": "ms", "series": lines,
            "marks": [{"at": end, "label": "/delay ends"}],
            "note": format!("Response time of each request to /fast over the moment it was sent; {RATE} a second, each on a new connection."),
        }),
        json!({
            "type": "percentiles", "title": "/fast beside blocked workers", "unit": "ms", "series": spectra,
            "note": "An open loop: requests are sent on schedule, whatever the server does, and timed from the schedule.",
        }),
    ]
}
