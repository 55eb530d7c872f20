//! What agents measure, as people and scripts see it.

use forkful_core::metrics::METRICS;
use serde_json::Value;

use crate::sandbox::{Sandbox, done};
use crate::settled::wait_until;

const SERVER: &str = "
require('node:http').createServer((request, response) => response.end('hello')).listen(0, '127.0.0.1');
";

/// What `describe` says, without the values that agents measure.
pub(crate) fn without_metrics(described: &str) -> String {
    let is_metric = |line: &str| METRICS.iter().any(|metric| line.trim_start().starts_with(metric.label));
    described.lines().filter(|line| !is_metric(line)).map(|line| format!("{line}\n")).collect()
}

fn worker(sandbox: &Sandbox, command: &[&str], path: &str) -> Value {
    let list: Value = serde_json::from_str(&done(sandbox, command)).unwrap();
    list.pointer(path).unwrap().clone()
}

#[test]
fn every_metric_is_in_describe_and_in_json_and_those_of_pm2_in_jlist() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    done(&sandbox, &["start", "server.js", "--name", "api", "-i", "1"]);
    // Values of the last second are there from the second report on.
    wait_until(|| {
        let described = done(&sandbox, &["describe", "api"]);
        METRICS.iter().all(|metric| described.contains(metric.label))
    });
    for command in [&["list", "--json"][..], &["describe", "api", "--json"]] {
        let metrics = worker(&sandbox, command, "/apps/0/workers/0/metrics");
        for metric in METRICS {
            assert!(metrics[metric.name].as_f64().is_some_and(|value| value >= 0.0), "{metrics}");
        }
    }
    let monitor = worker(&sandbox, &["jlist"], "/0/pm2_env/axm_monitor");
    for pm2 in METRICS.iter().filter_map(|metric| metric.pm2) {
        assert_eq!(monitor[pm2.name]["unit"], pm2.unit, "{monitor}");
        assert_eq!(monitor[pm2.name]["type"], pm2.kind, "{monitor}");
    }
    assert!(monitor["Used Heap Size"]["value"].as_str().unwrap().parse::<f64>().unwrap() > 1.0, "{monitor}");
}
