//! What the user asked for: one [`AppSpec`] per app, complete and validated.
//!
//! Configuration formats are turned into this by `forkful-config`; over the socket it travels as
//! `forkful_api::AppDefinition`. Nothing here is mutable state of a running app.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The most workers that one app may have; a bound so that a slip of the keyboard cannot fork-bomb the machine.
pub const INSTANCES_MAX: u16 = 1024;

/// A complete, validated description of an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppSpec {
    /// The app's name, unique within a daemon.
    pub name: AppName,
    /// What is executed.
    pub launch: Launch,
    /// Number of slots, 1 to [`INSTANCES_MAX`].
    pub instances: u16,
    /// Whether workers share ports through the primary.
    pub mode: Mode,
    /// How new connections are spread over the workers; only in cluster mode.
    pub balance: Balance,
    /// What happens after an exit.
    pub restart: RestartPolicy,
    /// When a worker counts as ready.
    pub readiness: Readiness,
    /// How a worker is asked to leave, and for how long.
    pub stop: StopPolicy,
    /// Where output goes.
    pub logs: LogSpec,
    /// Whether the agent is preloaded into Node workers.
    pub agent: bool,
}

/// An app's name: 1 to 128 characters, none of them a control character or `/`; not `all`, not a
/// number, no leading `-` or `.` (those would be taken for something else on the command line or
/// in a path).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppName(String);

/// Why a text is no app name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppNameFault {
    /// No characters.
    Empty,
    /// More than 128 characters.
    TooLong,
    /// Holds a control character or `/`.
    BadCharacter(char),
    /// `all` is the target that means every app.
    ReservedAll,
    /// A number is taken for an id.
    Number,
    /// Starts with `-` or `.`.
    BadStart(char),
}

impl AppName {
    /// Checks and wraps a name.
    pub fn new(name: impl Into<String>) -> Result<Self, AppNameFault> {
        let name = name.into();
        if name.is_empty() {
            return Err(AppNameFault::Empty);
        }
        if name.chars().count() > 128 {
            return Err(AppNameFault::TooLong);
        }
        if let Some(bad) = name.chars().find(|c| c.is_control() || *c == '/') {
            return Err(AppNameFault::BadCharacter(bad));
        }
        if let Some(first) = name.chars().next().filter(|c| matches!(c, '-' | '.')) {
            return Err(AppNameFault::BadStart(first));
        }
        if name == "all" {
            return Err(AppNameFault::ReservedAll);
        }
        if name.bytes().all(|b| b.is_ascii_digit()) {
            return Err(AppNameFault::Number);
        }
        Ok(Self(name))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AppName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for AppNameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a name needs at least one character"),
            Self::TooLong => f.write_str("a name has at most 128 characters"),
            Self::BadCharacter(c) => write!(f, "a name cannot hold {c:?}"),
            Self::ReservedAll => f.write_str("`all` means every app and cannot be a name"),
            Self::Number => f.write_str("a number would be taken for an id"),
            Self::BadStart(c) => write!(f, "a name cannot start with {c:?}"),
        }
    }
}

impl std::error::Error for AppNameFault {}

/// What is executed, in execve's terms: `program program_args… [script] args…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Absolute path of the executable (the interpreter, or the script itself).
    pub program: PathBuf,
    /// Arguments between the program and the script (`node_args`; `-c` for a shell command line).
    pub program_args: Vec<String>,
    /// What the user named as `script`: an absolute path, or a shell command line. `None` when the
    /// program itself is what the user named.
    pub script: Option<String>,
    /// The user's arguments.
    pub args: Vec<String>,
    /// Absolute working directory.
    pub cwd: PathBuf,
    /// The complete environment of the worker, before Forkful's own variables.
    pub env: BTreeMap<String, String>,
    /// Whether the program is Node.js, so that an IPC channel and the agent make sense.
    pub runtime: Runtime,
}

/// What kind of program a worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    /// Node.js: gets an IPC channel, may run in cluster mode.
    Node,
    /// Anything else.
    Other,
}

/// How workers relate to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Node workers that share ports through Forkful's primary.
    Cluster,
    /// Independent processes.
    Fork,
}

/// How new connections are spread over workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Balance {
    /// Exact while connections come slowly, direct when they come fast.
    Auto,
    /// The kernel spreads them at random over healthy workers; the daemon does nothing per connection.
    Direct,
    /// The daemon hands each connection to the worker with the fewest that proves its loop turns.
    Exact,
    /// One listening socket for all, as Node's `SCHED_NONE`.
    Shared,
    /// By client address, in the kernel.
    Sticky,
}

/// What happens after a worker's exit that nobody asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestartPolicy {
    /// Whether it is started again at all.
    pub autorestart: bool,
    /// Unstable exits (uptime below `min_uptime`) within `window` before the slot is given up as errored.
    pub max_restarts: u32,
    /// The width of the sliding window that `max_restarts` is counted over.
    pub window: Duration,
    /// A worker that lived for less was unstable.
    pub min_uptime: Duration,
    /// Pause before the second and later restarts in a row.
    pub delay: RestartDelay,
    /// Exit codes after which the worker stays stopped.
    pub stop_exit_codes: Vec<i32>,
}

/// How long to wait before a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartDelay {
    /// Always the same (`restart_delay`), before every restart.
    Fixed(Duration),
    /// The first restart at once, then `initial`, growing by half each time up to `max`, with jitter
    /// (`exp_backoff_restart_delay` sets `initial`). Starts anew after a worker lived for 30 s.
    Exponential {
        /// Delay of the second restart in a row.
        initial: Duration,
        /// Upper bound.
        max: Duration,
    },
}

/// When a worker counts as ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Readiness {
    /// Ready means the app said so by `process.send('ready')`.
    pub wait_ready: bool,
    /// How long to wait for readiness; `None` is 3 s at a start and 30 s at a reload.
    pub listen_timeout: Option<Duration>,
}

impl Readiness {
    /// The bound at a start, after which a living worker counts as online all the same (unless `wait_ready`).
    pub fn start_timeout(&self) -> Duration {
        self.listen_timeout.unwrap_or(Duration::from_secs(3))
    }

    /// The bound at a reload, after which the new worker is given up and the old one stays.
    pub fn reload_timeout(&self) -> Duration {
        self.listen_timeout.unwrap_or(Duration::from_secs(30))
    }
}

/// How a worker is asked to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopPolicy {
    /// First signal, by name (`SIGINT` unless the user chose another).
    pub signal: StopSignal,
    /// From the signal to SIGKILL.
    pub kill_timeout: Duration,
    /// At a reload: from `disconnect` to the signal, the time that requests under way have to finish.
    pub drain_timeout: Duration,
}

/// A signal number, checked to be one that this kernel knows (1 to 64).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopSignal(pub i32);

/// Where a worker's output goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogSpec {
    /// stdout; `None` is the default path under the home.
    pub out_file: Option<PathBuf>,
    /// stderr; `None` is the default path under the home.
    pub error_file: Option<PathBuf>,
    /// One file for all workers of the app instead of one per worker.
    pub merge: bool,
    /// Prefix each line with the time it was read.
    pub time: bool,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            autorestart: true,
            max_restarts: 16,
            window: Duration::from_secs(600),
            min_uptime: Duration::from_secs(1),
            delay: RestartDelay::default(),
            stop_exit_codes: Vec::new(),
        }
    }
}

impl Default for RestartDelay {
    fn default() -> Self {
        Self::Exponential { initial: Duration::from_millis(100), max: Duration::from_secs(15) }
    }
}

impl Default for StopPolicy {
    fn default() -> Self {
        Self {
            signal: StopSignal(2),
            kill_timeout: Duration::from_secs(5),
            drain_timeout: Duration::from_secs(30),
        }
    }
}
