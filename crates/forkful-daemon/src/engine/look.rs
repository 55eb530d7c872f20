//! Looks at the workers: those who ask for a list are told which event loops do not turn, so the workers are asked
//! first, and those that do not answer at once are waited for, a little.

use forkful_core::Time;
use forkful_core::steering::blocked::{LOOK_PATIENCE, is_awaited};

use super::app::App;
use super::apps::Apps;
use crate::command::Command;

/// Questions that wait for the workers' answers.
#[derive(Default)]
pub(super) struct Looks(Vec<Look>);

struct Look {
    command: Command,
    until: Time,
}

impl Looks {
    /// Asks all workers whether their loops turn; the command is answered after that.
    pub(super) fn begin(&mut self, command: Command, apps: &mut Apps, now: Time) {
        for entry in apps.values_mut() {
            let living = entry.shown();
            let asked = living.filter(|process| process.ended.is_none()).map(|process| process.worker);
            for worker in asked.collect::<Vec<_>>() {
                // What does not speak Node's protocol would owe an answer for ever.
                if entry.primary.has_agent(worker) {
                    entry.primary.ask_whether_it_turns(worker, now);
                }
            }
        }
        self.0.push(Look { command, until: now + LOOK_PATIENCE });
    }

    /// Takes the commands that need not wait any longer; none does unless `may_wait`.
    pub(super) fn take_done(&mut self, apps: &Apps, may_wait: bool, now: Time) -> Vec<Command> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let awaited = may_wait && apps.values().any(|entry| is_answer_awaited(entry, now));
        let done = self.0.extract_if(.., |look| !awaited || look.until <= now);
        done.map(|look| look.command).collect()
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        self.0.iter().map(|look| look.until).min()
    }
}

/// Whether a worker of an app still has time to answer.
fn is_answer_awaited(entry: &App, now: Time) -> bool {
    entry.shown().filter(|process| process.ended.is_none()).any(|process| {
        let since = entry.primary.owes_since(process.worker);
        entry.primary.has_agent(process.worker) && is_awaited(since.map(|since| now.since(since)))
    })
}
