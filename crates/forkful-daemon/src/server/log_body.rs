//! The body of `GET /v1/logs`: lines from the engine's channel as JSON, one per line, as they come.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::HttpBody;
use forkful_api::types::LogLine;
use hyper::body::{Bytes, Frame};
use tokio::sync::mpsc;

/// Lines are put together up to this size before they are written, so that a burst costs few writes.
const CHUNK_BYTES: usize = 64 * 1024;

/// Reads from the channel only as fast as the client takes the data. A client that does not lets the
/// bounded channel fill up, and the engine then drops it.
pub(super) struct LogBody(pub(super) mpsc::Receiver<LogLine>);

impl HttpBody for LogBody {
    type Data = Bytes;
    type Error = serde_json::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, serde_json::Error>>> {
        let mut chunk = Vec::new();
        while chunk.len() < CHUNK_BYTES {
            match self.0.poll_recv(context) {
                Poll::Ready(Some(line)) => {
                    serde_json::to_writer(&mut chunk, &line)?;
                    chunk.push(b'\n');
                }
                Poll::Ready(None) if chunk.is_empty() => return Poll::Ready(None),
                Poll::Pending if chunk.is_empty() => return Poll::Pending,
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        Poll::Ready(Some(Ok(Frame::data(chunk.into()))))
    }
}
