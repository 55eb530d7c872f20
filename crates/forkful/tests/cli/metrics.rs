//! The agents' metrics, as users and scripts see them.

use forkful_core::metrics::{METRICS, Metric};
use serde_json::Value;

use crate::sandbox::{Sandbox, done};
use crate::settled::wait_until;

const SERVER: &str = "
require('node:http').createServer((request, response) => response.end('hello')).listen(0, '127.0.0.1');
";

/// The output of `describe` without the agents' values.
pub(crate) fn without_metrics(described: &str) -> String {
    let labels: Vec<&str> = METRICS.iter().filter_map(|metric| metric.label).collect();
    let is_metric = |line: &str| labels.iter().any(|label| line.trim_start().starts_with(label));
    described.lines().filter(|line| !is_metric(line)).map(|line| format!("{line}\n")).collect()
}

fn worker(sandbox: &Sandbox, command: &[&str], path: &str) -> Value {
    let list: Value = serde_json::from_str(&done(sandbox, command)).unwrap();
    list.pointer(path).unwrap().clone()
}

/// Values that depend on the machine, Node.js or the app: a thread pool in use, groups with limits, requests.
const SOMETIMES: [&str; 13] = [
    "event_loop_iterations",
    "http_latency",
    "pool_busy",
    "pool_wait",
    "pool_cpu",
    "cpu_throttled",
    "memory_pss",
    "memory_limit",
    "memory_group",
    "swap",
    "open_files_limit",
    "event_loop_active",
    "event_loop_idle",
];

fn is_always_there(metric: &Metric) -> bool {
    !SOMETIMES.iter().any(|name| metric.name.starts_with(name))
}

#[test]
fn every_metric_is_in_describe_and_in_json_and_those_of_pm2_in_jlist() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    done(&sandbox, &["start", "server.js", "--name", "api", "-i", "1"]);
    // Values of the last second exist from the second report on, and what costs more to ask is asked once it has started.
    wait_until(|| {
        let described = done(&sandbox, &["describe", "api"]);
        let metrics = worker(&sandbox, &["list", "--json"], "/apps/0/workers/0/metrics");
        METRICS.iter().filter(|metric| is_always_there(metric)).all(|metric| {
            metric.label.is_none_or(|label| described.contains(label)) && metrics.get(metric.name).is_some()
        })
    });
    for command in [&["list", "--json"][..], &["describe", "api", "--json"]] {
        let metrics = worker(&sandbox, command, "/apps/0/workers/0/metrics");
        for metric in METRICS.iter().filter(|metric| is_always_there(metric)) {
            assert!(metrics[metric.name].as_f64().is_some_and(|value| value >= 0.0), "{metrics}");
        }
    }
    let monitor = worker(&sandbox, &["jlist"], "/0/pm2_env/axm_monitor");
    for pm2 in METRICS.iter().filter(|metric| is_always_there(metric)).filter_map(|metric| metric.pm2) {
        assert_eq!(monitor[pm2.name]["unit"], pm2.unit, "{monitor}");
        assert_eq!(monitor[pm2.name]["type"], pm2.kind, "{monitor}");
    }
    assert!(monitor["Used Heap Size"]["value"].as_str().unwrap().parse::<f64>().unwrap() > 1.0, "{monitor}");
}
