//! One request from its beginning to its end.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use h2::RecvStream;
use h2::client::ResponseFuture;
use http::HeaderMap;
use http::response::Parts;

use super::context::{Context, Started};
use super::fault::Fault;
use super::link::Link;
use super::place::Place;
use super::timeout_of;
use crate::cause::ErrorCause;
use crate::clock::Nanos;
use crate::http1::INTERIM_MAX;
use crate::http1::engine::{STALE_AFTER, judge};
use crate::plan::{Expect, Reuse};
use crate::recorder::Ending;
use crate::report::facts::FirstResponse;
use crate::workers::NO_WORKER;

struct Answer {
    link: Rc<Link>,
    head: Parts,
    body_bytes: u64,
    /// As much of it as is looked at.
    body: Vec<u8>,
    interim: u32,
    /// When its last bytes came.
    at: Nanos,
}

/// Sends a request, within the timeout, and counts what came of it.
pub(super) async fn perform(context: &Rc<Context>, place: &Rc<Place>, mut request: Started) {
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

/// Tries, and once more where the server gave up an idle connection, or says that it did not touch the request.
async fn insist(context: &Rc<Context>, place: &Rc<Place>, request: &mut Started) -> Result<Answer, Fault> {
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
        let timing = &mut request.timing;
        if fault.connection {
            if place.leave(context, Some(&link)) {
                context.recorder.borrow_mut().report.connections.closed_by_server += 1;
            }
            // The connection's own end says more than that it ended.
            let end = link.end.borrow().clone();
            if let Some(end) =
                end.filter(|end| fault.cause.is_closed_or_reset() && end.cause == ErrorCause::GoAway)
            {
                fault = Fault { untouched: false, ..end };
            }
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
    place: &Rc<Place>,
    link: &Rc<Link>,
    request: &mut Started,
) -> Result<Answer, Fault> {
    let template = &context.templates[usize::from(request.timing.request)];
    let (head, body) =
        template.of(request.id).map_err(|error| Fault::new(ErrorCause::SendFailed, error.to_string()))?;
    let mut sender = link.sender.clone();
    let lost = |error: h2::Error| Fault::of(&error, false);
    poll_fn(|cx| sender.poll_ready(cx)).await.map_err(lost)?;
    note_sent(context, request);
    request.held_back = link.streams() == 0;
    let (response, mut stream) = sender.send_request(head, body.is_empty()).map_err(lost)?;
    drop(sender);
    link.sends.set(link.sends.get() + 1);
    let spent = match context.plan().reuse {
        Reuse::Always => false,
        Reuse::Never => true,
        Reuse::Requests(most) => link.sends.get() >= most,
    };
    if spent {
        place.leave(context, Some(link));
    }
    let body_bytes = body.len();
    context.recorder.borrow_mut().sent(request.timing.measured, 0, body_bytes);
    if !body.is_empty() {
        stream.send_data(body, true).map_err(lost)?;
    }
    receive(context, link, request, response).await
}

/// The request goes out now.
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
        head,
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
    let status = answer.head.status.as_u16();
    let header = plan.worker_header.as_deref().and_then(|name| answer.head.headers.get(name));
    let worker = header.map_or(NO_WORKER, |value| context.workers.borrow_mut().index(value.as_bytes()));
    let worker_is_new = worker != NO_WORKER && link.worker.get() != Some(worker);
    if worker_is_new {
        link.worker.set(Some(worker));
    }
    let ending = Ending {
        status,
        body_bytes: answer.body_bytes,
        interim: answer.interim,
        worker,
        worker_is_new: worker_is_new && timing.measured,
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
    let server = answer.head.headers.get(http::header::SERVER);
    FirstResponse {
        status: answer.head.status.as_u16(),
        server: server.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()),
        head_bytes: head_bytes(&answer.head.headers),
        body_bytes: answer.body_bytes,
        version: "HTTP/2",
        tls: answer.link.tls.clone(),
        kept_alive: true,
    }
}

/// What the head would be as lines of text: over HTTP/2 it is compressed.
fn head_bytes(headers: &HeaderMap) -> u64 {
    let lines: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    ("HTTP/2 200 \r\n".len() + lines + 2) as u64
}

fn failed(context: &Context, request: &Started, fault: &Fault) {
    let now = context.roll(context.now());
    context.recorder.borrow_mut().failed(&request.timing, fault.cause, &fault.detail, now);
}

fn timed_out(context: &Context, place: &Rc<Place>, request: &Started) {
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
    // Nothing at all came in all that time: the connection is no better than its stream.
    let is_dead = |link: &Rc<Link>| timing.sent > 0 && link.read_at.get() < timing.sent;
    if let Some(link) = current.filter(|link| held_back || is_dead(link)) {
        place.leave(context, Some(&link));
    }
    let now = context.roll(context.now());
    context.recorder.borrow_mut().failed(timing, cause, detail, now);
}
