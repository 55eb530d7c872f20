//! How workers are told to stop, and the files with their process ids.

use std::path::Path;

use crate::sandbox::{Sandbox, done, exists, stdout, without_words_of_the_machine};
use crate::settled::wait_until;
use rustix::process::{Pid, test_kill_process};
use serde_json::Value;

fn read(path: &Path) -> String {
    fs_err::read_to_string(path).unwrap_or_default()
}

fn pids(sandbox: &Sandbox) -> Vec<u64> {
    let list: Vec<Value> = serde_json::from_str(&stdout(&sandbox.run(&["jlist"]))).unwrap();
    list.iter().map(|worker| worker["pid"].as_u64().unwrap()).collect()
}

/// Records how it was told to stop.
const ASKED: &str = "
const leave = (how) => { require('node:fs').appendFileSync('asked', how + '\\n'); process.exit(0); };
process.on('message', (message) => { if (message === 'shutdown') leave('message'); });
process.on('SIGINT', () => leave('signal'));
require('node:http').createServer().listen(0, '127.0.0.1', () => process.send('ready'));
";

#[test]
fn an_app_that_wants_a_message_is_stopped_by_one() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", ASKED);
    let asked = sandbox.work().join("asked");
    for (mode, wants_message, expected) in [
        ("fork", true, "message\n"),
        ("fork", false, "signal\n"),
        ("cluster", true, "message\n"),
        ("cluster", false, "signal\n"),
    ] {
        sandbox.write(
            "apps.json",
            &format!(
                r#"[{{ "name": "a", "script": "app.js", "exec_mode": "{mode}", "shutdown_with_message": {wants_message}, "kill_timeout": "20s", "wait_ready": true, "listen_timeout": "60s" }}]"#
            ),
        );
        done(&sandbox, &["start", "apps.json"]);
        done(&sandbox, &["stop", "a"]);
        assert_eq!(read(&asked), expected, "{mode} {wants_message}");
        done(&sandbox, &["delete", "a"]);
        fs_err::remove_file(&asked).unwrap();
    }
    // The command line's option, also at a restart.
    done(
        &sandbox,
        &["start", "app.js", "--shutdown-with-message", "--wait-ready", "--listen-timeout", "60s"],
    );
    done(&sandbox, &["restart", "app"]);
    assert_eq!(read(&asked), "message\n");
}

/// Starts a child that reports SIGINT. When it receives SIGINT itself, it lets the child answer before it
/// exits; with `WAITS` only after the child has received the signal too.
const PARENT: &str = "
const { existsSync, writeFileSync } = require('node:fs');
if (process.argv[2] === 'child') {
  process.on('SIGINT', () => writeFileSync('signalled', ''));
  process.on('message', () => process.send('still here'));
  process.send('up');
} else {
  const child = require('node:child_process').fork(__filename, ['child']);
  child.on('message', (message) => {
    if (message === 'up') {
      writeFileSync('child', String(child.pid));
      return process.send('ready');
    }
    if (process.env.WAITS === 'true' && !existsSync('signalled')) return child.send('and now?');
    process.exit(0);
  });
  process.on('SIGINT', () => child.send('are you there?'));
}
";

#[test]
fn descendants_get_the_first_signal_only_with_treekill_and_none_survives() {
    let sandbox = Sandbox::new();
    sandbox.write("parent.js", PARENT);
    let signalled = sandbox.work().join("signalled");
    for treekill in [true, false] {
        sandbox.write(
            "apps.json",
            &format!(
                r#"[{{ "name": "tree", "script": "parent.js", "treekill": {treekill}, "wait_ready": true, "listen_timeout": "100s",
                     "kill_timeout": "20s", "env": {{ "WAITS": "{treekill}" }} }}]"#
            ),
        );
        done(&sandbox, &["start", "apps.json"]);
        let child: i32 = read(&sandbox.work().join("child")).parse().unwrap();
        let child = Pid::from_raw(child).unwrap();
        assert!(test_kill_process(child).is_ok());
        done(&sandbox, &["stop", "tree"]);
        assert_eq!(exists(&signalled), treekill);
        wait_until(|| test_kill_process(child).is_err());
        done(&sandbox, &["delete", "tree"]);
        drop(fs_err::remove_file(&signalled));
    }
}

#[test]
fn a_pid_file_holds_the_process_that_runs() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", "require('node:http').createServer().listen(0, '127.0.0.1')");
    sandbox.write(
        "apps.json",
        r#"[{ "name": "api", "script": "server.js", "instances": 2, "pid_file": "run/api.pid" }]"#,
    );
    let files = [0, 1].map(|id| sandbox.work().join(format!("run/api-{id}.pid")));
    let held = || files.iter().map(|file| read(file).trim().parse().unwrap_or(0)).collect::<Vec<u64>>();
    let validated = sandbox.run(&["validate", "apps.json"]);
    assert!(
        validated.status.success() && without_words_of_the_machine(&validated.stderr).is_empty(),
        "{}",
        sandbox.told(&validated)
    );
    done(&sandbox, &["start", "apps.json"]);
    let first = pids(&sandbox);
    wait_until(|| held() == first);
    let list: Vec<Value> = serde_json::from_str(&stdout(&sandbox.run(&["jlist"]))).unwrap();
    assert_eq!(list[1]["pm2_env"]["pm_pid_path"], files[1].to_str().unwrap());
    for verb in ["reload", "restart"] {
        let before = pids(&sandbox);
        done(&sandbox, &[verb, "api"]);
        assert!(pids(&sandbox).iter().all(|pid| !before.contains(pid)));
        wait_until(|| held() == pids(&sandbox));
    }
    done(&sandbox, &["scale", "api", "1"]);
    wait_until(|| !exists(&files[1]));
    done(&sandbox, &["stop", "api"]);
    wait_until(|| !exists(&files[0]));
    assert_eq!(fs_err::read_dir(sandbox.work().join("run")).unwrap().count(), 0);
}

#[test]
fn workers_that_stay_stopped_when_their_number_grows_are_told() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "setInterval(() => {}, 1000)");
    done(&sandbox, &["start", "app.js", "--name", "api", "-i", "2", "-x"]);
    done(&sandbox, &["stop", "api"]);
    let told = sandbox.transcript(&["scale", "api", "3"]);
    assert!(told.contains("note: api: 2 workers stay stopped; `forkful start api` starts them\n"), "{told}");
    done(&sandbox, &["start", "api"]);
    let told = sandbox.transcript(&["scale", "api", "4"]);
    assert!(!told.contains("stay stopped"), "{told}");
}

#[test]
fn a_pid_file_that_cannot_be_written_harms_nobody_and_is_told_once() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "setInterval(() => {}, 1000)");
    sandbox.write("taken", "");
    done(&sandbox, &["start", "app.js", "--pid", "taken/app.pid"]);
    done(&sandbox, &["restart", "app"]);
    done(&sandbox, &["stop", "app"]);
    done(&sandbox, &["kill"]);
    let log = read(&sandbox.home().join("daemon.log"));
    let told: Vec<&str> = log.lines().skip_while(|line| !line.contains("pid file")).take(2).collect();
    assert!(told[0].ends_with("/work/taken/app-0.pid; its app runs without it"), "{told:?}");
    assert!(told[1].contains("caused by: Not a directory (os error 20)"), "{told:?}");
    assert_eq!(log.matches("cannot write the pid file").count(), 1);
}

#[test]
fn a_daemon_whose_socket_was_removed_is_found() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "setInterval(() => {}, 1000);");
    done(&sandbox, &["start", "app.js"]);
    fs_err::remove_file(sandbox.home().join("forkful.sock")).unwrap();
    let told = sandbox.transcript(&["kill"]);
    assert!(told.contains("the daemon has stopped"), "{told}");
}

#[test]
fn a_daemon_beside_another_one_says_that_there_is_one() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "setInterval(() => {}, 1000);");
    done(&sandbox, &["start", "app.js"]);
    let told = [&["daemon"][..], &["daemon", "--no-keeper"]].map(|args| sandbox.transcript(args)).concat();
    let pid = regex::Regex::new(r"pid \d+").unwrap();
    insta::assert_snapshot!(pid.replace_all(&told, "pid [pid]"), @"
    exit: 0
    --- stderr
    note: a daemon is running already (pid [pid])
    exit: 0
    --- stderr
    note: a daemon is running already (pid [pid])
    ");
}

#[test]
fn a_start_that_kill_cancels_names_kill() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "require('node:fs').writeFileSync('runs', ''); setInterval(() => {}, 1000);");
    done(&sandbox, &["start", "app.js", "--name", "first"]);
    fs_err::remove_file(sandbox.work().join("runs")).unwrap();
    let args = ["start", "app.js", "--name", "second", "--wait-ready", "--listen-timeout", "60000"];
    std::thread::scope(|scope| {
        let start = scope.spawn(|| sandbox.transcript(&args));
        wait_until(|| exists(&sandbox.work().join("runs")));
        done(&sandbox, &["kill"]);
        let told = start.join().unwrap();
        assert!(told.contains("error: second: worker 1: cancelled by a later `kill`"), "{told}");
    });
}
