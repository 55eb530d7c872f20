//! The report in all output formats.

use std::time::Duration;

use insta::assert_snapshot;
use serde_json::Value;

use super::*;
use crate::{
    Arrivals, EarlyEnd, ErrorCause, ErrorCount, ErrorExample, Load, Plan, Report, RequestFacts, Stop,
    ThreadFacts, Window,
};

fn plan() -> Plan {
    let mut plan = Plan::get("http://127.0.0.1:8000/fast").unwrap();
    plan.connections = 22;
    plan.stop = Stop::Duration(Duration::from_secs(10));
    plan
}

fn report() -> Report {
    let mut report = Report::empty("raw epoll, HTTP/1.1");
    report.elapsed = Duration::from_secs(10);
    report.counts.started = 20_064;
    report.counts.completed = 20_000;
    report.counts.failed = 14;
    report.counts.late = 50;
    report.statuses = vec![(200, 19_950), (500, 100)];
    report.errors = vec![
        ErrorCount {
            cause: ErrorCause::ResetBeforeAnswer,
            count: 14,
            examples: vec![ErrorExample {
                at: Duration::from_millis(1_500),
                detail: "ECONNRESET\r\n".to_owned(),
            }],
        },
        ErrorCount { cause: ErrorCause::UnexpectedStatus, count: 100, examples: Vec::new() },
    ];
    for number in 0..20_000_u64 {
        let nanoseconds = 1_000_000 + (number % 200) * 100_000;
        for histogram in
            [&mut report.response, &mut report.total, &mut report.service, &mut report.first_byte]
        {
            histogram.record(nanoseconds).unwrap();
        }
    }
    report.connect.record_n(150_000, 22).unwrap();
    report.bytes.sent = 1_600_000;
    report.bytes.received = 2_600_000;
    report.bytes.received_bodies = 120_000;
    report.connections.asked = 22;
    report.connections.reached = 22;
    report.connections.opened = 36;
    report.connections.reused = 19_986;
    report.cpu_seconds = 3.0;
    report.threads = vec![ThreadFacts { busy: 0.3, cpu_seconds: 3.0, ..ThreadFacts::default() }];
    report.windows = vec![Window {
        start: Duration::ZERO,
        length: Duration::from_secs(10),
        started: 20_064,
        completed: 20_000,
        completed_by_thread: vec![20_000],
        errors: 114,
        received: 2_600_000,
        p50: Some(Duration::from_millis(11)),
        p99: Some(Duration::from_micros(20_800)),
        max: None,
        open_connections: 22,
        backlog: 0,
        cpu_seconds: 3.0,
    }];
    report
}

struct Told {
    plan: Plan,
    report: Report,
    workers: Option<Workers>,
    expectations: Vec<&'static str>,
}

impl Told {
    fn of(plan: Plan, report: Report) -> Self {
        Self { plan, report, workers: None, expectations: Vec::new() }
    }

    fn with<T>(&self, f: impl FnOnce(&Findings) -> T) -> T {
        let trust =
            Trust::of(&self.plan, &self.report).with_workers(&self.plan, &self.report, self.workers.as_ref());
        let judge = |text: &&str| text.parse::<Threshold>().unwrap().judge(&self.report);
        let judgements: Vec<Judgement> = self.expectations.iter().map(judge).collect();
        f(&Findings {
            plan: &self.plan,
            report: &self.report,
            trust: &trust,
            judgements: &judgements,
            command: "forkful bench http://127.0.0.1:8000/fast",
            ended_at_ms: 1_795_277_255_042,
            workers: self.workers.as_ref(),
        })
    }

    fn text(&self) -> String {
        self.with(|findings| text(findings, &|_, text| text.to_owned()))
    }

    fn summary(&self) -> String {
        self.with(|findings| summary(findings, &|_, text| text.to_owned()))
    }

    fn json(&self) -> Value {
        self.with(|findings| serde_json::to_value(Document::of(findings)).unwrap())
    }
}

#[test]
fn the_summary_has_the_verdict_first_and_fits_fifteen_lines() {
    let mut told = Told::of(plan(), report());
    assert_snapshot!(told.summary(), @"
    Trustworthy
    GET http://127.0.0.1:8000/fast
    22 connections, 1 thread, closed loop, keep-alive, 10s

    Requests  2,000 requests/s   20,000 answers in 10.0 s
    p50       10.9 ms
    p99       20.7 ms
    Errors    114 of 20,064 requests (0.57 %; includes 50 answers after the end)
           100  unexpected status: 500
            14  reset before an answer

    --verbose shows all percentiles, connections, workers and checks
    ");
    told.report.statuses = vec![(404, 20_050)];
    told.report.errors = [
        (ErrorCause::UnexpectedStatus, 20_050),
        (ErrorCause::ConnectRefused, 14),
        (ErrorCause::TimeoutBeforeAnswer, 3),
    ]
    .map(|(cause, count)| ErrorCount { cause, count, examples: Vec::new() })
    .to_vec();
    told.report.response = crate::Histogram::default();
    told.report.response.record_n(1_000_000, 900).unwrap();
    told.expectations = vec!["p50<20ms"];
    assert_snapshot!(told.summary(), @"
    NOT TRUSTWORTHY: 100 % of the answers were errors (404): the figures are those of an error page
    GET http://127.0.0.1:8000/fast
    22 connections, 1 thread, closed loop, keep-alive, 10s

    Requests  2,000 requests/s   20,000 answers in 10.0 s
    p50       1.00 ms
    p99       – (too few answers: it takes 1,000)
    Errors    20,067 of 20,067 requests (100 %; includes 50 answers after the end)
        20,050  unexpected status: 404
            14  connection refused
                hint: is the server running, and on this port?
                see: https://forkful.github.io/forkful/measuring#when-requests-fail
                and 1 more causes
      ok  p50<20ms kept (1.00 ms)

    --verbose shows all percentiles, connections, workers and checks
    ");
    assert!(told.summary().lines().count() <= 16 + told.expectations.len());
}

#[test]
fn a_whole_report() {
    let mut told = Told::of(plan(), report());
    told.expectations = vec!["p99<20ms", "rps>1000", "p99.99<1s"];
    told.workers = Some(Workers {
        app: Some("api".to_owned()),
        source: "requests by bytes".to_owned(),
        workers: [(0, 15_000), (1, 5_000)]
            .map(|(slot, requests)| WorkerShare {
                name: slot.to_string(),
                pid: Some(4_000 + slot),
                requests: Some(requests),
                connections: Some(11),
                cpu_seconds: Some(4.5),
            })
            .to_vec(),
    });
    assert_snapshot!(told.text());
}

#[test]
fn an_open_loop_shows_waiting_apart() {
    let (mut plan, mut report) = (plan(), report());
    plan.load = Load::Open { rate: 2_000.0, connections_max: 100, arrivals: Arrivals::Even };
    report.offered = 20_000;
    report.slip.record_n(50_000, 20_000).unwrap();
    assert_snapshot!(Told::of(plan, report).text());
}

#[test]
fn what_cannot_be_trusted_says_so_in_its_first_line() {
    let mut report = report();
    report.threads[0].busy = 0.97;
    let told = Told::of(plan(), report);
    let text = told.text();
    let first = text.lines().next().unwrap();
    assert!(
        first.starts_with("NOT TRUSTWORTHY: the generator was the bottleneck (97 % CPU of a thread)"),
        "{first}"
    );
    let document = told.json();
    assert_eq!(document["trustworthy"], false);
    assert_eq!(document["generator"]["saturated"], true);
    assert!(document["headline"].as_str().unwrap().starts_with("not trustworthy: the generator"));
}

#[test]
fn percentiles_without_samples_enough_are_left_out() {
    let mut few = report();
    for histogram in [&mut few.response, &mut few.first_byte, &mut few.service] {
        histogram.reset();
    }
    few.response.record_n(1_000_000, 500).unwrap();
    let told = Told::of(plan(), few);
    let latency = told.json()["latency_ms"].clone();
    assert_eq!(
        (latency["p50"].is_number(), &latency["p99"], &latency["p999"]),
        (true, &Value::Null, &Value::Null)
    );
    let text = told.text();
    assert!(text.contains("p99 needs 1,000 samples; there are 500"), "{text}");
    assert!(!text.contains("\n  p99.9 "), "{text}");
}

#[test]
fn the_keys_of_the_json_are_stable() {
    let document = Told::of(plan(), report()).json();
    let expected = [
        "/requests/completed",
        "/requests/per_second",
        "/latency_ms/mean",
        "/latency_ms/p50",
        "/latency_ms/p90",
        "/latency_ms/p99",
        "/latency_ms/p999",
        "/latency_ms/max",
        "/errors/total",
        "/errors/by_cause/reset_before_answer",
        "/generator/cpu_seconds",
        "/generator/saturated",
        "/trustworthy",
        "/statuses/500",
        "/status_classes/2xx",
        "/connections/reached",
        "/trust/checks/0/key",
        "/windows/0/p99_ms",
        "/target/name",
        "/plan/connections",
    ];
    for pointer in expected {
        let found = document.pointer(pointer).unwrap_or_else(|| panic!("no {pointer}"));
        assert!(!found.is_null(), "{pointer} is null");
    }
    let keys: Vec<&String> = document.as_object().unwrap().keys().collect();
    assert_snapshot!(format!("{keys:?}"));
    assert_eq!(document["requests"]["per_second"], 2_000.0);
    assert_eq!(document["created_at"], "2026-11-21T16:07:35.042Z");
}

#[test]
fn the_page_is_the_json_with_plots_that_have_points() {
    let told = Told::of(plan(), report());
    let page = told.with(|findings| serde_json::to_value(Page::of(findings)).unwrap());
    let types: Vec<&str> =
        page["plots"].as_array().unwrap().iter().map(|plot| plot["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["percentiles", "timeline", "timeline", "timeline", "breakdown"]);
    let points = page["plots"][0]["series"][0]["points"].as_array().unwrap();
    assert!(points.len() > 50 && points.len() <= 2_000, "{}", points.len());
    let last = points.last().unwrap()[0].as_f64().unwrap();
    assert!((0.999..1.0).contains(&last), "ten samples lie beyond the last point, {last}");
    let rising = points.windows(2).all(|pair| pair[0][1].as_f64() <= pair[1][1].as_f64());
    assert!(rising, "latency does not fall with the percentile");
    assert_eq!(page["latency_ms"], told.json()["latency_ms"]);
}

#[test]
fn requests_without_an_answer_are_told_with_their_ages() {
    let mut report = report();
    report.counts.unfinished = 400;
    report.censored.record_n(2_000_000_000, 399).unwrap();
    report.censored.record(7_500_000_000).unwrap();
    let told = Told::of(plan(), report);
    let document = told.json();
    let ages = &document["phases_ms"]["unfinished"];
    assert_eq!((&ages["samples"], ages["p50"].as_f64().unwrap().floor()), (&400.into(), 2_000.0));
    assert!((ages["max"].as_f64().unwrap() / 7_500.0 - 1.0).abs() < 0.002, "{ages}");
    let text = told.text();
    assert!(text.contains("400 did not come (the oldest had waited 7.50 s)"), "{text}");
    let meaning =
        "400 requests had no answer when the waiting ended, the oldest at least 7.50 s; the tail is longer";
    assert!(text.contains(meaning), "{text}");
    let none = Told::of(plan(), self::report());
    assert_eq!(none.json()["phases_ms"]["unfinished"]["samples"], 0);
    assert!(
        none.text().contains("50 answers came after the time was up, 0 did not come\n"),
        "{}",
        none.text()
    );
}

#[test]
fn the_share_of_each_thread_is_told_where_there_are_several() {
    let busy = |shares: &[f64]| {
        let mut report = report();
        let thread = |busy: &f64| ThreadFacts { busy: *busy, ..ThreadFacts::default() };
        report.threads = shares.iter().map(thread).collect();
        Told::of(plan(), report).text()
    };
    assert!(!busy(&[0.3]).contains("Generator "), "the trust box says it all");
    let two = busy(&[0.3, 0.114]);
    assert!(two.contains("\nGenerator    CPU by thread: 30 %, 11 %\n"), "{two}");
    let many: Vec<f64> = (1..=40).map(|number| f64::from(number) / 100.0).collect();
    let many = busy(&many);
    assert!(
        many.contains("\nGenerator    CPU of 40 threads: 1.00 % to 40 %, 21 % in the middle\n"),
        "{many}"
    );
}

#[test]
fn several_requests_are_told_apart() {
    let mut report = report();
    report.requests = ["GET /fast", "GET /slow"]
        .map(|name| RequestFacts {
            name: name.to_owned(),
            started: 10_000,
            completed: 10_000,
            errors: 0,
            response: report.response.clone(),
        })
        .to_vec();
    let told = Told::of(plan(), report);
    assert!(told.text().contains("By request\n"), "{}", told.text());
    assert_eq!(told.json()["urls"][1]["name"], "GET /slow");
}

#[test]
fn nothing_at_all_makes_no_nonsense() {
    let told = Told::of(plan(), Report::empty("raw epoll, HTTP/1.1"));
    let text = told.text();
    assert!(text.starts_with("NOT TRUSTWORTHY: "), "{text}");
    for nonsense in ["NaN", "inf", "-0"] {
        assert!(!text.contains(nonsense), "{text}");
        assert!(!told.json().to_string().contains(nonsense));
    }
}

#[test]
fn the_csv_has_a_line_for_each_window() {
    assert_snapshot!(csv(&report()));
}

#[test]
fn the_hdr_text_ends_at_all_samples() {
    let hdr = hdr(&report().response);
    assert_snapshot!(hdr);
}

#[test]
fn a_run_that_ended_early_says_why() {
    let mut told = Told::of(plan(), report());
    assert!(!told.summary().contains("ended early"));
    told.report.early_end = Some(EarlyEnd::TargetGone);
    assert!(told.summary().contains(", ended early because the target went away\n"), "{}", told.summary());
    told.report.early_end = Some(EarlyEnd::Stopped);
    assert!(told.summary().contains(" in 10.0 s, ended early\n"), "{}", told.summary());
    (told.plan.errors_max, told.report.early_end) = (Some(100), Some(EarlyEnd::Errors));
    let expected = ", ended early by 114 errors (--max-errors 100)\n";
    assert!(told.summary().contains(expected) && told.text().contains(expected), "{}", told.text());
}
