//! Tables of measurements with and without a problem.

use std::time::Duration;

use super::*;
use crate::report::findings::{WorkerShare, Workers};
use crate::{
    Arrivals, EarlyEnd, ErrorCause, ErrorCount, HttpVersion, Load, Plan, Report, Reuse, Stop, Think,
    ThreadFacts, Window,
};

/// Ten seconds with 64 connections at 10,000 answers per second, without any problem.
fn good() -> (Plan, Report) {
    let mut plan = Plan::get("http://127.0.0.1:8000/").unwrap();
    plan.connections = 64;
    plan.stop = Stop::Duration(Duration::from_secs(10));
    let mut report = Report::empty("test");
    report.elapsed = Duration::from_secs(10);
    report.counts.started = 100_000;
    report.counts.completed = 100_000;
    for histogram in [&mut report.response, &mut report.total, &mut report.service] {
        histogram.record_n(6_400_000, 100_000).unwrap();
    }
    report.residency.record_n(20_000, 50_000).unwrap();
    report.connections.asked = 64;
    report.connections.reached = 64;
    report.connections.opened = 64;
    report.threads = vec![ThreadFacts { busy: 0.3, ..ThreadFacts::default() }];
    report.windows = windows(|_| 1_000);
    report.host.steal = Some(0.0);
    report.host.throttled = Some(Duration::ZERO);
    report.kernel.listen_overflows = Some(0);
    report.kernel.time_wait_after = Some(3);
    report.kernel.local_ports = Some(28_232);
    (plan, report)
}

fn windows(completed: impl Fn(u64) -> u64) -> Vec<Window> {
    (0..100)
        .map(|number| Window {
            start: Duration::from_millis(number * 100),
            length: Duration::from_millis(100),
            started: 0,
            completed: completed(number),
            completed_by_thread: Vec::new(),
            errors: 0,
            received: 0,
            p50: None,
            p99: None,
            max: None,
            open_connections: 64,
            backlog: 0,
            cpu_seconds: 0.0,
        })
        .collect()
}

fn open(plan: &mut Plan, report: &mut Report, rate: f64) {
    plan.load = Load::Open { rate, connections_max: 1_000, arrivals: Arrivals::Even };
    report.offered = (rate * 10.0) as u64;
    report.slip.record_n(10_000, 100_000).unwrap();
}

/// A second's windows whose answers have waited for as long as the function says.
fn waiting(seconds: impl Fn(f64) -> f64) -> Vec<Window> {
    let with_time = |mut window: Window| {
        let waited = seconds((window.start + window.length / 2).as_secs_f64());
        window.p50 = (waited > 0.0).then(|| Duration::from_secs_f64(waited));
        window
    };
    windows(|_| 1_000).into_iter().map(with_time).collect()
}

/// 10,000 requests/s to a target that answers `capacity` requests/s; the other requests are answered after the end.
fn at_capacity(plan: &mut Plan, report: &mut Report, capacity: f64) {
    open(plan, report, 10_000.0);
    report.counts.completed = (capacity * 10.0) as u64;
    report.counts.late = report.offered - report.counts.completed;
    let share = capacity / 10_000.0;
    report.windows = waiting(|second| 0.01 + second * (1.0 - share));
}

type Change = fn(&mut Plan, &mut Report);

#[test]
fn a_good_run_is_trusted_without_a_word() {
    let (plan, report) = good();
    let trust = Trust::of(&plan, &report);
    assert_eq!(trust.level(), Level::Fine, "{:#?}", trust.checks);
    assert!(trust.checks.iter().all(|check| check.meaning.is_empty()), "{:#?}", trust.checks);
    assert_eq!(trust.sentence(), "trustworthy");
    assert!(trust.trustworthy() && !trust.saturated());
}

#[test]
fn each_way_to_spoil_a_run_is_named_and_weighed() {
    let table: [(&str, Level, Change); 74] = [
        ("generator_cpu", Level::Warning, |_, report| report.threads[0].busy = 0.85),
        ("generator_cpu", Level::Fault, |_, report| report.threads[0].busy = 0.95),
        ("generator_cpu", Level::Fault, |_, report| {
            report.threads.push(ThreadFacts { busy: 0.97, ..ThreadFacts::default() });
        }),
        ("batch_residency", Level::Warning, |_, report| {
            report.residency.record_n(1_000_000, 50_000).unwrap();
        }),
        ("batch_residency", Level::Fault, |_, report| report.residency.record_n(4_000_000, 50_000).unwrap()),
        // Short waits do not delay requests that have their times.
        ("batch_residency", Level::Fine, |plan, report| {
            open(plan, report, 10_000.0);
            report.residency.record_n(900_000, 50_000).unwrap();
        }),
        ("littles_law", Level::Warning, |_, report| report.connections.reached = 70),
        ("littles_law", Level::Fault, |_, report| report.connections.reached = 100),
        ("send_slip", Level::Fine, |plan, report| open(plan, report, 10_000.0)),
        ("send_slip", Level::Warning, |plan, report| {
            open(plan, report, 10_000.0);
            report.slip.record_n(3_000_000, 100_000).unwrap();
        }),
        ("send_slip", Level::Fault, |plan, report| {
            open(plan, report, 10_000.0);
            report.slip.record_n(30_000_000, 100_000).unwrap();
        }),
        ("overload", Level::Fine, |plan, report| open(plan, report, 10_000.0)),
        ("overload", Level::Fault, |plan, report| open(plan, report, 11_000.0)),
        // Half of them waited seconds before they were sent, and were answered after the end.
        ("overload", Level::Fault, |plan, report| {
            open(plan, report, 10_000.0);
            (report.counts.completed, report.counts.late) = (50_000, 50_000);
            report.windows = waiting(|second| 0.5 * second);
        }),
        // The same with two and three times what the target can do, and a little more than that.
        ("overload", Level::Fault, |plan, report| at_capacity(plan, report, 10_000.0 / 1.9)),
        ("overload", Level::Fault, |plan, report| at_capacity(plan, report, 10_000.0 / 3.0)),
        ("overload", Level::Fault, |plan, report| at_capacity(plan, report, 9_500.0)),
        ("overload", Level::Fine, |plan, report| at_capacity(plan, report, 9_990.0)),
        // Slow by nature: a fifth of the answers come after the end, and none is later than the others.
        ("overload", Level::Fine, |plan, report| {
            open(plan, report, 10_000.0);
            (report.counts.completed, report.counts.late) = (80_000, 20_000);
            report.windows = waiting(|second| if second < 2.0 { 0.0 } else { 2.0 });
        }),
        ("overload", Level::Fault, |plan, report| {
            open(plan, report, 10_000.0);
            report.unsent = 1_500;
        }),
        ("generator_stood_still", Level::Fine, |_, report| {
            report.threads[0].stood_still_max = Duration::from_millis(90);
        }),
        ("generator_stood_still", Level::Warning, |_, report| {
            report.threads[0].stood_still_max = Duration::from_millis(900);
        }),
        ("generator_stood_still", Level::Fault, |_, report| {
            report.threads[0].stood_still_max = Duration::from_millis(2_100);
        }),
        ("drift", Level::Warning, |_, report| report.windows = windows(|number| 1_000 + number)),
        ("drift", Level::Fault, |_, report| report.windows = windows(|number| 1_000 + 10 * number)),
        ("drift", Level::Fine, |_, report| report.windows = windows(|number| 1_000 + number % 7 * 30)),
        ("drift", Level::Fault, |_, report| {
            report.windows = windows(|number| if number < 60 { 1_000 } else { 0 });
        }),
        // It died after 6 of 10 seconds, and after 0.9 of one, in a run that was stopped then.
        ("silence", Level::Fault, |_, report| dead_from(report, 60)),
        ("silence", Level::Warning, |_, report| dead_from(report, 98)),
        ("silence", Level::Fault, |_, report| {
            dead_from(report, 9);
            report.windows.truncate(10);
            (report.elapsed, report.early_end) = (Duration::from_secs(1), Some(EarlyEnd::Stopped));
        }),
        // It went away from a number of requests, whatever the windows show.
        ("silence", Level::Fault, |_, report| report.early_end = Some(EarlyEnd::TargetGone)),
        ("length", Level::Fine, |_, report| report.response = slow(990_000_000)),
        ("length", Level::Warning, |_, report| report.response = slow(1_010_000_000)),
        ("length", Level::Warning, |_, report| report.response = slow(9_900_000_000)),
        ("length", Level::Fault, |_, report| report.response = slow(10_100_000_000)),
        ("redirects", Level::Fine, |_, report| report.statuses = vec![(200, 60_000), (302, 40_000)]),
        ("redirects", Level::Warning, |_, report| report.statuses = vec![(200, 40_000), (302, 60_000)]),
        ("redirects", Level::Warning, |_, report| report.statuses = vec![(301, 100_000)]),
        ("other_programs", Level::Fine, |_, report| report.host.others = Some(0.04)),
        ("other_programs", Level::Warning, |_, report| report.host.others = Some(0.06)),
        ("other_programs", Level::Warning, |_, report| report.host.others = Some(0.7)),
        ("throttling", Level::Warning, |_, report| report.host.steal = Some(0.03)),
        ("throttling", Level::Fault, |_, report| report.host.steal = Some(0.06)),
        ("throttling", Level::Warning, |_, report| report.host.throttled_times = Some(1)),
        ("throttling", Level::Fault, |_, report| report.host.throttled = Some(Duration::from_secs(1))),
        ("connections", Level::Fault, |_, report| report.connections.asked = 65),
        ("connections", Level::Fault, |plan, report| {
            open(plan, report, 10_000.0);
            report.errors = vec![count(ErrorCause::TooManyFiles, 1)];
        }),
        ("connections", Level::Fine, |plan, report| one_each(plan, report, 0)),
        ("connections", Level::Fine, |plan, report| one_each(plan, report, 1_000)),
        ("connections", Level::Warning, |plan, report| one_each(plan, report, 1_100)),
        ("connections", Level::Fault, |plan, report| one_each(plan, report, 12_000)),
        ("connections", Level::Fault, |plan, report| {
            one_each(plan, report, 1);
            report.errors = vec![count(ErrorCause::TooManyFiles, 1)];
        }),
        ("littles_law", Level::Fine, |plan, report| one_each(plan, report, 0)),
        ("littles_law", Level::Fault, |plan, report| {
            one_each(plan, report, 0);
            report.connections.asked = 100;
        }),
        ("streams", Level::Fine, |plan, report| streams(plan, report, 4)),
        ("streams", Level::Warning, |plan, report| streams(plan, report, 2)),
        ("local_ports", Level::Note, |_, report| report.kernel.time_wait_after = Some(28_000)),
        ("local_ports", Level::Fault, |_, report| {
            report.errors = vec![count(ErrorCause::AddressNotAvailable, 1)];
        }),
        ("listen_queue", Level::Note, |_, report| report.kernel.listen_overflows = Some(100)),
        ("listen_queue", Level::Fault, |_, report| {
            report.kernel.listen_overflows = Some(1);
            report.connections.syn_retransmits = 1;
        }),
        ("listen_queue", Level::Fault, |_, report| {
            report.kernel.listen_overflows = Some(1);
            report.connect.record(1_003_000_000).unwrap();
        }),
        ("listen_queue", Level::Warning, |_, report| {
            report.kernel.listen_overflows = Some(1);
            report.connections.opened = 10_000;
            report.connections.failed = 1;
        }),
        ("retransmits", Level::Fine, |_, report| report.connections.retransmits = 5),
        ("retransmits", Level::Warning, |_, report| report.connections.retransmits = 500),
        ("retransmits", Level::Warning, |_, report| report.connections.syn_retransmits = 1),
        ("unfinished", Level::Warning, |_, report| report.counts.unfinished = 200),
        ("unfinished", Level::Fault, |_, report| report.counts.unfinished = 2_000),
        ("errors", Level::Fine, |_, report| answered(report, 404, 10_000)),
        ("errors", Level::Warning, |_, report| answered(report, 404, 10_100)),
        ("errors", Level::Warning, |_, report| answered(report, 404, 49_900)),
        ("errors", Level::Fault, |_, report| answered(report, 404, 50_000)),
        ("errors", Level::Fault, |_, report| {
            report.errors = vec![count(ErrorCause::UnexpectedBody, 60_000)];
        }),
        // A tool that counts every status as an answer reports no errors.
        ("errors", Level::Fault, |plan, report| {
            answered(report, 404, 100_000);
            report.errors.clear();
            plan.expect.statuses = (100..=999).collect();
            plan.expect.is_habit = true;
        }),
        // An expected status is not an error.
        ("errors", Level::Fine, |plan, report| {
            answered(report, 404, 100_000);
            report.errors.clear();
            plan.expect.statuses = vec![404];
        }),
    ];
    for (number, (key, level, change)) in table.into_iter().enumerate() {
        let (mut plan, mut report) = good();
        change(&mut plan, &mut report);
        let trust = Trust::of(&plan, &report);
        let check = trust.check(key);
        let check = check.unwrap_or_else(|| panic!("row {number}: no check {key}"));
        assert_eq!(check.level(), level, "row {number}: {check:#?}");
        assert_eq!(trust.trustworthy(), level < Level::Fault, "row {number}");
        if level == Level::Fault {
            assert_eq!(trust.sentence(), format!("not trustworthy: {}", check.meaning));
        }
    }
}

/// Gives this many of 100,000 answers another status.
fn answered(report: &mut Report, status: u16, answers: u64) {
    report.statuses = vec![(200, 100_000 - answers), (status, answers)];
    report.errors = vec![count(ErrorCause::UnexpectedStatus, answers)];
}

#[test]
fn a_run_of_error_pages_is_named_as_one() {
    let meaning = |change: &dyn Fn(&mut Report)| {
        let (plan, mut report) = good();
        change(&mut report);
        Trust::of(&plan, &report).sentence()
    };
    assert_eq!(
        meaning(&|report| answered(report, 404, 100_000)),
        "not trustworthy: 100 % of the answers were errors (404): the figures are those of an error page"
    );
    assert_eq!(
        meaning(&|report| {
            report.statuses = vec![(200, 20_000), (401, 1_000), (404, 19_000), (500, 40_000), (503, 20_000)];
            report.errors = vec![count(ErrorCause::UnexpectedStatus, 80_000)];
        }),
        "not trustworthy: 80 % of the answers were errors (500, 503, 404, …): the figures are those of an error page"
    );
    assert_eq!(
        meaning(&|report| answered(report, 503, 20_000)),
        "trustworthy, but 20 % of the answers were errors (503): the figures are in part those of an error page"
    );
    assert_eq!(
        meaning(&|report| {
            report.counts.failed = 200_000;
            report.errors = vec![count(ErrorCause::ResetBeforeAnswer, 200_000)];
        }),
        "not trustworthy: 67 % of the requests failed (reset before an answer): the figures are those of failures"
    );
}

/// HTTP/2 with four requested streams, in a loop to which Little's law does not apply.
fn streams(plan: &mut Plan, report: &mut Report, allowed: u64) {
    (plan.http, plan.pipelining) = (HttpVersion::Http2, 4);
    plan.load = Load::Closed { think: Think::Fixed(Duration::from_secs(1)) };
    report.connections.streams = allowed;
}

/// A connection for each request, as over TLS: few are open at the same time, whatever the plan requests.
fn one_each(plan: &mut Plan, report: &mut Report, failed: u64) {
    plan.reuse = Reuse::Never;
    report.connections.reached = 9;
    (report.connections.opened, report.connections.failed) = (100_000, failed);
}

/// A thousand answers with this response time.
fn slow(nanoseconds: u64) -> crate::Histogram {
    answers(nanoseconds, 1_000)
}

fn answers(nanoseconds: u64, count: u64) -> crate::Histogram {
    let mut times = crate::Histogram::default();
    times.record_n(nanoseconds, count).unwrap();
    times
}

/// Connections fail from this window on, and nothing is answered.
fn dead_from(report: &mut Report, from: u64) {
    report.windows = windows(|number| if number < from { 1_000 } else { 0 });
    report.windows.iter_mut().skip(from as usize).for_each(|window| window.errors = 5);
    report.connections.failed = 20;
}

fn count(cause: ErrorCause, count: u64) -> ErrorCount {
    ErrorCount { cause, count, examples: Vec::new() }
}

#[test]
fn what_cannot_be_judged_is_not_judged() {
    let (mut plan, mut report) = good();
    plan.load = Load::Closed { think: Think::Fixed(Duration::from_secs(1)) };
    report.elapsed = Duration::from_millis(100);
    report.host = crate::Host::default();
    report.kernel = crate::Kernel::default();
    let keys: Vec<&str> = Trust::of(&plan, &report).checks.iter().filter_map(|check| check.key).collect();
    assert_eq!(
        keys,
        [
            "batch_residency",
            "generator_stood_still",
            "connections",
            "retransmits",
            "samples",
            "unfinished",
            "errors"
        ]
    );
}

#[test]
fn redirects_that_are_meant_and_pages_that_have_not_changed_are_no_mistake() {
    let (mut plan, mut report) = good();
    report.statuses = vec![(304, 100_000)];
    assert!(Trust::of(&plan, &report).check("redirects").is_none());
    report.statuses = vec![(301, 100_000)];
    plan.expect.statuses = vec![301];
    assert!(Trust::of(&plan, &report).check("redirects").is_none());
}

#[test]
fn no_answer_at_all_is_not_trusted_and_few_are_noted() {
    let (plan, _) = good();
    assert!(!Trust::of(&plan, &Report::empty("test")).trustworthy());
    let mut few = Report::empty("test");
    few.response.record_n(1_000_000, 999).unwrap();
    let trust = Trust::of(&plan, &few);
    let check = trust.check("samples").unwrap();
    assert_eq!(check.level(), Level::Note);
    assert!(check.meaning.contains("p99 (1,000)"));
    few.response = answers(1_000_000, 29);
    assert_eq!(Trust::of(&plan, &few).check("samples").unwrap().level(), Level::Warning);
}

#[test]
fn in_a_closed_loop_somebody_is_busy_or_the_limit_is_elsewhere() {
    let workers = |seconds: &[Option<f64>]| Workers {
        app: Some("api".to_owned()),
        source: String::new(),
        workers: seconds
            .iter()
            .map(|seconds| WorkerShare { cpu_seconds: *seconds, ..WorkerShare::default() })
            .collect(),
    };
    let idle = [Some(4.0), Some(8.4)];
    let table: [(&[Option<f64>], Change, Option<Level>, &str); 9] = [
        (&idle, |_, _| {}, Some(Level::Note), "; the limit is elsewhere: a database"),
        (&[Some(4.0), Some(8.6)], |_, _| {}, Some(Level::Fine), ""),
        (&idle, |_, report| report.threads[0].busy = 0.86, Some(Level::Fine), ""),
        (
            &idle,
            |_, report| report.host.busy = Some(0.97),
            Some(Level::Note),
            "all CPUs of the machine together are 97 % busy",
        ),
        (&idle, |plan, report| open(plan, report, 10_000.0), None, ""),
        (&idle, |plan, _| plan.load = Load::Closed { think: Think::Fixed(Duration::from_secs(1)) }, None, ""),
        (&idle, |_, report| report.elapsed = Duration::from_millis(900), None, ""),
        (&[Some(1.0), None], |_, _| {}, None, ""),
        (&[], |_, _| {}, None, ""),
    ];
    for (number, (seconds, change, level, meaning)) in table.into_iter().enumerate() {
        let (mut plan, mut report) = good();
        change(&mut plan, &mut report);
        let trust = Trust::of(&plan, &report).with_workers(&plan, &report, Some(&workers(seconds)));
        let check = trust.check("bottleneck");
        assert_eq!(check.map(Check::level), level, "row {number}: {check:?}");
        assert!(check.is_none_or(|check| check.meaning.contains(meaning)), "row {number}: {check:?}");
    }
    let (plan, report) = good();
    let known = Trust::of(&plan, &report);
    assert_eq!(known.clone().with_workers(&plan, &report, None), known);
}
