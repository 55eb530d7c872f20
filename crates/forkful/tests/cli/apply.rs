//! `apply`: the apps match a file, all or nothing.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, done, stdout};

const SERVER: &str = "
require('node:http').createServer((request, response) => response.end('hello')).listen(0, '127.0.0.1');
";
const FAULTY: &str = "throw new Error('the new version is faulty');";

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A sandbox with files, and a configuration of these apps: name, script, workers.
fn write(sandbox: &Sandbox, apps: &[(&str, &str, u32)]) {
    sandbox.write("server.js", SERVER);
    sandbox.write("faulty.js", FAULTY);
    write_config(sandbox, apps);
}

fn write_config(sandbox: &Sandbox, apps: &[(&str, &str, u32)]) {
    let apps: Vec<Value> = apps
        .iter()
        .map(|(name, script, instances)| json!({ "name": name, "script": script, "instances": instances, "exec_mode": "cluster" }))
        .collect();
    sandbox.write("forkful.config.json", &json!({ "apps": apps }).to_string());
}

/// The running apps: their scripts and their workers' process ids.
fn running(sandbox: &Sandbox) -> BTreeMap<String, (String, Vec<u64>)> {
    let list: Value = serde_json::from_str(&stdout(&sandbox.run(&["jlist"]))).unwrap();
    let mut apps: BTreeMap<String, (String, Vec<u64>)> = BTreeMap::new();
    for worker in list.as_array().unwrap() {
        assert_eq!(worker["pm2_env"]["status"], "online", "{worker}");
        let script =
            worker["pm2_env"]["pm_exec_path"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let app = apps.entry(worker["name"].as_str().unwrap().to_owned()).or_insert((script, Vec::new()));
        app.1.push(worker["pid"].as_u64().unwrap());
    }
    apps
}

/// Each step of a plan: action and app.
fn steps(plan: &str) -> Vec<String> {
    let lines = plan.lines().take_while(|line| !line.starts_with('┌'));
    lines.map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ").replace(':', "")).collect()
}

#[test]
fn a_dry_run_without_a_daemon_starts_none() {
    let sandbox = Sandbox::new();
    write(&sandbox, &[("api", "server.js", 2)]);
    assert_eq!(done(&sandbox, &["apply", "--dry-run"]), "start  api (2 workers)\n");
    let planned: Value = serde_json::from_str(&done(&sandbox, &["apply", "--dry-run", "--json"])).unwrap();
    let plan = json!([{ "name": "api", "change": "start", "notes": [] }]);
    assert_eq!(planned, json!({ "plan": plan, "apps": [], "undone": [] }));
    sandbox.write("forkful.config.json", r#"{ "script": "server.js", "depends_on": "nobody" }"#);
    let refused = sandbox.run(&["apply", "--dry-run"]);
    assert!(stderr(&refused).contains("`server` depends on `nobody`, and there is no such app"));
    assert_eq!(refused.status.code(), Some(2));
    assert!(!sandbox.home().exists(), "no daemon was started");
}

#[test]
fn the_apps_become_what_the_file_says() {
    let sandbox = Sandbox::new();
    write(&sandbox, &[("api", "server.js", 2), ("jobs", "server.js", 1), ("old", "server.js", 1)]);
    assert_eq!(steps(&done(&sandbox, &["apply"])), ["start api", "start jobs", "start old"]);
    let before = running(&sandbox);
    assert_eq!(before.len(), 3);

    write(&sandbox, &[("api", "server.js", 3), ("jobs", "server.js", 1), ("new", "server.js", 1)]);
    // The files have just been written: for `apply`, newer code is a change.
    let all = ["start new", "reload api", "reload jobs", "delete old"];
    assert_eq!(steps(&done(&sandbox, &["apply", "--dry-run", "--prune"])), all);
    assert_eq!(running(&sandbox), before, "a dry run does nothing");
    done(&sandbox, &["apply"]);
    let kept = running(&sandbox);
    assert_eq!(kept.keys().collect::<Vec<_>>(), ["api", "jobs", "new", "old"]);
    assert_eq!((kept["api"].1.len(), &kept["old"]), (3, &before["old"]));

    let json: Value = serde_json::from_str(&done(&sandbox, &["apply", "--prune", "--json"])).unwrap();
    let changes: Vec<_> =
        json["plan"].as_array().unwrap().iter().map(|app| app["change"].as_str().unwrap()).collect();
    assert_eq!(changes, ["keep", "keep", "keep", "delete"]);
    let after = running(&sandbox);
    assert_eq!(after.keys().collect::<Vec<_>>(), ["api", "jobs", "new"]);
    assert_eq!(after["api"], kept["api"], "what has not changed runs on");
    assert_eq!(steps(&done(&sandbox, &["apply", "--prune"])), ["keep api", "keep jobs", "keep new"]);

    write_config(&sandbox, &[("api", "server.js", 1), ("jobs", "server.js", 2), ("new", "server.js", 1)]);
    let plan = done(&sandbox, &["apply", "--dry-run"]);
    assert_eq!(plan, "scale  api: 3 → 1 worker\nscale  jobs: 1 → 2 workers\nkeep   new\n");
}

#[test]
fn a_new_version_that_fails_takes_back_everything() {
    let sandbox = Sandbox::new();
    write(&sandbox, &[("api", "server.js", 1), ("jobs", "server.js", 1), ("old", "server.js", 1)]);
    done(&sandbox, &["apply"]);
    let before = running(&sandbox);
    write(&sandbox, &[("api", "server.js", 2), ("jobs", "faulty.js", 1), ("new", "server.js", 1)]);
    let failed = sandbox.run(&["apply", "--prune"]);
    let told = stderr(&failed);
    assert_eq!(failed.status.code(), Some(1), "{told}");
    assert!(told.contains("jobs") && told.contains("the new version is faulty"), "{told}");
    assert!(told.contains("taken back: api, new"), "{told}");
    assert!(!told.contains("note: api: "), "no note tells of a change that was taken back: {told}");
    let after = running(&sandbox);
    let shape = |apps: &BTreeMap<String, (String, Vec<u64>)>| {
        apps.iter()
            .map(|(name, (script, pids))| (name.clone(), script.clone(), pids.len()))
            .collect::<Vec<_>>()
    };
    assert_eq!(shape(&after), shape(&before));
    assert_eq!((&after["jobs"], &after["old"]), (&before["jobs"], &before["old"]), "they were not touched");
}

#[test]
fn apps_start_in_the_order_in_which_they_need_each_other() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    let app = |name: &str, needs: &[&str]| json!({ "name": name, "script": "server.js", "exec_mode": "cluster", "depends_on": needs });
    let apps = [app("web", &["api"]), app("api", &["store"]), app("store", &[])];
    sandbox.write("forkful.config.json", &json!({ "apps": apps }).to_string());
    assert_eq!(steps(&done(&sandbox, &["apply"])), ["start store", "start api", "start web"]);
    assert_eq!(running(&sandbox).len(), 3);
}

#[test]
fn what_is_wrong_is_told_before_anything_is_done() {
    let sandbox = Sandbox::new();
    let failed = sandbox.run(&["apply"]);
    assert_eq!(failed.status.code(), Some(2));
    assert!(stderr(&failed).contains("contains no config file"), "{}", stderr(&failed));
    sandbox.write("server.js", SERVER);
    let apps = json!([{ "name": "api", "script": "server.js", "depends_on": ["nobody"] }]);
    sandbox.write("forkful.config.json", &json!({ "apps": apps }).to_string());
    let failed = sandbox.run(&["apply"]);
    assert_eq!(failed.status.code(), Some(2), "{}", stderr(&failed));
    assert!(stderr(&failed).contains("depends on `nobody`"), "{}", stderr(&failed));
    assert!(running(&sandbox).is_empty());
    for verb in ["restart", "reload"] {
        let failed = sandbox.run(&[verb, "forkful.config.json"]);
        assert_eq!(failed.status.code(), Some(2), "{}", stderr(&failed));
        assert!(stderr(&failed).contains("depends on `nobody`"), "{}", stderr(&failed));
    }
    assert!(running(&sandbox).is_empty());
}

#[test]
fn an_app_that_another_one_depends_on_is_not_pruned() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    let app = |name: &str, needs: &[&str]| json!({ "name": name, "script": "server.js", "exec_mode": "cluster", "depends_on": needs });
    sandbox
        .write("forkful.config.json", &json!({ "apps": [app("web", &["db"]), app("db", &[])] }).to_string());
    done(&sandbox, &["apply"]);
    sandbox.write("forkful.config.json", &json!({ "apps": [app("web", &["db"])] }).to_string());
    for options in [&["apply", "--prune"][..], &["apply", "--prune", "--dry-run"]] {
        let failed = sandbox.run(options);
        assert_eq!(failed.status.code(), Some(2), "{}", stderr(&failed));
        assert!(
            stderr(&failed).contains("`web` depends on `db`, which would be deleted"),
            "{}",
            stderr(&failed)
        );
        assert!(stderr(&failed).contains("hint: delete `web` too"), "{}", stderr(&failed));
    }
    assert_eq!(running(&sandbox).len(), 2);
}
