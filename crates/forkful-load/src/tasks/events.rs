//! A stream of server-sent events (the HTML standard, 9.2) over HTTP/1.1. The stream is requested once; each
//! event answers one waiting request.

pub(super) mod reader;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use httparse::{EMPTY_HEADER, Status};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;

use self::reader::EventBody;
use super::context::Context;
use super::fault::Fault;
use super::wire::{Counted, Fresh};
use crate::cause::{ErrorCause, ErrorExample};
use crate::clock::Nanos;
use crate::http1::HEAD_BYTES_MAX;
use crate::template::headers;

/// Bytes per read.
const READ_BYTES: usize = 16 * 1024;
/// Headers of an answer.
const HEADERS_MAX: usize = 128;
/// Queued events. If a server sends more between two turns of the loop, the rest is counted without times.
const QUEUE_MAX: usize = 100_000;

/// Our side of one stream.
#[derive(Default)]
pub(super) struct EventStream {
    /// Events that no request has taken yet.
    queue: RefCell<VecDeque<Event>>,
    changed: Notify,
    /// When the last event arrived, or the stream was requested.
    last_at: Cell<Nanos>,
    /// The `id` of the last event that had one.
    last_id: RefCell<Option<String>>,
    /// Notified when no more requests follow.
    closed: Notify,
    /// Why the stream has ended.
    end: RefCell<Option<Fault>>,
    pub(super) server: Option<String>,
    pub(super) head_bytes: u64,
}

/// An event that came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) at: Nanos,
    /// When the previous event arrived.
    pub(super) since: Nanos,
    /// Length of its data.
    pub(super) bytes: u64,
}

impl EventStream {
    /// The next event that came at `from` or later.
    pub(super) async fn next(&self, from: Nanos) -> Result<Event, Fault> {
        loop {
            while let Some(event) = self.queue.borrow_mut().pop_front() {
                if event.at >= from {
                    return Ok(event);
                }
            }
            if let Some(fault) = self.end.borrow().clone() {
                return Err(fault);
            }
            self.changed.notified().await;
        }
    }

    /// The last event's `id`, from which the next connection continues.
    pub(super) fn last_id(&self) -> Option<String> {
        self.last_id.borrow().clone()
    }

    pub(super) fn close(&self) {
        self.closed.notify_one();
    }

    fn came(&self, at: Nanos, bytes: u64) {
        let since = self.last_at.replace(at);
        let mut queue = self.queue.borrow_mut();
        if queue.len() < QUEUE_MAX {
            queue.push_back(Event { at, since, bytes });
        }
        self.changed.notify_one();
    }
}

/// Reads one stream.
pub(super) struct EventsDriver {
    io: Counted,
    stream: Rc<EventStream>,
    read_at: Rc<Cell<Nanos>>,
    context: Rc<Context>,
    /// When the stream was requested; `None` after its first event.
    asked: Option<Nanos>,
    body: EventBody,
    /// Bytes received after the head.
    rest: Vec<u8>,
}

/// Requests the stream on a connection.
pub(super) async fn open(
    context: &Rc<Context>,
    mut fresh: Fresh,
    last_event: Option<String>,
) -> Result<(Rc<EventStream>, EventsDriver), Fault> {
    let asked = context.now();
    let lost = |error: std::io::Error| Fault::new(ErrorCause::NoEventStream, error.to_string());
    fresh.io.write_all(&question(context, last_event)).await.map_err(lost)?;
    fresh.io.flush().await.map_err(lost)?;
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(head) = Head::parse(&bytes)? {
            break head;
        }
        if fresh.io.read_buf(&mut bytes).await.map_err(lost)? == 0 {
            return Err(Fault::new(ErrorCause::NoEventStream, "closed before an answer"));
        }
    };
    let rest = bytes.split_off(head.bytes);
    let stream = Rc::new(EventStream {
        last_at: Cell::new(context.now()),
        last_id: RefCell::default(),
        server: head.server,
        head_bytes: head.bytes as u64,
        ..EventStream::default()
    });
    let driver = EventsDriver {
        io: fresh.io,
        stream: Rc::clone(&stream),
        read_at: fresh.read_at,
        context: Rc::clone(context),
        asked: Some(asked),
        body: EventBody::new(head.is_chunked),
        rest,
    };
    Ok((stream, driver))
}

/// The request, as `EventSource` sends it.
fn question(context: &Context, last_event: Option<String>) -> Vec<u8> {
    let plan = context.plan();
    let request = &plan.requests[0];
    let mut text = format!("{} {} HTTP/1.1\r\n", request.method, request.url.path);
    let given = |name: &str| request.headers.iter().any(|(key, _)| key.eq_ignore_ascii_case(name));
    for (name, value) in headers(request, plan) {
        if name != "Accept" || given("accept") {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    if !given("accept") {
        text.push_str("Accept: text/event-stream\r\n");
    }
    if !given("cache-control") {
        text.push_str("Cache-Control: no-store\r\n");
    }
    if let Some(id) = last_event {
        text.push_str(&format!("Last-Event-ID: {id}\r\n"));
    }
    if !request.body.is_empty() {
        text.push_str(&format!("Content-Length: {}\r\n", request.body.len()));
    }
    text.push_str("\r\n");
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(&request.body);
    bytes
}

/// The head of an event-stream answer.
pub(super) struct Head {
    pub(super) bytes: usize,
    pub(super) is_chunked: bool,
    server: Option<String>,
}

impl Head {
    /// Parses the head; `None` if it is incomplete.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<Self>, Fault> {
        let refused = |detail: String| Fault::new(ErrorCause::NoEventStream, detail);
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        let length = match response.parse(bytes) {
            Ok(Status::Complete(length)) => length,
            Ok(Status::Partial) if bytes.len() > HEAD_BYTES_MAX => {
                return Err(Fault::new(
                    ErrorCause::HeadTooLarge,
                    format!("more than {HEAD_BYTES_MAX} bytes"),
                ));
            }
            Ok(Status::Partial) => return Ok(None),
            Err(error) => {
                let shown = bytes[..bytes.len().min(ErrorExample::BYTES_MAX)].escape_ascii();
                return Err(Fault::new(ErrorCause::NotHttp, format!("{error}; it begins with \"{shown}\"")));
            }
        };
        let value = |name: &str| {
            let found = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
            found.map(|header| String::from_utf8_lossy(header.value).trim().to_owned())
        };
        match response.code {
            Some(200) => {}
            code => return Err(refused(format!("status {}", code.unwrap_or(0)))),
        }
        let kind = value("content-type").unwrap_or_default();
        if !kind.to_ascii_lowercase().starts_with("text/event-stream") {
            return Err(refused(format!("the content type is `{kind}`")));
        }
        let is_chunked =
            value("transfer-encoding").is_some_and(|coding| coding.to_ascii_lowercase().contains("chunked"));
        Ok(Some(Self { bytes: length, is_chunked, server: value("server") }))
    }
}

impl EventsDriver {
    pub(super) async fn drive(mut self) -> Result<(), Fault> {
        let stream = Rc::clone(&self.stream);
        let fault = self.read().await.unwrap_or_else(|fault| fault);
        let fault = Fault { connection: true, ..fault };
        stream.end.borrow_mut().get_or_insert(fault.clone());
        stream.changed.notify_one();
        Err(fault)
    }

    /// Reads until the end. Returns why the stream ended.
    async fn read(&mut self) -> Result<Fault, Fault> {
        let rest = std::mem::take(&mut self.rest);
        let mut done = self.take(&rest)?;
        let mut buffer = vec![0; READ_BYTES];
        while !done {
            let stream = Rc::clone(&self.stream);
            let read = tokio::select! {
                read = self.io.read(&mut buffer) => read,
                () = stream.closed.notified() => Ok(0),
            };
            match read {
                Ok(0) => break,
                Ok(length) => done = self.take(&buffer[..length])?,
                Err(error) => return Err(Fault::new(ErrorCause::ResetInAnswer, error.to_string())),
            }
        }
        Ok(Fault::new(ErrorCause::ClosedInAnswer, "the server ended the stream"))
    }

    /// Reads bytes of the body. Returns whether the body has ended.
    fn take(&mut self, bytes: &[u8]) -> Result<bool, Fault> {
        let Self { stream, context, asked, body, .. } = self;
        let at = self.read_at.get();
        body.read(bytes, &mut |length, id| {
            if let Some(id) = id {
                stream.last_id.replace(Some(id.to_owned()));
            }
            if let Some(asked) = asked.take() {
                context.recorder.borrow_mut().report.messages.first_event(at.saturating_sub(asked));
            }
            stream.came(at, length);
        })
    }
}
