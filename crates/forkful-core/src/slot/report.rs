//! What a slot tells: reports for clients that watch, and the answers to commands.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Exit, FailReason, Generation, Verb};

/// What happened, for logs and lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// A process serves now, or has now confirmed that it does.
    Online {
        generation: Generation,
        /// See [`Running::confirmed`](super::Running::confirmed).
        confirmed: bool,
    },
    /// A process ended, or never began.
    Exited {
        generation: Generation,
        exit: Exit,
        /// Its length of life.
        uptime: Duration,
    },
    /// A start did not lead to a serving process.
    StartFailed {
        generation: Generation,
        fault: Fault,
    },
    /// A successor serves; the old process drains.
    Replaced {
        /// The process that leaves.
        old: Generation,
        /// The process that serves.
        new: Generation,
    },
    /// The successor was given up, the old process serves on.
    ReplaceFailed {
        new: Generation,
        fault: Fault,
    },
    Stopped,
    /// A restart will follow a crash.
    RestartScheduled {
        /// 1 for the first in a row.
        attempt: u32,
        /// After how long.
        delay: Duration,
        exit: Exit,
    },
    /// No restart will follow.
    GaveUp {
        reason: FailReason,
        exit: Exit,
    },
    /// The stop signal did not end it within the kill timeout; SIGKILL was sent.
    Killed(Generation),
    /// A leaving process is gone.
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
    /// To start: one served already.
    AlreadyOnline,
    /// To start, restart and replace: it ran, ended as its policy allows, and rests.
    Finished(Exit),
    /// To replace: the new process serves. The old one may still be draining.
    Replaced,
    /// To stop: no process of the slot is left.
    Stopped,
    /// To delete: no process of the slot is left, and it takes no command that starts one.
    Deleted,
    /// It did not come to that.
    Failed(Fault),
}

/// Why a command did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// The process did not say that it is ready.
    NotReadyInTime {
        /// How long it was given.
        waited: Duration,
    },
    /// The process ended, or never began.
    Exited(Exit),
    /// Another command came in between.
    Cancelled { by: Verb },
    /// The slot is being deleted.
    Deleting,
    /// The slot is being replaced already.
    BeingReplaced,
    /// [`WAITING_MAX`](super::WAITING_MAX) commands wait already.
    TooManyWaiting,
    /// An app that this one depends on is not there, or did not start.
    DependencyFailed { name: String },
}
