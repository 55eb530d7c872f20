//! From a plan to a report: checks, threads, start of the clock, progress, and merging.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use forkful_os::edges::MECHANISM;

use crate::cause::ErrorCause;
use crate::clock::{NEVER, Nanos, nanos};
use crate::compiled::Compiled;
use crate::http1::engine::{Engine, Outcome};
use crate::plan::{HttpVersion, Load, Plan, Stop};
use crate::progress::{Phase, Progress, StopHandle};
use crate::recorder::merged;
use crate::shared::{Life, Shared, Times, Totals, Update};
use crate::silence::Silence;
use crate::system::{Snapshot, allow_descriptors, memory};
use crate::tasks;
use crate::timeline::Timeline;
use crate::{EarlyEnd, LoadError, Report};

/// Queued messages of the threads: each sends ten a second, so the display may be slow for a while.
const UPDATES_MAX: usize = 4_096;
/// How often the stop handle is checked.
const POLL: Duration = Duration::from_millis(50);
/// Descriptors beside the connections: standard streams, two for each thread, lingering connections, the
/// caller's.
const DESCRIPTORS_SPARE: u64 = 400;
/// If there is no connection after this time, the server counts as unreachable.
const UNREACHABLE_AFTER: Nanos = 1_000_000_000;

/// Performs a plan. `progress` is called about ten times a second on this thread; `stop` ends the run early.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(&Progress), stop: &StopHandle) -> Result<Report, LoadError> {
    let compiled = Compiled::new(plan)?;
    let needed = compiled.connections_max() as u64 + DESCRIPTORS_SPARE;
    // An open loop may not need all of its connections; if descriptors run out, the request fails with that
    // cause.
    if let (Err(limit), Load::Closed { .. }) = (allow_descriptors(needed), plan.load)
        && compiled.connections_max() as u64 + 16 > limit
    {
        return Err(LoadError::Descriptors { connections: plan.connections, needed, limit });
    }
    let limit = match plan.stop {
        Stop::Requests(requests) => requests,
        Stop::Duration(_) => u64::MAX,
    };
    let shared = Arc::new(Shared::new(compiled, limit));
    let (sender, updates) = sync_channel(UPDATES_MAX);
    let mut conductor = Conductor::new(&shared, progress, stop);
    let outcomes = thread::scope(|scope| {
        let _guard = CancelOnPanic(&shared);
        let mut handles = Vec::new();
        for index in 0..shared.compiled.threads {
            let spawned = thread_of(&shared, index, sender.clone()).and_then(|perform| {
                let builder = thread::Builder::new().name(format!("load-{index}"));
                let failed = |source| LoadError::System { what: "starting a thread", source };
                builder.spawn_scoped(scope, perform).map_err(failed)
            });
            match spawned {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    cancel(&shared);
                    return Err(error);
                }
            }
        }
        drop(sender);
        conductor.conduct(&updates)?;
        Ok(handles
            .into_iter()
            .map(|handle| handle.join().expect("the engine does not panic"))
            .collect::<Vec<_>>())
    })?;
    conductor.report(outcomes)
}

/// Lets the threads end without a measurement.
fn cancel(shared: &Shared) {
    let now = shared.clock.now();
    shared.end_at(now);
    shared.start(Times { start: now, ramp_end: now, measure_from: now });
    shared.release();
}

/// If the progress callback panics, the threads would wait for this thread for ever; this guard releases
/// them.
struct CancelOnPanic<'s>(&'s Shared);

impl Drop for CancelOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            cancel(self.0);
        }
    }
}

/// The work of a thread, for the plan's engine.
fn thread_of<'s>(
    shared: &'s Arc<Shared>,
    index: usize,
    updates: SyncSender<Update>,
) -> Result<Box<dyn FnOnce() -> Outcome + Send + 's>, LoadError> {
    if shared.compiled.plan.http.is_on_tasks() {
        let engine = tasks::Engine::new(Arc::clone(shared), index, updates)?;
        return Ok(Box::new(move || engine.run()));
    }
    let engine = Engine::new(shared, index, updates);
    let engine = engine.map_err(|source| LoadError::System { what: "epoll", source })?;
    Ok(Box::new(move || engine.run()))
}

/// Starts the clock, follows the run, and assembles the report.
struct Conductor<'c> {
    shared: &'c Shared,
    progress: &'c mut dyn FnMut(&Progress),
    stop: &'c StopHandle,
    timeline: Timeline,
    totals: Vec<Totals>,
    live: Live,
    times: Times,
    before: Snapshot,
    after: Option<Snapshot>,
    early_end: Option<EarlyEnd>,
    failure: Option<(ErrorCause, String)>,
    threads_measuring: usize,
}

/// The last windows, for the display.
#[derive(Default)]
struct Live {
    windows: Vec<crate::recorder::ThreadWindow>,
    last_call: Nanos,
    silence: Silence,
    /// Answers in all windows of the measurement, and the sum of their response times.
    answered: u64,
    response_sum: Nanos,
}

impl<'c> Conductor<'c> {
    fn new(shared: &'c Shared, progress: &'c mut dyn FnMut(&Progress), stop: &'c StopHandle) -> Self {
        let threads = shared.compiled.threads;
        Self {
            shared,
            progress,
            stop,
            timeline: Timeline::new(shared.compiled.plan.window, threads),
            totals: vec![Totals::default(); threads],
            live: Live {
                windows: vec![crate::recorder::ThreadWindow::default(); threads],
                ..Live::default()
            },
            times: Times::UNKNOWN,
            before: Snapshot::default(),
            after: None,
            early_end: None,
            failure: None,
            threads_measuring: threads,
        }
    }

    fn conduct(&mut self, updates: &Receiver<Update>) -> Result<(), LoadError> {
        self.wait_until_ready(updates)?;
        self.start();
        loop {
            let now = self.shared.clock.now();
            let ahead = self.times.measure_from.saturating_sub(now);
            let poll = if ahead > 0 { POLL.min(Duration::from_nanos(ahead)) } else { POLL };
            let update = updates.recv_timeout(poll);
            let now = self.shared.clock.now();
            if self.before.process_cpu == 0.0 && now >= self.times.measure_from {
                self.before = Snapshot::take();
                self.call_progress(now, true);
            }
            if self.after.is_none() && now >= self.shared.end() {
                self.after = Some(Snapshot::take());
            }
            match update {
                Ok(update) => self.take(update),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.watch(now);
        }
        self.call_progress(self.shared.clock.now(), true);
        Ok(())
    }

    /// Waits for the first connections of all threads.
    fn wait_until_ready(&mut self, updates: &Receiver<Update>) -> Result<(), LoadError> {
        let (mut opened, mut waiting) = (0, self.shared.compiled.threads);
        while waiting > 0 {
            match updates.recv_timeout(POLL) {
                Ok(Update::Ready { opened: by_thread, failure }) => {
                    opened += by_thread;
                    waiting -= 1;
                    self.failure = self.failure.take().or(failure);
                }
                Ok(Update::Window { .. } | Update::Measured) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.stop.is_stopped() {
                self.early_end = Some(EarlyEnd::Stopped);
                self.shared.end_at(self.shared.clock.now());
            }
            self.call_progress(self.shared.clock.now(), false);
        }
        if let (0, Some((cause, detail))) = (opened, self.failure.clone()) {
            cancel(self.shared);
            return Err(self.unreachable(cause, detail));
        }
        Ok(())
    }

    fn unreachable(&self, cause: ErrorCause, detail: String) -> LoadError {
        let compiled = &self.shared.compiled;
        LoadError::Unreachable { target: compiled.address.describe(&compiled.plan), cause, detail }
    }

    /// Sets the times of the run.
    fn start(&mut self) {
        // The callback runs once before the load, while the connections exist, so that it can inspect the
        // server.
        self.call_progress(self.shared.clock.now(), true);
        let plan = &self.shared.compiled.plan;
        let start = self.shared.clock.now() + START_IN;
        let ramp_end = start + nanos(plan.ramp);
        let measure_from = ramp_end + nanos(plan.warmup);
        self.times = Times { start, ramp_end, measure_from };
        let time = match plan.stop {
            Stop::Duration(duration) => Some(duration),
            Stop::Requests(_) => plan.time_limit,
        };
        if let Some(time) = time {
            self.shared.end_at(measure_from.saturating_add(nanos(time)));
        }
        self.before = Snapshot::take();
        if measure_from > start {
            // Sampled again when the measurement begins.
            self.before.process_cpu = 0.0;
        }
        self.shared.start(self.times);
    }

    fn take(&mut self, update: Update) {
        match update {
            Update::Window { thread, measured, window, totals } => {
                self.totals[thread] = totals;
                if measured {
                    self.timeline.add(thread, &window);
                    self.live.answered += window.completed;
                    self.live.response_sum += window.response_sum;
                }
                self.live.windows[thread] = window;
            }
            Update::Measured => {
                self.threads_measuring -= 1;
                if self.threads_measuring == 0 {
                    self.after.get_or_insert_with(Snapshot::take);
                    // The callback runs once more at the end, while the connections exist.
                    self.call_progress(self.shared.clock.now(), true);
                    self.shared.release();
                }
            }
            Update::Ready { .. } => {}
        }
    }

    /// Ends the run early if needed, and reports progress.
    fn watch(&mut self, now: Nanos) {
        let errors: u64 = self.totals.iter().map(|totals| totals.errors).sum();
        let too_many = self.shared.compiled.plan.errors_max.is_some_and(|most| errors >= most.max(1));
        let opened: u64 = self.totals.iter().map(|totals| totals.opened).sum();
        let started = now.saturating_sub(self.times.start);
        let unreachable = opened == 0 && errors > 0 && started > UNREACHABLE_AFTER;
        let is_gone =
            self.live.silence.is_too_long(&self.shared.compiled.plan, Life::of_all(&self.totals), now);
        let why = if self.stop.is_stopped() {
            Some(EarlyEnd::Stopped)
        } else if too_many {
            Some(EarlyEnd::Errors)
        } else {
            (unreachable || is_gone).then_some(EarlyEnd::TargetGone)
        };
        if why.is_some() && now < self.shared.end() && self.threads_measuring > 0 {
            self.early_end = why;
            self.shared.end_at(now);
        }
        if self.stop.is_at_once() {
            self.shared.skip_drain();
        }
        self.call_progress(now, false);
    }

    fn call_progress(&mut self, now: Nanos, certainly: bool) {
        if !certainly && now.saturating_sub(self.live.last_call) < nanos(PROGRESS_EVERY) {
            return;
        }
        self.live.last_call = now;
        let Times { start, ramp_end, measure_from } = self.times;
        let end = self.shared.end();
        let (phase, since) = match now {
            _ if start == NEVER => (Phase::Connecting, 0),
            _ if now >= end || self.threads_measuring == 0 => (Phase::Draining, end.min(now)),
            _ if now >= measure_from => (Phase::Measuring, measure_from),
            _ if now >= ramp_end => (Phase::Warmup, ramp_end),
            _ => (Phase::Ramp, start.min(now)),
        };
        let sum = |pick: fn(&Totals) -> u64| self.totals.iter().map(pick).sum::<u64>();
        let (completed, failed) = (sum(|totals| totals.completed), sum(|totals| totals.failed));
        let plan = &self.shared.compiled.plan;
        let done = match (phase, plan.stop) {
            (Phase::Draining, _) => 1.0,
            (Phase::Measuring, Stop::Duration(duration)) => (now - since) as f64 / nanos(duration) as f64,
            (Phase::Measuring, Stop::Requests(requests)) => (completed + failed) as f64 / requests as f64,
            _ => 0.0,
        };
        let windows = &self.live.windows;
        let mut times = crate::coarse::Sparse::default();
        for window in windows {
            times.merge(&window.times);
        }
        let in_window: u64 = windows.iter().map(|window| window.completed).sum();
        let time = |quantile| times.quantile(quantile).map(Duration::from_nanos);
        (self.progress)(&Progress {
            phase,
            elapsed: Duration::from_nanos(now - since),
            done: done.clamp(0.0, 1.0),
            started: sum(|totals| totals.started),
            completed,
            failed,
            errors: sum(|totals| totals.errors),
            per_second: in_window as f64 / plan.window.as_secs_f64(),
            p50: time(0.5),
            p99: time(0.99),
            answered: self.live.answered,
            response_sum: Duration::from_nanos(self.live.response_sum),
            open_connections: windows.iter().map(|window| window.open_connections).sum(),
            backlog: windows.iter().map(|window| window.backlog).sum(),
        });
    }

    fn report(self, outcomes: Vec<Outcome>) -> Result<Report, LoadError> {
        let compiled = &self.shared.compiled;
        let plan = &compiled.plan;
        let measure_from = self.times.measure_from;
        let end = ended_by_requests(plan, &outcomes).unwrap_or_else(|| match self.shared.end() {
            NEVER => last_end(&outcomes),
            end => end,
        });
        let elapsed = Duration::from_nanos(end.saturating_sub(measure_from));
        let after = self.after.unwrap_or_else(Snapshot::take);
        let mut report = Report::empty(match plan.http {
            HttpVersion::Http10 => format!("raw {MECHANISM}, HTTP/1.0"),
            HttpVersion::Http11 => format!("raw {MECHANISM}, HTTP/1.1"),
            HttpVersion::Http2 => "h2, HTTP/2".to_owned(),
            HttpVersion::WebSocket => "tungstenite, WebSocket".to_owned(),
            HttpVersion::EventStream => "event stream, HTTP/1.1".to_owned(),
        });
        report.elapsed = elapsed;
        report.early_end = self.early_end;
        report.connections.asked = plan.connections as u64;
        report.connections.reached =
            outcomes.iter().map(|outcome| outcome.facts.recorder.report.connections.reached).sum();
        report.unsent = outcomes.iter().map(|outcome| outcome.unsent).sum();
        report.offered = outcomes.iter().map(|outcome| outcome.offered).sum();
        report.threads = outcomes.iter().map(|outcome| outcome.thread).collect();
        let wakes: u64 = report.threads.iter().map(|thread| thread.wakes).sum();
        let events: u64 = report.threads.iter().map(|thread| thread.events).sum();
        report.events_per_wake = if wakes > 0 { events as f64 / wakes as f64 } else { 0.0 };
        let drained_at = outcomes.iter().map(|outcome| outcome.drained_at).max().unwrap_or(end);
        report.drained = Duration::from_nanos(drained_at.saturating_sub(end));
        report.windows = self.timeline.windows(elapsed);
        report.cpu_seconds = (after.process_cpu - self.before.process_cpu).max(0.0);
        report.kernel = after.kernel_since(&self.before);
        report.host = after.host_since(&self.before);
        let names: Vec<String> = compiled.templates.iter().map(|template| template.name.clone()).collect();
        let facts = outcomes.into_iter().map(|outcome| outcome.facts).collect();
        report = merged(report, facts, &names);
        report.memory_bytes = memory();
        let attempts_failed = report.errors.iter().find(|error| error.cause.is_connect());
        if let (0, Some(error)) = (report.connections.opened, attempts_failed) {
            let detail = error.examples.first().map(|example| example.detail.clone()).unwrap_or_default();
            return Err(LoadError::Unreachable {
                target: compiled.address.describe(plan),
                cause: error.cause,
                detail,
            });
        }
        Ok(report)
    }
}

/// When the last request of the plan ended, if the number of requests ended the measurement.
fn ended_by_requests(plan: &Plan, outcomes: &[Outcome]) -> Option<Nanos> {
    let Stop::Requests(requests) = plan.stop else { return None };
    let counts = |pick: fn(&crate::Counts) -> u64| {
        outcomes.iter().map(|outcome| pick(&outcome.facts.recorder.report.counts)).sum::<u64>()
    };
    let in_time = counts(|counts| counts.started - counts.late - counts.unfinished);
    (in_time == requests).then(|| last_end(outcomes))
}

fn last_end(outcomes: &[Outcome]) -> Nanos {
    outcomes.iter().map(|outcome| outcome.facts.recorder.last_end).max().unwrap_or(0)
}

/// The clock starts this long after the last thread is ready, so that all threads are awake.
const START_IN: Nanos = 1_000_000;
/// How often progress is reported.
const PROGRESS_EVERY: Duration = Duration::from_millis(95);
