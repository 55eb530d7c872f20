//! `send` and `attach`: lines for workers' stdin.

use std::io::Write as _;
use std::process::Stdio;

use crate::sandbox::{Guarded, Sandbox, done, stdout};
use crate::settled::wait_until;
use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Prints what it reads; long lines by their length.
const READER: &str = "
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  console.log(line.length > 100 ? `read ${line.length} characters` : `read ${line}`);
}).on('close', () => console.log('the input has ended'));
console.log('ready');
";

fn logs(sandbox: &Sandbox, app: &str) -> String {
    stdout(&sandbox.run(&["logs", app, "--nostream", "--raw"]))
}

fn statuses(sandbox: &Sandbox) -> Vec<String> {
    let list: Vec<Value> = serde_json::from_str(&stdout(&sandbox.run(&["jlist"]))).unwrap();
    list.iter().map(|worker| worker["pm2_env"]["status"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_line_arrives_at_the_stdin_of_workers_in_fork_mode() {
    let sandbox = Sandbox::new();
    sandbox.write("reader.js", READER);
    sandbox.write("server.js", "require('node:http').createServer().listen(0, '127.0.0.1')");
    sandbox.write(
        "apps.json",
        r#"[
  { "name": "reader", "script": "reader.js", "exec_mode": "fork", "instances": 2 },
  { "name": "cat", "script": "cat" },
  { "name": "web", "script": "server.js", "instances": 1 },
  { "name": "closed", "script": "exec <&-; exec sleep 1000" }
]"#,
    );
    done(&sandbox, &["start", "apps.json"]);
    wait_until(|| logs(&sandbox, "reader").matches("ready").count() == 2);
    assert_snapshot!(sandbox.transcript(&["send", "reader", "-v --all"]), @"
    exit: 0
    --- stdout
    sent to reader (worker 0)
    sent to reader (worker 1)
    ");
    let long = "x".repeat(100_000);
    done(&sandbox, &["send", "0", &long]);
    wait_until(|| logs(&sandbox, "reader").contains("read 100000 characters"));
    wait_until(|| logs(&sandbox, "reader").matches("read -v --all").count() == 2);
    assert_eq!(logs(&sandbox, "reader").matches("read 100000 characters").count(), 1);
    // A program that reads until the end of its input waits, as under PM2.
    done(&sandbox, &["send", "cat", "echoed"]);
    wait_until(|| logs(&sandbox, "cat") == "echoed\n");
    assert_eq!(statuses(&sandbox), ["online"; 5]);
    assert!(!logs(&sandbox, "reader").contains("has ended"));
    assert_snapshot!(sandbox.transcript(&["send", "web", "x"]), @r#"
    exit: 1
    --- stderr
    error: cannot send to web (worker 3): it runs in cluster mode, where workers have no stdin; `exec_mode: "fork"` gives it one
    "#);
    assert_snapshot!(sandbox.transcript(&["send", "closed", "x"]), @"
    exit: 1
    --- stderr
    error: cannot send to closed (worker 4): it has closed its stdin
    ");
    done(&sandbox, &["stop", "cat"]);
    assert_snapshot!(sandbox.transcript(&["send", "cat", "x", "--json"]), @r#"
    exit: 1
    --- stdout
    {
      "workers": [
        {
          "app": "cat",
          "pm_id": 2,
          "error": "it does not run"
        }
      ]
    }
    "#);
    assert_snapshot!(sandbox.transcript(&["send", "none", "x"]), @"
    exit: 3
    --- stderr
    error: no app or worker `none`

    hint: there is `reader`, `cat`, `web`, `closed`; `forkful list` shows them
    ");
    assert_snapshot!(sandbox.transcript(&["attach", "web"]), @r#"
    exit: 1
    --- stderr
    error: `web` runs in cluster mode, where workers have no stdin

    hint: `exec_mode: "fork"` gives an app one; `forkful logs` shows the output of all
    "#);
    assert_snapshot!(sandbox.transcript(&["attach", "reader"]), @"
    exit: 2
    --- stderr
    error: `reader` has 2 workers

    hint: name one by its id: 0, 1
    ");
    assert_snapshot!(sandbox.transcript(&["attach", "cat"]), @"
    exit: 1
    --- stderr
    error: worker 2 of `cat` is not running

    hint: `forkful start cat` starts it
    ");
    // A new process has a new stdin.
    done(&sandbox, &["restart", "cat"]);
    done(&sandbox, &["send", "cat", "again"]);
    wait_until(|| logs(&sandbox, "cat") == "echoed\nagain\n");
}

#[test]
fn attach_shows_what_a_worker_writes_and_lets_go_of_it() {
    let sandbox = Sandbox::new();
    sandbox.write("reader.js", READER);
    done(&sandbox, &["start", "reader.js"]);
    wait_until(|| logs(&sandbox, "reader").contains("ready"));
    let mut attached = attach(&sandbox, &["attach", "reader"]);
    for line in ["one", "two"] {
        writeln!(attached.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        assert_eq!(attached.next_line(), format!("read {line}\n"));
    }
    kill_process(Pid::from_raw(attached.child.id() as i32).unwrap(), Signal::INT).unwrap();
    assert_eq!(attached.child.wait().unwrap().code(), Some(0));
    // The answer to the last line of a pipe is shown before the command ends.
    // An answer that comes later is not waited for.
    wait_until(|| {
        let mut attached = attach(&sandbox, &["attach", "reader"]);
        writeln!(attached.child.stdin.as_mut().unwrap(), "three").unwrap();
        drop(attached.child.stdin.take());
        let line = attached.next_line();
        assert_eq!(attached.child.wait().unwrap().code(), Some(0));
        line == "read three\n"
    });
    // With a custom separator, and until the end of the typed input.
    let mut attached = attach(&sandbox, &["attach", "0", ";"]);
    writeln!(attached.child.stdin.as_mut().unwrap(), "a\nb").unwrap();
    drop(attached.child.stdin.take());
    assert_eq!(attached.child.wait().unwrap().code(), Some(0));
    done(&sandbox, &["send", "0", ""]);
    wait_until(|| logs(&sandbox, "reader").contains("read a;b;\n"));
    assert_eq!(statuses(&sandbox), ["online"]);
}

fn attach(sandbox: &Sandbox, args: &[&str]) -> Guarded {
    Guarded::spawn(sandbox.command(args).stdin(Stdio::piped()).stdout(Stdio::piped()))
}
