//! The app list is saved automatically, restored after a crash, and can be imported from PM2.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::sandbox::{Sandbox, exists, stdout};
use crate::settled::{settled, wait_until};
use insta::assert_snapshot;

const SERVER: &str = "require('http').createServer((q, r) => r.end('ok')).listen(0);";

/// Kills the daemon together with its keeper, so that no other daemon starts, and waits until both are gone.
fn crash(sandbox: &Sandbox) {
    let ping: serde_json::Value = serde_json::from_str(&stdout(&sandbox.run(&["ping", "--json"]))).unwrap();
    let handles = ["keeper", "pid"].map(|key| {
        let pid =
            rustix::process::Pid::from_raw(i32::try_from(ping[key].as_i64().unwrap()).unwrap()).unwrap();
        rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap()
    });
    for handle in &handles {
        rustix::process::pidfd_send_signal(handle, rustix::process::Signal::KILL).unwrap();
    }
    for handle in &handles {
        let mut ended = [rustix::event::PollFd::new(handle, rustix::event::PollFlags::IN)];
        let bound = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut ended, Some(&bound)).unwrap(), 1, "the daemon does not end");
    }
}

fn state(sandbox: &Sandbox) -> serde_json::Value {
    serde_json::from_str(&fs_err::read_to_string(sandbox.home().join("state.json")).unwrap()).unwrap()
}

#[test]
fn a_daemon_that_was_killed_is_missed_and_one_that_was_told_to_end_is_not() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    sandbox.run(&["start", "server.js", "--name", "api"]);
    crash(&sandbox);
    // An empty list alone would look as if there had never been any apps.
    let told = [
        sandbox.transcript(&["list"]),
        sandbox.transcript(&["jlist"]),
        sandbox.transcript(&["stop", "api"]),
        sandbox.transcript(&["ping"]),
        sandbox.transcript(&["start", "api"]),
        sandbox.transcript(&["start", "server.js", "--name", "new"]),
        sandbox.transcript(&["list", "-m"]).lines().filter(|line| line.contains("warning")).collect(),
        sandbox.transcript(&["resurrect"]),
    ];
    assert_snapshot!(settled(&told.concat()), @r#"
    exit: 0
    --- stdout
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    --- stderr
    warning: the daemon stopped unexpectedly, see [sandbox]/home/daemon.log; 1 process of its apps still runs, and is ended when the next daemon starts; `forkful resurrect` starts its apps again
    exit: 0
    --- stdout
    []
    --- stderr
    warning: the daemon stopped unexpectedly, see [sandbox]/home/daemon.log; 1 process of its apps still runs, and is ended when the next daemon starts; `forkful resurrect` starts its apps again
    exit: 3
    --- stderr
    warning: the daemon stopped unexpectedly, see [sandbox]/home/daemon.log; 1 process of its apps still runs, and is ended when the next daemon starts; `forkful resurrect` starts its apps again
    error: no app or worker `api`

    hint: no app is running; `forkful resurrect` starts the saved apps
    exit: 4
    --- stderr
    warning: the daemon stopped unexpectedly, see [sandbox]/home/daemon.log; 1 process of its apps still runs, and is ended when the next daemon starts; `forkful resurrect` starts its apps again
    error: no daemon is running at [sandbox]/home/forkful.sock

    hint: `forkful start` starts a daemon with an app
    exit: 2
    --- stderr
    warning: the daemon stopped unexpectedly, see [sandbox]/home/daemon.log; 1 process of its apps still runs, and is ended when the next daemon starts; `forkful resurrect` starts its apps again
    error: script "api" does not exist in [sandbox]/work

    hint: no app is running; `forkful resurrect` starts the saved app `api`
    exit: 0
    --- stdout
    new started (1 worker)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | new | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    --- stderr
    warning: the daemon stopped unexpectedly, see [sandbox]/home/daemon.log; 1 process of its apps still runs, and is ended when the next daemon starts; `forkful resurrect` starts its apps again
    exit: 0
    --- stdout
    api resurrected (1 worker)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | new | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    | 1 | api | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    "#);
    let killed = sandbox.transcript(&["kill"]);
    assert!(killed.contains("note: `forkful resurrect` starts 2 apps again\n"), "{killed}");
    let list = sandbox.transcript(&["list"]);
    assert!(list.contains("note: no app is running; `forkful resurrect` starts 2 saved apps\n"), "{list}");
    assert!(!list.contains("warning"));
}

#[test]
fn apps_come_back_after_a_crash_in_the_states_that_they_had() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    sandbox.run(&["start", "server.js", "--name", "api", "-i", "2", "--listen-timeout", "60s"]);
    sandbox.run(&["start", "server.js", "--name", "resting"]);
    sandbox.run(&["start", "server.js", "--name", "gone"]);
    let added = sandbox.transcript(&["start", "server.js", "--name", "later", "--no-autostart"]);
    assert!(added.contains("later added, not started\n"), "{added}");
    sandbox.run(&["stop", "resting"]);
    sandbox.run(&["delete", "gone"]);
    crash(&sandbox);
    assert_snapshot!(settled(&sandbox.transcript(&["resurrect"])), @"
    exit: 0
    --- stdout
    api resurrected (2 workers)
    resting resurrected, stopped as before
    later resurrected, stopped as before
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api | cluster | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    | 1 | api | cluster | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    | 2 | resting | fork | - | - | 0 | stopped | - | - |
    | 3 | later | fork | - | - | 0 | stopped | - | - |
    ");
    // Started by a daemon that never received the earlier commands.
    crash(&sandbox);
    sandbox.run(&["start", "server.js", "--name", "new"]);
    assert_snapshot!(settled(&sandbox.transcript(&["resurrect"])), @"
    exit: 0
    --- stdout
    api resurrected (2 workers)
    resting resurrected, stopped as before
    later resurrected, stopped as before
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | new | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    | 1 | api | cluster | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    | 2 | api | cluster | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    | 3 | resting | fork | - | - | 0 | stopped | - | - |
    | 4 | later | fork | - | - | 0 | stopped | - | - |
    ");
    let names: Vec<_> = state(&sandbox)["apps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|app| app["definition"]["name"].clone())
        .collect();
    assert_eq!(names, ["new", "api", "resting", "later"]);
}

#[test]
fn an_update_without_a_keeper_keeps_apps_states_and_environments() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.transcript(&["update"]), @"
    exit: 0
    --- stdout
    no daemon is running: the next command starts one of this version
    ");
    sandbox.write("server.js", "console.log(process.env.TOKEN); setInterval(() => {}, 1e6);");
    for (name, token) in [("one", "first"), ("two", "second")] {
        let mut start = sandbox.command(&["start", "server.js", "--name", name]);
        let started = start.env("TOKEN", token).env("FORKFUL_KEEPER", "0").output().unwrap();
        assert_eq!(started.status.code(), Some(0), "{}", sandbox.told(&started));
    }
    sandbox.run(&["start", "server.js", "--name", "resting"]);
    sandbox.run(&["stop", "resting"]);
    let before = stdout(&sandbox.run(&["ping", "--json"]));
    // The same code plus one byte, written by a separate process, so that nobody holds the file open when it
    // is executed.
    let build = sandbox.work().join("build");
    let mut copy = Command::new("sh");
    copy.args(["-c", r#"cp "$0" "$1" && printf x >> "$1""#, env!("CARGO_BIN_EXE_forkful")]).arg(&build);
    assert!(copy.status().unwrap().success());
    let updated = sandbox.command_of(&build, &["update"]).output().unwrap();
    assert_snapshot!(settled(&sandbox.told(&updated)), @"
    exit: 0
    --- stdout
    the daemon of version 0.1.0 was replaced by 0.1.0
    one started again (1 worker)
    two started again (1 worker)
    resting started again
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | one | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    | 1 | two | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    | 2 | resting | fork | - | - | 0 | stopped | - | - |
    --- stderr
    warning: this daemon has no keeper to hand its apps over: they are stopped and started again
    ");
    assert_ne!(stdout(&sandbox.run(&["ping", "--json"])), before);
    for (name, token) in [("one", "first"), ("two", "second")] {
        let log = sandbox.home().join(format!("logs/{name}-out.log"));
        wait_until(|| fs_err::read_to_string(&log).is_ok_and(|text| text.lines().count() == 2));
        assert_eq!(fs_err::read_to_string(&log).unwrap(), format!("{token}\n{token}\n"));
    }
    let saved = fs_err::read_to_string(sandbox.home().join("state.json")).unwrap();
    assert!(!saved.contains("first") && !saved.contains("second"), "{saved}");
}

#[test]
fn secrets_of_the_caller_are_not_written_unless_asked_for() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", "console.log(process.env.OWN, process.env.FROM_FILE, process.env.SECRET_X); setInterval(() => {}, 1e6);");
    sandbox.write(".env", "FROM_FILE=file-value\n");
    sandbox.write(
        "forkful.config.json",
        r#"{ "apps": [{ "script": "server.js", "env_file": ".env", "env": { "OWN": "own-value" } }] }"#,
    );
    let started = sandbox.command(&["start"]).env("SECRET_X", "secret-value").output().unwrap();
    assert_eq!(started.status.code(), Some(0), "{}", sandbox.told(&started));
    let text = fs_err::read_to_string(sandbox.home().join("state.json")).unwrap();
    assert!(
        text.contains("own-value") && !text.contains("secret-value") && !text.contains("file-value"),
        "{text}"
    );
    for entry in fs_err::read_dir(sandbox.home()).unwrap().map(Result::unwrap) {
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", entry.path().display());
    }
    assert_snapshot!(sandbox.transcript(&["save"]), @"
    exit: 0
    --- stdout
    1 app saved in [sandbox]/home/dump.json
    --- stderr
    note: server: values that are not saved: SECRET_X
    note: put what the apps need into a file that `env_file` names, or save it with --with-env
    ");
    crash(&sandbox);
    let back = sandbox.command(&["resurrect"]).env("SECRET_X", "from-resurrect").output().unwrap();
    assert_snapshot!(settled(&sandbox.told(&back)), @"
    exit: 0
    --- stdout
    server resurrected (1 worker)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | server | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    ");
    let log = sandbox.home().join("logs/server-out.log");
    wait_until(|| fs_err::read_to_string(&log).is_ok_and(|text| text.lines().count() == 2));
    assert_snapshot!(fs_err::read_to_string(&log).unwrap(), @"
    own-value file-value secret-value
    own-value file-value from-resurrect
    ");
    assert_snapshot!(sandbox.transcript(&["save", "--with-env"]), @"
    exit: 0
    --- stdout
    1 app saved in [sandbox]/home/dump.json
    ");
    assert!(fs_err::read_to_string(sandbox.home().join("dump.json")).unwrap().contains("from-resurrect"));
    crash(&sandbox);
    sandbox.write(".env", "FROM_FILE='");
    assert_snapshot!(settled(&sandbox.transcript(&["resurrect"])), @"
    exit: 0
    --- stdout
    server resurrected (1 worker)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | server | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    --- stderr
    note: server: [sandbox]/work/.env cannot be read, so its variables are missing: line 1: a quote is not closed
    ");
}

#[test]
fn apps_that_were_deleted_do_not_come_back_and_apps_that_were_left_out_are_named() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    let run = |args: &[&str]| settled(&sandbox.transcript(args));
    run(&["start", "server.js", "--name", "first"]);
    run(&["save"]);
    run(&["delete", "all"]);
    run(&["kill"]);
    assert_snapshot!(run(&["resurrect"]), @"
    exit: 3
    --- stderr
    error: there is nothing saved

    hint: `forkful start` starts an app, and what runs is saved by itself
    ");
    run(&["resurrect", "--saved"]);
    assert!(run(&["jlist"]).contains(r#""name":"first""#));
    run(&["kill"]);
    let told = run(&["start", "server.js", "--name", "second"]);
    let note = "note: apps of the last daemon that are not started: first; `forkful resurrect` starts what ran last; \
                without it, a reboot starts only what runs now";
    assert!(told.contains(note), "{told}");
    run(&["kill"]);
    // What runs again is not named.
    assert!(!run(&["start", "server.js", "--name", "second"]).contains("of the last daemon"));
    // Every command that starts a daemon with other apps tells so.
    sandbox.write("n.config.json", r#"{ "apps": [{ "script": "server.js", "name": "third" }] }"#);
    sandbox.write("m.config.json", r#"{ "apps": [{ "script": "server.js", "name": "fourth" }] }"#);
    for (args, before) in [
        (["apply", "n.config.json"], "second"),
        (["restart", "m.config.json"], "third"),
        (["reload", "n.config.json"], "fourth"),
        (["dashboard", "--json"], "third"),
        (["api", "connect"], "third"),
    ] {
        run(&["kill"]);
        let told = run(&args);
        assert!(told.contains(&note.replace("note: ", "").replace("first", before)), "{args:?}: {told}");
    }
}

#[test]
fn saving_and_clearing_have_their_answers() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.transcript(&["save"]), @"
    exit: 1
    --- stderr
    error: no daemon is running, so there is nothing to save

    hint: what ran last is saved already; `forkful resurrect` starts it
    ");
    assert_snapshot!(sandbox.transcript(&["resurrect"]), @"
    exit: 3
    --- stderr
    error: there is nothing saved

    hint: `forkful start` starts an app, and what runs is saved by itself
    ");
    assert_snapshot!(sandbox.transcript(&["cleardump"]), @"
    exit: 0
    --- stdout
    nothing was saved
    ");
    sandbox.write("server.js", SERVER);
    sandbox.run(&["start", "server.js"]);
    assert_snapshot!(sandbox.transcript(&["save", "--json"]), @r#"
    exit: 0
    --- stdout
    {
      "path": "[sandbox]/home/dump.json",
      "apps": [
        {
          "name": "server",
          "left_out": []
        }
      ]
    }
    "#);
    sandbox.run(&["delete", "all"]);
    assert_snapshot!(sandbox.transcript(&["save"]), @"
    exit: 1
    --- stderr
    error: there is no app to save

    hint: `--force` saves that there is none
    ");
    assert_snapshot!(settled(&sandbox.transcript(&["resurrect", "--saved"])), @"
    exit: 0
    --- stdout
    server resurrected (1 worker)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | server | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    ");
    assert_snapshot!(settled(&sandbox.transcript(&["resurrect"])), @"
    exit: 0
    --- stdout
    server exists already, nothing to do
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | server | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    ");
    assert_snapshot!(sandbox.transcript(&["cleardump"]), @"
    exit: 0
    --- stdout
    [sandbox]/home/dump.json removed
    ");
    assert!(exists(&sandbox.home().join("state.json")), "what runs is still kept");
}

#[test]
fn a_state_that_cannot_be_read_is_kept_aside_and_told() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    sandbox.run(&["start", "server.js", "--name", "api"]);
    sandbox.run(&["save"]);
    crash(&sandbox);
    fs_err::write(sandbox.home().join("state.json"), "{ torn").unwrap();
    let told = sandbox.transcript(&["resurrect"]);
    let aside = fs_err::read_dir(sandbox.home()).unwrap().map(|entry| entry.unwrap().file_name());
    let aside = aside.map(|name| name.into_string().unwrap()).find(|name| name.starts_with("state.broken-"));
    let aside = aside.unwrap();
    assert_snapshot!(settled(&told.replace(&aside, "[aside]")), @"
    exit: 1
    --- stdout
    api resurrected (1 worker)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    --- stderr
    error: saved state: [sandbox]/home/state.json is no saved state: key must be a string at line 1 column 3; it is kept as [sandbox]/home/[aside]
    ");
    assert_eq!(fs_err::read_to_string(sandbox.home().join(aside)).unwrap(), "{ torn");
}

#[test]
fn variables_of_the_shell_that_are_not_saved_are_told_by_name() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    let mut start = sandbox.command(&["start", "server.js", "--name", "api"]);
    start.env("DATABASE_URL", "postgres://u:secret@db/x").env("EDITOR", "vi").env("PORT", "3000");
    assert_snapshot!(settled(&sandbox.told(&start.output().unwrap())), @"
    exit: 0
    --- stdout
    api started (1 worker)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    --- stderr
    note: api: the value of DATABASE_URL comes from this shell and is not saved: it is missing after a crash or a reboot. Write it into a file that `env_file` names, or keep it with `save_env: true` or `forkful save --with-env`
    ");
    let mut restart = sandbox.command(&["restart", "api"]);
    restart
        .env("DATABASE_URL", "postgres://u:other@db/x")
        .env("FOO", "1")
        .env("EDITOR", "vi")
        .env("PORT", "3000");
    let told = sandbox.told(&restart.output().unwrap());
    let note = "note: api keeps its environment: DATABASE_URL, FOO of this shell do not reach it; `forkful restart api --update-env`";
    assert!(told.contains(note), "{told}");
    let mut updated = sandbox.command(&["restart", "api", "--update-env"]);
    updated.env("FOO", "1").env("PORT", "3000");
    let told = sandbox.told(&updated.output().unwrap());
    assert!(!told.contains("keeps its environment"), "{told}");
    crash(&sandbox);
    let told = sandbox.transcript(&["resurrect"]);
    assert!(told.contains("starts without values that were not saved: DATABASE_URL"), "{told}");
    let told = sandbox.transcript(&["list"]);
    assert!(told.contains("note: api runs without DATABASE_URL"), "{told}");
    let described = sandbox.transcript(&["describe", "api"]);
    let missing = described.lines().find(|line| line.contains("missing")).unwrap();
    assert!(missing.contains("DATABASE_URL"), "{described}");
    assert!(!described.contains("secret") && !described.contains("other@"), "{described}");
}

#[test]
fn arguments_in_json_lists_hide_secrets_as_those_of_pm2_do() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    sandbox.run(&["start", "server.js", "--name", "api", "--", "--token", "hunter2", "--port", "80"]);
    for args in [["list", "--json"].as_slice(), &["describe", "api", "--json"], &["jlist"]] {
        let told = sandbox.transcript(args);
        assert!(told.contains("[redacted]") && !told.contains("hunter2"), "{args:?}: {told}");
    }
    // A command line and the interpreter's arguments are no exception.
    forkful_testkit::write_executable(&sandbox.work().join("quiet.sh"), "#!/bin/sh\nexec sleep 1000\n");
    sandbox.run(&["start", "./quiet.sh --token=hunter3", "--name", "line"]);
    sandbox.run(&["start", "server.js", "--name", "flag", "--node-args", "--title=token=hunter4"]);
    let secrets = ["hunter2", "hunter3", "hunter4"];
    let shown = sandbox.transcript(&["jlist"]);
    assert!(!secrets.iter().any(|secret| shown.contains(secret)), "{shown}");
    let all = sandbox.transcript(&["jlist", "--show-env"]);
    assert!(secrets.iter().all(|secret| all.contains(secret)), "{all}");
}

#[test]
fn secrets_of_health_checks_alerts_and_urls_are_shown_nowhere_and_stay_in_use() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    let app = serde_json::json!({
        "name": "api", "script": "server.js", "args": ["postgres://u:hunter2@db/x?sslmode=require"],
        "health": "http://127.0.0.1:1/h?token=hunter2", "warmup": "/w?token=hunter2",
        "alerts": { "webhook": "https://hooks.example.com/hunter2", "command": ["true", "--token", "hunter2"] },
    });
    sandbox.write("forkful.config.json", &serde_json::json!({ "apps": [app] }).to_string());
    let validated = sandbox.transcript(&["validate", "--json"]);
    assert!(validated.contains("[redacted]") && !validated.contains("hunter2"), "{validated}");
    sandbox.run(&["start"]);
    for args in [
        ["list", "--json"].as_slice(),
        &["describe", "api", "--json"],
        &["describe", "api"],
        &["jlist"],
        &["report"],
        &["reload", "api"],
    ] {
        let told = sandbox.transcript(args);
        let is_shown = told.contains("[redacted]") || args == ["reload", "api"];
        assert!(is_shown && !told.contains("hunter2"), "{args:?}: {told}");
    }
    let saved = fs_err::read_to_string(sandbox.home().join("state.json")).unwrap();
    for kept in ["u:hunter2@db", "/h?token=hunter2", "/w?token=hunter2", "hooks.example.com/hunter2"] {
        assert!(saved.contains(kept), "{kept}: {saved}");
    }
}
