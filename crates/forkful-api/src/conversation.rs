//! Events for watching clients ([`DaemonEvent`], a stream of server-sent events), messages to workers,
//! actions of `@pm2/io`, and the environments of apps.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::incidents::IncidentSummary;
use crate::jlist::Pm2Env;
use crate::stalls::StallEvent;
#[cfg(test)]
use crate::types::TARGETS_MAX;
use crate::types::{LogLine, LogStream};

/// Query of `GET /v1/events`. The reply is `text/event-stream`; each event's name is [`DaemonEvent::name`],
/// its data the variant's content as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// Names of apps and ids of workers in the format of [`crate::types::join_targets`]; empty means all,
    /// including later ones.
    #[serde(default)]
    pub targets: String,
    /// Include new lines of the workers' output.
    #[serde(default)]
    pub logs: bool,
    /// Include messages that apps send with `process.send`.
    #[serde(default)]
    pub messages: bool,
}

/// An event.
#[derive(Debug, Clone, PartialEq)]
pub enum DaemonEvent {
    /// A change of a worker's state.
    Process(Box<ProcessEvent>),
    /// A message from a worker.
    Message(MessageEvent),
    /// A worker's event loop was blocked.
    Stall(StallEvent),
    /// An unexpected event of an app.
    Incident(IncidentSummary),
    /// A worker wrote a line.
    Log(LogLine),
    /// Events were dropped here, because they arrived faster than they were read.
    Skipped(SkippedEvents),
    /// The daemon stops, which ends this stream.
    Ending(Ending),
}

impl DaemonEvent {
    /// The event's name in the stream.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Process(_) => "process:event",
            Self::Message(_) => "process:msg",
            Self::Stall(_) => "process:stall",
            Self::Incident(_) => "app:incident",
            Self::Log(line) => log_event_name(line.stream),
            Self::Skipped(_) => "events:skipped",
            Self::Ending(_) => "daemon:ending",
        }
    }
}

/// The name of a line's event.
pub fn log_event_name(stream: LogStream) -> &'static str {
    match stream {
        LogStream::Out => "log:out",
        LogStream::Err => "log:err",
    }
}

/// A change of a worker's state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProcessEvent {
    /// The change.
    pub event: LifeStep,
    /// Whether a command caused it.
    pub manually: bool,
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The app.
    pub app: String,
    /// The worker.
    pub pm_id: u32,
    /// Its process, if it has one.
    pub pid: Option<u32>,
    /// The worker in PM2's format, without its environment.
    pub process: Pm2Env,
}

/// Changes of a worker's state, in PM2's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum LifeStep {
    /// A process serves.
    #[serde(rename = "online")]
    Online,
    /// A process has ended.
    #[serde(rename = "exit")]
    Exit,
    /// A start command is done.
    #[serde(rename = "start")]
    Start,
    /// A stop command is done.
    #[serde(rename = "stop")]
    Stop,
    /// A restart command is done.
    #[serde(rename = "restart")]
    Restart,
    /// The worker has been replaced by a reload.
    #[serde(rename = "reload")]
    Reload,
    /// The worker has been deleted.
    #[serde(rename = "delete")]
    Delete,
    /// It exited too often, and was given up.
    #[serde(rename = "restart overlimit")]
    RestartOverlimit,
}

/// A message that a worker sent with `process.send`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MessageEvent {
    /// When it was read, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The app.
    pub app: String,
    /// The worker.
    pub pm_id: u32,
    /// The message.
    pub message: Value,
}

/// The number of dropped events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SkippedEvents {
    /// The number.
    pub count: u64,
}

/// The last event of a stopping daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ending {
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: u64,
}

/// `POST /v1/messages`: sends a message to `process.on('message')` in each of the workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MessageRequest {
    /// As in [`ActionRequest`](crate::types::ActionRequest).
    #[cfg_attr(test, schemars(length(min = 1, max = TARGETS_MAX)))]
    pub targets: Vec<String>,
    /// The message; any JSON except an object whose `cmd` begins with `NODE_`, which Node.js reserves.
    pub message: Value,
}

/// `POST /v1/stdin`: writes a text to the standard input of workers in fork mode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StdinRequest {
    /// As in [`ActionRequest`](crate::types::ActionRequest).
    #[cfg_attr(test, schemars(length(min = 1, max = TARGETS_MAX)))]
    pub targets: Vec<String>,
    /// The text, written unchanged, including the newline. At most 1 MiB.
    #[cfg_attr(test, schemars(length(min = 1, max = STDIN_TEXT_BYTES_MAX)))]
    pub text: String,
}

/// Maximum length of a text for a worker's stdin, which limits the memory for one request.
pub const STDIN_TEXT_BYTES_MAX: usize = 1 << 20;

/// `POST /v1/trigger`: runs an action that apps have registered with `@pm2/io`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TriggerRequest {
    /// As in [`ActionRequest`](crate::types::ActionRequest).
    #[cfg_attr(test, schemars(length(min = 1, max = TARGETS_MAX)))]
    pub targets: Vec<String>,
    /// The action's name.
    #[cfg_attr(test, schemars(length(min = 1, max = ACTION_BYTES_MAX)))]
    pub action: String,
    /// The action's argument, if any.
    #[serde(default)]
    pub params: Option<Value>,
    /// Time limit for the answers.
    #[serde(default = "trigger_timeout")]
    #[cfg_attr(test, schemars(range(min = 1, max = TRIGGER_TIMEOUT_MS_MAX)))]
    pub timeout_ms: u64,
}

/// Maximum time limit for the answer to an action, which limits what a client can leave behind in the daemon.
pub const TRIGGER_TIMEOUT_MS_MAX: u64 = 3_600_000;

/// Maximum length of an action's name.
pub const ACTION_BYTES_MAX: usize = 1024;

fn trigger_timeout() -> u64 {
    30_000
}

/// The results of messages or actions, worker by worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkersReply {
    /// One entry per worker matched by the targets, by id.
    pub workers: Vec<WorkerReply>,
}

/// The result at one worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkerReply {
    /// The app.
    pub app: String,
    /// The worker.
    pub pm_id: u32,
    /// Why it failed; one sentence without a full stop.
    pub error: Option<String>,
    /// An action's result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
}

/// Query of `GET /v1/environment/{target}`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EnvironmentQuery {
    /// Include secrets.
    #[serde(default)]
    pub show_secrets: bool,
}

/// Query of `GET /v1/jlist`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct JlistQuery {
    /// Include secrets.
    #[serde(default)]
    pub show_secrets: bool,
    /// Only the workers that this target means; without it, all workers.
    #[serde(default)]
    pub target: Option<String>,
}

/// The environments of apps, as their next workers get them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EnvironmentReply {
    /// One entry per app matched by the target.
    pub apps: BTreeMap<String, BTreeMap<String, String>>,
}

/// A metric (number or text) that an app reports with `@pm2/io`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Metric {
    /// Its current value.
    pub value: Value,
    /// All other properties: `unit`, `type`, `historic`, …
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

/// An action that an app has registered with `@pm2/io`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ActionView {
    /// Its name.
    pub action_name: String,
    /// `custom`, `internal` or `scoped`.
    #[serde(default)]
    pub action_type: Option<String>,
    /// Number of its parameters, including the callback.
    #[serde(default)]
    pub arity: Option<u32>,
}

/// The metrics and actions that a worker reports with `@pm2/io`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkerReports {
    /// Metrics by name.
    #[serde(default)]
    pub metrics: BTreeMap<String, Metric>,
    /// Actions that can be triggered.
    #[serde(default)]
    pub actions: Vec<ActionView>,
    /// The options of its `@pm2/io`.
    #[serde(default)]
    pub options: BTreeMap<String, Value>,
}
