//! The steps of a trial of `forkful doctor --fix`, as requests to the daemon. The trial has a name of its own, and its steps settle no
//! other: neither an earlier trial nor the trial of another doctor.

use forkful_api::client::Client;
use forkful_api::types::{ActionRequest, FixNote, FixStep, TrialCommands, Verb};
use forkful_core::pages::Page;
use forkful_os::random::secret;

use super::super::targets::client_for;
use crate::commands::interrupts::Interrupts;
use crate::exit::{Exit, Failure};
use crate::home::Home;

/// A change, and how to revert it.
pub(super) struct Change {
    pub(super) there: (Verb, ActionRequest),
    pub(super) back: (Verb, ActionRequest),
    /// The same by hand.
    pub(super) commands: TrialCommands,
}

/// The steps of one trial of an app.
pub(super) struct Steps<'a> {
    home: &'a Home,
    app: &'a str,
    /// The name of the trial.
    trial: String,
    change: &'a Change,
}

impl<'a> Steps<'a> {
    pub(super) fn new(home: &'a Home, app: &'a str, change: &'a Change) -> Result<Self, Failure> {
        let failed = |e| Failure::caused(Exit::Failed, anyhow::Error::new(e).context("cannot name a trial"));
        let bytes = secret().map_err(failed)?;
        let trial = bytes[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { home, app, trial, change })
    }

    /// Makes the change.
    pub(super) async fn begin(&self, client: &mut Client, reason: &str) -> Result<(), Failure> {
        let commands = Some(self.change.commands.clone());
        let note = FixNote { commands, ..FixNote::new(FixStep::Try, &self.trial, reason) };
        perform(client, &self.change.there, note).await
    }

    /// Keeps the change.
    pub(super) async fn keep(&self, reason: &str, interrupts: &mut Interrupts) -> Result<(), Failure> {
        let targets = vec![self.app.to_owned()];
        let order = (Verb::KeepFix, ActionRequest { targets, wait: true, ..ActionRequest::default() });
        let hint = format!("{} keeps the change", self.change.commands.keep);
        tokio::select! {
            kept = self.settle(&order, FixStep::Keep, reason) => kept,
            () = interrupts.again() => Err(interrupted("interrupted before the change was kept")),
        }
        .map_err(|failure| failure.hint(hint).see(Page::DoctorFix))
    }

    /// Reverts the change. A second signal ends the command, and the daemon may not have got the order.
    pub(super) async fn undo(&self, reason: &str, interrupts: &mut Interrupts) -> Result<(), Failure> {
        let hint = format!("the change may still be in place: {} undoes it", self.change.commands.undo);
        tokio::select! {
            undone = self.settle(&self.change.back, FixStep::Revert, reason) => undone,
            () = interrupts.again() => Err(interrupted("interrupted before the change was undone")),
        }
        .map_err(|failure| failure.hint(hint).see(Page::DoctorFix))
    }

    /// The trial has failed: reverts the change if it is in place. Yields why the command fails.
    pub(super) async fn give_up(&self, failure: Failure, interrupts: &mut Interrupts) -> Failure {
        let undone = async {
            let is_open = tokio::select! {
                is_open = self.is_open() => is_open,
                // `undo` then ends at the next signal.
                () = interrupts.first() => true,
            };
            if is_open {
                let reason = format!("it could not be measured: {}", failure.error);
                self.undo(&reason, interrupts).await
            } else {
                Ok(())
            }
        };
        undone.await.err().unwrap_or(failure)
    }

    /// Whether this trial may be open. A daemon that cannot be asked may have received the order. A daemon that is being updated refuses a
    /// change that has already begun.
    async fn is_open(&self) -> bool {
        let Ok(mut client) = client_for(self.home, &[self.app.to_owned()]).await else { return true };
        match client.find(self.app).await {
            Ok(found) => {
                found.apps.iter().filter_map(|app| app.trial.as_ref()).any(|open| open.id == self.trial)
            }
            Err(error) => error.refusal().is_none(),
        }
    }

    /// Ends the trial. The connection is a new one: the earlier one may be waiting for a reply, or lost.
    async fn settle(
        &self,
        order: &(Verb, ActionRequest),
        step: FixStep,
        reason: &str,
    ) -> Result<(), Failure> {
        let mut client = client_for(self.home, &order.1.targets).await?;
        perform(&mut client, order, FixNote::new(step, &self.trial, reason)).await
    }
}

fn interrupted(error: &str) -> Failure {
    Failure::new(Exit::Interrupted, error)
}

async fn perform(
    client: &mut Client,
    (verb, request): &(Verb, ActionRequest),
    note: FixNote,
) -> Result<(), Failure> {
    let request = ActionRequest { fix: Some(note), ..request.clone() };
    let reply = client.action(*verb, &request).await?;
    match reply.apps.iter().find(|app| !app.ok) {
        None => Ok(()),
        Some(failed) => {
            let why = failed.error.clone().unwrap_or_else(|| "it failed".to_owned());
            Err(Failure::new(Exit::Failed, format!("the change of {} failed: {why}", failed.name)))
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
