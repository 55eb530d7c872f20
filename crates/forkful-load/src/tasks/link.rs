//! One connection (HTTP/2, WebSocket or event stream), and the state common to all protocols.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use h2::client::{Builder, Connection, SendRequest};

use super::context::Context;
use super::events::{EventStream, EventsDriver};
use super::fault::Fault;
use super::websocket::{Socket, SocketDriver};
use super::wire::{Counted, Fresh, connect};
use crate::cause::ErrorCause;
use crate::clock::Nanos;
use crate::http1::HEAD_BYTES_MAX;
use crate::plan::HttpVersion;

/// Flow-control windows of a stream and of a connection: large enough that the server never waits for us,
/// small enough for bodies that are discarded as they arrive.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;
/// How much overhead of small frames the library accepts before it treats it as an attack; we read frames at
/// once.
const FRAME_BUDGET: usize = 64 << 20;

/// A connection that is ready for requests.
pub(super) struct Link {
    pub(super) talk: Talk,
    /// When bytes last arrived.
    pub(super) read_at: Rc<Cell<Nanos>>,
    /// Requests sent on it.
    pub(super) sends: Cell<u32>,
    pub(super) answers: Cell<u32>,
    /// When it was made or last had an answer.
    pub(super) idle_since: Cell<Nanos>,
    /// The worker that answered last.
    pub(super) worker: Cell<Option<u16>>,
    /// Version and cipher suite.
    pub(super) tls: Option<String>,
    pub(super) end: RefCell<Option<Fault>>,
}

/// The protocol on it.
pub(super) enum Talk {
    /// The server's settings have arrived.
    Http2(SendRequest<Bytes>),
    WebSocket(Rc<Socket>),
    Events(Rc<EventStream>),
}

/// Moves a connection's bytes; ends with the connection.
pub(super) enum Driver {
    Http2(Box<Connection<Counted, Bytes>>),
    WebSocket(Box<SocketDriver>),
    Events(Box<EventsDriver>),
}

impl Link {
    /// The number of requests that it may have under way.
    pub(super) fn streams(&self) -> usize {
        match &self.talk {
            Talk::Http2(sender) => sender.current_max_send_streams(),
            Talk::WebSocket(_) => usize::MAX,
            Talk::Events(_) => 1,
        }
    }

    /// Stops new requests on it.
    pub(super) fn let_go(&self) {
        match &self.talk {
            Talk::Http2(_) => {}
            Talk::WebSocket(socket) => socket.close(),
            Talk::Events(events) => events.close(),
        }
    }

    /// Opens a connection: address, TLS, and the protocol's handshake. The returned driver must be polled for
    /// anything to happen. An event stream continues after `last_event`.
    pub(super) async fn open(
        context: &Rc<Context>,
        last_event: Option<String>,
    ) -> Result<(Self, Driver), Fault> {
        let fresh = connect(context).await?;
        let (read_at, tls) = (Rc::clone(&fresh.read_at), fresh.tls.clone());
        let (talk, driver) = match context.plan().http {
            HttpVersion::WebSocket => {
                let (socket, driver) = super::websocket::open(context, fresh).await?;
                (Talk::WebSocket(socket), Driver::WebSocket(Box::new(driver)))
            }
            HttpVersion::EventStream => {
                let (events, driver) = super::events::open(context, fresh, last_event).await?;
                (Talk::Events(events), Driver::Events(Box::new(driver)))
            }
            HttpVersion::Http10 | HttpVersion::Http11 | HttpVersion::Http2 => {
                let (sender, connection) = http2(fresh).await?;
                (Talk::Http2(sender), Driver::Http2(Box::new(connection)))
            }
        };
        let link = Self {
            talk,
            read_at,
            sends: Cell::new(0),
            answers: Cell::new(0),
            idle_since: Cell::new(context.now()),
            worker: Cell::new(None),
            tls,
            end: RefCell::new(None),
        };
        Ok((link, driver))
    }
}

/// An HTTP/2 connection whose settings have arrived.
async fn http2(fresh: Fresh) -> Result<(SendRequest<Bytes>, Connection<Counted, Bytes>), Fault> {
    let Fresh { io, first, .. } = fresh;
    let handshake = builder().handshake(io).await;
    let answered = || match first.get() {
        first if first.starts_with(b"HTTP/1.") => "it answers with HTTP/1",
        _ => "",
    };
    let (sender, mut connection) = handshake.map_err(|error| Fault::before_settings(&error, answered()))?;
    // No stream is allowed before the settings arrive.
    let settled = poll_fn(|cx| match Pin::new(&mut connection).poll(cx) {
        Poll::Ready(Err(error)) => Poll::Ready(Err(Fault::before_settings(&error, answered()))),
        Poll::Ready(Ok(())) => {
            Poll::Ready(Err(Fault::new(ErrorCause::NoHttp2, "closed before its settings came")))
        }
        Poll::Pending if sender.current_max_send_streams() > 0 => Poll::Ready(Ok(())),
        Poll::Pending => Poll::Pending,
    });
    settled.await?;
    Ok((sender, connection))
}

/// The HTTP/2 settings for the server.
pub(super) fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .initial_max_send_streams(0)
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .data_frame_budget(FRAME_BUDGET);
    builder
}

impl Driver {
    pub(super) async fn drive(self) -> Result<(), Fault> {
        match self {
            Self::Http2(connection) => connection.await.map_err(|error| Fault::of(&error, false)),
            Self::WebSocket(driver) => driver.drive().await,
            Self::Events(driver) => driver.drive().await,
        }
    }
}
