//! The last stderr lines of the process that exited last: requested from the log service at the exit, kept
//! for later questions.

use std::collections::BTreeMap;
use std::rc::Rc;

use forkful_core::slot::Exit;
use forkful_core::spec::AppSpec;
use forkful_core::spec::environment::{KnownSecrets, REDACTED, shown_value};
use forkful_core::stderr_excerpt;
use tokio::sync::oneshot;

use crate::logs::StderrTail;

/// Lines that the log service will give, without the values of the app's secrets: lists and the output of commands get into
/// other hands than log files.
#[derive(Debug)]
pub(crate) struct Tail {
    answer: oneshot::Receiver<StderrTail>,
    secrets: Rc<KnownSecrets>,
}

impl Tail {
    /// Lines of a process of the app with these secrets, see [`known_secrets`].
    pub(crate) fn new(answer: oneshot::Receiver<StderrTail>, secrets: Rc<KnownSecrets>) -> Self {
        Self { answer, secrets }
    }

    /// The lines; none when the log service is gone.
    pub(crate) async fn lines(self) -> Vec<String> {
        let lines = self.answer.await.unwrap_or_default().lines;
        lines.into_iter().map(|line| self.secrets.redact(line)).collect()
    }

    fn lines_so_far(&mut self) -> Option<Vec<String>> {
        let lines = self.answer.try_recv().ok()?.lines;
        Some(lines.into_iter().map(|line| self.secrets.redact(line)).collect())
    }
}

/// What the lines of an app's processes must not contain.
pub(super) fn known_secrets(spec: &AppSpec) -> Rc<KnownSecrets> {
    Rc::new(KnownSecrets::new(secrets_of(spec)))
}

/// The values of the app's variables that are secrets.
pub(super) fn secrets_of(spec: &AppSpec) -> Vec<String> {
    secrets_in(&spec.launch.env)
}

/// The values of variables that are secrets.
pub(super) fn secrets_in(env: &BTreeMap<String, String>) -> Vec<String> {
    let secret =
        |(name, value): (&String, &String)| (shown_value(name, value) == REDACTED).then(|| value.clone());
    env.iter().filter_map(secret).collect()
}

/// The last stderr lines of the process that exited last.
#[derive(Debug, Default)]
pub(crate) enum ExitTail {
    /// No process has ended.
    #[default]
    None,
    /// The log service has not answered, or its answer was not read yet.
    Awaited(Tail),
    /// The lines, error first.
    Known(Vec<String>),
}

impl ExitTail {
    /// The log service will answer here.
    pub(crate) fn awaiting(tail: Tail) -> Self {
        Self::Awaited(tail)
    }

    /// The lines known so far.
    pub(crate) fn lines(&mut self) -> &[String] {
        if let Self::Awaited(tail) = self
            && let Some(lines) = tail.lines_so_far()
        {
            *self = Self::Known(lines);
        }
        match self {
            Self::Known(lines) => lines,
            Self::None | Self::Awaited(_) => &[],
        }
    }

    /// The error line, if the process wrote one.
    pub(crate) fn cause(&mut self) -> Option<&str> {
        stderr_excerpt::cause(self.lines())
    }

    /// The error line of a process that ended so.
    pub(crate) fn cause_of(&mut self, exit: &Exit) -> Option<&str> {
        stderr_excerpt::cause_of(self.lines(), exit)
    }

    /// Says in words that the process has ended because its heap was full, if it has.
    pub(crate) fn heap_limit(&mut self) -> Option<String> {
        self.cause()
            .filter(|cause| stderr_excerpt::is_heap_limit(cause))
            .map(|_| "its JavaScript heap was full".to_owned())
    }

    /// The lines, once; `None` when no process has ended.
    pub(crate) fn take(&mut self) -> Option<Tail> {
        self.lines();
        match std::mem::take(self) {
            Self::None => None,
            Self::Awaited(tail) => Some(tail),
            Self::Known(lines) => {
                *self = Self::Known(lines.clone());
                let (sender, answer) = oneshot::channel();
                // The receiver is in our hands.
                sender.send(StderrTail { lines, is_uncaught: false }).ok();
                Some(Tail { answer, secrets: Rc::default() })
            }
        }
    }
}
