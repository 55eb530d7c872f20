//! State shared by the tasks of one thread. It uses cells, not locks, because all tasks run on one thread.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use tokio::sync::Notify;

use super::place::ConnectionSlot;
use super::request::Template;
use crate::cause::ErrorCause;
use crate::clock::{NEVER, Nanos};
use crate::meter::{Gauges, Meter};
use crate::plan::Plan;
use crate::recorder::{Recorder, RecorderOptions, Timing};
use crate::report::facts::FirstResponse;
use crate::schedule::{Arrival, Schedule, share};
use crate::shared::{Claims, Shared, Times, Update};
use crate::workers::WorkerNames;

pub(super) struct Context {
    pub(super) shared: Arc<Shared>,
    pub(super) index: usize,
    updates: SyncSender<Update>,
    pub(super) templates: Vec<Template>,
    pub(super) places: RefCell<Vec<Rc<ConnectionSlot>>>,
    /// Maximum number of places.
    pub(super) places_max: usize,
    pub(super) recorder: RefCell<Recorder>,
    pub(super) meter: RefCell<Meter>,
    /// Start of the current window.
    rolled_at: Cell<Nanos>,
    pub(super) times: Cell<Times>,
    /// Open loop only.
    pub(super) schedule: RefCell<Option<Schedule>>,
    /// Open loop: measured requests that were started.
    pub(super) started: Cell<u64>,
    /// Closed loop only.
    pub(super) claims: Cell<Claims>,
    /// No request number or scheduled start is left.
    pub(super) exhausted: Cell<bool>,
    /// Requests started and not ended.
    pub(super) under_way: Cell<u64>,
    /// Open connections.
    pub(super) open: Cell<u64>,
    /// Connections that have not fully ended.
    pub(super) drivers: Cell<u64>,
    /// The smallest number of streams that any connection allowed.
    pub(super) streams: Cell<usize>,
    pub(super) workers: RefCell<WorkerNames>,
    pub(super) first_failure: RefCell<Option<(ErrorCause, String)>>,
    pub(super) first_response: RefCell<Option<(Nanos, FirstResponse)>>,
    /// Notified when something ends that the thread may wait for.
    pub(super) changed: Notify,
    /// Open loop: places that may have room; every place with room is in this queue.
    pub(super) roomy: RefCell<VecDeque<Rc<ConnectionSlot>>>,
    /// Open loop: notified when a place gets room.
    pub(super) room: Notify,
    /// When the drain ended; requests dropped from then on are unfinished.
    pub(super) unfinished_at: Cell<Nanos>,
}

impl Context {
    pub(super) fn new(shared: Arc<Shared>, index: usize, updates: SyncSender<Update>) -> Self {
        let compiled = &shared.compiled;
        let options = RecorderOptions {
            measure_from: NEVER,
            requests: compiled.templates.len(),
            threads: compiled.threads,
        };
        let plan = &compiled.plan;
        Self {
            index,
            updates,
            templates: plan.requests.iter().map(|request| Template::new(request, plan)).collect(),
            places: RefCell::default(),
            places_max: share(compiled.connections_max() as u64, index, compiled.threads) as usize,
            recorder: RefCell::new(Recorder::new(options)),
            meter: RefCell::new(Meter::idle()),
            rolled_at: Cell::default(),
            times: Cell::new(Times::UNKNOWN),
            schedule: RefCell::default(),
            started: Cell::default(),
            claims: Cell::default(),
            exhausted: Cell::default(),
            under_way: Cell::default(),
            open: Cell::default(),
            drivers: Cell::default(),
            streams: Cell::new(plan.pipelining),
            workers: RefCell::default(),
            first_failure: RefCell::default(),
            first_response: RefCell::default(),
            changed: Notify::new(),
            roomy: RefCell::default(),
            room: Notify::new(),
            unfinished_at: Cell::new(NEVER),
            shared,
        }
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.shared.compiled.plan
    }

    pub(super) fn now(&self) -> Nanos {
        self.shared.clock.now()
    }

    pub(super) fn drain(&self) -> Nanos {
        crate::clock::nanos(self.plan().drain.min(self.plan().timeout))
    }

    /// Starts the clock of the measurement.
    pub(super) fn begin(&self, times: Times) {
        self.times.set(times);
        let now = self.now();
        let mut recorder = self.recorder.borrow_mut();
        recorder.begin_at(times.measure_from);
        recorder.end = self.shared.end();
        self.meter.borrow_mut().begin(now, times, self.plan());
    }

    /// Ends the window if `now` is past it, so that the event counts in the right window. A time within an
    /// ended window is moved to the end of that window.
    pub(super) fn roll(&self, now: Nanos) -> Nanos {
        let now = now.max(self.rolled_at.get());
        if now >= self.meter.borrow().due() {
            let gauges = self.gauges(now);
            self.meter.borrow_mut().roll(now, &mut self.recorder.borrow_mut(), gauges, &self.updates);
            self.rolled_at.set(now);
        }
        now
    }

    /// Ends the last window.
    pub(super) fn roll_last(&self, now: Nanos) {
        let gauges = self.gauges(now);
        self.meter.borrow_mut().last(now, &mut self.recorder.borrow_mut(), gauges, &self.updates);
    }

    /// Open loop: the next scheduled start before the end of the run.
    pub(super) fn next_due(&self) -> Option<Arrival> {
        let next = self.schedule.borrow().as_ref().and_then(Schedule::peek);
        next.filter(|arrival| arrival.at < self.shared.end())
    }

    fn gauges(&self, now: Nanos) -> Gauges {
        let until = now.min(self.recorder.borrow().end);
        let backlog = self.schedule.borrow().as_ref().map_or(0, |schedule| schedule.backlog(until));
        Gauges { thread: self.index, open: self.open.get(), backlog }
    }

    /// Waits until `at`, up to a millisecond longer.
    pub(super) async fn sleep_until(&self, at: Nanos) {
        let left = at.saturating_sub(self.now());
        if left > 0 {
            tokio::time::sleep(Duration::from_nanos(left)).await;
        }
    }

    /// Creates a place; `None` if the maximum is reached.
    pub(super) fn new_place(&self) -> Option<Rc<ConnectionSlot>> {
        let mut places = self.places.borrow_mut();
        (places.len() < self.places_max).then(|| {
            let place = Rc::new(ConnectionSlot::default());
            places.push(Rc::clone(&place));
            place
        })
    }

    /// Starts a request.
    pub(super) fn start(self: &Rc<Self>, id: u64, intended: Nanos, begun: Nanos, measured: bool) -> Started {
        let request = self.shared.compiled.choose(id);
        self.recorder.borrow_mut().started(measured, request);
        self.under_way.set(self.under_way.get() + 1);
        let timing = Timing { intended, begun, sent: 0, first_byte: 0, measured, request };
        Started { context: Rc::clone(self), timing, id, retried: false, held_back: false, ended: false }
    }

    /// Whether bytes read or written now are counted.
    pub(super) fn is_measured(&self, now: Nanos) -> bool {
        now >= self.times.get().measure_from
    }

    /// Returns the counts at the end.
    pub(super) fn take_recorder(&self) -> Recorder {
        let options = RecorderOptions { measure_from: NEVER, requests: 0, threads: 1 };
        self.recorder.replace(Recorder::new(options))
    }
}

/// A started request. If it is dropped before its end, it counts as unfinished.
pub(super) struct Started {
    context: Rc<Context>,
    pub(super) timing: Timing,
    pub(super) id: u64,
    /// The request was already sent once, on a connection that the server had just closed.
    pub(super) retried: bool,
    /// The server did not allow another request when this one was due.
    pub(super) held_back: bool,
    ended: bool,
}

impl Started {
    /// The request ended and was counted.
    pub(super) fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let context = &self.context;
        context.under_way.set(context.under_way.get() - 1);
        if !self.ended {
            let at = context.unfinished_at.get().min(context.now());
            context.recorder.borrow_mut().unfinished(&self.timing, at);
        }
        if context.under_way.get() == 0 {
            context.changed.notify_one();
        }
    }
}
