//! What starts when: connections before the clock starts, the lanes of a closed loop, the schedule of an open
//! loop.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use tokio::task::{JoinHandle, JoinSet, spawn_local};

use super::context::Context;
use super::exchange::perform;
use super::place::ConnectionSlot;
use super::timer::Timer;
use crate::clock::{Nanos, nanos};
use crate::http1::engine::{OPENING_ATTEMPTS, OPENING_MAX};
use crate::plan::{Load, Reuse, Think};
use crate::schedule::{Schedule, ramp_start, share};
use crate::shared::WARMUP_NUMBERS;
use forkful_core::random::Random;

/// How often the end of the run is checked while connections are opened.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Opens the plan's first connections, a few at a time, before the clock starts.
pub(super) async fn open_first(context: &Rc<Context>) {
    let plan = context.plan();
    let own = share(plan.connections as u64, context.index, context.shared.compiled.threads) as usize;
    let places: Vec<_> = std::iter::from_fn(|| context.new_place()).take(own).collect();
    if plan.reuse == Reuse::Never || (!plan.ramp.is_zero() && matches!(plan.load, Load::Closed { .. })) {
        return;
    }
    let mut tasks = JoinSet::new();
    let (next, opening) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    for _ in 0..own.min(OPENING_MAX) {
        tasks.spawn_local(open_some(
            Rc::clone(context),
            places.clone(),
            Rc::clone(&next),
            Rc::clone(&opening),
        ));
    }
    let deadline = context.now().saturating_add(nanos(plan.timeout));
    loop {
        let now = context.now();
        if now >= deadline || context.shared.end() <= now {
            break;
        }
        tokio::select! {
            ended = tasks.join_next() => if ended.is_none() { break },
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
    // Attempts still under way were too slow.
    tasks.shutdown().await;
}

async fn open_some(
    context: Rc<Context>,
    places: Vec<Rc<ConnectionSlot>>,
    next: Rc<Cell<usize>>,
    opening: Rc<Cell<u32>>,
) {
    while let Some(place) = places.get(next.replace(next.get() + 1)) {
        for _ in 0..OPENING_ATTEMPTS {
            opening.set(opening.get() + 1);
            let opened = place.connect(&context).await.is_ok();
            opening.set(opening.get() - 1);
            if opened {
                break;
            }
            // If nothing works at all, three attempts are as good as a thousand.
            let connections = context.recorder.borrow().report.connections;
            if connections.opened == 0
                && opening.get() == 0
                && connections.failed >= u64::from(OPENING_ATTEMPTS)
            {
                next.set(places.len());
                return;
            }
        }
    }
}

/// Starts the load. Returns the task of an open loop, if any.
pub(super) fn begin(context: &Rc<Context>) -> Option<JoinHandle<()>> {
    let plan = context.plan();
    let times = context.times.get();
    let threads = context.shared.compiled.threads;
    match plan.load {
        Load::Closed { think } => {
            let random = Rc::new(RefCell::new(Random::new(context.index as u64)));
            for (index, place) in context.places.borrow().iter().enumerate() {
                let from = ramp_start(plan, times, index, context.index, threads);
                for _ in 0..plan.pipelining {
                    let lane = Lane { from, think, random: Rc::clone(&random) };
                    spawn_local(lane.run(Rc::clone(context), Rc::clone(place)));
                }
            }
            None
        }
        Load::Open { .. } => {
            *context.schedule.borrow_mut() = Schedule::of(plan, times, context.index, threads);
            for place in context.places.borrow().iter() {
                place.queue(context);
            }
            Some(spawn_local(follow(Rc::clone(context))))
        }
    }
}

/// Sends the requests of a closed loop one after the other.
struct Lane {
    from: Nanos,
    think: Think,
    random: Rc<RefCell<Random>>,
}

impl Lane {
    async fn run(self, context: Rc<Context>, place: Rc<ConnectionSlot>) {
        context.sleep_until(self.from).await;
        loop {
            place.room(&context).await;
            let now = context.now();
            let Some((id, measured)) = next_number(&context, now) else { break };
            let assigned = place.assign(&context);
            perform(&context, &place, context.start(id, now, now, measured)).await;
            drop(assigned);
            self.think(&context).await;
        }
        context.changed.notify_one();
    }

    async fn think(&self, context: &Context) {
        if self.think != Think::None {
            let pause = nanos(self.think.pause(&mut self.random.borrow_mut()));
            context.sleep_until(context.now() + pause).await;
        }
    }
}

/// The number of a closed loop's next request; `None`: nothing more to start.
fn next_number(context: &Context, now: Nanos) -> Option<(u64, bool)> {
    if now >= context.shared.end() {
        return None;
    }
    let mut claims = context.claims.get();
    let next = context.shared.next_number(&mut claims, now < context.times.get().measure_from);
    context.claims.set(claims);
    if claims.exhausted {
        context.exhausted.set(true);
    }
    next
}

/// Starts due requests for which there is a place.
async fn follow(context: Rc<Context>) {
    // Without its own timer the thread is late by at most a millisecond, which is reported as slip.
    let timer = Timer::new().ok();
    while let Some(arrival) = context.next_due() {
        match &timer {
            Some(timer) => timer.until(arrival.at, context.shared.clock).await,
            None => context.sleep_until(arrival.at).await,
        }
        let Some(place) = ConnectionSlot::choose(&context) else {
            context.room.notified().await;
            continue;
        };
        // Requests due before the end are still sent during the drain.
        let now = context.now();
        let due = context.next_due().filter(|arrival| arrival.at <= now);
        let taken = due.and_then(|_| context.schedule.borrow_mut().as_mut()?.take_due(now));
        let Some(arrival) = taken else {
            place.queue(&context);
            continue;
        };
        context.started.set(context.started.get() + u64::from(arrival.measured));
        let id = if arrival.measured { arrival.number } else { WARMUP_NUMBERS + arrival.number };
        let request = context.start(id, arrival.at, now, arrival.measured);
        let assigned = place.assign(&context);
        // There may be room for another request.
        place.queue(&context);
        let context = Rc::clone(&context);
        spawn_local(async move {
            perform(&context, &place, request).await;
            drop(assigned);
        });
    }
    context.exhausted.set(true);
    context.changed.notify_one();
}
