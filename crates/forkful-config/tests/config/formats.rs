//! The same app in every format results in the same options; also the places of apps and the spellings of
//! keys.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::{Place, app, json, lines, load_data};
use forkful_config::{AppOptions, Format, find_default, is_config, known_keys, parse, supported_keys};

const JSON: &str = r#"{
  // the one app
  "apps": [{
    "name": "api",
    "script": "server.js",
    "args": ["--port", 3000],
    "instances": -1,
    "exec_mode": "cluster",
    "nodeArgs": "--max-old-space-size=512 '--title=a b'",
    "env": { "VERSION": "1.10", "RATE": 1.10, "DEBUG": true, "LIST": { "a": [1, "x"] }, "ABSENT": null },
    "env_production": { "NODE_ENV": "production" },
    "kill_timeout": "1.5s",
    "kill_signal": "term",
    "listenTimeout": 8000,
    "wait_ready": true,
    "stop_exit_codes": [0, 143],
    "balance": "sticky",
    "out": "logs/out.log",
  }],
}"#;

const YAML: &str = r#"
# the one app
apps:
  - name: api
    script: server.js
    args: [--port, 3000]
    instances: -1
    exec_mode: cluster
    nodeArgs: "--max-old-space-size=512 '--title=a b'"
    env:
      VERSION: "1.10"
      RATE: 1.10
      DEBUG: true
      LIST: { a: [1, x] }
      ABSENT:
    env_production:
      NODE_ENV: production
    kill_timeout: 1.5s
    kill_signal: term
    listenTimeout: 8000
    wait_ready: true
    stop_exit_codes: [0, 143]
    balance: sticky
    out: logs/out.log
"#;

const TOML: &str = r#"
# the one app
[[apps]]
name = "api"
script = "server.js"
args = ["--port", 3000]
instances = -1
exec_mode = "cluster"
nodeArgs = "--max-old-space-size=512 '--title=a b'"
kill_timeout = "1.5s"
kill_signal = "term"
listenTimeout = 8000
wait_ready = true
stop_exit_codes = [0, 143]
balance = "sticky"
out = "logs/out.log"

[apps.env]
VERSION = "1.10"
RATE = 1.10
DEBUG = true
LIST = { a = [1, "x"] }

[apps.env_production]
NODE_ENV = "production"
"#;

fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn every_data_format_says_the_same() {
    let expected = AppOptions {
        env: variables(&[
            ("DEBUG", "true"),
            ("LIST", r#"{"a":[1,"x"]}"#),
            ("RATE", "1.10"),
            ("VERSION", "1.10"),
        ]),
        env_blocks: BTreeMap::from([("production".to_owned(), variables(&[("NODE_ENV", "production")]))]),
        ..AppOptions::default()
    }
    .with("name", "api")
    .with("script", "server.js")
    .with("args", vec!["--port", "3000"])
    .with("instances", "-1")
    .with("exec_mode", "cluster")
    .with("node_args", vec!["--max-old-space-size=512", "--title=a b"])
    .with("kill_timeout", 1500)
    .with("kill_signal", 15)
    .with("listen_timeout", 8000)
    .with("wait_ready", true)
    .with("stop_exit_codes", vec![0, 143])
    .with("balance", "sticky")
    .with("out_file", "logs/out.log");
    let place = Place::new();
    for (name, text) in [("f.config.json", JSON), ("f.config.yaml", YAML), ("f.config.toml", TOML)] {
        let file = load_data(&place.file(name, text)).unwrap();
        let warnings: Vec<_> = file.warnings.iter().map(|warning| &warning.message).collect();
        assert_eq!(warnings, ["is an object: the app gets it as JSON"], "{name}");
        let [app] = file.apps.as_slice() else { panic!("{name} has {} apps", file.apps.len()) };
        let without_origin = AppOptions { origin: None, ..app.clone() };
        assert_eq!(without_origin, expected, "{name}");
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_text() {
    let place = Place::new();
    let path = place.file("forkful.config.json", "\u{feff}{ \"script\": \"a.js\" }");
    assert_eq!(load_data(&path).unwrap().apps[0].text("script"), Some("a.js"));
}

#[test]
fn apps_may_stand_in_several_places() {
    for (text, keys) in [
        (r#"{ "apps": [{ "script": "a.js" }, { "script": "b.js" }] }"#, "apps[0] apps[1]"),
        (r#"{ "apps": { "script": "a.js" } }"#, "apps"),
        (r#"{ "script": "a.js" }"#, ""),
        (r#"{ "exec": "a.js" }"#, ""),
        (r#"[{ "script": "a.js" }]"#, "[0]"),
        (r#"{ "name": "my-package", "main": "x.js", "pm2": [{ "script": "a.js" }] }"#, "pm2[0]"),
        (r#"{ "apps": [{ "script": "a.js" }], "deploy": { "production": { "host": "h" } } }"#, "apps[0]"),
        (r"{ apps: [{ script: 'a.js' }] }", "apps[0]"),
    ] {
        let file = json(text).unwrap();
        assert_eq!(file.warnings, [], "{text}");
        let found: Vec<_> = file.apps.iter().map(|app| app.origin.clone().unwrap().app).collect();
        assert_eq!(found.join(" "), keys, "{text}");
    }
}

#[test]
fn every_name_of_a_key_sets_the_same_field() {
    for key in known_keys().iter().filter(|key| key.support != forkful_config::Support::Foreign) {
        let by_name = options_of(key.name, key.example);
        assert_ne!(by_name, AppOptions::default(), "{} sets nothing", key.name);
        let camel = camel_case(key.name);
        let aliases = key.aliases.iter().map(|alias| (*alias).to_owned());
        for name in aliases.clone().chain(aliases.map(|alias| camel_case(&alias))).chain([camel]) {
            assert_eq!(options_of(&name, key.example), by_name, "{name} is not {}", key.name);
        }
        assert!(key.doc.ends_with('.'), "{} has no sentence of documentation", key.name);
        assert!(!key.kind.forms().words.is_empty());
    }
}

#[test]
fn every_key_decides_something_of_a_definition() {
    // These are part of the environment or of the name, or determine where either comes from.
    let parts = ["env", "env_file", "filter_env", "save_env", "port", "name_prefix", "append_env_to_name"];
    for key in supported_keys() {
        assert_eq!(key.fields.is_empty(), parts.contains(&key.name), "{}", key.name);
    }
}

fn options_of(key: &str, example: &str) -> AppOptions {
    AppOptions { origin: None, ..app(&format!(r#"{{ "apps": [{{ "{key}": {example} }}] }}"#)) }
}

fn camel_case(snake: &str) -> String {
    let mut words = snake.split('_');
    let first = words.next().unwrap().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

#[test]
fn no_name_belongs_to_two_keys() {
    let mut names: Vec<_> =
        known_keys().iter().flat_map(|key| key.aliases.iter().chain([&key.name])).collect();
    names.sort();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn yaml_anchors_and_merge_keys_work() {
    let text = "x-base: &base\n  env: { A: 1 }\n  instances: 2\napps:\n  - <<: *base\n    script: a.js\n  - <<: *base\n    script: b.js\n    instances: 3\n";
    let file = parse(text, Format::Yaml, Path::new("f.yaml")).unwrap();
    let found: Vec<_> = file
        .apps
        .iter()
        .map(|app| (app.text("script").unwrap(), app.text("instances").unwrap(), app.env["A"].as_str()))
        .collect();
    assert_eq!(found, [("a.js", "2", "1"), ("b.js", "3", "1")]);
    insta::assert_snapshot!(lines(&file.warnings), @"");
}

#[test]
fn yaml_words_that_were_booleans_once_are_texts() {
    let text = "script: a.js\nenv: { COUNTRY: no, SWITCH: on, REAL: true, LONG: 12345678901234567890, OCTAL: 0o17 }\n";
    let file = parse(text, Format::Yaml, Path::new("f.yaml")).unwrap();
    assert_eq!(
        file.apps[0].env,
        variables(&[
            ("COUNTRY", "no"),
            ("LONG", "12345678901234567890"),
            ("OCTAL", "15"),
            ("REAL", "true"),
            ("SWITCH", "on")
        ])
    );
}

#[test]
fn plain_numbers_stay_as_written_and_others_are_printed_as_javascript_prints_them() {
    let env = app(r#"{ "script": "a", "env": { "A": 1e3, "B": 0x10, "C": 1.10, "D": 1e21, "E": 3000, "F": 0.5, "G": 9007199254740993 } }"#).env;
    assert_eq!(
        env,
        variables(&[
            ("A", "1000"),
            ("B", "16"),
            ("C", "1.10"),
            ("D", "1e+21"),
            ("E", "3000"),
            ("F", "0.5"),
            ("G", "9007199254740993")
        ])
    );
}

#[test]
fn configs_are_known_by_their_names() {
    for name in [
        "forkful.config.js",
        "ecosystem.config.cjs",
        "my.config.mjs",
        "a.config.ts",
        "x.json",
        "package.json",
        "x.yaml",
        "x.yml",
        "dir.d/x.toml",
    ] {
        assert!(is_config(Path::new(name)), "{name}");
    }
    for name in ["app.js", "config.js", "a.config.sh", "npm", "script.py", ".json", "x.config.d/app.js"] {
        assert!(!is_config(Path::new(name)), "{name}");
    }
}

#[test]
fn the_default_config_is_ours_before_pm2s() {
    let place = Place::new();
    assert_eq!(find_default(place.path()), None);
    let pm2 = place.file("ecosystem.config.js", "");
    assert_eq!(find_default(place.path()), Some(pm2));
    let toml = place.file("forkful.config.toml", "");
    assert_eq!(find_default(place.path()), Some(toml));
    let json = place.file("forkful.config.json", "");
    assert_eq!(find_default(place.path()), Some(json));
}
