//! The second engine, for protocols with more than one request at a time on a connection: HTTP/2 (with `h2`),
//! over TLS with ALPN or in clear text with prior knowledge; messages on WebSockets (with `tungstenite`);
//! server-sent events.
//!
//! Each thread has one single-threaded runtime. A closed loop has a task ("lane") for each concurrent
//! request: connections times streams. An open loop has one task for the schedule and one for each request.
//! Counters, schedule, windows and judgements are those of the raw engine, so that reports mean the same.
//!
//! An answer's time is when its last bytes were read from the socket. The delay until its task runs is
//! reported as residency.
//!
//! `tasks.rs` is the life of a thread; `context.rs` the state that its tasks share; `place.rs` a place for a
//! connection; `wire.rs` and `link.rs` the connection in it; `websocket.rs` and `events.rs` the protocols
//! beside HTTP/2; `exchange.rs` one request; `fault.rs` the meaning of errors; `pacing.rs` what starts when;
//! `request.rs` what is sent.

mod context;
mod events;
mod exchange;
mod fault;
#[cfg(any(test, forkful_fuzzing))]
pub(crate) mod fuzzing;
mod link;
mod pacing;
mod place;
mod request;
mod timer;
mod websocket;
mod wire;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use crate::LoadError;
use crate::clock::{NEVER, Nanos, nanos};
use crate::http1::engine::Outcome;
use crate::plan::{HttpVersion, Load, Plan, Reuse};
use crate::recorder::Facts;
use crate::shared::{Shared, Update};
use crate::template::COUNTER;
use context::Context;
pub(crate) use request::check as check_http2;

/// How often the end of the run is checked.
const LOOK_EVERY: Nanos = 50_000_000;
/// How long connections may take to close after the run.
const FAREWELL: Duration = Duration::from_millis(100);

/// Refuses what WebSockets or event streams do not support, before the run.
pub(crate) fn check_streams(plan: &Plan) -> Result<(), LoadError> {
    let refused = |field, reason: &str| Err(LoadError::Plan { field, reason: reason.to_owned() });
    if plan.requests.len() > 1 {
        return refused("requests", "on WebSockets and event streams must have one URL");
    }
    if !plan.expect.statuses.is_empty() {
        return refused("expected statuses", "are for HTTP answers: messages and events have none");
    }
    if plan.worker_header.is_some() {
        return refused("worker header", "is for HTTP answers: messages and events have no headers");
    }
    let request = &plan.requests[0];
    let in_head = request.url.path.contains(COUNTER)
        || request.headers.iter().any(|(_, value)| value.contains(COUNTER));
    if plan.http == HttpVersion::WebSocket {
        if request.counter && in_head {
            return refused(
                "`{id}`",
                "can be in the message alone: URL and headers are sent once for a connection",
            );
        }
        return websocket::check(request, plan);
    }
    let in_body = memchr::memmem::find(&request.body, COUNTER.as_bytes()).is_some();
    if request.counter && (in_head || in_body) {
        return refused("`{id}`", "cannot be used with event streams: each connection asks once");
    }
    if plan.expect.body.is_some() {
        return refused(
            "expected body",
            "is for answers and messages: events are counted without a look at their data",
        );
    }
    if matches!(plan.load, Load::Open { .. }) {
        return refused("rate", "cannot be set: the server decides when it sends events");
    }
    if plan.pipelining > 1 || plan.reuse != Reuse::Always {
        return refused("connections", "with event streams are kept, with one request on each");
    }
    Ok(())
}

/// One thread of the engine.
pub(crate) struct Engine {
    shared: Arc<Shared>,
    index: usize,
    updates: SyncSender<Update>,
    runtime: Runtime,
}

impl Engine {
    pub(crate) fn new(
        shared: Arc<Shared>,
        index: usize,
        updates: SyncSender<Update>,
    ) -> Result<Self, LoadError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| LoadError::System { what: "starting a runtime", source })?;
        Ok(Self { shared, index, updates, runtime })
    }

    /// Opens the first connections, waits for the start, and performs this thread's part of the plan.
    pub(crate) fn run(self) -> Outcome {
        let Self { shared, index, updates, runtime } = self;
        let context = Rc::new(Context::new(Arc::clone(&shared), index, updates.clone()));
        let tasks = LocalSet::new();
        tasks.block_on(&runtime, pacing::open_first(&context));
        let failure = context.first_failure.borrow_mut().take();
        let opened = context.recorder.borrow().report.connections.opened;
        // The receiver outlives all threads. If it is gone, nobody needs the message.
        let _ = updates.send(Update::Ready { opened, failure });
        context.begin(shared.wait_for_start());
        tasks.block_on(&runtime, drive(&context));
        let _ = updates.send(Update::Measured);
        let drained_at = shared.clock.now();
        // Dropping a task counts its request as unfinished.
        context.unfinished_at.set(drained_at);
        shared.wait_for_release();
        if context.under_way.get() == 0 {
            tasks.block_on(&runtime, farewell(&context));
        }
        drop(tasks);
        finish(&context, drained_at)
    }
}

/// Performs the plan until nothing is left to start or wait for.
async fn drive(context: &Rc<Context>) {
    let pacer = pacing::begin(context);
    loop {
        let now = context.shared.clock.now();
        context.recorder.borrow_mut().end = context.shared.end();
        context.roll(now);
        let end = context.shared.end();
        if now >= end {
            context.meter.borrow_mut().end(now);
        }
        // An open loop still sends what was due before the end.
        let nothing_to_start = context.exhausted.get() || (now >= end && context.next_due().is_none());
        let all_done = nothing_to_start && context.under_way.get() == 0;
        if all_done || now >= context.shared.drain_end(context.drain()) {
            break;
        }
        let end = if now >= end { NEVER } else { end };
        let due = context.meter.borrow().due().min(end).min(now + LOOK_EVERY);
        tokio::select! {
            () = context.changed.notified() => {}
            () = context.sleep_until(due) => {}
        }
        context.meter.borrow_mut().waited(due, context.shared.clock.now());
    }
    if let Some(pacer) = pacer {
        pacer.abort();
    }
}

/// Releases all connections and gives them time to close properly.
async fn farewell(context: &Rc<Context>) {
    for place in context.places.borrow().iter() {
        place.leave(context, None);
    }
    let all_gone = async {
        while context.drivers.get() > 0 {
            context.changed.notified().await;
        }
    };
    // Connections that do not end in time are dropped.
    let _ = tokio::time::timeout(FAREWELL, all_gone).await;
}

fn finish(context: &Rc<Context>, drained_at: Nanos) -> Outcome {
    context.roll_last(drained_at);
    let until = context.shared.end().min(drained_at);
    let offered = context.schedule.borrow().as_ref().map_or(0, |schedule| schedule.offered(until));
    let mut thread = context.meter.borrow().facts();
    let mut recorder = context.take_recorder();
    thread.connections = context.places.borrow().len() as u64;
    thread.completed = recorder.report.counts.completed;
    recorder.first_response = context.first_response.borrow_mut().take();
    recorder.report.connections.streams = context.streams.get() as u64;
    let workers = context.workers.borrow().as_slice().to_vec();
    Outcome {
        facts: Facts { recorder, workers },
        thread,
        unsent: offered.saturating_sub(context.started.get()),
        offered,
        drained_at,
    }
}

/// The plan's timeout in the run's time.
fn timeout_of(context: &Context) -> Nanos {
    nanos(context.plan().timeout)
}
