//! When a slot waits for something, until when, and what moves that.

use super::{Generation, Policy, Push, Slot, State};
use crate::Time;

impl State {
    /// A process whose start was put off begins at this time, if the slot still waits for its readiness.
    pub(super) fn begin(&mut self, process: Generation, now: Time) {
        if let Some((begun, ready_by)) = self.start_of(process) {
            *ready_by = now + ready_by.since(*begun);
            *begun = now;
        }
    }

    /// A process is waited for until this time at least.
    pub(super) fn wait_until(&mut self, process: Generation, until: Time) {
        if let Some((_, ready_by)) = self.start_of(process) {
            *ready_by = until.max(*ready_by);
        }
    }

    /// A process says hello: the app's own code begins. When staying alive is all that is asked of it, its time counts
    /// from here, so that one that fails at once is seen to fail however long the runtime took to begin.
    pub(super) fn greet(&mut self, process: Generation, now: Time, policy: &Policy) {
        if policy.announces() || matches!(self, Self::Replacing { .. }) {
            return;
        }
        if let Some((begun, ready_by)) = self.start_of(process) {
            *begun = now;
            *ready_by = now + policy.proving_time();
        }
    }

    /// When a process was started and until when it is waited for, while it is.
    fn start_of(&mut self, process: Generation) -> Option<(&mut Time, &mut Time)> {
        match self {
            Self::Starting { generation, started, ready_by } if *generation == process => {
                Some((started, ready_by))
            }
            Self::Replacing { new, new_started, ready_by, .. } if *new == process => {
                Some((new_started, ready_by))
            }
            Self::Starting { .. }
            | Self::Replacing { .. }
            | Self::Stopped { .. }
            | Self::Online(_)
            | Self::Stopping { .. }
            | Self::Backoff { .. }
            | Self::Failed { .. } => None,
        }
    }

    /// Whether this process is the slot's own, and not on its way out.
    pub(super) fn holds(&self, process: Generation) -> bool {
        match self {
            Self::Starting { generation, .. } => *generation == process,
            Self::Online(running) | Self::Replacing { old: running, .. } => running.generation == process,
            Self::Stopped { .. } | Self::Stopping { .. } | Self::Backoff { .. } | Self::Failed { .. } => {
                false
            }
        }
    }

    /// When this state wants [`Event::Deadline`](super::Event::Deadline).
    pub fn deadline(&self) -> Option<Time> {
        match self {
            Self::Starting { ready_by, .. } | Self::Replacing { ready_by, .. } => Some(*ready_by),
            Self::Backoff { start_at, .. } => Some(*start_at),
            Self::Stopping { push: Push::Signalled { kill_at }, .. } => Some(*kill_at),
            Self::Stopping { push: Push::Killed, .. }
            | Self::Stopped { .. }
            | Self::Online(_)
            | Self::Failed { .. } => None,
        }
    }
}

impl Slot {
    /// When the slot next wants [`Event::Deadline`](super::Event::Deadline).
    pub fn next_deadline(&self) -> Option<Time> {
        let leaving = self.leaving.iter().chain(&self.disconnected);
        leaving.filter_map(|leaver| leaver.state.deadline()).chain(self.state.deadline()).min()
    }
}
