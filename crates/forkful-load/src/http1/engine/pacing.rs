//! What starts when: the next request of a closed loop, the schedule of an open loop, think time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::Engine;
use super::connection::{Pending, Stage};
use crate::clock::{NEVER, Nanos, nanos};
use crate::plan::{Load, Think};
use crate::recorder::Timing;
use crate::schedule::{Schedule, ramp_start, share};
use crate::shared::{Claims, WARMUP_NUMBERS};
use forkful_core::random::Random;

/// A thread's part of the load.
#[derive(Debug)]
pub(crate) enum Pacing {
    /// Before the start.
    Idle,
    Closed {
        think: Think,
        claims: Claims,
        /// Connections that wait for a time: the end of a pause.
        waiting: BinaryHeap<Reverse<(Nanos, u32)>>,
        random: Random,
    },
    Open {
        schedule: Box<Schedule>,
        /// Open and idle connections, longest idle first, so that all are used in turn. May contain closed
        /// connections.
        idle: VecDeque<u32>,
        /// Places without a connection.
        vacant: Vec<u32>,
        started: u64,
    },
}

impl Pacing {
    pub(super) fn idle() -> Self {
        Self::Idle
    }

    /// When the next thing is due, answers excluded.
    pub(super) fn next_due(&self, end: Nanos) -> Nanos {
        match self {
            Self::Closed { waiting, .. } => waiting.peek().map_or(NEVER, |Reverse((at, _))| *at),
            // If all connections are busy, the loop waits for the next answer.
            Self::Open { idle, vacant, schedule, .. } if !idle.is_empty() || !vacant.is_empty() => {
                schedule.peek().map_or(NEVER, |arrival| if arrival.at < end { arrival.at } else { NEVER })
            }
            Self::Idle | Self::Open { .. } => NEVER,
        }
    }

    /// Measured requests due by that time, and those that were started.
    pub(super) fn offered(&self, until: Nanos) -> (u64, u64) {
        match self {
            Self::Open { schedule, started, .. } => (schedule.offered(until), *started),
            Self::Idle | Self::Closed { .. } => (0, 0),
        }
    }
}

impl Engine<'_> {
    pub(super) fn begin_pacing(&mut self, now: Nanos) {
        let plan = &self.shared.compiled.plan;
        let threads = self.shared.compiled.threads;
        let own = share(plan.connections as u64, self.index, threads) as usize;
        while self.connections.len() < own {
            self.connections.push(super::connection::Connection::default());
        }
        match plan.load {
            Load::Closed { think } => {
                let mut waiting = BinaryHeap::with_capacity(own);
                for index in 0..own {
                    let from = ramp_start(plan, self.times, index, self.index, threads);
                    self.connections[index].waits = true;
                    waiting.push(Reverse((from, index as u32)));
                }
                let random = Random::new(self.index as u64);
                self.pacing = Pacing::Closed { think, claims: Claims::default(), waiting, random };
            }
            Load::Open { .. } => {
                let schedule = Schedule::of(plan, self.times, self.index, threads).expect("the loop is open");
                let (mut idle, mut vacant) = (VecDeque::new(), Vec::new());
                for (index, connection) in self.connections.iter_mut().enumerate() {
                    connection.queued = connection.is_idle();
                    if connection.queued { idle.push_back(index as u32) } else { vacant.push(index as u32) }
                }
                for index in self.connections.len()..self.connections_max {
                    self.connections.push(super::connection::Connection::default());
                    vacant.push(index as u32);
                }
                // The list is used as a stack: the first places come last.
                vacant.reverse();
                self.pacing = Pacing::Open { schedule: Box::new(schedule), idle, vacant, started: 0 };
            }
        }
        self.pace(now);
    }

    /// Whether nothing more will be started.
    pub(super) fn has_nothing_to_start(&self) -> bool {
        if self.recorder.end <= self.now {
            return true;
        }
        match &self.pacing {
            Pacing::Idle => false,
            Pacing::Closed { claims, .. } => claims.exhausted,
            Pacing::Open { schedule, .. } => {
                schedule.peek().is_none_or(|arrival| arrival.at >= self.shared.end())
            }
        }
    }

    /// Starts what is due.
    pub(super) fn pace(&mut self, now: Nanos) {
        match &self.pacing {
            Pacing::Idle => {}
            Pacing::Closed { .. } => self.pace_closed(now),
            Pacing::Open { .. } => self.pace_open(now),
        }
    }

    fn pace_closed(&mut self, now: Nanos) {
        while let Pacing::Closed { waiting, .. } = &mut self.pacing {
            match waiting.peek() {
                Some(Reverse((at, index))) if *at <= now => {
                    let index = *index as usize;
                    waiting.pop();
                    self.connections[index].waits = false;
                    self.feed(index, now);
                }
                _ => return,
            }
        }
    }

    /// Gives a connection of a closed loop as many requests as it may have under way.
    #[inline]
    pub(super) fn feed(&mut self, index: usize, now: Nanos) {
        let plan = &self.shared.compiled.plan;
        let connection = &self.connections[index];
        let allowed = match connection.stage {
            Stage::Open if !connection.ends => plan.pipelining.min(plan.reuse.left(connection.answers)),
            // One request is enough to open a connection.
            _ => 1,
        };
        let room = allowed.saturating_sub(connection.under_way.len());
        for _ in 0..room {
            let Some((id, measured)) = self.next_number(now) else { break };
            self.start(index, id, now, now, measured);
        }
        self.advance(index, now);
    }

    /// The number of a closed loop's next request; `None`: nothing more to start.
    #[inline]
    fn next_number(&mut self, now: Nanos) -> Option<(u64, bool)> {
        let Pacing::Closed { claims, .. } = &mut self.pacing else { return None };
        if now >= self.recorder.end {
            return None;
        }
        self.shared.next_number(claims, now < self.times.measure_from)
    }

    /// Puts a request into a connection's queue.
    #[inline]
    fn start(&mut self, index: usize, id: u64, intended: Nanos, now: Nanos, measured: bool) {
        let request = self.shared.compiled.choose(id);
        self.recorder.started(measured, request);
        self.under_way += 1;
        let timing = Timing { intended, begun: now, sent: 0, first_byte: 0, measured, request };
        self.connections[index].under_way.push_back(Pending { timing, id, retried: false });
    }

    /// Starts due requests for which there is a connection.
    fn pace_open(&mut self, now: Nanos) {
        loop {
            let Pacing::Open { schedule, idle, vacant, started } = &mut self.pacing else { return };
            let due =
                schedule.peek().is_some_and(|arrival| arrival.at <= now && arrival.at < self.recorder.end);
            if !due {
                return;
            }
            let index = loop {
                match idle.pop_front() {
                    Some(index) => {
                        let connection = &mut self.connections[index as usize];
                        connection.queued = false;
                        if connection.is_idle() {
                            break Some(index);
                        }
                    }
                    None => break vacant.pop(),
                }
            };
            let Some(index) = index else { return };
            let Some(arrival) = schedule.take_due(now) else { return };
            *started += u64::from(arrival.measured);
            let id = if arrival.measured { arrival.number } else { WARMUP_NUMBERS + arrival.number };
            let now = self.shared.clock.now();
            self.start(index as usize, id, arrival.at, now, arrival.measured);
            self.advance(index as usize, now);
        }
    }

    /// Called when a connection has no requests left or has ended: decides what it does next.
    #[inline]
    pub(super) fn freed(&mut self, index: usize, now: Nanos) {
        match &mut self.pacing {
            Pacing::Idle => {}
            Pacing::Closed { think: Think::None, .. } => self.feed(index, now),
            Pacing::Closed { think, random, .. } => {
                let pause = nanos(think.pause(random));
                self.wait(index, pause, now);
                self.retire_if_ended(index, now);
            }
            Pacing::Open { .. } => {
                self.retire_if_ended(index, now);
                self.queue_idle(index);
                self.pace_open(now);
            }
        }
    }

    /// Open loop: puts a place into the queue for the next request.
    pub(super) fn queue_idle(&mut self, index: usize) {
        let Pacing::Open { idle, vacant, .. } = &mut self.pacing else { return };
        let connection = &mut self.connections[index];
        if !connection.under_way.is_empty() {
            return;
        }
        match connection.stage {
            Stage::Open if !connection.queued => {
                connection.queued = true;
                idle.push_back(index as u32);
            }
            Stage::Closed => vacant.push(index as u32),
            Stage::Open | Stage::Connecting { .. } | Stage::Handshaking { .. } => {}
        }
    }

    /// Closed loop: tries again after a pause, always later than `now`, so that the loop over due work ends.
    /// Open loop: the place is free.
    pub(super) fn freed_after(&mut self, index: usize, pause: Nanos, now: Nanos) {
        match &mut self.pacing {
            Pacing::Idle => {}
            Pacing::Closed { .. } => self.wait(index, pause.max(1), now),
            Pacing::Open { .. } => self.queue_idle(index),
        }
    }

    /// Closed loop: the place goes on after a pause. A place that waits already goes on waiting: with two
    /// entries it would send requests twice as often from then on.
    fn wait(&mut self, index: usize, pause: Nanos, now: Nanos) {
        let Pacing::Closed { waiting, .. } = &mut self.pacing else { return };
        if !std::mem::replace(&mut self.connections[index].waits, true) {
            waiting.push(Reverse((now.saturating_add(pause), index as u32)));
        }
    }

    /// Open loop: requests that are due and not started.
    pub(super) fn backlog(&self, now: Nanos) -> u64 {
        match &self.pacing {
            Pacing::Open { schedule, .. } => schedule.backlog(now.min(self.recorder.end)),
            Pacing::Idle | Pacing::Closed { .. } => 0,
        }
    }
}
