//! The document of `compare --json`: the arms, each compared with the baseline, and the blocks that they were measured in.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Heading, PlanDocument, Trust};
use crate::statistics::verdict::Word;

/// The document of `compare --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CompareDocument {
    /// `compare`.
    pub kind: String,
    /// The version of the document's keys.
    pub version: u32,
    #[serde(flatten)]
    pub heading: Heading,
    /// Whether an arm was compared with itself.
    pub aa: bool,
    /// Verdict of the first comparison.
    pub verdict: Word,
    pub throughput: Ratio,
    pub latency: LatencyRatios,
    /// Whether the figures can be trusted.
    pub trustworthy: bool,
    pub plan: PlanDocument,
    pub arms: Vec<ArmDocument>,
    /// Each arm compared with the baseline.
    pub comparisons: Vec<Comparison>,
    /// With three or more arms: the arm that answers most, compared with each of the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<BestDocument>,
    /// The search for the saturation point: the points of all arms.
    pub capacity: Vec<CapacityPoint>,
    pub blocks: Vec<BlockDocument>,
    /// The trust checks.
    pub trust: Trust,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ArmDocument {
    pub name: String,
    pub label: String,
    pub workers: u16,
    /// Its `UV_THREADPOOL_SIZE`, if it differs from the app's.
    pub pool: Option<u32>,
    /// Whether this arm is the baseline.
    pub baseline: bool,
    /// Requests per second at saturation.
    pub throughput: Rate,
    /// CPU time per request of the whole process tree.
    pub cpu_per_request_us: Option<f64>,
    /// Cores used at saturation.
    pub cores_used: f64,
    /// Memory of the whole process tree after the windows; shared pages count once.
    pub memory_bytes: u64,
    /// Number of processes in the tree.
    pub processes: usize,
    /// From its start to its first answer.
    pub start_ms: f64,
    /// Requests answered in the windows.
    pub requests: u64,
    pub errors: Errors,
    /// At equal rates, open loop: times from when each request was due.
    pub latency: Vec<Latency>,
    /// At saturation, closed loop: not comparable between arms.
    pub service_time: Option<Latency>,
}

/// A rate with its interval over blocks.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Rate {
    /// Geometric mean.
    pub per_second: f64,
    /// Its 95 % interval; `null` below two blocks.
    pub ci95: Option<[f64; 2]>,
    /// One value for each counted block.
    pub blocks: Vec<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ArmErrors"))]
pub struct Errors {
    pub total: u64,
    /// By cause, in words.
    pub by_cause: BTreeMap<String, u64>,
}

/// A distribution of times.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Latency {
    /// Share of the slowest arm's capacity.
    pub load: f64,
    /// Requests per second: the offered rate, or at saturation the answered rate.
    pub rate: f64,
    pub samples: u64,
    /// Requests without an answer at the end of the drain; with more than 1 % there is no 99th percentile.
    pub unfinished: u64,
    /// The arm could not keep up with the rate: there is no steady state for percentiles to describe.
    pub overloaded: bool,
    pub mean_ms: Option<f64>,
    pub p50_ms: Option<f64>,
    /// Percentiles; `null` if there are too few samples.
    pub p90_ms: Option<f64>,
    /// 99th.
    pub p99_ms: Option<f64>,
    /// 99.9th.
    pub p999_ms: Option<f64>,
    pub max_ms: Option<f64>,
    /// `[percentile, milliseconds]` over all blocks.
    pub spectrum: Vec<[f64; 2]>,
}

/// A ratio with its interval.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ratio {
    /// Arm ÷ baseline, geometric mean over blocks; `null` if no block has both values.
    pub ratio: Option<f64>,
    /// Student's 95 % interval.
    pub ci95: Option<[f64; 2]>,
    /// The Hodges–Lehmann estimate, which is robust against a single outlier.
    pub hodges_lehmann: Option<f64>,
    /// Two-sided p-value of the signed-rank test.
    pub signed_rank_p: Option<f64>,
    /// The smallest difference that the rule of the verdict would have detected with these blocks in 8 of 10
    /// runs.
    pub resolution_percent: Option<f64>,
}

/// A ratio without an interval.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PlainRatio {
    /// Arm ÷ baseline.
    pub ratio: Option<f64>,
}

/// Latency of an arm compared with the baseline.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LatencyRatios {
    pub p50: Option<PercentileRatio>,
    /// 90th percentiles, if no higher percentile has enough requests in every window for an interval.
    pub p90: Option<PercentileRatio>,
    /// 95th percentiles, if the 99th has no interval.
    pub p95: Option<PercentileRatio>,
    pub p99: Option<PercentileRatio>,
    /// Why there is no 99th percentile, or none with an interval.
    pub p99_reason: Option<String>,
}

/// A percentile of the arm and of the baseline at the same offered rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PercentileRatio {
    /// Share of the slowest arm's capacity.
    pub load: f64,
    /// Arm ÷ baseline; below 1 is faster.
    pub ratio: Option<f64>,
    /// 95 % interval over blocks.
    pub ci95: Option<[f64; 2]>,
    /// The baseline's value over all blocks.
    pub baseline_ms: Option<f64>,
    /// The arm's value over all blocks.
    pub arm_ms: Option<f64>,
    pub verdict: Word,
}

/// An arm compared with the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Comparison {
    pub baseline: String,
    pub arm: String,
    pub throughput: Ratio,
    /// CPU time per request.
    pub cpu_per_request: Ratio,
    pub memory: PlainRatio,
    /// Latency at equal rates.
    pub latency: LatencyRatios,
    /// The verdict on throughput.
    pub verdict: Word,
    /// If inconclusive: the number of further blocks that would probably settle it.
    pub more_blocks: Option<usize>,
    /// If no difference: the largest difference that may exist undetected, in percent.
    pub hidden_percent: Option<f64>,
    pub sentence: String,
}

/// The arm with the most requests per second.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BestDocument {
    pub arm: String,
    pub leads: Vec<LeadDocument>,
    pub sentence: String,
}

/// The lead of the best arm over another arm.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LeadDocument {
    /// The other arm.
    pub over: String,
    /// Best ÷ other.
    pub throughput: Ratio,
    /// From an interval that is corrected for several comparisons.
    pub verdict: Word,
}

/// One point of the search for the saturation point.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CapacityPoint {
    pub arm: String,
    pub connections: usize,
    pub per_second: f64,
    /// Median response time.
    pub p50_ms: f64,
    /// 99th percentile, as precise as these short windows allow.
    pub p99_ms: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BlockDocument {
    /// Number of the block, from 1.
    pub number: usize,
    /// The arms in the order in which they ran.
    pub order: Vec<String>,
    /// The disturbance by other users of the machine, if any.
    pub disturbed: Option<String>,
    /// Whether the block is part of the result. Disturbed blocks are only if there are no undisturbed ones.
    pub counted: bool,
    /// Results by arm.
    pub arms: BTreeMap<String, TrialDocument>,
}

/// An arm in a block.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TrialDocument {
    /// Answers per second at saturation.
    pub per_second: f64,
    /// The server's CPU time per request.
    pub cpu_per_request_us: Option<f64>,
    /// Percentiles by load (`0.5`).
    pub latency: BTreeMap<String, TrialLatency>,
    /// The window at saturation: `[seconds, answers per second]`.
    pub timeline: Vec<[f64; 2]>,
}

/// Percentiles of one window at a fixed rate.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TrialLatency {
    pub p50_ms: Option<f64>,
    /// 99th; `null` below 1,000 samples.
    pub p99_ms: Option<f64>,
}
