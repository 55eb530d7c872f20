//! The documents of `compare --json` and `tune --json`, and of their pages: stable keys, rates per second,
//! times in milliseconds unless the key says otherwise, ratios arm ÷ baseline. Unknown numbers are `null`.

mod compare;
mod trust;
mod tune;

use serde::Serialize;

pub use compare::{
    ArmDocument, BestDocument, BlockDocument, CapacityPoint, CompareDocument, Comparison, Errors, Latency,
    LatencyRatios, LeadDocument, PercentileRatio, PlainRatio, Rate, Ratio, TrialDocument, TrialLatency,
};
pub use trust::{Trust, TrustNote};
pub use tune::{CandidateDocument, Choice, Patch, Refused, TuneDocument, UslDocument};

/// The version of these documents' keys.
pub const VERSION: u32 = 1;

/// The header of both kinds of documents.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "LabHeading"))]
pub struct Heading {
    /// The verdict in words, for people.
    pub headline: String,
    /// Further sentences.
    pub details: Vec<String>,
    /// Version of Forkful.
    pub forkful: String,
    /// When the run began, in milliseconds since the Unix epoch.
    pub created_at_ms: u64,
    /// The command that repeats the run.
    pub command: String,
    /// Seed of the block order and of the resamples.
    pub seed: u64,
    /// The measured request.
    pub target: TargetDocument,
    pub machine: Machine,
    /// `compare --git`: the commits, in the order of the arms.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<VersionDocument>,
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VersionDocument {
    /// As the user named it.
    pub name: String,
    pub commit: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TargetDocument {
    /// The script as the user named it.
    pub script: String,
    /// `GET`, …
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The request that ran beside the measured one: `GET /delay at 2/s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
}

/// The machine's properties that affect results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Machine {
    /// Usable cores.
    pub cores: u16,
    pub cpu: String,
    pub kernel: String,
    /// Version of Node.js.
    pub node: String,
    /// Memory of the machine.
    pub memory_bytes: u64,
    /// CPU frequency governor, if the kernel reports it.
    pub governor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "LabPlan"))]
pub struct PlanDocument {
    pub budget_s: f64,
    pub took_s: f64,
    /// Undisturbed blocks that count.
    pub blocks: usize,
    /// The block counts at which the result was judged.
    pub looks: Vec<usize>,
    /// Connections of the closed loop.
    pub connections: usize,
    /// Whether connections were kept (keep-alive).
    pub keep_alive: bool,
    /// Length of the longest warm-up of any arm.
    pub warmup_s: f64,
    /// Length of the window at saturation.
    pub window_s: f64,
    /// Length of each window at a fixed rate; 0 if there is none.
    pub latency_window_s: f64,
    /// When servers were restarted.
    pub restarts: String,
}
