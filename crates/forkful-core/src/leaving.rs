//! A process that has lost its slot and is on its way out: drained, then signalled, then killed.
//!
//! [`slot`](crate::slot) makes one of these for the old process of a reload and of a scale-down ([`retire`]), for a
//! replacement that failed ([`dismiss`]), and for a process that has closed its channel though it was not told to
//! ([`abandon`]). It never comes back; only its exit ends it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::spec::StopPolicy;

/// A process that has closed its channel may finish what it does after its last response before it is signalled.
pub const AFTER_DISCONNECT: Duration = Duration::from_millis(500);

/// How far a leaving process has been pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "LeavingState")]
pub enum State {
    /// Asked to finish what it has; gets no new connections.
    Draining {
        /// When patience ends and the signal is sent.
        signal_at: Time,
    },
    /// Has got the stop signal.
    Signalled {
        /// When SIGKILL follows.
        kill_at: Time,
    },
    /// Has got SIGKILL; nothing is left but to wait for the kernel.
    Killed,
}

/// What happens to a leaving process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It has nothing left to finish, though it still runs (a timer keeps it alive).
    Drained,
    /// It has closed its channel. Usually it exits next.
    Disconnected,
    /// Somebody stops the slot: no more patience for the drain.
    Hurry,
    /// Time has passed.
    Deadline,
    Exited,
}

/// What is to be done to a leaving process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Disconnect it, so that it ends when its last request is done.
    Drain,
    /// Send the first signal of the [`StopPolicy`] to its process tree.
    Signal,
    /// Send SIGKILL to its process tree.
    Kill,
    /// Forget it.
    Gone,
}

impl State {
    /// When [`Event::Deadline`] is due.
    pub fn deadline(self) -> Option<Time> {
        match self {
            Self::Draining { signal_at } => Some(signal_at),
            Self::Signalled { kill_at } => Some(kill_at),
            Self::Killed => None,
        }
    }
}

/// Lets a process that served finish its work first.
pub fn retire(now: Time, policy: &StopPolicy) -> (State, Action) {
    (State::Draining { signal_at: now + policy.drain_timeout }, Action::Drain)
}

/// Lets a process finish that has closed its channel, but was not asked to leave.
pub fn abandon(now: Time, policy: &StopPolicy) -> State {
    State::Draining { signal_at: now + policy.drain_timeout }
}

/// Sends a process away that never served.
pub fn dismiss(now: Time, policy: &StopPolicy) -> (State, Action) {
    (State::Signalled { kill_at: now + policy.kill_timeout }, Action::Signal)
}

/// One step; no state means that the process is gone.
pub fn step(state: State, event: Event, now: Time, policy: &StopPolicy) -> (Option<State>, Option<Action>) {
    let signalled = || (Some(State::Signalled { kill_at: now + policy.kill_timeout }), Some(Action::Signal));
    match (state, event) {
        (State::Draining { .. } | State::Signalled { .. } | State::Killed, Event::Exited) => {
            (None, Some(Action::Gone))
        }
        (State::Draining { .. }, Event::Drained | Event::Hurry) => signalled(),
        (State::Draining { signal_at }, Event::Deadline) if now >= signal_at => signalled(),
        (State::Draining { signal_at }, Event::Disconnected) => {
            (Some(State::Draining { signal_at: signal_at.min(now + AFTER_DISCONNECT) }), None)
        }
        (State::Signalled { kill_at }, Event::Deadline) if now >= kill_at => {
            (Some(State::Killed), Some(Action::Kill))
        }
        (State::Draining { .. } | State::Signalled { .. } | State::Killed, Event::Deadline)
        | (State::Signalled { .. } | State::Killed, Event::Drained | Event::Disconnected | Event::Hurry) => {
            (Some(state), None)
        }
    }
}
