//! Apps and workers as the daemon sees them.

use std::collections::BTreeMap;

use forkful_core::doctor::OpenTrial;
use forkful_core::outgoing::{HostLoad, HostUse};
use forkful_core::stalls::StallCost;
use serde::{Deserialize, Serialize};

use super::{AppDefinition, BalanceKind};
use crate::conversation::WorkerReports;

/// An app as the daemon sees it now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AppView {
    /// What the user asked for, without the environment.
    pub definition: AppDefinition,
    /// Names (not values) of the environment's variables.
    pub env_names: Vec<String>,
    /// What does not work as the app expects, and what to do, such as that log4js loses lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Addresses that its workers listen on, as `tcp://127.0.0.1:3000`, `unix:/path`, `udp://…`.
    pub listening: Vec<String>,
    /// When the app was created.
    pub created_at_ms: u64,
    /// What all its processes use, by the kernel's accounts; only where the daemon can make control groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<AppUsage>,
    /// Event loops that stood still since the app was added, if any did; more by `GET /v1/stalls/{target}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<StallCost>,
    /// A change of `forkful doctor --fix` that is in place, and that nobody has decided about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<OpenTrial>,
    /// How its memory is divided over its workers, with `memory: auto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_plan: Option<MemoryPlanView>,
    /// The last change of the number of workers by the load, and why; none since the start of the app, or the number is fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scaling: Option<String>,
    /// The hosts to which its workers have opened connections, such as databases: at most 16, those with most connections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outgoing: Vec<HostLoad>,
    /// How new connections go now: `exact`, `direct`, … (`auto` resolves to one of them), one per address.
    pub dispatch: Vec<DispatchView>,
    /// Its workers by slot.
    pub workers: Vec<WorkerView>,
}

/// What all processes of an app use, from its control group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AppUsage {
    /// Memory, without the part of the page cache that is not in use.
    pub memory_bytes: Option<u64>,
    /// CPU, as a share of one core, between the last two looks.
    pub cpu_percent: Option<f32>,
    /// CPU time since the app's first start.
    pub cpu_time_ms: Option<u64>,
    /// How often the kernel has killed one of its processes because memory ran out.
    pub out_of_memory_kills: u64,
}

/// How the memory of an app is divided over its workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MemoryPlanView {
    /// All of it, in words.
    pub text: String,
    /// What is divided.
    pub limit_bytes: u64,
    /// Who sets that limit: `memory_max`, a control group, or the machine.
    pub limit_of: String,
    /// What each worker may have for itself, without pages that all share.
    pub worker_bytes: u64,
    /// The heap limit that each worker is given; `null` where it has one already, or there is too little memory.
    pub heap_mib: Option<u64>,
    /// A worker that has more for itself is replaced.
    pub replaced_above_bytes: Option<u64>,
}

/// What all processes of a worker use, from its own control group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkerUsage {
    /// Memory, without the part of the page cache that is not in use; `null` where the group has no account of it.
    pub memory_bytes: Option<u64>,
    /// CPU, as a share of one core, between the last two looks.
    pub cpu_percent: Option<f32>,
    /// CPU time since the worker's process was started.
    pub cpu_time_ms: Option<u64>,
}

/// Counters of one listening address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DispatchView {
    /// The address.
    pub address: String,
    /// What new connections do now.
    pub mode: BalanceKind,
    /// Connections handed over by the daemon since the start.
    pub handed_over: u64,
    /// Of these, taken out of the queue of a stuck, dead or leaving worker.
    pub rescued: u64,
    /// Connections that a worker may have had when it died or was given up, so that no other got them.
    #[serde(default)]
    pub lost: u64,
    /// Times a worker was found not to turn its loop.
    pub suspected: u64,
    /// Times steering was changed.
    pub steered: u64,
}

/// A worker as the daemon sees it now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkerView {
    /// Id, unique in the daemon.
    pub pm_id: u32,
    /// Slot, the value of `NODE_APP_INSTANCE`.
    pub slot: u16,
    /// Process id, when there is a process.
    pub pid: Option<u32>,
    /// State.
    pub status: Status,
    /// Restarts, asked for or not.
    pub restarts: u32,
    /// Unexpected exits that led to a restart, which `restarts` counts as well, or to giving up.
    #[serde(default)]
    pub crashes: u32,
    /// Unstable exits in the window.
    pub unstable_restarts: u32,
    /// When the present process was started (or, when there is none, the last one).
    pub started_at_ms: Option<u64>,
    /// CPU of the process, 100 is one core.
    pub cpu_percent: f32,
    /// Resident memory of the process.
    pub memory_bytes: u64,
    /// stdout file.
    pub out_log_path: String,
    /// stderr file.
    pub error_log_path: String,
    /// How the last process ended, in words.
    pub last_exit: Option<String>,
    /// The last exit code, when there was one.
    pub exit_code: Option<i32>,
    /// Why the worker is in this state, when that needs saying.
    pub reason: Option<String>,
    /// Why the worker was last replaced by itself: its limits, its health, changed files, the clock.
    #[serde(default)]
    pub renewed: Option<String>,
    /// What was wrong with the last health check.
    #[serde(default)]
    pub health_fault: Option<String>,
    /// How late the event loop was, in milliseconds (99th percentile of the last second), while that is measured.
    #[serde(default)]
    pub loop_delay_ms: Option<f64>,
    /// What its agent has measured, by the names in docs/METRICS.md.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// For how long its event loop has not turned, in milliseconds, when that is so long that it counts as blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_ms: Option<u64>,
    /// What its process and all that it started use, by the kernel's accounts; only where its control group has some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<WorkerUsage>,
    /// The last lines of stderr; only in `GET /v1/apps/{target}`.
    #[serde(default)]
    pub stderr_tail: Vec<String>,
    /// Log lines that could not be written.
    pub dropped_log_lines: u64,
    /// Which log file cannot be written now and why, while lines are lost by it.
    #[serde(default)]
    pub log_fault: Option<String>,
    /// The version of its Node.js, as `22.11.0`; its agent says so.
    #[serde(default)]
    pub node_version: Option<String>,
    /// The hosts to which it has opened connections, such as databases: at most 16, those with most connections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outgoing: Vec<HostUse>,
    /// What its `@pm2/io` says of it.
    #[serde(default)]
    pub reports: WorkerReports,
}

forkful_core::named! {
    /// A worker's state, in PM2's words.
    #[cfg_attr(test, derive(schemars::JsonSchema))]
    pub enum Status {
        /// Running and ready.
        Online = "online",
        /// Started, not ready yet.
        Launching = "launching",
        /// Asked to leave.
        Stopping = "stopping",
        /// Not running, by wish.
        Stopped = "stopped",
        /// Not running, because its program has ended with code 0 and is not to be started again.
        Finished = "finished",
        /// Given up.
        Errored = "errored",
        /// Waiting for its next start.
        WaitingRestart = "waiting restart",
    }
}
