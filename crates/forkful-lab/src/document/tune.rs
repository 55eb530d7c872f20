//! The document of `tune --json`: the choice, the candidates, and the law behind them.

use forkful_core::outgoing::HostLoad;
use serde::Serialize;

use super::{Heading, PlanDocument, Trust};
use crate::statistics::usl::Usl;

/// The document of `tune --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TuneDocument {
    /// `tune`.
    pub kind: String,
    /// The version of the document's keys.
    pub version: u32,
    #[serde(flatten)]
    pub heading: Heading,
    pub choice: Choice,
    /// Whether the figures can be trusted.
    pub trustworthy: bool,
    pub plan: PlanDocument,
    /// All candidates, best first.
    pub table: Vec<CandidateDocument>,
    /// The scalability law that explains the curve over workers.
    pub usl: Option<UslDocument>,
    /// Numbers of workers with which a host, such as a database, refused connections because it had too many; they are not chosen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refused>,
    /// The change of the configuration, proposed or written.
    pub patch: Option<Patch>,
    /// The trust checks.
    pub trust: Trust,
}

/// A number of workers with which a host refused connections.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "RefusedWorkers"))]
pub struct Refused {
    pub workers: u16,
    pub host: HostLoad,
}

/// The result of `tune`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Choice {
    pub workers: u16,
    /// `UV_THREADPOOL_SIZE`.
    pub pool: u32,
    /// Whether the size of the pool makes a difference; if not, `pool` is the app's current size.
    pub pool_matters: bool,
    /// Share of resamples with the same choice, 0 to 1.
    pub stability: f64,
    pub sentence: String,
}

/// One candidate of `tune`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CandidateDocument {
    pub workers: u16,
    /// `UV_THREADPOOL_SIZE`.
    pub pool: u32,
    /// Requests per second at saturation, adjusted as if all candidates had run in the same rounds.
    pub per_second: f64,
    /// Its 95 % interval.
    pub ci95: Option<[f64; 2]>,
    /// Whether it is the best candidate, with which the others are compared.
    pub best: bool,
    /// Difference to the best in percent; 0 for the best.
    pub relative_percent: f64,
    /// Its 95 % interval; `null` for the best, and if there are too few windows to estimate the noise.
    pub relative_ci95_percent: Option<[f64; 2]>,
    /// Whether it can sustain 70 % of the best candidate's capacity.
    pub carries_70: bool,
    /// 99th percentile at that rate; `null` if it cannot sustain the rate, was not measured, or has too few
    /// samples.
    pub p99_at_70_ms: Option<f64>,
    /// The same for the 95th.
    pub p95_at_70_ms: Option<f64>,
    /// The same for the 90th.
    pub p90_at_70_ms: Option<f64>,
    /// 99th percentile at 70 % of its own capacity, which is less than the best candidate's; with `tune
    /// --save`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_at_own_70_ms: Option<f64>,
    /// Memory of the whole process tree.
    pub memory_bytes: u64,
    /// CPU time per request.
    pub cpu_per_request_us: Option<f64>,
    /// Rounds in which it was measured.
    pub rounds: usize,
    /// The round after which it was dropped.
    pub dropped_in_round: Option<usize>,
    /// No other candidate is better in throughput, p99 or memory without being worse in another of these.
    pub pareto: bool,
    pub chosen: bool,
    /// Share of resamples that choose it, in percent.
    pub share_percent: f64,
    /// Answers per second in each round, as measured.
    pub blocks: Vec<f64>,
}

/// The fitted law with its interpretation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UslDocument {
    #[serde(flatten)]
    pub law: Usl,
    /// The pool size of the candidates that it is fitted to.
    pub pool: u32,
    /// Workers at the law's peak; `null` if there is no peak.
    pub peak: Option<f64>,
    pub sentence: String,
    /// `[workers, requests per second]`.
    pub curve: Vec<[f64; 2]>,
}

/// A change to a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Patch {
    pub file: String,
    /// Whether it was written.
    pub applied: bool,
    /// The change as text for people.
    pub text: String,
}
