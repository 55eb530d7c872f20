//! The body of `GET /v1/logs`: lines from the engine's channel as JSON, one per line, as they come.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::HttpBody;
use hyper::body::{Bytes, Frame};
use tokio::sync::mpsc;

use crate::command::Command;
use crate::logs::LogLines;

/// Lines are put together up to this size before they are written, so that a burst costs few writes.
const CHUNK_BYTES: usize = 64 * 1024;

/// Reads from the channel only as fast as the client takes the data. A client that does not lets the
/// bounded channel fill up, and the engine then drops it.
pub(super) struct LogBody {
    lines: LogLines,
    /// Done when the engine has ended, so that nobody who follows keeps the daemon from ending; gone then.
    ended: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl LogBody {
    pub(super) fn new(lines: LogLines, commands: mpsc::Sender<Command>) -> Self {
        Self { lines, ended: Some(Box::pin(async move { commands.closed().await })) }
    }
}

impl HttpBody for LogBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let mut chunk = Vec::new();
        if self.ended.as_mut().is_some_and(|ended| ended.as_mut().poll(context).is_ready()) {
            self.ended = None;
            // Lines that are in the channel are still delivered.
            self.lines.close();
        }
        match self.lines.poll_json(context, CHUNK_BYTES, &mut chunk) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(false) => return Poll::Ready(None),
            Poll::Ready(true) => {}
        }
        Poll::Ready(Some(Ok(Frame::data(chunk.into()))))
    }
}
