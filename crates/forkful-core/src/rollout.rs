//! The plan of a reload over the slots of an app: one slot at a time, and what ends it.
//!
//! The next slot is begun when the replacement of the one before is ready, and while fewer than
//! [`LEAVING_MAX`] old processes are still on their way out. Waiting for each old process to leave
//! would make a reload of n slots with one websocket each last n × the drain timeout; not waiting at
//! all would double the app's memory. At no time does the plan itself take a ready worker away: an
//! old one leaves only after its successor is ready.
//!
//! The first failure ends the plan: slots not yet begun keep their old process. Slots replaced
//! before keep the new one, for a rollback would need the old code, which may be gone from the disk.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::slot::{Fault, SlotNumber, Verb};

/// Old processes that may be leaving while the next slot is begun, so that a reload needs memory
/// for at most two workers more than it began with, and one that starts.
pub const LEAVING_MAX: usize = 2;

/// Reloads of one app that may wait for the running one; each will start every worker anew, so
/// more are surely a mistake of a script.
pub const RELOADS_WAITING_MAX: usize = 8;

/// A reload under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollout {
    todo: VecDeque<SlotNumber>,
    current: Option<SlotNumber>,
    leaving: Vec<SlotNumber>,
    /// The next slot is begun while fewer old processes are leaving.
    #[serde(default = "leaving_max")]
    leaving_max: usize,
    replaced: Vec<SlotNumber>,
    failure: Option<Failure>,
    done: bool,
}

fn leaving_max() -> usize {
    LEAVING_MAX
}

/// Where and why a reload ended early.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The slot whose replacement failed, or would have been next when the reload was cancelled.
    pub slot: SlotNumber,
    pub fault: Fault,
}

/// How a reload ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Slots with a new process, in the order in which they got it.
    pub replaced: Vec<SlotNumber>,
    /// What ended the plan early.
    pub failure: Option<Failure>,
    /// Slots that were not begun because of the failure; they keep what they had.
    pub untouched: Vec<SlotNumber>,
}

/// What happens to a reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The successor in this slot serves (or, in a slot that had no process, the first one).
    SlotReplaced {
        slot: SlotNumber,
        /// Whether an old process is leaving, so that [`Event::OldLeft`] will follow.
        old_leaving: bool,
    },
    /// The slot keeps its old process.
    SlotReplaceFailed(SlotNumber, Fault),
    /// The slot does not belong to the app any more.
    SlotGone(SlotNumber),
    /// The old process of this slot has exited.
    OldLeft(SlotNumber),
    /// Somebody gives the whole app another command; to be sent before that command is given to
    /// the slots, so that the plan begins no slot that has just been stopped.
    Cancelled { by: Verb },
}

/// What the driver is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Have this slot's process replaced.
    Replace(SlotNumber),
    /// The reload is over; nothing more will be asked for.
    Done(Summary),
}

impl Rollout {
    /// A plan for these slots, in this order, and its first actions.
    #[must_use]
    pub fn new(slots: impl IntoIterator<Item = SlotNumber>) -> (Self, Vec<Action>) {
        Self::with_leaving(slots, LEAVING_MAX)
    }

    /// The same, and each old process has left before the next slot is begun: there is memory for one worker more.
    #[must_use]
    pub fn sparing(slots: impl IntoIterator<Item = SlotNumber>) -> (Self, Vec<Action>) {
        Self::with_leaving(slots, 1)
    }

    fn with_leaving(slots: impl IntoIterator<Item = SlotNumber>, leaving_max: usize) -> (Self, Vec<Action>) {
        let plan = Self {
            todo: slots.into_iter().collect(),
            current: None,
            leaving: Vec::new(),
            leaving_max,
            replaced: Vec::new(),
            failure: None,
            done: false,
        };
        plan.advance()
    }

    /// One step. Events about slots that the plan does not expect anything from change nothing.
    #[must_use]
    pub fn step(mut self, event: Event) -> (Self, Vec<Action>) {
        match event {
            Event::SlotReplaced { slot, old_leaving } if self.current == Some(slot) => {
                self.current = None;
                self.replaced.push(slot);
                if old_leaving {
                    self.leaving.push(slot);
                }
            }
            Event::SlotReplaceFailed(slot, fault) if self.current == Some(slot) => {
                self.current = None;
                self.failure.get_or_insert(Failure { slot, fault });
            }
            Event::Cancelled { by } => {
                // With nothing left to begin there is nothing to cancel.
                if let Some(slot) = self.current.or(self.todo.front().copied()) {
                    self.failure.get_or_insert(Failure { slot, fault: Fault::Cancelled { by } });
                }
            }
            Event::SlotGone(slot) => {
                self.todo.retain(|&other| other != slot);
                self.leaving.retain(|&other| other != slot);
                if self.current == Some(slot) {
                    self.current = None;
                }
            }
            Event::OldLeft(slot) => self.leaving.retain(|&other| other != slot),
            Event::SlotReplaced { .. } | Event::SlotReplaceFailed(..) => {}
        }
        self.advance()
    }

    /// The slot whose replacement is under way.
    pub fn current(&self) -> Option<SlotNumber> {
        self.current
    }

    /// Whether it ends early, from the moment on that this is known.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Whether [`Action::Done`] has been given.
    pub fn is_done(&self) -> bool {
        self.done
    }

    fn advance(mut self) -> (Self, Vec<Action>) {
        let mut actions = Vec::new();
        let may_begin =
            self.failure.is_none() && self.current.is_none() && self.leaving.len() < self.leaving_max;
        if may_begin && let Some(slot) = self.todo.pop_front() {
            self.current = Some(slot);
            actions.push(Action::Replace(slot));
        }
        let nothing_left = self.todo.is_empty() || self.failure.is_some();
        if nothing_left && self.current.is_none() && self.leaving.is_empty() && !self.done {
            self.done = true;
            actions.push(Action::Done(Summary {
                replaced: self.replaced.clone(),
                failure: self.failure.clone(),
                untouched: self.todo.iter().copied().collect(),
            }));
        }
        (self, actions)
    }
}

/// The reloads of one app, one after another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadQueue<T> {
    busy: bool,
    waiting: VecDeque<T>,
}

/// What becomes of a reload that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission<T> {
    Begin(T),
    /// It begins after this many others.
    Behind(usize),
    /// [`RELOADS_WAITING_MAX`] wait already.
    Refused(T),
}

impl<T> Default for ReloadQueue<T> {
    fn default() -> Self {
        Self { busy: false, waiting: VecDeque::new() }
    }
}

impl<T> ReloadQueue<T> {
    /// Asks for a reload.
    pub fn ask(&mut self, reload: T) -> Admission<T> {
        if !self.busy {
            self.busy = true;
            return Admission::Begin(reload);
        }
        if self.waiting.len() >= RELOADS_WAITING_MAX {
            return Admission::Refused(reload);
        }
        self.waiting.push_back(reload);
        Admission::Behind(self.waiting.len())
    }

    /// The running reload is over; returns the reload that begins now.
    pub fn finished(&mut self) -> Option<T> {
        let next = self.waiting.pop_front();
        self.busy = next.is_some();
        next
    }

    /// Whether a reload is under way.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// The reloads that wait, in the order in which they begin.
    pub fn waiting(&self) -> impl Iterator<Item = &T> {
        self.waiting.iter()
    }

    /// The same, to be changed.
    pub fn waiting_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.waiting.iter_mut()
    }

    /// Takes every waiting reload, to be answered that it will not happen.
    pub fn clear(&mut self) -> Vec<T> {
        self.waiting.drain(..).collect()
    }
}
