//! ab's options and quirks, and its exact report.

use insta::assert_snapshot;

use super::*;
use crate::Dialect;
use crate::testing::{parsed, parsed_with, read_with, report};

const URL: &str = "http://127.0.0.1:8000/fast?x=1";

fn options(line: &str) -> Ab {
    read_with(line, &[], &[], parse).unwrap()
}

fn complaint(line: &str) -> (String, u8) {
    let printed = parsed(&TOOL, line).unwrap_err();
    (printed.stderr.lines().next().unwrap_or_default().to_owned(), printed.exit)
}

fn invocation(line: &str) -> Box<dyn Dialect> {
    parsed(&TOOL, line).unwrap()
}

#[test]
fn the_line_of_every_tutorial() {
    let options = options(&format!("-k -n 5000 -c 500 {URL}"));
    assert_eq!((options.requests, options.concurrency, options.keep_alive), (5_000, 500, true));
    let plan = options.load();
    assert_eq!((plan.connections, plan.stop, plan.reuse), (500, Stop::Requests(5_000), Reuse::Always));
    assert_eq!(plan.requests[0].url.path, "/fast?x=1");
}

#[test]
fn a_time_limit_sets_the_requests_and_a_later_count_sets_them_again() {
    let timed = options(&format!("-n 10 -t 5 -c 2 {URL}"));
    assert_eq!((timed.requests, timed.time_limit), (50_000, Some(5)));
    assert_eq!(options(&format!("-t 5 -n 1000000 {URL}")).requests, 1_000_000);
    assert_eq!(invocation(&format!("-t 5 {URL}")).plan().unwrap().time_limit, Some(Duration::from_secs(5)));
    let endless = options(&format!("-t 0 {URL}"));
    assert_eq!((endless.requests, endless.load().time_limit), (50_000, None));
}

#[test]
fn without_keep_alive_there_is_a_connection_for_each_request() {
    assert_eq!(options(&format!("-n 9 {URL}")).load().reuse, Reuse::Never);
}

#[test]
fn bodies_headers_cookies_and_authentication_become_a_request() {
    let line = format!("-p b.json -T application/json -H X-A:b -C a=b -A u:p:q {URL}");
    let invocation = parsed_with(&TOOL, &line, &[("b.json", "{}")], &[]).unwrap();
    let request = invocation.plan().unwrap().requests.remove(0);
    assert_eq!((request.method.as_str(), request.body.as_slice()), ("POST", b"{}".as_slice()));
    let expected = [
        ("X-A", "b"),
        ("Cookie", "a=b"),
        ("Content-Type", "application/json"),
        ("User-Agent", "ApacheBench/2.3 (forkful)"),
        ("Accept", "*/*"),
    ];
    let given: Vec<(&str, &str)> = request.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    assert_eq!(given, expected);
    assert_eq!(request.basic_auth.unwrap().password, "p:q");
}

#[test]
fn faults_are_ab_s_own_with_its_exit_codes() {
    let faults = [
        (
            "-n 10 -c 20 http://h/",
            "ab: Cannot use concurrency level greater than total number of requests",
            22,
        ),
        ("-n 10 http://h", "ab: invalid URL", 22),
        ("-n 10", "ab: wrong number of arguments", 22),
        ("http://h/ -n 10", "ab: wrong number of arguments", 22),
        ("-n 10 -c 0 http://h/", "ab: Invalid Concurrency [Range 1..20000]", 22),
        ("-Y", "ab: illegal option -- Y", 22),
        ("-n 0 http://h/", "Invalid number of requests", 1),
        ("-p nofile http://h/", "ab: Could not open POST data file (nofile): No such file or directory", 1),
        ("-X proxy:1 http://h/", "ab: -X is not supported by `forkful bench --as ab`", 22),
    ];
    for (line, what, exit) in faults {
        assert_eq!(complaint(line), (what.to_owned(), exit), "{line}");
    }
}

#[test]
fn the_report_has_ab_s_lines() {
    let invocation = invocation(&format!("-k -n 2000 -c 10 {URL}"));
    assert_snapshot!(invocation.report(&report()).stdout);
    assert_eq!(invocation.report(&report()).stderr, "Finished 2000 requests\n");
}

#[test]
fn without_deviations_and_percentiles_the_report_is_short() {
    assert_snapshot!(invocation(&format!("-S -d -n 2000 {URL}")).report(&report()).stdout);
}

#[test]
fn html_tables_are_ab_s() {
    assert_snapshot!(invocation(&format!("-w -x border=1 -n 2000 {URL}")).report(&report()).stdout);
}

#[test]
fn the_files_of_e_and_g_are_written() {
    let printed = invocation(&format!("-e e.csv -g g.tsv -n 2000 {URL}")).report(&report());
    let csv = String::from_utf8(printed.files[0].1.clone()).unwrap();
    assert_eq!(csv.lines().count(), 102);
    assert!(csv.starts_with("Percentage served,Time in ms\n0,0.5"), "{csv}");
    assert!(printed.files[1].1.starts_with(b"starttime\tseconds\tctime\tdtime\tttime\twait\n"));
}

#[test]
fn footnotes_tell_of_lengths_and_of_keep_alive() {
    let mut report = report();
    report.length_differs = 80;
    let notes = invocation(&format!("-k -n 2000 -c 10 {URL}")).footnotes(&report);
    assert!(notes[0].starts_with("ab would have counted 80 of these answers as failed (Length)"));
    assert!(notes[1].contains("HTTP/1.0"));
    let quiet = invocation(&format!("-l -n 2000 -c 10 {URL}")).footnotes(&report);
    assert!(!quiet.iter().any(|note| note.contains("Length")), "{quiet:?}");
}
