//! The API types of the stall ledger: when and where event loops were blocked, and the cost.

use forkful_core::stalls::{Stall, StallCost};
use serde::{Deserialize, Serialize};

/// Reply of `GET /v1/stalls/{target}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StallsReply {
    /// One entry per app matched by the target.
    pub apps: Vec<AppStalls>,
}

/// The stalls of an app since it was added. They survive a daemon that goes on with its workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AppStalls {
    /// The app.
    pub app: String,
    /// Minimum duration of a recorded stall; 0 if none are recorded.
    pub threshold_ms: u64,
    /// The total.
    pub total: StallCost,
    /// By function and route, the most expensive first; at most 128.
    pub groups: Vec<StallGroupView>,
    /// The total of groups that had no room.
    pub others: StallCost,
    /// The most recent stalls, newest first; at most 32.
    pub recent: Vec<WorkerStallView>,
    /// Workers whose event loop is blocked now.
    pub standing: Vec<StandingView>,
}

/// Stalls in the same function and route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StallGroupView {
    /// The request that was being handled: its method, and its path without the parts that differ from
    /// request to request.
    pub route: Option<String>,
    /// The function with most of the time, with file and line.
    pub function: Option<String>,
    /// The cost.
    #[serde(flatten)]
    pub cost: StallCost,
    /// When the most recent stall began, in milliseconds since the Unix epoch.
    pub last_at_ms: u64,
    /// The stack of the longest stall, innermost function first.
    pub stack: Vec<String>,
}

/// One stall of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkerStallView {
    /// When it began, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The worker.
    pub pm_id: u32,
    /// Its details.
    #[serde(flatten)]
    pub stall: Stall,
}

/// A worker whose event loop is blocked now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StandingView {
    /// The worker.
    pub pm_id: u32,
    /// How long it has been blocked.
    pub for_ms: u64,
    /// What it is doing, as far as the kernel knows.
    pub doing: String,
}

/// An event loop was blocked; it runs again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StallEvent {
    /// The app.
    pub app: String,
    /// When, where, and what it cost.
    #[serde(flatten)]
    pub stall: WorkerStallView,
}
