//! Messages if no daemon is running, and for wrong usage. None of these commands starts a daemon.

use crate::sandbox::{Sandbox, exists, stdout};
use insta::assert_snapshot;

#[test]
fn a_list_without_a_daemon_is_empty_and_starts_none() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.transcript(&["list"]), @"
    exit: 0
    --- stdout
    ┌────┬──────┬──────┬─────┬────────┬───┬────────┬─────┬─────┐
    │ id ┆ name ┆ mode ┆ pid ┆ uptime ┆ ↺ ┆ status ┆ cpu ┆ mem │
    ╞════╪══════╪══════╪═════╪════════╪═══╪════════╪═════╪═════╡
    └────┴──────┴──────┴─────┴────────┴───┴────────┴─────┴─────┘
    ");
    assert_snapshot!(sandbox.transcript(&["ls", "--json"]), @r#"
    exit: 0
    --- stdout
    {
      "apps": []
    }
    "#);
    assert_snapshot!(sandbox.transcript(&["jlist"]), @"
    exit: 0
    --- stdout
    []
    ");
    assert!(!exists(&sandbox.home()));
}

#[test]
fn without_a_daemon_no_target_means_anything() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.transcript(&["stop", "api"]), @"
    exit: 3
    --- stderr
    error: no app or worker `api`

    hint: no app is running; `forkful start app.js` starts one
    ");
    assert_snapshot!(sandbox.transcript(&["delete", "all"]), @"
    exit: 3
    --- stderr
    error: there are no apps

    hint: no app is running; `forkful start app.js` starts one
    ");
    for args in [
        &["restart", "api"][..],
        &["reload", "api"],
        &["scale", "api", "+1"],
        &["describe", "api"],
        &["logs", "api"],
        &["flush", "api"],
        &["sendSignal", "HUP", "api"],
        &["reset", "api"],
    ] {
        assert_eq!(sandbox.transcript(args), sandbox.transcript(&["stop", "api"]), "{args:?}");
    }
    assert!(!exists(&sandbox.home()));
}

#[test]
fn ping_tells_that_there_is_no_daemon() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.transcript(&["ping"]), @"
    exit: 4
    --- stderr
    error: no daemon is running at [sandbox]/home/forkful.sock

    hint: `forkful start` starts a daemon with an app
    ");
}

#[test]
fn kill_without_a_daemon_is_done_already() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.transcript(&["kill"]), @"
    exit: 0
    --- stdout
    no daemon is running
    ");
    assert!(!exists(&sandbox.home()));
}

#[test]
fn scripts_that_cannot_be_started_are_explained() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", "");
    sandbox.write("notes.txt", "");
    std::fs::create_dir(sandbox.work().join("src")).unwrap();
    assert_snapshot!(sandbox.transcript(&["start", "sever.js"]), @r#"
    exit: 2
    --- stderr
    error: script "sever.js" does not exist in [sandbox]/work

    hint: did you mean server.js?
    "#);
    assert_snapshot!(sandbox.transcript(&["start", "src"]), @r#"
    exit: 2
    --- stderr
    error: script "src" is a directory

    hint: name the file to start
    "#);
    assert_snapshot!(sandbox.transcript(&["start", "notes.txt"]), @r#"
    exit: 2
    --- stderr
    error: script "notes.txt" has an extension that no interpreter is known for

    hint: name one with `--interpreter`, or make the file executable and begin it with `#!`
    "#);
    for fifo in ["fifo", "fifo.js", "fifo.json"] {
        let made = std::process::Command::new("mkfifo").arg(sandbox.work().join(fifo)).status().unwrap();
        assert!(made.success());
    }
    assert_snapshot!(sandbox.transcript(&["start", "./fifo"]), @r#"
    exit: 2
    --- stderr
    error: script "./fifo" is a FIFO, not a regular file

    hint: name the file that holds the script or the program
    "#);
    assert_snapshot!(sandbox.transcript(&["start", "fifo.js"]), @r#"
    exit: 2
    --- stderr
    error: script "fifo.js" is a FIFO, not a regular file

    hint: name the file that holds the script or the program
    "#);
    assert_snapshot!(sandbox.transcript(&["start", "fifo.json"]), @"
    exit: 2
    --- stderr
    error: cannot read fifo.json
    caused by: is a FIFO, not a regular file
    ");
    assert_snapshot!(sandbox.transcript(&["start"]), @"
    exit: 2
    --- stderr
    error: [sandbox]/work contains no config file

    hint: name a script, as in `forkful start app.js`, or write a config file with `forkful init`
    ");
    assert_snapshot!(sandbox.transcript(&["start", "server.js", "server.js"]), @"
    exit: 2
    --- stderr
    error: two apps would have the name `server`

    hint: start them one by one, each with its own `--name`
    ");
    assert!(!exists(&sandbox.home()));
}

#[test]
fn options_that_make_no_sense_are_explained() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "");
    assert_snapshot!(sandbox.transcript(&["start", "app.js", "-i", "0.5"]), @r#"
    exit: 2
    --- stderr
    error: --instances is "0.5"; expected a number, "max" or a negative number
    "#);
    assert_snapshot!(sandbox.transcript(&["start", "app.js", "-i", "2000"]), @r#"
    exit: 2
    --- stderr
    error: --instances is "2000"; expected at most 1024
    "#);
    assert_snapshot!(sandbox.transcript(&["start", "app.js", "--kill-timeout", "soon"]), @"
    exit: 2
    --- stderr
    error: invalid value 'soon' for '--kill-timeout <DURATION>': expected milliseconds, or a string such as 500ms, 10s, 2m or 1h

    hint: the command's `--help` describes its options
    ");
    assert_snapshot!(sandbox.transcript(&["start", "app.js", "--kill-signal", "SIGFOO"]), @"
    exit: 2
    --- stderr
    error: invalid value 'SIGFOO' for '--kill-signal <SIGNAL>': expected a signal name or number such as SIGTERM or 15

    hint: the command's `--help` describes its options
    ");
    assert_snapshot!(sandbox.transcript(&["start", "app.js", "--name", "all"]), @r#"
    exit: 2
    --- stderr
    error: --name cannot be "all": `all` means every app and cannot be a name
    "#);
    assert_snapshot!(sandbox.transcript(&["start", "app.js", "--env", "=x"]), @r#"
    exit: 2
    --- stderr
    error: --env "=x" has no name before the `=`

    hint: write it as --env KEY=VALUE
    "#);
    assert_snapshot!(sandbox.transcript(&["start", "app.js", "--node-args", "'open"]), @r#"
    exit: 2
    --- stderr
    error: --node-args "'open" has a quote that is not closed
    "#);
    assert_snapshot!(sandbox.transcript(&["start", "app.js", "--cwd", "nowhere"]), @r#"
    exit: 2
    --- stderr
    error: --cwd "[sandbox]/work/nowhere" does not exist
    "#);
    let mut missing = sandbox.command(&["start", "app.js", "--interpreter", "no-such-program"]);
    assert_snapshot!(sandbox.told(&missing.env("PATH", "/bin").output().unwrap()), @r#"
    exit: 2
    --- stderr
    error: --interpreter "no-such-program" is not in the app's PATH (/bin)

    hint: install it, give its full path as the interpreter, or set PATH in the app's `env`
    "#);
    assert_snapshot!(sandbox.transcript(&["signal", "SIGFOO", "api"]), @"
    exit: 2
    --- stderr
    error: unknown signal `SIGFOO`

    hint: write it as SIGUSR2, USR2 or 12; `kill -l` lists them
    ");
    assert_snapshot!(sandbox.transcript(&["scale", "api", "many"]), @"
    exit: 2
    --- stderr
    error: invalid worker count `many`

    hint: write a number from 1, `max`, or a change as +2 or -1
    ");
    assert_snapshot!(sandbox.transcript(&["strat"]), @"
    exit: 2
    --- stderr
    error: unknown command 'strat'

    hint: did you mean `start`?
    ");
    assert_snapshot!(sandbox.transcript(&["list", "--wide"]), @"
    exit: 2
    --- stderr
    error: unexpected argument '--wide' found

    hint: the usage is `forkful list [OPTIONS]`; `--help` shows more
    ");
    assert!(!exists(&sandbox.home()));
}

#[test]
fn broken_configs_name_file_key_value_and_what_was_expected() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "");
    sandbox.write("forkful.config.json", r#"{ "apps": [{ "script": "app.js", "instances": "many" }] }"#);
    assert_snapshot!(sandbox.transcript(&["start"]), @r#"
    exit: 2
    --- stderr
    error: forkful.config.json:1:47: apps[0].instances is "many"; expected a number, "max" or a negative number
    "#);
    sandbox.write("broken.config.js", "module.exports = { apps: [");
    assert_snapshot!(sandbox.transcript(&["start", "broken.config.js"]), @"
    exit: 2
    --- stderr
    error: broken.config.js:1: SyntaxError: Unexpected end of input
    ");
    assert_snapshot!(sandbox.transcript(&["start", "missing.config.js"]), @"
    exit: 2
    --- stderr
    error: cannot read missing.config.js
    caused by: No such file or directory (os error 2)

    hint: name a script or a configuration file; `forkful.config.js` is the usual one
    ");
    sandbox.write("two.json", r#"{ "apps": [{ "name": "a", "script": "app.js" }] }"#);
    assert_snapshot!(sandbox.transcript(&["start", "two.json", "--only", "b"]), @"
    exit: 2
    --- stderr
    error: two.json has no app `b`

    hint: there is a
    ");
    assert_snapshot!(sandbox.transcript(&["reload", "a", "--env", "production"]), @"
    exit: 3
    --- stderr
    error: no app or worker `a`

    hint: no app is running; `forkful start app.js` starts one
    ");
    assert!(!exists(&sandbox.home()));
}

#[test]
fn completion_scripts_ask_the_command() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&sandbox.run(&["completion", shell]));
        assert!(script.contains(" complete -- "), "{shell}");
    }
}

#[test]
fn every_verb_has_help_with_examples() {
    let sandbox = Sandbox::new();
    for verb in crate::docs::verbs(&sandbox) {
        let output = sandbox.run(&[&verb, "--help"]);
        assert_eq!(output.status.code(), Some(0), "{verb}");
        let text = stdout(&output);
        // Commands with subcommands list them there.
        let has_examples = text.contains("Examples:\n  forkful ") || text.contains("Examples:\n  npm ");
        assert!(has_examples || text.contains("Commands:\n"), "{verb}");
        let (_, after) = text.rsplit_once("Print help").unwrap();
        assert!(after.lines().all(|line| line.chars().count() <= 110), "{verb}: {after}");
    }
}

#[test]
fn output_into_a_closed_pipe_ends_quietly() {
    let sandbox = Sandbox::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = sandbox.command(&["list"]).stdout(writer).output().unwrap();
    assert_snapshot!(sandbox.told(&output), @"exit: 0");
}

#[test]
fn a_full_disk_behind_stdout_is_an_error() {
    let sandbox = Sandbox::new();
    let full = fs_err::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = sandbox.command(&["list"]).stdout(full.into_parts().0).output().unwrap();
    assert_snapshot!(sandbox.told(&output), @"
    exit: 1
    --- stderr
    error: cannot write to stdout
    caused by: No space left on device (os error 28)

    hint: free some space; `df -h` shows full disks
    ");
}
