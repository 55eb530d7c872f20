//! The schema for editors accepts what Forkful accepts.

use std::path::Path;

use forkful_config::{Format, json_schema, parse};
use serde_json::{Value, json};

/// Whether a value fits, by those words of JSON Schema that the schema uses.
fn fits(root: &Value, schema: &Value, value: &Value) -> bool {
    let Some(words) = schema.as_object() else { return schema != &json!(false) };
    words.iter().all(|(word, wanted)| match word.as_str() {
        "$ref" => fits(root, root.pointer(&wanted.as_str().unwrap()[1..]).unwrap(), value),
        "anyOf" => wanted.as_array().unwrap().iter().any(|one| fits(root, one, value)),
        "type" => match wanted {
            Value::Array(types) => types.iter().any(|one| is_of_type(one, value)),
            one => is_of_type(one, value),
        },
        "enum" => wanted.as_array().unwrap().contains(value),
        "const" => wanted == value,
        "minimum" => value.as_f64().is_none_or(|number| number >= wanted.as_f64().unwrap()),
        "maximum" => value.as_f64().is_none_or(|number| number <= wanted.as_f64().unwrap()),
        "minItems" => value.as_array().is_none_or(|list| list.len() as u64 >= wanted.as_u64().unwrap()),
        "pattern" => value.as_str().is_none_or(|text| matches(wanted, text)),
        "items" => value.as_array().is_none_or(|list| list.iter().all(|item| fits(root, wanted, item))),
        "required" => wanted.as_array().unwrap().iter().all(|key| value.get(key.as_str().unwrap()).is_some()),
        "properties" | "patternProperties" | "additionalProperties" => fits_keys(root, schema, value),
        "$schema" | "$defs" | "title" | "description" | "default" | "examples" | "deprecated" => true,
        other => panic!("a word that this test does not know: {other}"),
    })
}

fn matches(pattern: &Value, text: &str) -> bool {
    regex::Regex::new(pattern.as_str().unwrap()).unwrap().is_match(text)
}

fn is_of_type(wanted: &Value, value: &Value) -> bool {
    match wanted.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("a type that this test does not know: {other}"),
    }
}

fn fits_keys(root: &Value, schema: &Value, value: &Value) -> bool {
    let Some(keys) = value.as_object() else { return true };
    keys.iter().all(|(key, value)| {
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        let of_pattern = || patterns?.iter().find(|(name, _)| matches(&json!(name), key)).map(|(_, one)| one);
        let found = schema["properties"].get(key).or_else(of_pattern);
        found.or(schema.get("additionalProperties")).is_none_or(|one| fits(root, one, value))
    })
}

#[test]
fn the_schema_accepts_what_is_accepted_and_refuses_what_is_refused() {
    let schema = json_schema();
    let with = |key: &str, value: Value| json!({ "script": "a.js", key: value });
    let accepted = [
        json!({ "apps": [{ "script": "a.js" }] }),
        json!({ "apps": { "script": "a.js" } }),
        json!([{ "script": "a.js" }]),
        json!({ "script": "a.js" }),
        json!({ "exec": "a.js" }),
        json!({ "static": [{ "path": "dist", "port": 8080 }] }),
        with("log_rotate", json!("50M")),
        with("log_rotate", json!({ "min_free": true })),
        with("log_date_format", json!(false)),
        with("windowsHide", json!(true)),
        with("windows_hide", json!(true)),
        with("port", json!("3000")),
        with("max_restarts", json!("10")),
        with("args", json!([1, "a", true])),
        with("args", json!(1)),
        with("stop_exit_codes", json!("0,2")),
        with("stop_exit_codes", json!(["0", 2])),
        with("ignore_watch", json!(false)),
        with("env_live", json!({ "PORT": 1 })),
    ];
    for config in accepted {
        let read = parse(&config.to_string(), Format::Json, Path::new("f.json"));
        assert!(read.is_ok(), "{config}: {read:?}");
        assert!(fits(&schema, &schema, &config), "the schema refuses {config}");
    }
    let refused = [
        json!([]),
        json!({ "apps": [] }),
        json!({ "apps": 1 }),
        json!({}),
        with("log_rotate", json!("much")),
        with("log_date_format", json!(true)),
        with("port", json!("http")),
        with("args", json!([{}])),
        with("stop_exit_codes", json!("none")),
    ];
    for config in refused {
        assert!(parse(&config.to_string(), Format::Json, Path::new("f.json")).is_err(), "{config}");
        assert!(!fits(&schema, &schema, &config), "the schema accepts {config}");
    }
}
