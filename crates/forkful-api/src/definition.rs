//! Apps as they travel ([`AppDefinition`]) to and from apps as the core knows them
//! ([`AppSpec`]). Towards the core everything is checked: what comes over a socket or from a file may
//! have been written by anybody.

mod changes;
mod check;
mod logs;
mod upkeep;

pub(crate) use logs::default_rotation;

use std::time::Duration;

use forkful_core::date_format::DateFormatFault;
use forkful_core::logs::{AnsiPolicy, LineFormat};
use forkful_core::spec::{
    AppName, AppNameFault, AppSpec, CronFault, INSTANCES_MAX, Launch, Readiness, RestartDelay, StopPolicy,
    StopSignal,
};
use thiserror::Error;

pub use changes::changes;
use check::Check;

use crate::types::{AppDefinition, ErrorCode, ErrorReply, ModeKind, RuntimeKind};

/// The longest duration that a definition may hold, in milliseconds: a year. Keeps clock arithmetic far from overflow.
pub const DURATION_MS_MAX: u64 = 365 * 24 * 60 * 60 * 1000;

/// The most arguments, environment variables or exit codes in one definition; the kernel's `ARG_MAX` is met much earlier.
pub const ITEMS_MAX: usize = 65_536;

/// The most settings whose origins are kept; there are fewer keys.
const ORIGINS_MAX: usize = 256;

/// The largest signal number that Linux knows.
pub const SIGNAL_MAX: i32 = 64;

/// Why a definition is no app.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DefinitionError {
    /// The name is not allowed.
    #[error("{name:?} cannot be an app's name")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        source: AppNameFault,
    },
    /// A path that must be absolute is not.
    #[error("app `{app}`: {field} must be an absolute path, but is {value:?}")]
    NotAbsolute {
        /// The app.
        app: String,
        /// The definition's key.
        field: &'static str,
        /// What was given.
        value: String,
    },
    /// A text holds a NUL byte, which no path, argument or variable can.
    #[error("app `{app}`: {field} holds a NUL byte")]
    Nul {
        /// The app.
        app: String,
        /// The definition's key.
        field: &'static str,
    },
    /// An environment variable's name is empty or holds `=` or NUL.
    #[error("app `{app}`: {name:?} cannot be the name of an environment variable")]
    EnvName {
        /// The app.
        app: String,
        /// The name.
        name: String,
    },
    /// A number is out of its bounds.
    #[error("app `{app}`: {field} must be {min} to {max}, but is {value}")]
    Range {
        /// The app.
        app: String,
        /// The definition's key.
        field: &'static str,
        /// What was given.
        value: i128,
        /// The least that is allowed.
        min: i128,
        /// The most that is allowed.
        max: i128,
    },
    /// A text is no form of dates.
    #[error("app `{app}`: log_date_format is {value:?}")]
    DateFormat {
        /// The app.
        app: String,
        /// What was given.
        value: String,
        /// What is wrong with it.
        source: DateFormatFault,
    },
    /// A text is no cron pattern.
    #[error("app `{app}`: cron_restart is {value:?}")]
    Cron {
        /// The app.
        app: String,
        /// What was given.
        value: String,
        /// What is wrong with it.
        source: CronFault,
    },
    /// Only Node.js programs speak the protocol of cluster mode.
    #[error("app `{app}`: cluster mode needs a Node.js program")]
    ClusterNeedsNode {
        /// The app.
        app: String,
    },
}

impl From<DefinitionError> for ErrorReply {
    fn from(error: DefinitionError) -> Self {
        let hint = match &error {
            DefinitionError::ClusterNeedsNode { .. } => Some("use `exec_mode: \"fork\"`".to_owned()),
            _ => None,
        };
        let text = match &error {
            DefinitionError::Name { source, .. } => format!("{error}: {source}"),
            DefinitionError::DateFormat { source, .. } => format!("{error}: {source}"),
            DefinitionError::Cron { source, .. } => format!("{error}: {source}"),
            _ => error.to_string(),
        };
        Self { code: ErrorCode::BadRequest, error: text, hint }
    }
}

impl From<&AppSpec> for AppDefinition {
    /// Paths that are no UTF-8 come out with replacement characters; `forkful-config` refuses them before.
    fn from(spec: &AppSpec) -> Self {
        let (restart_delay_ms, exp_backoff_restart_delay_ms) = match spec.restart.delay {
            RestartDelay::Fixed(pause) => (Some(millis(pause)), None),
            RestartDelay::Exponential { initial, .. } => (None, Some(millis(initial))),
        };
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
            balance: spec.balance,
            autorestart: spec.restart.autorestart,
            restart_finished: spec.restart.restart_finished,
            max_restarts: spec.restart.max_restarts,
            restart_window_ms: millis(spec.restart.window),
            min_uptime_ms: millis(spec.restart.min_uptime),
            restart_delay_ms,
            exp_backoff_restart_delay_ms,
            stop_exit_codes: spec.restart.stop_exit_codes.clone(),
            wait_ready: spec.readiness.wait_ready,
            listen_timeout_ms: spec.readiness.listen_timeout.map(millis),
            kill_signal: spec.stop.signal.0,
            kill_timeout_ms: millis(spec.stop.kill_timeout),
            drain_timeout_ms: millis(spec.stop.drain_timeout),
            out_file: spec.logs.out_file.as_ref().map(text),
            error_file: spec.logs.error_file.as_ref().map(text),
            merge_logs: spec.logs.merge,
            time: spec.logs.time,
            agent: spec.agent,
            namespace: spec.namespace.as_str().to_owned(),
            autostart: spec.autostart,
            pid_file: spec.pid_file.as_ref().map(text),
            instance_var: spec.variables.instance.clone(),
            increment_var: spec.variables.increment.clone(),
            env_sources: (&spec.launch.env_sources).into(),
            run_as: spec.launch.run_as.as_ref().map(Into::into),
            shutdown_with_message: spec.stop.by_message,
            treekill: spec.stop.whole_tree,
            log_date_format: spec.logs.date_format.as_ref().map(|form| form.as_str().to_owned()),
            log_file: spec.logs.combined_file.as_ref().map(text),
            log_json: spec.logs.line_format == LineFormat::Json,
            disable_logs: spec.logs.disabled,
            log_strip_ansi: spec.logs.ansi == AnsiPolicy::Strip,
            log_rotate: spec.logs.rotation.as_ref().map(Into::into),
            watch: spec.watch.as_ref().map(Into::into),
            max_memory_bytes: spec.renewal.max_memory_bytes,
            max_requests: spec.renewal.max_requests,
            max_age_ms: spec.renewal.max_age.map(millis),
            cron_restart: spec.renewal.cron.as_ref().map(|cron| cron.as_str().to_owned()),
            health: spec.health.as_ref().map(Into::into),
            depends_on: spec.depends_on.iter().map(ToString::to_string).collect(),
            memory_max_bytes: spec.limits.memory_bytes,
            cpu_max_millicores: spec.limits.millicores,
            low_ports: spec.low_ports,
            origins: spec.origins.clone(),
        }
    }
}

impl TryFrom<AppDefinition> for AppSpec {
    type Error = DefinitionError;

    fn try_from(definition: AppDefinition) -> Result<Self, DefinitionError> {
        let name = AppName::new(definition.name.as_str())
            .map_err(|source| DefinitionError::Name { name: definition.name.clone(), source })?;
        let check = Check { app: name.as_str() };
        if definition.mode == ModeKind::Cluster && definition.runtime != RuntimeKind::Node {
            return Err(DefinitionError::ClusterNeedsNode { app: name.as_str().to_owned() });
        }
        check.range("instances", definition.instances, 1, INSTANCES_MAX)?;
        let restart = check.restart(&definition)?;
        let readiness = Readiness {
            wait_ready: definition.wait_ready,
            listen_timeout: check.optional_duration("listen_timeout_ms", definition.listen_timeout_ms)?,
        };
        check.range("kill_signal", definition.kill_signal, 1, SIGNAL_MAX)?;
        let stop = StopPolicy {
            signal: StopSignal(definition.kill_signal),
            kill_timeout: check.duration("kill_timeout_ms", definition.kill_timeout_ms)?,
            drain_timeout: check.duration("drain_timeout_ms", definition.drain_timeout_ms)?,
            by_message: definition.shutdown_with_message,
            whole_tree: definition.treekill,
        };
        let logs = check.logs(&definition)?;
        let renewal = check.renewal(&definition)?;
        let limits = check.limits(&definition)?;
        let variables = check.variables(&definition)?;
        check.env(&definition.env)?;
        check.texts("program_args", &definition.program_args)?;
        check.texts("args", &definition.args)?;
        check.texts("script", definition.script.as_slice())?;
        let launch = Launch {
            program: check.path("program", definition.program)?,
            program_args: definition.program_args,
            script: definition.script,
            args: definition.args,
            cwd: check.path("cwd", definition.cwd)?,
            env: definition.env,
            env_sources: check.env_sources(definition.env_sources)?,
            run_as: definition.run_as.map(Into::into),
            runtime: definition.runtime,
        };
        Ok(Self {
            namespace: check.namespace(&definition.namespace)?,
            autostart: definition.autostart,
            pid_file: check.optional_path("pid_file", definition.pid_file)?,
            variables,
            watch: definition.watch.map(|watch| check.watch(watch)).transpose()?,
            renewal,
            health: definition.health.map(|health| check.health(health)).transpose()?,
            depends_on: check.depends_on(definition.depends_on)?,
            limits,
            low_ports: definition.low_ports,
            origins: definition.origins.into_iter().take(ORIGINS_MAX).collect(),
            launch,
            instances: definition.instances,
            mode: definition.mode,
            balance: definition.balance,
            restart,
            readiness,
            stop,
            logs,
            agent: definition.agent,
            name,
        })
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn text(path: impl AsRef<std::path::Path>) -> String {
    path.as_ref().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> AppDefinition {
        serde_json::from_value(serde_json::json!({
            "name": "api", "program": "/usr/bin/node", "program_args": ["--trace-uncaught"],
            "script": "/srv/app.js", "args": ["a b"], "cwd": "/srv", "env": {"PORT": "3000"},
            "runtime": "node", "mode": "cluster", "instances": 2, "balance": "exact",
            "autorestart": true, "max_restarts": 3, "restart_window_ms": 60_000, "min_uptime_ms": 500,
            "restart_delay_ms": null, "exp_backoff_restart_delay_ms": 250, "stop_exit_codes": [0, 78],
            "wait_ready": true, "listen_timeout_ms": 4000, "kill_signal": 15, "kill_timeout_ms": 1600,
            "drain_timeout_ms": 9000, "out_file": "/var/log/api.log", "error_file": null,
            "merge_logs": true, "time": true, "agent": false,
        }))
        .unwrap()
    }

    fn fault(change: impl FnOnce(&mut AppDefinition)) -> String {
        let mut changed = definition();
        change(&mut changed);
        AppSpec::try_from(changed).unwrap_err().to_string()
    }

    #[test]
    fn a_definition_survives_the_way_to_the_core_and_back() {
        let spec = AppSpec::try_from(definition()).unwrap();
        assert_eq!(spec.stop.signal, StopSignal(15));
        assert_eq!(AppDefinition::from(&spec), definition());
    }

    #[test]
    fn a_fixed_pause_wins_over_the_exponential_one() {
        let mut both = definition();
        both.restart_delay_ms = Some(70);
        let spec = AppSpec::try_from(both).unwrap();
        assert_eq!(spec.restart.delay, RestartDelay::Fixed(Duration::from_millis(70)));
    }

    #[test]
    fn a_first_step_above_the_usual_limit_raises_the_limit() {
        let mut slow = definition();
        slow.exp_backoff_restart_delay_ms = Some(60_000);
        let spec = AppSpec::try_from(slow).unwrap();
        let minute = Duration::from_secs(60);
        assert_eq!(spec.restart.delay, RestartDelay::Exponential { initial: minute, max: minute });
    }

    #[test]
    fn hostile_definitions_are_refused_by_field() {
        assert_eq!(
            fault(|d| d.program = "node".into()),
            "app `api`: program must be an absolute path, but is \"node\""
        );
        assert_eq!(fault(|d| d.cwd = String::new()), "app `api`: cwd must be an absolute path, but is \"\"");
        assert_eq!(
            fault(|d| d.out_file = Some("x".into())),
            "app `api`: out_file must be an absolute path, but is \"x\""
        );
        assert_eq!(fault(|d| d.args.push("a\0b".into())), "app `api`: args holds a NUL byte");
        assert_eq!(fault(|d| d.script = Some("/a\0".into())), "app `api`: script holds a NUL byte");
        assert_eq!(fault(|d| drop(d.env.insert("A".into(), "\0".into()))), "app `api`: env holds a NUL byte");
        for name in ["", "A=B", "A\0"] {
            let error = fault(|d| drop(d.env.insert(name.into(), String::new())));
            assert_eq!(error, format!("app `api`: {name:?} cannot be the name of an environment variable"));
        }
        assert_eq!(fault(|d| d.instances = 0), "app `api`: instances must be 1 to 1024, but is 0");
        assert_eq!(fault(|d| d.instances = 1025), "app `api`: instances must be 1 to 1024, but is 1025");
        assert_eq!(fault(|d| d.kill_signal = 0), "app `api`: kill_signal must be 1 to 64, but is 0");
        assert_eq!(fault(|d| d.kill_signal = 65), "app `api`: kill_signal must be 1 to 64, but is 65");
        assert_eq!(
            fault(|d| d.stop_exit_codes = vec![256]),
            "app `api`: stop_exit_codes must be 0 to 255, but is 256"
        );
        assert_eq!(
            fault(|d| d.kill_timeout_ms = u64::MAX),
            "app `api`: kill_timeout_ms must be 0 to 31536000000, but is 18446744073709551615"
        );
        assert_eq!(
            fault(|d| d.exp_backoff_restart_delay_ms = Some(0)),
            "app `api`: exp_backoff_restart_delay_ms must be 1 to 31536000000, but is 0"
        );
        assert_eq!(
            fault(|d| d.runtime = RuntimeKind::Other),
            "app `api`: cluster mode needs a Node.js program"
        );
    }

    #[test]
    fn a_bad_name_is_explained_in_one_sentence() {
        let mut changed = definition();
        changed.name = "all".into();
        let reply = ErrorReply::from(AppSpec::try_from(changed).unwrap_err());
        assert_eq!(reply.code, ErrorCode::BadRequest);
        assert_eq!(
            reply.error,
            "\"all\" cannot be an app's name: `all` means every app and cannot be a name"
        );
    }
}
