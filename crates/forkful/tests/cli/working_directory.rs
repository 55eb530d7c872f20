//! Commands in a directory that was removed, as after a deployment that replaces it.

use std::path::Path;
use std::process::Command;

use insta::assert_snapshot;

use crate::sandbox::{Sandbox, done, succeeded};

const TICKER: &str = "setInterval(() => {}, 1000)";

/// The transcript of a command whose working directory is removed before it starts.
fn transcript(sandbox: &Sandbox, home: &Path, args: &[&str]) -> String {
    let gone = sandbox.work().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", r#"rmdir ../gone && exec "$0" "$@""#, env!("CARGO_BIN_EXE_forkful")])
        .args(args)
        .current_dir(gone)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", sandbox.work())
        .env("FORKFUL_HOME", home);
    sandbox.told(&command.output().unwrap())
}

#[test]
fn names_ids_and_absolute_paths_need_no_working_directory() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", TICKER);
    let script = sandbox.work().join("server.js");
    let (script, work) = (script.display().to_string(), sandbox.work().display().to_string());
    done(&sandbox, &["start", "server.js", "--name", "api", "--no-wait"]);
    done(&sandbox, &["start", "server.js", "--name", "2nd/mail", "--force", "--no-wait"]);
    for args in [
        &["describe", "api"][..],
        &["restart", "0", "--no-wait"],
        &["restart", "api", "--no-wait", "--max-memory-restart", "300M"],
        &["reload", "2nd/mail", "--no-wait"],
        &["start", "api", "--no-wait"],
        &["stop", &script],
        &["reset", "/^api$/"],
        &["start", &script, "--cwd", &work, "--name", "other", "--force", "--no-wait"],
        &["delete", "all"],
    ] {
        let told = transcript(&sandbox, &sandbox.home(), args);
        assert!(told.starts_with("exit: 0\n"), "{args:?}: {told}");
    }
    done(&sandbox, &["start", "server.js", "--name", "api", "--no-wait"]);
    let told = transcript(&sandbox, &sandbox.home(), &["restart", "api", "--output", "out.log"]);
    assert!(told.contains("the working directory is gone, and `out.log` is relative to it"), "{told}");
}

#[test]
fn what_needs_the_working_directory_says_why() {
    let sandbox = Sandbox::new();
    let told = |args: &[&str]| transcript(&sandbox, &sandbox.home(), args);
    assert_snapshot!(told(&["start", "app.js"]), @"
    exit: 2
    --- stderr
    error: the working directory is gone, and `app.js` is relative to it

    hint: `cd` to a directory that exists
    ");
    let script = sandbox.work().join("server.js").display().to_string();
    for (args, error) in [
        (&["start"][..], "a config file is looked for in it"),
        (&["start", &script], "`[sandbox]/work/server.js` would run in it, because there is no `--cwd`"),
        (&["stop", "forkful.config.js"], "`forkful.config.js` is relative to it"),
        (&["stop", "./server.js"], "`./server.js` is relative to it"),
        (&["serve", "public"], "`public` is relative to it"),
        (&["validate", "apps.json"], "`apps.json` is relative to it"),
    ] {
        let told = told(args);
        let expected = format!("exit: 2\n--- stderr\nerror: the working directory is gone, and {error}\n");
        assert!(told.starts_with(&expected), "{args:?}: {told}");
    }
    let relative_home = transcript(&sandbox, Path::new("home"), &["list"]);
    assert!(relative_home.contains("gone, and FORKFUL_HOME is relative to it"), "{relative_home}");
    succeeded(&sandbox, &["list"]);
}
