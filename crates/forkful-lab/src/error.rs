//! Errors of experiments, each with what to do about it.

use std::io;
use std::time::Duration;

use forkful_core::outgoing::HostLoad;
use forkful_core::pages::Page;
use forkful_core::words::count;
use forkful_load::{LoadError, StopHandle};

/// `db:5432 refused 12 connections, with 40 of this app open`.
pub(crate) fn refusal(load: &HostLoad) -> String {
    let open = load.limit.filter(|limit| *limit > 0);
    let open = open.map_or_else(String::new, |limit| format!(", with {limit} of this app open"));
    let refused = usize::try_from(load.refused).unwrap_or(usize::MAX);
    format!("{} refused {}{open}", load.host, count(refused, "connection"))
}

fn too_many(load: &HostLoad) -> String {
    format!("{}: use fewer workers or smaller pools, or raise the limit of the server", refusal(load))
}

/// Why an experiment ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The list of arms is invalid.
    #[error("`{text}` is not a valid arm: {reason}")]
    Arms {
        /// The part of the list.
        text: String,
        reason: String,
    },
    /// The requested measurement is not possible.
    #[error("{reason}")]
    Plan {
        /// With the value, and what was expected.
        reason: String,
        hint: &'static str,
    },
    /// An arm's program was not found.
    #[error("{arm}: {what}")]
    Missing {
        arm: String,
        what: String,
        /// How to install it.
        hint: String,
    },
    /// A process could not be started.
    #[error("{arm}: the server cannot be started")]
    Spawn {
        arm: String,
        #[source]
        source: forkful_os::process::SpawnError,
    },
    /// The app exited, or its manager reported a failure.
    #[error("{arm}: {what}{}", tail_text(.tail))]
    Failed {
        arm: String,
        what: String,
        /// The last lines of its output.
        tail: Vec<String>,
    },
    /// The app runs but does not listen.
    #[error("{arm}: the app did not listen on a TCP port within {} s{}", .waited.as_secs(), tail_text(.tail))]
    NotListening {
        arm: String,
        /// How long the experiment waited.
        waited: Duration,
        /// The last lines of its output.
        tail: Vec<String>,
    },
    /// The app listens but gives no usable answer.
    #[error("{arm}: {method} {path} at port {port} is not answered: {reason}{}", tail_text(.tail))]
    NoAnswer {
        arm: String,
        method: String,
        path: String,
        port: u16,
        reason: String,
        /// It closed the connection in the way a TLS server does on a plain request.
        may_be_tls: bool,
        /// The last lines of its output.
        tail: Vec<String>,
    },
    /// The TLS connection failed.
    #[error("{arm}: no TLS connection to port {port}: {reason}")]
    Tls { arm: String, port: u16, reason: String },
    /// It answers with an error.
    #[error("{arm}: {method} {path} is answered with status {status}")]
    WrongStatus { arm: String, method: String, path: String, status: u16 },
    /// So many requests failed that the figures are meaningless.
    #[error("{arm}: {failed} of {total} requests failed: {cause}{}", tail_text(.tail))]
    Errors {
        arm: String,
        failed: u64,
        total: u64,
        /// The most frequent cause, in words.
        cause: String,
        /// A host, such as a database, that refused connections of the workers because it had too many.
        refused: Option<Box<HostLoad>>,
        /// The last lines of its output.
        tail: Vec<String>,
    },
    /// The load could not be run.
    #[error("{arm}: the load cannot be run")]
    Load {
        arm: String,
        #[source]
        source: LoadError,
    },
    /// A git command failed.
    #[error("`git {command}` failed: {said}")]
    Git {
        command: String,
        /// Its stderr output.
        said: String,
    },
    /// A version could not be built.
    #[error("{version}: the build failed: {how}{}", tail_text(.tail))]
    Build {
        version: String,
        how: String,
        /// The last lines of its output.
        tail: Vec<String>,
    },
    /// An operation on files, directories or processes of the experiment failed.
    #[error("{what}")]
    System {
        /// What the operation was.
        what: String,
        #[source]
        source: io::Error,
    },
    /// The user interrupted the experiment.
    #[error("interrupted; everything that was started has been ended")]
    Interrupted,
}

impl LabError {
    /// Whether the app ended because another program has the port.
    pub(crate) fn is_port_in_use(&self, port: u16) -> bool {
        let Self::Failed { what, tail, .. } = self else { return false };
        let output = format!("{what}\n{}", tail.join("\n"));
        // Node.js prints the first, most other programs the second.
        let is_in_use = output.contains("EADDRINUSE") || output.contains("ddress already in use");
        is_in_use && output.contains(&port.to_string())
    }

    /// What the user can do about it, if anything.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Arms { .. } => {
                "arms are single, cluster, node-cluster, pm2, workers=1,2,4, pool=1,4, balance=direct,exact,shared, \
                 node=PATH,PATH"
            }
            Self::Plan { hint, .. } => hint,
            Self::Missing { hint, .. } => return Some(hint.clone()),
            Self::Spawn { .. } | Self::Failed { .. } => "start it by hand first, as in `node app.js`",
            Self::NotListening { .. } => {
                "does it need a variable or an argument? `--env KEY=VALUE` and `-- ARGS` pass them on; `--start-timeout 60s` \
                 waits longer"
            }
            Self::NoAnswer { may_be_tls: true, .. } => {
                "is that the right port and path (`--port`, `--path`)? If the app speaks TLS, say `--https`"
            }
            Self::Tls { .. } => {
                "`--insecure` takes any certificate; `--cacert FILE` trusts its authority and `--server-name` says its name"
            }
            Self::NoAnswer { .. } => {
                "is that the right port and path? `--port` and `--path` say where to send requests"
            }
            Self::WrongStatus { status: 404, .. } => "`--path` names the route to measure",
            Self::WrongStatus { .. } => {
                "`--path`, `--method`, `--header` and `--body` make the request; `--expect-status` says that this is right"
            }
            Self::Errors { refused: Some(load), .. } => return Some(too_many(load)),
            Self::Errors { .. } => "make the app answer without errors first; its figures would mean nothing",
            Self::Load { source, .. } => return source.hint().map(str::to_owned),
            Self::Build { .. } => "run it by hand in a worktree of that commit (`git worktree add`)",
            Self::Git { .. } => {
                "`--git` compares two commits of the repository that the working directory is in"
            }
            Self::System { .. } | Self::Interrupted => return None,
        };
        Some(hint.to_owned())
    }

    /// The documentation page about the hint, if it is not the command's own.
    pub fn page(&self) -> Option<Page> {
        match self {
            Self::Arms { .. } => Some(Page::Arms),
            Self::Git { .. } | Self::Build { .. } => Some(Page::CompareGit),
            Self::Spawn { .. }
            | Self::Failed { .. }
            | Self::NotListening { .. }
            | Self::NoAnswer { .. }
            | Self::Tls { .. }
            | Self::WrongStatus { .. }
            | Self::Errors { .. } => Some(Page::ArmFails),
            Self::Load { .. } => Some(Page::Bench),
            Self::Plan { .. } | Self::Missing { .. } | Self::System { .. } | Self::Interrupted => None,
        }
    }

    /// Returns the interruption instead, if there was one: errors while everything is being stopped are
    /// expected.
    pub(crate) fn unless_stopped(self, stop: &StopHandle) -> Self {
        if stop.is_stopped() { Self::Interrupted } else { self }
    }

    /// A closure for `map_err` on a load that ran on an arm.
    pub(crate) fn load(arm: &str) -> impl FnOnce(LoadError) -> Self + use<> {
        let arm = arm.to_owned();
        move |source| Self::Load { arm, source }
    }

    /// A closure for `map_err` on file and process operations.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}

/// The last lines of an app's output.
fn tail_text(lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    format!("; its last output was:\n    {}", lines.join("\n    "))
}
