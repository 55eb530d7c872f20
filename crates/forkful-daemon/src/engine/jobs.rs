//! Commands under way: which slots still owe an answer, and what the client is told at the end.

use std::collections::BTreeMap;

use forkful_api::types::{ActionReply, AppOutcome};
use forkful_core::slot::{Exit, Fault, Outcome};

use super::app::{AppId, ListenFault};
use crate::command::Reply;

/// Names a command under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct JobId(pub(crate) u64);

/// A command under way.
pub(crate) struct Job {
    /// Who waits; `None` when the client did not want to.
    pub(crate) reply: Option<Reply<ActionReply>>,
    /// Answers still owed.
    pub(crate) open: usize,
    pub(crate) parts: BTreeMap<AppId, Part>,
    /// The whole daemon ends when this one does.
    pub(crate) ends_daemon: bool,
}

/// What a command has come to at one app.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) pm_ids: Vec<u32>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) notes: Vec<String>,
    /// Sentence that goes before the first failure, such as that a reload kept the old version.
    pub(crate) preface: Option<String>,
    pub(crate) hint: Option<String>,
}

/// A slot where it did not come to what was asked for.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) pm_id: u32,
    pub(crate) fault: Fault,
    pub(crate) listen_fault: Option<ListenFault>,
}

impl Part {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Notes a slot's answer.
    pub(crate) fn take(
        &mut self,
        pm_id: u32,
        outcome: Outcome,
        listen_fault: Option<ListenFault>,
        mode_listens: bool,
    ) {
        match outcome {
            Outcome::Online { confirmed: false } if mode_listens => {
                let note = "it runs, but has not listened on any port yet; \
                            `forkful describe` shows when it does";
                self.note(note.to_owned());
            }
            Outcome::Online { .. } | Outcome::Replaced | Outcome::Stopped | Outcome::Deleted => {}
            Outcome::AlreadyOnline => self.note(format!("worker {pm_id} was online already")),
            Outcome::Finished(exit) => self.note(format!("worker {pm_id} ended with {exit}")),
            Outcome::Failed(fault) => self.failures.push(Failure { pm_id, fault, listen_fault }),
        }
    }

    pub(crate) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The worker whose stderr explains the failure.
    pub(crate) fn culprit(&self) -> Option<u32> {
        self.failures
            .iter()
            .find(|failure| matches!(failure.fault, Fault::Exited(_) | Fault::NotReadyInTime { .. }))
            .map(|failure| failure.pm_id)
    }

    pub(crate) fn into_outcome(self, stderr_tail: Vec<String>) -> AppOutcome {
        let first = self.failures.first();
        let (error, hint) = match first {
            None => (None, self.hint),
            Some(failure) => {
                let (text, hint) = explain(failure, &stderr_tail);
                let text = match self.preface {
                    Some(preface) => format!("{preface}: {text}"),
                    None => text,
                };
                (Some(text), self.hint.or(hint))
            }
        };
        AppOutcome {
            ok: first.is_none(),
            name: self.name,
            pm_ids: self.pm_ids,
            error,
            hint,
            notes: self.notes,
            stderr_tail: if first.is_some() { stderr_tail } else { Vec::new() },
        }
    }
}

fn explain(failure: &Failure, stderr_tail: &[String]) -> (String, Option<String>) {
    let pm_id = failure.pm_id;
    let own = || super::faults::listen_fault_in(stderr_tail);
    if matches!(failure.fault, Fault::Exited(_) | Fault::NotReadyInTime { .. })
        && let Some(fault) = failure.listen_fault.clone().or_else(own)
    {
        return (fault.error, fault.hint);
    }
    let logs = || Some(format!("`forkful logs {pm_id} --err` shows all it wrote"));
    match &failure.fault {
        Fault::Exited(Exit::SpawnFailed(why)) => {
            (format!("worker {pm_id} could not be started: {why}"), None)
        }
        Fault::Exited(exit) => {
            let hint = if stderr_tail.is_empty() {
                Some("it wrote nothing to stderr; `forkful logs` shows its output".to_owned())
            } else {
                logs()
            };
            (format!("worker {pm_id} ended with {exit} before it was ready"), hint)
        }
        Fault::NotReadyInTime { waited } => (
            format!("worker {pm_id} was not ready within {} s", waited.as_secs_f64()),
            Some("give it longer with `--listen-timeout <ms>`, or see why with `forkful logs`".to_owned()),
        ),
        other => (format!("worker {pm_id}: {other}"), None),
    }
}
