//! The verbs about configurations, and those that print one thing.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use crate::sandbox::{Guarded, Sandbox, stdout};
use crate::settled::{settled, wait_until};
use insta::assert_snapshot;

const SERVER: &str = "require('http').createServer((q, r) => r.end('ok')).listen(0);";

#[test]
fn a_first_configuration_is_written_and_starts() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    assert_snapshot!(sandbox.transcript(&["init"]), @"
    exit: 0
    --- stdout
    module.exports = {
      apps: [{
        script: 'server.js',
        instances: 'max',
        env: {
          NODE_ENV: 'development'
        },
        env_production: {
          NODE_ENV: 'production'
        }
      }]
    }
    ");
    assert_snapshot!(sandbox.transcript(&["init", "--output", "forkful.config.js"]), @"
    exit: 0
    --- stdout
    forkful.config.js written; `forkful start` starts it
    ");
    assert_snapshot!(sandbox.transcript(&["ecosystem", "--output", "forkful.config.js"]), @"
    exit: 2
    --- stderr
    error: forkful.config.js is there already

    hint: `--force` overwrites it, `--output` names another file
    ");
    let full = sandbox.transcript(&["init", "full", "--output", "full.config.js"]);
    assert_snapshot!(full, @"
    exit: 0
    --- stdout
    full.config.js written; `forkful start` starts it
    ");
    let told = sandbox.transcript(&["validate", "forkful.config.js", "full.config.js"]);
    assert_eq!(told.matches(": cluster, ").count(), 2, "{told}");
    // Every example of the full one is one that can be used.
    let text = fs_err::read_to_string(sandbox.work().join("full.config.js")).unwrap();
    for key in ["max_memory_restart: '200M'", "cron_restart: '0 3 * * *'", "deploy: {"] {
        assert!(text.contains(key), "{key} is not in {text}");
    }
}

#[test]
fn a_configuration_is_validated_without_starting_anything() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    assert_snapshot!(sandbox.transcript(&["validate"]), @"
    exit: 2
    --- stderr
    error: [sandbox]/work contains no config file

    hint: `forkful init` writes one
    ");
    sandbox.write(
        "ecosystem.config.json",
        r#"{ "apps": [{ "script": "server.js", "instances": 2, "env": { "TOKEN": "secret" }, "pmx": true }],
             "deploy": { "live": { "host": ["a", "b"], "repo": "git@h:r.git", "ref": "origin/main", "path": "/srv/x" } } }"#,
    );
    let node = |text: String| text.replace(&node_path(), "[node]");
    assert_snapshot!(node(sandbox.transcript(&["validate"])), @r#"
    exit: 0
    --- stdout
    ecosystem.config.json: 1 app
      server: cluster, 2 workers, [node] [sandbox]/work/server.js
      deploy live: origin/main of git@h:r.git to a, b
    --- stderr
    warning: ecosystem.config.json:1:83: apps[0].pmx has no effect outside PM2: ignored
      |
    1 | { "apps": [{ "script": "server.js", "instances": 2, "env": { "TOKEN": "secret" }, "pmx": true...
      |                                                                                   ^^^^^
    "#);
    let json: serde_json::Value =
        serde_json::from_str(&stdout(&sandbox.run(&["validate", "--json"]))).unwrap();
    assert_eq!((json[0]["name"].as_str(), json[0]["env"].as_object().unwrap().len()), (Some("server"), 0));
    sandbox.write("bad.json", r#"{ "apps": [{ "script": "server.js", "max_memory_restart": "much" }] }"#);
    assert_snapshot!(sandbox.transcript(&["validate", "bad.json"]), @r#"
    exit: 2
    --- stderr
    error: bad.json:1:59: apps[0].max_memory_restart is "much"; expected a number of bytes, or a string such as "200M", "1.5G" or "500K"
      |
    1 | { "apps": [{ "script": "server.js", "max_memory_restart": "much" }] }
      |                                                           ^^^^^^

    bad.json: 1 fault
    "#);
    let schema: serde_json::Value =
        serde_json::from_str(&stdout(&sandbox.run(&["validate", "--schema"]))).unwrap();
    assert_eq!(schema["title"], "Forkful configuration");
    assert!(!crate::sandbox::exists(&sandbox.home()));
}

fn node_path() -> String {
    let output = std::process::Command::new("sh").args(["-c", "command -v node"]).output().unwrap();
    stdout(&output).trim().to_owned()
}

#[test]
fn a_configuration_may_come_from_stdin() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    sandbox.write("in.json", r#"{ "apps": [{ "script": "server.js", "name": "piped" }] }"#);
    let from = |name: &str, args: &[&str]| {
        let file = std::fs::File::open(sandbox.work().join(name)).unwrap();
        settled(&sandbox.told(&sandbox.command(args).stdin(file).output().unwrap()))
    };
    assert_snapshot!(from("in.json", &["start", "-"]), @"
    exit: 0
    --- stdout
    piped started (1 worker)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | piped | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    ");
    sandbox.write("bad.json", "{ apps: 3 }");
    assert_snapshot!(from("bad.json", &["start", "-"]), @"
    exit: 2
    --- stderr
    error: stdin:1:9: apps is 3; expected a list of apps
    ");
}

#[test]
fn ids_pids_environment_and_groups_of_apps() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    assert_snapshot!(sandbox.transcript(&["pid"]), @"
    exit: 4
    --- stderr
    error: no daemon is running at [sandbox]/home/forkful.sock

    hint: `forkful start` starts one when there is something to run
    ");
    let started =
        ["start", "server.js", "--name", "api", "-i", "2", "--namespace", "shop", "--env", "DB_PASSWORD=x"];
    assert_eq!(sandbox.run(&started).status.code(), Some(0));
    sandbox.run(&["start", "server.js", "--name", "other"]);
    assert_snapshot!(sandbox.transcript(&["id", "api"]), @"
    exit: 0
    --- stdout
    [ 0, 1 ]
    ");
    assert_snapshot!(sandbox.transcript(&["id", "nobody"]), @"
    exit: 3
    --- stderr
    error: no app or worker `nobody`

    hint: there is `api`, `other`; `forkful list` shows them
    ");
    let pids = stdout(&sandbox.run(&["pid", "shop"]));
    assert_eq!(pids.lines().filter(|line| line.parse::<u32>().is_ok()).count(), 2, "{pids}");
    assert_eq!(stdout(&sandbox.run(&["pid", "1"])).lines().count(), 1);
    assert_eq!(stdout(&sandbox.run(&["pid"])).lines().count(), 1);
    let env = stdout(&sandbox.run(&["env", "api"]));
    assert!(!env.contains("DB_PASSWORD: x") && env.contains("DB_PASSWORD: "), "{env}");
    assert!(stdout(&sandbox.run(&["env", "api", "--show-secrets"])).contains("DB_PASSWORD: x\n"));
    assert_snapshot!(settled(&sandbox.transcript(&["stop", "shop"])), @"
    exit: 0
    --- stdout
    api stopped (2 workers)
    | id | name | namespace | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api | shop | cluster | - | - | 0 | stopped | - | - |
    | 1 | api | shop | cluster | - | - | 0 | stopped | - | - |
    | 2 | other | default | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    ");
    assert_snapshot!(sandbox.transcript(&["pid", "api"]), @"
    exit: 1
    --- stderr
    error: no worker of `api` runs

    hint: `forkful start api` starts it
    ");
    let report = stdout(&sandbox.run(&["report"]));
    assert!(report.contains("daemon        version ") && report.contains("server.js"), "{report}");
    assert!(!report.contains("DB_PASSWORD"), "{report}");
}

#[test]
fn workers_get_the_variables_that_pm2_gives() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "server.js",
        "const e = process.env; require('fs').writeFileSync('env-' + e.SLOT, [e.name, e.namespace, e.instances, e.exec_mode, e.pm_id, e.PORT].join(' '));
         require('http').createServer(() => {}).listen(0);",
    );
    sandbox.write(
        "forkful.config.json",
        r#"{ "apps": [{ "script": "server.js", "instances": 2, "instance_var": "SLOT", "increment_var": "PORT",
             "namespace": "shop", "env": { "PORT": 3000, "name": "mine" } }] }"#,
    );
    assert_eq!(sandbox.run(&["start"]).status.code(), Some(0));
    for (file, expected) in
        [("env-0", "mine shop 2 cluster_mode 0 3000"), ("env-1", "mine shop 2 cluster_mode 1 3001")]
    {
        wait_until(|| fs_err::read_to_string(sandbox.work().join(file)).is_ok_and(|text| text == expected));
    }
}

#[test]
fn a_silent_stdin_is_told_what_it_is_waited_for() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "setInterval(() => {}, 1000);");
    let mut command = sandbox.command(&["validate", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut validate = Guarded::spawn(&mut command);
    let mut talk = BufReader::new(validate.child.stderr.take().unwrap());
    let mut line = String::new();
    talk.read_line(&mut line).unwrap();
    assert_eq!(line, "note: waiting for a configuration, as JSON, on stdin; Ctrl-D ends one that is typed\n");
    // It goes on waiting: what comes now is taken, in pieces too.
    let mut stdin = validate.child.stdin.take().unwrap();
    stdin.write_all(b"{ \"script\":").unwrap();
    stdin.flush().unwrap();
    stdin.write_all(b" \"app.js\" }").unwrap();
    drop(stdin);
    assert!(validate.child.wait().unwrap().success());
}
