//! Display options, and options for PM2's users: `-s`, `-m`, `--sort`, `-v`, `--attach`, `--no-daemon`,
//! `--ext`, `--delay`.

use std::process::Stdio;
use std::time::Instant;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::sandbox::{Guarded, Sandbox, stdout};
use crate::settled::settled;

const APP: &str = "console.log('up'); process.stdin.on('data', (text) => console.log(`got ${text}`)); setInterval(() => {}, 1000);";

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", APP);
    sandbox
}

#[test]
fn the_version_is_told_as_pm2_tells_it() {
    let sandbox = Sandbox::new();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(sandbox.transcript(&["-v"]), format!("exit: 0\n--- stdout\n{version}\n"));
    for flag in ["-V", "--version"] {
        assert_eq!(sandbox.transcript(&[flag]), format!("exit: 0\n--- stdout\nforkful {version}\n"));
    }
}

#[test]
fn silence_leaves_errors_and_what_was_asked_for() {
    let sandbox = sandbox();
    for args in [
        &["-s", "start", "app.js", "--name", "api"][..],
        &["restart", "api", "--silent", "--kill-timeout", "9s"],
        &["stop", "all", "-s"],
        &["start", "api", "--env", "production=1", "-s"],
        &["--silent", "save"],
        &["flush", "-s"],
        &["reset", "api", "-s"],
    ] {
        assert_eq!(sandbox.transcript(args), "exit: 0\n", "{args:?}");
    }
    assert_eq!(sandbox.transcript(&["id", "api", "-s"]), "exit: 0\n--- stdout\n[ 0 ]\n");
    assert_snapshot!(sandbox.transcript(&["stop", "nothing", "-s"]), @"
    exit: 3
    --- stderr
    error: no app or worker `nothing`

    hint: there is `api`; `forkful list` shows them
    ");
    assert_eq!(sandbox.transcript(&["kill", "-s"]), "exit: 0\n");
}

#[test]
fn the_table_after_an_action_is_as_it_was_asked_for() {
    let sandbox = sandbox();
    sandbox.run(&["start", "app.js", "--name", "b"]);
    let told = sandbox.transcript(&["start", "app.js", "--name", "a", "--mini-list", "--sort", "name"]);
    assert!(!told.contains('│') && told.find("\n 1  a ") < told.find("\n 0  b "), "{told}");
    let told = sandbox.transcript(&["stop", "all", "-m", "--sort=name:desc", "--no-color"]);
    assert!(!told.contains('│') && told.find("\n 0  b ") < told.find("\n 1  a "), "{told}");
    assert_snapshot!(sandbox.transcript(&["scale", "a", "2", "--sort", "size"]), @"
    exit: 2
    --- stderr
    error: invalid value 'size' for '--sort <FIELD[:desc]>': expected one of id, name, namespace, pid, cpu, memory, uptime, status, restarts

    hint: the command's `--help` describes its options
    ");
}

#[test]
fn the_output_is_followed_after_a_start_and_a_restart() {
    let sandbox = sandbox();
    let follow = |args: &[&str]| {
        let mut follower = Guarded::spawn(sandbox.command(args).stdout(Stdio::piped()));
        let mut until = |text: &str| while !follower.next_line().contains(text) {};
        until("up");
        sandbox.run(&["send", "api", "hello"]);
        until("got hello");
    };
    follow(&["start", "app.js", "--name", "api", "--attach"]);
    follow(&["restart", "api", "--attach", "-s"]);
    assert_snapshot!(sandbox.transcript(&["reload", "api", "--attach", "--json"]), @"
    exit: 2
    --- stderr
    error: the argument '--attach' cannot be used with '--json'

    hint: the usage is `forkful reload --attach <APP|CONFIG>... [-- <ARGS>...]`; `--help` shows more
    ");
    assert_snapshot!(settled(&sandbox.transcript(&["restart", "nothing", "--attach"])), @"
    exit: 3
    --- stderr
    error: no app or worker `nothing`

    hint: there is `api`; `forkful list` shows them
    ");
}

#[test]
fn without_a_daemon_it_runs_in_the_foreground() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "console.log('up'); process.exitCode = 7;");
    let told = sandbox.transcript(&["start", "app.js", "--no-daemon", "--no-autorestart"]);
    assert!(told.starts_with("exit: 7\n--- stdout\nup\n"), "{told}");
    let began = Instant::now();
    let told = sandbox.transcript(&["run", "app.js", "--no-autorestart", "--delay", "0.3"]);
    assert!(told.starts_with("exit: 7\n--- stdout\nup\n"), "{told}");
    assert!(began.elapsed().as_millis() >= 300);
    assert_eq!(sandbox.run(&["ping"]).status.code(), Some(4));
    assert_snapshot!(sandbox.transcript(&["run", "app.js", "--delay", "soon"]), @"
    exit: 2
    --- stderr
    error: invalid value 'soon' for '--delay <SECONDS>': expected a number of seconds

    hint: the command's `--help` describes its options
    ");
}

#[test]
fn only_files_with_these_extensions_are_watched() {
    let sandbox = sandbox();
    sandbox.run(&[
        "start",
        "app.js",
        "--name",
        "api",
        "--watch",
        "--ext",
        "js,.json",
        "--ignore-watch",
        "tmp",
    ]);
    let list: Value = serde_json::from_str(&stdout(&sandbox.run(&["list", "--json"]))).unwrap();
    let globs = ["*", "!*/", "!*.js", "!*.json", "tmp"].map(|glob| json!({ "glob": glob }));
    assert_eq!(list["apps"][0]["definition"]["watch"]["ignore"], json!(globs));
    assert_snapshot!(sandbox.transcript(&["start", "app.js", "--name", "x", "--watch", "--ext", "*.js"]), @r#"
    exit: 2
    --- stderr
    error: invalid extension --ext "*.js"

    hint: write it as --ext js,json
    "#);
}
