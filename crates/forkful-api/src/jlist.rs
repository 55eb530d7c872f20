//! The list of workers in the shape of PM2's `jlist`, for the scripts and tools that read it: an array
//! with one element per worker. Values of the environment are not in it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::types::{AppDefinition, AppList, AppView, ModeKind, RuntimeKind, Status, WorkerView};

/// One worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
}

/// What a worker uses; both are 0 when there is no process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Monit {
    /// Resident memory in bytes.
    pub memory: u64,
    /// CPU in percent of one core.
    pub cpu: f32,
}

/// PM2's bag of configuration and state. The names are PM2's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the shape is PM2's")]
pub struct Pm2Env {
    /// The app.
    pub name: String,
    /// Always `default`.
    pub namespace: String,
    /// The worker's id.
    pub pm_id: u32,
    /// State.
    pub status: Status,
    /// Restarts.
    pub restart_time: u32,
    /// Unstable exits in the window.
    pub unstable_restarts: u32,
    /// When the present (or last) process was started, in milliseconds since the Unix epoch.
    pub pm_uptime: u64,
    /// When the app was created, in the same.
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
    /// The script.
    pub pm_exec_path: String,
    /// Working directory.
    pub pm_cwd: String,
    /// Arguments of the script.
    pub args: Vec<String>,
    /// Arguments of the interpreter.
    pub node_args: Vec<String>,
    /// What runs the script; `none` when it runs itself.
    pub exec_interpreter: String,
    /// stdout file.
    pub pm_out_log_path: String,
    /// stderr file.
    pub pm_err_log_path: String,
    /// One file per stream for all workers.
    pub merge_logs: bool,
    /// Whether it is restarted after an exit.
    pub autorestart: bool,
    /// Unstable exits before it is given up.
    pub max_restarts: u32,
    /// A shorter life is unstable, in milliseconds.
    pub min_uptime: u64,
    /// From the first signal to SIGKILL, in milliseconds.
    pub kill_timeout: u64,
    /// Ready by `process.send('ready')`.
    pub wait_ready: bool,
    /// Whether files are watched; not in this version.
    pub watch: bool,
    /// The last exit code, when there was one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub exit_code: Option<i32>,
    /// Always empty: there for tools that read it without asking.
    pub env: Map<String, Value>,
}

/// All workers, by id.
pub fn jlist(list: &AppList) -> Vec<JlistEntry> {
    let mut entries: Vec<JlistEntry> =
        list.apps.iter().flat_map(|app| app.workers.iter().map(|worker| entry(app, worker))).collect();
    entries.sort_by_key(|entry| entry.pm_id);
    entries
}

fn entry(app: &AppView, worker: &WorkerView) -> JlistEntry {
    let definition = &app.definition;
    JlistEntry {
        pid: worker.pid.unwrap_or(0),
        name: definition.name.clone(),
        pm_id: worker.pm_id,
        monit: Monit { memory: worker.memory_bytes, cpu: (worker.cpu_percent * 10.0).round() / 10.0 },
        pm2_env: Pm2Env {
            name: definition.name.clone(),
            namespace: "default".to_owned(),
            pm_id: worker.pm_id,
            status: worker.status,
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
            instance_var: "NODE_APP_INSTANCE".to_owned(),
            pm_exec_path: definition.script.clone().unwrap_or_else(|| definition.program.clone()),
            pm_cwd: definition.cwd.clone(),
            args: definition.args.clone(),
            node_args: definition.program_args.clone(),
            exec_interpreter: interpreter(definition),
            pm_out_log_path: worker.out_log_path.clone(),
            pm_err_log_path: worker.error_log_path.clone(),
            merge_logs: definition.merge_logs,
            autorestart: definition.autorestart,
            max_restarts: definition.max_restarts,
            min_uptime: definition.min_uptime_ms,
            kill_timeout: definition.kill_timeout_ms,
            wait_ready: definition.wait_ready,
            watch: false,
            exit_code: worker.exit_code,
            env: Map::new(),
        },
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
