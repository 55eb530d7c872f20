//! The commands with a real daemon and real Node processes.

use std::io::Read as _;
use std::process::Stdio;

use crate::metrics::without_metrics;
use crate::sandbox::{Guarded, Sandbox, done, stdout};
use crate::settled::{settled, wait_until};
use insta::assert_snapshot;
use serde_json::Value;

/// An app that listens on a port chosen by the system, and prints it.
const SERVER: &str = "
const server = require('node:http').createServer((request, response) => response.end('hello'));
server.listen(0, '127.0.0.1', () => console.log('listening'));
";

/// An app that does not listen; it writes to stderr when it exits.
const TICKER: &str = "
setInterval(() => {}, 1000);
process.on('SIGUSR2', () => console.error('got SIGUSR2'));
console.log('ticking');
";

macro_rules! assert_told {
    ($text:expr, @$expected:literal) => {
        assert_snapshot!(settled(&$text), @$expected)
    };
}

fn jlist(sandbox: &Sandbox) -> Vec<Value> {
    serde_json::from_str(&stdout(&sandbox.run(&["jlist"]))).unwrap()
}

fn pids(sandbox: &Sandbox) -> Vec<u64> {
    jlist(sandbox).iter().map(|worker| worker["pid"].as_u64().unwrap()).collect()
}

#[test]
fn an_app_on_two_workers_from_start_to_kill() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    let start = sandbox.transcript(&["start", "server.js", "-i", "2", "--name", "api", "--", "a b", "--x"]);
    assert_told!(start, @"
    exit: 0
    --- stdout
    api started (2 workers)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api | cluster | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    | 1 | api | cluster | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    ");
    let list = jlist(&sandbox);
    assert_eq!(list.len(), 2);
    let node = std::process::Command::new("node").arg("--version").output().unwrap();
    let node = stdout(&node);
    for (slot, worker) in list.iter().enumerate() {
        let env = &worker["pm2_env"];
        assert_eq!(worker["pm_id"], slot);
        assert_eq!(worker["name"], "api");
        assert!(worker["pid"].as_u64().unwrap() > 1);
        assert!(worker["monit"]["memory"].as_u64().unwrap() > 1_000_000);
        assert!(worker["monit"]["cpu"].is_number());
        assert_eq!(env["status"], "online");
        assert_eq!(env["exec_mode"], "cluster_mode");
        assert_eq!(env["instances"], 2);
        assert_eq!(env["NODE_APP_INSTANCE"], slot);
        assert_eq!(env["restart_time"], 0);
        assert!(node.ends_with(&format!("v{}\n", env["node_version"].as_str().unwrap())), "{node}");
        assert_eq!(env["args"], serde_json::json!(["a b", "--x"]));
        assert_eq!(env["pm_exec_path"], sandbox.work().join("server.js").to_str().unwrap());
        assert_eq!(env["pm_cwd"], sandbox.work().to_str().unwrap());
        assert!(
            env["pm_out_log_path"].as_str().unwrap().ends_with(&format!("/home/logs/api-out-{slot}.log"))
        );
        assert!(
            env["pm_err_log_path"].as_str().unwrap().ends_with(&format!("/home/logs/api-error-{slot}.log"))
        );
        assert!(env["env"].is_object());
    }
    assert_told!(sandbox.transcript(&["start", "server.js", "--name", "api"]), @"
    exit: 1
    --- stderr
    error: api: already running, with 2 workers

    hint: `forkful reload api` loads new code without losing a request; `--force` starts another copy
    ");
    assert_told!(sandbox.transcript(&["start", "api"]), @"
    exit: 0
    --- stdout
    api restarted (2 workers)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api | cluster | [pid] | [uptime] | 1 | online | [cpu] | [mem] |
    | 1 | api | cluster | [pid] | [uptime] | 1 | online | [cpu] | [mem] |
    ");
    let before = pids(&sandbox);
    assert_told!(done(&sandbox, &["reload", "api"]), @"
    api reloaded (2 workers)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api | cluster | [pid] | [uptime] | 2 | online | [cpu] | [mem] |
    | 1 | api | cluster | [pid] | [uptime] | 2 | online | [cpu] | [mem] |
    ");
    let after = pids(&sandbox);
    assert!(before.iter().all(|pid| !after.contains(pid)), "{before:?} {after:?}");
    assert!(done(&sandbox, &["scale", "api", "+1"]).starts_with("api scaled from 2 to 3 workers\n"));
    assert_eq!(jlist(&sandbox).len(), 3);
    assert_snapshot!(sandbox.transcript(&["scale", "api", "-3"]), @"
    exit: 2
    --- stderr
    error: an app has 1 to 1024 workers, but this would make 0

    hint: `forkful stop` stops all workers of an app
    ");
    assert_eq!(sandbox.transcript(&["scale", "api", "0"]), sandbox.transcript(&["scale", "api", "-3"]));
    assert!(done(&sandbox, &["scale", "api", "3"]).starts_with("api has 3 workers already\n"));
    let all_at_once: Vec<_> =
        (0..3).map(|_| sandbox.command(&["scale", "api", "+1", "--no-wait"]).spawn().unwrap()).collect();
    assert!(all_at_once.into_iter().all(|mut child| child.wait().unwrap().success()));
    assert_eq!(jlist(&sandbox).len(), 6);
    done(&sandbox, &["scale", "api", "-5"]);
    assert_eq!(jlist(&sandbox).len(), 1);
    assert_told!(done(&sandbox, &["stop", "api"]), @"
    api stopped (1 worker)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api | cluster | - | - | 2 | stopped | - | - |
    ");
    assert_told!(done(&sandbox, &["start", "api"]), @"
    api started (1 worker)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api | cluster | [pid] | [uptime] | 2 | online | [cpu] | [mem] |
    ");
    assert_told!(sandbox.transcript(&["restart", "api", "nobody"]), @"
    exit: 3
    --- stderr
    error: no app or worker `nobody`

    hint: there is `api`; `forkful list` shows them
    ");
    assert_told!(done(&sandbox, &["delete", "0"]), @"
    api deleted (1 worker)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    ");
    assert_told!(sandbox.transcript(&["kill"]), @"
    exit: 0
    --- stdout
    the daemon has stopped
    ");
    assert_eq!(sandbox.run(&["ping"]).status.code(), Some(4));
}

#[test]
fn an_app_that_fails_is_explained_with_its_last_words() {
    let sandbox = Sandbox::new();
    sandbox.write("crash.js", "console.error('no database'); process.exit(7);");
    let args = ["start", "crash.js", "--no-autorestart", "--min-uptime", "60s"];
    assert_told!(sandbox.transcript(&args), @"
    exit: 1
    --- stderr
    error: crash: worker 0 ended with exit code 7 before it was ready: no database
    last lines of stderr:
        no database

    hint: `forkful logs 0 --err` shows all of the worker's stderr
    ");
    assert_told!(done(&sandbox, &["list"]), @"
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | crash | fork | - | - | 0 | stopped | - | - |
    ");
    let described = done(&sandbox, &["describe", "crash"]);
    assert!(described.contains("last exit        exit code 7"), "{described}");
    assert!(described.contains("    no database\n"), "{described}");
}

#[test]
fn a_start_that_fails_says_whether_there_is_another_and_a_worker_that_was_given_up_what_to_do() {
    let sandbox = Sandbox::new();
    sandbox.write("crash.js", "console.error('no database'); process.exit(7);");
    let told = sandbox.transcript(&[
        "start",
        "crash.js",
        "--max-restarts",
        "2",
        "--min-uptime",
        "60s",
        "--restart-delay",
        "20s",
    ]);
    let hint = "Forkful starts it again, and gives up after 2 exits within `min_uptime`; `forkful logs 0 --err` shows all of the worker's stderr";
    assert!(told.contains(hint), "{told}");
    assert!(!done(&sandbox, &["describe", "crash"]).contains("what to do"));
    let told = sandbox.transcript(&["restart", "crash", "--max-restarts", "1"]);
    assert!(!told.contains("starts it again"), "{told}");
    let described = done(&sandbox, &["describe", "crash"]);
    let next = "what to do       mend the cause, then `forkful restart crash`\n";
    assert!(described.contains(next), "{described}");
}

#[test]
fn a_reload_to_a_broken_version_keeps_the_old_one() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    done(&sandbox, &["start", "server.js", "-i", "2"]);
    let before = pids(&sandbox);
    sandbox.write("server.js", "throw new Error('broken on purpose');");
    let told = sandbox.transcript(&["reload", "server"]);
    assert!(told.starts_with("exit: 1\n"), "{told}");
    assert!(told.contains("error: server: "), "{told}");
    assert!(told.contains("last lines of stderr:\n"), "{told}");
    assert!(told.contains("    Error: broken on purpose\n"), "{told}");
    assert_eq!(pids(&sandbox), before);
}

#[test]
fn a_taken_port_is_named_with_its_owner() {
    let sandbox = Sandbox::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    sandbox.write("server.js", &SERVER.replace("listen(0", &format!("listen({port}")));
    let told =
        sandbox.transcript(&["start", "server.js", "-i", "2", "--no-autorestart", "--listen-timeout", "60s"]);
    assert!(told.starts_with("exit: 1\n"), "{told}");
    let owner = format!("127.0.0.1:{port}: it is taken by pid {}", std::process::id());
    assert!(told.contains(&owner), "{told}");
}

#[test]
fn describe_shows_what_was_asked_for_and_what_is() {
    let sandbox = Sandbox::new();
    sandbox.write("ticker.js", TICKER);
    let env =
        ["--env", "SECRET=hunter2", "--kill-timeout", "1600", "--max-restarts", "3", "--restart-delay", "2s"];
    done(&sandbox, &[&["start", "ticker.js", "--time", "--stop-exit-codes", "0,3"][..], &env].concat());
    let text = without_metrics(&done(&sandbox, &["show", "ticker"]))
        .replace(&sandbox.home().display().to_string(), "[home]")
        .replace(&sandbox.work().display().to_string(), "[work]");
    assert!(!text.contains("hunter2"), "{text}");
    assert_told!(text, @r"
    ticker (1 worker)
      mode             fork
      program          [node] [work]/ticker.js
      working dir      [work]
      created          [time] UTC
      restart          after each exit, pause 2s, not after exit code 0, 3
      gives up         after 3 exits in 10 min, each after less than 1 s
      ready            when it runs
      stop             SIGINT, killed after 1600ms, 30s to drain at a reload
      environment      SECRET (command line); 3 inherited (--show-env)

      settings
      script                     [work]/ticker.js  command line
      kill_timeout               1600ms                          command line
      max_restarts               3                               command line
      restart_delay              2s                              command line
      stop_exit_codes            0, 3                            command line
      time                       true                            command line

      defaults
      process          low_ports=false agent=true stall_threshold=50ms metrics=own
                       namespace=default instance_var=NODE_APP_INSTANCE
                       not set: args node_args uid otlp increment_var pid_file
      workers          instances=1 exec_mode=fork balance=auto slow_start=0s
      starting         autostart=true wait_ready=false compile_cache=true
                       not set: listen_timeout warmup depends_on
      stopping         kill_signal=SIGINT drain_timeout=30s
                       shutdown_with_message=false treekill=true
      restarting       autorestart=true min_uptime=1s
                       not set: exp_backoff_restart_delay max_restart_delay alerts
      reloading        memory=off
                       not set: watch cron_restart max_memory_restart memory_max
                       cpu_max max_requests max_age health
      logs             merge_logs=true log_type=raw log_ansi=keep log_rotate=true
                       disable_logs=false
                       not set: out_file error_file log_file log_date_format

      worker 0 (slot 0)
      status           online
      pid              [pid]
      uptime           [uptime], since [time] UTC
      cpu              [cpu]
      memory           [mem]
      restarts         0
      stdout file      [home]/logs/ticker-out.log
      stderr file      [home]/logs/ticker-error.log
    ");
    let json: Value = serde_json::from_str(&done(&sandbox, &["describe", "0", "--json"])).unwrap();
    assert_eq!(json["apps"][0]["definition"]["env"], serde_json::json!({}));
    assert!(json["apps"][0]["env_names"].as_array().unwrap().contains(&"SECRET".into()));
}

#[test]
fn logs_of_the_past_in_each_style() {
    let sandbox = Sandbox::new();
    sandbox.write("ticker.js", TICKER);
    done(&sandbox, &["start", "ticker.js"]);
    wait_until(|| done(&sandbox, &["logs", "ticker", "--nostream", "--out"]).contains("ticking"));
    done(&sandbox, &["signal", "usr2", "ticker"]);
    let mut follower = follow(&sandbox, &["logs", "--err", "--raw"]);
    assert_eq!(follower.next_line(), "got SIGUSR2\n");
    drop(follower);
    let past = |args: &[&str]| done(&sandbox, &[&["logs", "ticker", "--nostream"][..], args].concat());
    assert_eq!(past(&["--out"]), "0|ticker | ticking\n");
    assert_eq!(past(&["--err", "--raw"]), "got SIGUSR2\n");
    let line: Value = serde_json::from_str(past(&["--out", "--json"]).trim_end()).unwrap();
    assert_eq!(
        (&line["app_name"], &line["type"], &line["message"]),
        (&"ticker".into(), &"out".into(), &"ticking".into())
    );
    let formatted = past(&["--out", "--format"]);
    assert!(
        formatted.starts_with("timestamp=")
            && formatted.ends_with(" app=ticker id=0 type=out message=ticking\n"),
        "{formatted}"
    );
    assert_eq!(past(&["--out", "--timestamp", "[at]", "--highlight", "tick"]), "at 0|ticker | ticking\n");
    assert_eq!(past(&["--lines", "0"]), "");
    assert_eq!(done(&sandbox, &["logs", "/^tick/", "--nostream", "--out"]), "0|ticker | ticking\n");
    let none = sandbox.transcript(&["logs", "/^tock/", "--nostream"]);
    assert!(!none.starts_with("exit: 0") && none.contains("/^tock/"), "{none}");
    let wrong = sandbox.transcript(&["logs", "/(/", "--nostream"]);
    assert!(!wrong.starts_with("exit: 0") && wrong.contains("invalid regular expression /(/"), "{wrong}");
    assert!(done(&sandbox, &["reloadLogs"]).starts_with("ticker logs reopened\n"));
    assert_told!(done(&sandbox, &["flush", "ticker"]), @"
    ticker logs emptied
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | ticker | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    ");
    assert_eq!(past(&[]), "");
    let told = sandbox.transcript(&["logs", "ticker", "--nostream"]);
    assert_eq!(told, "exit: 0\n--- stderr\nnote: there are no lines to show\n");
}

#[test]
fn a_follower_gets_the_last_lines_and_new_ones() {
    let sandbox = Sandbox::new();
    sandbox.write("ticker.js", TICKER);
    done(&sandbox, &["start", "ticker.js"]);
    let mut follower = follow(&sandbox, &["logs", "ticker"]);
    assert_eq!(follower.next_line(), "0|ticker | ticking\n");
    done(&sandbox, &["signal", "12", "0"]);
    assert_eq!(follower.next_line(), "0|ticker | got SIGUSR2\n");
    drop(follower);
}

fn follow(sandbox: &Sandbox, args: &[&str]) -> Guarded {
    Guarded::spawn(sandbox.command(args).stdout(Stdio::piped()))
}

#[test]
fn a_config_file_starts_and_changes_several_apps() {
    let sandbox = Sandbox::new();
    sandbox.write("server.js", SERVER);
    sandbox.write("ticker.js", TICKER);
    let config = |instances: u16, more: &str| {
        format!(
            r#"{{ "apps": [
                {{ "name": "api", "script": "server.js", "instances": {instances}, "env_blue": {{ "COLOUR": "blue" }} }}{more}
            ] }}"#
        )
    };
    sandbox.write("forkful.config.json", &config(1, r#", { "name": "worker", "script": "ticker.js" }"#));
    assert_told!(done(&sandbox, &["start"]), @"
    api started (1 worker)
    worker started (1 worker)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api | cluster | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    | 1 | worker | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    ");
    assert_told!(sandbox.transcript(&["start", "--only", "worker"]), @"
    exit: 0
    --- stdout
    worker restarted (1 worker)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api | cluster | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    | 1 | worker | fork | [pid] | [uptime] | 1 | online | [cpu] | [mem] |
    ");
    sandbox.write("next.json", &config(2, r#", { "name": "late", "script": "ticker.js" }"#));
    assert_told!(done(&sandbox, &["reload", "next.json", "--env", "blue"]), @"
    api reloaded (2 workers)
    late started (1 worker)
    | id | name | mode | pid | uptime | ↺ | status | cpu | mem |
    | 0 | api | cluster | [pid] | [uptime] | 1 | online | [cpu] | [mem] |
    | 1 | worker | fork | [pid] | [uptime] | 1 | online | [cpu] | [mem] |
    | 2 | late | fork | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    | 3 | api | cluster | [pid] | [uptime] | 0 | online | [cpu] | [mem] |
    ");
    let named = |name: &str| jlist(&sandbox).iter().filter(|worker| worker["name"] == name).count();
    assert_eq!((named("api"), named("worker"), named("late")), (2, 1, 1));
    let described = done(&sandbox, &["describe", "api"]);
    assert!(described.contains("COLOUR"), "{described}");
    done(&sandbox, &["delete", "next.json"]);
    assert_eq!((named("api"), named("worker"), named("late")), (0, 1, 0));
}

#[test]
fn many_first_commands_at_once_share_one_daemon() {
    let sandbox = Sandbox::new();
    sandbox.write("ticker.js", TICKER);
    let starts: Vec<Guarded> = (0..6)
        .map(|number| {
            let name = format!("app{number}");
            let mut command = sandbox.command(&["start", "ticker.js", "--name", &name, "--no-wait"]);
            Guarded::spawn(command.stdout(Stdio::null()).stderr(Stdio::piped()))
        })
        .collect();
    for mut start in starts {
        let mut said = String::new();
        start.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(start.child.wait().unwrap().success(), "{said}");
        assert!(!said.contains("last daemon"), "{said}");
    }
    assert_eq!(jlist(&sandbox).len(), 6);
    let log = fs_err::read_to_string(sandbox.home().join("daemon.log")).unwrap();
    assert!(!log.contains("cannot"), "{log}");
}

#[test]
fn json_is_all_that_stdout_gets_when_asked_for() {
    let sandbox = Sandbox::new();
    sandbox.write("ticker.js", TICKER);
    for args in [
        &["start", "ticker.js", "--json"][..],
        &["list", "--json"],
        &["restart", "ticker", "--json"],
        &["scale", "ticker", "2", "--json"],
        &["signal", "0", "ticker", "--json"],
        &["flush", "ticker", "--json"],
        &["reset", "all", "--json"],
        &["ping", "--json"],
        &["stop", "ticker", "--json"],
        &["delete", "all", "--json"],
        &["kill", "--json"],
    ] {
        if args[0] == "signal" {
            // Signal 0 cannot be sent; the refusal must not write to stdout.
            let refused = sandbox.run(args);
            assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0), "{args:?}");
            continue;
        }
        let text = done(&sandbox, args);
        assert!(serde_json::from_str::<Value>(&text).is_ok(), "{args:?}: {text}");
    }
}
