//! `forkful run`: output, exit codes and signals pass through.

use std::process::Stdio;

use insta::assert_snapshot;

use crate::sandbox::{Guarded, Sandbox};

#[test]
fn the_app_s_exit_code_is_ours() {
    let sandbox = Sandbox::new();
    sandbox.write("once.js", "console.log('done', ...process.argv.slice(2)); process.exitCode = 7;");
    let output = sandbox.run(&["run", "once.js", "--no-autorestart", "--", "a", "--b"]);
    assert_eq!(output.status.code(), Some(7), "{}", sandbox.told(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done a --b\n");
}

#[test]
fn a_missing_script_is_wrong_use() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.transcript(&["run", "missing.js"]), @r#"
    exit: 2
    --- stderr
    error: script "missing.js" does not exist in [sandbox]/work

    hint: a script is a file, a program in PATH, or a quoted command line
    "#);
}

#[test]
fn sigterm_stops_the_app_and_then_us() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "app.js",
        "setInterval(() => {}, 1000);
         process.on('SIGTERM', () => { console.log('leaving'); process.exit(0); });
         console.log('here');",
    );
    let mut run =
        Guarded::spawn(sandbox.command(&["run", "app.js"]).stdout(Stdio::piped()).stderr(Stdio::null()));
    assert_eq!(run.next_line(), "here\n");
    let pid = rustix::process::Pid::from_child(&run.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(run.next_line(), "leaving\n");
    assert_eq!(run.child.wait().unwrap().code(), Some(0));
}

#[test]
fn without_a_usable_home_a_temporary_one_is_made_and_removed() {
    let sandbox = Sandbox::new();
    sandbox.write("once.js", "process.exit(0);");
    let temporary = sandbox.work().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let output = sandbox
        .command(&["run", "once.js", "--no-autorestart"])
        .env("FORKFUL_HOME", "/proc/forkful")
        .env("TMPDIR", &temporary)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", sandbox.told(&output));
    assert_eq!(fs_err::read_dir(&temporary).unwrap().count(), 0);
}
