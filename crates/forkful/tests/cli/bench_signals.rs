//! `forkful bench` and signals: what an interruption means for expectations, and signals that are ignored.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::http::{Server, WAIT};
use crate::sandbox::{Guarded, Sandbox};

/// Starts a command of `bench --json`, sends it a signal in the middle of the load, and returns its exit code
/// and its document.
fn signalled(command: &mut Command, server: &Server, signal: Signal) -> (Option<i32>, Value) {
    let before = server.answered();
    let mut run = Guarded::spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()));
    while server.answered() < before + 20 {
        assert_eq!(run.child.try_wait().unwrap(), None);
        std::thread::sleep(WAIT / 10);
    }
    kill_process(Pid::from_child(&run.child), signal).unwrap();
    let text: String = std::iter::from_fn(|| Some(run.next_line()).filter(|line| !line.is_empty())).collect();
    (run.child.wait().unwrap().code(), serde_json::from_str(&text).unwrap())
}

/// Whether these tests were started by `nohup`: the commands that they start ignore SIGHUP then, as they should.
fn ignores_hangups() -> bool {
    let status = fs_err::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 != 0
}

#[test]
fn an_interrupted_run_reports_what_it_has_and_keeps_no_expectation() {
    let (sandbox, server) = (Sandbox::new(), Server::start());
    let url = server.url("/");
    let args = ["bench", "--json", "-c", "2", "-d", "600s", "--expect", "errors<90%", &url];
    let signals = [Signal::INT, Signal::TERM, Signal::HUP].into_iter();
    for signal in signals.filter(|signal| *signal != Signal::HUP || !ignores_hangups()) {
        let (code, document) = signalled(&mut sandbox.command(&args), &server, signal);
        assert_eq!((code, &document["stopped_early"]), (Some(130), &true.into()), "{document}");
        assert!(document["requests"]["completed"].as_u64().unwrap() > 0, "{document}");
        let expectation = &document["thresholds"][0];
        assert!(expectation["kept"].is_null(), "{expectation}");
        assert!(expectation["found"].as_str().unwrap().contains("ended early"), "{expectation}");
    }
    let args = ["bench", "--json", "-c", "2", "-d", "600s", &url];
    let (code, document) = signalled(&mut sandbox.command(&args), &server, Signal::INT);
    let expected = if document["trustworthy"].as_bool().unwrap() { 0 } else { 6 };
    assert_eq!((code, &document["stopped_early"]), (Some(expected), &true.into()), "{}", document["trust"]);
}

#[test]
fn a_hangup_that_was_ignored_at_the_start_ends_nothing() {
    let (sandbox, server) = (Sandbox::new(), Server::start());
    let url = server.url("/");
    // `nohup` ignores SIGHUP. A shell ignores SIGINT for commands in the background of a script; it is not sent to them by accident.
    for (name, signal, ends) in [("HUP", Signal::HUP, false), ("INT", Signal::INT, true)] {
        let bench = sandbox.command(&["bench", "--json", "-c", "2", "-d", "2s", &url]);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("trap '' {name}; exec \"$0\" \"$@\"")).arg(bench.get_program());
        shell.args(bench.get_args()).current_dir(sandbox.work());
        shell.env_clear().envs(bench.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let (_, document) = signalled(&mut shell, &server, signal);
        assert_eq!(document["stopped_early"], ends, "SIG{name}: {document}");
    }
}
