//! `forkful doctor`: its output for an app, and its errors. `forkful-core` tests the verdicts.

use insta::assert_snapshot;
use serde_json::Value;

use crate::sandbox::{Sandbox, done};

const SERVER: &str = "
require('node:http').createServer((request, response) => response.end('hello')).listen(0, '127.0.0.1');
";

#[test]
fn a_verdict_needs_some_seconds_and_an_app() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.transcript(&["doctor", "--for", "5s"]), @r"
    exit: 2
    --- stderr
    error: 5 s are too short for a verdict

    hint: `--for 10s` or longer gives a verdict
    ");
    let nobody = sandbox.transcript(&["doctor", "nobody"]);
    assert!(nobody.contains("exit: 3") && nobody.contains("nobody"), "{nobody}");
}

#[test]
fn a_trial_of_several_apps_is_refused_before_they_are_watched() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    done(&sandbox, &["start", "server.js", "--name", "a"]);
    done(&sandbox, &["start", "server.js", "--name", "b"]);
    // If they were watched, the test would last an hour.
    assert_snapshot!(sandbox.transcript(&["doctor", "--fix", "--for", "1h"]), @r"
    exit: 2
    --- stderr
    error: --fix changes one app, but 2 are named

    hint: name the app
    ");
}

/// Whether the app counts as idle depends on how busy the machine is, so the verdict's text is not compared.
#[test]
fn the_verdict_comes_first_then_its_numbers_what_to_do_and_each_worker() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    done(&sandbox, &["start", "server.js", "--name", "api", "-i", "2"]);
    let text = done(&sandbox, &["doctor", "api", "--for", "10s"]);
    let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("no `{part}` in {text}"));
    assert!(text.starts_with("api"), "{text}");
    let order = ["\nEvidence (", "\nWhat to do\n  1. ", "\nWorkers (share of each second)\n  0: "];
    assert!(order.map(place).is_sorted(), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");

    // An app that does not run has no verdict, and is not told to be watched for longer.
    done(&sandbox, &["start", "server.js", "--name", "job"]);
    done(&sandbox, &["stop", "job"]);
    let all = sandbox.run(&["doctor", "--for", "10s", "--json"]);
    let notes = String::from_utf8(all.stderr).unwrap();
    assert!(notes.contains("note: job is left out: none of its workers ran in this time"), "{notes}");
    let json: Value = serde_json::from_slice(&all.stdout).unwrap();
    assert_eq!(json["apps"].as_array().unwrap().len(), 1, "{json}");
    let app = &json["apps"][0];
    assert_eq!((app["app"].as_str(), app["seconds"].as_u64()), (Some("api"), Some(10)), "{json}");
    assert!(app["headline"].as_str().unwrap().starts_with("api"), "{json}");
    assert!(["certain", "likely", "inconclusive"].contains(&app["certainty"].as_str().unwrap()), "{json}");
    let workers = app["workers"].as_array().unwrap();
    assert_eq!(workers.len(), 2, "{json}");
    for worker in workers {
        let split = worker["split"].as_object().unwrap();
        let sum: f64 = split.values().filter_map(Value::as_f64).sum();
        assert!((sum - 1.0).abs() < 1e-6, "{json}");
    }

    // The daemon has kept these seconds.
    let past: Value =
        serde_json::from_str(&done(&sandbox, &["doctor", "--ago", "0s", "--for", "20s", "--json"])).unwrap();
    let seconds = past["apps"][0]["seconds"].as_u64().unwrap();
    assert!((1..=20).contains(&seconds), "{past}");
    assert_eq!(past["apps"][0]["workers"].as_array().unwrap().len(), 2, "{past}");
    assert_snapshot!(sandbox.transcript(&["doctor", "--ago", "1h"]), @r"
    exit: 2
    --- stderr
    error: the history does not have the 12 s that ended 3600 s ago

    hint: the history of single seconds goes back 3600 s: `--ago` and `--for` together are at most that
    ");
}
