//! The body of `GET /v1/events`: events and lines of output as server-sent events, as they come.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::HttpBody;
use forkful_api::conversation::{DaemonEvent, Ending, SkippedEvents};
use hyper::body::{Bytes, Frame};
use tokio::sync::mpsc;

use crate::command::Command;
use crate::events::{Subscription, frame};
use crate::logs::{FollowedLine, LogLines};

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
            match self.logs.as_mut().map(|logs| logs.poll_followed(context)) {
                Some(Poll::Ready(Some(FollowedLine::Skipped(count)))) => {
                    chunk.extend_from_slice(&frame(&DaemonEvent::Skipped(SkippedEvents { count })));
                    idle = false;
                }
                Some(Poll::Ready(Some(FollowedLine::Line(line)))) => {
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

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use forkful_api::conversation::EventsQuery;
    use forkful_api::types::{LogLine, LogStream};

    use super::*;
    use crate::events::Hub;
    use crate::logs::{Chunk, channel_for_tests};

    #[test]
    fn skipped_lines_are_told_also_when_apps_are_chosen() {
        let mut hub = Hub::default();
        let events = hub.subscribe(&EventsQuery { targets: "api".to_owned(), logs: true, messages: false });
        let (lines, receiver) = channel_for_tests(8);
        let line = |app: &str, line: &str| {
            let (app, line) = (app.to_owned(), line.to_owned());
            Chunk::Told(LogLine { app, pm_id: Some(1), stream: LogStream::Out, at_ms: Some(2), line })
        };
        let chunks = [
            line("api", "one"),
            Chunk::Skipped { lines: 7, at_ms: 3 },
            line("other", "two"),
            line("api", "three"),
        ];
        chunks.into_iter().for_each(|chunk| lines.try_send(chunk).unwrap());
        let (commands, engine) = mpsc::channel(1);
        let mut body = Box::pin(EventBody::new(events, Some(receiver), commands));
        // Without an engine the stream ends, after what waits.
        drop((engine, lines, hub));
        let mut context = Context::from_waker(Waker::noop());
        let mut text = String::new();
        while let Poll::Ready(Some(Ok(frame))) = body.as_mut().poll_frame(&mut context) {
            text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        }
        let told: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
        assert_eq!(told, ["log:out", "events:skipped", "log:out", "daemon:ending"]);
        assert!(text.contains("data: {\"count\":7}\n"), "{text}");
    }
}
