//! The last stderr lines of the process that exited last: requested from the log service at the exit, kept
//! for later questions.

use forkful_core::stderr_excerpt;
use tokio::sync::oneshot;

/// The last stderr lines of the process that exited last.
#[derive(Debug, Default)]
pub(crate) enum ExitTail {
    /// No process has ended.
    #[default]
    None,
    /// The log service has not answered, or its answer was not read yet.
    Awaited(oneshot::Receiver<Vec<String>>),
    /// The lines, error first.
    Known(Vec<String>),
}

impl ExitTail {
    /// The log service will answer here.
    pub(crate) fn awaiting(answer: oneshot::Receiver<Vec<String>>) -> Self {
        Self::Awaited(answer)
    }

    /// The lines known so far.
    pub(crate) fn lines(&mut self) -> &[String] {
        if let Self::Awaited(answer) = self
            && let Ok(lines) = answer.try_recv()
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

    /// Says in words that the process has ended because its heap was full, if it has.
    pub(crate) fn heap_limit(&mut self) -> Option<String> {
        self.cause()
            .filter(|cause| stderr_excerpt::is_heap_limit(cause))
            .map(|_| "its JavaScript heap was full".to_owned())
    }

    /// The lines, once; `None` when no process has ended.
    pub(crate) fn take(&mut self) -> Option<oneshot::Receiver<Vec<String>>> {
        self.lines();
        match std::mem::take(self) {
            Self::None => None,
            Self::Awaited(answer) => Some(answer),
            Self::Known(lines) => {
                *self = Self::Known(lines.clone());
                let (sender, answer) = oneshot::channel();
                // The receiver is in our hands.
                sender.send(lines).ok();
                Some(answer)
            }
        }
    }
}
