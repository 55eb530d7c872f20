//! Two saved runs: what the comparison reports and what it does not.

use serde_json::{Value, json};

use super::*;
use crate::reports::{self, markdown, text};

/// A run of `seconds` whose rate varies a little around `rate`.
fn run(rate: f64, seconds: usize) -> Value {
    let windows: Vec<Value> = (0..seconds * 10)
        .map(|place| {
            let wave = 1.0 + 0.02 * ((place / 10 % 3) as f64 - 1.0);
            json!({
                "at_s": place as f64 / 10.0, "length_s": 0.1, "completed": rate / 10.0 * wave, "p50_ms": 2.0 * wave,
            })
        })
        .collect();
    json!({
        "kind": "bench", "version": 1, "forkful": "0.1.0", "created_at_ms": 1, "command": "forkful bench …",
        "trustworthy": true, "duration_s": seconds,
        "target": { "name": "GET http://127.0.0.1:3000/fast", "protocol": "HTTP/1.1" },
        "plan": {
            "description": "50 connections, 1 thread, closed loop, keep-alive", "loop": "closed", "connections": 50,
            "keep_alive": true, "pipelining": 1, "warmup_s": 0.0, "timeout_s": 30.0,
        },
        "requests": { "per_second": rate, "completed": rate * seconds as f64, "late": 0 },
        "latency_ms": { "p50": 2.0, "p90": 3.0, "p99": 4.0, "p999": null, "max": 9.0 },
        "errors": { "total": 0, "share": 0.0 },
        "bytes": { "received_bodies": rate * seconds as f64 * 2.0 },
        "environment": { "cpus": 2 },
        "windows": windows,
    })
}

fn compared(a: &Value, b: &Value) -> ReportsDocument {
    let context = Context {
        forkful: "0.1.0".to_owned(),
        created_at_ms: 2,
        command: "forkful compare a.json b.json".to_owned(),
    };
    reports::compare([("x/a.json", &a.to_string()), ("x/b.json", &b.to_string())], &context).unwrap()
}

fn set(mut report: Value, pointer: &str, value: Value) -> Value {
    *report.pointer_mut(pointer).expect("the key is there") = value;
    report
}

#[test]
fn a_tenth_less_is_slower_and_a_hundredth_is_no_difference() {
    let slower = compared(&run(1000.0, 10), &run(900.0, 10));
    assert_eq!((slower.verdict, &slower.gate), ("slower", &Gate::Slower(vec!["requests per second"])));
    assert!(
        slower.headline.contains("b.json answers 0.90 × as many requests per second as a.json"),
        "{}",
        slower.headline
    );
    let [low, high] = slower.figures[0].ci95.unwrap();
    assert!(low > 0.85 && low < 0.9 && high > 0.9 && high < 0.95, "{low} {high}");
    let same = compared(&run(1000.0, 10), &run(990.0, 10));
    assert_eq!((same.verdict, &same.gate), ("no difference", &Gate::Pass));
    let faster = compared(&run(1000.0, 10), &run(2000.0, 10));
    assert_eq!((faster.verdict, &faster.gate), ("faster", &Gate::Pass));
}

#[test]
fn a_run_beside_other_programs_is_compared_with_no_other() {
    let mut busy = run(900.0, 10);
    for (ok, verdict) in [(json!(null), "not known"), (json!(true), "slower")] {
        busy["trust"] = json!({ "checks": [{ "key": "other_programs", "ok": ok }] });
        let document = compared(&run(1000.0, 10), &busy);
        assert_eq!(document.verdict, verdict);
        let is_unknown =
            document.gate == Gate::Unknown("a run was made beside other programs that used the CPU");
        assert_eq!(is_unknown, verdict == "not known", "{:?}", document.gate);
        let says = "not known: other programs used the CPU that b.json needed";
        assert_eq!(document.headline.starts_with(says), verdict == "not known", "{}", document.headline);
    }
}

#[test]
fn what_a_fresh_start_may_make_is_no_difference_that_is_called_one() {
    // The seconds alone would detect a difference of 6 %; two single runs cannot.
    let document = compared(&run(1000.0, 10), &run(945.0, 10));
    let [_, high] = document.figures[0].ci95.unwrap();
    assert!(high < 0.99, "the interval leaves out 1: {high}");
    assert_eq!(
        (document.verdict, &document.gate),
        ("inconclusive", &Gate::Unknown("the comparison is inconclusive"))
    );
}

#[test]
fn seconds_without_an_answer_are_not_left_out() {
    let mut stalled = run(1000.0, 10);
    for window in &mut stalled["windows"].as_array_mut().unwrap()[20..60] {
        (window["completed"], window["p50_ms"]) = (0.into(), Value::Null);
    }
    let document = compared(&run(1000.0, 10), &set(stalled, "/requests/per_second", 600.0.into()));
    assert_eq!(document.gate, Gate::Unknown("a run has seconds without an answer"));
    assert_eq!((document.figures[0].ratio, document.figures[0].ci95), (Some(0.6), None));
    let text = text(&document);
    assert!(text.contains("Nothing was answered in 4 of 10 parts of b.json"), "{text}");
}

#[test]
fn short_runs_have_a_ratio_and_no_verdict() {
    let document = compared(&run(1000.0, 4), &run(500.0, 4));
    assert_eq!((document.verdict, document.figures[0].ratio), ("not known", Some(0.5)));
    assert_eq!(document.gate, Gate::Unknown("the runs are too short for an interval"));
    assert!(document.details[0].contains("an interval needs 5 seconds of each run, and there are 4 and 4"));
}

#[test]
fn another_load_leaves_no_verdict_and_is_named_before_another_place() {
    let other = set(run(900.0, 10), "/plan/connections", json!(10));
    let other = set(other, "/target/name", json!("GET http://127.0.0.1:4000/slow"));
    let document = compared(&run(1000.0, 10), &other);
    let names: Vec<(&str, bool)> = document.differences.iter().map(|one| (one.setting, one.load)).collect();
    assert_eq!(names, [("request", true), ("connections", true), ("server", false)]);
    assert_eq!(document.gate, Gate::Unknown("the loads were not the same"));
    assert!(document.headline.starts_with("not known: the loads differ (request, connections)"));
    assert!(document.figures.iter().all(|figure| figure.verdict.is_none()));
}

#[test]
fn another_place_is_named_and_the_verdict_stays() {
    let other = set(run(900.0, 10), "/environment/cpus", json!(8));
    let document = compared(&run(1000.0, 10), &set(other, "/duration_s", json!(60)));
    let names: Vec<&str> = document.differences.iter().map(|one| one.setting).collect();
    assert_eq!((names, document.verdict), (vec!["cores", "measured, s"], "slower"));
}

#[test]
fn answers_of_another_length_are_another_load() {
    let other = set(run(1000.0, 10), "/bytes/received_bodies", json!(1_000_000));
    let document = compared(&run(1000.0, 10), &other);
    assert_eq!(document.differences[0].setting, "bytes of an answer");
    assert!(document.has_other_load());
}

#[test]
fn an_open_loop_is_judged_by_its_median_and_a_closed_one_is_not() {
    let open = |median: f64| {
        let mut report = set(run(1000.0, 10), "/plan/loop", json!("open"));
        report["plan"]["description"] = json!("50 connections, open loop at 1000 requests/s");
        report["latency_ms"]["p50"] = json!(median);
        for window in report["windows"].as_array_mut().unwrap() {
            window["p50_ms"] = json!(window["p50_ms"].as_f64().unwrap() * median / 2.0);
        }
        report
    };
    let document = compared(&open(2.0), &open(4.0));
    assert_eq!(document.gate, Gate::Slower(vec!["the median latency at equal load"]));
    assert!(document.headline.starts_with("slower: the median latency of b.json is 2.00 × that of a.json"));
    let closed = compared(&run(1000.0, 10), &set(run(1000.0, 10), "/latency_ms/p50", json!(9.0)));
    assert_eq!(closed.gate, Gate::Pass);
}

#[test]
fn doubtful_reports_and_other_shares_of_errors_pass_nothing() {
    let doubtful = set(run(1000.0, 10), "/trustworthy", json!(false));
    let document = compared(&run(1000.0, 10), &doubtful);
    assert_eq!(document.gate, Gate::Unknown("a report cannot be trusted"));
    assert!(text(&document).starts_with("Not trustworthy: b.json: its report says so."));
    let failing = set(set(run(1000.0, 10), "/errors/total", json!(500)), "/errors/share", json!(0.05));
    let document = compared(&run(1000.0, 10), &failing);
    assert!(matches!(document.gate, Gate::Unknown(why) if why.contains("errors")));
}

#[test]
fn both_forms_have_verdict_figures_and_what_they_cannot_say() {
    let document = compared(&run(1000.0, 10), &set(run(900.0, 10), "/forkful", json!("0.2.0")));
    let text = text(&document);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for part in ["Slower: b.json answers", "version of Forkful", "requests/s", "not judged", "single runs"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let markdown = markdown(&document);
    for part in
        ["### `b.json` against `a.json`: slower", "| requests/s | 1,000 | 900 | −10.0 % (", "**slower**"]
    {
        assert!(markdown.contains(part), "{part}: {markdown}");
    }
}

#[test]
fn a_window_without_a_number_is_told_with_its_place() {
    let broken = set(run(1000.0, 1), "/windows/3/completed", json!("many"));
    let context = Context { forkful: String::new(), created_at_ms: 0, command: String::new() };
    let files = [("a.json", run(1000.0, 1).to_string()), ("b.json", broken.to_string())];
    let [(a, a_text), (b, b_text)] = &files;
    let error = reports::compare([(a, a_text), (b, b_text)], &context).unwrap_err();
    assert_eq!(error.to_string(), "b.json: `windows.3.completed` is \"many\", and should be a number");
}
