//! What a follower receives: whole batches, shared with the writer, that become lines only when they are read.
//!
//! So a line costs nothing on the writer's thread however many follow, and nothing is copied until a client takes it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use forkful_api::types::{LogLine, LogStream};
use tokio::sync::{mpsc, oneshot};

use super::follow::OUR_NAME;
use super::json;
use super::stream::{Batch, StreamInfo, lines_of};

/// How long [`LogLines::begun`] waits. The writer may stand still, in front of a disk that does.
const BEGIN_PATIENCE: Duration = Duration::from_secs(1);

/// A piece of what a follower receives.
#[derive(Debug)]
pub(crate) enum Chunk {
    /// New lines.
    Lines(Arc<Batch>),
    /// Lines that were read back from files, each with its newline.
    Read(ReadBack),
    /// A line as a test wants it.
    #[cfg(test)]
    Told(LogLine),
    /// This number of new lines was skipped here, at this time.
    Skipped { lines: u64, at_ms: u64 },
}

/// What a follower of new lines is given.
#[derive(Debug)]
pub(crate) enum FollowedLine {
    Line(LogLine),
    /// This number of lines was skipped here.
    Skipped(u64),
}

/// Lines of one file.
#[derive(Debug)]
pub(crate) struct ReadBack {
    pub(super) app: String,
    pub(super) pm_id: Option<u32>,
    pub(super) stream: LogStream,
    /// When they were read from the worker, if that is known.
    pub(super) at_ms: Option<u64>,
    pub(super) bytes: Vec<u8>,
}

/// New lines and bytes that wait for one follower.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    lines: AtomicUsize,
    bytes: AtomicUsize,
}

impl Waiting {
    pub(super) fn lines(&self) -> usize {
        self.lines.load(Ordering::Acquire)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    pub(super) fn add(&self, lines: usize, bytes: usize) {
        self.lines.fetch_add(lines, Ordering::AcqRel);
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    pub(super) fn remove(&self, lines: usize, bytes: usize) {
        self.lines.fetch_sub(lines, Ordering::AcqRel);
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// Lines of apps: first those that were read back, then new ones as they come. To end it, drop it.
#[derive(Debug)]
pub struct LogLines {
    back: Option<mpsc::UnboundedReceiver<Chunk>>,
    live: mpsc::Receiver<Chunk>,
    waiting: Arc<Waiting>,
    /// Lines that were taken from a channel and not given yet.
    open: VecDeque<LogLine>,
    /// Done when the writer knows this follower.
    begun: Option<oneshot::Receiver<()>>,
}

/// The other end of [`LogLines`].
#[derive(Debug)]
pub(super) struct LineSenders {
    pub(super) back: mpsc::UnboundedSender<Chunk>,
    pub(super) live: mpsc::Sender<Chunk>,
    pub(super) waiting: Arc<Waiting>,
    /// Dropped when the writer knows this follower.
    pub(super) begun: oneshot::Sender<()>,
}

/// Both ends; `chunks_max` new chunks may wait.
pub(super) fn channel(chunks_max: usize) -> (LineSenders, LogLines) {
    let (back, back_end) = mpsc::unbounded_channel();
    let (live, live_end) = mpsc::channel(chunks_max);
    let waiting = Arc::new(Waiting::default());
    let (begun, begun_end) = oneshot::channel();
    let lines = LogLines {
        back: Some(back_end),
        live: live_end,
        waiting: Arc::clone(&waiting),
        open: VecDeque::new(),
        begun: Some(begun_end),
    };
    (LineSenders { back, live, waiting, begun }, lines)
}

impl LogLines {
    /// Waits until the writer sends each new line here, but at most for [`BEGIN_PATIENCE`]. A client whose request is answered
    /// after that gets all lines that its next request causes.
    pub async fn begun(mut self) -> Self {
        if let Some(begun) = self.begun.take() {
            let _late = tokio::time::timeout(BEGIN_PATIENCE, begun).await;
        }
        self
    }

    /// The next line; `None` at the end.
    pub async fn recv(&mut self) -> Option<LogLine> {
        std::future::poll_fn(|context| self.poll_recv(context)).await
    }

    /// The next line, for threads outside of the runtime.
    pub fn blocking_recv(&mut self) -> Option<LogLine> {
        while self.open.is_empty() {
            let chunk = match &mut self.back {
                Some(back) => back.blocking_recv(),
                None => self.live.blocking_recv(),
            };
            if !self.open_chunk(chunk) {
                return None;
            }
        }
        self.open.pop_front()
    }

    /// As [`Self::recv`], when it is ready.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<LogLine>> {
        while self.open.is_empty() {
            let Poll::Ready(chunk) = self.poll_chunk(context) else { return Poll::Pending };
            if !self.open_chunk(chunk) {
                return Poll::Ready(None);
            }
        }
        Poll::Ready(self.open.pop_front())
    }

    /// As [`Self::poll_recv`], for readers that count skipped lines themselves: no line of our own stands for them.
    pub(crate) fn poll_followed(&mut self, context: &mut Context<'_>) -> Poll<Option<FollowedLine>> {
        while self.open.is_empty() {
            let Poll::Ready(chunk) = self.poll_chunk(context) else { return Poll::Pending };
            if let Some(Chunk::Skipped { lines, .. }) = chunk {
                self.waiting_told();
                return Poll::Ready(Some(FollowedLine::Skipped(lines)));
            }
            if !self.open_chunk(chunk) {
                return Poll::Ready(None);
            }
        }
        Poll::Ready(self.open.pop_front().map(FollowedLine::Line))
    }

    /// The next line if it is there now.
    #[cfg(test)]
    pub(crate) fn try_recv(&mut self) -> Option<LogLine> {
        let mut context = Context::from_waker(std::task::Waker::noop());
        match self.poll_recv(&mut context) {
            Poll::Ready(line) => line,
            Poll::Pending => None,
        }
    }

    /// Nothing more is taken in; what is there is still given.
    pub fn close(&mut self) {
        self.live.close();
    }

    /// Appends lines as JSON, each with a newline, until `out` holds about `bytes` or there are no more at hand. False
    /// at the end of all lines.
    pub(crate) fn poll_json(
        &mut self,
        context: &mut Context<'_>,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Poll<bool> {
        let empty = out.len();
        while out.len() < bytes {
            if let Some(line) = self.open.pop_front() {
                json_of_told(&line, out);
                continue;
            }
            match self.poll_chunk(context) {
                Poll::Ready(Some(chunk)) => self.json_of(chunk, out),
                Poll::Ready(None) => return Poll::Ready(out.len() > empty),
                Poll::Pending if out.len() == empty => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        Poll::Ready(true)
    }

    /// `None` at the end of both channels.
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Chunk>> {
        if let Some(back) = &mut self.back {
            match back.poll_recv(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(chunk)) => return Poll::Ready(Some(chunk)),
                Poll::Ready(None) => self.back = None,
            }
        }
        self.live.poll_recv(context)
    }

    /// Makes lines of a chunk; false at the end.
    fn open_chunk(&mut self, chunk: Option<Chunk>) -> bool {
        match chunk {
            None if self.back.take().is_some() => {}
            None => return false,
            #[cfg(test)]
            Some(Chunk::Told(line)) => {
                self.waiting_told();
                self.open.push_back(line);
            }
            Some(Chunk::Skipped { lines, at_ms }) => {
                self.waiting_told();
                self.open.push_back(notice_of_skipped(lines, at_ms));
            }
            Some(Chunk::Read(read)) => {
                self.open.extend(lines_of(&read.bytes).map(|line| LogLine {
                    app: read.app.clone(),
                    pm_id: read.pm_id,
                    stream: read.stream,
                    at_ms: read.at_ms,
                    line: text(line),
                }));
            }
            Some(Chunk::Lines(batch)) => {
                let line = |line| LogLine {
                    app: batch.stream.app.to_string(),
                    pm_id: Some(batch.stream.pm_id),
                    stream: batch.stream.stream,
                    at_ms: Some(batch.at_ms),
                    line: text(line),
                };
                match batch.stream.style.shown(&batch) {
                    Some(shown) => self.open.extend(lines_of(&shown).map(line)),
                    None => self.open.extend(batch.lines().map(line)),
                }
                self.waiting.remove(batch.line_count() as usize, batch.cost());
            }
        }
        true
    }

    fn waiting_told(&self) {
        self.waiting.remove(1, 0);
    }

    fn json_of(&self, chunk: Chunk, out: &mut Vec<u8>) {
        match chunk {
            #[cfg(test)]
            Chunk::Told(line) => {
                self.waiting_told();
                json_of_told(&line, out);
            }
            Chunk::Skipped { lines, at_ms } => {
                self.waiting_told();
                json_of_told(&notice_of_skipped(lines, at_ms), out);
            }
            Chunk::Read(ReadBack { app, pm_id, stream, at_ms, bytes }) => {
                json_lines(&app, pm_id, stream, at_ms, lines_of(&bytes), out);
            }
            Chunk::Lines(batch) => {
                let StreamInfo { app, pm_id, stream, style, .. } = &*batch.stream;
                let (pm_id, stream, at_ms) = (Some(*pm_id), *stream, Some(batch.at_ms));
                match style.shown(&batch) {
                    Some(shown) => json_lines(app, pm_id, stream, at_ms, lines_of(&shown), out),
                    None => json_lines(app, pm_id, stream, at_ms, batch.lines(), out),
                }
                self.waiting.remove(batch.line_count() as usize, batch.cost());
            }
        }
    }
}

/// The line of our own that stands for skipped lines.
fn notice_of_skipped(lines: u64, at_ms: u64) -> LogLine {
    let noun = if lines == 1 { "line was" } else { "lines were" };
    let line = format!("{lines} {noun} skipped here: they came faster than they were read");
    LogLine { app: OUR_NAME.to_owned(), pm_id: None, stream: LogStream::Err, at_ms: Some(at_ms), line }
}

fn json_of_told(line: &LogLine, out: &mut Vec<u8>) {
    // Writing to a Vec cannot fail, and a line has a JSON form.
    drop(serde_json::to_writer(&mut *out, line));
    out.push(b'\n');
}

/// As `serde_json` writes a [`LogLine`], but what all lines have in common is written once.
fn json_lines<'a>(
    app: &str,
    pm_id: Option<u32>,
    stream: LogStream,
    at_ms: Option<u64>,
    lines: impl Iterator<Item = &'a [u8]>,
    out: &mut Vec<u8>,
) {
    let common = LogLine { app: app.to_owned(), pm_id, stream, at_ms, line: String::new() };
    let Ok(common) = serde_json::to_vec(&common) else { return };
    // The line is the last key: its empty text `""` and `}` are replaced.
    let start = &common[..common.len() - 3];
    for line in lines {
        out.extend_from_slice(start);
        json::string(&line[..line.len() - 1], out);
        out.extend_from_slice(b"}\n");
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len() - 1]).into_owned()
}

/// Both ends, with a channel of that capacity; for tests of code that passes lines on.
#[cfg(test)]
pub(crate) fn channel_for_tests(capacity: usize) -> (mpsc::Sender<Chunk>, LogLines) {
    let (senders, lines) = channel(capacity);
    // Told lines are taken off the account when they are read.
    senders.waiting.add(usize::MAX / 2, 0);
    (senders.live, lines)
}
