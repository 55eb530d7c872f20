//! What threads and tasks send to the engine when their work is done.

use std::path::PathBuf;

use forkful_api::incidents::Incident;
use forkful_core::otlp::Fault;
use forkful_core::slot::Generation;
use forkful_core::supervisor::Warmed;
use forkful_os::process::Child;

use super::app::AppId;
use super::jobs::JobId;
use super::{app_metrics, apply, resurrect, starting};
use crate::command::Command;

/// What comes back from work that was done elsewhere.
#[derive(Debug)]
pub(crate) enum Back {
    /// The next step of a configuration that is being applied.
    Step(Command),
    /// Metrics have been sent for OpenTelemetry, or not.
    Exported { app: AppId, receiver: String, outcome: Result<(), Fault> },
    /// Metrics that workers want have been merged.
    Merged(Box<app_metrics::Merged>),
    /// A configuration that is being applied begins its next step: its number, and how far it is.
    Advanced(u64, forkful_core::apply::Progress),
    /// A configuration has been applied, or taken back.
    Applied(apply::Applied),
    /// Log files have been emptied.
    Flushed { job: JobId, app: AppId, fault: Option<String> },
    /// What a watch of files has to tell.
    Files { app: AppId, news: crate::watch::News },
    /// A health check has an answer.
    Health {
        app: AppId,
        slot: u16,
        /// Of which of its processes.
        generation: Generation,
        /// What was wrong, if anything.
        answer: Result<(), String>,
    },
    /// What has become of a request that warms a worker up.
    Warmed { app: AppId, slot: u16, generation: Generation, outcome: Warmed },
    /// A saved state has been read.
    Loaded(resurrect::Resurrection, Result<crate::store::Loaded, String>),
    /// The `.env` files of saved apps have been read.
    Revived(resurrect::Resurrection, Vec<resurrect::Candidate>),
    /// A thread has started a worker's process, or could not.
    Started {
        /// The number of the start.
        number: u64,
        result: starting::StartResult,
    },
    /// The script of a worker has a primary part of its own.
    OwnPrimary {
        app: AppId,
        slot: u16,
        /// Of which of its processes.
        generation: Generation,
    },
    /// A thread has started a process that is no worker, or could not.
    HelperStarted {
        /// The number of the start.
        number: u64,
        result: Result<Child, String>,
        /// Gets it.
        waits: tokio::sync::oneshot::Sender<Result<Child, String>>,
    },
    /// What workers have answered of their prom-clients has been read.
    Reported(Vec<app_metrics::Reported>),
    /// An incident has been written.
    Noted(Box<Incident>),
    /// The disk of a log file is full.
    DiskFull { path: PathBuf, fault: String },
    /// A process that is no worker has ended, and was reaped.
    HelperEnded { pid: u32 },
}
