//! One request from start to end.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::ResponseFuture;
use http::HeaderMap;
use http::response::Parts;
use tokio::sync::oneshot;

use super::context::{Context, Started};
use super::fault::Fault;
use super::link::{Link, Talk};
use super::place::ConnectionSlot;
use super::timeout_of;
use super::websocket::Received;
use crate::cause::ErrorCause;
use crate::clock::Nanos;
use crate::http1::INTERIM_MAX;
use crate::http1::engine::{STALE_AFTER, judge, retry_pause};
use crate::plan::{Expect, Reuse};
use crate::recorder::Ending;
use crate::report::facts::FirstResponse;
use crate::workers::NO_WORKER;

/// The status for messages and events, which have none.
const NO_STATUS: u16 = 0;

struct Answer {
    link: Rc<Link>,
    /// `None` for messages and events.
    head: Option<Parts>,
    body_bytes: u64,
    /// The part of the body that is checked.
    body: Vec<u8>,
    interim: u32,
    /// When its last bytes arrived.
    at: Nanos,
}

/// Sends a request within the timeout, and records the result.
pub(super) async fn perform(context: &Rc<Context>, place: &Rc<ConnectionSlot>, mut request: Started) {
    let left = (request.timing.begun + timeout_of(context)).saturating_sub(context.now());
    let outcome =
        tokio::time::timeout(Duration::from_nanos(left), insist(context, place, &mut request)).await;
    match outcome {
        Ok(Ok(answer)) => answered(context, &request, &answer),
        Ok(Err(fault)) => failed(context, &request, &fault),
        Err(_) => timed_out(context, place, &request),
    }
    request.end();
}

/// Tries, and retries once if the server closed an idle connection or says that it did not process the
/// request.
async fn insist(
    context: &Rc<Context>,
    place: &Rc<ConnectionSlot>,
    request: &mut Started,
) -> Result<Answer, Fault> {
    let mut empty_streams = 0;
    loop {
        let link = match place.current() {
            Some(link) => link,
            None => place.link(context).await?,
        };
        let idle_since = link.idle_since.get();
        let mut fault = match exchange(context, place, &link, request).await {
            Ok(answer) => return Ok(answer),
            Err(fault) => fault,
        };
        // As in a browser, the stream continues on a new connection, and the client waits for its next event.
        let goes_on = fault.connection && matches!(link.talk, Talk::Events(_));
        let timing = &mut request.timing;
        if fault.connection {
            if place.leave(context, Some(&link)) {
                context.recorder.borrow_mut().report.connections.closed_by_server += 1;
            }
            // The connection's own error is more specific than that it ended.
            let end = link.end.borrow().clone();
            if let Some(end) =
                end.filter(|end| fault.cause.is_closed_or_reset() && end.cause == ErrorCause::GoAway)
            {
                fault = Fault { untouched: false, ..end };
            }
        }
        if goes_on {
            if link.answers.get() == 0 {
                // A server that ends streams before their first event is retried with a pause.
                empty_streams += 1;
                context.sleep_until(context.now() + retry_pause(empty_streams)).await;
            }
            continue;
        }
        let stale = fault.cause.is_closed_or_reset()
            && timing.first_byte == 0
            && timing.sent.saturating_sub(idle_since) >= STALE_AFTER;
        if request.retried || !(stale || fault.untouched) {
            return Err(fault);
        }
        request.retried = true;
        (timing.sent, timing.first_byte) = (0, 0);
        context.recorder.borrow_mut().report.counts.stale_retries += u64::from(timing.measured);
    }
}

async fn exchange(
    context: &Rc<Context>,
    place: &Rc<ConnectionSlot>,
    link: &Rc<Link>,
    request: &mut Started,
) -> Result<Answer, Fault> {
    let template = &context.templates[usize::from(request.timing.request)];
    let (head, body) =
        template.of(request.id).map_err(|error| Fault::new(ErrorCause::SendFailed, error.to_string()))?;
    let mut sender = match &link.talk {
        Talk::Http2(sender) => sender.clone(),
        Talk::WebSocket(_) => return message(context, place, link, request, body).await,
        Talk::Events(_) => return event(context, link, request).await,
    };
    let lost = |error: h2::Error| Fault::of(&error, false);
    poll_fn(|cx| sender.poll_ready(cx)).await.map_err(lost)?;
    note_sent(context, request);
    request.held_back = link.streams() == 0;
    let (response, mut stream) = sender.send_request(head, body.is_empty()).map_err(lost)?;
    drop(sender);
    note_use(context, place, link);
    let body_bytes = body.len();
    context.recorder.borrow_mut().sent(request.timing.measured, 0, body_bytes);
    if !body.is_empty() {
        stream.send_data(body, true).map_err(lost)?;
    }
    receive(context, link, request, response).await
}

/// Counts a request on a connection, which may be its last one.
fn note_use(context: &Context, place: &Rc<ConnectionSlot>, link: &Rc<Link>) {
    link.sends.set(link.sends.get() + 1);
    let spent = match context.plan().reuse {
        Reuse::Always => false,
        Reuse::Never => true,
        Reuse::Requests(most) => link.sends.get() >= most,
    };
    if spent {
        place.leave(context, Some(link));
    }
}

/// Sends a message and waits for its answer.
async fn message(
    context: &Rc<Context>,
    place: &Rc<ConnectionSlot>,
    link: &Rc<Link>,
    request: &mut Started,
    body: Bytes,
) -> Result<Answer, Fault> {
    let Talk::WebSocket(socket) = &link.talk else { unreachable!("the link is a WebSocket") };
    note_sent(context, request);
    context.recorder.borrow_mut().sent(request.timing.measured, 0, body.len());
    let answer: oneshot::Receiver<Received> = socket.send(body);
    note_use(context, place, link);
    let Received { body, at } = answer.await.map_err(|_| socket.fault())?;
    request.timing.first_byte = at;
    Ok(answer_of(link, body.len() as u64, kept(context, &body), at))
}

/// Waits for the next event. Its time counts from the previous event.
async fn event(context: &Rc<Context>, link: &Rc<Link>, request: &mut Started) -> Result<Answer, Fault> {
    let Talk::Events(events) = &link.talk else { unreachable!("the link is an event stream") };
    if request.timing.sent == 0 {
        note_sent(context, request);
    }
    let event = events.next(context.times.get().start).await?;
    let timing = &mut request.timing;
    // On a new connection the client has waited since the last event of the old connection.
    if link.answers.get() > 0 {
        let since = event.since.min(timing.intended);
        (timing.intended, timing.begun, timing.sent) = (since, since, since);
    }
    timing.first_byte = event.at;
    Ok(answer_of(link, event.bytes, Vec::new(), event.at))
}

/// An answer without a head.
fn answer_of(link: &Rc<Link>, body_bytes: u64, body: Vec<u8>, at: Nanos) -> Answer {
    Answer { link: Rc::clone(link), head: None, body_bytes, body, interim: 0, at }
}

/// The part of a body that is checked.
fn kept(context: &Context, body: &[u8]) -> Vec<u8> {
    if context.plan().expect.body.is_none() {
        return Vec::new();
    }
    body[..body.len().min(Expect::BODY_BYTES_MAX + 1)].to_vec()
}

/// The request is sent now.
fn note_sent(context: &Context, request: &mut Started) {
    let timing = &mut request.timing;
    timing.sent = context.now();
    if timing.intended != timing.begun {
        context.recorder.borrow_mut().slipped(timing, timing.sent.saturating_sub(timing.intended));
    }
}

async fn receive(
    context: &Context,
    link: &Rc<Link>,
    request: &mut Started,
    mut response: ResponseFuture,
) -> Result<Answer, Fault> {
    let mut interim = 0;
    let timing = &mut request.timing;
    let head = poll_fn(|cx| {
        while let Poll::Ready(Some(result)) = response.poll_informational(cx) {
            if let Err(error) = result {
                return Poll::Ready(Err(Fault::of(&error, false)));
            }
            interim += 1;
            if timing.first_byte == 0 {
                timing.first_byte = link.read_at.get();
            }
            if interim > INTERIM_MAX {
                let detail = format!("more than {INTERIM_MAX}");
                return Poll::Ready(Err(Fault::new(ErrorCause::TooManyInterim, detail)));
            }
        }
        Pin::new(&mut response).poll(cx).map_err(|error| Fault::of(&error, interim > 0))
    });
    let (head, mut stream) = head.await?.into_parts();
    if timing.first_byte == 0 {
        timing.first_byte = link.read_at.get().max(timing.sent);
    }
    let mut answer = Answer {
        link: Rc::clone(link),
        head: Some(head),
        body_bytes: 0,
        body: Vec::new(),
        interim,
        at: link.read_at.get(),
    };
    if !stream.is_end_stream() {
        read_body(context, &mut stream, &mut answer).await.map_err(|error| Fault::of(&error, true))?;
        answer.at = link.read_at.get();
    }
    Ok(answer)
}

async fn read_body(context: &Context, stream: &mut RecvStream, answer: &mut Answer) -> Result<(), h2::Error> {
    let keep = context.plan().expect.body.is_some();
    while let Some(bytes) = stream.data().await {
        let bytes = bytes?;
        answer.body_bytes += bytes.len() as u64;
        if keep {
            let room = (Expect::BODY_BYTES_MAX + 1).saturating_sub(answer.body.len());
            answer.body.extend_from_slice(&bytes[..room.min(bytes.len())]);
        }
        stream.flow_control().release_capacity(bytes.len())?;
    }
    stream.trailers().await?;
    Ok(())
}

fn answered(context: &Context, request: &Started, answer: &Answer) {
    let (plan, link, timing) = (context.plan(), &answer.link, &request.timing);
    let at = context.roll(answer.at.max(timing.sent));
    let status = answer.head.as_ref().map_or(NO_STATUS, |head| head.status.as_u16());
    let header = plan.worker_header.as_deref().zip(answer.head.as_ref());
    let header = header.and_then(|(name, head)| head.headers.get(name));
    let worker = header.map_or(NO_WORKER, |value| context.workers.borrow_mut().index(value.as_bytes()));
    // Answers of the warm-up do not count, so they do not make a worker known either.
    let worker_is_new = timing.measured && worker != NO_WORKER && link.worker.get() != Some(worker);
    if worker_is_new {
        link.worker.set(Some(worker));
    }
    let ending = Ending {
        status,
        body_bytes: answer.body_bytes,
        interim: answer.interim,
        worker,
        worker_is_new,
        wrong: judge(&plan.expect, status, &answer.body),
    };
    let mut recorder = context.recorder.borrow_mut();
    if link.answers.get() > 0 {
        recorder.report.connections.reused += 1;
    }
    link.answers.set(link.answers.get().saturating_add(1));
    link.idle_since.set(at);
    recorder.completed(timing, &ending, at);
    let residency = context.now().saturating_sub(at);
    recorder.lay(timing.measured, residency);
    context.meter.borrow_mut().woke(&mut recorder, 1, residency);
    if timing.measured {
        let mut first = context.first_response.borrow_mut();
        first.get_or_insert_with(|| (at, first_response(answer)));
    }
}

fn first_response(answer: &Answer) -> FirstResponse {
    let (status, server, head_bytes, version) = match (&answer.link.talk, &answer.head) {
        (Talk::WebSocket(socket), _) => (101, socket.server.clone(), socket.head_bytes, "WebSocket"),
        (Talk::Events(events), _) => (200, events.server.clone(), events.head_bytes, "HTTP/1.1"),
        (Talk::Http2(_), None) => (NO_STATUS, None, 0, "HTTP/2"),
        (Talk::Http2(_), Some(head)) => {
            let server = head.headers.get(http::header::SERVER);
            let server = server.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
            (head.status.as_u16(), server, head_bytes(&head.headers), "HTTP/2")
        }
    };
    FirstResponse {
        status,
        server,
        head_bytes,
        body_bytes: answer.body_bytes,
        version,
        tls: answer.link.tls.clone(),
        kept_alive: true,
    }
}

/// The size of the head as text; HTTP/2 compresses it.
fn head_bytes(headers: &HeaderMap) -> u64 {
    let lines: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    ("HTTP/2 200 \r\n".len() + lines + 2) as u64
}

fn failed(context: &Context, request: &Started, fault: &Fault) {
    let now = context.roll(context.now());
    context.recorder.borrow_mut().failed(&request.timing, fault.cause, &fault.detail, now);
}

fn timed_out(context: &Context, place: &Rc<ConnectionSlot>, request: &Started) {
    let timing = &request.timing;
    let cause = match (timing.sent, timing.first_byte) {
        (0, _) => ErrorCause::ConnectTimeout,
        (_, 0) => ErrorCause::TimeoutBeforeAnswer,
        _ => ErrorCause::TimeoutInAnswer,
    };
    let current = place.current();
    let held_back = request.held_back && current.as_ref().is_some_and(|link| link.streams() == 0);
    let (cause, detail) = if held_back {
        (ErrorCause::StreamRefused, "the server allows no requests on the connection any more")
    } else {
        (cause, "")
    };
    // Nothing was received in all that time, so the connection counts as dead, not only its stream.
    let is_dead = |link: &Rc<Link>| timing.sent > 0 && link.read_at.get() < timing.sent;
    if let Some(link) = current.filter(|link| held_back || is_dead(link)) {
        place.leave(context, Some(&link));
    }
    let now = context.roll(context.now());
    context.recorder.borrow_mut().failed(timing, cause, detail, now);
}
