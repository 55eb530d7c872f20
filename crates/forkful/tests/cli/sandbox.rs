//! A sandbox for the real binary with its own home, working directory and minimal environment. Dropping it
//! stops its daemon and removes its files.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::settled::eventually;

/// A command that takes longer counts as hung: the longest ones take a minute on a slow machine.
const HANG: Duration = Duration::from_secs(15 * 60);

/// See the module's documentation.
pub(crate) struct Sandbox {
    root: tempfile::TempDir,
}

impl Sandbox {
    /// An empty sandbox.
    pub(crate) fn new() -> Self {
        let root = tempfile::Builder::new().prefix("forkful-").tempdir().unwrap();
        std::fs::create_dir(root.path().join("work")).unwrap();
        Self { root }
    }

    /// The home for commands; created by the first command that needs it.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// The working directory of commands.
    pub(crate) fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// Writes a file into the working directory.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs_err::write(self.work().join(name), text).unwrap();
    }

    /// A command in this sandbox that is not started yet.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.command_of(Path::new(env!("CARGO_BIN_EXE_forkful")), args)
    }

    /// The same with another build.
    pub(crate) fn command_of(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.work())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.root.path())
            .env("FORKFUL_HOME", self.home())
            .stdin(Stdio::null());
        command
    }

    /// Runs a command until it exits.
    ///
    /// # Panics
    /// If it hangs.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        let output = output_within(&mut self.command(args), HANG).unwrap();
        output.unwrap_or_else(|| panic!("forkful {} has not ended after {HANG:?}", args.join(" ")))
    }

    /// Runs a command and returns its exit code and output, with this sandbox's paths, and everything that
    /// differs between runs, replaced.
    pub(crate) fn transcript(&self, args: &[&str]) -> String {
        self.told(&self.run(args))
    }

    /// The same for an existing output.
    pub(crate) fn told(&self, output: &Output) -> String {
        let mut text = format!("exit: {}\n", output.status.code().unwrap_or(-1));
        for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            let told = without_pages(&without_words_of_the_machine(bytes));
            if !told.is_empty() {
                write!(text, "--- {name}\n{told}").unwrap();
            }
        }
        text.replace(&self.root.path().display().to_string(), "[sandbox]")
    }
}

/// Runs a command until it exits, or kills it after a time limit and returns `None`.
pub(crate) fn output_within(command: &mut Command, limit: Duration) -> std::io::Result<Option<Output>> {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let pid = rustix::process::Pid::from_child(&child);
    let (ended, waits) = channel::<()>();
    let guard = std::thread::spawn(move || {
        let is_hung = waits.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
        if is_hung {
            let _has_ended = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        is_hung
    });
    let output = child.wait_with_output();
    drop(ended);
    let is_hung = guard.join().expect("the guard does not panic");
    Ok((!is_hung).then_some(output?))
}

/// A command's output without the pages named by its hints. Each hint must name a page; `pages.rs` tests which
/// page it is.
#[track_caller]
fn without_pages(told: &str) -> String {
    let mut text = String::new();
    let mut lines = told.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        text.push_str(line);
        if line.starts_with("hint: ") {
            let page = lines.next_if(|next| next.starts_with(&format!("see: {}", forkful_core::pages::SITE)));
            assert!(page.is_some(), "the hint names a page: {told}");
        }
    }
    text
}

/// A command's output without what depends on the machine: a warning about more workers than cores, and notes
/// that something takes long on a busy one.
pub(crate) fn without_words_of_the_machine(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut left_out = false;
    let is_said = |line: &&str| {
        if line.starts_with("note: the daemon has not answered yet")
            || line.contains("it runs, but has not listened on any port yet")
        {
            return false;
        }
        // The excerpt of the file below the warning is removed too.
        let is_excerpt = line.trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit()).starts_with('|');
        left_out = line.contains("more workers than cores share") || left_out && is_excerpt;
        !left_out
    };
    text.split_inclusive('\n').filter(is_said).collect()
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let ended = self.run(&["kill"]);
        if !std::thread::panicking() {
            assert!(ended.status.success(), "the daemon could not be ended: {}", self.told(&ended));
        }
    }
}

/// A child that is killed, if it still runs, at the end of a test, even on failure.
pub(crate) struct Guarded {
    /// The process.
    pub(crate) child: Child,
    stdout: Option<BufReader<ChildStdout>>,
}

impl Guarded {
    /// Starts a command.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().map(BufReader::new);
        Self { child, stdout }
    }

    /// The next line of its stdout, which must be a pipe; empty at its end.
    pub(crate) fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.as_mut().unwrap().read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // Both fail if the child was already waited for, which is fine.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The output of a command that must succeed.
pub(crate) fn succeeded(sandbox: &Sandbox, args: &[&str]) -> Output {
    let output = sandbox.run(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", sandbox.told(&output));
    output
}

/// The stdout of a command that must succeed.
pub(crate) fn done(sandbox: &Sandbox, args: &[&str]) -> String {
    stdout(&succeeded(sandbox, args))
}

/// Waits until this is the last line on stdout of an app's latest process.
#[track_caller]
pub(crate) fn says(sandbox: &Sandbox, name: &str, line: &str) {
    let last = || {
        let lines = stdout(&sandbox.run(&["logs", name, "--nostream", "--raw", "--out"]));
        lines.lines().last().unwrap_or_default().trim_end().to_owned()
    };
    assert_eq!(eventually(last, |last| last == line), line);
}

/// The output's stdout as text.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether a path exists.
pub(crate) fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
