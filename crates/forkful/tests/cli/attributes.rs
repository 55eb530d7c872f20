//! Every attribute of a configuration, in each spelling, up to the daemon: `docs/FROM-PM2.md` lists them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use insta::assert_snapshot;
use serde_json::{Map, Value, json};

use crate::docs::rows;
use crate::sandbox::{Sandbox, stdout};

/// A key, a value, and the resulting part of the app's definition.
type Case = (&'static str, Value, Value);

/// All supported keys, except `append_env_to_name`, which has no effect without a chosen block.
fn cases(work: &Path) -> Vec<Case> {
    let path = |name: &str| json!(work.join(name));
    vec![
        ("script", json!("app.js"), json!({ "script": path("app.js"), "runtime": "node" })),
        ("name", json!("called"), json!({ "name": "called" })),
        ("args", json!("a 'b c'"), json!({ "args": ["a", "b c"] })),
        ("cwd", json!("below"), json!({ "cwd": path("below") })),
        ("instances", json!(2), json!({ "instances": 2, "mode": "cluster" })),
        ("exec_mode", json!("cluster"), json!({ "instances": 1, "mode": "cluster" })),
        ("interpreter", json!("sh"), json!({ "runtime": "other", "script": path("app.js") })),
        ("node_args", json!("--no-warnings"), json!({ "program_args": ["--no-warnings"] })),
        ("env", json!({ "OWN": 1 }), json!({ "env_names": ["OWN"] })),
        ("port", json!(4000), json!({ "env_names": ["PORT"] })),
        ("balance", json!("sticky"), json!({ "balance": "sticky" })),
        ("kill_signal", json!("SIGTERM"), json!({ "kill_signal": 15 })),
        ("kill_timeout", json!("1234"), json!({ "kill_timeout_ms": 1234 })),
        ("drain_timeout", json!("2s"), json!({ "drain_timeout_ms": 2000 })),
        ("autorestart", json!(false), json!({ "autorestart": false })),
        ("max_restarts", json!(3), json!({ "max_restarts": 3 })),
        ("min_uptime", json!("2m"), json!({ "min_uptime_ms": 120_000 })),
        ("restart_delay", json!(50), json!({ "restart_delay_ms": 50 })),
        ("exp_backoff_restart_delay", json!(70), json!({ "exp_backoff_restart_delay_ms": 70 })),
        ("max_restart_delay", json!("5m"), json!({ "max_restart_delay_ms": 300_000 })),
        ("stop_exit_codes", json!([0, 3]), json!({ "stop_exit_codes": [0, 3] })),
        ("out_file", json!("o.log"), json!({ "out_file": path("o.log") })),
        ("error_file", json!("e.log"), json!({ "error_file": path("e.log") })),
        ("merge_logs", json!(false), json!({ "merge_logs": false })),
        ("time", json!(true), json!({ "time": true })),
        ("agent", json!(false), json!({ "agent": false })),
        ("namespace", json!("group"), json!({ "namespace": "group" })),
        ("name_prefix", json!("before"), json!({ "name": "before:{}" })),
        ("env_file", json!(".env"), json!({ "env_sources": { "files": [path(".env")] } })),
        ("filter_env", json!(true), json!({ "env_sources": { "inherited": [] } })),
        ("save_env", json!(true), json!({ "env_sources": { "keep_inherited": true } })),
        ("instance_var", json!("SLOT"), json!({ "instance_var": "SLOT" })),
        ("increment_var", json!("COUNT"), json!({ "increment_var": "COUNT" })),
        ("uid", json!(rustix::process::getuid().as_raw()), json!({})),
        ("gid", json!(rustix::process::getgid().as_raw()), json!({})),
        ("low_ports", json!(true), json!({ "low_ports": true })),
        ("autostart", json!(false), json!({ "autostart": false })),
        ("pid_file", json!("x.pid"), json!({ "pid_file": path("x.pid") })),
        ("shutdown_with_message", json!(true), json!({ "shutdown_with_message": true })),
        ("treekill", json!(false), json!({ "treekill": false })),
        ("source_map_support", json!(true), json!({ "program_args": ["--enable-source-maps"] })),
        ("execute_command", json!(true), json!({ "mode": "fork", "instances": 2 })),
        ("log_file", json!("all.log"), json!({ "log_file": path("all.log") })),
        ("log_type", json!("json"), json!({ "log_json": true })),
        ("log_date_format", json!("YYYY"), json!({ "log_date_format": "YYYY" })),
        ("disable_logs", json!(true), json!({ "disable_logs": true })),
        ("log_rotate", json!(false), json!({ "log_rotate": null })),
        ("log_ansi", json!("strip"), json!({ "log_strip_ansi": true })),
        ("watch", json!("below"), json!({ "watch": { "paths": [path("below")] } })),
        ("ignore_watch", json!(["tmp"]), json!({ "watch": { "ignore": [{ "glob": "tmp" }] } })),
        ("watch_delay", json!("2s"), json!({ "watch": { "delay_ms": 2000 } })),
        ("watch_options", json!({ "followSymlinks": true }), json!({ "watch": { "follow_links": true } })),
        ("cron_restart", json!("0 3 * * *"), json!({ "cron_restart": "0 3 * * *" })),
        ("max_memory_restart", json!("200M"), json!({ "max_memory_bytes": 200 << 20 })),
        ("memory_max", json!("512M"), json!({ "memory_max_bytes": 512 << 20 })),
        ("memory", json!("auto"), json!({ "memory_auto": true })),
        ("cpu_max", json!("150%"), json!({ "cpu_max_millicores": 1500 })),
        ("max_requests", json!(10), json!({ "max_requests": 10 })),
        ("max_age", json!("1h"), json!({ "max_age_ms": 3_600_000 })),
        ("health", json!("tcp"), json!({ "health": { "failures_max": 3 } })),
        ("depends_on", json!("first"), json!({ "depends_on": ["first"] })),
    ]
}

/// The keys about the time until a worker has its share of the traffic.
fn cases_of_start() -> Vec<Case> {
    vec![
        ("stall_threshold", json!("80ms"), json!({ "stall_threshold_ms": 80 })),
        (
            "otlp",
            json!("http://localhost:4318"),
            json!({ "otlp": { "endpoint": "http://localhost:4318", "interval_ms": 60_000 } }),
        ),
        ("metrics", json!("merge"), json!({ "merge_metrics": true })),
        ("slow_start", json!("30s"), json!({ "slow_start_ms": 30_000 })),
        (
            "warmup",
            json!(["/", "/b"]),
            json!({ "warmup": { "paths": ["/", "/b"], "requests": 10, "timeout_ms": 10_000 } }),
        ),
        (
            "alerts",
            json!("https://hooks.example.com/T1"),
            json!({ "alerts": { "webhook": "https://hooks.example.com/[redacted]", "every_ms": 300_000, "timeout_ms": 10_000 } }),
        ),
        ("compile_cache", json!(false), json!({ "compile_cache": false })),
        ("wait_ready", json!(true), json!({ "wait_ready": true })),
        ("listen_timeout", json!("10s"), json!({ "listen_timeout_ms": 10_000 })),
    ]
}

/// Other keys that a key needs to have an effect.
fn beside(key: &str) -> Value {
    match key {
        "ignore_watch" | "watch_delay" | "watch_options" => json!({ "watch": true }),
        "increment_var" => json!({ "env": { "COUNT": 1 } }),
        "execute_command" => json!({ "instances": 2 }),
        _ => json!({}),
    }
}

fn camel_case(key: &str) -> String {
    let mut words = key.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |text, word| text + &word[..1].to_uppercase() + &word[1..])
}

/// All spellings of a key: with its other names, each in two forms.
fn spellings(key: &str, also: &str) -> BTreeSet<String> {
    let others = also.split(", ").map(|name| name.trim_matches('`')).filter(|name| !name.is_empty());
    std::iter::once(key).chain(others).flat_map(|name| [name.to_owned(), camel_case(name)]).collect()
}

/// Whether everything expected is there; lists of names may contain more.
fn holds(found: &Value, expected: &Value) -> bool {
    match expected {
        Value::Object(keys) => keys.iter().all(|(key, value)| match key.as_str() {
            "env_names" => {
                value.as_array().unwrap().iter().all(|name| found[key].as_array().unwrap().contains(name))
            }
            _ => holds(&found[key], value),
        }),
        other => found == other,
    }
}

#[test]
fn every_attribute_means_the_same_in_each_of_its_spellings() {
    let sandbox = Sandbox::new();
    let work = sandbox.work();
    fs_err::create_dir(work.join("below")).unwrap();
    sandbox.write("app.js", "setInterval(() => {}, 1000);");
    sandbox.write(".env", "A=1\n");
    let works: BTreeMap<String, String> = rows("attributes")
        .into_iter()
        .filter(|row| row[3] != "ignored")
        .map(|row| (row[0].clone(), row[1].clone()))
        .collect();
    let cases: Vec<Case> = cases(&work).into_iter().chain(cases_of_start()).collect();
    let tried: BTreeSet<String> =
        cases.iter().map(|(key, ..)| (*key).to_owned()).chain(["append_env_to_name".to_owned()]).collect();
    assert_eq!(tried, works.keys().cloned().collect(), "the page and this test name the same keys");
    let mut apps = vec![json!({ "name": "first", "script": "app.js", "autostart": false })];
    let mut expected = Vec::new();
    for (key, value, outcome) in &cases {
        for (number, spelling) in spellings(key, &works[*key]).iter().enumerate() {
            let name = format!("{key}-{number}");
            let mut app: Map<String, Value> = Map::new();
            app.extend([("script".to_owned(), json!("app.js")), ("name".to_owned(), json!(name))]);
            app.insert("autostart".to_owned(), json!(false));
            app.extend(beside(key).as_object().unwrap().clone());
            app.remove(*key);
            app.insert(spelling.clone(), value.clone());
            apps.push(Value::Object(app));
            let called = outcome["name"].as_str().unwrap_or("{}").replace("{}", &name);
            let mut outcome = outcome.clone();
            if !outcome["name"].is_null() {
                outcome["name"] = json!(called);
            }
            expected.push((called, spelling.clone(), outcome));
        }
    }
    sandbox.write("forkful.config.json", &json!({ "apps": apps }).to_string());
    let started = sandbox.run(&["start", "--silent"]);
    assert!(started.status.success(), "{}", sandbox.told(&started));
    let list: Value = serde_json::from_str(&stdout(&sandbox.run(&["list", "--json"]))).unwrap();
    let list = list["apps"].as_array().unwrap();
    assert_eq!(list.len(), apps.len());
    for (name, spelling, outcome) in expected {
        let app = list.iter().find(|app| app["definition"]["name"] == *name).unwrap();
        let mut found = app["definition"].clone();
        found["env_names"] = app["env_names"].clone();
        assert!(holds(&found, &outcome), "`{spelling}`: {outcome} is not in {found:#}");
    }
}

#[test]
fn attributes_that_mean_nothing_here_are_told_of() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "");
    let ignored: Vec<[String; 4]> =
        rows("attributes").into_iter().filter(|row| row[3] == "ignored").collect();
    let mut app = Map::from_iter([("script".to_owned(), json!("app.js"))]);
    app.extend(ignored.iter().map(|row| (row[0].clone(), json!(true))));
    sandbox.write("forkful.config.json", &json!({ "apps": [app] }).to_string());
    assert_snapshot!(sandbox.transcript(&["validate"]), @r#"
    exit: 0
    --- stdout
    forkful.config.json: 1 app
      app: fork, 1 worker, /usr/bin/node [sandbox]/work/app.js
    --- stderr
    warning: forkful.config.json:1:29: apps[0].force belongs to the command line: `forkful start --force`: ignored
      |
    1 | {"apps":[{"script":"app.js","force":true,"kill_retry_time":true,"write":true,"windows_hide":t...
      |                             ^^^^^^^
    warning: forkful.config.json:1:42: apps[0].kill_retry_time is not needed: the exit of a process is not polled: ignored
      |
    1 | {"apps":[{"script":"app.js","force":true,"kill_retry_time":true,"write":true,"windows_hide":t...
      |                                          ^^^^^^^^^^^^^^^^^
    warning: forkful.config.json:1:65: apps[0].write is not needed: `forkful init` writes a configuration: ignored
      |
    1 | {"apps":[{"script":"app.js","force":true,"kill_retry_time":true,"write":true,"windows_hide":t...
      |                                                                 ^^^^^^^
    warning: forkful.config.json:1:78: apps[0].windows_hide has no effect on this system: ignored
      |
    1 | ...e,"kill_retry_time":true,"write":true,"windows_hide":true,"disable_source_map_support":tru...
      |                                          ^^^^^^^^^^^^^^
    warning: forkful.config.json:1:98: apps[0].disable_source_map_support is not needed: `source_map_support: false` turns source maps off: ignored
      |
    1 | ...rite":true,"windows_hide":true,"disable_source_map_support":true,"post_update":true,"usern...
      |                                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    warning: forkful.config.json:1:132: apps[0].post_update belongs to `pm2 pull`: use the hook `post-deploy` of `deploy`: ignored
      |
    1 | ...rue,"disable_source_map_support":true,"post_update":true,"username":true,"vizion":true,"in...
      |                                          ^^^^^^^^^^^^^
    warning: forkful.config.json:1:151: apps[0].username is not needed: the system records the user: ignored
      |
    1 | ...ce_map_support":true,"post_update":true,"username":true,"vizion":true,"install_url":true,"...
      |                                            ^^^^^^^^^^
    warning: forkful.config.json:1:167: apps[0].vizion has no effect: version control is not inspected: ignored
      |
    1 | ...:true,"post_update":true,"username":true,"vizion":true,"install_url":true,"automation":tru...
      |                                             ^^^^^^^^
    warning: forkful.config.json:1:181: apps[0].install_url has no effect outside PM2: ignored
      |
    1 | ...e":true,"username":true,"vizion":true,"install_url":true,"automation":true,"pmx":true,"io"...
      |                                          ^^^^^^^^^^^^^
    warning: forkful.config.json:1:200: apps[0].automation has no effect outside PM2: ignored
      |
    1 | ...:true,"vizion":true,"install_url":true,"automation":true,"pmx":true,"io":true,"trace":true...
      |                                           ^^^^^^^^^^^^
    warning: forkful.config.json:1:218: apps[0].pmx has no effect outside PM2: ignored
      |
    1 | ...true,"install_url":true,"automation":true,"pmx":true,"io":true,"trace":true,"disable_trace...
      |                                              ^^^^^
    warning: forkful.config.json:1:229: apps[0].io has no effect outside PM2: ignored
      |
    1 | ...all_url":true,"automation":true,"pmx":true,"io":true,"trace":true,"disable_trace":true,"v8...
      |                                               ^^^^
    warning: forkful.config.json:1:239: apps[0].trace has no effect outside PM2: ignored
      |
    1 | ...e,"automation":true,"pmx":true,"io":true,"trace":true,"disable_trace":true,"v8":true,"even...
      |                                             ^^^^^^^
    warning: forkful.config.json:1:252: apps[0].disable_trace has no effect outside PM2: ignored
      |
    1 | ...ue,"pmx":true,"io":true,"trace":true,"disable_trace":true,"v8":true,"event_loop_inspector"...
      |                                         ^^^^^^^^^^^^^^^
    warning: forkful.config.json:1:273: apps[0].v8 has no effect outside PM2: ignored
      |
    1 | ...io":true,"trace":true,"disable_trace":true,"v8":true,"event_loop_inspector":true,"deep_mon...
      |                                               ^^^^
    warning: forkful.config.json:1:283: apps[0].event_loop_inspector has no effect outside PM2: ignored
      |
    1 | ...ue,"disable_trace":true,"v8":true,"event_loop_inspector":true,"deep_monitoring":true}]}
      |                                      ^^^^^^^^^^^^^^^^^^^^^^
    warning: forkful.config.json:1:311: apps[0].deep_monitoring has no effect outside PM2: ignored
      |
    1 | ...8":true,"event_loop_inspector":true,"deep_monitoring":true}]}
      |                                        ^^^^^^^^^^^^^^^^^
    "#);
}
