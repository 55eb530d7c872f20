//! Two saved comparisons: each arm compared with itself.

use serde_json::{Value, json};

use super::*;
use crate::reports;

/// A comparison whose arms have these rates, with a small variation between blocks.
fn comparison(single: f64, cluster: f64) -> Value {
    let wave = |block: usize| 1.0 + 0.01 * ((block % 3) as f64 - 1.0);
    let arm = |name: &str, rate: f64| {
        json!({
            "name": name, "throughput": { "per_second": rate }, "cpu_per_request_us": 100.0,
            "latency": [{ "load": 0.5, "rate": 400.0, "p50_ms": 2.0, "p99_ms": null, "overloaded": false }],
        })
    };
    let blocks: Vec<Value> = (0..6)
        .map(|block| {
            let one = |rate: f64| {
                json!({
                    "per_second": rate * wave(block), "cpu_per_request_us": 100.0 * wave(block),
                    "latency": { "0.5": { "p50_ms": 2.0 * wave(block), "p99_ms": null } },
                })
            };
            json!({ "number": block, "counted": true, "arms": { "single": one(single), "cluster": one(cluster) } })
        })
        .collect();
    json!({
        "kind": "compare", "version": 1, "forkful": "0.1.0", "trustworthy": true,
        "target": { "script": "app.js", "method": "GET", "path": "/" },
        "machine": { "cores": 2, "cpu": "x", "node": "20.1.0" },
        "plan": { "connections": 64, "keep_alive": true, "window_s": 1.0 },
        "arms": [arm("single", single), arm("cluster", cluster)], "blocks": blocks,
    })
}

fn compared(a: &Value, b: &Value) -> Result<ReportsDocument, ReportError> {
    let context = Context { forkful: "0.1.0".to_owned(), created_at_ms: 2, command: String::new() };
    reports::compare([("a.json", &a.to_string()), ("b.json", &b.to_string())], &context)
}

fn word(document: &ReportsDocument, name: &str) -> Option<Word> {
    document.figures.iter().find(|figure| figure.name == name).expect("the figure is there").verdict
}

#[test]
fn each_arm_is_compared_with_itself_and_one_that_is_slower_is_enough() {
    let document = compared(&comparison(1000.0, 1800.0), &comparison(1000.0, 1600.0)).unwrap();
    assert_eq!(word(&document, "single: requests/s"), Some(Word::NoDifference));
    assert_eq!(word(&document, "cluster: requests/s"), Some(Word::Slower));
    assert_eq!(word(&document, "cluster ÷ single"), Some(Word::Slower));
    assert_eq!(word(&document, "cluster: p50 at 50 %"), Some(Word::NoDifference));
    assert_eq!(document.gate, Gate::Slower(vec!["requests per second"]));
    assert!(
        document.headline.starts_with("slower: requests per second of b.json against a.json: single 1.00 ×")
    );
}

#[test]
fn the_ratio_of_two_arms_does_not_mind_another_machine() {
    let mut other = comparison(2000.0, 3600.0);
    other["machine"]["cores"] = json!(8);
    let document = compared(&comparison(1000.0, 1800.0), &other).unwrap();
    assert_eq!(document.differences[0].setting, "cores");
    assert_eq!(word(&document, "cluster ÷ single"), Some(Word::NoDifference));
    assert_eq!(word(&document, "single: requests/s"), Some(Word::Faster));
}

#[test]
fn blocks_that_did_not_count_do_not_count_here() {
    let mut other = comparison(1000.0, 1800.0);
    other["blocks"][2]["counted"] = json!(false);
    other["blocks"][2]["arms"]["single"]["per_second"] = json!(1.0);
    let document = compared(&comparison(1000.0, 1800.0), &other).unwrap();
    assert_eq!((document.verdict, &document.gate), ("no difference", &Gate::Pass));
}

#[test]
fn rates_that_differ_and_arms_that_do_are_not_compared() {
    let mut other = comparison(1000.0, 1800.0);
    other["arms"][0]["latency"][0]["rate"] = json!(800.0);
    let document = compared(&comparison(1000.0, 1800.0), &other).unwrap();
    assert_eq!(word(&document, "single: p50 at 50 %"), None);
    let mut strange = comparison(1000.0, 1800.0);
    for (place, name) in ["x", "y"].into_iter().enumerate() {
        strange["arms"][place]["name"] = json!(name);
    }
    let error = compared(&comparison(1000.0, 1800.0), &strange).unwrap_err();
    assert_eq!(error.to_string(), "a.json and b.json have no arm in common: single, cluster; x, y");
}

#[test]
fn reports_of_two_kinds_are_not_compared() {
    let bench = json!({ "kind": "bench", "version": 1 });
    let error = compared(&comparison(1.0, 1.0), &bench).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a.json is a report of `compare` and b.json of `bench`: only two of one kind can be compared"
    );
}
