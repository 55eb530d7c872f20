//! `start` of existing apps: by name, id, namespace, pattern and `all`, with other options, and next to files
//! of the same name.

use insta::assert_snapshot;
use serde_json::Value;

use crate::sandbox::{Sandbox, says, stdout, succeeded};
use crate::settled::settled;

const APP: &str = "
console.log(`A=${process.env.A} ${process.argv.slice(2)}`);
require('node:http').createServer((_, response) => response.end()).listen(0, '127.0.0.1');
";

const CONFIG: &str = r#"{ "apps": [
    { "name": "api-1", "script": "app.js", "namespace": "web" },
    { "name": "api-2", "script": "app.js", "namespace": "web" },
    { "name": "mail", "script": "app.js" }
] }"#;

/// Three stopped apps.
fn stopped() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", APP);
    sandbox.write("forkful.config.json", CONFIG);
    done(&sandbox, &["start"]);
    done(&sandbox, &["stop", "all"]);
    sandbox
}

fn done(sandbox: &Sandbox, args: &[&str]) -> String {
    sandbox.told(&succeeded(sandbox, args))
}

/// The apps of all running workers.
fn online(sandbox: &Sandbox) -> Vec<String> {
    let list: Vec<Value> = serde_json::from_str(&stdout(&sandbox.run(&["jlist"]))).unwrap();
    let is_online = |worker: &&Value| worker["pm2_env"]["status"] == "online";
    list.iter().filter(is_online).map(|worker| worker["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn stopped_apps_are_started_by_whatever_names_them() {
    let sandbox = stopped();
    for (targets, meant) in [
        (vec!["mail"], vec!["mail"]),
        (vec!["0"], vec!["api-1"]),
        (vec!["web"], vec!["api-1", "api-2"]),
        (vec!["/^api-[2-9]/"], vec!["api-2"]),
        (vec!["2", "api-1"], vec!["api-1", "mail"]),
        (vec!["all"], vec!["api-1", "api-2", "mail"]),
    ] {
        let told = done(&sandbox, &[&["start"], &targets[..]].concat());
        assert_eq!(online(&sandbox), meant, "{targets:?}: {told}");
        for name in &meant {
            assert!(told.contains(&format!("{name} started (1 worker)\n")), "{targets:?}: {told}");
        }
        done(&sandbox, &["stop", "all"]);
    }
}

#[test]
fn what_runs_is_restarted_and_told_so() {
    let sandbox = stopped();
    done(&sandbox, &["start", "mail"]);
    assert_snapshot!(settled(&done(&sandbox, &["start", "all"])), @"
    exit: 0
    --- stdout
    api-1 started (1 worker)
    api-2 started (1 worker)
    mail restarted (1 worker)
    | id | name | namespace | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api-1 | web | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    | 1 | api-2 | web | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    | 2 | mail | default | fork | [pid] | [uptime] | 1 | online | [cpu] | [mem] |
    ");
    assert_snapshot!(settled(&done(&sandbox, &["start", "forkful.config.json", "--only", "mail"])), @"
    exit: 0
    --- stdout
    mail restarted (1 worker)
    | id | name | namespace | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api-1 | web | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    | 1 | api-2 | web | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    | 2 | mail | default | fork | [pid] | [uptime] | 2 | online | [cpu] | [mem] |
    ");
}

#[test]
fn options_and_the_environment_change_what_is_started() {
    let sandbox = stopped();
    let started =
        sandbox.command(&["start", "mail", "--update-env", "--", "x"]).env("A", "1").output().unwrap();
    assert!(started.status.success(), "{}", sandbox.told(&started));
    says(&sandbox, "mail", "A=1 x");
    assert_snapshot!(settled(&done(&sandbox, &["start", "api-1", "-i", "3", "--kill-timeout", "9s"])), @"
    exit: 0
    --- stdout
    api-1 started (3 workers)
    | id | name | namespace | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api-1 | web | cluster | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    | 1 | api-2 | web | fork | - | - | 0 | stopped | - | - |
    | 2 | mail | default | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    | 3 | api-1 | web | cluster | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    | 4 | api-1 | web | cluster | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    --- stderr
    note: api-1: exec_mode: fork → cluster
    note: api-1: kill_timeout: 5s → 9s
    ");
    assert_eq!(online(&sandbox), ["api-1", "mail", "api-1", "api-1"]);
    // Everything else is unchanged.
    done(&sandbox, &["start", "mail", "--env", "A=2"]);
    says(&sandbox, "mail", "A=2 x");
}

#[test]
fn names_and_files_of_one_spelling_are_told_apart_as_pm2_does() {
    let sandbox = stopped();
    // No slash and no extension: the app, although such a file exists.
    sandbox.write("mail", "#!/bin/sh\nexec sleep 1000\n");
    done(&sandbox, &["start", "mail"]);
    assert_eq!(online(&sandbox), ["mail"]);
    // An extension: the file, although an app has this name.
    sandbox.write("worker.js", APP);
    done(&sandbox, &["start", "app.js", "--name", "worker.js"]);
    assert!(done(&sandbox, &["start", "worker.js"]).contains("worker started (1 worker)\n"));
    // Without such a file, the app.
    std::fs::remove_file(sandbox.work().join("worker.js")).unwrap();
    let told = done(&sandbox, &["start", "worker.js"]);
    assert!(told.contains("worker.js restarted (1 worker)\n"), "{told}");
}

#[test]
fn another_name_makes_another_app_of_a_program() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", APP);
    done(&sandbox, &["start", "node", "--", "app.js"]);
    done(&sandbox, &["start", "node", "--name", "second", "--", "app.js"]);
    assert_eq!(online(&sandbox), ["node", "second"]);
}

#[test]
fn what_names_no_app_is_refused() {
    let sandbox = stopped();
    let told = [
        sandbox.transcript(&["start", "/^x/"]),
        sandbox.transcript(&["start", "/(/"]),
        sandbox.transcript(&["start", "77"]),
        sandbox.transcript(&["start", "absent"]),
        sandbox.transcript(&["start", "all", "--name", "one"]),
        sandbox.transcript(&["start", "mail", "--uid", "1"]),
        Sandbox::new().transcript(&["start", "all"]),
    ];
    assert_snapshot!(told.join(""), @r#"
    exit: 3
    --- stderr
    error: no app has a name that /^x/ matches

    hint: there is `api-1`, `api-2`, `mail`; `forkful list` shows them
    exit: 2
    --- stderr
    error: invalid regular expression /(/: unclosed group

    hint: a target between slashes is a pattern of names, as in '/^api-/'
    exit: 3
    --- stderr
    error: no app or worker `77`

    hint: there is `api-1`, `api-2`, `mail`; `forkful list` shows them
    exit: 2
    --- stderr
    error: script "absent" does not exist in [sandbox]/work

    hint: a script is a file, a program in PATH, or a quoted command line
    exit: 2
    --- stderr
    error: --name would give 3 apps the same name

    hint: rename them one by one
    exit: 2
    --- stderr
    error: --uid cannot be changed of an app that exists

    hint: `forkful delete mail` and start it again, or restart it with a config file that changes it
    exit: 3
    --- stderr
    error: there are no apps

    hint: no app is running; `forkful start app.js` starts one
    "#);
    assert!(online(&sandbox).is_empty());
    assert_snapshot!(settled(&done(&sandbox, &["start", "mail", "--env", "production"])), @"
    exit: 0
    --- stdout
    mail started (1 worker)
    | id | name | namespace | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api-1 | web | fork | - | - | 0 | stopped | - | - |
    | 1 | api-2 | web | fork | - | - | 0 | stopped | - | - |
    | 2 | mail | default | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    --- stderr
    warning: mail has no `env_production`: it keeps its environment
    ");
}

#[test]
fn a_taken_port_is_named_also_when_the_app_handles_the_error_itself() {
    let sandbox = Sandbox::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    // As Express 5 does it, with a callback of `listen` that takes the error.
    let server = format!(
        "const server = require('node:http').createServer();
        server.once('error', () => {{}});
        server.listen({port}, '127.0.0.1');"
    );
    sandbox.write("quiet.js", &server);
    sandbox.write("stays.js", &format!("{server} setInterval(() => {{}}, 1e6);"));
    let cannot = format!("cannot listen on 127.0.0.1:{port}: it is taken by pid {}", std::process::id());
    let cannot_v6 = format!("cannot listen on port {port}: it is taken by pid {}", std::process::id());
    for (args, name) in [
        (&["start", "stays.js", "-i", "2"][..], "cluster"),
        (&["start", "stays.js"], "fork"),
        (&["start", "quiet.js"], "finished"),
    ] {
        // A worker that has no core for that long has not tried to listen yet.
        let told = [500, 4_000, 32_000].map(|ms| ms.to_string()).iter().find_map(|listen_timeout| {
            let told =
                done(&sandbox, &[args, &["--name", name, "--listen-timeout", listen_timeout]].concat());
            let is_named = [&cannot, &cannot_v6].iter().any(|text| told.contains(text.as_str()));
            if !is_named {
                done(&sandbox, &["delete", name]);
            }
            is_named.then_some(told)
        });
        let told = told.unwrap_or_else(|| panic!("{name}: the taken port is not named"));
        assert!(told.contains("the app handled the error itself"), "{name}: {told}");
    }
    let told = sandbox.told(&sandbox.run(&["describe", "cluster"]));
    assert!(told.contains("it is taken by pid"), "{told}");
}
