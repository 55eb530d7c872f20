//! Why a command failed in a slot, in words, and what to do about it.

use forkful_core::pages::{Hint, Page};
use forkful_core::slot::{Exit, Fault, State};
use forkful_core::stderr_excerpt::{Attempt, cause_of, next_step};
use forkful_core::words::shell_word;

use super::app::{App, ListenFault};
use super::faults::{Ours, listen_fault_in};
use super::lifecycle::SIGKILL;

/// A slot in which a command failed.
#[derive(Debug)]
pub(crate) struct SlotFailure {
    pub(crate) pm_id: u32,
    pub(crate) fault: Fault,
    pub(crate) listen_fault: Option<ListenFault>,
    /// It had served before.
    pub(crate) was_ready: bool,
    /// Who killed its process, if that is known: the kernel for lack of memory, or Forkful.
    pub(crate) killed: Option<String>,
    /// What a process that was not ready in time has not done.
    pub(crate) unready: Option<&'static str>,
    /// Its slot starts again by itself, until it has ended this often.
    pub(crate) again: Option<u32>,
}

impl App {
    /// Who killed the process of a slot that failed by SIGKILL.
    pub(super) fn killed_by(&self, failure: &SlotFailure) -> Option<String> {
        let is_killed = failure.fault == Fault::Exited(Exit::Signal(SIGKILL));
        let place = self.places.values().find(|place| is_killed && place.pm_id == failure.pm_id)?;
        place.exit_cause.clone()
    }
}

impl App {
    /// After how many exits a slot that starts again by itself is given up.
    pub(super) fn starts_again(&self, failure: &SlotFailure) -> Option<u32> {
        let (slot, _) = self.places.iter().find(|(_, place)| place.pm_id == failure.pm_id)?;
        let state = &self.supervisor.slot(*slot)?.slot.state;
        matches!(state, State::Backoff { .. } | State::Starting { .. })
            .then_some(self.spec().restart.max_restarts)
    }

    /// What the process of a slot has not done that was not ready in time.
    pub(super) fn unready(&self, failure: &SlotFailure) -> Option<&'static str> {
        let is_late = matches!(failure.fault, Fault::NotReadyInTime { .. });
        let unsaid =
            "it has not said that it is ready by `process.send('ready')`, which `wait_ready` asks for";
        let asks = self.spec().readiness.wait_ready;
        is_late.then_some(if asks { unsaid } else { "it does not listen on any port" })
    }
}

/// What the command says of a failure, and what to do about it. `stderr_tail` is that of the failed worker.
pub(super) fn explain(
    app: &str,
    (cwd, attempt): (&str, Attempt<'_>),
    failure: &SlotFailure,
    stderr_tail: &[String],
    ours: &Ours,
) -> (String, Option<Hint>) {
    let pm_id = failure.pm_id;
    let own = || listen_fault_in(app, stderr_tail, ours);
    if matches!(failure.fault, Fault::Exited(_) | Fault::NotReadyInTime { .. })
        && let Some(fault) = failure.listen_fault.clone().or_else(own)
    {
        return (fault.error, fault.hint.map(|hint| Page::Listening.hint(hint)));
    }
    let logs = || {
        let again = failure.again.map_or_else(String::new, |most| {
            format!("Forkful starts it again, and gives up after {most} exits within `min_uptime`; ")
        });
        let text = format!("{again}`forkful logs {pm_id} --err` shows all of the worker's stderr");
        Some(Page::AppFails.hint(text))
    };
    match &failure.fault {
        Fault::Exited(Exit::SpawnFailed(why)) => {
            let kept = "an app keeps the program that it was started with: `restart FILE --update-env` of its configuration looks for it in this shell's PATH";
            let is_gone = why.ends_with("(os error 2)");
            let hint = is_gone.then(|| Page::AppFails.hint(kept));
            (format!("worker {pm_id} could not be started: {why}"), hint)
        }
        Fault::Exited(exit) => {
            let when = if failure.was_ready { "soon after" } else { "before" };
            let text = format!("worker {pm_id} ended with {exit} {when} it was ready");
            if let Some(killed) = &failure.killed {
                let hint = "`forkful events` has what is known of it; an app that needs more memory needs a larger `memory_max`";
                return (format!("{text}: {killed}"), Some(Page::Limits.hint(hint)));
            }
            match cause_of(stderr_tail, exit) {
                Some(cause) => (format!("{text}: {cause}"), next_step(cause, cwd, attempt).or_else(logs)),
                None if stderr_tail.is_empty() => {
                    let hint = "the worker wrote nothing to stderr; `forkful logs` shows its output";
                    (text, Some(Page::AppFails.hint(hint)))
                }
                None => (text, logs()),
            }
        }
        Fault::NotReadyInTime { waited } => (
            format!(
                "worker {pm_id} was not ready within {} s{}",
                waited.as_secs_f64(),
                failure.unready.map_or(String::new(), |unready| format!(": {unready}"))
            ),
            Some(Page::NotReady.hint(format!(
                "give it longer with `--listen-timeout <ms>`, or see why with `forkful logs {}`",
                shell_word(app)
            ))),
        ),
        other => (in_worker(pm_id, &other.to_string()), None),
    }
}

/// A fault of a worker, with its id.
pub(super) fn in_worker(pm_id: u32, fault: &str) -> String {
    format!("worker {pm_id}: {fault}")
}
