//! A new worker is sent requests before it counts as ready (`warmup`), so that no client waits for code that is loaded and
//! compiled by its first requests.
//!
//! ```text
//! it can serve ──▶ WarmUp ──▶ answered ──▶ WarmUp … ──▶ all answered ──▶ it is ready
//!                     └── no answer, no way to ask, time is over ──▶ it is ready all the same, and a note says so
//! ```
//!
//! One request is under way at a time. Any answer counts: whether a version works is for `wait_ready`, for its exit and for
//! health checks to say. A worker that exits while it is warmed up never becomes ready, like a worker that exits before it listens.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Asked, Effect, JobId, Note, Notice, SlotRecord, Turn};
use crate::Time;
use crate::slot::{Event, Generation, ReadySign, State};

/// A worker whose channel is busy is asked again after this.
const ASK_AGAIN: Duration = Duration::from_millis(10);
/// A worker that has closed a connection without an answer may be about to end, which is seen within this time.
const ENDS_WITHIN: Duration = Duration::from_millis(500);

/// What is kept of a process that is being warmed up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Warming {
    generation: Generation,
    /// By what it said that it can serve.
    sign: ReadySign,
    answered: u32,
    /// Then it is ready as it is.
    until: Time,
    /// When to ask again, while its channel is busy, or to give up after a fault.
    again: Option<Time>,
    /// Why a request was not answered.
    fault: Option<String>,
}

/// What has become of a request that warms a worker up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warmed {
    Answered,
    /// It could not be sent, since the worker's channel is busy.
    Busy,
    /// There was no answer, or there is no way to ask; the text says why.
    Failed(String),
}

impl Warming {
    /// When something is due.
    pub(super) fn next_wake(&self) -> Time {
        self.again.map_or(self.until, |again| again.min(self.until))
    }
}

impl SlotRecord {
    /// Whether a process has still to become ready: its traffic is closed.
    pub(super) fn is_cold(&self, generation: Generation) -> bool {
        let is_unconfirmed = match &self.slot.state {
            State::Online(running) | State::Replacing { old: running, .. } => {
                running.generation == generation && !running.confirmed
            }
            _ => false,
        };
        is_unconfirmed || self.awaits(generation)
    }

    /// Whether a process is being warmed up.
    pub(super) fn warms(&self, generation: Generation) -> bool {
        self.warming.as_ref().is_some_and(|warming| warming.generation == generation)
    }

    pub(super) fn forget_warming(&mut self, generation: Generation) {
        self.warming.take_if(|warming| warming.generation == generation);
    }
}

impl Turn<'_> {
    /// A process can serve. It is ready, or first warmed up.
    pub(super) fn can_serve(&mut self, slot: u16, generation: Generation, sign: ReadySign) {
        let (app, now) = (&mut *self.app, self.context.now);
        let Some(record) = app.slots.get_mut(&slot) else { return };
        let warmup = app.spec.warmup.as_ref();
        let Some(warmup) = warmup.filter(|_| app.policy.accepts(sign) && record.is_cold(generation)) else {
            return self.feed(slot, Event::Ready(generation, sign));
        };
        if record.warms(generation) {
            return;
        }
        let until = now + warmup.timeout;
        record.warming = Some(Warming { generation, sign, answered: 0, until, again: None, fault: None });
        self.feed(slot, Event::Awaited(generation, until));
        self.warm_up(slot);
    }

    /// Has the next request sent; after the last one the process is ready.
    pub(super) fn warm_up(&mut self, slot: u16) {
        let Some(record) = self.app.slots.get_mut(&slot) else { return };
        let Some(warming) = &mut record.warming else { return };
        (warming.again, warming.fault) = (None, None);
        let generation = warming.generation;
        let warmup = self.app.spec.warmup.as_ref();
        match warmup.and_then(|warmup| warmup.path_after(warming.answered)).map(str::to_owned) {
            Some(path) => self.effect(Effect::WarmUp { slot, generation, path }),
            None => self.end_warming(slot, None),
        }
    }

    /// A request was answered, or not.
    pub(super) fn on_warmed(&mut self, slot: u16, generation: Generation, outcome: Warmed) {
        let now = self.context.now;
        let Some(record) = self.app.slots.get_mut(&slot) else { return };
        if !record.is_cold(generation) {
            return record.forget_warming(generation);
        }
        let awaited = |warming: &&mut Warming| warming.generation == generation && warming.again.is_none();
        let Some(warming) = record.warming.as_mut().filter(awaited) else { return };
        match outcome {
            Warmed::Busy => warming.again = Some(now + ASK_AGAIN),
            Warmed::Failed(fault) => {
                warming.again = Some(now + ENDS_WITHIN);
                warming.fault = Some(fault);
            }
            Warmed::Answered => {
                warming.answered = warming.answered.saturating_add(1);
                self.warm_up(slot);
            }
        }
    }

    /// Time has passed for slots of which something is due. To be asked before their deadlines: a worker whose time to warm
    /// up is over is ready.
    pub(super) fn look_at_warming(&mut self, slots: &[u16]) {
        let now = self.context.now;
        for slot in slots {
            let record = self.app.slots.get_mut(slot);
            let Some(warming) = record.and_then(|record| record.warming.as_mut()) else { continue };
            let is_due = warming.again.is_some_and(|at| at <= now);
            if let Some(fault) = warming.fault.take_if(|_| is_due) {
                self.end_warming(*slot, Some(fault));
            } else if warming.until <= now {
                let timeout = self.app.spec.warmup.as_ref().map(|warmup| warmup.timeout).unwrap_or_default();
                let fault = format!("it took longer than {} ms", timeout.as_millis());
                self.end_warming(*slot, Some(fault));
            } else if is_due {
                self.warm_up(*slot);
            }
        }
    }

    /// The process is ready; a fault says why it may be cold.
    fn end_warming(&mut self, slot: u16, fault: Option<String>) {
        let Some(record) = self.app.slots.get_mut(&slot) else { return };
        let Some(Warming { generation, sign, .. }) = record.warming.take() else { return };
        if let Some(fault) = fault.filter(|_| record.is_cold(generation)) {
            for job in self.jobs_waiting_for(slot) {
                self.note(job, Note::NotWarm(fault.clone()));
            }
            self.effect(Effect::Notice(Some(slot), Notice::NotWarm(fault)));
        }
        self.feed(slot, Event::Ready(generation, sign));
    }

    /// The commands that this slot has not answered.
    fn jobs_waiting_for(&self, slot: u16) -> Vec<JobId> {
        let app = &self.app;
        let waiting = app.slots.get(&slot).into_iter().flat_map(|record| &record.slot.waiting);
        let job = |asked: &Asked| match asked {
            Asked::Job(job, _) => Some(*job),
            Asked::Load(_) => None,
            Asked::Reload => app.reload.as_ref().and_then(|reload| reload.job),
        };
        waiting.filter_map(|waiting| app.asked.get(&waiting.ticket).and_then(job)).collect()
    }
}
