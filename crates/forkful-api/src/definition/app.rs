//! An app as it travels: its fields, and each to and from the core's spec.

use std::collections::BTreeMap;
use std::time::Duration;

use forkful_core::alerts::AlertPolicy;
use forkful_core::autoscale::ScaleBounds;
use forkful_core::logs::{AnsiPolicy, LineFormat, LogRotation};
use forkful_core::otlp::OtlpPolicy;
use forkful_core::spec::environment::{is_harmless, looks_app_specific, shown_arguments, shown_path};
use forkful_core::spec::{
    AppName, AppSpec, EnvSources, HealthCheck, INSTANCES_MAX, Launch, Readiness, RestartDelay, RestartPolicy,
    RunAs, StopPolicy, StopSignal, Warmup, Watch,
};
use forkful_core::start::Identity;
use serde::{Deserialize, Serialize};

use super::check::Check;
use super::{DURATION_MS_MAX, DefinitionError, ORIGINS_MAX, SIGNAL_MAX, millis, text};
use crate::types::{BalanceKind, ModeKind, RuntimeKind};

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
    pub runtime: RuntimeKind,
    /// `cluster` or `fork`.
    pub mode: ModeKind,
    /// Number of workers; the present one where it follows the load.
    pub instances: u16,
    /// Between which numbers the number of workers follows the load; `null` leaves it as it is.
    #[serde(default)]
    pub autoscale: Option<ScaleBounds>,
    /// How connections are spread.
    pub balance: BalanceKind,
    /// How long the share of a new worker takes to rise to the full one; 0 has it all at once.
    #[serde(default)]
    pub slow_start_ms: u64,
    /// Restart after an exit.
    pub autorestart: bool,
    /// Restart a program too that ends with code 0 right after its start; else it is finished.
    #[serde(default)]
    pub restart_finished: bool,
    /// Unstable exits in the window before giving up.
    pub max_restarts: u32,
    /// Width of that window.
    pub restart_window_ms: u64,
    /// A worker that exits sooner counts as unstable.
    pub min_uptime_ms: u64,
    /// Fixed pause before each restart.
    pub restart_delay_ms: Option<u64>,
    /// First step of the exponential pause; ignored when `restart_delay_ms` is given.
    pub exp_backoff_restart_delay_ms: Option<u64>,
    /// Longest pause of those that grow; ignored when `restart_delay_ms` is given.
    #[serde(default)]
    pub max_restart_delay_ms: Option<u64>,
    /// Exit codes that leave the worker stopped.
    pub stop_exit_codes: Vec<i32>,
    /// Ready by `process.send('ready')`.
    pub wait_ready: bool,
    /// Bound on becoming ready; 0 as if it was not given.
    pub listen_timeout_ms: Option<u64>,
    /// Requests to a new worker before it is ready.
    #[serde(default)]
    pub warmup: Option<Warmup>,
    /// Where alerts of incidents go.
    #[serde(default)]
    pub alerts: Option<AlertPolicy>,
    /// First signal of a stop, as a number.
    pub kill_signal: i32,
    /// Time between `kill_signal` and SIGKILL; 0 is the default of 5 s.
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
    /// Record blocked event loops of at least this duration; 0 records none.
    #[serde(default = "default_stall_threshold")]
    pub stall_threshold_ms: u64,
    /// Where its metrics are sent for OpenTelemetry.
    #[serde(default)]
    pub otlp: Option<OtlpPolicy>,
    /// Give the metrics of all workers at a scrape of the app's own prom-client.
    #[serde(default)]
    pub merge_metrics: bool,
    /// Have Node.js workers share a folder of compiled code.
    #[serde(default = "yes")]
    pub compile_cache: bool,
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
    pub env_sources: EnvSources,
    /// Whom the workers run as.
    #[serde(default)]
    pub run_as: Option<RunAs>,
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
    #[serde(default = "default_rotation")]
    pub log_rotate: Option<LogRotation>,
    /// Which changes of files make the workers be replaced.
    #[serde(default)]
    pub watch: Option<Watch>,
    /// Replace a worker whose process tree uses more memory.
    #[serde(default)]
    pub max_memory_bytes: Option<u64>,
    /// Replace a worker when it has answered this many requests.
    #[serde(default)]
    pub max_requests: Option<u64>,
    /// Replace a worker that is older.
    #[serde(default)]
    pub max_age_ms: Option<u64>,
    /// Replace the workers at these times.
    #[serde(default)]
    pub cron_restart: Option<String>,
    /// The health check of workers.
    #[serde(default)]
    pub health: Option<HealthCheck>,
    /// Apps that are ready before this one starts.
    #[serde(default)]
    pub depends_on: Vec<String>,
    /// Memory that all its processes together may use.
    #[serde(default)]
    pub memory_max_bytes: Option<u64>,
    /// Thousandths of a core that all its processes together may use.
    #[serde(default)]
    pub cpu_max_millicores: Option<u32>,
    /// Divide the app's memory over its workers: sets heap limits, and when a worker is replaced.
    #[serde(default)]
    pub memory_auto: bool,
    /// The major version of Node.js, if it was determined for that.
    #[serde(default)]
    pub node_major: Option<u16>,
    /// Bind ports below 1024 for workers of another user.
    #[serde(default)]
    pub low_ports: bool,
    /// Where each setting that is not a default was given, by its key in a configuration:
    /// `app.config.js:4:5`, or `command line`.
    #[serde(default)]
    pub origins: BTreeMap<String, String>,
}

impl AppDefinition {
    /// What tells it from other apps.
    pub fn identity(&self) -> Identity<'_> {
        Identity { name: &self.name, program: &self.program, script: self.script.as_deref() }
    }

    /// Whether its workers run as a user other than this one.
    pub fn is_of_another_user(&self, own_uid: u32) -> bool {
        self.run_as.as_ref().is_some_and(|user| user.uid != own_uid)
    }

    /// Redacts secrets in its arguments, paths of requests and alerts, for output that others may see. The values of its
    /// environment stay.
    pub fn redact_secrets(&mut self) {
        for arguments in [&mut self.args, &mut self.program_args] {
            *arguments = shown_arguments(arguments);
        }
        if let Some(script) = &mut self.script {
            // The shell's command line, if the app has one.
            let words: Vec<String> = script.split(' ').map(str::to_owned).collect();
            *script = shown_arguments(&words).join(" ");
        }
        if let Some(health) = &mut self.health {
            health.probe.redact();
        }
        if let Some(warmup) = &mut self.warmup {
            warmup.paths.iter_mut().for_each(|path| *path = shown_path(path));
        }
        if let Some(alerts) = &mut self.alerts {
            alerts.redact();
        }
    }

    /// Variables of the caller's shell that the app probably needs and that are not saved.
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

/// What a definition that does not speak of it means.
fn default_rotation() -> Option<LogRotation> {
    Some(LogRotation::default())
}

fn default_stall_threshold() -> u64 {
    millis(forkful_core::stalls::STALL_THRESHOLD_DEFAULT)
}

fn yes() -> bool {
    true
}

impl From<&AppSpec> for AppDefinition {
    /// Paths that are no UTF-8 come out with replacement characters; `forkful-config` refuses them before.
    fn from(spec: &AppSpec) -> Self {
        Self {
            name: spec.name.as_str().to_owned(),
            program: text(&spec.launch.program),
            program_args: spec.launch.program_args.clone(),
            script: spec.launch.script.clone(),
            args: spec.launch.args.clone(),
            cwd: text(&spec.launch.cwd),
            env: spec.launch.env.clone(),
            runtime: spec.launch.runtime,
            mode: spec.mode,
            instances: spec.instances,
            autoscale: spec.autoscale,
            balance: spec.balance,
            slow_start_ms: millis(spec.slow_start),
            autorestart: spec.restart.autorestart,
            restart_finished: spec.restart.restart_finished,
            max_restarts: spec.restart.max_restarts,
            restart_window_ms: millis(spec.restart.window),
            min_uptime_ms: millis(spec.restart.min_uptime),
            restart_delay_ms: pauses(spec.restart.delay).0,
            exp_backoff_restart_delay_ms: pauses(spec.restart.delay).1,
            max_restart_delay_ms: pauses(spec.restart.delay).2,
            stop_exit_codes: spec.restart.stop_exit_codes.clone(),
            wait_ready: spec.readiness.wait_ready,
            listen_timeout_ms: spec.readiness.listen_timeout.map(millis),
            warmup: spec.warmup.clone(),
            alerts: spec.alerts.clone(),
            kill_signal: spec.stop.signal.0,
            kill_timeout_ms: millis(spec.stop.kill_timeout),
            drain_timeout_ms: millis(spec.stop.drain_timeout),
            out_file: spec.logs.out_file.as_ref().map(text),
            error_file: spec.logs.error_file.as_ref().map(text),
            merge_logs: spec.logs.merge,
            time: spec.logs.time,
            agent: spec.agent,
            stall_threshold_ms: millis(spec.stall_threshold),
            otlp: spec.otlp.clone(),
            merge_metrics: spec.merge_metrics,
            compile_cache: spec.compile_cache,
            namespace: spec.namespace.as_str().to_owned(),
            autostart: spec.autostart,
            pid_file: spec.pid_file.as_ref().map(text),
            instance_var: spec.variables.instance.clone(),
            increment_var: spec.variables.increment.clone(),
            env_sources: spec.launch.env_sources.clone(),
            run_as: spec.launch.run_as.clone(),
            shutdown_with_message: spec.stop.by_message,
            treekill: spec.stop.whole_tree,
            log_date_format: spec.logs.date_format.as_ref().map(|form| form.as_str().to_owned()),
            log_file: spec.logs.combined_file.as_ref().map(text),
            log_json: spec.logs.line_format == LineFormat::Json,
            disable_logs: spec.logs.disabled,
            log_strip_ansi: spec.logs.ansi == AnsiPolicy::Strip,
            log_rotate: spec.logs.rotation.clone(),
            watch: spec.watch.clone(),
            max_memory_bytes: spec.renewal.max_memory_bytes,
            max_requests: spec.renewal.max_requests,
            max_age_ms: spec.renewal.max_age.map(millis),
            cron_restart: spec.renewal.cron.as_ref().map(|cron| cron.as_str().to_owned()),
            health: spec.health.clone(),
            depends_on: spec.depends_on.iter().map(ToString::to_string).collect(),
            memory_max_bytes: spec.limits.memory_bytes,
            cpu_max_millicores: spec.limits.millicores,
            memory_auto: spec.memory_auto,
            node_major: spec.launch.node_major,
            low_ports: spec.low_ports,
            origins: spec.origins.clone(),
        }
    }
}

/// The fixed pause, or the first and the longest one.
fn pauses(delay: RestartDelay) -> (Option<u64>, Option<u64>, Option<u64>) {
    match delay {
        RestartDelay::Fixed(pause) => (Some(millis(pause)), None, None),
        RestartDelay::Exponential { initial, max } => (None, Some(millis(initial)), longest(initial, max)),
    }
}

/// The longest pause. `None` where it is as long as the first pause only because the first one exceeds the default
/// maximum: then it goes back to the default when the first pause is made shorter.
fn longest(initial: Duration, max: Duration) -> Option<u64> {
    let follows = match RestartDelay::default() {
        RestartDelay::Exponential { max: usual, .. } => max == initial && max > usual,
        RestartDelay::Fixed(_) => false,
    };
    (!follows).then(|| millis(max))
}

impl AppDefinition {
    /// Whether it names only kinds of incidents that this version knows, as a request has to.
    ///
    /// # Errors
    /// The unknown kind and the known ones, in a sentence.
    pub fn check_kinds(&self) -> Result<(), String> {
        self.alerts.as_ref().map_or(Ok(()), AlertPolicy::check_kinds)
    }
}

impl TryFrom<AppDefinition> for AppSpec {
    type Error = DefinitionError;

    fn try_from(definition: AppDefinition) -> Result<Self, DefinitionError> {
        let name = AppName::new(definition.name.as_str())
            .map_err(|fault| DefinitionError::name(&definition.name, fault))?;
        let check = Check { app: name.as_str() };
        if definition.mode == ModeKind::Cluster && definition.runtime != RuntimeKind::Node {
            return Err(DefinitionError::ClusterNeedsNode { app: name.as_str().to_owned() });
        }
        let instances = check.instances(&definition)?;
        let restart = check.restart(&definition)?;
        let readiness = Readiness {
            wait_ready: definition.wait_ready,
            listen_timeout: check.timeout("listen_timeout_ms", definition.listen_timeout_ms)?,
        };
        let stop = check.stop(&definition)?;
        let logs = check.logs(&definition)?;
        let renewal = check.renewal(&definition)?;
        let limits = check.limits(&definition)?;
        let variables = check.variables(&definition)?;
        check.env_sources(&definition.env_sources)?;
        definition.watch.iter().try_for_each(|watch| check.watch(watch))?;
        check.requests(&definition)?;
        check.env(&definition.env)?;
        check.words(&definition)?;
        let launch = Launch {
            program: check.path("program", definition.program)?,
            program_args: definition.program_args,
            script: definition.script,
            args: definition.args,
            cwd: check.path("cwd", definition.cwd)?,
            env: definition.env,
            env_sources: definition.env_sources,
            run_as: definition.run_as,
            runtime: definition.runtime,
            node_major: definition.node_major,
        };
        Ok(Self {
            namespace: check.namespace(&definition.namespace)?,
            autostart: definition.autostart,
            pid_file: check.optional_path("pid_file", definition.pid_file)?,
            variables,
            watch: definition.watch,
            renewal,
            health: definition.health,
            depends_on: check.depends_on(definition.depends_on)?,
            limits,
            memory_auto: definition.memory_auto,
            low_ports: definition.low_ports,
            origins: definition.origins.into_iter().take(ORIGINS_MAX).collect(),
            launch,
            instances,
            autoscale: definition.autoscale,
            mode: definition.mode,
            balance: definition.balance,
            slow_start: check.duration("slow_start_ms", definition.slow_start_ms)?,
            restart,
            readiness,
            warmup: definition.warmup,
            alerts: definition.alerts,
            stop,
            logs,
            agent: definition.agent,
            stall_threshold: check.duration("stall_threshold_ms", definition.stall_threshold_ms)?,
            otlp: definition.otlp,
            merge_metrics: definition.merge_metrics,
            compile_cache: definition.compile_cache,
            name,
        })
    }
}

impl Check<'_> {
    /// The number of workers, within the bounds between which it follows the load.
    fn instances(&self, definition: &AppDefinition) -> Result<u16, DefinitionError> {
        self.range("instances", definition.instances, 1, INSTANCES_MAX)?;
        let Some(bounds) = definition.autoscale else { return Ok(definition.instances) };
        self.range("autoscale.max", bounds.max, 1, INSTANCES_MAX)?;
        self.range("autoscale.min", bounds.min, 1, bounds.max)?;
        Ok(bounds.nearest(definition.instances))
    }

    /// What the command line is made of.
    fn words(&self, definition: &AppDefinition) -> Result<(), DefinitionError> {
        self.texts("program_args", &definition.program_args)?;
        self.texts("args", &definition.args)?;
        self.texts("script", definition.script.as_slice())
    }

    fn stop(&self, definition: &AppDefinition) -> Result<StopPolicy, DefinitionError> {
        self.range("kill_signal", definition.kill_signal, 1, SIGNAL_MAX)?;
        Ok(StopPolicy {
            signal: StopSignal(definition.kill_signal),
            kill_timeout: self
                .timeout("kill_timeout_ms", Some(definition.kill_timeout_ms))?
                .unwrap_or(StopPolicy::default().kill_timeout),
            drain_timeout: self.duration("drain_timeout_ms", definition.drain_timeout_ms)?,
            by_message: definition.shutdown_with_message,
            whole_tree: definition.treekill,
        })
    }

    fn restart(&self, definition: &AppDefinition) -> Result<RestartPolicy, DefinitionError> {
        let fixed = self.optional_duration("restart_delay_ms", definition.restart_delay_ms)?;
        for (field, pause) in [
            // A first step of zero would never grow: a restart loop without any pause.
            ("exp_backoff_restart_delay_ms", definition.exp_backoff_restart_delay_ms),
            ("max_restart_delay_ms", definition.max_restart_delay_ms),
        ] {
            self.range(field, pause.unwrap_or(1), 1, DURATION_MS_MAX)?;
        }
        let given = |millis: Option<u64>, default| millis.map_or(default, Duration::from_millis);
        let delay = match (fixed, RestartDelay::default()) {
            (Some(pause), _) => RestartDelay::Fixed(pause),
            (None, RestartDelay::Exponential { initial, max }) => {
                let initial = given(definition.exp_backoff_restart_delay_ms, initial);
                let max = given(definition.max_restart_delay_ms, max).max(initial);
                RestartDelay::Exponential { initial, max }
            }
            (None, fixed @ RestartDelay::Fixed(_)) => fixed,
        };
        self.count("stop_exit_codes", definition.stop_exit_codes.len())?;
        for code in &definition.stop_exit_codes {
            self.range("stop_exit_codes", *code, 0, 255)?;
        }
        Ok(RestartPolicy {
            autorestart: definition.autorestart,
            restart_finished: definition.restart_finished,
            max_restarts: definition.max_restarts,
            window: self.duration("restart_window_ms", definition.restart_window_ms)?,
            min_uptime: self.duration("min_uptime_ms", definition.min_uptime_ms)?,
            delay,
            stop_exit_codes: definition.stop_exit_codes.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use forkful_core::spec::HealthProbe;

    use super::*;

    #[test]
    fn everything_that_may_hold_a_secret_is_redacted_for_output() {
        let mut definition: AppDefinition = serde_json::from_value(serde_json::json!({
            "name": "api", "program": "/bin/sh", "program_args": ["--token=SEK"], "script": "serve --password SEK",
            "args": ["postgres://u:SEK@db/x?sslmode=require"], "cwd": "/srv", "env": {}, "runtime": "other",
            "mode": "fork", "instances": 1, "balance": "exact", "autorestart": true, "max_restarts": 3,
            "restart_window_ms": 60_000, "min_uptime_ms": 500, "restart_delay_ms": null,
            "exp_backoff_restart_delay_ms": 250, "stop_exit_codes": [], "wait_ready": true, "listen_timeout_ms": null,
            "kill_signal": 15, "kill_timeout_ms": 1600, "drain_timeout_ms": 9000, "out_file": null,
            "error_file": null, "merge_logs": true, "time": true, "agent": false,
            "health": {
                "probe": { "http": { "port": 80, "path": "/h?token=SEK&a=1" } },
                "interval_ms": 1, "timeout_ms": 1, "start_period_ms": 1, "failures_max": 1,
            },
            "warmup": { "paths": ["/w?key=SEK", "/"], "requests": 1, "timeout_ms": 1 },
            "alerts": { "webhook": "https://hooks.example.com/SEK", "command": ["notify", "--token", "SEK"], "on": [], "every_ms": 1, "timeout_ms": 1 },
        }))
        .unwrap();
        definition.redact_secrets();
        let told = serde_json::to_value(&definition).unwrap();
        assert!(!told.to_string().contains("SEK"), "{told}");
        assert_eq!(told["health"]["probe"]["http"]["path"], "/h?token=[redacted]&a=1");
        assert_eq!(told["warmup"]["paths"], serde_json::json!(["/w?key=[redacted]", "/"]));
        let mut command = HealthProbe::Command { words: vec!["check".to_owned(), "--token=SEK".to_owned()] };
        command.redact();
        assert_eq!(
            command,
            HealthProbe::Command { words: vec!["check".to_owned(), "--token=[redacted]".to_owned()] }
        );
    }
}
