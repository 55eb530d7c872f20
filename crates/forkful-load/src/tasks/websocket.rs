//! A WebSocket: messages are sent in order, and each received message answers the oldest message without an
//! answer. A message received while none is waiting is unsolicited and counted as such.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _, future};
use http::header::{CONNECTION, HeaderName, HeaderValue, UPGRADE};
use tokio::sync::{Notify, oneshot};
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::client::{Response, generate_key};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::context::Context;
use super::fault::Fault;
use super::wire::{Counted, Fresh};
use crate::LoadError;
use crate::cause::ErrorCause;
use crate::clock::Nanos;
use crate::plan::{Plan, Request};
use crate::template::headers;

/// Codes of RFC 6455, 7.4.1 for a close frame without a code, and for no close frame.
const NO_CODE: u16 = 1005;
const NO_FRAME: u16 = 1006;
/// How long closing may take once nothing more is sent.
const CLOSING_MAX: Duration = Duration::from_secs(1);

/// Our side of one socket.
#[derive(Default)]
pub(super) struct Socket {
    outgoing: RefCell<VecDeque<Message>>,
    /// Messages without an answer, oldest first; a dropped receiver means that the request timed out.
    waiting: RefCell<VecDeque<oneshot::Sender<Received>>>,
    /// Notified when there is something to send, or the socket should close.
    changed: Notify,
    closing: Cell<bool>,
    /// Notified when the socket should close, to limit the time for it.
    left: Notify,
    /// Why the socket has ended.
    end: RefCell<Option<Fault>>,
    /// The `Server` header of the handshake, and the length of its head.
    pub(super) server: Option<String>,
    pub(super) head_bytes: u64,
}

/// A received message.
pub(super) struct Received {
    pub(super) body: Bytes,
    pub(super) at: Nanos,
}

impl Socket {
    /// Sends a message; the returned receiver gets its answer.
    pub(super) fn send(&self, body: Bytes) -> oneshot::Receiver<Received> {
        let (sender, receiver) = oneshot::channel();
        if self.end.borrow().is_none() {
            let message = match String::from_utf8(body.to_vec()) {
                Ok(text) => Message::text(text),
                Err(_) => Message::binary(body),
            };
            self.outgoing.borrow_mut().push_back(message);
            self.waiting.borrow_mut().push_back(sender);
            self.changed.notify_one();
        }
        receiver
    }

    /// Why a message will not get an answer.
    pub(super) fn fault(&self) -> Fault {
        let closed = || Fault { connection: true, ..Fault::new(ErrorCause::SocketClosed, "") };
        self.end.borrow().clone().unwrap_or_else(closed)
    }

    /// No message follows: the socket closes once all messages have their answers.
    pub(super) fn close(&self) {
        self.closing.set(true);
        self.changed.notify_one();
        self.left.notify_one();
    }

    fn ended(&self, fault: Fault) {
        self.end.borrow_mut().get_or_insert(fault);
        self.outgoing.borrow_mut().clear();
        self.waiting.borrow_mut().clear();
    }
}

/// Moves the bytes of one socket.
pub(super) struct SocketDriver {
    stream: WebSocketStream<Counted>,
    socket: Rc<Socket>,
    context: Rc<Context>,
    read_at: Rc<Cell<Nanos>>,
}

/// Opens a WebSocket on a connection.
pub(super) async fn open(context: &Rc<Context>, fresh: Fresh) -> Result<(Rc<Socket>, SocketDriver), Fault> {
    let request = &context.plan().requests[0];
    let upgrade = upgrade(request, context.plan()).expect("the request was built before the run");
    let (stream, response) = client_async(upgrade, fresh.io).await.map_err(|error| refused(&error))?;
    let socket = Rc::new(Socket {
        server: header(&response, &http::header::SERVER),
        head_bytes: head_bytes(&response),
        ..Socket::default()
    });
    let driver = SocketDriver {
        stream,
        socket: Rc::clone(&socket),
        context: Rc::clone(context),
        read_at: fresh.read_at,
    };
    Ok((socket, driver))
}

/// The upgrade request.
fn upgrade(request: &Request, plan: &Plan) -> Result<http::Request<()>, http::Error> {
    let mut built = http::Request::get(format!("{}{}", request.url.origin(), request.url.path))
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", generate_key());
    let is_ours = |name: &str| {
        ["connection", "upgrade", "sec-websocket-version", "sec-websocket-key", "accept"]
            .iter()
            .any(|own| name.eq_ignore_ascii_case(own))
    };
    for (name, value) in headers(request, plan).into_iter().filter(|(name, _)| !is_ours(name)) {
        built = built.header(HeaderName::from_bytes(name.as_bytes())?, HeaderValue::from_str(&value)?);
    }
    built.body(())
}

/// Refuses what an upgrade request does not support, before the run.
pub(super) fn check(request: &Request, plan: &Plan) -> Result<(), LoadError> {
    let refused = |reason: String| Err(LoadError::Plan { field: "WebSocket", reason });
    if !request.url.socket {
        return refused(format!("needs a URL that begins with ws:// or wss://, not {}", request.url));
    }
    if request.method != "GET" {
        return refused(format!("handshakes use GET, not {}", request.method));
    }
    if let Err(error) = upgrade(request, plan) {
        return refused(format!("cannot ask for {}: {error}", request.url));
    }
    Ok(())
}

fn header(response: &Response, name: &HeaderName) -> Option<String> {
    response.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn head_bytes(response: &Response) -> u64 {
    let lines: usize =
        response.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    ("HTTP/1.1 101 Switching Protocols\r\n".len() + lines + 2) as u64
}

/// Why the server refused the WebSocket.
fn refused(error: &Error) -> Fault {
    match error {
        Error::Io(error) => Fault::new(ErrorCause::NoWebSocket, error.to_string()),
        Error::Http(response) => {
            Fault::new(ErrorCause::NoWebSocket, format!("status {}", response.status().as_u16()))
        }
        other => Fault::new(ErrorCause::NoWebSocket, other.to_string()),
    }
}

impl SocketDriver {
    pub(super) async fn drive(self) -> Result<(), Fault> {
        let Self { stream, socket, context, read_at } = self;
        let (mut sink, mut incoming) = stream.split();
        let mut receiving = Box::pin(receive(&mut incoming, &socket, &context, &read_at));
        // By then each message has its answer or has timed out.
        let patience = context.plan().timeout.saturating_add(CLOSING_MAX);
        let overdue = async {
            socket.left.notified().await;
            tokio::time::sleep(patience).await;
        };
        let ended = tokio::select! {
            biased;
            received = &mut receiving => received,
            // The code of a close frame, which may have arrived meanwhile, is more specific than a failed
            // send.
            error = send(&mut sink, &socket) => {
                tokio::time::timeout(CLOSING_MAX, &mut receiving).await.unwrap_or(Err(error))
            }
            () = overdue => Ok(None),
        };
        drop(receiving);
        end(&socket, &context, ended)
    }
}

/// Sends queued messages, and closes the socket once no answer is pending. Returns only on an error.
async fn send(sink: &mut SplitSink<WebSocketStream<Counted>, Message>, socket: &Socket) -> Error {
    loop {
        let next = socket.outgoing.borrow_mut().pop_front();
        let sent = match next {
            Some(message) => sink.feed(message).await,
            None if socket.closing.get() && socket.waiting.borrow().is_empty() => match sink.close().await {
                // The server answers with its own close frame, which ends the other half.
                Ok(()) => future::pending().await,
                Err(error) => Err(error),
            },
            None => match sink.flush().await {
                Ok(()) => {
                    socket.changed.notified().await;
                    Ok(())
                }
                Err(error) => Err(error),
            },
        };
        if let Err(error) = sent {
            return error;
        }
    }
}

/// Receives messages until the server ends the socket. Returns the code of its close frame.
async fn receive(
    incoming: &mut SplitStream<WebSocketStream<Counted>>,
    socket: &Socket,
    context: &Context,
    read_at: &Cell<Nanos>,
) -> Result<Option<u16>, Error> {
    let mut code = None;
    while let Some(message) = incoming.next().await {
        match message {
            Ok(Message::Text(text)) => take(socket, context, Bytes::from(text), read_at.get()),
            Ok(Message::Binary(body)) => take(socket, context, body, read_at.get()),
            Ok(Message::Close(frame)) => code = Some(frame.map_or(NO_CODE, |frame| frame.code.into())),
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
            // Servers may reset a connection after sending the close frame.
            Err(_) if code.is_some() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(code)
}

/// Handles a received message.
fn take(socket: &Socket, context: &Context, body: Bytes, at: Nanos) {
    match socket.waiting.borrow_mut().pop_front() {
        // The request may have timed out.
        Some(sender) => drop(sender.send(Received { body, at })),
        None => {
            let measured = context.is_measured(at);
            context.recorder.borrow_mut().report.messages.unasked += u64::from(measured);
        }
    }
    if socket.closing.get() {
        socket.changed.notify_one();
    }
}

/// Handles the end of the socket, with the code of the server's close frame.
fn end(socket: &Socket, context: &Context, ended: Result<Option<u16>, Error>) -> Result<(), Fault> {
    let (cause, detail, code) = match &ended {
        Ok(code) => (ErrorCause::SocketClosed, String::new(), code.unwrap_or(NO_FRAME)),
        Err(Error::ConnectionClosed | Error::AlreadyClosed) => {
            (ErrorCause::SocketClosed, String::new(), NO_CODE)
        }
        Err(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => {
            (ErrorCause::SocketClosed, String::new(), NO_FRAME)
        }
        Err(Error::Io(error)) => (ErrorCause::SocketClosed, error.to_string(), NO_FRAME),
        Err(other) => (ErrorCause::SocketProtocol, other.to_string(), NO_FRAME),
    };
    let told = if detail.is_empty() { format!("close code {code}") } else { format!("{detail} ({code})") };
    let fault = Fault { connection: true, ..Fault::new(cause, told) };
    if !socket.closing.get() && context.is_measured(context.now()) {
        context.recorder.borrow_mut().report.messages.closed_with(code);
    }
    socket.ended(fault.clone());
    if ended.is_ok() { Ok(()) } else { Err(fault) }
}
