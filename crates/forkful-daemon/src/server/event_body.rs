//! The body of `GET /v1/events`: events and lines of output as server-sent events, as they come.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::HttpBody;
use forkful_api::conversation::{DaemonEvent, Ending};
use hyper::body::{Bytes, Frame};
use tokio::sync::mpsc;

use crate::command::Command;
use crate::events::{Subscription, frame};
use crate::logs::LogLines;

/// Frames are put together up to this size before they are written, so that a burst costs few writes.
const CHUNK_BYTES: usize = 64 * 1024;

/// Begins the stream, so that a client knows at once that it is there.
const HELLO: &[u8] = b": forkful\n\n";

/// Reads only as fast as the client takes the data; the queues behind it are bounded and leave out what does
/// not fit.
pub(super) struct EventBody {
    events: Subscription,
    logs: Option<LogLines>,
    /// Done when the engine has ended; gone then.
    ended: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    stage: Stage,
}

#[derive(PartialEq, Eq)]
enum Stage {
    Hello,
    Open,
    Ended,
}

impl EventBody {
    pub(super) fn new(events: Subscription, logs: Option<LogLines>, commands: mpsc::Sender<Command>) -> Self {
        let ended: Pin<Box<dyn Future<Output = ()> + Send>> =
            Box::pin(async move { commands.closed().await });
        Self { events, logs, ended: Some(ended), stage: Stage::Hello }
    }

    /// Takes what is there; says whether the stream of events has ended.
    fn fill(&mut self, chunk: &mut Vec<u8>, context: &mut Context<'_>) -> bool {
        let mut ended = false;
        let mut idle = false;
        while !idle && chunk.len() < CHUNK_BYTES {
            idle = true;
            match self.events.poll_next(context) {
                Poll::Ready(Some(frame)) => {
                    chunk.extend_from_slice(&frame);
                    idle = false;
                }
                Poll::Ready(None) => ended = true,
                Poll::Pending => {}
            }
            match self.logs.as_mut().map(|logs| logs.poll_recv(context)) {
                Some(Poll::Ready(Some(line))) => {
                    if self.events.wants(&line.app, line.pm_id) {
                        chunk.extend_from_slice(&frame(&DaemonEvent::Log(line)));
                    }
                    idle = false;
                }
                Some(Poll::Ready(None)) => self.logs = None,
                Some(Poll::Pending) | None => {}
            }
        }
        ended && self.logs.is_none()
    }
}

impl HttpBody for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let mut chunk = Vec::new();
        match self.stage {
            Stage::Hello => {
                self.stage = Stage::Open;
                chunk.extend_from_slice(HELLO);
            }
            Stage::Open => {}
            Stage::Ended => return Poll::Ready(None),
        }
        if self.ended.as_mut().is_some_and(|ended| ended.as_mut().poll(context).is_ready()) {
            self.ended = None;
            // What waits is still delivered.
            self.events.close();
            if let Some(logs) = &mut self.logs {
                logs.close();
            }
        }
        if self.fill(&mut chunk, context) {
            self.stage = Stage::Ended;
            let at_ms = forkful_os::wall_clock::now_ms();
            chunk.extend_from_slice(&frame(&DaemonEvent::Ending(Ending { at_ms })));
        }
        if chunk.is_empty() { Poll::Pending } else { Poll::Ready(Some(Ok(Frame::data(chunk.into())))) }
    }
}
