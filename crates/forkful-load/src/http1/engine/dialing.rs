//! Opening and closing connections.

use std::time::Duration;

use forkful_os::edges::{Change, Ready};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustls::ClientConnection;

use super::connection::{Connection, Stage};
use super::{EVENTS_MAX, Engine, OPENING_MAX};
use crate::cause::ErrorCause;
use crate::clock::{Nanos, nanos};
use crate::network::{Dial, connect_cause, words};
use crate::plan::{Load, Reuse};
use crate::schedule::share;
use crate::tls;

/// Pause after a failed connection attempt of a closed loop. It doubles up to the second constant, so that a
/// server that is down costs no CPU and its return is noticed soon.
const RETRY_FIRST: Nanos = 1_000_000;
const RETRY_LAST: Nanos = 100_000_000;
/// After this idle time, the server may have closed a connection just before it is used again.
pub(crate) const STALE_AFTER: Nanos = 500_000_000;
/// Connections that wait for the server to close them. Beyond this number the engine closes them itself.
const LINGERING_MAX: usize = 256;
/// Attempts for a connection before the clock starts.
pub(crate) const OPENING_ATTEMPTS: u32 = 3;

impl Engine<'_> {
    /// Opens the plan's first connections, a few at a time, before the clock starts.
    pub(super) fn open_first(&mut self, buffer: &mut [u8], events: &mut Vec<Ready>) {
        let plan = &self.shared.compiled.plan;
        if plan.reuse == Reuse::Never || (!plan.ramp.is_zero() && matches!(plan.load, Load::Closed { .. })) {
            return;
        }
        let own = share(plan.connections as u64, self.index, self.shared.compiled.threads) as usize;
        self.connections.resize_with(own, Connection::default);
        let deadline = self.shared.clock.now().saturating_add(nanos(plan.timeout));
        let (mut next, mut attempts) = (0, 0);
        loop {
            let now = self.shared.clock.now();
            let stopped = now >= deadline || self.shared.end() <= now;
            let mut opening = self.opening();
            while next < own && !stopped && opening < OPENING_MAX {
                if self.connections[next].failures >= OPENING_ATTEMPTS
                    || self.connections[next].stage != Stage::Closed
                {
                    next += 1;
                    continue;
                }
                attempts += 1;
                self.connect(next, now);
                if self.connections[next].stage == Stage::Closed {
                    // Failed at once. If nothing works at all, three attempts are as good as a thousand.
                    let none = self.recorder.report.connections.opened == 0 && opening == 0;
                    if none && attempts >= OPENING_ATTEMPTS {
                        return;
                    }
                    continue;
                }
                opening += usize::from(self.connections[next].stage != Stage::Open);
                next += 1;
            }
            if stopped || (opening == 0 && next >= own) {
                self.give_up_opening(now);
                return;
            }
            if opening == 0 {
                continue;
            }
            events.clear();
            debug_assert!(events.capacity() >= EVENTS_MAX);
            let unread = self.unread.len();
            let poll = if unread > 0 { Duration::ZERO } else { OPENING_POLL };
            if self.edges.wait(events, Some(poll)).is_ok() {
                for event in &*events {
                    self.event(Change::from(event), buffer);
                }
            }
            self.read_unread(unread, buffer);
        }
    }

    fn opening(&self) -> usize {
        let is_opening = |connection: &&Connection| {
            matches!(connection.stage, Stage::Connecting { .. } | Stage::Handshaking { .. })
        };
        self.connections.iter().filter(is_opening).count()
    }

    fn give_up_opening(&mut self, now: Nanos) {
        for index in 0..self.connections.len() {
            if !matches!(self.connections[index].stage, Stage::Open | Stage::Closed) {
                self.fail(index, ErrorCause::ConnectTimeout, "", now);
            }
        }
    }

    /// Starts a connection for the requests under way in this place.
    pub(super) fn connect(&mut self, index: usize, now: Nanos) {
        let shared = self.shared;
        let unix = shared.compiled.is_unix();
        let dial = match shared.compiled.address.dial() {
            Ok(dial) => dial,
            Err(error) => return self.fail(index, connect_cause(error, unix), &words(error), now),
        };
        let connection = &mut self.connections[index];
        let (fd, open) = match dial {
            Dial::Open(fd) => (fd, true),
            Dial::Pending(fd) => (fd, false),
        };
        let token = u64::from(connection.generation) << 32 | index as u64;
        let registered = self.edges.add(&fd, token, !open);
        connection.fd = Some(fd);
        connection.wants_write = !open;
        connection.stage = Stage::Connecting { since: now };
        if let Err(error) = registered {
            return self.fail(index, ErrorCause::ConnectOther, &words(error), now);
        }
        if shared.compiled.plan.reuse.is_one_each() {
            // Each request under way has a connection, or one that is being established.
            self.ticks.meter.opened(self.under_way);
        }
        if open {
            self.connected(index, now);
        }
    }

    /// A pending connection became writable, or failed.
    pub(super) fn connect_ended(&mut self, index: usize, now: Nanos) {
        let Some(fd) = &self.connections[index].fd else { return };
        match sockopt::socket_error(fd) {
            Ok(Ok(())) => self.connected(index, now),
            Ok(Err(error)) | Err(error) => {
                let cause = connect_cause(error, self.shared.compiled.is_unix());
                self.fail(index, cause, &words(error), now);
            }
        }
    }

    fn connected(&mut self, index: usize, now: Nanos) {
        let connection = &mut self.connections[index];
        let Stage::Connecting { since } = connection.stage else { return };
        let Some((config, name)) = &self.shared.compiled.tls else { return self.opened(index, since, now) };
        match ClientConnection::new(config.clone(), name.clone()) {
            Ok(session) => {
                connection.tls = Some(Box::new(session));
                connection.stage = Stage::Handshaking { since };
                if let Err(error) = self.flush_tls(index) {
                    self.fail(index, ErrorCause::TlsHandshake, &words(error), now);
                }
            }
            Err(error) => self.fail(index, tls::cause(&error, true), &error.to_string(), now),
        }
    }

    /// The connection is established.
    pub(super) fn opened(&mut self, index: usize, since: Nanos, now: Nanos) {
        let connection = &mut self.connections[index];
        connection.stage = Stage::Open;
        connection.failures = 0;
        connection.idle_since = now;
        self.open += 1;
        self.ticks.meter.opened(self.open);
        self.recorder.report.connections.opened += 1;
        self.recorder.report.connect.note(now - since);
        self.recorder.report.connections.syn_retransmits += connection.new_retransmits();
        if connection.under_way.is_empty() {
            self.queue_idle(index);
        } else {
            self.transmit(index, now);
        }
    }

    /// The connection or connection attempt failed, and all requests under way on it failed with it.
    pub(super) fn fail(&mut self, index: usize, cause: ErrorCause, detail: &str, now: Nanos) {
        self.count_retransmits(index, now);
        let connection = &mut self.connections[index];
        let connecting = cause.is_connect();
        if connection.stage == Stage::Open {
            self.open -= 1;
        }
        drop(connection.reset());
        let mut pause = 0;
        if connecting {
            connection.failures = connection.failures.saturating_add(1);
            pause = retry_pause(connection.failures);
            self.recorder.report.connections.failed += 1;
            if self.first_failure.is_none() {
                self.first_failure = Some((cause, detail.to_owned()));
            }
        }
        let mut under_way = std::mem::take(&mut connection.under_way);
        for (position, pending) in under_way.drain(..).enumerate() {
            // Requests behind the first in a pipeline had not received any bytes.
            let cause = if position == 0 { cause } else { behind(cause) };
            self.under_way -= 1;
            self.recorder.failed(&pending.timing, cause, detail, now);
        }
        self.connections[index].under_way = under_way;
        self.freed_after(index, pause, now);
    }

    /// The server ended the connection. `error`: it ended abnormally, so it does not complete an answer.
    pub(super) fn closed(&mut self, index: usize, error: Option<Errno>, now: Nanos) {
        let connection = &mut self.connections[index];
        let cut = error.is_some();
        let error = error.or(connection.send_error);
        if let Stage::Handshaking { .. } | Stage::Connecting { .. } = connection.stage {
            let handshaking = matches!(connection.stage, Stage::Handshaking { .. });
            let cause = if handshaking { ErrorCause::TlsHandshake } else { ErrorCause::ConnectReset };
            let detail = error.map_or_else(|| "closed by the server".to_owned(), words);
            return self.fail(index, cause, &detail, now);
        }
        let Some(first) = connection.under_way.front().copied() else {
            self.ended_by_server(index);
            self.leave(index, now, true);
            return self.freed_after_idle_close(index);
        };
        let untouched = connection.reader.is_at_start();
        if !cut && let Ok(answer) = connection.reader.end_of_input() {
            connection.under_way.pop_front();
            self.answered(index, first, answer, now);
            self.ended_by_server(index);
            if !self.connections[index].under_way.is_empty() {
                return self.fail(index, ErrorCause::ClosedBeforeAnswer, "", now);
            }
            return self.freed(index, now);
        }
        let idle = first.timing.sent.saturating_sub(connection.idle_since);
        if untouched && idle >= STALE_AFTER && !first.retried {
            return self.retry(index, now);
        }
        let cause = match (untouched, error.is_some()) {
            (true, false) => ErrorCause::ClosedBeforeAnswer,
            (false, false) => ErrorCause::ClosedInAnswer,
            (true, true) => ErrorCause::ResetBeforeAnswer,
            (false, true) => ErrorCause::ResetInAnswer,
        };
        self.fail(index, cause, &error.map(words).unwrap_or_default(), now);
    }

    /// Sends the requests under way again: the server closed the connection while it was idle.
    fn retry(&mut self, index: usize, now: Nanos) {
        self.count_retransmits(index, now);
        let connection = &mut self.connections[index];
        drop(connection.reset());
        self.open -= 1;
        for pending in &mut connection.under_way {
            pending.retried = true;
            pending.timing.sent = 0;
            self.recorder.report.counts.stale_retries += u64::from(pending.timing.measured);
        }
        self.recorder.report.connections.closed_by_server += 1;
        self.connect(index, now);
    }

    /// Ends an open connection that is not used again. If the server announced that it would close the
    /// connection, it gets time to do so: the side that closes first keeps the `TIME_WAIT` entry, and our
    /// local ports are limited.
    pub(super) fn leave(&mut self, index: usize, now: Nanos, already_closed: bool) {
        self.open -= 1;
        self.count_retransmits(index, now);
        let fd = self.connections[index].reset();
        if let Some(fd) = fd.filter(|_| !already_closed) {
            if self.lingering.len() >= LINGERING_MAX {
                self.lingering.pop_front();
            }
            self.lingering.push_back((fd, now));
        }
    }

    pub(super) fn retire_if_ended(&mut self, index: usize, now: Nanos) {
        let connection = &self.connections[index];
        if connection.ends && connection.stage == Stage::Open && connection.under_way.is_empty() {
            self.leave(index, now, false);
        }
    }

    fn freed_after_idle_close(&mut self, index: usize) {
        // A closed loop reconnects after the pause, an open loop when a request needs a connection.
        self.queue_idle(index);
    }

    /// Called before a connection closes, and at the beginning and end of the measurement.
    pub(super) fn count_retransmits(&mut self, index: usize, now: Nanos) {
        let connection = &mut self.connections[index];
        if connection.fd.is_none() {
            return;
        }
        let again = connection.new_retransmits();
        if connection.stage != Stage::Open {
            self.recorder.report.connections.syn_retransmits += again;
        } else if now > self.times.measure_from {
            self.recorder.report.connections.retransmits += again;
        }
    }

    /// Counts the requests still under way at the end.
    pub(super) fn abandon(&mut self, now: Nanos) {
        for index in 0..self.connections.len() {
            self.count_retransmits(index, now);
            for pending in self.connections[index].under_way.drain(..) {
                self.recorder.unfinished(&pending.timing, now);
            }
        }
    }
}

/// How long a closed loop waits after this many consecutive failures (at least one).
pub(crate) fn retry_pause(failures: u32) -> Nanos {
    RETRY_FIRST.checked_shl(failures.saturating_sub(1)).unwrap_or(RETRY_LAST).min(RETRY_LAST)
}

/// How long opening waits for events before it checks its deadline.
const OPENING_POLL: Duration = Duration::from_millis(50);

/// The cause for the requests behind the one during which the connection broke.
fn behind(cause: ErrorCause) -> ErrorCause {
    match cause {
        ErrorCause::ClosedInAnswer => ErrorCause::ClosedBeforeAnswer,
        ErrorCause::ResetInAnswer => ErrorCause::ResetBeforeAnswer,
        ErrorCause::TimeoutInAnswer => ErrorCause::TimeoutBeforeAnswer,
        other => other,
    }
}
