//! What the table of workers shows: a small part of an [`AppList`](super::AppList), so that hundreds of apps are listed at once.

use forkful_core::autoscale::ScaleBounds;
use serde::{Deserialize, Serialize};

use super::{ModeKind, Status};

/// `GET /v1/table`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AppTable {
    /// All apps, by the id of their first worker.
    pub apps: Vec<AppRows>,
    /// What a user should know beside them, such as saved apps that cannot be started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// An app's rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AppRows {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its mode.
    pub mode: ModeKind,
    /// Its script, or the program where there is none.
    #[serde(default)]
    pub script: String,
    /// The addresses that it listens on.
    #[serde(default)]
    pub listening: Vec<String>,
    /// Whether changed files reload it.
    #[serde(default)]
    pub watch: bool,
    /// User id of its workers; `null` is the daemon's own.
    #[serde(default)]
    pub uid: Option<u32>,
    /// Between which numbers its number of workers follows the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscale: Option<ScaleBounds>,
    /// Its workers by slot.
    pub workers: Vec<WorkerRow>,
}

/// A worker's row; the fields mean what they mean in a [`WorkerView`](super::WorkerView).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkerRow {
    /// Id, unique in the daemon.
    pub pm_id: u32,
    /// Process id, when there is a process.
    pub pid: Option<u32>,
    /// State.
    pub status: Status,
    /// Restarts, asked for or not.
    pub restarts: u32,
    /// Unexpected exits that led to a restart, which `restarts` counts as well, or to giving up.
    #[serde(default)]
    pub crashes: u32,
    /// When the present process was started (or, when there is none, the last one).
    pub started_at_ms: Option<u64>,
    /// CPU of the process, 100 is one core.
    pub cpu_percent: f32,
    /// Resident memory of the process.
    pub memory_bytes: u64,
    /// Why the worker is in this state, when that needs saying.
    #[serde(default)]
    pub reason: Option<String>,
    /// For how long its event loop has not turned, in milliseconds, when that is so long that it counts as blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_ms: Option<u64>,
}
