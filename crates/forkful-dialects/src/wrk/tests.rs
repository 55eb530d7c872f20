//! wrk's options and quirks, and its exact report.

use insta::assert_snapshot;

use super::*;
use crate::Dialect;
use crate::testing::{parsed, report};

const URL: &str = "http://127.0.0.1:8000/fast";

fn invocation(line: &str) -> Box<dyn Dialect> {
    parsed(&TOOL, line).unwrap()
}

#[test]
fn numbers_and_times_take_units_and_options_come_anywhere() {
    let plan = invocation(&format!("-t12 {URL} -c 1k -d2m --timeout 3s -H X:y")).plan().unwrap();
    assert_eq!((plan.connections, plan.threads), (1_000, Threads::Count(12)));
    assert_eq!(plan.stop, Stop::Duration(Duration::from_secs(120)));
    assert_eq!(plan.requests[0].headers, [("X".to_owned(), "y".to_owned())]);
}

#[test]
fn slow_answers_are_awaited_beyond_wrk_s_timeout() {
    let plan = invocation(&format!("-d 4 {URL}")).plan().unwrap();
    assert_eq!(plan.timeout, Duration::from_secs(6));
}

#[test]
fn faults_are_wrk_s_own() {
    let faults = [
        ("", ""),
        ("-c 2 -t 4 http://h/", "number of connections must be >= threads"),
        ("foo", "invalid URL: foo"),
        ("-Z http://h/", "wrk: invalid option -- 'Z'"),
        ("-c x http://h/", "--connections: `x` is no number like 10, 1k or 1M"),
    ];
    for (line, what) in faults {
        let printed = parsed(&TOOL, line).unwrap_err();
        assert_eq!((printed.stderr.trim_end(), printed.exit), (what, 1), "{line}");
        assert!(printed.stdout.starts_with("Usage: wrk <options> <url>"), "{line}");
    }
}

#[test]
fn the_report_has_wrk_s_lines() {
    let invocation = invocation(&format!("-t2 -c10 -d2s --latency {URL}"));
    assert_snapshot!(format!("{}{}", invocation.opening().stdout, invocation.report(&report()).stdout));
}

#[test]
fn a_run_without_an_answer_prints_wrk_s_nan() {
    let invocation = invocation(&format!("-d1 {URL}"));
    assert_snapshot!(invocation.report(&forkful_load::Report::empty("test")).stdout);
}

#[test]
fn footnotes_tell_of_dropped_connections_and_of_timeouts() {
    let mut report = report();
    report.response.record_n(3_000_000_000, 7).unwrap();
    let notes = invocation(&format!("-t12 -c400 -d2 {URL}")).footnotes(&report);
    assert!(notes[0].contains("396"), "{notes:?}");
    assert!(notes[1].starts_with("7 requests took longer than 2 s"), "{notes:?}");
}
