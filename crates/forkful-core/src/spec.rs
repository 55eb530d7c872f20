//! What the user asked for: one [`AppSpec`] per app, complete and validated.
//!
//! Configuration formats are turned into this by `forkful-config`; over the socket it travels as
//! `forkful_api::AppDefinition`. Nothing here is mutable state of a running app.
//!
//! - `low_ports`: which ports are bound for an app · `name`: apps and namespaces · [`Named`]: choices that users write by name · `upkeep`: when a worker that runs is replaced all the same ·
//!   `warmup`: what a new worker is asked first · [`environment`]: where variables came from, which values may be kept, and `.env` files

mod compiling;
pub mod environment;
mod keeping;
mod low_ports;
mod name;
mod named;
mod pid_file;
mod stays;
mod upkeep;
mod warmup;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use crate::logs::{AnsiPolicy, LineFormat, LogRotation, LogSpec, MinFree};

use crate::alerts::AlertPolicy;
use crate::autoscale::ScaleBounds;
use crate::named;
use crate::otlp::OtlpPolicy;
pub use environment::{EnvBlocks, EnvSources};
pub use low_ports::lowest_port;
pub use name::{AppName, AppNameFault, NAMESPACE_DEFAULT, Namespace};
pub use named::Named;
pub use pid_file::pid_file_of;
pub use stays::{RunningSince, is_same, may_stay, start_by_clock};
pub use upkeep::{
    CRON_BYTES_MAX, CronFault, CronPattern, HEALTH_FAILURES_DEFAULT, HealthCheck, HealthProbe, Renewal,
    Watch, WatchIgnore,
};
pub use warmup::{WARMUP_PATHS_MAX, WARMUP_REQUESTS_MAX, Warmup};

/// The most workers that one app may have; a bound so that a slip of the keyboard cannot fork-bomb the machine.
pub const INSTANCES_MAX: u16 = 1024;

/// A complete, validated description of an app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppSpec {
    /// The app's name, unique within a daemon.
    pub name: AppName,
    /// The group that commands can name instead.
    pub namespace: Namespace,
    pub launch: Launch,
    /// Number of slots, 1 to [`INSTANCES_MAX`].
    pub instances: u16,
    /// Between which numbers it changes by the load; `None` leaves it as it is.
    #[serde(default)]
    pub autoscale: Option<ScaleBounds>,
    /// Whether workers share ports through the primary.
    pub mode: Mode,
    /// How new connections are spread over the workers; only in cluster mode.
    pub balance: Balance,
    /// How long the share of a worker's new connections takes to rise to the full one, in cluster mode; zero has it all at once.
    #[serde(default)]
    pub slow_start: Duration,
    /// What happens after an exit.
    pub restart: RestartPolicy,
    /// When a worker counts as ready.
    pub readiness: Readiness,
    /// What a new worker is asked before it counts as ready.
    #[serde(default)]
    pub warmup: Option<Warmup>,
    /// Where alerts of incidents go.
    #[serde(default)]
    pub alerts: Option<AlertPolicy>,
    /// How a worker is asked to leave, and for how long.
    pub stop: StopPolicy,
    pub logs: LogSpec,
    /// Whether the agent is preloaded into Node workers.
    pub agent: bool,
    /// An event loop that stands still for so long is told by its agent; zero tells of none.
    #[serde(default = "stall_threshold")]
    pub stall_threshold: Duration,
    /// Where its metrics are sent for OpenTelemetry.
    #[serde(default)]
    pub otlp: Option<OtlpPolicy>,
    /// Whether a scrape of the app's own prom-client metrics gives those of all workers.
    #[serde(default)]
    pub merge_metrics: bool,
    /// Whether Node workers share a folder of compiled code.
    #[serde(default = "yes")]
    pub compile_cache: bool,
    /// Whether the workers are started when the app is made; else it begins stopped.
    pub autostart: bool,
    /// Where each worker's process id is written; see [`pid_file_of`].
    pub pid_file: Option<PathBuf>,
    /// Variables that differ from worker to worker.
    pub variables: WorkerVariables,
    /// Which changes of files make the workers be replaced.
    pub watch: Option<Watch>,
    /// When a worker that runs is replaced by a fresh one.
    pub renewal: Renewal,
    /// How it is found out whether a worker that runs still works.
    pub health: Option<HealthCheck>,
    /// Apps that are ready before this one is started, and stopped after it.
    pub depends_on: Vec<AppName>,
    /// What all its processes together may use.
    pub limits: ResourceLimits,
    /// Whether the memory that it may use is divided over its workers; see [`memory_plan`](crate::memory_plan).
    #[serde(default)]
    pub memory_auto: bool,
    /// Whether the daemon binds ports below 1024 for it although its workers run as another user; see [`lowest_port`].
    pub low_ports: bool,
    /// Where each setting was given that is not a default, by its key in a configuration: `app.config.js:4:5`, or
    /// "command line". Says nothing about what the app does.
    pub origins: BTreeMap<String, String>,
}

impl AppSpec {
    /// Whether a new app starts for the first time at a time of `cron_restart`: it has a pattern, and `autostart` is off.
    pub fn starts_by_cron(&self) -> bool {
        !self.autostart && self.renewal.cron.is_some()
    }

    /// Whether the memory of each worker has a limit.
    pub fn limits_workers_memory(&self) -> bool {
        self.renewal.max_memory_bytes.is_some() || self.memory_auto
    }

    /// The window in which unstable exits are counted: it has room for `max_restarts` of the longest unstable lives with
    /// their pauses, so that no crash loop goes on for ever because its lives are long.
    pub fn unstable_window(&self) -> Duration {
        let start = self.readiness.start_timeout()
            + self.warmup.as_ref().map(|warmup| warmup.timeout).unwrap_or_default();
        let pause = match self.restart.delay {
            RestartDelay::Fixed(pause) | RestartDelay::Exponential { max: pause, .. } => pause,
        };
        let round = start.max(self.restart.min_uptime) + self.stop.kill_timeout + pause;
        round.saturating_mul(self.restart.max_restarts).max(self.restart.window)
    }

    /// An app with nothing but a name: everything has its default, and the program is still unknown.
    pub fn new(name: AppName) -> Self {
        Self {
            name,
            namespace: Namespace::default(),
            launch: Launch {
                program: PathBuf::from("/"),
                program_args: Vec::new(),
                script: None,
                args: Vec::new(),
                cwd: PathBuf::from("/"),
                env: BTreeMap::new(),
                env_sources: EnvSources::default(),
                run_as: None,
                runtime: Runtime::Other,
                node_major: None,
            },
            instances: 1,
            autoscale: None,
            mode: Mode::Fork,
            balance: Balance::Auto,
            slow_start: Duration::ZERO,
            restart: RestartPolicy::default(),
            readiness: Readiness::default(),
            warmup: None,
            alerts: None,
            stop: StopPolicy::default(),
            logs: LogSpec::default(),
            agent: true,
            stall_threshold: stall_threshold(),
            otlp: None,
            merge_metrics: false,
            compile_cache: true,
            autostart: true,
            pid_file: None,
            variables: WorkerVariables::default(),
            watch: None,
            renewal: Renewal::default(),
            health: None,
            depends_on: Vec::new(),
            limits: ResourceLimits::default(),
            memory_auto: false,
            low_ports: false,
            origins: BTreeMap::new(),
        }
    }

    /// How many workers an app has with this definition that has `present` workers now: where the number follows the load, the
    /// definition does not say it.
    pub fn instances_from(&self, present: u16) -> u16 {
        self.autoscale.map_or(self.instances, |bounds| bounds.nearest(present))
    }
}

/// What a snapshot that does not speak of it means.
fn stall_threshold() -> Duration {
    crate::stalls::STALL_THRESHOLD_DEFAULT
}

/// What a snapshot that does not speak of it means.
fn yes() -> bool {
    true
}

/// Variables that differ from worker to worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerVariables {
    /// Holds the slot's number (`instance_var`).
    pub instance: String,
    /// A variable of the environment that holds a number: worker n gets that number plus n (`increment_var`).
    pub increment: Option<String>,
}

impl Default for WorkerVariables {
    fn default() -> Self {
        Self { instance: "NODE_APP_INSTANCE".to_owned(), increment: None }
    }
}

/// What is executed, in execve's terms: `program program_args… [script] args…`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Absolute path of the executable (the interpreter, or the script itself).
    pub program: PathBuf,
    /// Arguments between the program and the script (`node_args`; `-c` for a shell command line).
    pub program_args: Vec<String>,
    /// What the user named as `script`: an absolute path, or a shell command line. `None` when the
    /// program itself is what the user named.
    pub script: Option<String>,
    pub args: Vec<String>,
    /// Absolute working directory.
    pub cwd: PathBuf,
    /// The complete environment of the worker, before Forkful's own variables.
    pub env: BTreeMap<String, String>,
    /// Where the values of `env` came from, which decides what of it may be kept on disk.
    pub env_sources: EnvSources,
    /// Whom the worker runs as; `None` is the daemon's own user.
    pub run_as: Option<RunAs>,
    /// Whether the program is Node.js, so that an IPC channel and the agent make sense.
    pub runtime: Runtime,
    /// The major version of Node.js, where it was looked up for a memory plan.
    #[serde(default)]
    pub node_major: Option<u16>,
}

impl Launch {
    /// Keeps the environment in full nodes; those of a map that was filled name by name are half empty.
    pub(crate) fn pack(&mut self) {
        self.env = std::mem::take(&mut self.env).into_iter().collect();
        let inherited = &mut self.env_sources.inherited;
        *inherited = std::mem::take(inherited).into_iter().collect();
    }
}

/// Another user than the daemon's; only root can start processes so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "RunAsDefinition", deny_unknown_fields)
)]
pub struct RunAs {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Supplementary groups.
    #[serde(default)]
    pub groups: Vec<u32>,
}

named! {
    /// What kind of program a worker is.
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "RuntimeKind"))]
    pub enum Runtime {
        /// Node.js: gets an IPC channel, may run in cluster mode.
        Node = "node",
        /// Anything else.
        Other = "other",
    }
}

named! {
    /// How workers relate to each other.
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ModeKind"))]
    pub enum Mode {
        /// Node workers that share ports through Forkful's primary.
        Cluster = "cluster",
        /// Independent processes.
        Fork = "fork",
    }
}

named! {
    /// How new connections are spread over workers.
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BalanceKind"))]
    pub enum Balance {
        /// Exact while connections come slowly, direct when they come fast.
        Auto = "auto",
        /// The kernel spreads connections at random over healthy workers.
        Direct = "direct",
        /// Each connection goes to the worker with the fewest whose event loop has just answered.
        Exact = "exact",
        /// As `exact`, without asking the event loop first: less CPU time for each connection.
        Least = "least",
        /// One listening socket for all workers, as Node's `SCHED_NONE`.
        Shared = "shared",
        /// A client address stays with its worker.
        Sticky = "sticky",
    }
}

/// What all processes of an app together may use, by its control group; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Thousandths of a core.
    pub millicores: Option<u32>,
}

impl ResourceLimits {
    /// What is enough for both.
    #[must_use]
    pub fn looser(self, other: Self) -> Self {
        Self {
            memory_bytes: self.memory_bytes.zip(other.memory_bytes).map(|(one, other)| one.max(other)),
            millicores: self.millicores.zip(other.millicores).map(|(one, other)| one.max(other)),
        }
    }
}

/// What happens after a worker's exit that nobody asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartPolicy {
    /// Whether it is started again at all.
    pub autorestart: bool,
    /// Whether a program that ends with code 0 right after its start is started again too: `autorestart: true` was
    /// given explicitly. By default such a program is finished.
    pub restart_finished: bool,
    /// Unstable exits (uptime below `min_uptime`) within `window` before the slot is given up as errored.
    pub max_restarts: u32,
    /// The least width of the sliding window that `max_restarts` is counted over; see [`AppSpec::unstable_window`].
    pub window: Duration,
    /// A worker that lived for less was unstable.
    pub min_uptime: Duration,
    /// Pause before the second and later restarts in a row.
    pub delay: RestartDelay,
    /// Exit codes after which the worker stays stopped.
    pub stop_exit_codes: Vec<i32>,
}

/// How long to wait before a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopPolicy {
    /// First signal, by name (`SIGINT` unless the user chose another).
    pub signal: StopSignal,
    /// From the signal to SIGKILL.
    pub kill_timeout: Duration,
    /// At a reload: from `disconnect` to the signal, the time that requests under way have to finish.
    pub drain_timeout: Duration,
    /// Ask by `process.send('shutdown')` instead of the signal (`shutdown_with_message`).
    pub by_message: bool,
    /// Whether descendants of the worker get the first signal too (`treekill`); none survives in any case.
    pub whole_tree: bool,
}

/// How a process is asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asking {
    /// By the message `shutdown`. The signal is for a process that it cannot be sent to.
    pub by_message: bool,
    pub signal: i32,
    /// Whether the signal goes to the processes below it, too.
    pub to_tree: bool,
}

impl StopPolicy {
    /// What an app can listen for when one of its processes is told to stop: the name of a signal, or `message`.
    pub fn heard_as(&self) -> Option<&'static str> {
        if self.by_message { Some("message") } else { crate::signals::name(self.signal.0) }
    }

    /// How a process is asked to end. `of_daemon`: the signal by which the daemon itself was told to end, which it passes on. `lives`:
    /// whether the process is still there, or only what it has left behind.
    pub fn asking(&self, of_daemon: Option<i32>, lives: bool) -> Asking {
        Asking {
            by_message: self.by_message && of_daemon.is_none() && lives,
            signal: of_daemon.unwrap_or(self.signal.0),
            to_tree: self.whole_tree || !lives,
        }
    }
}

/// A signal number that this kernel knows (1 to 64).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopSignal(pub i32);

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            autorestart: true,
            restart_finished: false,
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
            by_message: false,
            whole_tree: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_asked_to_end_as_its_app_wants_or_by_the_daemons_signal() {
        let (int, term) = (2, 15);
        for (by_message, whole_tree, of_daemon, lives, asked) in [
            (false, true, None, true, (false, int, true)),
            (false, false, None, true, (false, int, false)),
            (true, true, None, true, (true, int, true)),
            (true, false, Some(term), true, (false, term, false)),
            (true, false, None, false, (false, int, true)),
            (false, true, Some(term), false, (false, term, true)),
        ] {
            let stop = StopPolicy { by_message, whole_tree, ..StopPolicy::default() };
            let Asking { by_message, signal, to_tree } = stop.asking(of_daemon, lives);
            assert_eq!((by_message, signal, to_tree), asked, "{stop:?}, {of_daemon:?}, {lives}");
        }
    }
}
