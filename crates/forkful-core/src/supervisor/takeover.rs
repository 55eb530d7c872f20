//! Another daemon goes on with this app: what the one before had in its memory only is asked for again.
//!
//! The driver has performed again what may not have been performed of the last step. What is left is what a driver had
//! taken on and not finished: starts that it had put off, signals for processes that were being started, questions
//! without an answer. Signals to processes that run are not among it: many programs take a second one for impatience.

use super::{Effect, Turn};
use crate::leaving;
use crate::slot::{Event, Generation, Push, State};

/// Why a process ended that nobody saw end.
const UNSEEN: &str = "it was gone when another daemon took over";

/// A process that lives on, or whose end the supervisor has still to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adopted {
    pub slot: u16,
    pub generation: Generation,
    /// Its own program runs, or has run.
    pub runs: bool,
}

impl Turn<'_> {
    /// Another daemon has taken over, and these processes are there.
    pub(super) fn taken_over(&mut self, there: &[Adopted]) {
        self.follow_clock();
        let held = self.app.slots.iter().flat_map(|(slot, record)| {
            record.slot.generations().map(|generation| (*slot, generation)).collect::<Vec<_>>()
        });
        for (slot, generation) in held.collect::<Vec<_>>() {
            let found = there.iter().find(|process| (process.slot, process.generation) == (slot, generation));
            match found {
                Some(process) => self.adopt_process(*process),
                None => self.miss_process(slot, generation),
            }
        }
    }

    /// A process is not there: it was not started, or its end is not known.
    fn miss_process(&mut self, slot: u16, generation: Generation) {
        let Some(record) = self.app.slots.get(&slot) else { return };
        if record.awaits(generation) && record.pending_start == Some(generation) {
            self.effect(Effect::Spawn(slot, generation));
        } else {
            self.feed(slot, Event::SpawnFailed(generation, UNSEEN.to_owned()));
        }
    }

    fn adopt_process(&mut self, process: Adopted) {
        let Adopted { slot, generation, runs } = process;
        let Some(record) = self.app.slots.get(&slot) else { return };
        let is_pending = record.pending_start == Some(generation);
        let leaver = record.slot.leaving.iter().find(|leaver| leaver.generation == generation);
        let asked_to_end = match (&record.slot.state, leaver.map(|leaver| leaver.state)) {
            (_, Some(leaving::State::Draining { .. })) => Some(Effect::Drain { slot, generation, job: None }),
            (_, Some(leaving::State::Signalled { .. }))
            | (State::Stopping { push: Push::Signalled { .. }, .. }, None)
                if is_pending =>
            {
                Some(Effect::Signal(slot, generation))
            }
            (_, Some(leaving::State::Killed)) | (State::Stopping { push: Push::Killed, .. }, None) => {
                Some(Effect::Kill(slot, generation))
            }
            _ => None,
        };
        let serves = match &record.slot.state {
            State::Online(running) | State::Replacing { old: running, .. } => {
                running.generation == generation && running.confirmed
            }
            _ => false,
        };
        let waits_for_health = record.upkeep.is_asked(generation);
        let awaits = record.awaits(generation);
        let is_being_warmed = record.warms(generation);
        self.effects.extend(asked_to_end);
        if serves {
            self.effect(Effect::OpenTraffic(slot, generation));
        }
        if is_being_warmed {
            self.warm_up(slot);
        }
        if waits_for_health {
            self.effect(Effect::AskHealth(slot, generation));
        }
        if is_pending && runs {
            self.runs(slot, generation);
        } else if awaits && runs {
            self.effect(Effect::LookAtSockets(slot, generation));
        }
    }
}
