//! Plans a reload over the slots of an app: one slot at a time, until done or failed.
//!
//! The next slot begins when the replacement of the previous slot is ready, and while fewer than
//! [`LEAVING_MAX`] old processes are still leaving. Waiting for each old process to leave would make a reload
//! of n slots with one websocket each last n × the drain timeout; not waiting at all would double the app's
//! memory. The plan never stops a ready worker itself: an old worker leaves only after its successor is
//! ready.
//!
//! The first failure ends the plan: slots that have not begun keep their old process. Slots that are already
//! replaced keep the new process, because a rollback would need the old code, which may no longer exist on
//! disk.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::slot::{Fault, SlotNumber, Verb};

/// Maximum old processes that may be leaving when the next slot begins. A reload therefore needs memory for
/// at most two additional workers, and for one that is starting.
pub const LEAVING_MAX: usize = 2;

/// Maximum waiting reloads of an app. Each restarts every worker, so more are surely a mistake of a script.
pub const RELOADS_WAITING_MAX: usize = 8;

/// A running reload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollout {
    todo: VecDeque<SlotNumber>,
    current: Option<SlotNumber>,
    leaving: Vec<SlotNumber>,
    /// The next slot begins while fewer old processes than this are leaving.
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
    /// The slot whose replacement failed, or the next slot when the reload was cancelled.
    pub slot: SlotNumber,
    pub fault: Fault,
}

/// The result of a reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Slots with a new process, in the order of replacement.
    pub replaced: Vec<SlotNumber>,
    /// Why the plan ended early.
    pub failure: Option<Failure>,
    /// Slots that were not begun because of the failure; they keep their processes.
    pub untouched: Vec<SlotNumber>,
}

/// Events of a reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The successor in this slot serves (or the first process, in a slot that had none).
    SlotReplaced {
        slot: SlotNumber,
        /// Whether an old process is leaving, so that [`Event::OldLeft`] will follow.
        old_leaving: bool,
    },
    /// The slot keeps its old process.
    SlotReplaceFailed(SlotNumber, Fault),
    /// The new process of a replaced slot has failed soon after it served.
    SuccessorFailed(SlotNumber, Fault),
    /// The slot no longer belongs to the app.
    SlotGone(SlotNumber),
    /// The old process of this slot has exited.
    OldLeft(SlotNumber),
    /// The whole app gets another command. Send this event before the command reaches the slots, so that the
    /// plan begins no slot that was just stopped.
    Cancelled { by: Verb },
}

/// Actions for the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Replace this slot's process.
    Replace(SlotNumber),
    /// The reload is over; no further actions follow.
    Done(Summary),
}

impl Rollout {
    /// Creates a plan for these slots, in this order, and returns its first actions.
    #[must_use]
    pub fn new(slots: impl IntoIterator<Item = SlotNumber>) -> (Self, Vec<Action>) {
        Self::with_leaving(slots, LEAVING_MAX)
    }

    /// Like [`Self::new`], but each old process leaves before the next slot begins: there is memory for only
    /// one additional worker.
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

    /// Handles one event. Unexpected events of slots change nothing.
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
            // What is left of the old processes stays, unless the last of them is being replaced already.
            Event::SuccessorFailed(slot, fault) if self.replaced.contains(&slot) && !self.todo.is_empty() => {
                self.failure.get_or_insert(Failure { slot, fault });
            }
            Event::Cancelled { by } => {
                // If no slot is left to begin, there is nothing to cancel.
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
            Event::SlotReplaced { .. } | Event::SlotReplaceFailed(..) | Event::SuccessorFailed(..) => {}
        }
        self.advance()
    }

    /// The slot that is being replaced.
    pub fn current(&self) -> Option<SlotNumber> {
        self.current
    }

    /// Whether it will end early, as soon as this is known.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Whether [`Action::Done`] was returned.
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

/// The reloads of an app, in sequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadQueue<T> {
    busy: bool,
    waiting: VecDeque<T>,
}

/// What happens to a requested reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission<T> {
    Begin(T),
    /// It begins after this many other reloads.
    Behind(usize),
    /// [`RELOADS_WAITING_MAX`] reloads are already waiting.
    Refused(T),
}

impl<T> Default for ReloadQueue<T> {
    fn default() -> Self {
        Self { busy: false, waiting: VecDeque::new() }
    }
}

impl<T> ReloadQueue<T> {
    /// Requests a reload.
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

    /// Whether a reload is running.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// The waiting reloads, in order.
    pub fn waiting(&self) -> impl Iterator<Item = &T> {
        self.waiting.iter()
    }

    /// The waiting reloads, mutable.
    pub fn waiting_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.waiting.iter_mut()
    }

    /// Removes every waiting reload; the caller answers that it will not run.
    pub fn clear(&mut self) -> Vec<T> {
        self.waiting.drain(..).collect()
    }
}
