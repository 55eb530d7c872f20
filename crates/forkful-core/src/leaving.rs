//! A process that has lost its slot and is leaving: drained, then signalled, then killed.
//!
//! [`slot`](crate::slot) creates one for the old process of a reload and of a scale-down ([`retire`]), for a
//! failed replacement ([`dismiss`]), and for a process that has closed its channel without being told to
//! ([`abandon`]). It never returns; only its exit ends it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::spec::StopPolicy;

/// A worker of a cluster gets this time to finish after its last response before it is signalled.
pub const AFTER_DISCONNECT: Duration = Duration::from_millis(500);

/// The state of a leaving process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "LeavingState")]
pub enum State {
    /// Told to finish its connections; gets no new ones.
    Draining {
        /// When the drain times out and the signal is sent.
        signal_at: Time,
    },
    /// The stop signal was sent.
    Signalled {
        /// When SIGKILL follows.
        kill_at: Time,
    },
    /// SIGKILL was sent; the exit is pending.
    Killed,
}

/// An event of a leaving process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It has finished its connections but still runs (a timer keeps it alive).
    Drained,
    /// It has closed its channel, and usually exits next; or it has finished its connections, and is told to stop next.
    Disconnected,
    /// The slot is stopped: the drain ends immediately.
    Hurry,
    /// Time has passed.
    Deadline,
    Exited,
}

/// An action on a leaving process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Disconnect it, so that it exits after its last request.
    Drain,
    /// Send the first signal of the [`StopPolicy`] to its process tree.
    Signal,
    /// Send SIGKILL to its process tree.
    Kill,
    /// Remove it.
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

/// Lets a process that served finish its connections first.
pub fn retire(now: Time, policy: &StopPolicy) -> (State, Action) {
    (State::Draining { signal_at: now + policy.drain_timeout }, Action::Drain)
}

/// Lets a process finish that has closed its channel without being told to leave.
pub fn abandon(now: Time, policy: &StopPolicy) -> State {
    State::Draining { signal_at: now + policy.drain_timeout }
}

/// Stops a process that never served.
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
