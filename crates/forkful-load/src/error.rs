//! Why a run failed as a whole. [`crate::ErrorCause`] has the errors of single requests.

use std::io;

use crate::cause::ErrorCause;

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The URL cannot be used; `reason` says which part and what was expected.
    #[error("`{url}` is not a valid URL: {reason}")]
    Url {
        /// As given.
        url: String,
        /// Which part is wrong, and what was expected.
        reason: String,
    },
    /// A value of the plan is invalid.
    #[error("{field} {reason}")]
    Plan {
        /// The plan's field in words, such as `connections` or `rate`.
        field: &'static str,
        /// What was expected and what was given.
        reason: String,
    },
    /// The requests of one plan go to different servers.
    #[error("all requests of a run go to one server, but there are `{first}` and `{second}`")]
    DifferentServers {
        /// Scheme, host and port of the first request.
        first: String,
        /// Scheme, host and port of a different one.
        second: String,
    },
    /// The host name did not resolve to an address.
    #[error("the host name `{host}` has no address")]
    Resolve {
        host: String,
        #[source]
        source: io::Error,
    },
    /// No connection could be made.
    #[error("`{target}` cannot be reached: {cause}{}", detail_suffix(*.cause, .detail))]
    Unreachable {
        /// Scheme, host and port, or the path of the unix socket.
        target: String,
        /// Why the first connection failed.
        cause: ErrorCause,
        /// The message of the system or the TLS library; may be empty.
        detail: String,
    },
    /// A file of the TLS options cannot be used.
    #[error("the {what} cannot be used: {reason}")]
    Tls {
        /// `certificate authority`, `client certificate`, `client key`.
        what: &'static str,
        reason: String,
    },
    /// More connections than this process may have descriptors.
    #[error("{connections} connections need {needed} open files, but only {limit} are allowed")]
    Descriptors {
        connections: usize,
        /// Descriptors needed for the connections and the engine itself.
        needed: u64,
        /// The hard limit of this process.
        limit: u64,
    },
    /// A system call failed that the engine depends on.
    #[error("{what} failed")]
    System {
        what: &'static str,
        #[source]
        source: io::Error,
    },
}

impl LoadError {
    /// What the user can do about it, if anything.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Url { .. } => Some("write it like http://127.0.0.1:8000/path"),
            Self::Unreachable { cause, .. } => cause.hint(),
            Self::Descriptors { .. } => {
                Some("raise the hard limit (`ulimit -Hn`), or ask for fewer connections")
            }
            Self::DifferentServers { .. } => Some("run one load for each server"),
            Self::Resolve { .. } => {
                Some("check the host name; a URL is written like http://127.0.0.1:8000/path")
            }
            Self::Plan { .. } | Self::Tls { .. } | Self::System { .. } => None,
        }
    }
}

/// What the system says, where the cause says less.
fn detail_suffix(cause: ErrorCause, detail: &str) -> String {
    if detail.is_empty() || cause.is_one_errno() { String::new() } else { format!(" ({detail})") }
}
