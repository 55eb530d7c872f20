//! What will happen, in order of time; what happens at the same time does so in a random order.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use forkful_core::Time;

use crate::machine::{Deed, Pid};

/// Something that happens at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Happening {
    /// The next step of the script.
    Act,
    /// The daemon begins a start that it has put off.
    Begin(Pid),
    /// A start is over.
    StartOver(Pid),
    /// The daemon gives up a start.
    GiveUpStart(Pid),
    /// A process does something.
    Deed(Pid, Deed),
    /// The daemon is told of it.
    Told(Pid, Deed),
    /// A worker that this daemon has asked whether it is well answers.
    Asked(Pid, u32),
    /// The daemon learns that a process has ended, and that its tree is gone.
    Seen(Pid),
    /// A write of the saved state has come to its end.
    Written(u64),
    /// The reply to a request has waited long enough for the disk.
    Patience(usize),
    /// The daemon of this life has read the saved state.
    Revive(u32),
    /// The daemon's timer.
    Wake,
    /// Another daemon takes the place of one that has died.
    TakeOver,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Scheduled {
    at: Time,
    tie: u64,
    number: u64,
    happening: Happening,
}

impl Scheduled {
    fn key(&self) -> (Time, u64, u64) {
        (self.at, self.tie, self.number)
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<Scheduled>>,
    number: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, at: Time, tie: u64, happening: Happening) {
        self.number += 1;
        self.heap.push(Reverse(Scheduled { at, tie, number: self.number, happening }));
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, Happening)> {
        self.heap.pop().map(|Reverse(scheduled)| (scheduled.at, scheduled.happening))
    }
}
