//! The periodic work of a thread, a few times a second: timeouts, windows, lingering connections.

use super::Engine;
use super::connection::Stage;
use crate::cause::ErrorCause;
use crate::clock::{NEVER, Nanos, nanos};
use crate::http1::Answer;
use crate::meter::{Gauges, Meter};
use crate::plan::Plan;
use crate::report::facts::FirstResponse;
use crate::shared::Times;

/// How many times per timeout interval a thread checks for timeouts, within these bounds.
const SWEEPS_PER_TIMEOUT: u64 = 50;
const SWEEP_MIN: Nanos = 1_000_000;
const SWEEP_MAX: Nanos = 50_000_000;
/// How long the server may take to close a connection after announcing it.
const LINGER: Nanos = 100_000_000;

/// When the periodic work is due.
#[derive(Debug)]
pub(crate) struct Ticks {
    /// The earliest of the times below.
    pub(super) next: Nanos,
    sweep_every: Nanos,
    next_sweep: Nanos,
    /// The measurement has begun.
    measuring: bool,
    pub(super) meter: Meter,
    pub(super) first_answer: Option<(Nanos, Answer, Option<String>)>,
}

impl Ticks {
    pub(super) fn idle() -> Self {
        Self {
            next: NEVER,
            sweep_every: SWEEP_MAX,
            next_sweep: NEVER,
            measuring: false,
            meter: Meter::idle(),
            first_answer: None,
        }
    }

    pub(super) fn begin(&mut self, now: Nanos, times: Times, plan: &Plan) {
        self.sweep_every = (nanos(plan.timeout) / SWEEPS_PER_TIMEOUT).clamp(SWEEP_MIN, SWEEP_MAX);
        self.next_sweep = now + self.sweep_every;
        self.meter.begin(now, times, plan);
        self.next = self.next_sweep.min(self.meter.due());
    }

    /// The thread also wakes up at the end.
    fn set_next(&mut self, end: Nanos, ended: bool) {
        let end = if ended { NEVER } else { end };
        self.next = self.next_sweep.min(self.meter.due()).min(end);
    }
}

impl Engine<'_> {
    pub(super) fn tick(&mut self, now: Nanos) {
        self.recorder.end = self.shared.end();
        if !self.ticks.measuring && now >= self.times.measure_from {
            self.ticks.measuring = true;
            // Retransmissions before the measurement do not count.
            (0..self.connections.len())
                .for_each(|index| self.count_retransmits(index, self.times.measure_from));
        }
        if now >= self.ticks.meter.due() {
            let gauges = self.gauges(now);
            self.ticks.meter.roll(now, &mut self.recorder, gauges, &self.updates);
        }
        let ended = now >= self.recorder.end;
        if ended {
            self.ticks.meter.end(now);
        }
        self.ticks.set_next(self.recorder.end, ended);
    }

    /// Fails requests that exceeded the timeout, if it is time to look for them.
    pub(super) fn sweep_if_due(&mut self, now: Nanos) {
        if now >= self.ticks.next_sweep {
            self.ticks.next_sweep = now + self.ticks.sweep_every;
            self.sweep(now);
            self.ticks.set_next(self.recorder.end, now >= self.recorder.end);
        }
    }

    pub(super) fn last_window(&mut self, now: Nanos) {
        let gauges = self.gauges(now);
        self.ticks.meter.last(now, &mut self.recorder, gauges, &self.updates);
    }

    fn gauges(&self, now: Nanos) -> Gauges {
        Gauges { thread: self.index, open: self.open, backlog: self.backlog(now) }
    }

    /// Fails requests that exceeded the timeout.
    fn sweep(&mut self, now: Nanos) {
        let timeout = nanos(self.shared.compiled.plan.timeout);
        for index in 0..self.connections.len() {
            let connection = &self.connections[index];
            let since = match (connection.under_way.front(), connection.stage) {
                (Some(first), _) => first.timing.begun,
                (None, Stage::Connecting { since } | Stage::Handshaking { since }) => since,
                (None, Stage::Open | Stage::Closed) => continue,
            };
            if now < since.saturating_add(timeout) {
                continue;
            }
            let cause = match connection.stage {
                Stage::Connecting { .. } | Stage::Handshaking { .. } => ErrorCause::ConnectTimeout,
                Stage::Open if connection.reader.is_at_start() => ErrorCause::TimeoutBeforeAnswer,
                Stage::Open => ErrorCause::TimeoutInAnswer,
                // A closed connection has no requests under way.
                Stage::Closed => continue,
            };
            self.fail(index, cause, "", now);
        }
        while self.lingering.front().is_some_and(|(_, since)| now >= since + LINGER) {
            self.lingering.pop_front();
        }
    }

    pub(super) fn note_first_response(&mut self) {
        let Some((at, answer, tls)) = self.ticks.first_answer.take() else { return };
        let first = FirstResponse {
            status: answer.head.status,
            server: self.cache.server.take(),
            head_bytes: u64::from(answer.head.bytes),
            body_bytes: answer.body_bytes,
            version: if answer.head.minor == 0 { "HTTP/1.0" } else { "HTTP/1.1" },
            tls,
            kept_alive: answer.head.keep_alive,
        };
        self.recorder.first_response = Some((at, first));
    }
}
