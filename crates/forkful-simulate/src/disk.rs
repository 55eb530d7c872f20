//! The simulated disk: one saved state, which is replaced atomically and slowly, or not while the disk is
//! full.

use std::rc::Rc;
use std::time::Duration;

use forkful_core::Time;
use forkful_core::saving::is_covered;
use forkful_core::spec::AppSpec;
use forkful_core::supervisor::FirstStates;

use crate::queue::Happening;
use crate::watch::Invariant;
use crate::world::World;

/// Pause between two attempts to write a state.
const RETRY: Duration = Duration::from_millis(100);

/// An app in a saved state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Saved {
    pub(crate) spec: Rc<AppSpec>,
    pub(crate) first: FirstStates,
}

/// A state to write.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub(crate) number: u64,
    /// The number of events at the time it was taken.
    pub(crate) taken: usize,
    /// The state that it replaces belongs to the previous daemon, and is kept.
    pub(crate) keep: bool,
    pub(crate) apps: Vec<Saved>,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    pub(crate) state: State,
    /// The states of previous daemons, newest last.
    pub(crate) previous: Vec<Vec<Saved>>,
    /// Apps of previous daemons that were not restored.
    pub(crate) owed: Vec<Saved>,
    writing: Option<State>,
    /// The newest state, which waits for the current write.
    waiting: Option<State>,
    pub(crate) full_until: Time,
    /// Increases with each write, to distinguish writes of different daemons.
    writes: u64,
}

impl Disk {
    /// The previous daemon's state is kept next to the next one.
    fn keep_previous(&mut self) {
        let state = std::mem::take(&mut self.state.apps);
        if state.is_empty() {
            return;
        }
        let names =
            |apps: &[Saved]| apps.iter().map(|saved| Some(saved.spec.name.clone())).collect::<Vec<_>>();
        let next = names(&state);
        if self.previous.last().is_some_and(|kept| is_covered(&names(kept), &next)) {
            self.previous.pop();
        }
        self.previous.push(state);
    }

    /// The daemon is gone: its saved apps can be restored by a client's request.
    pub(crate) fn leave(&mut self) {
        for saved in &self.state.apps {
            if self.owed.iter().all(|owed| owed.spec.name != saved.spec.name) {
                self.owed.push(saved.clone());
            }
        }
    }

    /// The newest state with any apps; `own`: the first belongs to the daemon that asks.
    pub(crate) fn newest(&self, own: bool) -> Vec<Saved> {
        let first = Some(&self.state.apps).filter(|apps| !own && !apps.is_empty());
        first.or(self.previous.last()).cloned().unwrap_or_default()
    }
}

impl World {
    /// Apps that were not restored are still in one of the kept states.
    fn check_kept(&mut self) {
        let disk = &self.disk;
        let holds = |apps: &[Saved], owed: &Saved| apps.iter().any(|saved| saved.spec.name == owed.spec.name);
        let is_there = |owed: &&Saved| {
            holds(&disk.state.apps, owed) || disk.previous.iter().any(|kept| holds(kept, owed))
        };
        if let Some(lost) = disk.owed.iter().find(|owed| !is_there(owed)) {
            let seen = format!("{} was saved, was not taken up, and is on no disk", lost.spec.name);
            self.watch.fail(Invariant::NothingForgotten, seen);
        }
    }

    /// Starts writing a state.
    pub(crate) fn write(&mut self, state: State) {
        if self.disk.writing.is_some() {
            // Only the newest is written; if a waiting one had to keep the previous state, so does this one.
            let keep = self.disk.waiting.as_ref().is_some_and(|waiting| waiting.keep);
            self.disk.waiting = Some(State { keep: keep || state.keep, ..state });
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

    /// A write has ended. Returns whether it is the current one.
    pub(crate) fn on_written(&mut self, write: u64) -> bool {
        if write != self.disk.writes {
            return false;
        }
        let Some(mut state) = self.disk.writing.take() else { return false };
        if std::mem::take(&mut state.keep) {
            self.disk.keep_previous();
        }
        let is_full = self.now < self.disk.full_until && !self.calm;
        match self.disk.waiting.take() {
            // Of several states only the newest is written.
            Some(mut newer) if is_full => {
                newer.keep |= state.keep;
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
                self.check_kept();
                self.release_replies(number);
                if let Some(newer) = newer {
                    self.begin_write(newer);
                }
            }
        }
        true
    }

    /// The daemon has crashed: the current write is either complete or absent, never partial.
    pub(crate) fn crash_disk(&mut self) {
        if let Some(mut state) = self.disk.writing.take() {
            // The kept state is renamed first.
            let is_kept = !std::mem::take(&mut state.keep) || {
                let keeps = self.dice.percent(60);
                if keeps {
                    self.disk.keep_previous();
                }
                keeps
            };
            if is_kept && self.now >= self.disk.full_until && self.dice.percent(50) {
                self.disk.state = state;
            }
            self.check_kept();
        }
        self.disk.waiting = None;
        self.disk.writes += 1;
    }
}
