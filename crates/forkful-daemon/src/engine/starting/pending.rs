//! A start that is under way or was given up: the file or program that it waits for.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use forkful_core::Time;
#[cfg(test)]
use forkful_core::late_start::START_DEADLINE_MAX;
use forkful_core::late_start::{Doing, LateStart};
use forkful_os::process::{Flight, SpawnStep};
use forkful_os::procinfo;

use super::Known;

/// A file that a start looks at before there is a process.
#[derive(Debug, Clone)]
pub(super) enum BeforeStart {
    Log(PathBuf),
    Script(PathBuf),
}

/// The file that a start looks at, for as long as it does.
pub(super) type LookedAt = Arc<Mutex<Option<BeforeStart>>>;

/// The thread that has begun with a start, and for how long that thread had waited for a core before. Empty until a thread begins.
pub(super) type BegunBy = Arc<OnceLock<(u32, Duration)>>;

/// For how long a thread or a process has waited for a core in its life.
pub(super) fn waited_by(task: u32) -> Option<Duration> {
    procinfo::scheduled(task).ok().map(|scheduled| scheduled.waited)
}

/// A start under way.
pub(in crate::engine) struct Pending {
    pub(super) number: u64,
    pub(super) flight: Arc<Flight>,
    pub(super) looked_at: LookedAt,
    pub(super) begun: BegunBy,
    pub(super) known: Known,
    pub(super) program: PathBuf,
    pub(super) cwd: PathBuf,
    pub(super) ordered: Time,
    pub(super) deadline: Time,
    pub(super) signals: Vec<i32>,
}

/// A start that was given up and has not come back.
pub(in crate::engine) struct Stuck {
    pub(super) number: u64,
    pub(super) program: PathBuf,
    pub(super) cwd: PathBuf,
    /// The file that it looks at, if it is that.
    pub(super) file: Option<BeforeStart>,
    pub(super) what: String,
}

impl Pending {
    /// It has had all the time that there is.
    #[cfg(test)]
    pub(in crate::engine) fn expire(&mut self, now: Time) {
        self.ordered = now - START_DEADLINE_MAX;
        self.deadline = now;
    }

    /// Whether its process waits for its working directory.
    #[cfg(test)]
    pub(in crate::engine) fn is_in_its_directory(&self) -> bool {
        self.flight.pid() != 0 && self.flight.step() == SpawnStep::ChangeDirectory
    }

    /// Its process; 0 before there is one.
    #[cfg(test)]
    pub(in crate::engine) fn pid(&self) -> u32 {
        self.flight.pid()
    }

    /// Whether its process is about to execute its program.
    #[cfg(test)]
    pub(in crate::engine) fn executes(&self) -> bool {
        self.flight.pid() != 0 && self.flight.step() == SpawnStep::Execute
    }

    /// How it stands when its time is over. `hang`: all threads are with starts that were given up; `cpu_pressure`: from 0 to 1.
    pub(super) fn as_late(&self, hang: bool, cpu_pressure: Option<f64>, now: Time) -> LateStart {
        // From the clone to the execution the thread waits for its process.
        let task = |thread| match self.flight.pid() {
            0 => thread,
            pid => (pid, Duration::ZERO),
        };
        let doing = match self.begun.get().copied().map(task) {
            None => Doing::Queued { hang },
            Some((task, before)) => waited_by(task).map_or(Doing::Unknown, |waited| {
                let is_runnable = procinfo::is_running(task).unwrap_or(false);
                Doing::UnderWay { is_runnable, waited: waited.saturating_sub(before) }
            }),
        };
        LateStart { age: now.since(self.ordered), doing, cpu_pressure }
    }

    /// The file that its thread looks at.
    pub(super) fn file(&self) -> Option<BeforeStart> {
        self.looked_at.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether its thread waits for the file system of a log file.
    #[cfg(test)]
    pub(in crate::engine) fn looks_at_a_log(&self) -> bool {
        matches!(self.file(), Some(BeforeStart::Log(_)))
    }

    /// What the start was doing, with the path that it was about.
    pub(super) fn busy_with(&self) -> String {
        match self.file() {
            Some(BeforeStart::Log(path)) => return format!("cannot look at the log file {}", path.display()),
            Some(BeforeStart::Script(path)) => {
                return format!("cannot look at the script {}", path.display());
            }
            None => {}
        }
        match self.flight.step() {
            SpawnStep::ChangeDirectory => {
                format!("cannot enter the working directory {}", self.cwd.display())
            }
            SpawnStep::Arguments
            | SpawnStep::Group
            | SpawnStep::Descriptors
            | SpawnStep::Clone
            | SpawnStep::Session
            | SpawnStep::User
            | SpawnStep::Execute => format!("cannot execute {}", self.program.display()),
        }
    }
}
