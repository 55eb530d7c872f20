//! Starts a program that outlives this process: the daemon.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::process::{Child, SpawnError, SpawnPlan, SpawnStep, spawn};

/// The descriptor of a detached program for the write end of its readiness pipe.
pub const READY_FD: i32 = 3;

/// A detached program.
#[derive(Debug)]
pub struct Detached {
    /// The process: our child until we exit, then another process's.
    pub child: Child,
    /// Receives what the program writes to [`READY_FD`]; the end of file means that it exited or closed it.
    pub ready: OwnedFd,
}

/// Starts `program args…` with exactly `env` in its own session, in `/`, with stdin from `/dev/null` and
/// stdout and stderr appended to `log_file` (created with mode 0600).
///
/// The caller reads readiness, or the reason of a failure, from [`Detached::ready`]; the program takes its
/// end with [`super::take_inherited_fd`]`(`[`READY_FD`]`)`.
pub fn spawn_detached(
    program: &Path,
    args: &[String],
    env: &[(String, String)],
    log_file: &Path,
) -> Result<Detached, SpawnError> {
    let failed =
        |source: io::Error| SpawnError { step: SpawnStep::Descriptors, path: log_file.to_owned(), source };
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(log_file).map_err(failed)?;
    let stderr = log.try_clone().map_err(failed)?;
    let (ready, program_end) = io::pipe().map_err(failed)?;
    let mut arguments = vec![program.to_string_lossy().into_owned()];
    arguments.extend_from_slice(args);
    let child = spawn(SpawnPlan {
        stdin: None,
        program: program.to_owned(),
        argv: arguments,
        env: env.to_vec(),
        cwd: PathBuf::from("/"),
        stdout: log.into(),
        stderr: stderr.into(),
        channel: Some(program_end.into()),
        run_as: None,
        mark: None,
        groups: None,
        keeping: crate::keeper::Keeping::default(),
    })?;
    Ok(Detached { child, ready: ready.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Guarded, read_all, wait_exit};
    use std::io::Read;

    #[test]
    fn a_detached_program_reports_readiness_and_logs_to_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("daemon.log");
        let script = "pwd; echo $NAME >&2; echo ready >&3; exec 3>&-; exec sleep 100";
        let args = ["-c".to_owned(), script.to_owned()];
        let env = [("NAME", "x y"), ("PATH", "/usr/bin:/bin")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        let detached = spawn_detached(Path::new("/bin/sh"), &args, &env, &log).unwrap();
        let child = Guarded(detached.child);
        assert_eq!(read_all(detached.ready), "ready\n");
        let mut text = String::new();
        std::fs::File::open(&log).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "/\nx y\n");
        child.0.signal(libc::SIGTERM).unwrap();
        wait_exit(&child.0);
        let error = spawn_detached(Path::new("/bin/sh"), &args, &env, Path::new("/nowhere/log")).unwrap_err();
        assert_eq!((error.errno(), error.path.as_path()), (libc::ENOENT, Path::new("/nowhere/log")));
    }
}
