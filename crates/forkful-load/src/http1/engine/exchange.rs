//! Sending requests and reading answers.

use std::io::{Read, Write};

use forkful_os::connection::NO_SIGNAL;
use forkful_os::edges::Change;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv, send};

use super::Engine;
use super::connection::{Arrival, Pending, Stage};
use crate::cause::ErrorCause;
use crate::clock::Nanos;
use crate::http1::{Answer, ReaderContext};
use crate::network::words;
use crate::plan::{BodyCheck, Expect};
use crate::recorder::Ending;
use crate::tls;
use crate::workers::NO_WORKER;

/// Reads of a connection before others get their turn: 1 MiB. A server that sends faster than the engine reads
/// would otherwise keep the thread for ever.
const READS_MAX: usize = 16;
/// Bytes decrypted at a time.
const PLAIN_BYTES: usize = 32 * 1024;

impl Engine<'_> {
    /// Handles an event of a connection. Returns the time when it finished.
    pub(super) fn ready(&mut self, index: usize, change: Change, buffer: &mut [u8]) -> Nanos {
        let connection = &self.connections[index];
        if let Stage::Connecting { .. } = connection.stage {
            let now = self.shared.clock.now();
            self.connect_ended(index, now);
            if !change.readable {
                return now;
            }
        } else if change.writable && !connection.unsent.is_empty() {
            let now = self.shared.clock.now();
            self.send_rest(index, now);
        }
        if change.ended || change.readable {
            let connection = &mut self.connections[index];
            connection.peer_ended |= change.ended && connection.fd.is_some();
            return self.receive(index, buffer);
        }
        self.shared.clock.now()
    }

    /// Reads until the socket is empty, or for [`READS_MAX`] times. A short read also means empty, unless the
    /// server has ended the connection.
    pub(super) fn receive(&mut self, index: usize, buffer: &mut [u8]) -> Nanos {
        let generation = self.connections[index].generation;
        let ended = self.connections[index].peer_ended;
        let mut woken = Some(self.woken);
        for _ in 0..READS_MAX {
            let connection = &self.connections[index];
            let Some(fd) = &connection.fd else { return self.shared.clock.now() };
            let result = recv(fd, &mut *buffer, RecvFlags::empty());
            let now = self.shared.clock.now();
            // Bytes of a second call may have arrived after the wake-up.
            let at = Arrival { woken: woken.take().unwrap_or(now), read: now };
            match result {
                Ok((0, _)) => {
                    // The socket reports a reset only once, and the send already received it.
                    let reset = connection.send_error.filter(|error| *error == Errno::CONNRESET);
                    self.closed(index, reset, now);
                    return now;
                }
                Ok((length, _)) => {
                    if connection.tls.is_some() {
                        self.decrypt(index, &buffer[..length], at);
                    } else {
                        let more = self.read(index, &buffer[..length], at);
                        // If the server closed the connection after this answer, end it before the next
                        // request is sent on it.
                        if more && ended && self.peer_ended(index) {
                            self.ended_by_server(index);
                        }
                        if more {
                            self.go_on(index, now);
                        }
                    }
                    if self.connections[index].generation != generation || (length < buffer.len() && !ended) {
                        return now;
                    }
                }
                Err(Errno::AGAIN) => return now,
                Err(Errno::INTR) => {}
                Err(error) => {
                    self.closed(index, Some(error), now);
                    return now;
                }
            }
        }
        // The descriptor is edge-triggered: no event will tell that there is more.
        self.unread.add(index, &mut self.connections[index]);
        self.shared.clock.now()
    }

    /// The server has ended a connection without requests under way. Counted once: an answer with
    /// `Connection: close` was counted already, and a connection that was used up ends by our own request.
    pub(super) fn ended_by_server(&mut self, index: usize) {
        if !std::mem::replace(&mut self.connections[index].ends, true) {
            self.recorder.report.connections.closed_by_server += 1;
        }
    }

    /// Whether the server has closed the connection and everything was read.
    fn peer_ended(&self, index: usize) -> bool {
        let mut byte = [0];
        let connection = &self.connections[index];
        let idle = connection.under_way.is_empty();
        idle && connection.fd.as_ref().is_some_and(|fd| {
            matches!(recv(fd, &mut byte, RecvFlags::PEEK), Ok((0, _)) | Err(Errno::CONNRESET))
        })
    }

    /// Handles received bytes. Returns whether the connection can still be used.
    #[inline]
    fn read(&mut self, index: usize, mut bytes: &[u8], mut at: Arrival) -> bool {
        let now = at.read;
        let keep_body = self.shared.compiled.plan.expect.body.is_some();
        while !bytes.is_empty() {
            let connection = &mut self.connections[index];
            let Some(first) = connection.under_way.front_mut().filter(|first| first.timing.sent > 0) else {
                self.unasked(index, bytes, now);
                return false;
            };
            if first.timing.first_byte == 0 {
                first.timing.first_byte = at.of(first);
            }
            let first = *first;
            let is_head = self.shared.compiled.templates[usize::from(first.timing.request)].is_head;
            let mut context = ReaderContext { cache: &mut self.cache, is_head, keep_body };
            match connection.reader.read(bytes, &mut context) {
                Ok((used, answer)) => {
                    bytes = &bytes[used..];
                    self.recorder.received(first.timing.measured, used);
                    let Some(answer) = answer else { return true };
                    connection.under_way.pop_front();
                    self.answered(index, first, answer, at.of(&first));
                    self.recorder.lay(first.timing.measured, now - at.of(&first));
                    // The first answer of a pipeline woke the thread; the others may have arrived later.
                    at.woken = now;
                    let connection = &self.connections[index];
                    if connection.ends && !connection.under_way.is_empty() {
                        self.fail(
                            index,
                            ErrorCause::ClosedBeforeAnswer,
                            "the server ended the connection",
                            now,
                        );
                        return false;
                    }
                }
                Err(fault) => {
                    self.fail(index, fault.cause, &fault.detail, now);
                    return false;
                }
            }
        }
        true
    }

    /// A complete answer arrived at `now`.
    #[inline]
    pub(super) fn answered(&mut self, index: usize, pending: Pending, answer: Answer, now: Nanos) {
        let plan = &self.shared.compiled.plan;
        let connection = &mut self.connections[index];
        self.under_way -= 1;
        self.gathering.answers += 1;
        if connection.answers > 0 {
            self.recorder.report.connections.reused += 1;
        }
        connection.answers += 1;
        connection.idle_since = now;
        let spent = plan.reuse.left(connection.answers) == 0;
        if !answer.head.keep_alive && !spent && !connection.ends {
            self.recorder.report.connections.closed_by_server += 1;
        }
        connection.ends |= spent || !answer.head.keep_alive;
        let worker = answer.head.worker;
        // Answers of the warm-up do not count, so they do not make a worker known either.
        let measured = pending.timing.measured;
        let worker_is_new = measured && worker != NO_WORKER && connection.worker != Some(worker);
        if worker_is_new {
            connection.worker = Some(worker);
        }
        let wrong = judge(&plan.expect, answer.head.status, connection.reader.body());
        let ending = Ending {
            status: answer.head.status,
            body_bytes: answer.body_bytes,
            interim: answer.interim,
            worker,
            worker_is_new,
            wrong,
        };
        self.recorder.completed(&pending.timing, &ending, now);
        if measured && self.ticks.first_answer.is_none() {
            self.ticks.first_answer = Some((now, answer, self.describe_tls(index)));
        }
    }

    /// Starts the next requests after answers were read.
    #[inline]
    fn go_on(&mut self, index: usize, now: Nanos) {
        let connection = &mut self.connections[index];
        if connection.send_error.is_some() {
            if !connection.under_way.is_empty() {
                return;
            }
            connection.ends = true;
        }
        let room = self.shared.compiled.plan.pipelining > connection.under_way.len();
        if room && connection.stage == Stage::Open && connection.reader.is_at_start() {
            if connection.under_way.is_empty() {
                self.freed(index, now);
            } else {
                self.feed(index, now);
            }
        }
    }

    fn unasked(&mut self, index: usize, bytes: &[u8], now: Nanos) {
        let shown = &bytes[..bytes.len().min(crate::ErrorExample::BYTES_MAX)];
        self.recorder.stray(ErrorCause::UnaskedBytes, &format!("\"{}\"", shown.escape_ascii()), now);
        if self.connections[index].under_way.is_empty() {
            self.leave(index, now, true);
            self.freed(index, now);
        } else {
            self.fail(index, ErrorCause::UnaskedBytes, "", now);
        }
    }

    /// Performs the next step for the connection's state and its requests under way.
    #[inline]
    pub(super) fn advance(&mut self, index: usize, now: Nanos) {
        self.retire_if_ended_but_wanted(index, now);
        let connection = &self.connections[index];
        match connection.stage {
            Stage::Open => self.transmit(index, now),
            Stage::Closed if !connection.under_way.is_empty() => self.connect(index, now),
            Stage::Closed | Stage::Connecting { .. } | Stage::Handshaking { .. } => {}
        }
    }

    fn retire_if_ended_but_wanted(&mut self, index: usize, now: Nanos) {
        let connection = &self.connections[index];
        if connection.ends && connection.stage == Stage::Open {
            self.leave(index, now, false);
        }
    }

    /// Sends the requests that were not sent yet.
    #[inline]
    pub(super) fn transmit(&mut self, index: usize, now: Nanos) {
        let shared = self.shared;
        let connection = &mut self.connections[index];
        let mut unsent = connection.under_way.iter_mut().filter(|pending| pending.timing.sent == 0);
        let Some(first) = unsent.next() else { return };
        first.timing.sent = now;
        let template = &shared.compiled.templates[usize::from(first.timing.request)];
        if first.timing.intended != first.timing.begun {
            self.recorder.slipped(&first.timing, now.saturating_sub(first.timing.intended));
        }
        let plain = connection.tls.is_none() && connection.unsent.is_empty();
        let (fixed, measured, id) =
            (template.fixed.as_ref().filter(|_| plain), first.timing.measured, first.id);
        let second = unsent.next();
        if let (Some(fixed), None) = (fixed, &second) {
            let body = if measured { template.body_bytes(id) } else { 0 };
            self.recorder.sent(measured, fixed.len(), body);
            return self.send_now(index, fixed, now);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        template.write(id, &mut scratch);
        self.recorder.sent(measured, scratch.len(), template.body_bytes(id));
        for pending in second.into_iter().chain(unsent) {
            pending.timing.sent = now;
            let template = &shared.compiled.templates[usize::from(pending.timing.request)];
            let before = scratch.len();
            template.write(pending.id, &mut scratch);
            self.recorder.sent(
                pending.timing.measured,
                scratch.len() - before,
                template.body_bytes(pending.id),
            );
        }
        if self.connections[index].tls.is_some() {
            self.send_encrypted(index, &scratch, now);
        } else {
            self.send_now(index, &scratch, now);
        }
        self.scratch = scratch;
    }

    /// Sends, and keeps the bytes that the socket does not accept.
    #[inline]
    fn send_now(&mut self, index: usize, bytes: &[u8], now: Nanos) {
        let connection = &mut self.connections[index];
        let Some(fd) = connection.fd.as_ref().filter(|_| connection.send_error.is_none()) else { return };
        let result = if connection.unsent.is_empty() { send(fd, bytes, NO_SIGNAL) } else { Ok(0) };
        match result {
            Ok(length) if length == bytes.len() => {}
            Ok(length) => self.keep_unsent(index, &bytes[length..], now),
            Err(Errno::AGAIN) => self.keep_unsent(index, bytes, now),
            Err(error) => self.send_failed(index, error, now),
        }
    }

    fn keep_unsent(&mut self, index: usize, bytes: &[u8], now: Nanos) {
        let connection = &mut self.connections[index];
        connection.unsent.extend_from_slice(bytes);
        if let Err(error) = self.want_write(index) {
            self.send_failed(index, error, now);
        }
    }

    /// Registers for writability; the registration stays for the life of the connection.
    fn want_write(&mut self, index: usize) -> Result<(), Errno> {
        let connection = &mut self.connections[index];
        let Some(fd) = connection.fd.as_ref().filter(|_| !connection.wants_write) else { return Ok(()) };
        let token = u64::from(connection.generation) << 32 | index as u64;
        self.edges.modify(fd, token, true)?;
        connection.wants_write = true;
        Ok(())
    }

    /// The socket is writable again.
    fn send_rest(&mut self, index: usize, now: Nanos) {
        let connection = &mut self.connections[index];
        let Some(fd) = &connection.fd else { return };
        while connection.unsent_from < connection.unsent.len() {
            match send(fd, &connection.unsent[connection.unsent_from..], NO_SIGNAL) {
                Ok(length) => connection.unsent_from += length,
                Err(Errno::AGAIN) => return,
                Err(error) => return self.send_failed(index, error, now),
            }
        }
        connection.unsent.clear();
        connection.unsent_from = 0;
    }

    /// The server accepts no more bytes. The end of receiving tells the cause better: the socket may hold an
    /// answer (such as 413 for a large body), or the connection was idle too long. That event has arrived or
    /// is about to.
    fn send_failed(&mut self, index: usize, error: Errno, now: Nanos) {
        match error {
            Errno::PIPE | Errno::CONNRESET => {
                let connection = &mut self.connections[index];
                connection.send_error.get_or_insert(error);
                connection.unsent = Vec::new();
                connection.unsent_from = 0;
            }
            _ => self.fail(index, ErrorCause::SendFailed, &words(error), now),
        }
    }

    /// The TLS session accepts 64 KiB at a time; each piece is sent, or stays buffered with the connection,
    /// before the next.
    fn send_encrypted(&mut self, index: usize, mut bytes: &[u8], now: Nanos) {
        while !bytes.is_empty() && self.connections[index].send_error.is_none() {
            let Some(session) = &mut self.connections[index].tls else { return };
            match session.writer().write(bytes) {
                Ok(length) if length > 0 => bytes = &bytes[length..],
                _ => return self.fail(index, ErrorCause::TlsBroken, "the session takes no more bytes", now),
            }
            if let Err(error) = self.flush_tls(index) {
                return self.send_failed(index, error, now);
            }
        }
    }

    /// Sends the pending output of the TLS session.
    pub(super) fn flush_tls(&mut self, index: usize) -> Result<(), Errno> {
        let connection = &mut self.connections[index];
        let Some(session) = &mut connection.tls else { return Ok(()) };
        while session.wants_write() {
            // Writing to memory does not fail.
            if session.write_tls(&mut connection.unsent).is_err() {
                break;
            }
        }
        if connection.send_error.is_some() {
            connection.unsent.clear();
        }
        let Some(fd) = &connection.fd else { return Ok(()) };
        while connection.unsent_from < connection.unsent.len() {
            match send(fd, &connection.unsent[connection.unsent_from..], NO_SIGNAL) {
                Ok(length) => connection.unsent_from += length,
                Err(Errno::AGAIN) => return self.want_write(index),
                Err(error) => return Err(error),
            }
        }
        connection.unsent.clear();
        connection.unsent_from = 0;
        Ok(())
    }

    /// Passes bytes from the network to the TLS session, and decrypted bytes to the reader.
    fn decrypt(&mut self, index: usize, mut bytes: &[u8], at: Arrival) {
        let now = at.read;
        let generation = self.connections[index].generation;
        let mut plain = std::mem::take(&mut self.plain);
        plain.resize(PLAIN_BYTES, 0);
        while !bytes.is_empty() && self.connections[index].generation == generation {
            let connection = &mut self.connections[index];
            let handshaking = matches!(connection.stage, Stage::Handshaking { .. });
            let Some(session) = &mut connection.tls else { break };
            let taken = session.read_tls(&mut bytes);
            let processed = session.process_new_packets();
            if let Err(error) = processed {
                // The alert that tells the server the reason.
                let _ = self.flush_tls(index);
                self.fail(index, tls::cause(&error, handshaking), &error.to_string(), now);
                break;
            }
            if !matches!(taken, Ok(length) if length > 0) {
                self.fail(index, ErrorCause::TlsBroken, "more bytes after the end of the session", now);
                break;
            }
            self.after_packets(index, &mut plain, at);
        }
        self.plain = plain;
    }

    fn after_packets(&mut self, index: usize, plain: &mut [u8], at: Arrival) {
        let now = at.read;
        let generation = self.connections[index].generation;
        if let Err(error) = self.flush_tls(index) {
            self.send_failed(index, error, now);
        }
        let connection = &self.connections[index];
        if let (Stage::Handshaking { since }, Some(session)) = (connection.stage, &connection.tls) {
            if session.is_handshaking() {
                return;
            }
            self.opened(index, since, now);
        }
        let mut came = false;
        while self.connections[index].generation == generation {
            let Some(session) = &mut self.connections[index].tls else { return };
            match session.reader().read(plain) {
                // The end arrived with the answer: close the connection before the next request is sent on
                // it.
                Ok(0) if came && self.connections[index].under_way.is_empty() => {
                    self.ended_by_server(index);
                    break;
                }
                Ok(0) => return self.closed(index, None, now),
                Ok(length) => {
                    if !self.read(index, &plain[..length], at) {
                        return;
                    }
                    came = true;
                }
                // No more data for now.
                Err(_) => break,
            }
        }
        if came {
            self.go_on(index, now);
        }
    }

    fn describe_tls(&self, index: usize) -> Option<String> {
        self.connections[index].tls.as_deref().map(tls::describe)
    }
}

/// Why an answer is not the expected one.
#[inline]
pub(crate) fn judge(expect: &Expect, status: u16, body: &[u8]) -> Option<ErrorCause> {
    if !expect.accepts(status) {
        return Some(ErrorCause::UnexpectedStatus);
    }
    let matches = match &expect.body {
        None => true,
        Some(_) if body.len() > Expect::BODY_BYTES_MAX => false,
        Some(BodyCheck::Equals(wanted)) => body == wanted,
        Some(BodyCheck::Contains(wanted)) => memchr::memmem::find(body, wanted).is_some(),
    };
    (!matches).then_some(ErrorCause::UnexpectedBody)
}
