//! Schedule and recorder with servers whose behaviour is known, on a fake clock. The percentiles must equal
//! the analytic ones, coordinated omission included.

use super::*;
use crate::plan::Arrivals;
use crate::schedule::{Schedule, ScheduleOptions};

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MS;

fn ending() -> Ending {
    Ending { status: 200, body_bytes: 5, interim: 0, worker: NO_WORKER, worker_is_new: false, wrong: None }
}

fn recorder(end: Nanos) -> Recorder {
    let mut recorder = Recorder::new(RecorderOptions { measure_from: 0, requests: 1, threads: 1 });
    recorder.end = end;
    recorder
}

fn report(recorder: Recorder) -> Report {
    merged(Report::empty("simulated"), vec![Facts { recorder, workers: Vec::new() }], &["GET /".to_owned()])
}

/// A closed loop with a server that takes `service(request)` for each request.
fn closed(connections: usize, seconds: u64, service: impl Fn(u64) -> Nanos) -> Report {
    let end = seconds * SECOND;
    let mut recorder = recorder(end);
    let mut number = 0;
    for _ in 0..connections {
        let mut now = 0;
        while now < end {
            let timing =
                Timing { intended: now, begun: now, sent: now, first_byte: 0, measured: true, request: 0 };
            recorder.started(true, 0);
            now += service(number);
            number += 1;
            recorder.completed(&Timing { first_byte: now, ..timing }, &ending(), now);
        }
    }
    report(recorder)
}

/// An open loop at `rate`, with as many connections as needed. The server answers a request that arrives at
/// `t` at `answered(t)`.
fn open(rate: f64, seconds: u64, answered: impl Fn(Nanos) -> Nanos) -> Report {
    let end = seconds * SECOND;
    let mut recorder = recorder(end);
    let options = ScheduleOptions {
        rate,
        arrivals: Arrivals::Even,
        thread: 0,
        threads: 1,
        start: 0,
        ramp_end: 0,
        measure_from: 0,
        measured_max: u64::MAX,
    };
    let mut schedule = Schedule::new(options);
    while let Some(arrival) = schedule.peek().filter(|arrival| arrival.at < end) {
        schedule.take_due(arrival.at);
        // The generator sends slightly late.
        let sent = arrival.at + 20_000;
        let now = answered(sent);
        let timing =
            Timing { intended: arrival.at, begun: sent, sent, first_byte: now, measured: true, request: 0 };
        recorder.started(true, 0);
        recorder.slipped(&timing, sent - arrival.at);
        recorder.completed(&timing, &ending(), now);
    }
    report(recorder)
}

fn assert_near(histogram: &Histogram, quantile: f64, expected: f64, tolerance: f64) {
    let found = histogram.value_at_quantile(quantile) as f64 / MS as f64;
    assert!(
        (found / expected - 1.0).abs() <= tolerance,
        "p{}: {found} ms, not {expected} ms",
        quantile * 100.0
    );
}

#[test]
fn a_constant_service_time_is_every_percentile() {
    let report = closed(20, 10, |_| 50 * MS);
    for quantile in [0.001, 0.5, 0.9, 0.99, 0.999, 1.0] {
        assert_near(&report.response, quantile, 50.0, 0.001);
        assert_near(&report.service, quantile, 50.0, 0.001);
    }
    assert_eq!((report.counts.started, report.counts.completed + report.counts.late), (4_000, 4_000));
    assert_eq!(report.response.len(), 4_000);
}

#[test]
fn a_bimodal_service_time_has_both_modes_at_their_share() {
    let report = closed(20, 30, |number| if number % 10 == 9 { 100 * MS } else { MS });
    assert_near(&report.response, 0.5, 1.0, 0.001);
    assert_near(&report.response, 0.89, 1.0, 0.001);
    assert_near(&report.response, 0.91, 100.0, 0.001);
    assert_near(&report.response, 0.999, 100.0, 0.001);
}

/// The server stops for one second in every ten. Requests of that second are answered at its end, 1 ms later.
fn stalling(sent: Nanos) -> Nanos {
    let in_cycle = sent % (10 * SECOND);
    let stall_end = sent - in_cycle + SECOND;
    if in_cycle < SECOND { stall_end + MS } else { sent + MS }
}

#[test]
fn an_open_loop_sees_the_whole_stall() {
    let report = open(1_000.0, 100, stalling);
    // A tenth of all arrivals meets the stall and waits for its end: uniformly between 0 and 1 s. So the
    // quantile q above 0.9 waits (q − 0.9) · 10 s.
    assert_near(&report.response, 0.5, 1.02, 0.02);
    assert_near(&report.response, 0.89, 1.02, 0.02);
    for quantile in [0.95, 0.97, 0.99, 0.999] {
        assert_near(&report.response, quantile, (quantile - 0.9) * 10_000.0 + 1.0, 0.02);
    }
    assert_eq!(report.response.len(), 100_000);
    assert_near(&report.slip, 0.99, 0.02, 0.001);
}

#[test]
fn a_closed_loop_sees_one_slow_request_for_each_stall_and_says_no_more() {
    // A closed loop does not synthesise samples: ten stalls give ten slow requests on the one connection.
    let mut recorder = recorder(100 * SECOND);
    let mut now = 0;
    while now < 100 * SECOND {
        let timing =
            Timing { intended: now, begun: now, sent: now, first_byte: 0, measured: true, request: 0 };
        recorder.started(true, 0);
        now = stalling(now);
        recorder.completed(&Timing { first_byte: now, ..timing }, &ending(), now);
    }
    let report = report(recorder);
    let slow = report.response.len() - report.response.count_between(0, 500 * MS);
    assert_eq!(slow, 10);
    assert_near(&report.response, 0.999, 1.0, 0.001);
}

#[test]
fn an_open_loop_whose_connections_are_all_busy_times_from_the_schedule() {
    // One connection, 2 ms per request, one request due each millisecond: request i starts at 2i ms, was due
    // at i ms, and so takes i + 2 ms.
    let mut recorder = recorder(NEVER);
    for number in 0..1_000 {
        let (intended, sent) = (number * MS, 2 * number * MS);
        let now = sent + 2 * MS;
        let timing = Timing { intended, begun: sent, sent, first_byte: now, measured: true, request: 0 };
        recorder.started(true, 0);
        recorder.slipped(&timing, sent - intended);
        recorder.completed(&timing, &ending(), now);
    }
    let report = report(recorder);
    assert_near(&report.response, 0.5, 501.0, 0.01);
    assert_near(&report.response, 0.99, 991.0, 0.01);
    assert_near(&report.service, 0.99, 2.0, 0.001);
    assert_near(&report.slip, 0.99, 989.0, 0.01);
}

#[test]
fn answers_after_the_end_are_late_and_still_in_the_distribution() {
    let mut recorder = recorder(SECOND);
    for (sent, took) in [(0, 100 * MS), (900 * MS, 500 * MS)] {
        recorder.started(true, 0);
        let now = sent + took;
        let timing =
            Timing { intended: sent, begun: sent, sent, first_byte: now, measured: true, request: 0 };
        recorder.completed(&timing, &ending(), now);
    }
    let window = recorder.take_window(0);
    assert_eq!(window.completed, 1);
    let report = report(recorder);
    assert_eq!((report.counts.completed, report.counts.late, report.response.len()), (1, 1, 2));
}

#[test]
fn samples_and_examples_are_bounded() {
    let mut recorder = recorder(NEVER);
    let timing = Timing { intended: 0, begun: 0, sent: 0, first_byte: 1, measured: true, request: 0 };
    for number in 0..1_000_000u64 {
        let timing = Timing { intended: number, begun: number, sent: number, ..timing };
        recorder.started(true, 0);
        if number % 100 == 0 {
            recorder.failed(&timing, ErrorCause::TimeoutBeforeAnswer, "", number + 5);
        } else {
            recorder.completed(&timing, &Ending { body_bytes: number % 200, ..ending() }, number + 5);
        }
    }
    let report = report(recorder);
    assert!((Report::SAMPLES_MAX / 2..=Report::SAMPLES_MAX).contains(&report.samples.len()));
    let gaps: Vec<_> = report.samples.windows(2).map(|pair| pair[1].at.saturating_sub(pair[0].at)).collect();
    assert!(gaps.iter().all(|gap| *gap == gaps[0]), "evenly over the run");
    assert_eq!(report.errors[0].count, 10_000);
    assert_eq!(report.errors[0].examples.len(), ErrorExample::PER_CAUSE_MAX);
    assert_eq!(report.length_differs, 990_000 - 5_000);
}
