//! The output of a slot: reports for watching clients, and answers to commands.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Exit, FailReason, Generation, Verb};

/// An event for logs and lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// A process serves, or has confirmed that it serves.
    Online {
        generation: Generation,
        /// See [`Running::confirmed`](super::Running::confirmed).
        confirmed: bool,
    },
    /// A process ended, or could not be started.
    Exited {
        generation: Generation,
        exit: Exit,
        /// How long it lived.
        uptime: Duration,
        /// A command has ended it.
        #[serde(default)]
        asked: bool,
    },
    /// A start did not result in a serving process.
    StartFailed {
        generation: Generation,
        fault: Fault,
    },
    /// A successor serves; the old process drains.
    Replaced {
        /// The leaving process.
        old: Generation,
        /// The new serving process.
        new: Generation,
    },
    /// The successor was given up; the old process continues to serve.
    ReplaceFailed {
        new: Generation,
        fault: Fault,
    },
    Stopped,
    /// A restart follows a crash.
    RestartScheduled {
        /// 1 for the first restart in a row.
        attempt: u32,
        /// The delay before the restart.
        delay: Duration,
        exit: Exit,
    },
    /// No restart follows.
    GaveUp {
        reason: FailReason,
        exit: Exit,
    },
    /// The stop signal did not end the process within the kill timeout; SIGKILL was sent.
    Killed(Generation),
    /// A leaving process has exited.
    Left {
        generation: Generation,
        exit: Exit,
    },
}

/// The answer to a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// To start and restart: a process serves.
    Online {
        /// See [`Running::confirmed`](super::Running::confirmed).
        confirmed: bool,
    },
    /// To start: a process was already serving.
    AlreadyOnline,
    /// To start, restart and replace: the process ran, ended in an accepted way, and stays stopped.
    Finished(Exit),
    /// To replace: the new process serves. The old process may still be draining.
    Replaced,
    /// To stop: the slot has no processes left.
    Stopped,
    /// To delete: the slot has no processes left, and accepts no command that starts one.
    Deleted,
    /// The command failed.
    Failed(Fault),
}

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// The process did not become ready.
    NotReadyInTime {
        /// How long the slot waited for it.
        waited: Duration,
    },
    /// The process ended, or could not be started.
    Exited(Exit),
    /// Another command cancelled it.
    Cancelled { by: Verb },
    /// The slot is being deleted.
    Deleting,
    /// The slot is already being replaced.
    BeingReplaced,
    /// [`WAITING_MAX`](super::WAITING_MAX) commands are already waiting.
    TooManyWaiting,
    /// A dependency of this app does not exist, or did not start.
    DependencyFailed { name: String },
}

impl Fault {
    /// Whether another command ended this one, so that nothing went wrong.
    pub fn is_by_command(&self) -> bool {
        matches!(self, Self::Cancelled { .. } | Self::Deleting)
    }
}
