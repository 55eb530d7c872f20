//! autocannon's options and quirks, and its exact report.

use insta::assert_snapshot;

use super::*;
use crate::Dialect;
use crate::testing::{parsed, parsed_with, report};
use forkful_load::Window;

const URL: &str = "http://127.0.0.1:8000/fast";

fn invocation(line: &str) -> Box<dyn Dialect> {
    parsed(&TOOL, line).unwrap()
}

#[test]
fn the_lines_of_tutorials() {
    let plan = invocation(&format!("-c 100 -d 5 -p 10 {URL}")).plan().unwrap();
    assert_eq!((plan.connections, plan.pipelining), (100, 10));
    assert_eq!(plan.stop, Stop::Duration(Duration::from_secs(5)));
    assert_eq!(
        invocation(&format!("-c100 -d=2m {URL}")).plan().unwrap().stop,
        Stop::Duration(Duration::from_secs(120))
    );
    assert_eq!(invocation(&format!("-a 1000 -w 4 {URL}")).plan().unwrap().stop, Stop::Requests(1_000));
}

#[test]
fn headers_are_split_at_the_first_colon_or_equals_sign() {
    let line = format!("-m post -H content-type=application/json --headers=X-Y:a=b -b {{\"a\":1}} {URL}");
    let request = invocation(&line).plan().unwrap().requests.remove(0);
    assert_eq!(request.method, "POST");
    let expected = [("content-type", "application/json"), ("X-Y", "a=b")];
    assert_eq!(request.headers, expected.map(|(n, v)| (n.to_owned(), v.to_owned())));
    assert_eq!(request.body, b"{\"a\":1}");
}

#[test]
fn a_rate_is_a_rate_and_the_rate_of_a_connection_counts_for_each() {
    let rate = |line: &str| match invocation(&format!("{line} {URL}")).plan().unwrap().load {
        Load::Open { rate, connections_max, .. } => (rate, connections_max),
        Load::Closed { .. } => panic!("{line} is no open loop"),
    };
    assert_eq!(rate("-R 200 -c 10"), (200.0, 10));
    assert_eq!(rate("-r 5 -c 10"), (50.0, 10));
    assert_eq!(rate("-R 3 -c 10"), (3.0, 3));
}

#[test]
fn warm_up_socket_reconnects_ids_and_the_rest() {
    let line = format!("-W [ -c 1 -d 3 ] -S /tmp/s -D 5 -I -E hello -B 7 --on-portless {URL}/[<id>]");
    let fault = parsed(&TOOL, &line).unwrap_err();
    assert!(fault.stderr.starts_with("autocannon: there is no option `on-portless`"));
    let plan = invocation(&line.replace("--on-portless ", "")).plan().unwrap();
    assert_eq!(plan.warmup, Duration::from_secs(3));
    assert_eq!((plan.reuse, plan.errors_max), (Reuse::Requests(5), Some(7)));
    assert_eq!(plan.unix_socket, Some(PathBuf::from("/tmp/s")));
    assert_eq!(plan.expect.body, Some(BodyCheck::Equals(b"hello".to_vec())));
    assert_eq!(plan.requests[0].url.path, "/fast/{id}");
}

#[test]
fn a_warm_up_has_the_values_of_the_test_wherever_it_stands() {
    for line in ["-W [ -c 1 ] -d 3", "-d 3 -W [ -c 1 ]"] {
        let plan = invocation(&format!("{line} {URL}")).plan().unwrap();
        assert_eq!(plan.warmup, Duration::from_secs(3), "{line}");
    }
}

#[test]
fn urls_are_completed() {
    let url = |line: &str, variables: &[(&str, &str)]| {
        parsed_with(&TOOL, line, &[], variables).map(|done| done.plan().unwrap().requests[0].url.to_string())
    };
    assert_eq!(url("localhost:3000", &[]).unwrap(), "http://localhost:3000/");
    assert_eq!(url("/path", &[("PORT", "99")]).unwrap(), "http://localhost:99/path");
    assert!(url("/path", &[]).unwrap_err().stderr.starts_with("Invalid URL"));
}

#[test]
fn faults_are_told() {
    let faults = [
        ("-c 0 http://h/", "connections can not be less than 1"),
        ("-c 10 -a 5 http://h/", "connections cannot be greater than amount"),
        ("-C http://h/", "ignoreCoordinatedOmission makes no sense without connectionRate or overallRate"),
        ("-H x http://h/", "An HTTP header was not correctly formatted: x"),
        ("-c", "autocannon: connections needs a value"),
        ("-c x http://h/", "autocannon: connections: `x` is no number"),
        ("-W [ -c 1 http://h/", "autocannon: warmup [ has no ]"),
        ("-W 5 http://h/", "autocannon: warmup takes `[ -c N -d SECONDS ]`"),
        ("--har f http://h/", "autocannon: --har is not supported by `forkful bench --as autocannon`"),
    ];
    for (line, what) in faults {
        let printed = parsed(&TOOL, line).unwrap_err();
        assert_eq!((printed.stderr.lines().next().unwrap_or_default(), printed.exit), (what, 1), "{line}");
    }
}

#[test]
fn the_report_has_autocannon_s_tables() {
    let invocation = invocation(&format!("-c 10 -d 2 -p 2 -w 2 -l --renderStatusCodes {URL}"));
    let printed = invocation.report(&report());
    assert_eq!(printed.stdout, "");
    assert_snapshot!(format!("{}{}", invocation.opening().stderr, printed.stderr));
}

#[test]
fn samples_of_a_long_run_and_short_ones_are_what_came_in_their_time() {
    // 1,000 per second for 300 s, with the windows of such a run, and periods of other runs.
    for (window_ms, windows) in [(400, 750), (800, 375), (1_600, 188), (100, 3_000)] {
        let mut report = report();
        report.elapsed = Duration::from_secs(300);
        let made = report.windows[0].clone();
        report.windows = (0..windows)
            .map(|number| {
                let start = Duration::from_millis(number * window_ms);
                let length = Duration::from_millis(window_ms).min(report.elapsed - start);
                let completed = length.as_millis() as u64;
                Window { start, length, completed, received: completed * 130, ..made.clone() }
            })
            .collect();
        for (flags, count, each) in [("", 300, 1_000), ("-L 50", 6_000, 50), ("-L 1500", 200, 1_500)] {
            let printed = invocation(&format!("-j -c 10 -d 300 {flags} {URL}")).report(&report);
            let document: serde_json::Value = serde_json::from_str(&printed.stdout).unwrap();
            let figures = |key: &str| {
                let figures = &document[key];
                ["min", "p1", "p50", "max", "stddev"].map(|key| figures[key].as_u64())
            };
            let what = format!("windows of {window_ms} ms, {flags}");
            assert_eq!(document["samples"], count, "{what}");
            assert_eq!(figures("requests"), [each, each, each, each, 0].map(Some), "{what}");
            let bytes = each * 130;
            assert_eq!(figures("throughput"), [bytes, bytes, bytes, bytes, 0].map(Some), "{what}");
        }
    }
}

#[test]
fn samples_lose_nothing_by_rounding_and_a_rest_has_none() {
    let mut report = report();
    report.windows.truncate(18);
    report.windows.iter_mut().for_each(|window| window.completed = 7);
    let printed = invocation(&format!("-j -c 10 -d 2 -L 30 {URL}")).report(&report);
    let document: serde_json::Value = serde_json::from_str(&printed.stdout).unwrap();
    let requests = &document["requests"];
    assert_eq!(
        (&document["samples"], &requests["min"], &requests["max"]),
        (&60.into(), &2.into(), &3.into())
    );
    // 60 samples of 126 answers.
    assert_eq!(requests["average"], 2.1);
    let printed = invocation(&format!("-j -c 10 -d 2 {URL}")).report(&report);
    let document: serde_json::Value = serde_json::from_str(&printed.stdout).unwrap();
    assert_eq!((&document["samples"], &document["requests"]["max"]), (&1.into(), &70.into()));
}

#[test]
fn the_last_line_has_what_was_sent() {
    let mut report = report();
    report.counts.started = 2_345;
    (report.counts.completed, report.counts.failed, report.counts.late) = (2_000, 300, 45);
    let printed = invocation(&format!("-c 10 -d 2 {URL}")).report(&report).stderr;
    assert!(printed.contains("\n2k requests in 2s, "), "{printed}");
    report.counts.started = 907;
    let printed = invocation(&format!("-c 10 -d 2 {URL}")).report(&report).stderr;
    assert!(printed.contains("\n907 requests in 2s, "), "{printed}");
}

#[test]
fn the_json_has_autocannon_s_keys_in_its_order() {
    let printed = invocation(&format!("-j -T title -c 10 -d 2 {URL}")).report(&report());
    assert_eq!(printed.stderr, "");
    let document: serde_json::Value = serde_json::from_str(&printed.stdout).unwrap();
    let keys = |value: &serde_json::Value| -> String {
        value.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        keys(&document),
        "title url connections sampleInt pipelining workers duration samples start finish errors timeouts \
         mismatches non2xx resets 1xx 2xx 3xx 4xx 5xx statusCodeStats latency requests throughput"
    );
    assert!(
        keys(&document["latency"]).starts_with("average mean stddev min max p0_001 p0_01 p0_1 p1 p2_5 p10")
    );
    assert!(keys(&document["requests"]).ends_with("p99_999 sent"));
    assert_eq!(document["2xx"], 1_600);
    assert_eq!(document["requests"]["average"], 1_000);
}

#[test]
fn the_footnotes_say_what_autocannon_would_have_done() {
    let notes = |flags: &str| invocation(&format!("{flags} -c 10 -d 2 {URL}")).footnotes(&report());
    let says = |flags: &str, what: &str| {
        let notes = notes(flags);
        notes.iter().any(|note| note.contains(what))
    };
    let each = "autocannon's 4 workers would each have sent 200 requests per second, 800 in all";
    assert!(says("-R 200 -w 4", each) && says("-j -R 200 -w 4", each));
    assert!(!says("-R 200 -w 1", "each have sent") && !says("-R 200", "each have sent"));
    // A rate per connection is not a rate per worker.
    assert!(!says("-r 200 -w 4", "each have sent"));
    assert!(says("-O 500 -w 4", "would each have sent 500, 2000 in all"));
    for flags in ["-R 200", "-j -R 200"] {
        assert!(says(flags, "the rate is one: evenly spaced"), "{flags}");
    }
    assert!(says("-c 10", "whole milliseconds") && !says("-j", "whole milliseconds"));
    assert!(says("-j -x", "answers other than 2xx are in the latencies"));
    assert_eq!(notes("-n -R 200 -w 4"), Vec::<String>::new(), "-n asks for silence");
}
