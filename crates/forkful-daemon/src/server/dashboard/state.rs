//! What the page is told of the apps: one JSON object, and how it differs from the one before, as a JSON Merge Patch
//! (RFC 7396). Both are pure.
//!
//! No value of an environment, no argument of a program and no path of a log file is in it.

use forkful_api::conversation::ProcessEvent;
use forkful_api::types::{AppList, AppView, WorkerView};
use serde_json::{Map, Value, json};

/// Fields of a worker that the page does not show.
const UNSHOWN: [&str; 5] = ["stderr_tail", "reports", "out_log_path", "error_log_path", "usage"];

/// Numbers have so many decimals: more would only make each change longer.
const PRECISION: f64 = 1000.0;

/// The state of all apps. A key without a value is left out, because a patch says so that a key is gone.
pub(super) fn of(list: &AppList, at_ms: u64) -> Value {
    let apps: Map<String, Value> =
        list.apps.iter().map(|view| (view.definition.name.clone(), app(view))).collect();
    tidied(json!({ "at_ms": at_ms, "notes": list.notes, "apps": apps }))
}

fn app(view: &AppView) -> Value {
    let definition = &view.definition;
    let workers: Map<String, Value> =
        view.workers.iter().map(|view| (view.pm_id.to_string(), worker(view))).collect();
    json!({
        "script": definition.script.as_ref().unwrap_or(&definition.program),
        "mode": definition.mode,
        "namespace": definition.namespace,
        "instances": definition.instances,
        "memory_limit_bytes": definition.memory_max_bytes.or(definition.max_memory_bytes),
        "notes": view.notes,
        "listening": view.listening,
        "created_at_ms": view.created_at_ms,
        "dispatch": view.dispatch,
        "usage": view.usage,
        "workers": workers,
    })
}

fn worker(view: &WorkerView) -> Value {
    let mut worker = serde_json::to_value(view).unwrap_or_default();
    if let Some(fields) = worker.as_object_mut() {
        for name in UNSHOWN {
            fields.remove(name);
        }
    }
    worker
}

/// A step in a worker's life, for the page.
pub(super) fn event(event: &ProcessEvent) -> Value {
    json!({
        "at_ms": event.at_ms, "event": event.event, "manually": event.manually, "app": event.app,
        "pm_id": event.pm_id, "slot": event.process.node_app_instance, "pid": event.pid,
        "restarts": event.process.restart_time, "exit_code": event.process.exit_code,
    })
}

/// Without keys that have no value, and with short numbers.
fn tidied(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let known = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(known.map(|(name, value)| (name, tidied(value))).collect())
        }
        Value::Array(items) => items.into_iter().map(tidied).collect(),
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or(Value::Null, |number| json!((number * PRECISION).round() / PRECISION))
        }
        other => other,
    }
}

/// What makes `new` out of `old`.
pub(super) fn change(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return new.clone() };
    let gone = old.keys().filter(|name| !new.contains_key(*name)).map(|name| (name.clone(), Value::Null));
    let changed = new.iter().filter(|(name, value)| old.get(*name) != Some(value));
    let changed = changed.map(|(name, value)| {
        let before = old.get(name).filter(|before| before.is_object());
        (name.clone(), before.map_or_else(|| value.clone(), |before| change(before, value)))
    });
    Value::Object(gone.chain(changed).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7396, 2.
    fn patched(target: Value, patch: &Value) -> Value {
        let Value::Object(patch) = patch else { return patch.clone() };
        let Value::Object(mut fields) = target else {
            return patched(json!({}), &Value::Object(patch.clone()));
        };
        for (name, value) in patch {
            if value.is_null() {
                fields.remove(name);
            } else {
                let before = fields.remove(name).unwrap_or_default();
                fields.insert(name.clone(), patched(before, value));
            }
        }
        Value::Object(fields)
    }

    #[test]
    fn a_change_makes_the_new_state_of_the_old_one() {
        let states = [
            json!({ "at": 1, "apps": {} }),
            json!({ "at": 2, "apps": { "a": { "workers": { "0": { "pid": 1, "cpu": 0.5 } }, "notes": ["x"] } } }),
            json!({ "at": 3, "apps": { "a": { "workers": { "0": { "cpu": 0.5 }, "1": {} }, "notes": [] } } }),
            json!({ "at": 3, "apps": { "b": 1 } }),
            json!({ "apps": { "b": { "c": [] } } }),
        ];
        for old in &states {
            for new in &states {
                let change = change(old, new);
                assert_eq!(patched(old.clone(), &change), *new, "{change}");
            }
        }
        let (old, new) = (&states[1], &states[2]);
        assert_eq!(
            change(old, new),
            json!({ "at": 3, "apps": { "a": { "workers": { "0": { "pid": null }, "1": {} }, "notes": [] } } })
        );
    }

    #[test]
    fn keys_without_a_value_are_left_out_and_numbers_are_short() {
        let value = json!({ "a": null, "b": [{ "c": null, "d": 0.123_456 }], "e": 12.0_f32, "f": 7 });
        assert_eq!(tidied(value), json!({ "b": [{ "d": 0.123 }], "e": 12.0, "f": 7 }));
    }
}
