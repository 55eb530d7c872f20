//! What tells apps of PM2 of one name apart, and what the workers of one app should have in common.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{environment, redact_arguments};

/// The workers of one app have the same identity, in a dump as in the list of a running PM2.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Identity(Vec<String>);

/// Variables that decide where a process listens and what it serves.
const OWN_PLACE: &[&str] = &["PORT", "PM2_SERVE_PORT", "PM2_SERVE_PATH"];

/// The parts of the identity, with their names in notes.
fn parts(process: &Value) -> Vec<(&'static str, Value)> {
    let namespace = process["namespace"].as_str().unwrap_or("default");
    let list = |key: &str| process[key].as_array().map_or_else(|| json!([]), |list| json!(list));
    let mut parts = vec![
        ("name", process["name"].clone()),
        ("namespace", json!(namespace)),
        ("script", process["pm_exec_path"].clone()),
        ("folder", process["pm_cwd"].clone()),
        ("exec_mode", process["exec_mode"].clone()),
        ("interpreter", process["exec_interpreter"].clone()),
        ("node_args", list("node_args")),
        ("args", list("args")),
    ];
    for variable in OWN_PLACE {
        // PM2 counts it up from worker to worker.
        let is_counted = process["increment_var"] == *variable;
        let value = Some(&process["env"][*variable]).filter(|value| !is_counted && !value.is_null());
        parts.push((variable, value.map_or(Value::Null, |value| json!(text(value)))));
    }
    parts
}

pub(super) fn identity(process: &Value) -> Identity {
    Identity(parts(process).into_iter().map(|(_, value)| value.to_string()).collect())
}

/// The name that an app gets, and what tells it apart from the others of its name in PM2.
pub(super) fn renamed(process: &Value, name: &str, groups: &[Vec<&Value>]) -> String {
    let given = process["name"].as_str().unwrap_or_default();
    let all = groups.iter().map(|group| group[0]).filter(|other| other["name"] == given);
    let all: Vec<_> = all.map(parts).collect();
    let parts = parts(process).into_iter().enumerate();
    let own = parts.filter(|(at, (_, value))| all.iter().any(|other| other[*at].1 != *value));
    let own: Vec<String> = own.map(|(_, (part, value))| described(part, value)).collect();
    format!(
        "PM2 has several apps named {given}, and names are unique here: the app with {} is named {name}",
        own.join(", ")
    )
}

fn described(part: &str, mut value: Value) -> String {
    redact_arguments(&mut value);
    let shown = match &value {
        Value::Null => String::new(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(" "),
        other => text(other),
    };
    if shown.is_empty() { format!("no {part}") } else { format!("{part} {shown}") }
}

/// PM2 has numbers as numbers or as text, which are the same to a process.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A note about variables in which the workers of one app differ: here they have one environment.
pub(super) fn other_environments(processes: &[&Value], name: &str) -> Option<String> {
    let variables = |process: &Value| -> BTreeSet<(String, String)> {
        let counted = process["increment_var"].as_str();
        let all = environment(&[process]).into_iter();
        all.filter(|(key, _)| Some(key.as_str()) != counted).map(|(key, value)| (key, text(&value))).collect()
    };
    let first = variables(processes[0]);
    let others = processes[1..].iter().map(|process| variables(process));
    let differing: BTreeSet<String> =
        others.flat_map(|other| &first ^ &other).map(|(variable, _)| variable).collect();
    let differing: Vec<String> = differing.into_iter().collect();
    (!differing.is_empty()).then(|| {
        format!(
            "{name}: its workers in PM2 differ in {}; here all of them have the values of the first: for other values, start an app \
             with a name of its own",
            differing.join(", ")
        )
    })
}
