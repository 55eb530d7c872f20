//! What the page is told of the apps: one JSON object, and how it differs from the one before, as a JSON Merge Patch
//! (RFC 7396). Both are pure.
//!
//! No value of an environment, no argument of a program and no path of a log file is in it.

use forkful_api::conversation::ProcessEvent;
use forkful_api::types::{AppList, AppView, DoctorReport, WorkerView};
use forkful_core::doctor::{Verdict, words};
use serde_json::{Map, Value, json};

use super::verdicts::Verdicts;

/// Fields of a worker that the page does not show.
const UNSHOWN: [&str; 5] = ["stderr_tail", "reports", "out_log_path", "error_log_path", "usage"];

/// Numbers have so many decimals: more would only make each change longer.
const PRECISION: f64 = 1000.0;

/// The state of all apps. A key without a value is left out, because a patch says so that a key is gone.
pub(super) fn of(list: &AppList, verdicts: &Verdicts, at_ms: u64) -> Value {
    let of_app = |view: &AppView| {
        let name = &view.definition.name;
        (name.clone(), app(view, verdicts.get(name)))
    };
    let apps: Map<String, Value> = list.apps.iter().map(of_app).collect();
    tidied(json!({ "at_ms": at_ms, "notes": list.notes, "apps": apps }))
}

fn app(view: &AppView, verdict: Option<&Value>) -> Value {
    let definition = &view.definition;
    let workers: Map<String, Value> =
        view.workers.iter().map(|view| (view.pm_id.to_string(), worker(view))).collect();
    json!({
        "script": definition.script.as_ref().unwrap_or(&definition.program),
        "mode": definition.mode,
        "namespace": definition.namespace,
        "instances": definition.instances,
        "autoscale": definition.autoscale,
        "last_scaling": view.last_scaling,
        "memory_limit_bytes": definition.memory_max_bytes.or(definition.max_memory_bytes),
        "notes": view.notes,
        "listening": view.listening,
        "created_at_ms": view.created_at_ms,
        "dispatch": view.dispatch,
        "usage": view.usage,
        "verdict": verdict,
        "workers": workers,
    })
}

/// What limits an app, in the words of `forkful doctor`.
pub(super) fn verdict(report: &DoctorReport, verdict: Verdict) -> Value {
    let places: Vec<&String> = report.places.iter().map(|place| &place.text).collect();
    json!({
        "verdict": report.verdict, "certainty": report.certainty, "title": words::title(verdict),
        "text": report.headline, "places": places, "advice": report.advice, "gain": report.gain.as_ref().map(|gain| &gain.text),
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
    use std::collections::BTreeMap;

    use forkful_core::doctor::{App, Signs, WorkerSeconds, examine};

    use super::*;

    fn app_named(name: &str) -> Value {
        let definition = json!({
            "name": name, "program": "/usr/bin/node", "program_args": [], "script": "app.js", "args": ["--token", "secret"],
            "cwd": "/srv", "runtime": "node", "mode": "cluster", "instances": 2, "balance": "auto", "autorestart": true,
            "max_restarts": 16, "restart_window_ms": 600_000, "min_uptime_ms": 1000, "restart_delay_ms": null,
            "exp_backoff_restart_delay_ms": 100, "stop_exit_codes": [], "wait_ready": false, "listen_timeout_ms": null,
            "kill_signal": 2, "kill_timeout_ms": 5000, "drain_timeout_ms": 30_000, "out_file": null, "error_file": null,
            "merge_logs": false, "time": false, "agent": true,
        });
        json!({
            "definition": definition, "env_names": [], "listening": [], "created_at_ms": 0, "dispatch": [], "workers": [],
        })
    }

    #[test]
    fn the_bounds_of_autoscaling_and_its_last_change_are_told() {
        let mut by_load = app_named("web");
        by_load["definition"]["autoscale"] = json!({ "min": 1, "max": 4 });
        by_load["last_scaling"] =
            json!("scaled up from 1 to 2 workers: the event loop was 90 % busy for 5 s");
        let list: AppList = serde_json::from_value(json!({ "apps": [by_load, app_named("api")] })).unwrap();
        let apps = &of(&list, &Verdicts::new(), 1)["apps"];
        assert_eq!(apps["web"]["autoscale"], json!({ "min": 1, "max": 4 }));
        assert_eq!(
            apps["web"]["last_scaling"],
            "scaled up from 1 to 2 workers: the event loop was 90 % busy for 5 s"
        );
        assert_eq!((apps["api"].get("autoscale"), apps["api"].get("last_scaling")), (None, None));
    }

    #[test]
    fn an_app_has_its_verdict_and_others_have_none() {
        let computing = Signs {
            loop_busy: Some(0.99),
            main_cpu: Some(0.98),
            cpu_wait: Some(0.0),
            delay_max_ms: Some(900.0),
            iterations: Some(4.0),
            requests: Some(2.0),
            in_flight: Some(8.0),
            ..Signs::default()
        };
        let app = App {
            name: "web".to_owned(),
            cores: 4.0,
            is_scalable: true,
            bounds: None,
            workers: vec![WorkerSeconds { slot: 0, seconds: vec![computing; 30] }],
            node_args: Vec::new(),
            refusing: None,
        };
        let diagnosis = examine(&app);
        let web = verdict(&DoctorReport::new("web", &diagnosis), diagnosis.verdict);
        let list: AppList =
            serde_json::from_value(json!({ "apps": [app_named("web"), app_named("api")] })).unwrap();
        let state = of(&list, &BTreeMap::from([("web".to_owned(), web)]), 1);
        let sent = &state["apps"]["web"]["verdict"];
        assert_eq!(sent["verdict"], "cpu-long-callbacks");
        assert_eq!(sent["title"], "limited by JavaScript on the CPU, in long callbacks");
        assert_eq!(sent["text"], "web is limited by JavaScript on the CPU, in long callbacks (certain)");
        assert!(sent["advice"][0].is_string(), "{sent}");
        assert_eq!(state["apps"]["api"].get("verdict"), None);
    }

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
