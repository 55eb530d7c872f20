//! The deadlines of a slot, and what changes them.

use super::{Generation, Policy, Push, Slot, State};
use crate::Time;

impl State {
    /// A delayed process start begins at this time, if the slot still waits for the process's readiness.
    pub(super) fn begin(&mut self, process: Generation, now: Time) {
        if let Some((begun, ready_by)) = self.start_of(process) {
            *ready_by = now + ready_by.since(*begun);
            *begun = now;
        }
    }

    /// Waits for a process at least until this time.
    pub(super) fn wait_until(&mut self, process: Generation, until: Time) {
        if let Some((_, ready_by)) = self.start_of(process) {
            *ready_by = until.max(*ready_by);
        }
    }

    /// A process sends its hello: the app's own code begins. If it only has to stay alive, its time counts
    /// from here, so that an immediate failure is detected regardless of the runtime's start time.
    pub(super) fn greet(&mut self, process: Generation, now: Time, policy: &Policy) {
        if policy.announces() || matches!(self, Self::Replacing { .. }) {
            return;
        }
        if let Some((begun, ready_by)) = self.start_of(process) {
            *begun = now;
            *ready_by = now + policy.proving_time();
        }
    }

    /// The start time and the deadline of a process that is still awaited.
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

    /// Whether this process is the slot's own and not leaving.
    pub(super) fn holds(&self, process: Generation) -> bool {
        match self {
            Self::Starting { generation, .. } => *generation == process,
            Self::Online(running) | Self::Replacing { old: running, .. } => running.generation == process,
            Self::Stopped { .. } | Self::Stopping { .. } | Self::Backoff { .. } | Self::Failed { .. } => {
                false
            }
        }
    }

    /// When this state needs [`Event::Deadline`](super::Event::Deadline).
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
    /// When the slot next needs [`Event::Deadline`](super::Event::Deadline).
    pub fn next_deadline(&self) -> Option<Time> {
        let leaving = self.leaving.iter().chain(&self.disconnected);
        leaving.filter_map(|leaver| leaver.state.deadline()).chain(self.state.deadline()).min()
    }
}
