//! Request, reply and event types. JSON keys are `snake_case`, durations end in their unit, times are
//! milliseconds since the Unix epoch. Unknown request keys are refused, unknown reply keys ignored.

mod change;
mod logs;
mod upkeep;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::conversation::WorkerReports;

pub use change::AppChange;
pub use logs::LogRotateDefinition;
pub use upkeep::{
    EnvSourcesDefinition, HealthDefinition, ProbeDefinition, RunAsDefinition, WatchDefinition,
    WatchIgnoreDefinition,
};

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
    /// When the daemon started.
    pub started_at_ms: u64,
}

/// An app as it travels. Durations are in milliseconds, paths absolute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key that users know by that name")]
pub struct AppDefinition {
    /// Unique name.
    pub name: String,
    /// Absolute path of the executable.
    pub program: String,
    /// Arguments before the script.
    pub program_args: Vec<String>,
    /// Absolute path of the script, or the shell command line.
    pub script: Option<String>,
    /// The user's arguments.
    pub args: Vec<String>,
    /// Absolute working directory.
    pub cwd: String,
    /// Complete environment. Empty in replies: values never leave the daemon.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// `node` or `other`.
    pub runtime: RuntimeKind,
    /// `cluster` or `fork`.
    pub mode: ModeKind,
    /// Number of workers.
    pub instances: u16,
    /// How connections are spread.
    pub balance: BalanceKind,
    /// Restart after an exit.
    pub autorestart: bool,
    /// Unstable exits in the window before giving up.
    pub max_restarts: u32,
    /// Width of that window.
    pub restart_window_ms: u64,
    /// Less is an unstable life.
    pub min_uptime_ms: u64,
    /// Fixed pause before each restart.
    pub restart_delay_ms: Option<u64>,
    /// First step of the exponential pause; ignored when `restart_delay_ms` is given.
    pub exp_backoff_restart_delay_ms: Option<u64>,
    /// Exit codes that leave the worker stopped.
    pub stop_exit_codes: Vec<i32>,
    /// Ready by `process.send('ready')`.
    pub wait_ready: bool,
    /// Bound on becoming ready.
    pub listen_timeout_ms: Option<u64>,
    /// First signal of a stop, as a number.
    pub kill_signal: i32,
    /// From that signal to SIGKILL.
    pub kill_timeout_ms: u64,
    /// Time that requests under way have at a reload.
    pub drain_timeout_ms: u64,
    /// stdout file.
    pub out_file: Option<String>,
    /// stderr file.
    pub error_file: Option<String>,
    /// One file per stream for all workers.
    pub merge_logs: bool,
    /// Prefix lines with the time.
    pub time: bool,
    /// Preload the agent.
    pub agent: bool,
    /// The group that commands can name instead.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Start the workers when the app is made.
    #[serde(default = "yes")]
    pub autostart: bool,
    /// Where workers' process ids are written.
    #[serde(default)]
    pub pid_file: Option<String>,
    /// Variable that holds the slot's number.
    #[serde(default = "default_instance_var")]
    pub instance_var: String,
    /// Variable that grows by one from worker to worker.
    #[serde(default)]
    pub increment_var: Option<String>,
    /// Where the environment's values came from.
    #[serde(default)]
    pub env_sources: EnvSourcesDefinition,
    /// Whom the workers run as.
    #[serde(default)]
    pub run_as: Option<RunAsDefinition>,
    /// Ask a worker to stop by `process.send('shutdown')`.
    #[serde(default)]
    pub shutdown_with_message: bool,
    /// Send the first signal to a worker's descendants too.
    #[serde(default = "yes")]
    pub treekill: bool,
    /// How times in logs are written.
    #[serde(default)]
    pub log_date_format: Option<String>,
    /// One more file for both streams.
    #[serde(default)]
    pub log_file: Option<String>,
    /// Write lines as JSON.
    #[serde(default)]
    pub log_json: bool,
    /// Write no log files.
    #[serde(default)]
    pub disable_logs: bool,
    /// Leave control sequences of terminals out of log files.
    #[serde(default)]
    pub log_strip_ansi: bool,
    /// When log files are set aside; `None` is never.
    #[serde(default = "crate::definition::default_rotation")]
    pub log_rotate: Option<LogRotateDefinition>,
    /// Which changes of files make the workers be replaced.
    #[serde(default)]
    pub watch: Option<WatchDefinition>,
    /// Replace a worker whose process tree is larger.
    #[serde(default)]
    pub max_memory_bytes: Option<u64>,
    /// Replace a worker that has answered so many requests.
    #[serde(default)]
    pub max_requests: Option<u64>,
    /// Replace a worker that is older.
    #[serde(default)]
    pub max_age_ms: Option<u64>,
    /// Replace the workers at these times.
    #[serde(default)]
    pub cron_restart: Option<String>,
    /// How it is found out whether a worker still works.
    #[serde(default)]
    pub health: Option<HealthDefinition>,
    /// Apps that are ready before this one starts.
    #[serde(default)]
    pub depends_on: Vec<String>,
}

fn default_namespace() -> String {
    forkful_core::spec::NAMESPACE_DEFAULT.to_owned()
}

fn default_instance_var() -> String {
    "NODE_APP_INSTANCE".to_owned()
}

/// What runs the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RuntimeKind {
    /// Node.js.
    Node,
    /// Anything else.
    Other,
}

/// Whether workers share the ports that they listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModeKind {
    /// Workers share ports.
    Cluster,
    /// Independent processes.
    Fork,
}

/// How new connections are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BalanceKind {
    /// Exact or direct, by rate.
    Auto,
    /// Kernel, at random.
    Direct,
    /// Daemon, fewest connections.
    Exact,
    /// One socket for all.
    Shared,
    /// By client address.
    Sticky,
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
}

/// `POST /v1/actions/{verb}`; `scale` and `signal` need a field of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ActionRequest {
    /// Names, ids, namespaces, `/patterns/` of names, scripts (as absolute paths), or `all`.
    #[cfg_attr(test, schemars(length(min = 1, max = TARGETS_MAX)))]
    pub targets: Vec<String>,
    /// Reply only when done.
    #[serde(default = "yes")]
    pub wait: bool,
    /// `scale`: the new number of workers.
    #[serde(default)]
    pub instances: Option<u16>,
    /// `signal`: the signal's number.
    #[serde(default)]
    pub signal: Option<i32>,
    /// `restart`, `reload`: new definitions by name, for apps whose configuration changed.
    #[serde(default)]
    pub definitions: Vec<AppDefinition>,
    /// `restart`, `reload`: new values for apps that keep the rest.
    #[serde(default)]
    pub changes: Vec<AppChange>,
}

/// The verbs of `POST /v1/actions/{verb}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Stop workers.
    Stop,
    /// Stop and start workers.
    Restart,
    /// Replace workers one by one.
    Reload,
    /// Stop workers and forget them.
    Delete,
    /// Change the number of workers.
    Scale,
    /// Send a signal.
    Signal,
    /// Empty log files.
    Flush,
    /// Open log files anew.
    ReloadLogs,
    /// Zero the restart counters.
    Reset,
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AppOutcome {
    /// The app.
    pub name: String,
    /// Whether what was asked for holds now.
    pub ok: bool,
    /// Ids of the workers that were touched.
    pub pm_ids: Vec<u32>,
    /// Why not, when `ok` is false; one sentence without a full stop.
    pub error: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// Things worth knowing, such as that a fork-mode reload is a stop and a start.
    pub notes: Vec<String>,
    /// The last lines of stderr of the worker that failed.
    pub stderr_tail: Vec<String>,
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
    /// Have the agents measure for some seconds how late event loops are. Who asks once a second sees it
    /// from the second or third reply on, and measuring ends when nobody asks any more.
    pub measure: bool,
}

/// `GET /v1/apps`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AppList {
    /// All apps, by the id of their first worker.
    pub apps: Vec<AppView>,
}

/// An app as the daemon sees it now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AppView {
    /// What the user asked for, without the environment.
    pub definition: AppDefinition,
    /// Names (not values) of the environment's variables.
    pub env_names: Vec<String>,
    /// Addresses that its workers listen on, as `tcp://127.0.0.1:3000`, `unix:/path`, `udp://…`.
    pub listening: Vec<String>,
    /// When the app was created.
    pub created_at_ms: u64,
    /// How new connections go now: `exact`, `direct`, … (`auto` resolves to one of them), one per address.
    pub dispatch: Vec<DispatchView>,
    /// Its workers by slot.
    pub workers: Vec<WorkerView>,
}

/// Counters of one listening address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DispatchView {
    /// The address.
    pub address: String,
    /// What new connections do now.
    pub mode: BalanceKind,
    /// Connections handed over by the daemon since the start.
    pub handed_over: u64,
    /// Of these, taken out of the queue of a stuck, dead or leaving worker.
    pub rescued: u64,
    /// Connections that a worker may have had when it died or was given up, so that no other got them.
    #[serde(default)]
    pub lost: u64,
    /// Times a worker was found not to turn its loop.
    pub suspected: u64,
    /// Times steering was changed.
    pub steered: u64,
}

/// A worker as the daemon sees it now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkerView {
    /// Id, unique in the daemon.
    pub pm_id: u32,
    /// Slot, the value of `NODE_APP_INSTANCE`.
    pub slot: u16,
    /// Process id, when there is a process.
    pub pid: Option<u32>,
    /// State.
    pub status: Status,
    /// Restarts, asked for or not.
    pub restarts: u32,
    /// Unstable exits in the window.
    pub unstable_restarts: u32,
    /// When the present process was started (or, when there is none, the last one).
    pub started_at_ms: Option<u64>,
    /// CPU of the process, 100 is one core.
    pub cpu_percent: f32,
    /// Resident memory of the process.
    pub memory_bytes: u64,
    /// stdout file.
    pub out_log_path: String,
    /// stderr file.
    pub error_log_path: String,
    /// How the last process ended, in words.
    pub last_exit: Option<String>,
    /// The last exit code, when there was one.
    pub exit_code: Option<i32>,
    /// Why the worker is in this state, when that needs saying.
    pub reason: Option<String>,
    /// Why the worker was last replaced by itself: its limits, its health, changed files, the clock.
    #[serde(default)]
    pub renewed: Option<String>,
    /// What was wrong with the last health check.
    #[serde(default)]
    pub health_fault: Option<String>,
    /// How late the event loop was, in milliseconds (99th percentile of the last second), while that is measured.
    #[serde(default)]
    pub loop_delay_ms: Option<f64>,
    /// The last lines of stderr; only in `GET /v1/apps/{target}`.
    #[serde(default)]
    pub stderr_tail: Vec<String>,
    /// Log lines that could not be written.
    pub dropped_log_lines: u64,
    /// The version of its Node.js, as `22.11.0`; its agent says so.
    #[serde(default)]
    pub node_version: Option<String>,
    /// What its `@pm2/io` says of it.
    #[serde(default)]
    pub reports: WorkerReports,
}

/// A worker's state, in PM2's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Status {
    /// Running and ready.
    #[serde(rename = "online")]
    Online,
    /// Started, not ready yet.
    #[serde(rename = "launching")]
    Launching,
    /// Asked to leave.
    #[serde(rename = "stopping")]
    Stopping,
    /// Not running, by wish.
    #[serde(rename = "stopped")]
    Stopped,
    /// Given up.
    #[serde(rename = "errored")]
    Errored,
    /// Waiting for its next start.
    #[serde(rename = "waiting restart")]
    WaitingRestart,
}

/// One line of `GET /v1/logs`, a stream of JSON texts, one per line (`application/x-ndjson`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LogLine {
    /// The app.
    pub app: String,
    /// The worker's id; `None` for a merged file read from disk.
    pub pm_id: Option<u32>,
    /// Which stream.
    pub stream: LogStream,
    /// When the line was read; `None` for lines from disk.
    pub at_ms: Option<u64>,
    /// The line, without its newline; invalid UTF-8 replaced.
    pub line: String,
}

/// stdout or stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LogStream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Query of `GET /v1/logs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LogsQuery {
    /// Comma-separated targets; empty means all.
    #[serde(default)]
    pub targets: String,
    /// Lines from the end of each file.
    #[serde(default)]
    #[cfg_attr(test, schemars(range(max = LOG_TAIL_LINES_MAX)))]
    pub lines: u32,
    /// Go on with new lines.
    #[serde(default)]
    pub follow: bool,
    /// Only this stream.
    #[serde(default)]
    pub stream: Option<LogStream>,
}

/// The most targets or definitions in one request; a bound on what one message makes the engine do.
pub const TARGETS_MAX: usize = 4096;

/// The largest request body. The largest honest one, a config file with a thousand apps, is far below.
pub const REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The most lines per file that one request reads back; a bound on the daemon's work.
pub const LOG_TAIL_LINES_MAX: u32 = 100_000;
