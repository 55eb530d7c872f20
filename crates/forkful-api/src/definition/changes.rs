//! Describes the differences between two definitions of an app in words, without values of the environment.

use std::collections::BTreeMap;

use forkful_core::alerts::AlertPolicy;
use forkful_core::spec::environment::{REDACTED, is_of_shell, shown_arguments};
use serde::Deserialize as _;
use serde_json::Value;

use crate::types::AppDefinition;

/// Maximum variables named in one sentence.
const NAMES_MAX: usize = 12;

/// Maximum length of a value that is shown in full.
const SHOWN_CHARACTERS_MAX: usize = 60;

/// Keys with the origin of the environment, or that other commands change.
const NOT_TOLD: &[&str] = &["env", "env_sources", "instances", "origins"];

/// One sentence per difference, without a full stop.
pub fn changes(before: &AppDefinition, after: &AppDefinition) -> Vec<String> {
    let mut told = environment(&before.env, &after.env);
    let (Ok(Value::Object(old)), Ok(Value::Object(new))) =
        (serde_json::to_value(before), serde_json::to_value(after))
    else {
        return told;
    };
    for (key, value) in &new {
        let earlier = old.get(key).unwrap_or(&Value::Null);
        if earlier == value || NOT_TOLD.contains(&key.as_str()) {
            continue;
        }
        let (old, new) = (shown(key, earlier), shown(key, value));
        // What differs is a secret, or in a part that is not shown.
        told.push(if old == new { format!("{key}: changed") } else { format!("{key}: {old} → {new}") });
    }
    told
}

fn environment(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
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
        Some(format!("environment: {what} {}", text.join(", ")))
    };
    let added = after.keys().filter(|name| !before.contains_key(*name)).collect();
    let removed = before.keys().filter(|name| !after.contains_key(*name)).collect();
    let changed = after
        .iter()
        .filter(|(name, value)| before.get(*name).is_some_and(|old| old != *value))
        .map(|(name, _)| name);
    [names("added", added), names("removed", removed), names("changed", changed.collect())]
        .into_iter()
        .flatten()
        .collect()
}

fn shown(key: &str, value: &Value) -> String {
    let text = match value {
        Value::Null => "none".to_owned(),
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
        after.args = vec!["--token".to_owned(), "def".to_owned(), "-v".to_owned()];
        assert_eq!(
            changes(&before, &after),
            [
                "environment: added D",
                "environment: removed C",
                "environment: changed B",
                "args: --token [redacted] → --token [redacted] -v",
                "alerts: none → https://hooks.example.com/[redacted], ./notify.sh --token [r…",
                "kill_timeout_ms: 1600 → 5000",
                "out_file: none → /x.log",
            ]
        );
    }
}
