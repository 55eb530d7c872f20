//! The documents of `compare --json` and `tune --json`, and of their pages: stable keys, rates per second,
//! times in milliseconds unless the key says otherwise, ratios arm ÷ baseline. Unknown numbers are `null`.

use std::collections::BTreeMap;

use forkful_core::outgoing::HostLoad;
use forkful_load::report::{Check, Level};
use serde::Serialize;

use crate::statistics::usl::Usl;
use crate::statistics::verdict::Word;

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

/// The document of `compare --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CompareDocument {
    /// `compare`.
    pub kind: String,
    /// [`VERSION`].
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

/// Whether the figures can be trusted.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "LabTrust"))]
pub struct Trust {
    pub text: String,
    /// Whether the load generator was the bottleneck.
    pub generator_saturated: bool,
    /// Maximum cores that the generator used at saturation.
    pub generator_cores_used: f64,
    /// The smallest difference in throughput that these blocks can detect.
    pub resolution_percent: Option<f64>,
    /// Findings: warnings, each of which makes the figures doubtful, and notes.
    pub notes: Vec<TrustNote>,
    /// The same as a list of checks.
    pub checks: Vec<Check>,
}

/// A generator thread above this share is the bottleneck.
const GENERATOR_BUSY_MAX: f64 = 0.9;

impl Trust {
    /// Starts with the generator's check: the busiest thread's share, the cores used, and what a saturated
    /// generator may hide.
    pub(crate) fn of_generator(busiest: f64, cores_used: f64, hidden: &str) -> Self {
        let is_saturated = busiest >= GENERATOR_BUSY_MAX;
        let mut trust =
            Self { generator_saturated: is_saturated, generator_cores_used: cores_used, ..Self::default() };
        let share = format!("{:.0} %", busiest * 100.0);
        if is_saturated {
            let text = format!("the load generator was busy for {share} of the time, so that {hidden}");
            trust.note(Level::Warning, "generator_saturated", text);
        }
        trust.checks.push(
            Check::judged("generator's busiest thread", Some(!is_saturated))
                .found(share, "90 %")
                .means("a generator that is always busy measures itself"),
        );
        trust
    }

    pub(crate) fn note(&mut self, level: Level, code: &'static str, text: impl Into<String>) {
        self.notes.push(TrustNote { level, code, text: text.into() });
    }

    /// The texts of all findings of this level.
    pub(crate) fn texts(&self, level: Level) -> impl Iterator<Item = &str> {
        self.notes.iter().filter(move |note| note.level == level).map(|note| note.text.as_str())
    }

    /// Whether there is no warning.
    pub(crate) fn is_trustworthy(&self) -> bool {
        self.texts(Level::Warning).next().is_none()
    }

    /// Sets the summary sentence.
    pub(crate) fn concluded(mut self) -> Self {
        let warnings: Vec<&str> = self.texts(Level::Warning).collect();
        self.text = if warnings.is_empty() {
            "nothing was found that would make these figures doubtful".to_owned()
        } else {
            format!("these figures are doubtful: {}", warnings.join("; "))
        };
        self
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TrustNote {
    /// `warning`: figures are wrong or doubtful; `note`: for information.
    pub level: Level,
    /// A stable identifier.
    pub code: &'static str,
    pub text: String,
}

/// The document of `tune --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TuneDocument {
    /// `tune`.
    pub kind: String,
    /// [`VERSION`].
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
