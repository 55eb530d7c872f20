//! Every setting of an app: its value, and where it was given.

use forkful_api::types::{AppDefinition, LogRotateDefinition, RuntimeKind};
use forkful_config::known_keys;
use forkful_core::logs::LogRotation;
use forkful_core::spec::environment::shown_arguments;
use serde_json::Value;

use super::super::format::{bound, bytes};

/// The groups, and in each the keys of a configuration with the fields of a definition.
const GROUPS: &[(&str, &[(&str, &str)])] = &[
    (
        "process",
        &[
            ("script", "script"),
            ("args", "args"),
            ("interpreter", "program"),
            ("node_args", "program_args"),
            ("cwd", "cwd"),
            ("uid", "run_as"),
            ("low_ports", "low_ports"),
            ("agent", "agent"),
            ("namespace", "namespace"),
            ("instance_var", "instance_var"),
            ("increment_var", "increment_var"),
            ("pid_file", "pid_file"),
        ],
    ),
    ("workers", &[("instances", "instances"), ("exec_mode", "mode"), ("balance", "balance")]),
    (
        "starting",
        &[
            ("autostart", "autostart"),
            ("wait_ready", "wait_ready"),
            ("listen_timeout", "listen_timeout_ms"),
            ("depends_on", "depends_on"),
        ],
    ),
    (
        "stopping",
        &[
            ("kill_signal", "kill_signal"),
            ("kill_timeout", "kill_timeout_ms"),
            ("drain_timeout", "drain_timeout_ms"),
            ("shutdown_with_message", "shutdown_with_message"),
            ("treekill", "treekill"),
        ],
    ),
    (
        "restarting",
        &[
            ("autorestart", "autorestart"),
            ("max_restarts", "max_restarts"),
            ("min_uptime", "min_uptime_ms"),
            ("restart_delay", "restart_delay_ms"),
            ("exp_backoff_restart_delay", "exp_backoff_restart_delay_ms"),
            ("stop_exit_codes", "stop_exit_codes"),
        ],
    ),
    (
        "reloading",
        &[
            ("watch", "watch"),
            ("cron_restart", "cron_restart"),
            ("max_memory_restart", "max_memory_bytes"),
            ("memory_max", "memory_max_bytes"),
            ("cpu_max", "cpu_max_millicores"),
            ("max_requests", "max_requests"),
            ("max_age", "max_age_ms"),
            ("health", "health"),
        ],
    ),
    (
        "logs",
        &[
            ("out_file", "out_file"),
            ("error_file", "error_file"),
            ("log_file", "log_file"),
            ("merge_logs", "merge_logs"),
            ("time", "time"),
            ("log_date_format", "log_date_format"),
            ("log_type", "log_json"),
            ("log_ansi", "log_strip_ansi"),
            ("log_rotate", "log_rotate"),
            ("disable_logs", "disable_logs"),
        ],
    ),
];

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) group: &'static str,
    pub(super) key: &'static str,
    pub(super) value: String,
    /// Where it was given; `None` for a default.
    pub(super) origin: Option<String>,
}

/// All settings of an app, in groups.
pub(super) fn settings(definition: &AppDefinition) -> Vec<Setting> {
    let Ok(fields) = serde_json::to_value(definition) else { return Vec::new() };
    let mut settings = Vec::new();
    for (group, keys) in GROUPS {
        for (key, field) in *keys {
            // Only Node.js programs can be given the agent.
            if *key == "agent" && definition.runtime != RuntimeKind::Node {
                continue;
            }
            let value = shown(field, &fields[*field]);
            let origin = definition.origins.get(*key).cloned();
            // These are in the lines above anyway.
            if origin.is_none() && matches!(*key, "script" | "interpreter" | "cwd") {
                continue;
            }
            let origin = origin.or_else(|| differs(key, &value).then(|| "derived".to_owned()));
            settings.push(Setting { group, key, value, origin });
        }
    }
    settings
}

/// Whether a value differs from the default in the table of keys. What is not set differs only where that was given.
fn differs(key: &str, value: &str) -> bool {
    let default = known_keys().iter().find(|known| known.name == key).map_or("", |known| known.default);
    if default.is_empty() || value == "none" {
        return false;
    }
    let default = match serde_json::from_str(default).unwrap_or_default() {
        Value::String(text) => text,
        other => other.to_string(),
    };
    default != value
}

fn shown(field: &str, value: &Value) -> String {
    match (field, value) {
        (_, Value::Null) => "none".to_owned(),
        ("log_json", Value::Bool(flag)) => if *flag { "json" } else { "raw" }.to_owned(),
        ("log_strip_ansi", Value::Bool(flag)) => if *flag { "strip" } else { "keep" }.to_owned(),
        ("log_rotate", value) if *value == usual_rotation() => "true".to_owned(),
        ("kill_signal", Value::Number(number)) => {
            let number = number.as_i64().and_then(|n| i32::try_from(n).ok()).unwrap_or_default();
            forkful_core::signals::words(number).to_owned()
        }
        (_, Value::Array(items)) if items.is_empty() => "none".to_owned(),
        ("args" | "program_args", Value::Array(items)) => {
            let words: Vec<String> = items.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            shell_words::join(shown_arguments(&words))
        }
        (_, Value::Number(number)) if field.ends_with("_ms") => bound(number.as_u64().unwrap_or_default()),
        (_, Value::Number(number)) if field.ends_with("_bytes") => bytes(number.as_u64().unwrap_or_default()),
        (_, Value::String(text)) => text.clone(),
        (_, Value::Array(items)) => {
            let texts: Vec<String> = items.iter().map(|item| shown("", item)).collect();
            texts.join(", ")
        }
        (_, Value::Object(map)) => {
            let pairs: Vec<String> = map
                .iter()
                .filter(|(_, value)| !value.is_null() && **value != Value::Array(Vec::new()))
                .map(|(key, value)| format!("{} {}", key.trim_end_matches("_ms"), shown(key, value)))
                .collect();
            pairs.join(", ")
        }
        (_, other) => other.to_string(),
    }
}

fn usual_rotation() -> Value {
    let usual = LogRotateDefinition::from(&LogRotation::default());
    serde_json::to_value(usual).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use forkful_config::Support;

    use super::*;

    #[test]
    fn every_key_of_a_configuration_is_shown() {
        // What is shown elsewhere, or is part of another setting.
        const ELSEWHERE: &[&str] = &[
            "name",
            "env",
            "port",
            "name_prefix",
            "append_env_to_name",
            "env_file",
            "filter_env",
            "save_env",
            "gid",
            "source_map_support",
            "execute_command",
            "ignore_watch",
            "watch_delay",
            "watch_options",
        ];
        let shown: Vec<&str> = GROUPS.iter().flat_map(|(_, keys)| keys.iter().map(|(key, _)| *key)).collect();
        for key in known_keys().iter().filter(|key| key.support != Support::Foreign) {
            assert!(shown.contains(&key.name) || ELSEWHERE.contains(&key.name), "{} is not shown", key.name);
        }
    }
}
