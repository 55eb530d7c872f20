//! Looks at the workers: those who ask for a list are told which event loops do not turn, so the workers are asked
//! first, and those that do not answer at once are waited for, a little.

use forkful_core::Time;
use forkful_core::steering::blocked::{LOOK_PATIENCE, is_awaited};

use super::{Engine, Phase};
use crate::command::Command;

/// A question that waits for the workers' answers.
pub(super) struct Look {
    command: Command,
    until: Time,
}

impl Engine {
    /// Asks all workers whether their loops turn, then answers.
    pub(super) fn look(&mut self, command: Command) {
        let now = self.clock.now();
        for entry in self.apps.values_mut() {
            let living = entry.shown();
            let asked = living.filter(|process| process.ended.is_none()).map(|process| process.worker);
            for worker in asked.collect::<Vec<_>>() {
                // What does not speak Node's protocol would owe an answer for ever.
                if entry.primary.has_agent(worker) {
                    entry.primary.ask_whether_it_turns(worker, now);
                }
            }
        }
        self.looks.push(Look { command, until: now + LOOK_PATIENCE });
        self.finish_looks();
    }

    /// Answers the looks that need not wait any longer.
    pub(super) fn finish_looks(&mut self) {
        if self.looks.is_empty() {
            return;
        }
        let now = self.clock.now();
        let awaited = self.phase == Phase::Serving
            && self.apps.values().any(|entry| {
                let living = entry.shown();
                living.filter(|process| process.ended.is_none()).any(|process| {
                    let since = entry.primary.owes_since(process.worker);
                    entry.primary.has_agent(process.worker) && is_awaited(since.map(|since| now.since(since)))
                })
            });
        let (wait, done): (Vec<Look>, Vec<Look>) =
            std::mem::take(&mut self.looks).into_iter().partition(|look| awaited && look.until > now);
        self.looks = wait;
        for look in done {
            self.answer_look(look.command);
        }
    }

    pub(super) fn next_look(&self) -> Option<Time> {
        self.looks.iter().map(|look| look.until).min()
    }
}
