//! The commands about configurations, and those that print one thing.

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
    error: forkful.config.js exists already

    hint: `--force` overwrites it, `--output` names another file
    ");
    let full = sandbox.transcript(&["init", "full", "--output", "full.config.js"]);
    assert_snapshot!(full, @"
    exit: 0
    --- stdout
    full.config.js written; `forkful start full.config.js` starts it
    ");
    let told = sandbox.transcript(&["validate", "forkful.config.js", "full.config.js"]);
    assert_eq!(told.matches(": cluster, ").count(), 2, "{told}");
    // Every example in the full configuration is valid.
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

#[test]
fn all_faults_are_shown_at_once_with_their_lines() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    let text = "apps:\n  - script: server.js\n    instances: two\n    env: { A: { b: 1 } }\n    intances: 2\n  - script: gone.js\n";
    sandbox.write("bad.yaml", text);
    assert_snapshot!(sandbox.transcript(&["validate", "bad.yaml"]), @r#"
    exit: 2
    --- stderr
    warning: bad.yaml:5:5: apps[0].intances is an unknown key, ignored; did you mean `instances`?
      |
    5 |     intances: 2
      |     ^^^^^^^^
    error: bad.yaml:3:16: apps[0].instances is "two"; expected a number, "max" or a negative number
      |
    3 |     instances: two
      |                ^^^

    error: bad.yaml:4:15: apps[0].env.A is an object; expected a string, a number, true or false
      |
    4 |     env: { A: { b: 1 } }
      |               ^

    error: bad.yaml:6:5: apps[1].script "gone.js" does not exist in [sandbox]/work
      |
    6 |   - script: gone.js
      |     ^^^^^^
    hint: a script is a file, a program in PATH, or a quoted command line

    bad.yaml: 3 faults
    "#);
    let json: serde_json::Value =
        serde_json::from_str(&stdout(&sandbox.run(&["validate", "bad.yaml", "--json"]))).unwrap();
    let places: Vec<_> =
        json["faults"].as_array().unwrap().iter().map(|f| (&f["line"], &f["column"])).collect();
    assert_eq!(places, [(&3.into(), &16.into()), (&4.into(), &15.into()), (&6.into(), &5.into())]);
    let started = sandbox.transcript(&["start", "bad.yaml"]);
    assert!(started.contains("bad.yaml:3:16:"), "{started}");
}

#[test]
fn init_writes_the_format_that_the_name_says() {
    let sandbox = Sandbox::new();
    sandbox
        .write("package.json", r#"{ "main": "lib.js", "scripts": { "start": "node server.js --port 0" } }"#);
    sandbox.write("server.js", SERVER);
    for name in ["my.toml", "my.yaml", "my.json", "my.config.mjs", "my.config.cjs", "my.config.js"] {
        for kind in ["simple", "full"] {
            let told = sandbox.transcript(&["init", kind, "--force", "-o", name]);
            assert!(told.contains(&format!("{name} written; `forkful start {name}` starts it")), "{told}");
            let told = sandbox.transcript(&["validate", name]);
            assert!(
                told.starts_with("exit: 0") && told.contains("server: cluster, "),
                "{name} {kind}: {told}"
            );
            assert!(!told.contains("warning"), "{name} {kind}: {told}");
        }
    }
    assert!(fs_err::read_to_string(sandbox.work().join("my.toml")).unwrap().starts_with("[[apps]]\n"));
    assert_snapshot!(sandbox.transcript(&["init", "-o", "my.ts"]), @"
    exit: 2
    --- stderr
    error: `forkful start my.ts` would start it as a script

    hint: name it my.config.ts
    ");
    assert_snapshot!(sandbox.transcript(&["init", "-o", "my.ini"]), @"
    exit: 2
    --- stderr
    error: cannot tell the format of my.ini from its name

    hint: use .js, .cjs, .mjs, .ts, .mts, .json, .yaml, .yml or .toml; `-` is stdout
    ");
    let printed = sandbox.transcript(&["init", "-o", "-"]);
    assert!(printed.contains("module.exports") && !sandbox.work().join("-").exists(), "{printed}");
}

#[test]
fn a_setting_of_an_app_reaches_its_environment() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "console.log('level', process.env.LEVEL); setInterval(() => {}, 1000);");
    crate::sandbox::done(&sandbox, &["start", "app.js"]);
    assert_snapshot!(settled(&sandbox.transcript(&["set", "app:LEVEL", "debug"])), @"
    exit: 0
    --- stdout
    app:LEVEL debug
    app restarted (1 worker)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | app | fork | [pid] | [uptime] | 1 | online | [cpu] | [mem] |
    --- stderr
    note: app: environment: added LEVEL
    ");
    wait_until(|| sandbox.transcript(&["logs", "app", "--nostream", "--raw"]).contains("level debug"));
    // The variable is the app's, and not also a setting that a configuration file would not follow.
    assert_eq!(crate::sandbox::done(&sandbox, &["get"]), "");
}

#[test]
fn a_setting_belongs_to_the_app_before_the_colon() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "setInterval(() => {}, 1000);");
    for name in ["my", "my.app"] {
        crate::sandbox::done(&sandbox, &["start", "app.js", "--name", name]);
    }
    let told = crate::sandbox::done(&sandbox, &["set", "my.app:LEVEL", "debug"]);
    assert!(told.contains("my.app restarted") && !told.contains("my restarted"), "{told}");
}

#[test]
fn variables_whose_names_contain_a_text_are_left_out() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "setInterval(() => {}, 1000);");
    for (name, option, kept) in [
        ("text", "--filter-env=AWS_", "LANG"),
        ("texts", "--filter-env=AWS_,LANG", ""),
        ("all", "--filter-env", ""),
        ("none", "--filter-env=false", "AWS_REGION LANG MY_AWS_KEY_ID"),
    ] {
        let mut command =
            sandbox.command(&["start", "app.js", "--force", "--name", &format!("app-{name}"), option]);
        command.envs([("AWS_REGION", "x"), ("MY_AWS_KEY_ID", "x"), ("LANG", "C")]);
        let started = command.output().unwrap();
        assert!(started.status.success(), "{}", sandbox.told(&started));
        let env: serde_json::Value =
            serde_json::from_str(&crate::sandbox::done(&sandbox, &["env", &format!("app-{name}"), "--json"]))
                .unwrap();
        let has = |variable: &&str| env.to_string().contains(&format!("\"{variable}\":"));
        let found: Vec<&str> = ["AWS_REGION", "LANG", "MY_AWS_KEY_ID"].into_iter().filter(has).collect();
        assert_eq!(found.join(" "), kept, "{option}");
    }
}

#[test]
fn a_script_means_every_app_that_runs_it() {
    let sandbox = Sandbox::new();
    for file in ["app.js", "other.js"] {
        sandbox.write(file, "setInterval(() => {}, 1000);");
    }
    for args in [&["app.js"][..], &["app.js", "--name", "second"], &["other.js"]] {
        crate::sandbox::done(&sandbox, &[&["start"], args].concat());
    }
    for (verb, done) in
        [("restart", "restarted"), ("reload", "reloaded"), ("stop", "stopped"), ("delete", "deleted")]
    {
        let told = crate::sandbox::done(&sandbox, &[verb, "app.js"]);
        let lines: Vec<&str> =
            told.lines().filter(|line| line.contains(done) && line.ends_with("worker)")).collect();
        assert_eq!(lines, [format!("app {done} (1 worker)"), format!("second {done} (1 worker)")], "{told}");
    }
    assert!(sandbox.transcript(&["list"]).contains("other"));
}

#[test]
fn a_crash_soon_after_the_start_is_told_by_the_list() {
    let sandbox = Sandbox::new();
    // It runs long enough to count as started.
    sandbox.write("late.js", "setTimeout(() => { throw new Error('no database'); }, 1500);");
    sandbox.transcript(&["start", "late.js"]);
    let list = || sandbox.transcript(&["list"]);
    wait_until(|| list().contains("note: late: worker 0 has crashed "));
}

#[test]
fn a_program_that_has_done_its_work_is_finished() {
    let sandbox = Sandbox::new();
    sandbox.write("once.js", "console.log('migrated');");
    assert_snapshot!(settled(&sandbox.transcript(&["start", "once.js"])), @"
    exit: 0
    --- stdout
    once finished (1 worker)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | once | fork | - | - | 0 | finished | - | - |
    --- stderr
    note: once: worker 0 ended with exit code 0 and is not started again
    ");
    assert!(stdout(&sandbox.run(&["jlist"])).contains(r#""status":"stopped""#));
    assert!(sandbox.transcript(&["reload", "once"]).contains("once finished (1 worker)\n"));
    // If requested, it is started again.
    sandbox.transcript(&["start", "once.js", "--name", "loop", "--autorestart", "--no-wait"]);
    let restarts = || {
        let list: serde_json::Value = serde_json::from_str(&stdout(&sandbox.run(&["jlist"]))).unwrap();
        list[1]["pm2_env"]["restart_time"].as_u64().unwrap_or_default()
    };
    wait_until(|| restarts() > 0);
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

    hint: `forkful start` starts a daemon with an app
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
    assert_eq!(line, "note: waiting for a JSON configuration on stdin; Ctrl-D ends typed input\n");
    // It keeps waiting: later input is accepted, also in pieces.
    let mut stdin = validate.child.stdin.take().unwrap();
    stdin.write_all(b"{ \"script\":").unwrap();
    stdin.flush().unwrap();
    stdin.write_all(b" \"app.js\" }").unwrap();
    drop(stdin);
    assert!(validate.child.wait().unwrap().success());
}

#[test]
#[cfg(target_os = "linux")]
fn a_configuration_that_hangs_ends_with_the_command_that_reads_it() {
    let sandbox = Sandbox::new();
    let hangs = "require('fs').writeFileSync('pid', `${process.pid}\\n`); while (true) {}";
    sandbox.write("forkful.config.cjs", hangs);
    let pid = || fs_err::read_to_string(sandbox.work().join("pid")).ok()?.strip_suffix('\n')?.parse().ok();
    let mut command = Guarded::spawn(&mut sandbox.command(&["validate"]));
    wait_until(|| pid().is_some());
    command.child.kill().unwrap();
    command.child.wait().unwrap();
    let pid: u32 = pid().unwrap();
    // A process whose parent does not collect it remains as a zombie, without a command line.
    wait_until(|| fs_err::read(format!("/proc/{pid}/cmdline")).map_or(true, |line| line.is_empty()));
}
