//! `forkful run`: passes on output, exit codes and signals.

use std::process::Stdio;

use insta::assert_snapshot;

use crate::sandbox::{Guarded, Sandbox};
use crate::settled::wait_until;

#[test]
fn the_app_s_exit_code_is_ours() {
    let sandbox = Sandbox::new();
    sandbox.write("once.js", "console.log('done', ...process.argv.slice(2)); process.exitCode = 7;");
    let output = sandbox.run(&["run", "once.js", "--no-autorestart", "--", "a", "--b"]);
    assert_eq!(output.status.code(), Some(7), "{}", sandbox.told(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done a --b\n");
}

#[test]
fn lines_are_what_the_apps_wrote_unless_a_prefix_or_json_is_wanted() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "once.js",
        r#"console.log('{"level":30}'); console.error(`"oh", ${process.env.NODE_APP_INSTANCE}`); process.exit();"#,
    );
    let run = |options: &[&str]| {
        let args = [&["run", "once.js", "-i", "2", "--no-autorestart"], options].concat();
        let output = sandbox.run(&args);
        assert_eq!(output.status.code(), Some(0), "{}", sandbox.told(&output));
        let lines = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let mut lines: Vec<String> = text
                .lines()
                .filter(|line| line.contains("level") || line.contains("oh"))
                .map(str::to_owned)
                .collect();
            lines.sort();
            lines
        };
        (lines(&output.stdout), lines(&output.stderr))
    };
    // Neither of them is a terminal.
    let plain = run(&[]);
    assert_eq!(plain.0, [r#"{"level":30}"#, r#"{"level":30}"#]);
    assert_eq!(plain.1, ["\"oh\", 0", "\"oh\", 1"]);
    assert_eq!(run(&["--no-log-prefix"]), plain);
    let prefixed = run(&["--log-prefix"]);
    assert_eq!(prefixed.0, [r#"0|once | {"level":30}"#, r#"1|once | {"level":30}"#]);
    assert_eq!(prefixed.1, ["0|once | \"oh\", 0", "1|once | \"oh\", 1"]);
    let json = run(&["--log-type", "json", "--log-prefix"]);
    for (lines, stream, message) in [(&json.0, "out", r#"{"level":30}"#), (&json.1, "err", "\"oh\", ")] {
        assert_eq!(lines.len(), 2, "{lines:?}");
        for line in lines {
            let object: serde_json::Value = serde_json::from_str(line).expect("a line is an object");
            assert!(object["message"].as_str().unwrap().starts_with(message), "{line}");
            assert_eq!((&object["type"], &object["app_name"]), (&stream.into(), &"once".into()));
            assert!(object["process_id"].is_u64() && object["timestamp"].is_string(), "{line}");
        }
    }
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
fn the_usual_command_of_pm2_runtime_runs_and_its_options_name_ours() {
    let sandbox = Sandbox::new();
    sandbox.write("once.js", "console.log('ran');");
    sandbox.write("apps.json", r#"[{ "script": "once.js", "autorestart": false }]"#);
    let output = sandbox.run(&["run", "start", "apps.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", sandbox.told(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ran\n");
    for (option, instead) in
        [("--raw", "--no-log-prefix"), ("--json", "--log-type json"), ("--format", "--log-type json")]
    {
        let told = sandbox.transcript(&["run", "once.js", option]);
        assert!(told.starts_with("exit: 2\n") && told.contains(instead), "{told}");
    }
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

#[test]
fn when_it_is_killed_nothing_of_its_app_stays() {
    let sandbox = Sandbox::new();
    // A process in its own session, one that ignores the first signal, and a worker with a channel.
    sandbox.write("shell.sh", "setsid sleep 1000 &\necho $! $$\ntrap '' TERM\nwhile :; do sleep 1; done\n");
    sandbox.write("app.js", "console.log(process.pid); setInterval(() => {}, 1000);");
    let mut run = Guarded::spawn(
        sandbox
            .command(&["run", "shell.sh", "app.js", "--log-prefix"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null()),
    );
    let lines = run.next_line() + &run.next_line();
    // Each line follows its worker: `0|shell | 4711`.
    let said = lines.lines().filter_map(|line| line.split_once(" | ")).flat_map(|(_, pids)| pids.split(' '));
    let pids: Vec<u32> = said.filter_map(|word| word.trim().parse().ok()).collect();
    assert_eq!(pids.len(), 3, "{lines}");
    let guards = children_called(run.child.id(), "guard");
    assert_eq!(guards.len(), 1);
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    let left = || pids.iter().chain(&guards).filter(|pid| is_alive(**pid)).count();
    wait_until(|| left() == 0);
}

#[test]
fn the_guard_ends_with_what_it_guards_and_refuses_to_be_called() {
    let sandbox = Sandbox::new();
    sandbox.write("app.js", "console.log('here'); setInterval(() => {}, 1000);");
    let mut run =
        Guarded::spawn(sandbox.command(&["run", "app.js"]).stdout(Stdio::piped()).stderr(Stdio::null()));
    assert_eq!(run.next_line(), "here\n");
    let guards = children_called(run.child.id(), "guard");
    let pid = rustix::process::Pid::from_child(&run.child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(run.child.wait().unwrap().code(), Some(130));
    assert!(!is_alive(guards[0]), "it is waited for");
    let told = sandbox.transcript(&["guard", "everything"]);
    assert_eq!(told, "exit: 2\n--- stderr\nerror: \"everything\" marks no processes\n");
}

/// The children of a process whose command line contains a word.
fn children_called(pid: u32, word: &str) -> Vec<u32> {
    let children = fs_err::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let is_called = |pid: &u32| {
        let line = fs_err::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    };
    children.split_whitespace().map(|pid| pid.parse().unwrap()).filter(is_called).collect()
}

/// Whether a process runs; a zombie does not.
fn is_alive(pid: u32) -> bool {
    let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}
