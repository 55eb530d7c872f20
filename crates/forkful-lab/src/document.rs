//! What `compare --json` and `tune --json` print and what their pages show: stable keys, rates per second, times in
//! milliseconds unless the key says otherwise, ratios arm ÷ baseline. Unknown numbers are `null`.

use std::collections::BTreeMap;

use forkful_load::report::{Check, Level};
use serde::Serialize;

use crate::statistics::usl::Usl;
use crate::statistics::verdict::Word;

/// The version of these documents' keys.
pub const VERSION: u32 = 1;

/// What both kinds begin with.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Heading {
    /// The verdict in words, for people.
    pub headline: String,
    /// Further sentences.
    pub details: Vec<String>,
    /// Version of Forkful.
    pub forkful: String,
    /// When the run began, milliseconds since 1970.
    pub created_at_ms: u64,
    /// Repeats the run.
    pub command: String,
    /// What the order of blocks and the resamples come from.
    pub seed: u64,
    /// What was asked for.
    pub target: TargetDocument,
    pub machine: Machine,
    /// `compare --git`: the commits, in the order of the arms.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<VersionDocument>,
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VersionDocument {
    /// As the user named it.
    pub name: String,
    pub commit: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TargetDocument {
    /// What was started, as the user named it.
    pub script: String,
    /// `GET`, …
    pub method: String,
    /// Path and query.
    pub path: String,
    /// What was asked all the while and not measured: `GET /delay at 2/s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
}

/// The machine, as far as it decides figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Cores that may be used.
    pub cores: u16,
    pub cpu: String,
    pub kernel: String,
    /// Version of Node.js.
    pub node: String,
    /// Memory of the machine.
    pub memory_bytes: u64,
    /// Frequency governor, where the kernel tells.
    pub governor: Option<String>,
}

/// `compare --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CompareDocument {
    /// `compare`.
    pub kind: String,
    /// [`VERSION`].
    pub version: u32,
    #[serde(flatten)]
    pub heading: Heading,
    /// Whether it was an arm against itself.
    pub aa: bool,
    /// Verdict of the first comparison.
    pub verdict: Word,
    pub throughput: Ratio,
    pub latency: LatencyRatios,
    /// Whether the figures can be trusted.
    pub trustworthy: bool,
    pub plan: PlanDocument,
    pub arms: Vec<ArmDocument>,
    /// Each arm against the baseline.
    pub comparisons: Vec<Comparison>,
    /// With three arms and more: the one that answers most, against each of the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<BestDocument>,
    /// The search for saturation: points of all arms.
    pub capacity: Vec<CapacityPoint>,
    pub blocks: Vec<BlockDocument>,
    /// Why to trust, or not.
    pub trust: Trust,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanDocument {
    pub budget_s: f64,
    pub took_s: f64,
    /// Undisturbed blocks that count.
    pub blocks: usize,
    /// Numbers of blocks at which the result was looked at.
    pub looks: Vec<usize>,
    /// Connections of the closed loop.
    pub connections: usize,
    /// Whether connections are kept.
    pub keep_alive: bool,
    /// Length of the longest arm's warm-up.
    pub warmup_s: f64,
    /// Length of the window at saturation.
    pub window_s: f64,
    /// Length of each window at a given rate; 0 for none.
    pub latency_window_s: f64,
    /// When servers are started anew.
    pub restarts: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArmDocument {
    pub name: String,
    pub label: String,
    pub workers: u16,
    /// Its `UV_THREADPOOL_SIZE`, where it differs from the app's.
    pub pool: Option<u32>,
    /// Whether the others are compared with it.
    pub baseline: bool,
    /// Requests per second at saturation.
    pub throughput: Rate,
    /// CPU time of its whole tree of processes for one request.
    pub cpu_per_request_us: Option<f64>,
    /// Cores that it used at saturation.
    pub cores_used: f64,
    /// Memory of its whole tree after the windows, shared pages counted once.
    pub memory_bytes: u64,
    /// Processes of its tree.
    pub processes: usize,
    /// From its start to its first answer.
    pub start_ms: f64,
    /// Requests that were answered in windows.
    pub requests: u64,
    pub errors: Errors,
    /// At equal rates, open loop: times since each request was due.
    pub latency: Vec<Latency>,
    /// At saturation, closed loop: not to be compared between arms.
    pub service_time: Option<Latency>,
}

/// A rate with its interval over blocks.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Rate {
    /// Geometric mean.
    pub per_second: f64,
    /// Its 95 % interval; `null` below two blocks.
    pub ci95: Option<[f64; 2]>,
    /// One value for each block that counts.
    pub blocks: Vec<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Errors {
    pub total: u64,
    /// By cause, in words.
    pub by_cause: BTreeMap<String, u64>,
}

/// A distribution of times.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Latency {
    /// Share of the weakest arm's capacity.
    pub load: f64,
    /// Requests per second that were offered; at saturation, that were answered.
    pub rate: f64,
    pub samples: u64,
    /// Requests without an answer when the waiting ended: more than 1 % of them leave no 99th percentile.
    pub unfinished: u64,
    /// The arm could not keep up with the rate: there is no steady state that percentiles could describe.
    pub overloaded: bool,
    pub mean_ms: Option<f64>,
    pub p50_ms: Option<f64>,
    /// Percentiles; `null` where there are too few samples to tell.
    pub p90_ms: Option<f64>,
    /// 99th.
    pub p99_ms: Option<f64>,
    /// 99.9th.
    pub p999_ms: Option<f64>,
    pub max_ms: Option<f64>,
    /// `[percentile, milliseconds]`, blocks merged.
    pub spectrum: Vec<[f64; 2]>,
}

/// A ratio with its interval.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Ratio {
    /// Arm ÷ baseline, geometric mean over blocks; `null` when no block has both.
    pub ratio: Option<f64>,
    /// Student's 95 % interval.
    pub ci95: Option<[f64; 2]>,
    /// The Hodges–Lehmann estimate, which a single wild block does not move.
    pub hodges_lehmann: Option<f64>,
    /// Two-sided p-value of the signed-rank test.
    pub signed_rank_p: Option<f64>,
    /// The smallest difference that these blocks would have called one, by the rule of the verdict, in 8 of 10 runs.
    pub resolution_percent: Option<f64>,
}

/// A ratio without interval.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct PlainRatio {
    /// Arm ÷ baseline.
    pub ratio: Option<f64>,
}

/// Latency of an arm against the baseline's.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct LatencyRatios {
    pub p50: Option<PercentileRatio>,
    /// 90th percentiles, where no higher one has requests enough in every window for an interval.
    pub p90: Option<PercentileRatio>,
    /// 95th percentiles, where the 99th has none.
    pub p95: Option<PercentileRatio>,
    pub p99: Option<PercentileRatio>,
    /// Why there is no 99th percentile, or none with an interval.
    pub p99_reason: Option<String>,
}

/// One percentile against the baseline's at the same offered rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PercentileRatio {
    /// Share of the weakest arm's capacity.
    pub load: f64,
    /// Arm ÷ baseline: below 1 is quicker.
    pub ratio: Option<f64>,
    /// 95 % interval over blocks.
    pub ci95: Option<[f64; 2]>,
    /// The baseline's, blocks merged.
    pub baseline_ms: Option<f64>,
    /// The arm's, blocks merged.
    pub arm_ms: Option<f64>,
    pub verdict: Word,
}

/// An arm against the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    pub baseline: String,
    pub arm: String,
    pub throughput: Ratio,
    /// CPU time for one request.
    pub cpu_per_request: Ratio,
    pub memory: PlainRatio,
    /// Times at equal rates.
    pub latency: LatencyRatios,
    /// On throughput, in a word.
    pub verdict: Word,
    /// Inconclusive: blocks that would probably settle it.
    pub more_blocks: Option<usize>,
    /// No difference: the largest that could hide, in percent.
    pub hidden_percent: Option<f64>,
    pub sentence: String,
}

/// The arm with the most requests per second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BestDocument {
    pub arm: String,
    pub leads: Vec<LeadDocument>,
    pub sentence: String,
}

/// How far the best is ahead of another arm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LeadDocument {
    /// The other arm.
    pub over: String,
    /// Best ÷ other.
    pub throughput: Ratio,
    /// By an interval that allows for there being several.
    pub verdict: Word,
}

/// One point of the search for saturation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CapacityPoint {
    pub arm: String,
    pub connections: usize,
    pub per_second: f64,
    /// Median of the response time.
    pub p50_ms: f64,
    /// 99th percentile, as far as these short windows tell.
    pub p99_ms: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BlockDocument {
    /// From 1.
    pub number: usize,
    /// The arms in the order in which they ran.
    pub order: Vec<String>,
    /// What others did to the machine meanwhile.
    pub disturbed: Option<String>,
    /// Whether its figures are in the result. Disturbed ones are, where there are no clean ones.
    pub counted: bool,
    /// Figures by arm.
    pub arms: BTreeMap<String, TrialDocument>,
}

/// An arm in a block.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TrialDocument {
    /// Answers per second at saturation.
    pub per_second: f64,
    /// CPU time of the server for one request.
    pub cpu_per_request_us: Option<f64>,
    /// Percentiles by load (`0.5`).
    pub latency: BTreeMap<String, TrialLatency>,
    /// The window at saturation: `[seconds, answers per second]`.
    pub timeline: Vec<[f64; 2]>,
}

/// Percentiles of one window at a rate.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TrialLatency {
    pub p50_ms: Option<f64>,
    /// 99th; `null` below 1,000 samples.
    pub p99_ms: Option<f64>,
}

/// Whether figures can be trusted.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Trust {
    pub text: String,
    /// Whether the load generator was the bottleneck.
    pub generator_saturated: bool,
    /// Cores that it used at saturation, at most.
    pub generator_cores_used: f64,
    /// The smallest difference in throughput that these blocks resolve.
    pub resolution_percent: Option<f64>,
    /// Findings: warnings, of which one makes the figures doubtful, and what is worth knowing.
    pub notes: Vec<TrustNote>,
    /// The same as a list of checks.
    pub checks: Vec<Check>,
}

/// A generator's thread that is busier is the bottleneck.
const GENERATOR_BUSY_MAX: f64 = 0.9;

impl Trust {
    /// Begins with the generator: the share of its busiest thread, the cores that it used, and what a busy one may hide.
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

    /// The texts of all findings of a level.
    pub(crate) fn texts(&self, level: Level) -> impl Iterator<Item = &str> {
        self.notes.iter().filter(move |note| note.level == level).map(|note| note.text.as_str())
    }

    /// No warning.
    pub(crate) fn is_trustworthy(&self) -> bool {
        self.texts(Level::Warning).next().is_none()
    }

    /// Says it in one sentence.
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
pub struct TrustNote {
    /// `warning`: figures are wrong or doubtful; `note`: worth knowing.
    pub level: Level,
    /// Stable name.
    pub code: &'static str,
    pub text: String,
}

/// `tune --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    /// Every candidate, best first.
    pub table: Vec<CandidateDocument>,
    /// The law that explains the curve over workers.
    pub usl: Option<UslDocument>,
    /// What would be, or was, written.
    pub patch: Option<Patch>,
    /// Why to trust, or not.
    pub trust: Trust,
}

/// The answer of `tune`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    pub workers: u16,
    /// `UV_THREADPOOL_SIZE`.
    pub pool: u32,
    /// Whether the pool's size makes a difference; if not, `pool` is what the app has now.
    pub pool_matters: bool,
    /// Share of resamples that choose the same, 0 to 1.
    pub stability: f64,
    pub sentence: String,
}

/// One candidate of `tune`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CandidateDocument {
    pub workers: u16,
    /// `UV_THREADPOOL_SIZE`.
    pub pool: u32,
    /// Requests per second at saturation, as if all had run in the same rounds.
    pub per_second: f64,
    /// Its 95 % interval.
    pub ci95: Option<[f64; 2]>,
    /// Whether it is the best, with which the others are compared.
    pub best: bool,
    /// Against the best, in percent; 0 for the best itself.
    pub relative_percent: f64,
    /// Its 95 % interval; `null` for the best, and where too few windows tell the noise.
    pub relative_ci95_percent: Option<[f64; 2]>,
    /// Whether it can carry 70 % of the best's capacity.
    pub carries_70: bool,
    /// 99th percentile at that rate; `null` when it cannot carry it, was not measured, or with too few samples.
    pub p99_at_70_ms: Option<f64>,
    /// The same for the 95th.
    pub p95_at_70_ms: Option<f64>,
    /// The same for the 90th.
    pub p90_at_70_ms: Option<f64>,
    /// 99th percentile at 70 % of its own capacity, which is less than the best's: with `tune --save`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_at_own_70_ms: Option<f64>,
    /// Memory of its whole tree.
    pub memory_bytes: u64,
    /// CPU time for one request.
    pub cpu_per_request_us: Option<f64>,
    /// Rounds that it was measured in.
    pub rounds: usize,
    /// The round after which it was out.
    pub dropped_in_round: Option<usize>,
    /// Nothing else is better in one of throughput, p99 and memory without being worse in another.
    pub pareto: bool,
    pub chosen: bool,
    /// Share of resamples that choose it, in percent.
    pub share_percent: f64,
    /// Answers per second of each round, as they were measured.
    pub blocks: Vec<f64>,
}

/// The fitted law with its meaning.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UslDocument {
    #[serde(flatten)]
    pub law: Usl,
    /// The size of the thread pool whose candidates it is fitted to.
    pub pool: u32,
    /// Workers at the law's peak; `null` when it has none.
    pub peak: Option<f64>,
    pub sentence: String,
    /// `[workers, requests per second]`.
    pub curve: Vec<[f64; 2]>,
}

/// A change of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Patch {
    pub file: String,
    /// Whether it has been written.
    pub applied: bool,
    /// The change, for people.
    pub text: String,
}
