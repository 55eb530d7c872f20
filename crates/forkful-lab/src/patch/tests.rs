//! Every format: the change is written, and everything else stays byte for byte.

use std::collections::BTreeMap;
use std::fs::Permissions;

use forkful_config::NodeEvaluator;

use super::*;

const BOTH: Change = Change { workers: 3, pool: Some(8) };
const WORKERS: Change = Change { workers: 3, pool: None };

fn applied(name: &str, text: &str, change: Change) -> Result<String, PatchError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs_err::write(&path, text).unwrap();
    let env: BTreeMap<String, String> = std::env::vars().filter(|(name, _)| name == "PATH").collect();
    let evaluator = NodeEvaluator::new(dir.path().to_owned(), env);
    let result = apply(&path, "api", change, &evaluator).map(|()| fs_err::read_to_string(&path).unwrap());
    assert_eq!(fs_err::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    if result.is_err() {
        assert_eq!(fs_err::read_to_string(&path).unwrap(), text, "left as it was");
    }
    result
}

#[test]
fn json_keeps_its_comments_order_and_blanks() {
    let text = r#"{
  // the one that matters
  "apps": [
    { "name": "web", "script": "web.js", "instances": 1 },
    {
      "name": "api", /* { "instances": 9 } */
      "script": "api.js",
      "instances": "max", // all
      "env": { "A": "}" }
    },
  ],
}
"#;
    let expected = text
        .replace("\"max\", // all", "3, // all")
        .replace(r#"{ "A": "}" }"#, r#"{ "UV_THREADPOOL_SIZE": "8", "A": "}" }"#);
    assert_eq!(applied("forkful.config.json", text, BOTH).unwrap(), expected);
}

#[test]
fn a_json_file_without_the_keys_gets_them_in_its_own_layout() {
    let text = "{\n  \"apps\": [\n    {\n      \"script\": \"api.js\"\n    }\n  ]\n}\n";
    let expected = "{\n  \"apps\": [\n    {\n      \"env\": { \"UV_THREADPOOL_SIZE\": \"8\" },\n      \"instances\": 3,\n      \
                    \"script\": \"api.js\"\n    }\n  ]\n}\n";
    assert_eq!(applied("forkful.config.json", text, BOTH).unwrap(), expected);
    let bare = r#"{"script":"api.js","env":{}}"#;
    let changed = applied("forkful.config.json", bare, BOTH).unwrap();
    assert_eq!(changed, r#"{ "instances": 3,"script":"api.js","env":{ "UV_THREADPOOL_SIZE": "8" }}"#);
}

#[test]
fn javascript_keeps_its_code() {
    let text = "const base = { script: './api.js' }; // instances: 7\nmodule.exports = {\n  apps: [\n    {\n      name: 'api',\n      \
                ...base,\n      instances: process.env.N || 'max', // computed\n      env: {\n        NODE_ENV: `x${1}`,\n      },\n    },\n  \
                ],\n};\n";
    let expected = text
        .replace("process.env.N || 'max'", "3")
        .replace("env: {\n        NODE_ENV", "env: {\n        UV_THREADPOOL_SIZE: '8',\n        NODE_ENV");
    assert_eq!(applied("ecosystem.config.js", text, BOTH).unwrap(), expected);
}

#[test]
fn what_cannot_be_changed_safely_is_refused_and_left() {
    let computed = "const n = 2;\nfunction app() { return { name: 'api', script: 'api.js', instances: n }; }\nmodule.exports = { apps: [app(), { name: 'b', script: 'b.js' }] };\n";
    let error = applied("ecosystem.config.js", computed, WORKERS).unwrap_err();
    assert!(error.to_string().contains("left as it is"), "{error}");
    let two = r#"{"apps":[{"name":"a","script":"a.js"},{"name":"b","script":"b.js"}]}"#;
    let error = applied("forkful.config.json", two, WORKERS).unwrap_err();
    assert!(error.to_string().contains("no app called `api`"), "{error}");
    // In JavaScript the last one wins; an edit would find the first.
    let doubled = "module.exports = { apps: [{ script: 'api.js', instances: 1, ...{ instances: 2 } }] };\n";
    assert!(applied("ecosystem.config.js", doubled, WORKERS).is_err());
}

#[test]
fn yaml_keeps_its_lines() {
    let text = "# apps\napps:\n  - name: web\n    script: web.js\n  - script: api.js   # ours\n    name: api\n    instances: max  # all\n    env:\n      A: \"1\"\n";
    let expected = text
        .replace("max  # all", "3  # all")
        .replace("    env:\n", "    env:\n      UV_THREADPOOL_SIZE: \"8\"\n");
    assert_eq!(applied("forkful.config.yaml", text, BOTH).unwrap(), expected);
    let without = "apps:\n  - script: api.js\n    name: api\n";
    let expected = "apps:\n  - script: api.js\n    instances: 3\n    env: { UV_THREADPOOL_SIZE: \"8\" }\n    name: api\n";
    assert_eq!(applied("forkful.config.yaml", without, BOTH).unwrap(), expected);
}

#[test]
fn toml_keeps_its_lines() {
    let text = "# apps\n[[apps]]\nname = \"api\"\nscript = \"api.js\"\ninstances = 1 # one\n\n[apps.env]\nA = \"1\"\n";
    let expected = text
        .replace("= 1 # one", "= 3 # one")
        .replace("[apps.env]\n", "[apps.env]\nUV_THREADPOOL_SIZE = \"8\"\n");
    assert_eq!(applied("forkful.config.toml", text, BOTH).unwrap(), expected);
    let without = "[[apps]]\nscript = \"api.js\"\n";
    assert_eq!(
        applied("forkful.config.toml", without, WORKERS).unwrap(),
        "[[apps]]\nscript = \"api.js\"\ninstances = 3\n"
    );
}

#[test]
fn a_change_is_idempotent_and_the_file_keeps_its_mode() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("forkful.config.json");
    fs_err::write(&path, fresh("api", "api.js", Change { workers: 2, pool: None })).unwrap();
    fs_err::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let evaluator = NodeEvaluator::new(dir.path().to_owned(), BTreeMap::new());
    apply(&path, "api", BOTH, &evaluator).unwrap();
    let once = fs_err::read_to_string(&path).unwrap();
    apply(&path, "api", BOTH, &evaluator).unwrap();
    assert_eq!(fs_err::read_to_string(&path).unwrap(), once);
    assert_eq!(fs_err::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
}
