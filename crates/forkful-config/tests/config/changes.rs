//! A key that is given for an existing app has the effect that it has for a new one: the table of keys is walked, so that a
//! key that a change leaves out fails here.

use forkful_api::types::AppDefinition;
use forkful_config::{AppOptions, Change, KnownKey, change, supported_keys};
use serde_json::{Map, Value, json};

use crate::common::{Place, json as parsed};

/// The definition of an app without the key, which the key's example must not equal.
fn beside(key: &str) -> Value {
    match key {
        "ignore_watch" | "watch_delay" => json!({ "watch": true }),
        "increment_var" => json!({ "env": { "PORT": 1 } }),
        "execute_command" => json!({ "instances": 2 }),
        _ => json!({}),
    }
}

/// A value of a key whose example is the default.
fn value_of(key: &KnownKey) -> Value {
    match key.name {
        "agent" | "autorestart" | "autostart" | "compile_cache" | "merge_logs" => json!(false),
        "balance" => json!("least"),
        "drain_timeout" | "kill_timeout" | "min_uptime" | "stall_threshold" => json!("7s"),
        "max_restarts" => json!(3),
        "exp_backoff_restart_delay" => json!(70),
        _ => serde_json::from_str(key.example).unwrap(),
    }
}

fn options(keys: &Value) -> AppOptions {
    let file = parsed(&json!({ "apps": [keys] }).to_string()).unwrap();
    AppOptions { origin: None, ..file.apps.into_iter().next().unwrap() }
}

fn fields(place: &Place, keys: &Value) -> (AppDefinition, Map<String, Value>) {
    let definition = AppDefinition::from(&place.resolve(&options(keys)).unwrap().spec);
    let fields = as_fields(&definition);
    (definition, fields)
}

fn as_fields(definition: &AppDefinition) -> Map<String, Value> {
    serde_json::to_value(definition).unwrap().as_object().unwrap().clone()
}

fn with(mut keys: Value, more: Value) -> Value {
    keys.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    keys
}

#[test]
fn every_key_means_the_same_for_an_existing_app() {
    let place = Place::new();
    place.fake_programs(&["node", "python3"]);
    place.file("app.js", "");
    place.file("api/app.js", "");
    let mut count = 0;
    for key in supported_keys().filter(|key| key.change != Change::NewApp) {
        // Keys without a field decide variables.
        let decided: &[&str] = if key.fields.is_empty() { &["env"] } else { key.fields };
        let (name, value) = (key.name, value_of(key));
        let before = with(json!({ "script": place.path().join("app.js") }), beside(name));
        let mut given = Map::new();
        given.insert(name.to_owned(), value.clone());
        let given = Value::Object(given);
        let (present, fields_before) = fields(&place, &before);
        let (_, fields_of_new) = fields(&place, &with(before, given.clone()));
        let change = change(&options(&given), &place.context()).unwrap();
        let new = change.apply(&present, 0).unwrap();
        let changed = as_fields(&new);
        // The version of Node.js is told by the app's workers.
        for field in decided.iter().filter(|field| **field != "node_major") {
            assert_eq!(changed.get(*field), fields_of_new.get(*field), "`{field}` of {name}: {value}");
        }
        let differs = |field: &&&str| fields_of_new.get(**field) != fields_before.get(**field);
        assert!(
            decided.iter().any(|field| differs(&field)),
            "{name}: {value} is the default; give another value"
        );
        for told in forkful_api::definition::changes(&present, &new) {
            let told_key = told.split([':', '.']).next().unwrap();
            let is_known = told_key == "environment" || supported_keys().any(|key| key.name == told_key);
            assert!(is_known, "the note names no key: {told}");
        }
        count += 1;
    }
    assert!(count > 50, "{count} keys");
}
