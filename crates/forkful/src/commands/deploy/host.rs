//! Runs a script on a host: with the system's `ssh`, or locally if the host is this machine. Output is passed
//! on line by line, prefixed with the host's name if there are several.
//!
//! **Invariant:** a script is passed to its shell on stdin, never as an argument: all users of a machine can
//! read the arguments of all processes, and scripts contain the target's environment.

use std::io::{BufRead as _, BufReader, IsTerminal as _, Read, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;

use forkful_config::DeployTarget;

use crate::output::{self, format};

/// Hosts processed at the same time; each needs a process and two threads here.
pub(super) const HOSTS_AT_ONCE: usize = 16;

/// The result of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) host: String,
    /// `None` on success; otherwise the last stderr output, or how it exited.
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

/// Reads the whole script before running its first command, so that no command reads the rest of it as input.
const RUN_STDIN: &str = r#"/bin/sh -c 'eval "$(cat)"'"#;
/// Writes a script to a file readable only by the user and prints its path. Used if stdin is a terminal,
/// which would echo the script and cut its lines.
const KEEP_STDIN: &str = r#"/bin/sh -c 'umask 077; file=$(mktemp) && cat > "$file" && echo "$file"'"#;

fn run(target: &DeployTarget, host: &str, script: &str, several: bool) -> Result<(), String> {
    let (remote, input) = if is_here(target, host) || !target.needs_tty {
        (RUN_STDIN.to_owned(), script)
    } else {
        let file = keep(target, host, script)?;
        let file = shell_words::quote(&file);
        let run = format!("script=$(cat {file}); rm -f {file}; eval \"$script\"");
        (format!("/bin/sh -c {}", shell_words::quote(&run)), "")
    };
    let mut child = spawn(command(target, host, &remote, target.needs_tty))?;
    let prefix = if several { format!("{host} | ") } else { String::new() };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let last_words = thread::scope(|scope| {
        feed(scope, &mut child, input);
        let errors = scope.spawn(|| pass_on(stderr, &prefix, output::talk));
        pass_on(stdout, &prefix, |line| {
            // A closed stdout does not stop a running deployment.
            drop(std::io::stdout().lock().write_all(line.as_bytes()));
        });
        errors.join().unwrap_or_default()
    });
    judge(target, host, &mut child, last_words)
}

/// Copies a script to a host and returns the path of its file.
fn keep(target: &DeployTarget, host: &str, script: &str) -> Result<String, String> {
    let mut child = spawn(command(target, host, KEEP_STDIN, false))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (file, last_words) = thread::scope(|scope| {
        feed(scope, &mut child, script);
        let errors = scope.spawn(|| pass_on(stderr, "", output::talk));
        (pass_on(stdout, "", |_| ()), errors.join().unwrap_or_default())
    });
    judge(target, host, &mut child, last_words)?;
    if file.starts_with('/') { Ok(file) } else { Err("mktemp named no file for the script".to_owned()) }
}

fn spawn(mut command: Command) -> Result<Child, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run {program}: {error}"))
}

/// Writes a process's input on a thread, because it may be larger than a pipe's buffer.
fn feed<'scope>(scope: &'scope thread::Scope<'scope, '_>, child: &mut Child, input: &'scope str) {
    if let Some(mut stdin) = child.stdin.take() {
        // If the process exited, its own error is reported.
        scope.spawn(move || drop(stdin.write_all(input.as_bytes())));
    }
}

/// Describes how a process exited.
fn judge(target: &DeployTarget, host: &str, child: &mut Child, last_words: String) -> Result<(), String> {
    let status = child.wait().map_err(|error| error.to_string())?;
    match (status.success(), status.code()) {
        (true, _) => Ok(()),
        (false, Some(255)) if !is_here(target, host) => {
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

/// Passes lines on; returns the last non-empty one.
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

/// Whether no ssh is needed. `localhost` is this machine unless a port, key or user is set.
fn is_here(target: &DeployTarget, host: &str) -> bool {
    let wants_ssh = target.port.is_some() || target.key.is_some() || target.user.is_some();
    matches!(host, "localhost" | "127.0.0.1" | "::1") && !wants_ssh
}

/// The process that runs a command line, which contains no secrets, on a host.
fn command(target: &DeployTarget, host: &str, remote: &str, tty: bool) -> Command {
    if is_here(target, host) {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", remote]);
        return command;
    }
    let mut command = Command::new("ssh");
    if !std::io::stdin().is_terminal() {
        // There is no terminal for questions.
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
    if tty {
        command.arg("-tt");
    }
    for option in &target.ssh_options {
        command.args(["-o", option]);
    }
    let destination = match &target.user {
        Some(user) => format!("{user}@{host}"),
        None => host.to_owned(),
    };
    command.args(["--", &destination, remote]);
    command
}
