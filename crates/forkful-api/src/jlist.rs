//! The list of workers in the format of PM2's `jlist`, for scripts and tools that read it: an array with one
//! element per worker. It contains the environment twice, like PM2, as in [`EnvironmentReply`]: with secrets
//! redacted unless requested.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use forkful_core::metrics::METRICS;
use forkful_core::outgoing::HostUse;
use forkful_core::spec::pid_file_of;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::conversation::{ActionView, EnvironmentReply, Metric};
use crate::types::{AppDefinition, AppList, AppView, ModeKind, RuntimeKind, Status, WorkerUsage, WorkerView};

/// One worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JlistEntry {
    /// Process id; 0 when there is no process.
    pub pid: u32,
    /// The app.
    pub name: String,
    /// Everything else about it.
    pub pm2_env: Pm2Env,
    /// The worker's id.
    pub pm_id: u32,
    /// What it uses.
    pub monit: Monit,
    /// The use of its process and all descendants, by the kernel's accounts; only if its control group has
    /// them. PM2 has no such field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<WorkerUsage>,
    /// The hosts to which it has opened connections, such as databases: at most 16, those with most connections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outgoing: Vec<HostUse>,
}

/// The use of a worker; both are 0 without a process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Monit {
    /// Resident memory in bytes.
    pub memory: u64,
    /// CPU in percent of one core.
    pub cpu: f32,
    /// How long its event loop has been blocked, in milliseconds, if it counts as blocked. PM2 has no such
    /// field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_ms: Option<u64>,
}

/// PM2's mix of configuration and state. The names are PM2's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[expect(clippy::struct_excessive_bools, reason = "the shape is PM2's")]
pub struct Pm2Env {
    /// The app.
    pub name: String,
    /// The app's group.
    pub namespace: String,
    /// The worker's id.
    pub pm_id: u32,
    /// State.
    pub status: Status,
    /// Restarts.
    pub restart_time: u32,
    /// Unstable exits in the window.
    pub unstable_restarts: u32,
    /// When the current (or last) process was started, in milliseconds since the Unix epoch.
    pub pm_uptime: u64,
    /// When the app was created, in milliseconds since the Unix epoch.
    pub created_at: u64,
    /// `cluster_mode` or `fork_mode`.
    pub exec_mode: String,
    /// Number of workers of the app.
    pub instances: u16,
    /// The worker's slot.
    #[serde(rename = "NODE_APP_INSTANCE")]
    pub node_app_instance: u16,
    /// Name of the variable that holds the slot.
    pub instance_var: String,
    /// Variable that increases by one from worker to worker.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub increment_var: Option<String>,
    /// The script.
    pub pm_exec_path: String,
    /// Working directory.
    pub pm_cwd: String,
    /// Arguments of the script.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub args: Vec<String>,
    /// Arguments of the interpreter.
    pub node_args: Vec<String>,
    /// The interpreter of the script; `none` if the script runs itself.
    pub exec_interpreter: String,
    /// stdout file.
    pub pm_out_log_path: String,
    /// stderr file.
    pub pm_err_log_path: String,
    /// File of both streams.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pm_log_path: Option<String>,
    /// File of the process id.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pm_pid_path: Option<String>,
    /// One file per stream for all workers.
    pub merge_logs: bool,
    /// Format of times in logs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub log_date_format: Option<String>,
    /// Whether its workers start when it is created.
    pub autostart: bool,
    /// Whether it is restarted after an exit.
    pub autorestart: bool,
    /// Unstable exits before it is given up.
    pub max_restarts: u32,
    /// A shorter life is unstable, in milliseconds.
    pub min_uptime: u64,
    /// Pause before each restart, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub restart_delay: Option<u64>,
    /// First delay of growing delays, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub exp_backoff_restart_delay: Option<u64>,
    /// Exit codes that leave it stopped.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub stop_exit_codes: Vec<i32>,
    /// When it is restarted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cron_restart: Option<String>,
    /// It is reloaded if it uses more memory, in bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_memory_restart: Option<u64>,
    /// From the first signal to SIGKILL, in milliseconds.
    pub kill_timeout: u64,
    /// Interval between two checks whether all processes have ended, in milliseconds.
    pub kill_retry_time: u64,
    /// Whether its descendants get the first signal too.
    pub treekill: bool,
    /// Whether a message asks it to stop.
    pub shutdown_with_message: bool,
    /// Ready by `process.send('ready')`.
    pub wait_ready: bool,
    /// Time limit for becoming ready, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub listen_timeout: Option<u64>,
    /// Whether files are watched.
    pub watch: bool,
    /// Whether the script is instrumented.
    pub pmx: bool,
    /// Always false: Forkful has no such service.
    pub automation: bool,
    /// Always false: Forkful does not read repositories.
    pub vizion: bool,
    /// Always false.
    pub vizion_running: bool,
    /// Always false: Forkful has no such service.
    pub km_link: bool,
    /// Always true.
    #[serde(rename = "windowsHide")]
    pub windows_hide: bool,
    /// The user that started it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub username: Option<String>,
    /// Identifies this creation of the app, in the format of a UUID.
    pub unique_id: String,
    /// Its Node.js version, if known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node_version: Option<String>,
    /// The version in its `package.json`, or `N/A`. The client that shows the list reads it, not the daemon.
    pub version: String,
    /// Actions that it has registered with `@pm2/io`.
    pub axm_actions: Vec<ActionView>,
    /// Metrics that it reports with `@pm2/io`, and its agent's measurements under PM2's names.
    pub axm_monitor: BTreeMap<String, Metric>,
    /// The options of its `@pm2/io`.
    pub axm_options: BTreeMap<String, Value>,
    /// Always empty.
    pub axm_dynamic: Map<String, Value>,
    /// The last exit code, if any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub exit_code: Option<i32>,
    /// The environment; absent in events.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub env: Option<BTreeMap<String, String>>,
    /// The environment again, next to the other fields, except variables with the name of a PM2 field.
    #[serde(flatten)]
    pub variables: BTreeMap<String, Value>,
}

/// The names of all fields of [`Pm2Env`], with those that are left out while they have no value.
const PM2_FIELDS: [&str; 56] = [
    "name",
    "namespace",
    "pm_id",
    "status",
    "restart_time",
    "unstable_restarts",
    "pm_uptime",
    "created_at",
    "exec_mode",
    "instances",
    "NODE_APP_INSTANCE",
    "instance_var",
    "increment_var",
    "pm_exec_path",
    "pm_cwd",
    "args",
    "node_args",
    "exec_interpreter",
    "pm_out_log_path",
    "pm_err_log_path",
    "pm_log_path",
    "pm_pid_path",
    "merge_logs",
    "log_date_format",
    "autostart",
    "autorestart",
    "max_restarts",
    "min_uptime",
    "restart_delay",
    "exp_backoff_restart_delay",
    "stop_exit_codes",
    "cron_restart",
    "max_memory_restart",
    "kill_timeout",
    "kill_retry_time",
    "treekill",
    "shutdown_with_message",
    "wait_ready",
    "listen_timeout",
    "watch",
    "pmx",
    "automation",
    "vizion",
    "vizion_running",
    "km_link",
    "windowsHide",
    "username",
    "unique_id",
    "node_version",
    "version",
    "axm_actions",
    "axm_monitor",
    "axm_options",
    "axm_dynamic",
    "exit_code",
    "env",
];

/// All workers, by id. Secrets in command lines are redacted unless `show_secrets`; those of the environment are as
/// `environment` has them.
pub fn jlist(list: &AppList, environment: &EnvironmentReply, show_secrets: bool) -> Vec<JlistEntry> {
    let with_env = |app: &AppView, shown: &AppDefinition, worker: &WorkerView| {
        let mut entry = entry(app, shown, worker);
        if let Some(env) = environment.apps.get(&app.definition.name) {
            add_environment(&mut entry.pm2_env, env);
        }
        entry
    };
    let mut entries = Vec::new();
    for app in &list.apps {
        let shown = if show_secrets { Cow::Borrowed(&app.definition) } else { Cow::Owned(redacted(app)) };
        entries.extend(app.workers.iter().map(|worker| with_env(app, &shown, worker)));
    }
    entries.sort_by_key(|entry| entry.pm_id);
    entries
}

/// The definition without secrets in its command line.
fn redacted(app: &AppView) -> AppDefinition {
    let mut shown = app.definition.clone();
    shown.redact_secrets();
    shown
}

fn entry(app: &AppView, shown: &AppDefinition, worker: &WorkerView) -> JlistEntry {
    JlistEntry {
        pid: worker.pid.unwrap_or(0),
        name: app.definition.name.clone(),
        pm_id: worker.pm_id,
        monit: Monit {
            memory: worker.memory_bytes,
            cpu: (worker.cpu_percent * 10.0).round() / 10.0,
            blocked_ms: worker.blocked_ms,
        },
        usage: worker.usage.clone(),
        outgoing: worker.outgoing.clone(),
        pm2_env: shape(app, shown, worker),
    }
}

fn add_environment(shape: &mut Pm2Env, env: &BTreeMap<String, String>) {
    let user = ["USER", "LOGNAME"].iter().find_map(|name| env.get(*name));
    shape.username = user.filter(|name| !name.is_empty()).cloned();
    shape.env = Some(env.clone());
    let free = env.iter().filter(|(name, _)| !PM2_FIELDS.contains(&name.as_str()));
    shape.variables = free.map(|(name, value)| (name.clone(), Value::String(value.clone()))).collect();
}

/// A worker in PM2's shape, without its environment and without secrets in its command line.
pub fn pm2_env(app: &AppView, worker: &WorkerView) -> Pm2Env {
    shape(app, &redacted(app), worker)
}

/// The same with the app's definition as it may be shown.
fn shape(app: &AppView, definition: &AppDefinition, worker: &WorkerView) -> Pm2Env {
    Pm2Env {
        name: definition.name.clone(),
        namespace: definition.namespace.clone(),
        pm_id: worker.pm_id,
        // PM2 has no status for a finished program.
        status: if worker.status == Status::Finished { Status::Stopped } else { worker.status },
        restart_time: worker.restarts,
        unstable_restarts: worker.unstable_restarts,
        pm_uptime: worker.started_at_ms.unwrap_or(app.created_at_ms),
        created_at: app.created_at_ms,
        exec_mode: match definition.mode {
            ModeKind::Cluster => "cluster_mode".to_owned(),
            ModeKind::Fork => "fork_mode".to_owned(),
        },
        instances: definition.instances,
        node_app_instance: worker.slot,
        instance_var: definition.instance_var.clone(),
        increment_var: definition.increment_var.clone(),
        pm_exec_path: definition.script.clone().unwrap_or_else(|| definition.program.clone()),
        pm_cwd: definition.cwd.clone(),
        args: definition.args.clone(),
        node_args: definition.program_args.clone(),
        exec_interpreter: interpreter(definition),
        pm_out_log_path: worker.out_log_path.clone(),
        pm_err_log_path: worker.error_log_path.clone(),
        pm_log_path: definition.log_file.clone(),
        pm_pid_path: definition
            .pid_file
            .as_ref()
            .map(|file| pid_file_of(Path::new(file), worker.pm_id).to_string_lossy().into_owned()),
        merge_logs: definition.merge_logs,
        log_date_format: definition.log_date_format.clone(),
        autostart: definition.autostart,
        autorestart: definition.autorestart,
        max_restarts: definition.max_restarts,
        min_uptime: definition.min_uptime_ms,
        restart_delay: definition.restart_delay_ms,
        exp_backoff_restart_delay: definition.exp_backoff_restart_delay_ms,
        stop_exit_codes: definition.stop_exit_codes.clone(),
        cron_restart: definition.cron_restart.clone(),
        max_memory_restart: definition.max_memory_bytes,
        kill_timeout: definition.kill_timeout_ms,
        kill_retry_time: 5,
        treekill: definition.treekill,
        shutdown_with_message: definition.shutdown_with_message,
        wait_ready: definition.wait_ready,
        listen_timeout: definition.listen_timeout_ms,
        watch: definition.watch.is_some(),
        pmx: definition.agent,
        automation: false,
        vizion: false,
        vizion_running: false,
        km_link: false,
        windows_hide: true,
        username: None,
        unique_id: unique_id(&definition.name, app.created_at_ms),
        node_version: worker.node_version.clone(),
        version: "N/A".to_owned(),
        axm_actions: worker.reports.actions.clone(),
        axm_monitor: axm_monitor(&worker.metrics, &worker.reports.metrics),
        axm_options: worker.reports.options.clone(),
        axm_dynamic: Map::new(),
        exit_code: worker.exit_code,
        env: None,
        variables: BTreeMap::new(),
    }
}

/// The app's own metrics, and the agent's measurements that the app does not report.
fn axm_monitor(measured: &BTreeMap<String, f64>, own: &BTreeMap<String, Metric>) -> BTreeMap<String, Metric> {
    let measured = METRICS.iter().filter_map(|metric| {
        let (pm2, value) = (metric.pm2?, measured.get(metric.name)? * metric.pm2?.factor);
        let more = [("type", pm2.kind.into()), ("unit", pm2.unit.into()), ("historic", true.into())];
        let more = more.map(|(key, value): (&str, Value)| (key.to_owned(), value)).into();
        Some((pm2.name.to_owned(), Metric { value: in_pm2s_form(pm2.unit, value), more }))
    });
    measured.chain(own.clone()).collect()
}

/// PM2 writes some numbers as text.
fn in_pm2s_form(unit: &str, value: f64) -> Value {
    match unit {
        "MiB" | "ms" => format!("{value:.2}").into(),
        _ => ((value * 100.0).round() / 100.0).into(),
    }
}

/// `node` and `python3` as PM2 says it, not the path; `none` when the program is the script.
fn interpreter(definition: &AppDefinition) -> String {
    match (&definition.script, definition.runtime) {
        (None, _) => "none".to_owned(),
        (Some(_), RuntimeKind::Node) => "node".to_owned(),
        (Some(_), RuntimeKind::Other) => {
            let file = definition.program.rsplit('/').next();
            file.unwrap_or(definition.program.as_str()).to_owned()
        }
    }
}

/// Equal for all workers of an app, and different after it is created again: a UUID of version 8 (RFC 9562),
/// which lets us choose its bits.
fn unique_id(name: &str, created_at_ms: u64) -> String {
    // FNV-1a; nothing depends on its quality.
    let hash = |seed: u64| {
        let bytes = name.bytes().chain(created_at_ms.to_le_bytes());
        bytes.fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
    };
    let (high, low) = (hash(0xcbf2_9ce4_8422_2325), hash(0x6c62_272e_07bb_0142));
    format!(
        "{:08x}-{:04x}-8{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        0x8000 | (low >> 48) & 0x3fff,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_the_agent_measures_has_pm2s_name_and_form_and_the_apps_own_value_comes_first() {
        let measured: BTreeMap<String, f64> =
            [("heap_used_bytes", 10_485_760.0), ("http_requests_per_s", 2.0)]
                .map(|(name, value)| (name.to_owned(), value))
                .into();
        let heap = serde_json::json!({
            "value": "10.00", "type": "internal/v8/heap/used", "unit": "MiB", "historic": true,
        });
        let shown = axm_monitor(&measured, &BTreeMap::new());
        assert_eq!(serde_json::to_value(&shown["Used Heap Size"]).unwrap(), heap);
        assert_eq!((&shown["HTTP"].value, shown.len()), (&120.0.into(), 2));
        let own = Metric { value: 7.into(), more: BTreeMap::new() };
        let shown = axm_monitor(&measured, &[("HTTP".to_owned(), own.clone())].into());
        assert_eq!((&shown["HTTP"], shown.len()), (&own, 2));
    }

    #[test]
    fn a_variable_with_the_name_of_any_field_changes_no_field() {
        let schema = schemars::schema_for!(Pm2Env);
        let fields = schema.get("properties").and_then(Value::as_object).expect("it has fields");
        let known: BTreeSet<&str> = PM2_FIELDS.into_iter().collect();
        assert_eq!(fields.keys().map(String::as_str).collect::<BTreeSet<_>>(), known);
        let value = |name: &Value| match fields[name.as_str().expect("a name")]["type"].as_str() {
            Some("string") => "text".into(),
            Some("integer") => 1.into(),
            Some("boolean") => false.into(),
            Some("array") => Value::Array(Vec::new()),
            Some("object") => Value::Object(Map::new()),
            _ => serde_json::to_value(Status::Online).expect("a status is a text"),
        };
        let required = schema.get("required").and_then(Value::as_array).expect("some are always there");
        let least = required.iter().map(|name| (name.as_str().expect("a name").to_owned(), value(name)));
        let least: Pm2Env =
            serde_json::from_value(Value::Object(least.collect())).expect("it has all fields");
        for name in known {
            let env: BTreeMap<String, String> =
                [name, "PATH"].map(|name| (name.to_owned(), "fast".to_owned())).into();
            let mut shown = least.clone();
            add_environment(&mut shown, &env);
            let text = serde_json::to_string(&shown).expect("it has a JSON form");
            let read: Pm2Env =
                serde_json::from_str(&text).unwrap_or_else(|error| panic!("variable {name}: {error}"));
            assert_eq!(
                read,
                Pm2Env {
                    env: Some(env),
                    variables: [("PATH".to_owned(), "fast".into())].into(),
                    ..least.clone()
                }
            );
        }
    }

    #[test]
    fn ids_have_the_form_of_a_uuid_and_tell_apps_apart() {
        let id = unique_id("api", 1_795_277_331_613);
        let groups: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12]);
        assert!(id.chars().all(|c| c == '-' || c.is_ascii_hexdigit()));
        assert_eq!(id, unique_id("api", 1_795_277_331_613));
        assert_ne!(id, unique_id("api", 1_795_277_331_614));
        assert_ne!(id, unique_id("web", 1_795_277_331_613));
    }
}
