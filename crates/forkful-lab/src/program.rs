//! Runs a short-lived program (the `forkful` command, PM2, git, a build) to completion, with a timeout and
//! interruptibly.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use forkful_load::StopHandle;

/// Pause between two checks.
const LOOK_PAUSE: Duration = Duration::from_millis(3);

/// A program's output and exit.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// How a program is run.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) program: &'a Path,
    pub(crate) args: Vec<String>,
    pub(crate) env: &'a BTreeMap<String, String>,
    pub(crate) cwd: &'a Path,
    /// A directory for its output files.
    pub(crate) scratch: &'a Path,
    pub(crate) timeout: Duration,
    /// Stops it early.
    pub(crate) stop: &'a StopHandle,
    /// Which kind of stop applies: any stop, or only an immediate one.
    pub(crate) is_stopped: fn(&StopHandle) -> bool,
}

impl Run<'_> {
    /// Runs it. Its output goes to files, so that a process it leaves behind cannot block us by holding a
    /// pipe open.
    pub(crate) fn finish(&self) -> io::Result<Said> {
        let (out, err) = (self.scratch.join("said.out"), self.scratch.join("said.err"));
        let mut child = Command::new(self.program)
            .args(&self.args)
            .env_clear()
            .envs(self.env)
            .current_dir(self.cwd)
            .stdin(Stdio::null())
            .stdout(fs_err::File::create(&out)?.into_parts().0)
            .stderr(fs_err::File::create(&err)?.into_parts().0)
            // Ctrl-C in the terminal is for us only; we then stop the program in order.
            .process_group(0)
            .spawn()?;
        let status = self.wait(&mut child)?;
        let read = |path: &Path| -> io::Result<String> {
            Ok(String::from_utf8_lossy(&fs_err::read(path)?).into_owned())
        };
        Ok(Said { status, stdout: read(&out)?, stderr: read(&err)? })
    }

    fn wait(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let deadline = Instant::now() + self.timeout;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            let interrupted = (self.is_stopped)(self.stop);
            if interrupted || Instant::now() >= deadline {
                // It leads its own process group; a build has children.
                let group = rustix::process::Pid::from_child(child);
                rustix::process::kill_process_group(group, rustix::process::Signal::KILL).ok();
                child.kill()?;
                child.wait()?;
                let kind = if interrupted { io::ErrorKind::Interrupted } else { io::ErrorKind::TimedOut };
                return Err(io::Error::new(
                    kind,
                    format!("it did not end within {} s", self.timeout.as_secs()),
                ));
            }
            std::thread::sleep(LOOK_PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell<'a>(
        script: &str,
        scratch: &'a Path,
        env: &'a BTreeMap<String, String>,
        stop: &'a StopHandle,
    ) -> Run<'a> {
        Run {
            program: Path::new("/bin/sh"),
            args: vec!["-c".to_owned(), script.to_owned()],
            env,
            cwd: scratch,
            scratch,
            timeout: Duration::from_secs(20),
            stop,
            is_stopped: StopHandle::is_stopped,
        }
    }

    #[test]
    fn output_and_status_come_back_even_when_something_is_left_behind() {
        let scratch = tempfile::tempdir().unwrap();
        let env = BTreeMap::from([
            ("A".to_owned(), "b".to_owned()),
            ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
        ]);
        let stop = StopHandle::new();
        let said =
            shell("echo $A; echo bad >&2; sleep 0.2 & exit 3", scratch.path(), &env, &stop).finish().unwrap();
        assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("b\n", "bad\n"));
        assert_eq!(said.status.code(), Some(3));
    }

    #[test]
    fn it_ends_at_the_bound_and_at_an_interruption() {
        let scratch = tempfile::tempdir().unwrap();
        let env = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
        let stop = StopHandle::new();
        let mut run = shell("exec sleep 100", scratch.path(), &env, &stop);
        run.timeout = Duration::from_millis(30);
        assert_eq!(run.finish().unwrap_err().kind(), io::ErrorKind::TimedOut);
        stop.stop();
        let run = shell("exec sleep 100", scratch.path(), &env, &stop);
        assert_eq!(run.finish().unwrap_err().kind(), io::ErrorKind::Interrupted);
    }

    #[test]
    fn its_children_end_with_it() {
        let scratch = tempfile::tempdir().unwrap();
        let env = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
        let stop = StopHandle::new();
        let note = scratch.path().join("child");
        let read = || fs_err::read_to_string(&note).ok()?.trim().parse::<u32>().ok();
        let mut run = shell("sleep 600 & echo $! > child; wait", scratch.path(), &env, &stop);
        run.timeout = Duration::from_secs(180);
        let child = std::thread::scope(|scope| {
            let ended = scope.spawn(|| run.finish().unwrap_err().kind());
            let child = loop {
                match read() {
                    Some(child) => break child,
                    None => std::thread::sleep(LOOK_PAUSE),
                }
            };
            stop.stop();
            assert_eq!(ended.join().unwrap(), io::ErrorKind::Interrupted);
            child
        });
        let status = || fs_err::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        // It may not be reaped yet.
        let is_alive = || !status().is_empty() && !status().contains(") Z ");
        let deadline = Instant::now() + Duration::from_secs(180);
        while is_alive() {
            assert!(Instant::now() < deadline, "process {child} goes on");
            std::thread::sleep(LOOK_PAUSE);
        }
    }
}
