//! Running a script on a host: by the system's `ssh`, or here when the host is this machine. What it
//! says is passed on line by line, with the host's name before it when there are several.
//!
//! **Invariant:** a script reaches its shell on stdin, never as an argument: every user of a machine can read the
//! arguments of all processes, and scripts hold the environment of the target.

use std::io::{BufRead as _, BufReader, IsTerminal as _, Read, Write as _};
use std::process::{Child, Command, Stdio};
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

/// Reads all of a script before the first of its commands runs, so that no command reads the rest of it as its input.
const RUN_STDIN: &str = r#"/bin/sh -c 'eval "$(cat)"'"#;
/// Puts a script into a file of the user alone and says where. Used where stdin is a terminal, which would show the
/// script and cut its lines.
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
            // A reader that has gone does not stop a deployment under way.
            drop(std::io::stdout().lock().write_all(line.as_bytes()));
        });
        errors.join().unwrap_or_default()
    });
    judge(target, host, &mut child, last_words)
}

/// Brings a script to a host and yields the file that it is in.
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

/// Writes a process's input, from a thread: it may be more than a pipe holds.
fn feed<'scope>(scope: &'scope thread::Scope<'scope, '_>, child: &mut Child, input: &'scope str) {
    if let Some(mut stdin) = child.stdin.take() {
        // A process that ended has said why.
        scope.spawn(move || drop(stdin.write_all(input.as_bytes())));
    }
}

/// How a process ended, in words.
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

/// Whether no ssh is needed. `localhost` is this machine unless ssh is asked for by a port, key or user.
fn is_here(target: &DeployTarget, host: &str) -> bool {
    let wants_ssh = target.port.is_some() || target.key.is_some() || target.user.is_some();
    matches!(host, "localhost" | "127.0.0.1" | "::1") && !wants_ssh
}

/// The process that runs a command line, which holds no secret, on a host.
fn command(target: &DeployTarget, host: &str, remote: &str, tty: bool) -> Command {
    if is_here(target, host) {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", remote]);
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
