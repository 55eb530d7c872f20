//! Request, reply and event types. JSON keys are `snake_case`, durations end in their unit, times are
//! milliseconds since the Unix epoch. Unknown request keys are refused, unknown reply keys ignored.

mod change;
mod doctor;
mod logs;
mod printed;
mod start;
mod table;
mod target_list;
mod view;

use std::collections::BTreeMap;

pub use forkful_core::doctor::{OpenTrial, TrialCommands, TrialState};
pub use forkful_core::incidents::{Deployment, FixNote, FixStep};
use forkful_core::metrics::exposition::Format;
use forkful_core::pages::Hint;
use forkful_core::request::Refusal;
use forkful_core::scale::ScaleTarget;
pub use forkful_core::spec::{Balance as BalanceKind, Mode as ModeKind, Runtime as RuntimeKind};
use serde::{Deserialize, Serialize};

pub use crate::definition::AppDefinition;
pub use change::{AppChange, ByApp, Interpreter, WatchChange, cannot_run};
pub use doctor::{
    DoctorReply, DoctorReport, EvidenceView, FixView, FunctionView, GainView, PlaceView, ProfileFiles,
    ProfileView, WorkerReport,
};
pub use logs::{LogLine, LogStream, LogsQuery};
pub use printed::{ConfigFault, Settings, ShownLine, Validated};
pub use start::{MeantApp, StartFault, StartRequest, StartStep, StartTarget, TargetMeaning};
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
    /// The daemon is in the portable mode, which lacks what only Linux has.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub portable: bool,
}

/// `POST /v1/update`: another program replaces the daemon; the apps keep running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UpdateRequest {
    /// The absolute path of the program, which is a `forkful`.
    pub program: String,
}

/// The program has read the daemon's state and agreed to take over. The API is unavailable for some
/// milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UpdateReply {
    /// The process id of the keeper. It becomes the new program after a daemon of the new program has served
    /// for this long.
    pub keeper: u32,
    /// See `keeper`. If the new daemon dies earlier, a daemon of the previous program replaces it.
    pub trial_ms: u64,
}

/// `POST /v1/actions/{verb}`; `scale` and `signal` need their own fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ActionRequest {
    /// Names, ids, namespaces, `/patterns/` of names, scripts (as absolute paths), or `all`. May be empty if
    /// `definitions` names apps.
    #[cfg_attr(test, schemars(length(max = TARGETS_MAX)))]
    #[serde(default)]
    pub targets: Vec<String>,
    /// Further targets, such as the apps of a configuration file. Those that match nothing are left out, with a warning, unless
    /// no target matches anything.
    #[cfg_attr(test, schemars(length(max = TARGETS_MAX)))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub optional_targets: Vec<String>,
    /// Reply only when done.
    #[serde(default = "yes")]
    pub wait: bool,
    /// `scale`: the new number of workers of each app, or `max` for one per core, or a change of the current
    /// number as `+2` or `-1`.
    #[cfg_attr(test, schemars(schema_with = "scale_target_schema"))]
    #[serde(default)]
    pub instances: Option<ScaleTarget>,
    /// `signal`: the signal's number.
    #[serde(default)]
    pub signal: Option<i32>,
    /// `restart`, `reload`: new definitions by name. These apps need not be named as targets; apps that do
    /// not exist are started. The number of workers is part of a definition.
    #[serde(default)]
    pub definitions: Vec<AppDefinition>,
    /// The apps of `definitions` that exist get the caller's environment as it is in their definitions. By default they keep the
    /// variables that they inherited, and a program that was found in their PATH.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub update_env: bool,
    /// `restart`, `reload`: new values for apps that keep all other settings. A change without a name is for all apps of
    /// the targets.
    #[serde(default)]
    pub changes: Vec<AppChange>,
    /// `reload` with `definitions`: when a file of an app's code last changed, by the app's name, in
    /// milliseconds since 1970. An app named here keeps its processes if they started later and its
    /// definition is unchanged.
    #[serde(default)]
    pub code_changed_at_ms: BTreeMap<String, u64>,
    /// `reload`, `scale`, `keep_fix`: the action is a step of `forkful doctor --fix`. A change, and its reversal, are recorded as
    /// incidents of the app once they are done.
    #[serde(default)]
    pub fix: Option<FixNote>,
    /// `restart`, `reload`: the action is a part of a deployment of this version, such as `3f2a9c1 Faster search`. It is recorded as an
    /// incident of each app that the action restarts, reloads or starts. 1 to 256 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<Deployment>,
}

impl ActionRequest {
    /// Checks the requirements of a request beyond its types.
    ///
    /// # Errors
    /// The violated requirement, in a sentence.
    pub fn check(&self, verb: Verb) -> Result<(), String> {
        let targets = self.targets.len() + self.optional_targets.len();
        if targets + self.definitions.len() == 0 || targets > TARGETS_MAX {
            return Err(format!("an action names 1 to {TARGETS_MAX} targets"));
        }
        if self.instances.is_some() != (verb == Verb::Scale) {
            return Err("`instances` belongs to `scale`, which needs it".to_owned());
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
        let is_changed = self.update_env || !self.code_changed_at_ms.is_empty();
        if is_changed && !matches!(verb, Verb::Restart | Verb::Reload) {
            return Err("`update_env` and `code_changed_at_ms` belong to `restart` and `reload`".to_owned());
        }
        if self.deployment.is_some() && !matches!(verb, Verb::Restart | Verb::Reload) {
            return Err("`deployment` belongs to `restart` and `reload`".to_owned());
        }
        self.definitions.iter().try_for_each(AppDefinition::check_kinds)?;
        self.changes.iter().try_for_each(AppChange::check_kinds)?;
        let Some(fix) = &self.fix else {
            return if verb == Verb::KeepFix { Err("`keep_fix` needs `fix`".to_owned()) } else { Ok(()) };
        };
        if !matches!(verb, Verb::Reload | Verb::Scale | Verb::KeepFix) {
            return Err("`fix` belongs to `reload`, `scale` and `keep_fix`".to_owned());
        }
        if (fix.step == FixStep::Keep) != (verb == Verb::KeepFix) {
            return Err("the step `keep` of `fix` belongs to `keep_fix`".to_owned());
        }
        fix.check()
    }
}

/// A number of workers, or a text for [`ScaleTarget`].
#[cfg(test)]
fn scale_target_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "anyOf": [
            { "type": "integer", "minimum": 1, "maximum": forkful_core::spec::INSTANCES_MAX },
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
        /// Stop and remove workers.
        Delete = "delete",
        /// Change the number of workers.
        Scale = "scale",
        /// Send a signal.
        Signal = "signal",
        /// Empty log files.
        Flush = "flush",
        /// Reopen log files.
        ReloadLogs = "reload_logs",
        /// Reset the restart counters to zero.
        Reset = "reset",
        /// Keep the change of `forkful doctor --fix`: its trial is over.
        KeepFix = "keep_fix",
    }
}

fn yes() -> bool {
    true
}

/// The results of a command, app by app. HTTP 200 even if an app failed: see `ok`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ActionReply {
    /// One entry per app matched by the targets.
    pub apps: Vec<AppOutcome>,
    /// `start` with `targets`: what each target means.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetMeaning>,
    /// What a change does not do, such as choosing a block that an app does not have; sentences without a full stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl ActionReply {
    /// Only results.
    pub fn of(apps: Vec<AppOutcome>) -> Self {
        Self { apps, ..Self::default() }
    }
}

/// The result of a command for one app.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AppOutcome {
    /// The app.
    pub name: String,
    /// Whether the command succeeded.
    pub ok: bool,
    /// Whether all its workers have ended with code 0 and are not restarted.
    #[serde(default)]
    pub finished: bool,
    /// Whether it was left unchanged, because nothing has changed.
    #[serde(default)]
    pub unchanged: bool,
    /// `restart`, `reload`: whether it did not exist before, and was started.
    #[serde(default)]
    pub started: bool,
    /// `scale`: the numbers of workers before and after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaled: Option<Scaled>,
    /// Ids of the affected workers.
    pub pm_ids: Vec<u32>,
    /// The error, if `ok` is false; one sentence without a full stop.
    pub error: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// The URL of the page that explains the hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub see: Option<String>,
    /// Notes, such as that a fork-mode reload is a stop and a start.
    pub notes: Vec<String>,
    /// The last stderr lines of the worker that failed.
    pub stderr_tail: Vec<String>,
}

/// A change of an app's number of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Scaled {
    /// Workers before.
    pub from: u16,
    /// The new number of workers.
    pub to: u16,
}

/// An error reply (HTTP 4xx or 5xx).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ErrorReply {
    /// The kind of error.
    pub code: ErrorCode,
    /// One sentence without a full stop.
    pub error: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The URL of the page that explains the hint.
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

impl From<Refusal> for ErrorReply {
    fn from(refusal: Refusal) -> Self {
        let code = if refusal.is_conflict() { ErrorCode::Conflict } else { ErrorCode::BadRequest };
        Self::new(code, refusal.to_string(), refusal.hint())
    }
}

/// Kinds of error replies, each with its own exit code of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The request is invalid: HTTP 400.
    BadRequest,
    /// No app or worker has that name or id: HTTP 404.
    NoSuchTarget,
    /// An app with that name exists, or another operation is running: HTTP 409.
    Conflict,
    /// An internal error of the daemon: HTTP 500.
    Internal,
}

/// Query of `GET /v1/apps`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ListQuery {
    /// Let the agents measure for some seconds, see docs/METRICS.md. The first reply has what is already
    /// known; later replies have values of the last second. Measuring ends when there are no more such
    /// requests.
    pub measure: bool,
}

/// Query of `GET /v1/apps/{target}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct DescribeQuery {
    /// Only what is already known: the agents do not measure for it, and the last lines of stderr are left
    /// out.
    pub brief: bool,
}

/// Query of `GET /v1/metrics`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct MetricsQuery {
    /// A name, id or `all`; without it, all apps.
    pub app: Option<String>,
    /// The page's format; without it, according to the request's `Accept`.
    pub format: Option<Format>,
}

/// Query of `GET /v1/history`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct HistoryQuery {
    /// The name of an app, or the id of a worker.
    pub app: String,
    /// The start, in milliseconds since the Unix epoch; without it, 10 minutes before the end.
    pub from: Option<u64>,
    /// The end, in milliseconds since the Unix epoch; without it, now.
    pub to: Option<u64>,
    /// Seconds per value, at most a week; without it, the smallest stored interval that results in at most 3600 values.
    pub step: Option<u64>,
    /// Names of metrics, separated by commas; without it, all stored metrics.
    pub metrics: Option<String>,
}

/// `GET /v1/history`: value i of each series covers the time from `from_ms + i * step_ms`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HistoryReply {
    /// Its name.
    pub app: String,
    /// The start of the first value.
    pub from_ms: u64,
    /// The duration of one value.
    pub step_ms: u64,
    /// Number of values in each series.
    pub points: u64,
    /// Its workers, by slot.
    pub workers: Vec<WorkerHistory>,
}

/// The stored history of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkerHistory {
    /// The number of its slot.
    pub slot: u16,
    /// Its id.
    pub pm_id: u32,
    /// Series by the names in docs/METRICS.md; `null` where no value is known. Shares are accurate to 0.4 %,
    /// others to 4 %.
    pub series: BTreeMap<String, Vec<Option<f64>>>,
}

/// `GET /v1/apps`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AppList {
    /// All apps, by the id of their first worker.
    pub apps: Vec<AppView>,
    /// Notes for the user, such as saved apps that cannot be started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Maximum targets or definitions in a request, which limits the engine's work for one message.
pub const TARGETS_MAX: usize = 4096;

/// Maximum bytes of a request body. The largest legitimate request, a configuration with a thousand apps, is
/// far smaller.
pub const REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Maximum lines per file that a request reads back, which limits the daemon's work.
pub const LOG_TAIL_LINES_MAX: u32 = 100_000;
