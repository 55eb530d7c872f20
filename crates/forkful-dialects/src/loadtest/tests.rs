//! loadtest's options and quirks, and its exact report.

use insta::assert_snapshot;

use super::*;
use crate::Dialect;
use crate::testing::{parsed, parsed_with, report};
use forkful_load::{Phase, Progress};

const URL: &str = "http://localhost:3000/heavy";

fn invocation(line: &str) -> Box<dyn Dialect> {
    parsed(&TOOL, line).unwrap()
}

#[test]
fn the_line_of_every_tutorial_has_as_many_clients_as_it_says() {
    let plan = invocation(&format!("-n 1200 -c 400 -k {URL}")).plan().unwrap();
    assert_eq!((plan.connections, plan.stop, plan.reuse), (400, Stop::Requests(1_200), Reuse::Always));
}

#[test]
fn ten_seconds_are_the_default_and_options_may_come_last() {
    let plan = invocation(&format!("{URL} -c 3")).plan().unwrap();
    assert_eq!((plan.connections, plan.stop), (3, Stop::Duration(Duration::from_secs(10))));
    assert_eq!(plan.reuse, Reuse::Never);
    let both = invocation(&format!("-n 100 -t 5 {URL}"));
    assert_eq!(
        (both.plan().unwrap().stop, both.plan().unwrap().time_limit),
        (Stop::Requests(100), Some(Duration::from_secs(5)))
    );
}

#[test]
fn a_rate_is_an_open_loop() {
    let plan = invocation(&format!("--rps 200 {URL}")).plan().unwrap();
    assert!(matches!(plan.load, Load::Open { rate, .. } if (rate - 200.0).abs() < 1e-9));
}

#[test]
fn indexes_and_bodies_become_counters() {
    let line = format!("--index %i -P {{\"a\":%i}} -T application/json {URL}/%i");
    let plan = invocation(&line).plan().unwrap();
    assert_eq!(plan.requests[0].url.path, "/heavy/{id}");
    assert_eq!(
        (plan.requests[0].method.as_str(), plan.requests[0].body.as_slice()),
        ("POST", b"{\"a\":{id}}".as_slice())
    );
    assert!(plan.requests[0].counter);
    let kind = |line: &str| {
        let request = invocation(&format!("{line} {URL}")).plan().unwrap().requests.remove(0);
        request
            .headers
            .into_iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("content-type"))
            .map(|(_, kind)| kind)
    };
    assert_eq!(kind("-P x -T application/json").as_deref(), Some("application/json"));
    assert_eq!(kind("-P x -H content-type:a/b").as_deref(), Some("a/b"));
    assert_eq!(kind("-m POST --data x").as_deref(), Some("text/plain"), "as loadtest does");
    assert_eq!(kind("-m POST"), None);
    let put = parsed_with(&TOOL, &format!("-u f {URL}"), &[("f", "x")], &[]).unwrap().plan().unwrap();
    assert_eq!((put.requests[0].method.as_str(), put.requests[0].body.as_slice()), ("PUT", b"x".as_slice()));
}

#[test]
fn faults_are_loadtest_s_own() {
    let printed = parsed(&TOOL, "--foo http://h/").unwrap_err();
    assert_eq!(
        (printed.stdout.as_str(), printed.exit),
        ("Unknown option \"--foo\".\nTry \"--help\" for more information.\n", 255)
    );
    let faults = [
        ("", "Missing URL to load-test"),
        ("http://a/ http://b/", "Too many arguments: http://a/,http://b/"),
        ("h/", "Invalid URL h/, must be http:// or https://"),
        ("-m TRACE http://h/", "Invalid method TRACE"),
        ("-c 0 http://h/", "-c, -n and -t must be 1 or more"),
    ];
    for (line, what) in faults {
        let printed = parsed(&TOOL, line).unwrap_err();
        assert_eq!((printed.stderr.trim_end(), printed.exit), (what, 1), "{line}");
    }
}

#[test]
fn the_report_has_loadtest_s_lines() {
    let mut report = report();
    report.errors = vec![forkful_load::ErrorCount {
        cause: forkful_load::ErrorCause::UnexpectedStatus,
        count: 400,
        examples: Vec::new(),
    }];
    assert_snapshot!(invocation(&format!("-n 2000 -c 10 -k {URL}")).report(&report).stdout);
}

#[test]
fn the_footnote_multiplies_the_clients_by_the_cores() {
    let notes = invocation(&format!("-n 2000 -c 20 {URL}")).footnotes(&report());
    assert!(notes[0].contains("would have opened 80 clients: `-c 20` for each of 4 cores"), "{notes:?}");
}

#[test]
fn each_line_of_progress_has_the_mean_since_the_last_one() {
    let mut invocation = invocation(&format!("-n 1000 -c 10 {URL}"));
    let mut line = |seconds: u64, completed: u64, (failed, errors): (u64, u64), waited_ms: u64| {
        let progress = Progress {
            phase: Phase::Measuring,
            elapsed: Duration::from_secs(seconds),
            done: 0.1,
            started: completed,
            completed,
            failed,
            errors,
            per_second: 1.0,
            // The line does not contain the median or other values of the last window.
            p50: Some(Duration::from_millis(777)),
            p99: Some(Duration::from_millis(999)),
            answered: completed,
            response_sum: Duration::from_millis(waited_ms),
            open_connections: 10,
            backlog: 0,
        };
        invocation.tick(&progress).stdout
    };
    assert_eq!(line(4, 80, (0, 0), 9_999), "", "not yet");
    assert_eq!(
        line(5, 100, (0, 0), 1_000),
        "Requests: 100 (10%), requests per second: 20, mean latency: 10 ms\n"
    );
    assert_eq!(
        line(10, 300, (100, 100), 6_060),
        "Requests: 400 (40%), requests per second: 40, mean latency: 25.3 ms\n\
         Errors: 100, accumulated errors: 100, 25% of total requests\n"
    );
    assert_eq!(line(15, 300, (100, 100), 6_060).lines().next().unwrap().rsplit(": ").next(), Some("0 ms"));
    // An answer with status 500 is an error and one request.
    assert_eq!(
        line(20, 600, (100, 400), 9_060),
        "Requests: 700 (70%), requests per second: 60, mean latency: 10 ms\n\
         Errors: 300, accumulated errors: 400, 57.1% of total requests\n"
    );
}
