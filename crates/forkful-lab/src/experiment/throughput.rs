//! The experiments that load one route and compare throughput and latency of arms: the busy loop, `/heavy`,
//! Fibonacci, the sum.

use std::time::Duration;

use forkful_load::{Plan, Reuse, Stop};
use serde_json::json;

use super::blocks::{self, Series, Task};
use super::catalogue::Description;
use super::document::{Claim, Document, counted, number, time};
use super::figures::time_or_few;
use super::setting::Setting;
use crate::LabError;
use crate::arms::Arm;
use crate::target::Target;

/// Requests of these experiments are always faster; a slower one counts as a timeout.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The parameters of such an experiment.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) path: &'static str,
    pub(super) connections: u64,
    /// Connections are kept; otherwise each request opens a new one.
    pub(super) kept: bool,
    pub(super) length: Length,
    pub(super) blocks_short: u32,
    pub(super) blocks_full: u32,
    /// `single` comes first; `crowd` has four workers per core.
    pub(super) arms: &'static [&'static str],
    pub(super) reported: Reported,
}

/// When a block ends.
#[derive(Debug)]
pub(super) enum Length {
    Seconds { short: f64, full: f64 },
    Requests { short: u64, full: u64 },
}

/// The reported values, and how its claims are phrased.
#[derive(Debug)]
pub(super) struct Reported {
    /// Requests per second with one process.
    pub(super) single: f64,
    pub(super) cluster: f64,
    pub(super) workers: u16,
    /// Mean latency of both in ms, if reported.
    pub(super) means: Option<(f64, f64)>,
    /// 90th percentile of both in ms, if reported.
    pub(super) p90s: Option<(f64, f64)>,
    /// Seconds for all requests, if reported.
    pub(super) took: Option<(f64, f64)>,
    /// A further claim: its subject, its text, and the arm for which it is checked.
    pub(super) other: Option<(&'static str, &'static str, &'static str)>,
    /// Why absolute values differ.
    pub(super) why: &'static str,
}

pub(super) const BUSY_LOOP: Reported = Reported {
    single: 11.7,
    cluster: 34.5,
    workers: 4,
    means: None,
    p90s: None,
    took: None,
    other: Some(("more workers than cores", "throughput dropped a lot", "crowd")),
    why: "other cores, and a V8 that counts faster",
};

pub(super) const HEAVY: Reported = Reported {
    single: 111.0,
    cluster: 202.0,
    workers: 4,
    means: Some((1653.0, 901.0)),
    p90s: Some((2142.0, 4684.0)),
    took: None,
    other: Some(("another cluster", "PM2: 190 requests/s, mean 961 ms, 1 error", "node-cluster")),
    why: "other cores, and a V8 that counts faster",
};

pub(super) const FIBONACCI: Reported = Reported {
    single: 62.95,
    cluster: 155.35,
    workers: 4,
    means: None,
    p90s: None,
    took: None,
    other: None,
    why: "other cores; a hundred requests are over before a server is warm, so ours warms up first and repeats them in blocks",
};

pub(super) const SUM: Reported = Reported {
    single: 4.0,
    cluster: 26.0,
    workers: 8,
    means: None,
    p90s: None,
    took: Some((227.0, 38.5)),
    other: None,
    why: "other cores; loadtest starts its clients on several cores and leaves the server what remains",
};

pub(super) fn run(
    description: &'static Description,
    shape: &Shape,
    setting: &Setting,
    say: &mut dyn FnMut(&str),
) -> Result<Document, LabError> {
    let stop = stop(shape, setting);
    let connections = connections(shape, stop);
    let plan = |address: &str| plan(shape, address, stop, connections);
    let task = Task {
        arms: arms(shape, setting),
        target: Target::get(shape.path),
        blocks: setting.extent.blocks(shape.blocks_short, shape.blocks_full),
        plan: &plan,
    };
    let series = blocks::measure(&task, setting, say)?;
    let mut document = Document::new(description);
    describe(&mut document, shape, &series, stop);
    blocks::show(&mut document, &series, connections);
    document.plan = json!({
        "path": shape.path, "connections": connections, "kept_connections": shape.kept, "blocks": task.blocks,
        "length": match stop { Stop::Requests(n) => counted(n, "request"), Stop::Duration(d) => time(d.as_secs_f64() * 1000.0) },
    });
    Ok(document)
}

fn stop(shape: &Shape, setting: &Setting) -> Stop {
    match shape.length {
        Length::Seconds { short, full } => Stop::Duration(setting.extent.seconds(short, full)),
        Length::Requests { short, full } => {
            Stop::Requests(setting.extent.requests(short, full, u64::from(setting.workers) * 2))
        }
    }
}

fn connections(shape: &Shape, stop: Stop) -> usize {
    let bound = match stop {
        Stop::Requests(requests) => requests,
        Stop::Duration(_) => u64::MAX,
    };
    shape.connections.min(bound) as usize
}

fn plan(shape: &Shape, address: &str, stop: Stop, connections: usize) -> Result<Plan, LabError> {
    let mut plan = blocks::load(address, shape.path)?;
    plan.connections = connections;
    plan.stop = stop;
    plan.reuse = if shape.kept { Reuse::Always } else { Reuse::Never };
    plan.timeout = TIMEOUT;
    plan.drain = blocks::DRAIN;
    Ok(plan)
}

fn arms(shape: &Shape, setting: &Setting) -> Vec<Arm> {
    let arm = |name: &&str| match *name {
        "single" => Setting::single(),
        "node-cluster" => setting.node_cluster(),
        "crowd" => Setting::cluster("crowd", setting.cores.saturating_mul(4)),
        _ => Setting::cluster("cluster", setting.workers),
    };
    shape.arms.iter().map(arm).collect()
}

/// The texts: headline, details, and the claims with the results.
fn describe(document: &mut Document, shape: &Shape, series: &[Series], stop: Stop) {
    let (single, cluster) = (&series[0], &series[1]);
    let rate = |one: &Series| one.mean(|measured| measured.report.per_second());
    let p90: fn(&Series) -> Option<f64> = |one| one.percentile(90.0);
    let p99: fn(&Series) -> Option<f64> = |one| one.percentile(99.0);
    let mean = |one: &Series| one.mean(|measured| measured.latency.mean);
    let speed_up = cluster.ratio_to(single, |measured| measured.report.per_second());
    let ratio_text = speed_up.map_or_else(
        || number(rate(cluster) / rate(single)),
        |interval| format!("{:.2} × ({:.2} to {:.2})", interval.ratio, interval.low(), interval.high()),
    );
    let workers = counted(u64::from(cluster.arm.runner.workers()), "worker");
    let tail = tail_words([p90(single), p90(cluster)], [p99(single), p99(cluster)]);
    // An interval around 1 says that no difference was found, whatever its middle is.
    let is_same = speed_up.is_some_and(|interval| interval.low() < 1.0 && interval.high() > 1.0);
    document.headline = if is_same {
        format!(
            "No sure difference: {workers} answer {ratio_text} as many requests per second as one process; {tail}."
        )
    } else {
        format!("{workers} answer {ratio_text} as many requests per second as one process; {tail}.")
    };
    let reported = &shape.reported;
    document.claims.push(Claim::new(
        format!("requests/s, one process and a cluster of {}", reported.workers),
        format!(
            "{} and {} ({:.2} ×)",
            number(reported.single),
            number(reported.cluster),
            reported.cluster / reported.single
        ),
        format!(
            "{} and {} ({:.2} ×, {workers})",
            number(rate(single)),
            number(rate(cluster)),
            speed_up.map_or(rate(cluster) / rate(single), |interval| interval.ratio)
        ),
        reported.why,
    ));
    if let Some((one, many)) = reported.means {
        let found = format!("{} and {}", time(mean(single)), time(mean(cluster)));
        let why = "in a closed loop the mean is connections ÷ throughput (Little's law): it says nothing that the rate does not say";
        document.claims.push(Claim::new(
            "mean latency",
            format!("{} and {}", time(one), time(many)),
            found,
            why,
        ));
    }
    if let Some((one, many)) = reported.p90s {
        document.claims.push(tail_claim(one, many, series));
    }
    if let Some((one, many)) = reported.took {
        document.claims.push(took_claim(one, many, series, stop));
    }
    if let Some((what, text, arm)) = reported.other {
        document.claims.extend(other_claim(what, text, arm, series));
    }
    // Compares known values only: with too few requests there is no 99th percentile.
    let tail_not_worse = ![p90, p99].iter().any(|of| is_worse([of(single), of(cluster)]) == Some(true));
    document.found = json!({
        "single_requests_per_second": rate(single),
        "cluster_requests_per_second": rate(cluster),
        "throughput_ratio": speed_up.map(|interval| interval.ratio),
        "throughput_ci95": speed_up.map(|interval| interval.bounds),
        "single_p90_ms": p90(single), "cluster_p90_ms": p90(cluster),
        "single_p99_ms": p99(single), "cluster_p99_ms": p99(cluster),
        "tail_not_worse": tail_not_worse,
    });
}

/// Whether a latency is higher with the cluster than with one process, if both are known.
fn is_worse([single, cluster]: [Option<f64>; 2]) -> Option<bool> {
    Some(cluster? > single?)
}

fn tail_words(p90: [Option<f64>; 2], p99: [Option<f64>; 2]) -> String {
    let words = |name: &str, pair: [Option<f64>; 2]| match (is_worse(pair), pair) {
        (Some(is_worse), [Some(single), Some(cluster)]) => {
            let word = if is_worse { "RISES" } else { "falls" };
            format!("{name} {word} from {} to {}", time(single), time(cluster))
        }
        _ => format!("too few requests for a {name}"),
    };
    format!("{}, {}", words("p90", p90), words("p99", p99))
}

/// A 90th percentile above this multiple of the mean is not explained by a first-in-first-out queue.
const TAIL_OF_A_QUEUE: f64 = 2.0;

fn tail_claim(one: f64, many: f64, series: &[Series]) -> Claim {
    let p90 = |one: &Series| one.percentile(90.0);
    let (single, cluster) = (&series[0], &series[1]);
    let spread = |one: &Series| {
        let workers = one.measured.last().map(|measured| {
            measured
                .workers
                .iter()
                .map(super::observe::Watched::requests)
                .filter(|n| *n > 0)
                .collect::<Vec<_>>()
        });
        workers.unwrap_or_default()
    };
    let shares = spread(cluster);
    let even = shares.iter().min().zip(shares.iter().max()).map_or(String::new(), |(least, most)| {
        format!("; here the workers answered {least} to {most} requests each")
    });
    let mean = single.mean(|measured| measured.latency.mean);
    let queue = if p90(single).is_some_and(|p90| p90 > TAIL_OF_A_QUEUE * mean) {
        "; today's Node.js takes one new connection in each turn of its event loop, so that most of them wait for long \
         while those before them are served again and again"
    } else {
        ""
    };
    let why = if is_worse([p90(single), p90(cluster)]) == Some(true) {
        format!("WORSE than one process here, too{even}{queue}")
    } else {
        format!(
            "a kept connection stays with its worker, so uneven hands-out make some clients wait longer{even}{queue}"
        )
    };
    Claim::new(
        "90th percentile",
        format!("{} and {}: the cluster's was worse", time(one), time(many)),
        format!("{} and {}", time_or_few(p90(single)), time_or_few(p90(cluster))),
        why,
    )
}

fn took_claim(one: f64, many: f64, series: &[Series], stop: Stop) -> Claim {
    let took = |one: &Series| one.mean(|measured| measured.report.elapsed.as_secs_f64()) * 1000.0;
    let requests = match stop {
        Stop::Requests(requests) => counted(requests, "request"),
        Stop::Duration(_) => "the requests".to_owned(),
    };
    Claim::new(
        format!("time for all ({requests} here, 1,000 there)"),
        format!("{} s and {} s", number(one), number(many)),
        format!("{} and {}", time(took(&series[0])), time(took(&series[1]))),
        "the number of requests and the CPU; `--full` makes all 1,000",
    )
}

fn other_claim(what: &str, text: &str, arm: &str, series: &[Series]) -> Option<Claim> {
    let other = series.iter().find(|one| one.arm.name == arm)?;
    let rate = |one: &Series| one.mean(|measured| measured.report.per_second());
    let mean = other.mean(|measured| measured.latency.mean);
    let p90 = other.percentile(90.0);
    let found = format!(
        "{}: {} requests/s, mean {}, p90 {}",
        other.arm.label,
        number(rate(other)),
        time(mean),
        time_or_few(p90)
    );
    let change = (rate(other) / rate(&series[1]) - 1.0) * 100.0;
    let why = if arm == "crowd" {
        format!("{change:+.1} % against one worker per core: they share the same cores, and cost memory")
    } else {
        format!(
            "{change:+.1} % against Forkful's cluster in the same blocks; PM2 hands connections round as Node's own cluster does"
        )
    };
    Some(Claim::new(what, text, found, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worse_tail_is_told_in_capitals() {
        assert_eq!(
            tail_words([Some(20.0), Some(10.0)], [Some(40.0), Some(50.0)]),
            "p90 falls from 20 ms to 10 ms, p99 RISES from 40 ms to 50 ms"
        );
        assert_eq!(
            tail_words([Some(20.0), Some(10.0)], [None, Some(50.0)]),
            "p90 falls from 20 ms to 10 ms, too few requests for a p99"
        );
    }

    #[test]
    fn there_are_never_more_connections_than_requests() {
        let super::super::catalogue::Kind::Throughput(shape) = &super::super::catalogue::ALL[3].kind else {
            panic!("the fourth loads one route");
        };
        assert_eq!(connections(shape, Stop::Requests(12)), 12);
        assert_eq!(connections(shape, Stop::Requests(1200)), 200);
        assert_eq!(connections(shape, Stop::Duration(Duration::from_secs(1))), 200);
    }
}
