//! The simulated disk: one saved state, which is replaced as a whole or not at all, slowly, or not while it is full.

use std::rc::Rc;
use std::time::Duration;

use forkful_core::Time;
use forkful_core::spec::AppSpec;
use forkful_core::supervisor::FirstStates;

use crate::queue::Happening;
use crate::world::World;

/// Between two tries to write a state.
const RETRY: Duration = Duration::from_millis(100);

/// An app in a saved state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Saved {
    pub(crate) spec: Rc<AppSpec>,
    pub(crate) first: FirstStates,
}

/// A state that is written.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub(crate) number: u64,
    /// How many events had happened when it was taken.
    pub(crate) taken: usize,
    pub(crate) apps: Vec<Saved>,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    pub(crate) state: State,
    writing: Option<State>,
    /// The newest state that waits for the one that is being written.
    waiting: Option<State>,
    pub(crate) full_until: Time,
    /// Counts up with each write, so that one of an earlier daemon is not taken for a later one.
    writes: u64,
}

impl World {
    /// A state is handed over to be written.
    pub(crate) fn write(&mut self, state: State) {
        if self.disk.writing.is_some() {
            self.disk.waiting = Some(state);
        } else {
            self.begin_write(state);
        }
    }

    fn begin_write(&mut self, state: State) {
        self.disk.writing = Some(state);
        self.disk.writes += 1;
        let slow = !self.calm && self.dice.percent(10);
        let after = if slow { self.dice.millis(20, 3_000) } else { self.dice.millis(0, 4) };
        self.after(after, Happening::Written(self.disk.writes));
    }

    /// A write has come to its end; whether it is one that somebody waits for.
    pub(crate) fn on_written(&mut self, write: u64) -> bool {
        if write != self.disk.writes {
            return false;
        }
        let Some(state) = self.disk.writing.take() else { return false };
        let is_full = self.now < self.disk.full_until && !self.calm;
        match self.disk.waiting.take() {
            // Of several only the newest is written.
            Some(newer) if is_full => {
                self.fail_replies(state.number);
                self.begin_write(newer);
            }
            None if is_full => {
                self.fail_replies(state.number);
                self.disk.writing = Some(state);
                self.disk.writes += 1;
                self.after(RETRY, Happening::Written(self.disk.writes));
            }
            newer => {
                let number = state.number;
                self.disk.state = state;
                self.release_replies(number);
                if let Some(newer) = newer {
                    self.begin_write(newer);
                }
            }
        }
        true
    }

    /// The daemon has crashed: what was being written is there, or is not; never a part of it.
    pub(crate) fn crash_disk(&mut self) {
        let writing = self.disk.writing.take();
        if let Some(state) = writing.filter(|_| self.now >= self.disk.full_until)
            && self.dice.percent(50)
        {
            self.disk.state = state;
        }
        self.disk.waiting = None;
        self.disk.writes += 1;
    }
}
