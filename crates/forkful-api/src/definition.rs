//! Converts apps between their API format ([`AppDefinition`]) and the core's spec
//! ([`AppSpec`](forkful_core::spec::AppSpec)). Conversion to the core checks everything, because input from a
//! socket or a file is untrusted.

mod app;
mod changes;
mod check;
mod upkeep;

use std::time::Duration;

use forkful_core::pages::Page;
use forkful_core::spec::AppNameFault;
use thiserror::Error;

pub use app::AppDefinition;
pub use changes::changes;
use check::Check;

use crate::types::{ErrorCode, ErrorReply};

/// Maximum duration in a definition, in milliseconds: a year. Keeps clock arithmetic far from overflow.
pub const DURATION_MS_MAX: u64 = 365 * 24 * 60 * 60 * 1000;

/// Maximum arguments, environment variables or exit codes in one definition; the kernel's `ARG_MAX` is
/// reached much earlier.
pub const ITEMS_MAX: usize = 65_536;

/// Maximum settings with a stored origin; there are fewer keys.
const ORIGINS_MAX: usize = 256;

/// The largest signal number that Linux knows.
pub const SIGNAL_MAX: i32 = 64;

/// Why a definition is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DefinitionError {
    /// A number is out of range.
    #[error("app `{app}`: {field} must be {min} to {max}, but is {value}")]
    Range {
        /// The app.
        app: String,
        /// The definition's key.
        field: &'static str,
        /// The given value.
        value: i128,
        /// The minimum.
        min: i128,
        /// The maximum.
        max: i128,
    },
    /// Only Node.js programs support cluster mode's protocol.
    #[error("app `{app}`: cluster mode needs a Node.js program")]
    ClusterNeedsNode {
        /// The app.
        app: String,
    },
    /// Anything else, in one sentence without a full stop.
    #[error("{0}")]
    Other(String),
}

impl DefinitionError {
    fn name(name: &str, fault: AppNameFault) -> Self {
        Self::Other(format!("{name:?} cannot be an app's name: {fault}"))
    }
}

impl From<DefinitionError> for ErrorReply {
    fn from(error: DefinitionError) -> Self {
        let needs_node = matches!(error, DefinitionError::ClusterNeedsNode { .. });
        let hint = needs_node.then(|| Page::Workers.hint("use `exec_mode: \"fork\"`"));
        Self::new(ErrorCode::BadRequest, error.to_string(), hint)
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
    use forkful_core::spec::{AppSpec, RestartDelay, StopSignal};

    use super::*;
    use crate::types::RuntimeKind;

    fn definition() -> AppDefinition {
        serde_json::from_value(serde_json::json!({
            "name": "api", "program": "/usr/bin/node", "program_args": ["--trace-uncaught"],
            "script": "/srv/app.js", "args": ["a b"], "cwd": "/srv", "env": {"PORT": "3000"},
            "runtime": "node", "mode": "cluster", "instances": 2, "balance": "exact",
            "autorestart": true, "max_restarts": 3, "restart_window_ms": 60_000, "min_uptime_ms": 500,
            "restart_delay_ms": null, "exp_backoff_restart_delay_ms": 250, "max_restart_delay_ms": 20_000, "stop_exit_codes": [0, 78],
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
    fn a_time_limit_of_zero_is_the_default() {
        let mut zero = definition();
        (zero.listen_timeout_ms, zero.kill_timeout_ms) = (Some(0), 0);
        let spec = AppSpec::try_from(zero).unwrap();
        assert_eq!(spec.readiness.listen_timeout, None);
        assert_eq!(spec.stop.kill_timeout, Duration::from_secs(5));
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
        slow.max_restart_delay_ms = None;
        let spec = AppSpec::try_from(slow).unwrap();
        let minute = Duration::from_secs(60);
        assert_eq!(spec.restart.delay, RestartDelay::Exponential { initial: minute, max: minute });
        assert_eq!(AppDefinition::from(&spec).max_restart_delay_ms, None, "it is the first that is so long");
        let mut limited = definition();
        limited.max_restart_delay_ms = Some(90);
        let spec = AppSpec::try_from(limited).unwrap();
        let first = Duration::from_millis(250);
        assert_eq!(spec.restart.delay, RestartDelay::Exponential { initial: first, max: first });
        assert_eq!(AppDefinition::from(&spec).max_restart_delay_ms, Some(250));
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
            fault(|d| d.max_restart_delay_ms = Some(0)),
            "app `api`: max_restart_delay_ms must be 1 to 31536000000, but is 0"
        );
        assert_eq!(
            fault(|d| d.runtime = RuntimeKind::Other),
            "app `api`: cluster mode needs a Node.js program"
        );
    }

    #[test]
    fn bounds_of_the_number_of_workers_are_checked_and_kept() {
        let bounds = |min, max| Some(forkful_core::autoscale::ScaleBounds { min, max });
        assert_eq!(
            fault(|d| d.autoscale = bounds(0, 4)),
            "app `api`: autoscale.min must be 1 to 4, but is 0"
        );
        assert_eq!(
            fault(|d| d.autoscale = bounds(5, 4)),
            "app `api`: autoscale.min must be 1 to 4, but is 5"
        );
        assert_eq!(
            fault(|d| d.autoscale = bounds(1, 0)),
            "app `api`: autoscale.max must be 1 to 1024, but is 0"
        );
        let spec = AppSpec::try_from(AppDefinition { autoscale: bounds(3, 4), ..definition() }).unwrap();
        assert_eq!((spec.instances, spec.autoscale), (3, bounds(3, 4)));
    }

    #[test]
    fn a_warmup_is_bounded_and_each_of_its_paths_is_one_request() {
        let warmup = |paths: &[&str], requests, timeout_ms| forkful_core::spec::Warmup {
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            requests,
            timeout: Duration::from_millis(timeout_ms),
        };
        assert_eq!(
            fault(|d| d.warmup = Some(warmup(&["/ HTTP/1.1\r\nX: y"], 1, 1))),
            "app `api`: warmup.paths has \"/ HTTP/1.1\\r\\nX: y\", which is no path of a request"
        );
        for bad in [warmup(&[], 1, 1), warmup(&["/"; 65], 1, 1), warmup(&["x"], 1, 1)] {
            assert!(fault(|d| d.warmup = Some(bad)).contains("warmup.paths"));
        }
        assert!(
            fault(|d| d.warmup = Some(warmup(&["/"], 0, 1))).contains("warmup.requests must be 1 to 10000")
        );
        assert!(fault(|d| d.warmup = Some(warmup(&["/"], 1, 0))).contains("warmup.timeout_ms must be 1 to"));
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
