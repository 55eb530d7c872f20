//! An app as it travels: what its user asked for.

use std::collections::BTreeMap;

use forkful_core::spec::environment::{is_harmless, looks_app_specific, shown_arguments};
use serde::{Deserialize, Serialize};

use super::{
    BalanceKind, EnvSourcesDefinition, HealthDefinition, LogRotateDefinition, ModeKind, RunAsDefinition,
    RuntimeKind, WatchDefinition, yes,
};

/// An app as it travels. Durations are in milliseconds, paths absolute.
///
/// Reading one ignores unknown keys, so that a state that a newer version has saved can be read; requests are
/// read by [`strict`](crate::strict), which refuses unknown keys. A new field needs a default, so that the states
/// of older versions can be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
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
    #[serde(with = "super::named")]
    #[cfg_attr(test, schemars(with = "super::named::Schema<RuntimeKind>"))]
    pub runtime: RuntimeKind,
    /// `cluster` or `fork`.
    #[serde(with = "super::named")]
    #[cfg_attr(test, schemars(with = "super::named::Schema<ModeKind>"))]
    pub mode: ModeKind,
    /// Number of workers.
    pub instances: u16,
    /// How connections are spread.
    #[serde(with = "super::named")]
    #[cfg_attr(test, schemars(with = "super::named::Schema<BalanceKind>"))]
    pub balance: BalanceKind,
    /// Restart after an exit.
    pub autorestart: bool,
    /// Restart a program too that ends with code 0 right after its start; else it is finished.
    #[serde(default)]
    pub restart_finished: bool,
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
    /// Memory that all its processes together may use.
    #[serde(default)]
    pub memory_max_bytes: Option<u64>,
    /// Thousandths of a core that all its processes together may use.
    #[serde(default)]
    pub cpu_max_millicores: Option<u32>,
    /// Bind ports below 1024 for workers of another user.
    #[serde(default)]
    pub low_ports: bool,
    /// Where each setting was given that is not a default, by its key in a configuration: `app.config.js:4:5`, or
    /// `command line`.
    #[serde(default)]
    pub origins: BTreeMap<String, String>,
}

impl AppDefinition {
    /// Whether its workers run as another user than this one.
    pub fn is_of_another_user(&self, own_uid: u32) -> bool {
        self.run_as.as_ref().is_some_and(|user| user.uid != own_uid)
    }

    /// Replaces the secrets among its arguments, for output that others may see.
    pub fn redact_arguments(&mut self) {
        for arguments in [&mut self.args, &mut self.program_args] {
            *arguments = shown_arguments(arguments);
        }
        if let Some(script) = &mut self.script {
            // The shell's command line, of apps that have one.
            let words: Vec<String> = script.split(' ').map(str::to_owned).collect();
            *script = shown_arguments(&words).join(" ");
        }
    }

    /// Variables of the caller's shell that the app is likely to need and that no saved state holds.
    pub fn unsaved_variables(&self) -> Vec<&str> {
        let sources = &self.env_sources;
        let is_unsaved =
            |name: &&String| !sources.keep_inherited && !is_harmless(name) && looks_app_specific(name);
        sources.inherited.iter().filter(is_unsaved).map(String::as_str).collect()
    }
}

fn default_namespace() -> String {
    forkful_core::spec::NAMESPACE_DEFAULT.to_owned()
}

fn default_instance_var() -> String {
    "NODE_APP_INSTANCE".to_owned()
}
