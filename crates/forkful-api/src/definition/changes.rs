//! Describes the differences between two definitions of an app in words, without values of the environment.

use std::collections::BTreeMap;

use forkful_core::alerts::AlertPolicy;
use forkful_core::spec::environment::{REDACTED, is_of_shell, shown_arguments};
use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::types::AppDefinition;

/// Maximum variables named in one sentence.
const NAMES_MAX: usize = 12;

/// Maximum length of a value that is shown in full.
const SHOWN_CHARACTERS_MAX: usize = 60;

/// Keys with the origin of the environment, or that other commands change.
const NOT_TOLD: &[&str] = &["env", "env_sources", "instances", "origins"];

const MEBI: u64 = 1 << 20;

/// Fields with another name than the key of the configuration.
const KEYS: [(&str, &str); 9] = [
    ("cpu_max_millicores", "cpu_max"),
    ("log_json", "log_type"),
    ("log_strip_ansi", "log_ansi"),
    ("max_memory_bytes", "max_memory_restart"),
    ("memory_auto", "memory"),
    ("memory_max_bytes", "memory_max"),
    ("mode", "exec_mode"),
    ("program", "interpreter"),
    ("program_args", "node_args"),
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
        let [old, new] = [&old_shown, &new_shown].map(|all| shown(key, all.get(key).unwrap_or(&Value::Null)));
        let key = key_of(key);
        // What differs is a secret, or in a part that is not shown.
        told.push(if old == new { format!("{key}: changed") } else { format!("{key}: {old} → {new}") });
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
        Value::Bool(true) if key == "memory_auto" => "auto".to_owned(),
        Value::Bool(false) if key == "memory_auto" => "none".to_owned(),
        Value::Number(number) if key == "cpu_max_millicores" => {
            number.as_f64().map(|millicores| (millicores / 1e3).to_string()).unwrap_or_default()
        }
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
        other => other.to_string(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_told_without_values_of_the_environment() {
        let before: AppDefinition = serde_json::from_value(serde_json::json!({
            "name": "api", "program": "/usr/bin/node", "program_args": [], "script": "/srv/app.js",
            "args": ["--token", "abc"], "cwd": "/srv", "env": { "A": "1", "B": "2", "C": "3" }, "runtime": "node",
            "mode": "cluster", "instances": 2, "balance": "exact", "autorestart": true, "max_restarts": 3,
            "restart_window_ms": 60_000, "min_uptime_ms": 500, "restart_delay_ms": null,
            "exp_backoff_restart_delay_ms": 250, "stop_exit_codes": [], "wait_ready": true, "listen_timeout_ms": null,
            "kill_signal": 15, "kill_timeout_ms": 1600, "drain_timeout_ms": 9000, "out_file": null,
            "error_file": null, "merge_logs": true, "time": true, "agent": false,
        }))
        .unwrap();
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
                "kill_timeout: 1600 → 5000",
                "out_file: none → /x.log",
                "max_memory_restart: none → 200M",
                r#"health: none → {"probe":{"http":{"port":null,"path":"/h?token=[redacted]"}}…"#,
            ]
        );
    }
}
