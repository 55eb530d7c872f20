//! The raw engine: one epoll loop per thread, HTTP/1.
//!
//! One request on a kept connection costs one `recv` for the answer, one `send` of prebuilt bytes right after
//! it, one reading of the clock in between, and a share of an `epoll_wait`. Descriptors are registered once,
//! edge-triggered. The engine registers for writability only after a send was incomplete.
//!
//! `engine.rs` is the loop; `pacing.rs` decides what starts when; `dialing.rs` opens and closes connections;
//! `exchange.rs` sends and reads; `gathering.rs` delays reading to batch answers; `ticking.rs` does the
//! periodic work (a few times a second); `unread.rs` lists connections with more bytes than a turn reads.

mod connection;
mod dialing;
mod exchange;
mod gathering;
mod pacing;
mod ticking;
mod unread;

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use forkful_os::edges::{Change, Edges, Ready};
use forkful_os::timer::Timer;
use rustix::io::Errno;

use crate::cause::ErrorCause;
use crate::clock::{NEVER, Nanos};
use crate::http1::HeadCache;
use crate::recorder::{Facts, Recorder, RecorderOptions};
use crate::report::facts::ThreadFacts;
use crate::schedule::share;
use crate::shared::{Shared, Times, Update};
use connection::Connection;
pub(crate) use dialing::{OPENING_ATTEMPTS, STALE_AFTER, retry_pause};
pub(crate) use exchange::judge;
use gathering::Gathering;
use pacing::Pacing;
use ticking::Ticks;
use unread::Unread;

/// Bytes per read of any connection: a few pipelined answers, or a large piece of a long body.
const READ_BYTES: usize = 64 * 1024;
/// Events per wait. Work that becomes due must wait for all of them, about 10 µs each.
const EVENTS_MAX: usize = 512;
/// Connections that a thread establishes at the same time while it opens the first ones. Node.js' accept
/// queue holds 511, the system limit is often 128.
pub(crate) const OPENING_MAX: usize = 64;
/// The timer's token; no connection uses it.
const TIMER_TOKEN: u64 = u64::MAX;

/// The result of a thread.
pub(crate) struct Outcome {
    pub(crate) facts: Facts,
    pub(crate) thread: ThreadFacts,
    pub(crate) unsent: u64,
    pub(crate) offered: u64,
    pub(crate) drained_at: Nanos,
}

/// One thread of the engine.
pub(crate) struct Engine<'s> {
    shared: &'s Shared,
    index: usize,
    edges: Edges,
    timer: Timer,
    /// The time that the timer is set to.
    timer_at: Nanos,
    connections: Vec<Connection>,
    /// Maximum connections of this thread.
    connections_max: usize,
    pacing: Pacing,
    recorder: Recorder,
    cache: HeadCache,
    ticks: Ticks,
    gathering: Gathering,
    times: Times,
    /// Buffer for assembling bytes to send.
    scratch: Vec<u8>,
    /// Decrypted bytes.
    plain: Vec<u8>,
    /// Connections that the server should close, with the time when the engine stopped using them.
    lingering: VecDeque<(OwnedFd, Nanos)>,
    /// Connections with more bytes than the last turn read.
    unread: Unread,
    /// When the last turn ended.
    now: Nanos,
    /// When this turn's wait ended. Whatever this turn reads had arrived by then.
    woken: Nanos,
    /// Requests started and not ended.
    under_way: u64,
    open: u64,
    /// The first failure while opening.
    first_failure: Option<(ErrorCause, String)>,
    updates: SyncSender<Update>,
}

impl<'s> Engine<'s> {
    pub(crate) fn new(shared: &'s Shared, index: usize, updates: SyncSender<Update>) -> io::Result<Self> {
        let compiled = &shared.compiled;
        let edges = Edges::new()?;
        let timer = Timer::new()?;
        edges.add(&timer, TIMER_TOKEN, false)?;
        let connections_max = share(compiled.connections_max() as u64, index, compiled.threads) as usize;
        let options = RecorderOptions {
            measure_from: NEVER,
            requests: compiled.templates.len(),
            threads: compiled.threads,
        };
        Ok(Self {
            shared,
            index,
            edges,
            timer,
            timer_at: NEVER,
            connections: Vec::new(),
            connections_max,
            pacing: Pacing::idle(),
            recorder: Recorder::new(options),
            cache: HeadCache::new(compiled.plan.worker_header.as_deref()),
            ticks: Ticks::idle(),
            gathering: Gathering::never(),
            times: Times::UNKNOWN,
            scratch: Vec::new(),
            plain: Vec::new(),
            lingering: VecDeque::new(),
            unread: Unread::default(),
            now: 0,
            woken: 0,
            under_way: 0,
            open: 0,
            first_failure: None,
            updates,
        })
    }

    /// Opens the first connections, waits for the start, and performs this thread's part of the plan.
    pub(crate) fn run(mut self) -> Outcome {
        let mut buffer = vec![0; READ_BYTES];
        let mut events = Vec::with_capacity(EVENTS_MAX);
        self.open_first(&mut buffer, &mut events);
        let failure = self.first_failure.take();
        // The receiver outlives all threads. If it is gone, nobody needs the message.
        let _ = self.updates.send(Update::Ready { opened: self.recorder.report.connections.opened, failure });
        self.begin(self.shared.wait_for_start());
        let mut told = false;
        while !self.is_done() {
            if !told && self.has_nothing_to_start() && self.under_way == 0 {
                told = true;
                let _ = self.updates.send(Update::Measured);
            }
            self.turn(&mut buffer, &mut events);
        }
        self.finish(told)
    }

    /// Waits for events or the next due time, and handles the events.
    fn turn(&mut self, buffer: &mut [u8], events: &mut Vec<Ready>) {
        let paused = self.gather();
        let due = self.pacing.next_due(self.shared.end()).min(self.ticks.next);
        let unread = self.unread.len();
        let timeout = if unread > 0 { Some(Duration::ZERO) } else { self.arm(due, self.now) };
        let before = self.now;
        events.clear();
        let has_all = match self.edges.wait(events, timeout) {
            Ok(()) => events.len() < EVENTS_MAX,
            // By a signal, as after a stop of the process.
            Err(Errno::INTR) => false,
            Err(error) => unreachable!("waiting fails on bad arguments only: {error}"),
        };
        let woken = self.shared.clock.now();
        self.ticks.meter.waited(due.max(self.now), woken);
        if woken >= self.ticks.next {
            self.tick(woken);
        }
        self.pace(woken);
        (self.now, self.woken) = (woken, woken);
        for event in &*events {
            self.now = self.event(Change::from(event), buffer);
        }
        self.read_unread(unread, buffer);
        // What had arrived before the wait is read now. If this thread did not run for a while since then, what has arrived meanwhile is
        // in time: the next turn reads it first.
        if has_all {
            self.sweep_if_due(before);
        }
        if events.is_empty() {
            return;
        }
        // The first answer may have arrived at the beginning of the pause and is read first; the last answer
        // is read last.
        let handling = self.now.saturating_sub(woken);
        let residency = handling.max(paused + handling / events.len() as u64);
        self.ticks.meter.woke(&mut self.recorder, events.len(), residency);
    }

    /// Pauses so that answers gather, if that helps. Returns the length of the pause.
    fn gather(&mut self) -> Nanos {
        let Some(pause) = self.gathering.pause(self.now, self.under_way) else { return 0 };
        let due = self.pacing.next_due(self.shared.end()).min(self.ticks.next);
        // Connecting is never delayed: neither a due connection attempt nor a handshake.
        let is_connecting = (self.open as usize) < self.connections.len();
        if due <= self.now + pause || is_connecting || self.unread.len() > 0 {
            return 0;
        }
        let began = self.now;
        let clock = self.shared.clock;
        self.gathering.sleep(pause, || clock.now());
        self.now = clock.now();
        self.ticks.meter.paused();
        self.now.saturating_sub(began)
    }

    /// How long to wait. Due times use the timer, which is exact to microseconds. It is set a few times a
    /// second, whereas the kernel would set and cancel a timeout for every wait that an answer ends.
    fn arm(&mut self, due: Nanos, now: Nanos) -> Option<Duration> {
        if due <= now {
            return Some(Duration::ZERO);
        }
        if due != self.timer_at && due != NEVER {
            if self.timer.set(Some(Duration::from_nanos(due - now))).is_err() {
                // Rounded up; otherwise the loop would spin through the last millisecond.
                return Some(Duration::from_millis((due - now).div_ceil(1_000_000)));
            }
            self.timer_at = due;
        }
        None
    }

    fn event(&mut self, event: Change, buffer: &mut [u8]) -> Nanos {
        let token = event.token;
        if token == TIMER_TOKEN {
            self.timer_at = NEVER;
            let now = self.shared.clock.now();
            self.pace(now);
            return now;
        }
        let (index, generation) = (token as u32 as usize, (token >> 32) as u32);
        let connection = &self.connections[index];
        // The event belongs to a descriptor that is closed or lingers; its place may already have a new
        // connection.
        if connection.generation != generation || connection.fd.is_none() {
            return self.shared.clock.now();
        }
        self.ready(index, event, buffer)
    }

    fn begin(&mut self, times: Times) {
        self.times = times;
        self.recorder.begin_at(times.measure_from);
        self.recorder.end = self.shared.end();
        let now = self.shared.clock.now();
        self.now = now;
        self.ticks.begin(now, times, &self.shared.compiled.plan);
        self.gathering = Gathering::begin(now, &self.shared.compiled.plan);
        self.begin_pacing(now);
    }

    fn is_done(&self) -> bool {
        if !self.has_nothing_to_start() {
            return false;
        }
        self.under_way == 0 || self.now >= self.shared.drain_end(self.drain())
    }

    fn drain(&self) -> Nanos {
        let plan = &self.shared.compiled.plan;
        crate::clock::nanos(plan.drain.min(plan.timeout))
    }

    fn finish(mut self, told: bool) -> Outcome {
        let now = self.shared.clock.now();
        if !told {
            let _ = self.updates.send(Update::Measured);
        }
        self.abandon(now);
        self.last_window(now);
        let until = self.shared.end().min(now);
        let (offered, started) = self.pacing.offered(until);
        let mut thread = self.ticks.meter.facts();
        thread.connections = self.connections.len() as u64;
        thread.completed = self.recorder.report.counts.completed;
        self.note_first_response();
        self.shared.wait_for_release();
        Outcome {
            facts: Facts { workers: self.cache.workers().to_vec(), recorder: self.recorder },
            thread,
            unsent: offered.saturating_sub(started),
            offered,
            drained_at: now,
        }
    }
}
