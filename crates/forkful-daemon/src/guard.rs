//! What ends the apps of a foreground supervisor that is killed. Nobody comes after it that would find what it has left
//! behind, as the next daemon does ([`crate::left_behind`]), and a death signal (`PR_SET_PDEATHSIG`) would reach its
//! workers alone, not what they have started. So a small process beside it holds the end of a pipe: when that closes
//! and the supervisor has not ended properly, it ends every process that carries the supervisor's mark.
//!
//! What kills both at once (the end of a container, a service manager that kills the whole group) needs neither.

use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};

use forkful_os::tree::Instance;

use crate::left_behind;

/// The process, for as long as the supervisor lives.
#[derive(Debug)]
pub(crate) struct Guard {
    process: Child,
    life: Option<ChildStdin>,
}

impl Guard {
    /// Starts it. Without it the supervisor only lacks the cleanup after its own violent end.
    pub(crate) fn start(instance: Instance) -> Option<Self> {
        let start = || {
            let mut process = Command::new(std::env::current_exe()?)
                .args(["guard", &instance.to_string()])
                .env_clear()
                .current_dir("/")
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                // A Ctrl-C in the terminal is for the supervisor.
                .process_group(0)
                .spawn()?;
            let life = process.stdin.take();
            io::Result::Ok(Self { process, life })
        };
        start()
            .map_err(|error| log_line!("forkful: apps would outlive this process if it were killed: {error}"))
            .ok()
    }
}

impl Drop for Guard {
    /// The supervisor ends normally: nothing is left to clean up.
    fn drop(&mut self) {
        drop(self.life.take());
        // It may have been reaped as an orphan of the apps.
        let _ended = self.process.wait();
    }
}

/// The guard process: waits for the end of the supervisor, which holds the other end of its stdin.
pub fn guard(instance: &str) -> io::Result<()> {
    let Some(instance) = Instance::parse(instance) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{instance:?} marks no processes")));
    };
    // Nothing is ever written.
    io::stdin().read_to_end(&mut Vec::new())?;
    left_behind::end(instance);
    Ok(())
}
