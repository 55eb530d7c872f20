//! `POST /v1/profile`: what a worker's agent writes into a socket goes to the client as it comes. The worker is not trusted: what it writes has bounds
//! in size and time, and what is no stream of a profile ends the reply.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use forkful_api::profile::{ProfileKind, ProfileRequest, SNAPSHOT_BYTES_MAX};
use forkful_api::types::{ErrorCode, ErrorReply};
use forkful_cluster::protocol::profile::{Piece, ProfileDecoder};
use forkful_core::pages::Page;
use forkful_core::profile::BYTES_MAX;
use hyper::body::{Bytes, Frame};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, Sleep, sleep};

use super::refusal::{Json, Refusal};
use super::routes::Api;
use crate::command::{Command, Talk};

/// Profiles under way at once, of all workers.
static UNDER_WAY: Semaphore = Semaphore::const_new(8);

/// A worker may take so long to begin: its event loop may stand still, and V8 builds all of a heap snapshot before it hands out the first piece.
const FIRST_PATIENCE: Duration = Duration::from_secs(120);
/// A worker that has begun to write may pause for so long.
const NEXT_PATIENCE: Duration = Duration::from_secs(60);
/// What is read at once.
const CHUNK_BYTES: usize = 64 * 1024;

pub(super) async fn take(
    State(api): State<Api>,
    Json(request): Json<ProfileRequest>,
) -> Result<Response, Refusal> {
    request.order().map_err(Refusal::bad_request)?;
    let permit = UNDER_WAY.try_acquire().map_err(|_| conflict("too many profiles are under way", None))?;
    let (bytes_max, takes) = match request.kind {
        ProfileKind::Cpu => (BYTES_MAX as u64, Duration::from_millis(request.for_ms)),
        ProfileKind::Heap => (SNAPSHOT_BYTES_MAX, Duration::ZERO),
    };
    let socket = api.ask(|reply| Command::Talk(Talk::Profile { request, reply })).await?;
    let fault = |error: std::io::Error| Refusal::internal(error.to_string());
    let socket = std::os::unix::net::UnixStream::from(socket);
    let stream = UnixStream::from_std(socket).map_err(fault)?;
    let mut body = ProfileBody {
        stream,
        decoder: ProfileDecoder::default(),
        read: Vec::new(),
        taken: 0,
        bytes_left: bytes_max,
        first: None,
        patience: Box::pin(sleep(takes + FIRST_PATIENCE)),
        ended: Box::pin(async move { api.commands.closed().await }),
        is_over: false,
        _permit: permit,
    };
    body.first = std::future::poll_fn(|context| body.poll_data(context)).await.map_err(|fault| match fault {
        Fault::Refused(reason) => conflict(&format!("the worker takes no profile: {reason}"), None),
        Fault::Silent => {
            let hint = "an agent of an older version takes none: `forkful reload` the app; `forkful stalls` tells whether its event loop stands still";
            conflict("the worker did not answer in time", Some(hint))
        }
        other => conflict(&other.to_string(), None),
    })?;
    let head = [(header::CONTENT_TYPE, "application/octet-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((head, Body::new(body)).into_response())
}

fn conflict(error: &str, hint: Option<&str>) -> Refusal {
    Refusal(ErrorReply::new(ErrorCode::Conflict, error, hint.map(|hint| Page::Profiles.hint(hint))))
}

/// Why a profile is not complete.
#[derive(Debug)]
enum Fault {
    Refused(String),
    Silent,
    Ended,
    NotOurs(String),
    TooLarge,
    Leaving,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(reason) => write!(f, "{reason}"),
            Self::Silent => write!(f, "the worker stopped to write its profile"),
            Self::Ended => write!(f, "the worker ended before its profile was complete"),
            Self::NotOurs(what) => write!(f, "{what}"),
            Self::TooLarge => write!(f, "the profile is too large"),
            Self::Leaving => write!(f, "the daemon is ending"),
        }
    }
}

impl std::error::Error for Fault {}

/// Reads only as fast as the client takes the data; a worker that writes a heap snapshot waits meanwhile.
struct ProfileBody {
    stream: UnixStream,
    decoder: ProfileDecoder,
    /// What was read last, and how much of it was handed on.
    read: Vec<u8>,
    taken: usize,
    bytes_left: u64,
    /// The first piece, read before the reply began.
    first: Option<Bytes>,
    patience: Pin<Box<Sleep>>,
    /// Done when the engine has ended.
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
    is_over: bool,
    _permit: SemaphorePermit<'static>,
}

impl ProfileBody {
    /// The next bytes of the profile; `None` when it is complete.
    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Fault>> {
        if self.is_over {
            return Poll::Ready(Ok(None));
        }
        if self.ended.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(Fault::Leaving));
        }
        loop {
            let mut rest = &self.read[self.taken..];
            let piece = self.decoder.next(&mut rest).map_err(|fault| Fault::NotOurs(fault.to_string()))?;
            self.taken = self.read.len() - rest.len();
            match piece {
                Piece::Data(data) => {
                    self.bytes_left =
                        self.bytes_left.checked_sub(data.len() as u64).ok_or(Fault::TooLarge)?;
                    return Poll::Ready(Ok(Some(Bytes::copy_from_slice(data))));
                }
                Piece::End => {
                    self.is_over = true;
                    return Poll::Ready(Ok(None));
                }
                Piece::Refused(reason) => return Poll::Ready(Err(Fault::Refused(reason))),
                Piece::More => ready!(self.poll_read(context))?,
            }
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        self.read.resize(CHUNK_BYTES, 0);
        self.taken = self.read.len();
        let mut buffer = ReadBuf::new(&mut self.read);
        let polled = Pin::new(&mut self.stream).poll_read(context, &mut buffer);
        let filled = buffer.filled().len();
        match polled {
            Poll::Ready(Ok(())) if filled > 0 => {
                self.read.truncate(filled);
                self.taken = 0;
                self.patience.as_mut().reset(Instant::now() + NEXT_PATIENCE);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Ok(()) | Err(_)) => Poll::Ready(Err(Fault::Ended)),
            Poll::Pending => {
                ready!(self.patience.as_mut().poll(context));
                Poll::Ready(Err(Fault::Silent))
            }
        }
    }
}

impl HttpBody for ProfileBody {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        let data = match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => ready!(self.poll_data(context)),
        };
        Poll::Ready(data.map(|data| data.map(Frame::data)).transpose())
    }
}
