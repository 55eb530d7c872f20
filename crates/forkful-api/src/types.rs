//! Request, reply and event types. JSON keys are `snake_case`, durations end in their unit, times are
//! milliseconds since the Unix epoch. Unknown request keys are refused, unknown reply keys ignored.

mod change;
mod doctor;
mod logs;
mod table;
mod target_list;
mod view;

use std::collections::BTreeMap;

use forkful_core::pages::Hint;
use forkful_core::scale::ScaleTarget;
use forkful_core::spec::INSTANCES_MAX;
pub use forkful_core::spec::{Balance as BalanceKind, Mode as ModeKind, Runtime as RuntimeKind};
use serde::{Deserialize, Serialize};

pub use crate::definition::AppDefinition;
pub use change::AppChange;
pub use doctor::{DoctorReply, DoctorReport, EvidenceView, FixView, GainView, WorkerReport};
pub use logs::{LogLine, LogStream, LogsQuery};
pub use table::{AppRows, AppTable, WorkerRow};
pub use target_list::{join_targets, split_targets};
pub use view::{AppUsage, AppView, DispatchView, MemoryPlanView, Status, WorkerUsage, WorkerView};

/// The version of this API; the command and the daemon must agree on it.
pub const API_VERSION: u32 = 1;

/// `GET /v1/ping`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ping {
    /// The daemon's program version.
    pub version: String,
    /// The version of its API.
    pub api: u32,
    /// The daemon's process id.
    pub pid: u32,
    /// The process id of its keeper, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keeper: Option<u32>,
    /// When the daemon started.
    pub started_at_ms: u64,
}

/// `POST /v1/update`: another program in the daemon's place; the apps go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UpdateRequest {
    /// The absolute path of the program, which is a `forkful`.
    pub program: String,
}

/// The daemon makes way for the program, which has read its state and agreed. The API is away for some milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UpdateReply {
    /// The process id of the keeper. It becomes the new program when a daemon of that has served for so long.
    pub keeper: u32,
    /// See `keeper`. A daemon that dies before gives way to one of the program before.
    pub trial_ms: u64,
}

/// `POST /v1/apps`: start apps that do not exist yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StartRequest {
    /// The apps, in the order in which they start.
    #[cfg_attr(test, schemars(length(min = 1, max = TARGETS_MAX)))]
    pub apps: Vec<AppDefinition>,
    /// Reply only when each app is ready or has failed.
    pub wait: bool,
    /// Make the apps, but leave all their workers stopped, whatever `autostart` says.
    #[serde(default)]
    pub stopped: bool,
}

/// `POST /v1/actions/{verb}`; `scale` and `signal` need a field of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ActionRequest {
    /// Names, ids, namespaces, `/patterns/` of names, scripts (as absolute paths), or `all`.
    /// May be empty where `definitions` names apps.
    #[cfg_attr(test, schemars(length(max = TARGETS_MAX)))]
    #[serde(default)]
    pub targets: Vec<String>,
    /// Reply only when done.
    #[serde(default = "yes")]
    pub wait: bool,
    /// `scale`: the new number of workers of each app, or `max` for one on each core, or a change of the present number
    /// as `+2` or `-1`.
    #[cfg_attr(test, schemars(schema_with = "scale_target_schema"))]
    #[serde(default)]
    pub instances: Option<ScaleTarget>,
    /// `signal`: the signal's number.
    #[serde(default)]
    pub signal: Option<i32>,
    /// `restart`, `reload`: new definitions by name. These apps need not be named as targets; those that do not exist are
    /// started. The number of workers is part of a definition.
    #[serde(default)]
    pub definitions: Vec<AppDefinition>,
    /// `restart`, `reload`: new values for apps that keep the rest.
    #[serde(default)]
    pub changes: Vec<AppChange>,
    /// `reload` with `definitions`: when a file of an app's code last changed, by the app's name, in milliseconds since
    /// 1970. An app that is named here keeps its processes when these are younger and its definition is the same.
    #[serde(default)]
    pub code_changed_at_ms: BTreeMap<String, u64>,
}

impl ActionRequest {
    /// What a request must have, and must not have, beyond its types.
    ///
    /// # Errors
    /// What is wrong, in a sentence.
    pub fn check(&self, verb: Verb) -> Result<(), String> {
        let names_none = self.targets.is_empty() && self.definitions.is_empty();
        if names_none || self.targets.len() > TARGETS_MAX {
            return Err(format!("an action names 1 to {TARGETS_MAX} targets"));
        }
        if self.instances.is_some() != (verb == Verb::Scale) {
            return Err("`instances` belongs to `scale`, which needs it".to_owned());
        }
        let is_possible = |number: &u16| (1..=INSTANCES_MAX).contains(number);
        if matches!(&self.instances, Some(ScaleTarget::Exactly(number)) if !is_possible(number)) {
            return Err(format!("`scale` needs a number of workers from 1 to {INSTANCES_MAX}"));
        }
        if self.signal.is_some() != (verb == Verb::Signal) {
            return Err("`signal` belongs to the action `signal`, which needs it".to_owned());
        }
        if self.signal.is_some_and(|signal| !(1..=64).contains(&signal)) {
            return Err("`signal` needs a signal from 1 to 64".to_owned());
        }
        let defined = self.definitions.len() + self.changes.len();
        if defined > 0 && !matches!(verb, Verb::Restart | Verb::Reload) {
            return Err("`definitions` and `changes` belong to `restart` and `reload`".to_owned());
        }
        if defined > TARGETS_MAX {
            return Err(format!("an action holds at most {TARGETS_MAX} definitions and changes"));
        }
        Ok(())
    }
}

/// A number of workers, or a text that [`ScaleTarget`] understands.
#[cfg(test)]
fn scale_target_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "anyOf": [
            { "type": "integer", "minimum": 1, "maximum": INSTANCES_MAX },
            { "type": "string", "pattern": "^([+-]?[0-9]+|max)$" },
            { "type": "null" }
        ]
    })
}

forkful_core::named! {
    /// The verbs of `POST /v1/actions/{verb}`.
    #[cfg_attr(test, derive(schemars::JsonSchema))]
    pub enum Verb {
        /// Stop workers.
        Stop = "stop",
        /// Stop and start workers.
        Restart = "restart",
        /// Replace workers one by one.
        Reload = "reload",
        /// Stop workers and forget them.
        Delete = "delete",
        /// Change the number of workers.
        Scale = "scale",
        /// Send a signal.
        Signal = "signal",
        /// Empty log files.
        Flush = "flush",
        /// Open log files anew.
        ReloadLogs = "reload_logs",
        /// Zero the restart counters.
        Reset = "reset",
    }
}

fn yes() -> bool {
    true
}

/// What became of a command, app by app. HTTP 200 even when an app failed: see `ok`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ActionReply {
    /// One entry per app that the targets named.
    pub apps: Vec<AppOutcome>,
}

/// What became of a command for one app.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AppOutcome {
    /// The app.
    pub name: String,
    /// Whether what was asked for holds now.
    pub ok: bool,
    /// Whether all its workers have ended with code 0 and are not started again.
    #[serde(default)]
    pub finished: bool,
    /// Whether it was left alone, because nothing has changed.
    #[serde(default)]
    pub unchanged: bool,
    /// `restart`, `reload`: whether it did not exist before, and was started.
    #[serde(default)]
    pub started: bool,
    /// `scale`: how many workers it had and has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaled: Option<Scaled>,
    /// Ids of the workers that were touched.
    pub pm_ids: Vec<u32>,
    /// Why not, when `ok` is false; one sentence without a full stop.
    pub error: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// The address of the page that says more about the hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub see: Option<String>,
    /// Things worth knowing, such as that a fork-mode reload is a stop and a start.
    pub notes: Vec<String>,
    /// The last lines of stderr of the worker that failed.
    pub stderr_tail: Vec<String>,
}

/// A change of an app's number of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Scaled {
    /// Workers before.
    pub from: u16,
    /// Workers that the app has from now on.
    pub to: u16,
}

/// An error reply (HTTP 4xx or 5xx).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ErrorReply {
    /// What kind.
    pub code: ErrorCode,
    /// One sentence without a full stop.
    pub error: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The address of the page that says more about the hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub see: Option<String>,
}

impl ErrorReply {
    /// An error with its hint, if there is one.
    pub fn new(code: ErrorCode, error: impl Into<String>, hint: Option<Hint>) -> Self {
        let (hint, see) = hint.map(|hint| (hint.text, hint.see)).unzip();
        Self { code, error: error.into(), hint, see }
    }
}

/// Kinds of error replies, each with its own exit code of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The request makes no sense: HTTP 400.
    BadRequest,
    /// No app or worker of that name or id: HTTP 404.
    NoSuchTarget,
    /// An app of that name exists, or another operation is under way: HTTP 409.
    Conflict,
    /// The daemon is at fault: HTTP 500.
    Internal,
}

/// Query of `GET /v1/apps`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ListQuery {
    /// Have the agents measure for some seconds, see docs/METRICS.md. The first reply has what is known at once; values
    /// of the last second follow in later ones. Measuring ends when nobody asks any more.
    pub measure: bool,
}

/// Query of `GET /v1/metrics`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct MetricsQuery {
    /// A name, id or `all`; all apps without it.
    pub app: Option<String>,
    /// How the page is written; without it, as the request's `Accept` says.
    pub format: Option<MetricsFormat>,
}

/// Query of `GET /v1/history`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct HistoryQuery {
    /// A name of an app, or the id of a worker.
    pub app: String,
    /// Since when; without it, 10 minutes before the end.
    pub from: Option<u64>,
    /// Until when; without it, now.
    pub to: Option<u64>,
    /// Seconds that one value is of; without it, the least that is kept for this time and gives at most 3600 values.
    pub step: Option<u64>,
    /// Names of metrics, separated by commas; without it, all that are kept.
    pub metrics: Option<String>,
}

/// `GET /v1/history`: value i of each series is of the time from `from_ms + i * step_ms` on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HistoryReply {
    /// Its name.
    pub app: String,
    /// When the first value begins.
    pub from_ms: u64,
    /// How long one value is of.
    pub step_ms: u64,
    /// How many values each series has.
    pub points: u64,
    /// Its workers, by slot.
    pub workers: Vec<WorkerHistory>,
}

/// What is kept of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkerHistory {
    /// The number of its slot.
    pub slot: u16,
    /// Its id.
    pub pm_id: u32,
    /// Series by the names of docs/METRICS.md; `null` where nothing is known. Shares are right to 0.4 %, others to 4 %.
    pub series: BTreeMap<String, Vec<Option<f64>>>,
}

/// How the metrics page is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum MetricsFormat {
    /// Prometheus' text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl From<MetricsFormat> for forkful_core::metrics::exposition::Format {
    fn from(format: MetricsFormat) -> Self {
        match format {
            MetricsFormat::Prometheus => Self::Prometheus,
            MetricsFormat::OpenMetrics => Self::OpenMetrics,
        }
    }
}

/// `GET /v1/apps`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AppList {
    /// All apps, by the id of their first worker.
    pub apps: Vec<AppView>,
    /// What a user should know beside them, such as saved apps that cannot be started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The most targets or definitions in one request; a bound on what one message makes the engine do.
pub const TARGETS_MAX: usize = 4096;

/// The largest request body. The largest honest one, a config file with a thousand apps, is far below.
pub const REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The most lines per file that one request reads back; a bound on the daemon's work.
pub const LOG_TAIL_LINES_MAX: u32 = 100_000;
