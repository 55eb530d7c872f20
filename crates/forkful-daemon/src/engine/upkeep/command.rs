//! Health checks with a program of the user: it runs in the app's directory with the worker's environment,
//! and exit code 0 is healthy.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use forkful_core::spec::Launch;
use forkful_core::spec::environment::KnownSecrets;
use forkful_os::process::{self, Child, Exit, Flight, SpawnPlan};
use forkful_os::tree::{self, MARK_VARIABLE, Mark};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::time::Instant;

use super::super::Back;
use super::super::app::App;
use super::super::exit_tail::secrets_in;
use super::super::starting::Starts;
use super::health::Asker;
use crate::wait::ended;

/// After SIGKILL, the maximum wait for a process.
const KILL_WAIT: Duration = Duration::from_secs(1);

/// Bytes that are kept of what a command writes to stderr, at least.
const STDERR_KEPT: usize = 2048;
/// Characters of its last line in a message.
const STDERR_SHOWN: usize = 200;

impl App {
    /// Runs a check program, which is told the worker.
    pub(super) fn ask_command(&self, words: &[String], asker: Asker, starts: &mut Starts) {
        let Asker { key: (app, slot, generation), timeout, back } = asker;
        let Some(place) = self.places.get(&slot) else { return };
        let Some(process) = place.processes.get(&generation) else { return };
        let identity = [
            ("FORKFUL_PID".to_owned(), process.child.pid.to_string()),
            (self.spec().variables.instance.clone(), slot.to_string()),
            ("pm_id".to_owned(), place.pm_id.to_string()),
        ];
        let launch = self.spec().launch.clone();
        let words = words.to_vec();
        let helper = Helper { what: "health check", words, identity: identity.into(), stdin: None };
        let outcome = helper.run(launch, timeout, starts);
        tokio::task::spawn_local(async move {
            let answer = outcome.await;
            let _gone = back.send(Back::Health { app, slot, generation, answer });
        });
    }
}

/// A command of an app that is not a worker.
pub(in crate::engine) struct Helper {
    /// Its purpose.
    pub(in crate::engine) what: &'static str,
    pub(in crate::engine) words: Vec<String>,
    /// Variables in addition to the app's.
    pub(in crate::engine) identity: Vec<(String, String)>,
    pub(in crate::engine) stdin: Option<OwnedFd>,
}

impl Helper {
    /// Starts the command, and returns how it ended, or why it did not within `timeout`.
    pub(in crate::engine) fn run(
        self,
        launch: Launch,
        timeout: Duration,
        starts: &mut Starts,
    ) -> impl Future<Output = Result<(), String>> + use<> {
        let (mark, back) = (starts.give_mark(), starts.back());
        let (said, stderr) = io::pipe().ok().unzip();
        let stderr = stderr.map(OwnedFd::from);
        let secrets = KnownSecrets::new(secrets_in(&launch.env));
        let command = (self.words.clone(), launch.cwd.clone());
        let (flight, started) =
            starts.start_helper(command, move |flight| self.start(&launch, mark, stderr, flight));
        async move {
            let deadline = Instant::now() + timeout;
            match tokio::time::timeout_at(deadline, started).await {
                Ok(Ok(Ok(child))) => {
                    let said = said.map(OwnedFd::from);
                    let outcome = watch(&child, said, mark, deadline, timeout).await;
                    let outcome = outcome.map_err(|why| secrets.redact(why));
                    // The engine is gone only when the daemon ends.
                    let _gone = back.send(Back::HelperEnded { pid: child.pid });
                    outcome
                }
                Ok(Ok(Err(why))) => Err(why),
                Ok(Err(_)) => Err("no thread can be had to start its command".to_owned()),
                Err(_) => {
                    flight.cancel();
                    Err(format!("its command was not started within {} ms", timeout.as_millis()))
                }
            }
        }
    }

    /// Finds and starts the command; on a thread that may wait for a disk.
    fn start(
        self,
        launch: &Launch,
        mark: Mark,
        stderr: Option<OwnedFd>,
        flight: &Flight,
    ) -> Result<Child, String> {
        let Self { what, words, identity, stdin } = self;
        let Some(word) = words.first() else { return Err(format!("the command of the {what} is empty")) };
        let path = launch.env.get("PATH").map_or("/usr/local/bin:/usr/bin:/bin", String::as_str);
        let program = find(word, &launch.cwd, path)
            .ok_or_else(|| format!("the command of the {what}, `{word}`, was not found"))?;
        let null = || -> Result<OwnedFd, String> {
            let file = fs_err::OpenOptions::new().write(true).open("/dev/null");
            Ok(file.map_err(|error| error.to_string())?.into())
        };
        let mut env = launch.env.clone();
        env.extend(identity);
        env.insert(MARK_VARIABLE.to_owned(), mark.to_string());
        let plan = SpawnPlan {
            stdin,
            program,
            argv: words,
            env: env.into_iter().collect(),
            cwd: launch.cwd.clone(),
            stdout: null()?,
            stderr: stderr.map_or_else(null, Ok)?,
            channel: None,
            run_as: launch.run_as.as_ref().map(super::super::launch::run_as),
            mark: Some(mark),
            groups: None,
            // It ends with the daemon whose request it answers.
            keeping: forkful_os::keeper::Keeping::default(),
        };
        process::spawn_watched(plan, flight).map_err(|error| error.to_string())
    }
}

/// Finds a program by name, like a shell.
fn find(word: &str, cwd: &Path, path: &str) -> Option<PathBuf> {
    if word.contains('/') {
        return Some(cwd.join(word)).filter(|file| file.is_file());
    }
    path.split(':').map(|folder| cwd.join(folder).join(word)).find(|file| file.is_file())
}

/// Waits for the command's exit; then kills everything it has started.
async fn watch(
    child: &Child,
    stderr: Option<OwnedFd>,
    mark: Mark,
    deadline: Instant,
    timeout: Duration,
) -> Result<(), String> {
    let mut said = Vec::new();
    let outcome = {
        let mut reading = pin!(read(stderr, &mut said));
        let mut end = pin!(tokio::time::timeout_at(deadline, ended(child)));
        tokio::select! {
            outcome = &mut end => {
                // The processes left in its group, while its process id is not reused. Then the pipe has an end, unless one of its
                // processes has left the group.
                let _gone = child.signal_group(9);
                let _unfinished = tokio::time::timeout(Duration::from_millis(50), reading).await;
                outcome
            }
            _ended = &mut reading => {
                let outcome = end.await;
                let _gone = child.signal_group(9);
                outcome
            }
        }
    };
    if outcome.is_err() {
        // A process may have its own session.
        tree::signal_tree(child, mark, 9);
        let _ended = tokio::time::timeout(KILL_WAIT, ended(child)).await;
    }
    let _reaped = child.try_wait(true);
    let why = match outcome {
        Ok(Ok(Exit::Code(0))) => return Ok(()),
        Ok(Ok(Exit::Code(code))) => format!("its command ended with code {code}"),
        Ok(Ok(Exit::Signal(signal, _))) => {
            let signal = forkful_core::slot::Exit::Signal(signal);
            format!("its command was ended by {signal}")
        }
        Ok(Err(error)) => format!("its command cannot be watched: {error}"),
        Err(_) => format!("its command did not end within {} ms", timeout.as_millis()),
    };
    Err(match last_line(&said) {
        Some(line) => format!("{why}: {line}"),
        None => why,
    })
}

/// Reads what a command writes to stderr, and keeps the end of it.
async fn read(stderr: Option<OwnedFd>, said: &mut Vec<u8>) -> io::Result<()> {
    let Some(stderr) = stderr else { return Ok(()) };
    let mut stderr = Receiver::from_owned_fd(stderr)?;
    while stderr.read_buf(said).await? > 0 {
        if said.len() > 2 * STDERR_KEPT {
            said.drain(..said.len() - STDERR_KEPT);
        }
    }
    Ok(())
}

/// The last line that is not empty, without colours and control characters.
fn last_line(said: &[u8]) -> Option<String> {
    let text = forkful_core::ansi::stripped(&String::from_utf8_lossy(said));
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(line.chars().filter(|c| !c.is_control()).take(STDERR_SHOWN).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_stderr_is_plain_and_short() {
        assert_eq!(
            last_line(b"trying\n\x1b[31mcurl: (6) no\x07 host\x1b[0m\r\n \n"),
            Some("curl: (6) no host".to_owned())
        );
        assert_eq!(
            last_line("é".repeat(300).as_bytes()).map(|line| line.chars().count()),
            Some(STDERR_SHOWN)
        );
        assert_eq!(last_line(b" \n"), None);
    }

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let root = Path::new("/");
        assert_eq!(find("sh", root, "/nowhere:/bin"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find("bin/sh", root, ""), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find("sh", root, "/nowhere"), None);
        assert_eq!(find("/bin/no-such-program", root, "/bin"), None);
    }
}
