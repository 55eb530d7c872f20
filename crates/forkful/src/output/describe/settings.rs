//! Every setting of an app: its value and its source.

use forkful_api::types::{AppDefinition, RuntimeKind};
use forkful_config::{Group, Kind, KnownKey, supported_keys};
use forkful_core::logs::LogRotation;
use serde_json::Value;

use super::super::format::{bound, bytes};

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) group: &'static str,
    pub(super) key: &'static str,
    pub(super) value: String,
    /// Its source; `None` for a default.
    pub(super) origin: Option<String>,
}

/// All settings of an app whose secrets are redacted, in groups. A field set by several keys is shown once, under the first.
pub(super) fn settings(definition: &AppDefinition) -> Vec<Setting> {
    let Ok(fields) = serde_json::to_value(definition) else { return Vec::new() };
    let mut keys: Vec<&KnownKey> = Vec::new();
    for key in supported_keys().filter(|key| key.name != "name" && !key.fields.is_empty()) {
        if !keys.iter().any(|earlier| earlier.fields[0] == key.fields[0]) {
            keys.push(key);
        }
    }
    // They are about Node.js programs alone.
    const NODE_ONLY: [&str; 3] = ["agent", "compile_cache", "metrics"];
    keys.retain(|key| !NODE_ONLY.contains(&key.name) || definition.runtime == RuntimeKind::Node);
    let setting = |key: &KnownKey| {
        let value = match definition.autoscale {
            Some(bounds) if key.kind == Kind::Instances => format!("{} of {bounds}", definition.instances),
            _ => shown(key, &fields[key.fields[0]]),
        };
        let origin = definition.origins.get(key.name).cloned();
        // The lines above contain these already.
        if origin.is_none() && matches!(key.name, "script" | "interpreter" | "cwd") {
            return None;
        }
        let origin = origin.or_else(|| differs(key, &value).then(|| "derived".to_owned()));
        Some(Setting { group: key.group.short(), key: key.name, value, origin })
    };
    let mut all: Vec<Setting> = keys.iter().copied().filter_map(setting).collect();
    let others = supported_keys().filter(|key| !keys.iter().any(|shown| shown.name == key.name));
    all.extend(others.filter_map(|key| only_given(key, definition)));
    all.sort_by_key(|setting| supported_keys().position(|key| key.name == setting.key));
    all.sort_by_key(|setting| Group::ALL.iter().position(|group| group.short() == setting.group));
    all
}

/// A key that decides no field alone: it is shown where it was given.
fn only_given(key: &KnownKey, definition: &AppDefinition) -> Option<Setting> {
    let origin = definition.origins.get(key.name)?.clone();
    let sources = &definition.env_sources;
    let value = match key.name {
        "name" => definition.name.clone(),
        "gid" => definition.run_as.as_ref().map_or(AS_GIVEN.to_owned(), |user| user.gid.to_string()),
        "env_file" => {
            let files: Vec<String> = sources.files.iter().map(|file| file.display().to_string()).collect();
            files.join(", ")
        }
        "save_env" => sources.keep_inherited.to_string(),
        // The lines above have them, with their source.
        "env" | "port" => return None,
        _ => AS_GIVEN.to_owned(),
    };
    Some(Setting { group: key.group.short(), key: key.name, value, origin: Some(origin) })
}

/// The value of a key of which only the effect is kept.
const AS_GIVEN: &str = "as given";

/// Whether a value differs from the default in the table of keys. An unset value differs only if it was
/// given.
fn differs(key: &KnownKey, value: &str) -> bool {
    if key.default.is_empty() || value == "none" {
        return false;
    }
    let default = match serde_json::from_str(key.default).unwrap_or_default() {
        Value::String(text) => text,
        other => other.to_string(),
    };
    default != value
}

fn shown(key: &KnownKey, value: &Value) -> String {
    match (key.kind, value) {
        (Kind::Switch(names), Value::Bool(flag)) => names[usize::from(*flag)].to_owned(),
        (Kind::LogRotation, value) if *value == usual_rotation() => "true".to_owned(),
        (Kind::Signal, Value::Number(number)) => {
            let number = number.as_i64().and_then(|n| i32::try_from(n).ok()).unwrap_or_default();
            forkful_core::signals::words(number).to_owned()
        }
        (Kind::Words, Value::Array(items)) if !items.is_empty() => {
            let words: Vec<String> = items.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            shell_words::join(words)
        }
        _ => plain(key.fields[0], value),
    }
}

fn plain(field: &str, value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Number(number) if field == "cpu_max_millicores" => {
            (number.as_f64().unwrap_or_default() / 1e3).to_string()
        }
        Value::Number(number) if field.ends_with("_ms") => bound(number.as_u64().unwrap_or_default()),
        Value::Number(number) if field.ends_with("_bytes") => bytes(number.as_u64().unwrap_or_default()),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let texts: Vec<String> = items.iter().map(|item| plain("", item)).collect();
            texts.join(", ")
        }
        Value::Object(map) => {
            let pairs: Vec<String> = map
                .iter()
                .filter(|(_, value)| !value.is_null() && **value != Value::Array(Vec::new()))
                .map(|(field, value)| format!("{} {}", key_of(field), plain(field, value)))
                .collect();
            pairs.join(", ")
        }
        other => other.to_string(),
    }
}

/// The key of an object's field, as it is written in a configuration.
fn key_of(field: &str) -> &str {
    match field {
        "failures_max" => "failures",
        _ => field.trim_end_matches("_ms"),
    }
}

fn usual_rotation() -> Value {
    serde_json::to_value(LogRotation::default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> AppDefinition {
        let name = forkful_core::spec::AppName::new("api").expect("it is a name");
        AppDefinition::from(&forkful_core::spec::AppSpec::new(name))
    }

    #[test]
    fn each_key_that_was_given_is_shown_with_its_source_once() {
        let mut definition = definition();
        definition.runtime = RuntimeKind::Node;
        let given = supported_keys().map(|key| (key.name.to_owned(), format!("a.json:{}", key.name.len())));
        definition.origins = given.collect();
        let shown = settings(&definition);
        for (key, origin) in
            definition.origins.iter().filter(|(key, _)| !["env", "port"].contains(&key.as_str()))
        {
            let of_key: Vec<_> = shown.iter().filter(|setting| setting.key == key).collect();
            assert_eq!(of_key.len(), 1, "{key}");
            assert_eq!(of_key[0].origin.as_ref(), Some(origin), "{key}");
        }
    }

    #[test]
    fn what_was_not_given_and_decides_no_field_is_not_shown() {
        let mut definition = definition();
        let keys = |definition: &AppDefinition| {
            settings(definition).into_iter().map(|one| one.key).collect::<Vec<_>>()
        };
        assert!(!keys(&definition).contains(&"save_env"));
        definition.env_sources.keep_inherited = true;
        definition.origins.insert("save_env".to_owned(), "a.json:1".to_owned());
        let shown = settings(&definition);
        let save_env = shown.iter().find(|setting| setting.key == "save_env").expect("it was given");
        assert_eq!((save_env.value.as_str(), save_env.origin.as_deref()), ("true", Some("a.json:1")));
    }

    #[test]
    fn an_object_is_shown_with_the_keys_of_the_configuration() {
        let shown = |health: Value| plain("health", &health);
        assert_eq!(shown(serde_json::json!({ "failures_max": 3 })), "failures 3");
        assert_eq!(shown(serde_json::json!({ "interval_ms": 5000 })), "interval 5s");
    }
}
