//! Running a script on a host: by the system's `ssh`, or here when the host is this machine. What it
//! says is passed on line by line, with the host's name before it when there are several.

use std::io::{BufRead as _, BufReader, IsTerminal as _, Read};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use forkful_config::DeployTarget;

use crate::output::{self, format};

/// Hosts that are worked on at the same time; each is a process and two threads here.
pub(super) const HOSTS_AT_ONCE: usize = 16;

/// What became of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) host: String,
    /// `None` when all went well; else the last words on stderr, or how it ended.
    pub(super) fault: Option<String>,
}

/// Runs a script on every host, several at a time, in the order of the hosts.
pub(super) fn run_all(target: &DeployTarget, script: &str) -> Vec<Outcome> {
    let next = Mutex::new(target.hosts.iter().enumerate());
    let outcomes = Mutex::new(Vec::new());
    let several = target.hosts.len() > 1;
    thread::scope(|scope| {
        for _ in 0..target.hosts.len().min(HOSTS_AT_ONCE) {
            scope.spawn(|| {
                loop {
                    let Some((index, host)) = next.lock().expect("no holder panics").next() else { return };
                    let fault = run(target, host, script, several).err();
                    let outcome = Outcome { host: host.clone(), fault };
                    outcomes.lock().expect("no holder panics").push((index, outcome));
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().expect("no holder panics");
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

fn run(target: &DeployTarget, host: &str, script: &str, several: bool) -> Result<(), String> {
    let mut command = command(target, host, script);
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    let prefix = if several { format!("{host} | ") } else { String::new() };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let last_words = thread::scope(|scope| {
        let errors = scope.spawn(|| pass_on(stderr, &prefix, output::talk));
        pass_on(stdout, &prefix, |line| {
            // A reader that has gone does not stop a deployment under way.
            drop(std::io::Write::write_all(&mut std::io::stdout().lock(), line.as_bytes()));
        });
        errors.join().unwrap_or_default()
    });
    let status = child.wait().map_err(|error| error.to_string())?;
    match (status.success(), status.code()) {
        (true, _) => Ok(()),
        (false, Some(255)) if program == "ssh" => {
            Err(format!("ssh could not connect or log in: {last_words}"))
        }
        (false, Some(65)) => Err(last_words),
        (false, code) => {
            let how = code.map_or_else(|| status.to_string(), |code| format!("exit code {code}"));
            let words = if last_words.is_empty() { String::new() } else { format!(": {last_words}") };
            Err(format!("it ended with {how}{words}"))
        }
    }
}

/// Passes lines on; yields the last one that says something.
fn pass_on(pipe: Option<impl Read>, prefix: &str, write: impl Fn(&str)) -> String {
    let mut last = String::new();
    let Some(pipe) = pipe else { return last };
    for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
        let line = format::visible(String::from_utf8_lossy(&line).trim_end_matches('\r'));
        if !line.trim().is_empty() {
            last.clone_from(&line);
        }
        write(&format!("{prefix}{line}\n"));
    }
    last
}

fn is_local(host: &str) -> bool {
    matches!(host, "localhost" | "127.0.0.1" | "::1")
}

/// The process that runs a script on a host. `localhost` is this machine unless ssh is asked for by a
/// port, key or user.
fn command(target: &DeployTarget, host: &str, script: &str) -> Command {
    let wants_ssh = target.port.is_some() || target.key.is_some() || target.user.is_some();
    if is_local(host) && !wants_ssh {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        return command;
    }
    let mut command = Command::new("ssh");
    if !std::io::stdin().is_terminal() {
        // Nobody could answer a question.
        command.args(["-o", "BatchMode=yes"]);
    }
    if let Some(port) = target.port {
        command.args(["-p", &port.to_string()]);
    }
    if let Some(key) = &target.key {
        command.args(["-i", key]);
    }
    if target.forward_agent {
        command.arg("-A");
    }
    if target.needs_tty {
        command.arg("-tt");
    }
    for option in &target.ssh_options {
        command.args(["-o", option]);
    }
    let destination = match &target.user {
        Some(user) => format!("{user}@{host}"),
        None => host.to_owned(),
    };
    command.args(["--", &destination, &format!("/bin/sh -c {}", shell_words::quote(script))]);
    command
}
