//! Health checks with a program of the user: it runs in the app's directory with the worker's environment,
//! and exit code 0 is healthy.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forkful_core::spec::Launch;
use forkful_os::process::{self, Child, Exit, Flight, SpawnPlan};
use forkful_os::tree::{self, MARK_VARIABLE, Mark};
use tokio::time::Instant;

use super::super::Back;
use super::super::app::App;
use super::super::starting::Starts;
use super::health::Asker;
use crate::wait::ended;

/// After SIGKILL, the maximum wait for a process.
const KILL_WAIT: Duration = Duration::from_secs(1);

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
        let (flight, started) = starts.start_helper(move |flight| self.start(&launch, mark, flight));
        async move {
            let deadline = Instant::now() + timeout;
            match tokio::time::timeout_at(deadline, started).await {
                Ok(Ok(Ok(child))) => {
                    let outcome = watch(&child, mark, deadline, timeout).await;
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
    fn start(self, launch: &Launch, mark: Mark, flight: &Flight) -> Result<Child, String> {
        let Self { what, words, identity, stdin } = self;
        let Some(word) = words.first() else { return Err(format!("the command of the {what} is empty")) };
        let path = launch.env.get("PATH").map_or("/usr/local/bin:/usr/bin:/bin", String::as_str);
        let program = find(word, &launch.cwd, path)
            .ok_or_else(|| format!("the command of the {what}, `{word}`, was not found"))?;
        let null = || -> io::Result<OwnedFd> {
            Ok(fs_err::OpenOptions::new().write(true).open("/dev/null")?.into())
        };
        let (stdout, stderr) =
            null().and_then(|out| Ok((out, null()?))).map_err(|error| error.to_string())?;
        let mut env = launch.env.clone();
        env.extend(identity);
        env.insert(MARK_VARIABLE.to_owned(), mark.to_string());
        let plan = SpawnPlan {
            stdin,
            program,
            argv: words,
            env: env.into_iter().collect(),
            cwd: launch.cwd.clone(),
            stdout,
            stderr,
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
async fn watch(child: &Child, mark: Mark, deadline: Instant, timeout: Duration) -> Result<(), String> {
    let outcome = tokio::time::timeout_at(deadline, ended(child)).await;
    // The processes left in its group, while its process id is not reused.
    let _gone = child.signal_group(9);
    if outcome.is_err() {
        // A process may have its own session.
        tree::signal_tree(child, mark, 9);
        let _ended = tokio::time::timeout(KILL_WAIT, ended(child)).await;
    }
    let _reaped = child.try_wait(true);
    match outcome {
        Ok(Ok(Exit::Code(0))) => Ok(()),
        Ok(Ok(Exit::Code(code))) => Err(format!("its command ended with code {code}")),
        Ok(Ok(Exit::Signal(signal, _))) => {
            let signal = forkful_core::slot::Exit::Signal(signal);
            Err(format!("its command was ended by {signal}"))
        }
        Ok(Err(error)) => Err(format!("its command cannot be watched: {error}")),
        Err(_) => Err(format!("its command did not end within {} ms", timeout.as_millis())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let root = Path::new("/");
        assert_eq!(find("sh", root, "/nowhere:/bin"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find("bin/sh", root, ""), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find("sh", root, "/nowhere"), None);
        assert_eq!(find("/bin/no-such-program", root, "/bin"), None);
    }
}
