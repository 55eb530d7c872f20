//! What goes on between the daemon, its workers and those who watch: events ([`DaemonEvent`], a stream of
//! server-sent events), messages to workers, actions of `@pm2/io`, and the environment of apps.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::incidents::IncidentSummary;
use crate::jlist::Pm2Env;
use crate::stalls::StallEvent;
#[cfg(test)]
use crate::types::TARGETS_MAX;
use crate::types::{LogLine, LogStream};

/// Query of `GET /v1/events`. The reply is `text/event-stream`; each event's name is [`DaemonEvent::name`], its data
/// the JSON of what the variant holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// Names of apps and ids of workers as [`crate::types::join_targets`] writes them; empty means all, also those that come later.
    #[serde(default)]
    pub targets: String,
    /// Lines of the workers' output too, from now on.
    #[serde(default)]
    pub logs: bool,
    /// What apps say by `process.send` too.
    #[serde(default)]
    pub messages: bool,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum DaemonEvent {
    /// In the life of a worker.
    Process(Box<ProcessEvent>),
    /// A worker said something.
    Message(MessageEvent),
    /// A worker's event loop stood still.
    Stall(StallEvent),
    /// Something has happened to an app that nobody asked for.
    Incident(IncidentSummary),
    /// A worker wrote a line.
    Log(LogLine),
    /// Events were left out here, because they came faster than they were read.
    Skipped(SkippedEvents),
    /// The daemon ends, and with it this stream.
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

/// A step in the life of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProcessEvent {
    /// Which.
    pub event: LifeStep,
    /// Whether a command asked for it.
    pub manually: bool,
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The app.
    pub app: String,
    /// The worker.
    pub pm_id: u32,
    /// Its process, when there is one.
    pub pid: Option<u32>,
    /// The worker in PM2's shape, without its environment.
    pub process: Pm2Env,
}

/// Steps in a worker's life, in PM2's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum LifeStep {
    /// A process serves.
    #[serde(rename = "online")]
    Online,
    /// A process has ended.
    #[serde(rename = "exit")]
    Exit,
    /// A start that was asked for is done.
    #[serde(rename = "start")]
    Start,
    /// A stop that was asked for is done.
    #[serde(rename = "stop")]
    Stop,
    /// A restart that was asked for is done.
    #[serde(rename = "restart")]
    Restart,
    /// The worker has been replaced by a reload.
    #[serde(rename = "reload")]
    Reload,
    /// The worker has been deleted.
    #[serde(rename = "delete")]
    Delete,
    /// It ended too often, and is given up.
    #[serde(rename = "restart overlimit")]
    RestartOverlimit,
}

/// What a worker said by `process.send`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MessageEvent {
    /// When it was read, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The app.
    pub app: String,
    /// The worker.
    pub pm_id: u32,
    /// What it said.
    pub message: Value,
}

/// How many events were left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SkippedEvents {
    /// So many.
    pub count: u64,
}

/// The daemon's farewell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ending {
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: u64,
}

/// `POST /v1/messages`: something for `process.on('message')` in each of the workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MessageRequest {
    /// As in [`ActionRequest`](crate::types::ActionRequest).
    #[cfg_attr(test, schemars(length(min = 1, max = TARGETS_MAX)))]
    pub targets: Vec<String>,
    /// What arrives; any JSON, but no object whose `cmd` begins with `NODE_`, which Node keeps for itself.
    pub message: Value,
}

/// `POST /v1/stdin`: a text for the standard input of workers in fork mode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StdinRequest {
    /// As in [`ActionRequest`](crate::types::ActionRequest).
    #[cfg_attr(test, schemars(length(min = 1, max = TARGETS_MAX)))]
    pub targets: Vec<String>,
    /// What is written, as it is: the end of a line is part of it. At most 1 MiB.
    #[cfg_attr(test, schemars(length(min = 1, max = STDIN_TEXT_BYTES_MAX)))]
    pub text: String,
}

/// The longest text for a worker's stdin; a bound on what one request can keep waiting.
pub const STDIN_TEXT_BYTES_MAX: usize = 1 << 20;

/// `POST /v1/trigger`: performs an action that apps have registered with `@pm2/io`.
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
    /// What it is called with, if anything.
    #[serde(default)]
    pub params: Option<Value>,
    /// How long to wait for answers.
    #[serde(default = "trigger_timeout")]
    #[cfg_attr(test, schemars(range(min = 1, max = TRIGGER_TIMEOUT_MS_MAX)))]
    pub timeout_ms: u64,
}

/// The longest wait for the answer to an action; a bound on what a client can leave behind in the daemon.
pub const TRIGGER_TIMEOUT_MS_MAX: u64 = 3_600_000;

/// The longest name of an action.
pub const ACTION_BYTES_MAX: usize = 1024;

fn trigger_timeout() -> u64 {
    30_000
}

/// What came of messages or actions, worker by worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkersReply {
    /// One entry per worker that the targets named, by id.
    pub workers: Vec<WorkerReply>,
}

/// What came of it at one worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkerReply {
    /// The app.
    pub app: String,
    /// The worker.
    pub pm_id: u32,
    /// Why nothing came of it; one sentence without a full stop.
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
    /// Secrets too.
    #[serde(default)]
    pub show_secrets: bool,
}

/// The environments of apps, as their next worker gets them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EnvironmentReply {
    /// One entry per app that the target named.
    pub apps: BTreeMap<String, BTreeMap<String, String>>,
}

/// A number (or text) that an app reports about itself with `@pm2/io`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Metric {
    /// What it is now.
    pub value: Value,
    /// Everything else that the app said of it: `unit`, `type`, `historic`, …
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
    /// How many arguments it takes, the callback included.
    #[serde(default)]
    pub arity: Option<u32>,
}

/// What a worker reports about itself with `@pm2/io`.
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
