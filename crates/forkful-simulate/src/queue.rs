//! Future events in order of time; events at the same time have a random order.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use forkful_core::Time;
use forkful_core::supervisor::AppId;

use crate::machine::{Deed, Pid};

/// A scheduled event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Happening {
    /// The next step of the script.
    Act,
    /// The daemon begins a queued start.
    Begin(Pid),
    /// A start has ended.
    StartOver(Pid),
    /// The daemon gives up a start.
    GiveUpStart(Pid),
    /// A process performs an action.
    Deed(Pid, Deed),
    /// The daemon is informed of it.
    Told(Pid, Deed),
    /// A worker answers this daemon's health check, with this connection if there is one.
    Asked(Pid, u32, Option<u32>),
    /// A worker answers this daemon's warm-up request.
    Warmed(Pid, u32),
    /// The daemon learns that a process has ended and that its tree is gone.
    Seen(Pid),
    /// A write of the saved state has ended.
    Written(u64),
    /// A reply has waited long enough for the disk.
    Patience(usize),
    /// The daemon of this life has read the saved state.
    Revive(u32),
    /// The next step of a client's apply.
    NextStep(usize),
    /// The daemon's timer.
    Wake,
    /// Another daemon replaces one that has died.
    TakeOver,
    /// A client sends its first packet.
    Connect(u32),
    /// A client gives up waiting for a worker.
    GiveUp(u32),
    /// A connection of a worker ends.
    Finish(u32),
    /// A worker's event loop runs.
    Turn(Pid),
    /// The daemon reads a worker's channel.
    Heard(Pid),
    /// The daemon's reactor reports an app's ready descriptors.
    Ring(AppId),
    /// The daemon's timer for its primaries.
    NetWake,
    /// Closes of connections are reported again.
    CountCloses,
    /// The daemon measures the workers of apps whose number of workers follows the load.
    Measure,
}

impl Happening {
    /// Whether it only concerns connections.
    pub(crate) fn is_of_connections(&self) -> bool {
        match self {
            Self::Connect(_)
            | Self::GiveUp(_)
            | Self::Finish(_)
            | Self::Turn(_)
            | Self::Heard(_)
            | Self::Ring(_)
            | Self::NetWake
            | Self::CountCloses => true,
            Self::Act
            | Self::Begin(_)
            | Self::StartOver(_)
            | Self::GiveUpStart(_)
            | Self::Deed(..)
            | Self::Told(..)
            | Self::Asked(..)
            | Self::Warmed(..)
            | Self::TakeOver
            | Self::Seen(_)
            | Self::Written(_)
            | Self::Patience(_)
            | Self::Revive(_)
            | Self::NextStep(_)
            | Self::Measure
            | Self::Wake => false,
        }
    }
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
