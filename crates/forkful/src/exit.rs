//! Exit codes of commands, and [`Failure`], the program's error type. Errors have their own exit code and
//! hint; `output::failure` prints them.

use std::fmt;
use std::process::ExitCode;

use forkful_api::client::ClientError;
use forkful_api::types::ErrorCode;
use forkful_config::ConfigError;
use forkful_core::pages::{Hint, Page};

/// Exit codes, as listed in docs/CLI.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success.
    Done,
    /// An app failed, or an action did not succeed.
    Failed,
    /// The command line or the configuration is wrong.
    WrongUse,
    /// There is no such app.
    NoSuchApp,
    /// The daemon cannot be reached or started, or has another version.
    NoDaemon,
    /// `bench`: an expectation was missed.
    ExpectationMissed,
    /// `bench`: the result cannot be trusted.
    NotTrustworthy,
    /// `bench`: the target cannot be reached.
    Unreachable,
    /// A signal interrupted the command, which has undone or ended what it had begun, or says how to.
    Interrupted,
    /// `run`: the app's own code, 128 and more for a signal.
    App(u8),
}

/// Each code with its meaning, for docs/CLI.md and the man pages.
pub(crate) const MEANINGS: [(&str, &str); 10] = [
    ("0", "done"),
    ("1", "an app failed, or the action did not succeed"),
    ("2", "the command line or the configuration is wrong"),
    ("3", "no such app"),
    ("4", "the daemon cannot be reached or started, or is of another version"),
    ("5", "`bench`: an expectation was missed; `compare` of two reports or versions: the second is slower"),
    ("6", "`bench`, `compare`, `tune`: the results are not reliable"),
    ("7", "`bench`: the target cannot be reached"),
    (
        "130",
        "interrupted by a signal: `doctor --fix` has undone its change, or says how to undo it when a second signal ended it, `compare`, `tune`, `experiment` and `bench --search` have ended what they started (`bench` reports what it has measured until then, with 130 if it has expectations, which a part of a run cannot keep)",
    ),
    ("other", "`forkful run` ends with the app's own code (128 + n after signal n)"),
];

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::WrongUse => 2,
            Exit::NoSuchApp => 3,
            Exit::NoDaemon => 4,
            Exit::ExpectationMissed => 5,
            Exit::NotTrustworthy => 6,
            Exit::Unreachable => 7,
            Exit::Interrupted => 130,
            Exit::App(code) => code,
        })
    }
}

/// The documentation page of a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum See {
    /// The section of the typed command.
    Command,
    /// An address.
    At(String),
}

impl From<Page> for See {
    fn from(page: Page) -> Self {
        Self::At(page.url())
    }
}

impl From<Option<String>> for See {
    fn from(address: Option<String>) -> Self {
        address.map_or(Self::Command, Self::At)
    }
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The error with its causes.
    pub(crate) error: anyhow::Error,
    /// What to do about it.
    pub(crate) hint: Option<String>,
    /// Where to read more about the hint.
    pub(crate) see: See,
    /// The exit code.
    pub(crate) exit: Exit,
}

impl Failure {
    pub(crate) fn new(exit: Exit, error: impl fmt::Display) -> Self {
        Self::caused(exit, anyhow::anyhow!("{error}"))
    }

    pub(crate) fn caused(exit: Exit, error: anyhow::Error) -> Self {
        Self { error, hint: None, see: See::Command, exit }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// An error with the hint that it provides.
    pub(crate) fn hinted(exit: Exit, error: anyhow::Error, hint: Option<Hint>) -> Self {
        let (hint, see) = hint.map(|hint| (hint.text, hint.see)).unzip();
        Self { error, hint, see: see.into(), exit }
    }

    /// Where to read more about the hint, if not at the typed command.
    pub(crate) fn see(mut self, see: impl Into<See>) -> Self {
        self.see = see.into();
        self
    }

    /// A target that matches no app.
    pub(crate) fn no_such_app(target: &str) -> Self {
        let error = if target == "all" {
            "there are no apps".to_owned()
        } else {
            format!("no app or worker `{target}`")
        };
        Self::new(Exit::NoSuchApp, error).hint("`forkful list` shows all apps").see(Page::Targets)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let exit = match &error {
            ClientError::Refused { reply } => refusal_exit(reply.code),
            _ => Exit::NoDaemon,
        };
        let hint = match &error {
            ClientError::NotRunning { .. } => {
                Some(Page::Daemon.hint("`forkful start` starts a daemon with an app"))
            }
            ClientError::OtherVersion { .. } => {
                Some(Page::Update.hint("`forkful update` replaces it with this version and the same apps"))
            }
            ClientError::NotAnswering { .. } => Some(
                Page::Daemon.hint(
                    "its pid is in $FORKFUL_HOME/forkful.lock: `kill -CONT` lets it go on if a signal has stopped it; `kill` ends it",
                ),
            ),
            ClientError::Refused { reply } => {
                let (hint, see) = (reply.hint.clone(), reply.see.clone());
                return Self { error: error.into(), hint, see: see.into(), exit };
            }
            ClientError::Lost { .. } => {
                Some(Page::Daemon.hint("the daemon's last messages are in $FORKFUL_HOME/daemon.log"))
            }
            ClientError::Broken { .. } => {
                Some(Page::Daemon.hint("is another program listening at $FORKFUL_HOME/forkful.sock?"))
            }
            ClientError::Connect { .. } => None,
        };
        Self::hinted(exit, error.into(), hint)
    }
}

fn refusal_exit(code: ErrorCode) -> Exit {
    match code {
        ErrorCode::BadRequest => Exit::WrongUse,
        ErrorCode::NoSuchTarget => Exit::NoSuchApp,
        ErrorCode::Conflict | ErrorCode::Internal => Exit::Failed,
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let hint = error.hint();
        Self::hinted(Exit::WrongUse, error.into(), hint)
    }
}
