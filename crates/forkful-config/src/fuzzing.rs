//! Fuzz targets for configurations: any text in every format is read and resolved, or refused with its file
//! and line.
//!
//! Resolving reads the file system but changes nothing. Files that a hostile text names (`env_file`) are not
//! opened.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forkful_core::spec::environment::parse_env_file;

use crate::read::located::locate;
use crate::tree::{Node, Value};
use crate::{AppOptions, ConfigError, Context, Format, JsEvaluator, ScriptFault, ScriptResult};

/// JSON with comments; also package.json.
pub fn json(bytes: &[u8]) {
    text(bytes, Format::Json, "forkful.config.json");
}

/// YAML.
pub fn yaml(bytes: &[u8]) {
    text(bytes, Format::Yaml, "forkful.config.yaml");
}

/// TOML.
pub fn toml(bytes: &[u8]) {
    text(bytes, Format::Toml, "forkful.config.toml");
}

/// The value exported by a JavaScript configuration, as printed by `node`.
pub fn script(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // Any text may be a script; its assumed exports are not in it.
    locate(&mut Node::from_json(&serde_json::json!({ "apps": [{ "name": "api", "instances": 2 }] })), text);
    let Ok(value) = serde_json::from_str(text) else { return };
    // JSON is JavaScript, so that the result of this script is known.
    let script = format!("module.exports = {text}");
    let mut tree = Node::from_json(&value);
    locate(&mut tree, &script);
    places_are_right(&tree, &script);
    // An existing file, because its text is read before `node` runs.
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../eslint.config.mjs");
    let evaluator = Exports(ScriptResult { value, output: String::new() });
    match crate::load(&path, &evaluator) {
        Ok(file) => read(file.apps),
        Err(fault) => names_its_file(&fault, &path),
    }
}

/// A location is that of the value, or there is none.
fn places_are_right(node: &Node, script: &str) {
    let written = node.at.as_ref().map(|spot| &script[spot.start..spot.end]);
    let told: Option<serde_json::Value> = written.and_then(|text| serde_json::from_str(text).ok());
    match (&node.value, told) {
        (Value::List(items), _) => items.iter().for_each(|item| places_are_right(item, script)),
        (Value::Table(entries), _) => entries.iter().for_each(|entry| places_are_right(&entry.node, script)),
        (Value::Text(text), Some(told)) => assert_eq!(serde_json::json!(text), told, "{script}"),
        (Value::Bool(truth), Some(told)) => assert_eq!(serde_json::json!(truth), told, "{script}"),
        _ => {}
    }
}

/// One option of a command line: the first byte chooses the key, the rest is its text.
pub fn option(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let keys = crate::known_keys();
    let key = keys[usize::from(*first) % keys.len()].name;
    let text = String::from_utf8_lossy(bytes);
    let mut options = AppOptions::of_script("server.js");
    match options.set(key, &text) {
        Ok(()) => read(vec![options]),
        Err(fault) => assert!(!fault.to_string().is_empty(), "{key}: a fault says something"),
    }
}

/// A `.env` file.
pub fn env(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match parse_env_file(&text) {
        Ok(variables) => {
            let is_name = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
            assert!(variables.keys().all(is_name), "{variables:?}");
        }
        Err(fault) => {
            assert!((1..=text.lines().count().max(1)).contains(&fault.line), "line {}", fault.line);
        }
    }
}

fn text(bytes: &[u8], format: Format, name: &str) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match crate::parse(text, format, Path::new(name)) {
        Ok(file) => {
            assert!(!file.apps.is_empty(), "a configuration has an app");
            if let Err(fault) = file.deploy_targets() {
                names_its_file(&fault, Path::new(name));
            }
            read(file.apps);
        }
        Err(fault) => names_its_file(&fault, Path::new(name)),
    }
    if let Some(Err(fault)) = crate::file::tree_of(text, format) {
        assert!(fault.at.is_some() || !bytes.contains(&b'\n'), "no line: {}", fault.message);
    }
}

/// A parsed configuration can be resolved, or is refused with a message whose length is limited by the
/// text's.
fn read(mut apps: Vec<AppOptions>) {
    for app in &mut apps {
        app.remove("env_file");
    }
    if let Err(fault) = crate::resolve_only(apps, &[], &AppOptions::default(), &context()) {
        assert!(!fault.to_string().is_empty(), "a fault says something");
    }
}

fn context() -> Context {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sum");
    Context {
        caller_cwd: folder,
        caller_env: BTreeMap::from([("PATH".to_owned(), "/nonexistent".to_owned())]),
        own_program: PathBuf::from("/usr/bin/forkful"),
        logs_folder: PathBuf::from("/nonexistent/logs"),
        log_rotation: forkful_core::logs::LogRotation::default(),
        env_name: None,
        usable_cores: 4,
        cores_reason: None,
        is_elsewhere: false,
    }
}

/// An error always names its file.
fn names_its_file(fault: &ConfigError, path: &Path) {
    let told = fault.to_string();
    assert!(told.contains(&path.display().to_string()), "{told}");
}

/// Replaces `node`.
struct Exports(ScriptResult);

impl JsEvaluator for Exports {
    fn evaluate(&self, _: &Path) -> Result<ScriptResult, ScriptFault> {
        Ok(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use forkful_testkit::replay;

    #[test]
    fn corpora_of_configurations() {
        replay("config-json", super::json);
        replay("config-yaml", super::yaml);
        replay("config-toml", super::toml);
        replay("config-script", super::script);
        replay("config-option", super::option);
    }

    #[test]
    fn corpus_of_env_files() {
        replay("env", super::env);
    }
}
