//! What an earlier daemon has written down is read by this one. `formats/written-N.json` is the state in its N-th form: the daemon
//! in the first line, an app in each line after it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forkful_core::snapshot;
use serde_json::Value;

use crate::engine::written::Written;

fn file(number: usize) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine/tests/formats");
    folder.join(format!("written-{number}.json"))
}

/// All forms, the first one first.
fn forms() -> Vec<Vec<Value>> {
    let text = |number| fs_err::read_to_string(file(number)).ok();
    let lines = |text: String| text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (1..).map_while(text).map(lines).collect()
}

fn read(form: &[Value]) -> Written {
    let mut bytes = Vec::new();
    form.iter().for_each(|value| snapshot::write(value, &mut bytes).unwrap());
    Written::read(&bytes).unwrap()
}

/// As this version writes it.
fn written_again(written: &Written) -> Vec<Value> {
    let apps = written.apps.iter().map(|app| serde_json::to_value(app).unwrap());
    std::iter::once(serde_json::to_value(&written.daemon).unwrap()).chain(apps).collect()
}

/// Each place with its value. The form of supervisors is held by the tests of core.
fn places(value: &Value, at: &str, found: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields.iter().filter(|(key, _)| *key != "supervisor") {
                places(value, &format!("{at}.{key}"), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                places(item, &format!("{at}.{index}"), found);
            }
            found.insert(format!("{at}.length"), items.len().into());
        }
        plain => {
            found.insert(at.to_owned(), plain.clone());
        }
    }
}

fn all_places(form: &[Value]) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    form.iter().enumerate().for_each(|(line, value)| places(value, &format!("line {line}"), &mut found));
    found
}

#[test]
fn what_earlier_daemons_have_written_is_read() {
    for (index, form) in forms().iter().enumerate() {
        let written = read(form);
        assert!(written.marks().is_some());
        let now = all_places(&written_again(&written));
        for (place, value) in all_places(form) {
            assert_eq!(now.get(&place), Some(&value), "{place} of {}", file(index + 1).display());
        }
    }
}

#[test]
fn the_last_form_is_what_is_written_now() {
    let forms = forms();
    let last = forms.last().unwrap();
    let now = written_again(&read(last));
    let before = all_places(last);
    let added: Vec<_> = all_places(&now).into_keys().filter(|place| !before.contains_key(place)).collect();
    let next = file(forms.len() + 1);
    if !added.is_empty() && std::env::var_os("UPDATE_DOCS").is_some() {
        let lines = now.iter().map(|value| format!("{value}\n"));
        fs_err::write(&next, lines.collect::<String>()).unwrap();
    } else {
        assert!(
            added.is_empty(),
            "The written-down state has fields that {} does not have: {added:?}. Give them values there that are not their \
             defaults; UPDATE_DOCS=1 cargo test -p forkful-daemon written makes the file.",
            next.display()
        );
    }
}
