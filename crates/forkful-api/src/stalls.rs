//! The stall ledger as it travels: when event loops stood still, where, and what that cost.

use forkful_core::stalls::{Stall, StallCost};
use serde::{Deserialize, Serialize};

/// Reply of `GET /v1/stalls/{target}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StallsReply {
    /// One entry per app that the target named.
    pub apps: Vec<AppStalls>,
}

/// The stalls of an app since the daemon's start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AppStalls {
    /// The app.
    pub app: String,
    /// The shortest stall that is noted; 0 where none is.
    pub threshold_ms: u64,
    /// All of them.
    pub total: StallCost,
    /// By function and route, those first that cost the most; at most 128.
    pub groups: Vec<StallGroupView>,
    /// Those of groups that had no room.
    pub others: StallCost,
    /// The last ones, the newest first; at most 32.
    pub recent: Vec<WorkerStallView>,
    /// Workers whose event loop stands now.
    pub standing: Vec<StandingView>,
}

/// Stalls in the same function of the same route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StallGroupView {
    /// The request that was being served: its method, and its path without what differs from request to request.
    pub route: Option<String>,
    /// Where most of the time went: a function with its file and line.
    pub function: Option<String>,
    /// What they cost.
    #[serde(flatten)]
    pub cost: StallCost,
    /// When the last one began, in milliseconds since the Unix epoch.
    pub last_at_ms: u64,
    /// The stack of the longest one, the innermost function first.
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
    /// What is known of it.
    #[serde(flatten)]
    pub stall: Stall,
}

/// A worker whose event loop stands now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StandingView {
    /// The worker.
    pub pm_id: u32,
    /// For how long.
    pub for_ms: u64,
    /// What it does meanwhile, as far as the kernel knows.
    pub doing: String,
}

/// An event loop has stood still; it turns again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StallEvent {
    /// The app.
    pub app: String,
    /// When, where, and what it cost.
    #[serde(flatten)]
    pub stall: WorkerStallView,
}
