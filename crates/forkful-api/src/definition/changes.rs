//! Describes the differences between two definitions of an app in words, without values of the environment.

use std::collections::BTreeMap;

use forkful_core::alerts::AlertPolicy;
use forkful_core::spec::environment::{REDACTED, is_of_shell, shown_arguments};
use forkful_core::words::bound;
use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::types::AppDefinition;

/// Maximum variables named in one sentence.
const NAMES_MAX: usize = 12;

/// Maximum length of a value that is shown in full.
const SHOWN_CHARACTERS_MAX: usize = 60;

/// Fields with the origin of the environment, that other commands change, or that follow from others.
const NOT_TOLD: &[&str] = &["env", "env_sources", "instances", "node_major", "origins", "runtime"];

const MEBI: u64 = 1 << 20;

/// Fields with another name than the key of the configuration.
const KEYS: [(&str, &str); 12] = [
    ("autoscale", "instances"),
    ("cpu_max_millicores", "cpu_max"),
    ("log_json", "log_type"),
    ("log_strip_ansi", "log_ansi"),
    ("max_memory_bytes", "max_memory_restart"),
    ("memory_auto", "memory"),
    ("memory_max_bytes", "memory_max"),
    ("merge_metrics", "metrics"),
    ("mode", "exec_mode"),
    ("program", "interpreter"),
    ("program_args", "node_args"),
    ("run_as", "uid"),
];

/// The parts of `watch`, each with its key of the configuration and its unit.
const WATCH_KEYS: [(&str, &str); 5] = [
    ("paths", "watch"),
    ("ignore", "ignore_watch"),
    ("delay_ms", "watch_delay"),
    ("follow_links", "watch_options.followSymlinks"),
    ("polling_ms", "watch_options.interval"),
];

/// One sentence per difference, without a full stop.
pub fn changes(before: &AppDefinition, after: &AppDefinition) -> Vec<String> {
    let mut told: Vec<String> = environment(&before.env, &after.env).into_iter().collect();
    let (Some(old), Some(new)) = (fields(before), fields(after)) else { return told };
    let (Some(old_shown), Some(new_shown)) = (fields(&redacted(before)), fields(&redacted(after))) else {
        return told;
    };
    for (key, value) in &new {
        if old.get(key).unwrap_or(&Value::Null) == value || NOT_TOLD.contains(&key.as_str()) {
            continue;
        }
        let [earlier, value] = [&old_shown, &new_shown].map(|all| all.get(key).unwrap_or(&Value::Null));
        match key.as_str() {
            "autoscale" => told.push(sentence("instances", &workers(before), &workers(after))),
            // An explicit `true` also restarts what has finished.
            "restart_finished" if before.autorestart != after.autorestart => {}
            "restart_finished" => told.push(sentence("autorestart", "", "")),
            "watch" => told.extend(watch(earlier, value)),
            field => told.push(sentence(key_of(field), &shown(field, earlier), &shown(field, value))),
        }
    }
    told
}

fn fields(definition: &AppDefinition) -> Option<Map<String, Value>> {
    match serde_json::to_value(definition) {
        Ok(Value::Object(fields)) => Some(fields),
        Ok(_) | Err(_) => None,
    }
}

fn redacted(definition: &AppDefinition) -> AppDefinition {
    let mut definition = definition.clone();
    definition.redact_secrets();
    definition
}

fn sentence(key: &str, old: &str, new: &str) -> String {
    // What differs is a secret, or in a part that is not shown.
    if old == new { format!("{key}: changed") } else { format!("{key}: {old} → {new}") }
}

/// The number of workers, or its bounds.
fn workers(app: &AppDefinition) -> String {
    app.autoscale
        .map_or_else(|| app.instances.to_string(), |bounds| format!("{}..{}", bounds.min, bounds.max))
}

/// The keys about watching that differ. Without it, the others say nothing.
fn watch(before: &Value, after: &Value) -> Vec<String> {
    let is_both = before.is_object() && after.is_object();
    let keys = WATCH_KEYS.iter().filter(|(field, _)| is_both || *field == "paths");
    let differing = keys.filter(|(field, _)| before.get(field) != after.get(field));
    let part = |watch: &Value, field: &str| shown(field, watch.get(field).unwrap_or(&Value::Null));
    differing.map(|(field, key)| sentence(key, &part(before, field), &part(after, field))).collect()
}

/// The configuration's key for a field: users know no other name.
fn key_of(field: &str) -> &str {
    let known = KEYS.iter().find(|(known, _)| *known == field);
    known.map_or_else(|| field.strip_suffix("_ms").unwrap_or(field), |(_, key)| *key)
}

fn environment(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Option<String> {
    let names = |what: &str, mut names: Vec<&String>| {
        names.retain(|name| !is_of_shell(name));
        if names.is_empty() {
            return None;
        }
        let more = names.len().saturating_sub(NAMES_MAX);
        let mut text: Vec<&str> = names.iter().take(NAMES_MAX).map(|name| name.as_str()).collect();
        let rest = format!("{more} more");
        if more > 0 {
            text.push(&rest);
        }
        Some(format!("{what} {}", text.join(", ")))
    };
    let added = after.keys().filter(|name| !before.contains_key(*name)).collect();
    let removed = before.keys().filter(|name| !after.contains_key(*name)).collect();
    let changed = after
        .iter()
        .filter(|(name, value)| before.get(*name).is_some_and(|old| old != *value))
        .map(|(name, _)| name);
    let named = [names("added", added), names("removed", removed), names("changed", changed.collect())];
    let named: Vec<String> = named.into_iter().flatten().collect();
    (!named.is_empty()).then(|| format!("environment: {}", named.join("; ")))
}

fn shown(key: &str, value: &Value) -> String {
    let text = match value {
        Value::Null => "none".to_owned(),
        Value::Bool(is_json) if key == "log_json" => if *is_json { "json" } else { "raw" }.to_owned(),
        Value::Bool(is_stripped) if key == "log_strip_ansi" => {
            if *is_stripped { "strip" } else { "keep" }.to_owned()
        }
        Value::Bool(is_merged) if key == "merge_metrics" => {
            if *is_merged { "merge" } else { "own" }.to_owned()
        }
        Value::Bool(true) if key == "memory_auto" => "auto".to_owned(),
        Value::Bool(false) if key == "memory_auto" => "none".to_owned(),
        Value::Number(number) if key == "cpu_max_millicores" => {
            number.as_f64().map(|millicores| (millicores / 1e3).to_string()).unwrap_or_default()
        }
        value @ Value::Number(_) if key.ends_with("_ms") => duration(value),
        Value::Number(number) if key.ends_with("_bytes") => match number.as_u64() {
            Some(bytes) if bytes > 0 && bytes % MEBI == 0 => format!("{}M", bytes / MEBI),
            _ => number.to_string(),
        },
        Value::String(text) => text.clone(),
        Value::Array(items) if key == "args" || key == "program_args" => {
            let words: Vec<String> =
                items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect();
            shown_arguments(&words).join(" ")
        }
        alerts if key == "alerts" => match AlertPolicy::deserialize(alerts) {
            Ok(alerts) => alerts.shown_receivers(),
            Err(_) => REDACTED.to_owned(),
        },
        Value::Object(run_as) if key == "run_as" => run_as.get("uid").unwrap_or(&Value::Null).to_string(),
        other => plain(other),
    };
    if forkful_core::spec::environment::looks_secret(&text) {
        return REDACTED.to_owned();
    }
    match text.char_indices().nth(SHOWN_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None if text.is_empty() => "none".to_owned(),
        None => text,
    }
}

/// A number of milliseconds as a configuration has it.
fn duration(value: &Value) -> String {
    value.as_u64().map_or_else(|| plain(value), bound)
}

/// A list as its items, and an object as its keys with their values, without those that are not set.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(map) => {
            let is_set =
                |value: &Value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty());
            let pair = |(field, value): (&String, &Value)| {
                match field.as_str() {
                    // These name what the value is.
                    "glob" | "regex" | "probe" | "path" => plain(value),
                    "failures_max" => format!("failures {}", plain(value)),
                    field => match field.strip_suffix("_ms") {
                        Some(field) => format!("{field} {}", duration(value)),
                        None => format!("{field} {}", plain(value)),
                    },
                }
            };
            map.iter().filter(|(_, value)| is_set(value)).map(pair).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// An app with these fields, beside others.
    fn definition(fields: Value) -> AppDefinition {
        let mut definition = json!({
            "name": "api", "program": "/usr/bin/node", "program_args": [], "script": "/srv/app.js",
            "args": ["--token", "abc"], "cwd": "/srv", "env": { "A": "1", "B": "2", "C": "3" }, "runtime": "node",
            "mode": "cluster", "instances": 2, "balance": "exact", "autorestart": true, "max_restarts": 3,
            "restart_window_ms": 60_000, "min_uptime_ms": 500, "restart_delay_ms": null,
            "exp_backoff_restart_delay_ms": 250, "stop_exit_codes": [], "wait_ready": true, "listen_timeout_ms": null,
            "kill_signal": 15, "kill_timeout_ms": 1600, "drain_timeout_ms": 9000, "out_file": null,
            "error_file": null, "merge_logs": true, "time": true, "agent": false,
        });
        if let (Value::Object(all), Value::Object(fields)) = (&mut definition, fields) {
            all.extend(fields);
        }
        serde_json::from_value(definition).unwrap()
    }

    #[test]
    fn differences_are_told_without_values_of_the_environment() {
        let before = definition(json!({}));
        assert_eq!(changes(&before, &before), Vec::<String>::new());
        let mut after = before.clone();
        after.env =
            [("A", "1"), ("B", "secret"), ("D", "4")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        after.kill_timeout_ms = 5000;
        after.instances = 3;
        after.out_file = Some("/x.log".to_owned());
        after.alerts = Some(AlertPolicy {
            webhook: Some("https://hooks.example.com/T1/B2".to_owned()),
            command: vec!["./notify.sh".to_owned(), "--token".to_owned(), "abc".to_owned()],
            ..AlertPolicy::of_all_faults()
        });
        after.health = Some(
            serde_json::from_value(serde_json::json!({
                "probe": { "http": { "port": null, "path": "/h?token=SEK" } },
                "interval_ms": 1, "timeout_ms": 1, "start_period_ms": 1, "failures_max": 1,
            }))
            .unwrap(),
        );
        after.program_args = vec!["--no-warnings".to_owned()];
        after.max_memory_bytes = Some(200 * MEBI);
        after.args = vec!["--token".to_owned(), "def".to_owned(), "-v".to_owned()];
        assert_eq!(
            changes(&before, &after),
            [
                "environment: added D; removed C; changed B",
                "node_args: none → --no-warnings",
                "args: --token [redacted] → --token [redacted] -v",
                "alerts: none → https://hooks.example.com/[redacted], ./notify.sh --token [r…",
                "kill_timeout: 1600ms → 5s",
                "out_file: none → /x.log",
                "max_memory_restart: none → 200M",
                "health: none → http /h?token=[redacted], interval 1ms, timeout 1ms, start_p…",
            ]
        );
    }

    #[test]
    fn values_that_are_objects_are_told_by_the_keys_of_the_configuration() {
        let of = |field: &str, value: Value| definition(json!({ field: value }));
        let told = |field: &str, before: Value, after: Value| changes(&of(field, before), &of(field, after));
        let run_as = json!({ "uid": 65534, "gid": 65534, "groups": [65534] });
        assert_eq!(told("run_as", Value::Null, run_as), ["uid: none → 65534"]);
        let bounds = json!({ "min": 1, "max": 2 });
        assert_eq!(told("autoscale", Value::Null, bounds), ["instances: 2 → 1..2"]);
        let watch = |delay: u32, ignore: Value| json!({ "paths": ["/srv/src"], "ignore": ignore, "delay_ms": delay, "follow_links": true });
        assert_eq!(told("watch", watch(100, json!([])), Value::Null), ["watch: /srv/src → none"]);
        assert_eq!(
            told("watch", watch(100, json!([])), watch(500, json!([{ "glob": "*.tmp" }, { "regex": "x$" }]))),
            ["ignore_watch: none → *.tmp, x$", "watch_delay: 100ms → 500ms"]
        );
        let health = |interval: u32| {
            json!({ "probe": { "http": { "port": null, "path": "/healthz" } }, "interval_ms": interval, "timeout_ms": 5000,
                "start_period_ms": 0, "failures_max": 3 })
        };
        assert_eq!(
            told("health", Value::Null, health(1000)),
            ["health: none → http /healthz, interval 1s, timeout 5s, start_period 0s, fai…"]
        );
    }
}
