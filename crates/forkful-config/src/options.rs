//! What a user may say about an app, whatever the source. Everything is optional and nothing is
//! looked up: types are right, meaning comes with [`resolve`](crate::resolve()).

mod parts;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use forkful_core::date_format::DateFormat;
use forkful_core::logs::{AnsiPolicy, LineFormat, LogRotation};
use forkful_core::spec::{Balance, CronPattern, Mode, StopSignal, WatchIgnore};

use crate::error::{ConfigError, Place};
use crate::keys;
use crate::resolve::default_name;
use crate::tree::{Node, Spot, Value};

pub use parts::{FilterEnv, FlagOrPath, HealthOptions, WatchOption, WatchOptions};

/// The number of workers as the user wrote it: a number, `max`, or a negative number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstancesText(pub String);

impl From<&str> for InstancesText {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for InstancesText {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for InstancesText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where options came from, so that a fault found later still names file, line and key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// The configuration file, as the user named it.
    pub file: PathBuf,
    /// The app's place in it, as `apps[0]`; empty when the file holds a single bare app.
    pub app: String,
    /// Where the app begins, where the format has lines.
    pub at: Option<Spot>,
    /// The keys that the file gives, as it spells them, with their lines.
    pub keys: BTreeMap<String, KeyOrigin>,
}

/// One key of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyOrigin {
    /// As the file spells it (`maxRestarts`, `exec`).
    pub written: String,
    /// Where the key stands, where the format has lines.
    pub at: Option<Spot>,
}

/// What a user said about an app. The field names are the keys of [`known_keys`](crate::known_keys).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AppOptions {
    /// A file, a program in PATH, or a shell command line.
    pub script: Option<String>,
    pub name: Option<String>,
    /// Arguments of the script.
    pub args: Option<Vec<String>>,
    /// Working directory.
    pub cwd: Option<PathBuf>,
    /// Number of workers.
    pub instances: Option<InstancesText>,
    /// Cluster or fork.
    pub exec_mode: Option<Mode>,
    /// Program that runs the script; `none` for the script itself.
    pub interpreter: Option<String>,
    /// Arguments of the interpreter.
    pub node_args: Option<Vec<String>>,
    /// Environment variables, added to the caller's.
    pub env: BTreeMap<String, String>,
    /// Named blocks (`env_production` is `production`), each added when chosen.
    pub env_blocks: BTreeMap<String, BTreeMap<String, String>>,
    /// Sets `PORT`.
    pub port: Option<u16>,
    /// From the first signal to SIGKILL.
    pub kill_timeout: Option<Duration>,
    /// First signal of a stop.
    pub kill_signal: Option<StopSignal>,
    /// Time that requests under way have at a reload.
    pub drain_timeout: Option<Duration>,
    /// Bound on becoming ready.
    pub listen_timeout: Option<Duration>,
    /// Ready by `process.send('ready')`.
    pub wait_ready: Option<bool>,
    /// Restart after an exit.
    pub autorestart: Option<bool>,
    /// Unstable exits before giving up.
    pub max_restarts: Option<u32>,
    /// A shorter life is unstable.
    pub min_uptime: Option<Duration>,
    /// Fixed pause before each restart.
    pub restart_delay: Option<Duration>,
    /// First step of the growing pause.
    pub exp_backoff_restart_delay: Option<Duration>,
    /// Exit codes that leave the worker stopped.
    pub stop_exit_codes: Option<Vec<i32>>,
    /// stdout file.
    pub out_file: Option<PathBuf>,
    /// stderr file.
    pub error_file: Option<PathBuf>,
    /// One file per stream for all workers.
    pub merge_logs: Option<bool>,
    /// Prefix lines with the time.
    pub time: Option<bool>,
    /// How connections are spread.
    pub balance: Option<Balance>,
    /// Preload the agent.
    pub agent: Option<bool>,
    pub namespace: Option<String>,
    /// Goes before the name.
    pub name_prefix: Option<String>,
    /// Append the chosen block's name to the name.
    pub append_env_to_name: Option<bool>,
    /// `.env` files.
    pub env_file: Option<Vec<PathBuf>>,
    /// What of the caller's environment is left out.
    pub filter_env: Option<FilterEnv>,
    /// Keep inherited values in the saved state.
    pub save_env: Option<bool>,
    /// Variable that holds the slot.
    pub instance_var: Option<String>,
    /// Variable that grows from worker to worker.
    pub increment_var: Option<String>,
    /// User that the workers run as.
    pub uid: Option<String>,
    /// Group that the workers run as.
    pub gid: Option<String>,
    /// Bind ports below 1024 for workers of another user.
    pub low_ports: Option<bool>,
    /// Start when made.
    pub autostart: Option<bool>,
    /// File for process ids.
    pub pid_file: Option<PathBuf>,
    /// Stop by a message.
    pub shutdown_with_message: Option<bool>,
    /// Signal descendants too.
    pub treekill: Option<bool>,
    /// Source maps in stack traces.
    pub source_map_support: Option<bool>,
    /// Fork mode.
    pub execute_command: Option<bool>,
    /// One more file for both streams.
    pub log_file: Option<FlagOrPath>,
    /// Shape of lines.
    pub log_type: Option<LineFormat>,
    /// Form of times; `Some(None)` is none.
    pub log_date_format: Option<Option<DateFormat>>,
    /// When log files are set aside; `Some(None)` is never.
    pub log_rotate: Option<Option<LogRotation>>,
    /// Control sequences of terminals in log files.
    pub log_ansi: Option<AnsiPolicy>,
    /// No log files.
    pub disable_logs: Option<bool>,
    pub watch: Option<WatchOption>,
    pub ignore_watch: Option<Vec<WatchIgnore>>,
    /// Quiet time before a reload.
    pub watch_delay: Option<Duration>,
    /// Options of the watcher.
    pub watch_options: Option<WatchOptions>,
    /// Times of reloads; `Some(None)` is none.
    pub cron_restart: Option<Option<CronPattern>>,
    /// Bytes of a worker's tree.
    pub max_memory_restart: Option<u64>,
    /// Bytes of memory of all processes.
    pub memory_max: Option<u64>,
    /// Thousandths of a core of all processes.
    pub cpu_max: Option<u32>,
    /// Requests of a worker.
    pub max_requests: Option<u64>,
    /// Age of a worker.
    pub max_age: Option<Duration>,
    /// Health check; `Some(None)` is none.
    pub health: Option<Option<HealthOptions>>,
    /// Apps that come first.
    pub depends_on: Option<Vec<String>>,
    /// There is no script: the app is Forkful's own server of files (`static`, or `script: "serve"`).
    pub serves_files: bool,
    /// What `deploy.<name>.env` adds when that name is chosen, between `env` and the named block.
    pub deploy_env: BTreeMap<String, BTreeMap<String, String>>,
    /// The configuration file that these options came from; `None` for the command line.
    pub origin: Option<Origin>,
    /// Keys that the command line gave.
    pub overlaid: BTreeSet<&'static str>,
}

macro_rules! take_given {
    ($into:ident, $from:ident: $($field:ident),* $(,)?) => {
        $(if $from.$field.is_some() {
            $into.$field = $from.$field;
            $into.forget_origin(stringify!($field));
            $into.overlaid.insert(stringify!($field));
        })*
    };
}

impl AppOptions {
    /// Gives a key a value as an option of the command line writes it (`set("kill_timeout", "10s")`),
    /// with the same types and messages as in a file. A key that takes an object, such as `env`, is not given this way.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), ConfigError> {
        self.set_node(key, &Node { at: None, value: Value::Text(text.to_owned()) })
    }

    fn set_node(&mut self, key: &str, node: &Node) -> Result<(), ConfigError> {
        let place = Place::command_line(key);
        let Some(known) = keys::find(key) else {
            return Err(ConfigError::Value {
                place,
                value: node.to_string(),
                expected: "a known option".to_owned(),
            });
        };
        known.set(self, node).map_err(|refusal| ConfigError::Value {
            place,
            value: refusal.value,
            expected: refusal.expected,
        })
    }

    /// The same for a key that takes a list, or one of `true` and `false`.
    pub fn set_list(&mut self, key: &str, texts: &[String]) -> Result<(), ConfigError> {
        match texts {
            [] => Ok(()),
            [one] => self.set(key, one),
            many => {
                let node = |value| Node { at: None, value };
                let items = many.iter().map(|text| node(Value::Text(text.clone()))).collect();
                self.set_node(key, &node(Value::List(items)))
            }
        }
    }

    /// Lets `over` (the command line) win over what is here (a file). Environment variables are
    /// added to the file's, also where a named block has them; everything else replaces it.
    pub fn overlay(&mut self, over: Self) {
        take_given!(self, over: script, name, args, cwd, instances, exec_mode, interpreter, node_args,
            port, kill_timeout, kill_signal, drain_timeout, listen_timeout, wait_ready, autorestart,
            max_restarts, min_uptime, restart_delay, exp_backoff_restart_delay, stop_exit_codes,
            out_file, error_file, merge_logs, time, balance, agent,
            namespace, name_prefix, append_env_to_name, env_file, filter_env, save_env, instance_var, increment_var, uid, gid, low_ports, autostart, pid_file, shutdown_with_message, treekill, source_map_support, execute_command, log_file, log_type, log_date_format, log_rotate, log_ansi, disable_logs, watch, ignore_watch, watch_delay, watch_options, cron_restart, max_memory_restart, memory_max, cpu_max, max_requests, max_age, health, depends_on);
        for name in over.env.keys() {
            for block in self.env_blocks.values_mut().chain(self.deploy_env.values_mut()) {
                block.remove(name);
            }
        }
        if !over.env.is_empty() {
            self.overlaid.insert("env");
        }
        self.env.extend(over.env);
        for (name, block) in over.env_blocks {
            self.env_blocks.entry(name).or_default().extend(block);
        }
    }

    /// These options as the command line's own: no file says anything else.
    #[must_use]
    pub fn of_command_line(self) -> Self {
        let serves_files = self.serves_files;
        let mut options = Self { serves_files, ..Self::default() };
        options.overlay(self);
        options
    }

    /// Where each key was given, as [`AppSpec::origins`](forkful_core::spec::AppSpec::origins) has it.
    pub(crate) fn origins(&self) -> BTreeMap<String, String> {
        let of_file = self.origin.iter().flat_map(|origin| {
            let file = origin.file.display();
            origin.keys.iter().map(move |(key, given)| {
                let place = match given.at {
                    Some(at) => format!("{file}:{}", at.line),
                    None => format!("{file}: {}", join_key(&origin.app, &given.written)),
                };
                (key.clone(), place)
            })
        });
        let of_command_line = self.overlaid.iter().map(|key| ((*key).to_owned(), "command line".to_owned()));
        of_file.chain(of_command_line).collect()
    }

    fn forget_origin(&mut self, key: &str) {
        if let Some(origin) = &mut self.origin {
            origin.keys.remove(key);
        }
    }

    /// Whether the file (not the command line) gave this key.
    pub(crate) fn is_from_file(&self, key: &str) -> bool {
        self.origin.as_ref().is_some_and(|origin| origin.keys.contains_key(key))
    }

    /// Where a key was given: in the file, or on the command line.
    pub(crate) fn place(&self, key: &str) -> Place {
        match &self.origin {
            Some(origin) => match origin.keys.get(key) {
                Some(given) => Place {
                    file: Some(origin.file.clone()),
                    at: given.at,
                    key: join_key(&origin.app, &given.written),
                },
                None => Place::command_line(key),
            },
            None => Place::command_line(key),
        }
    }

    /// The app's name, as far as it can be told without looking for the script.
    pub fn declared_name(&self) -> Option<String> {
        let default = || {
            if self.serves_files {
                return Some(crate::statics::default_name(&self.env));
            }
            self.script.as_deref().map(default_name)
        };
        self.name.clone().or_else(default)
    }

    /// Where the app as a whole stands.
    pub(crate) fn app_place(&self) -> Place {
        match &self.origin {
            Some(origin) => Place { file: Some(origin.file.clone()), at: origin.at, key: origin.app.clone() },
            None => Place { key: "the command line".to_owned(), ..Place::default() },
        }
    }
}

/// `apps[0]` and `name` as `apps[0].name`.
pub(crate) fn join_key(app: &str, key: &str) -> String {
    if app.is_empty() { key.to_owned() } else { format!("{app}.{key}") }
}
