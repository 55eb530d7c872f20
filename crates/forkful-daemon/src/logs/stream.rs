//! One stream of one process: what the engine says about it, and what is counted.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use forkful_api::types::LogStream;
use forkful_core::logs::LogRotation;
use forkful_core::slot::Generation;

use super::careful::Receipt;
use super::echo::EchoPrefix;
use super::style::LineStyle;

/// Where a worker's stdout or stderr goes.
#[derive(Debug, Clone)]
pub struct StreamSpec {
    /// The app's name, for followers.
    pub app: String,
    pub pm_id: u32,
    /// Which of the worker's processes.
    pub process: Generation,
    /// Which of its two streams.
    pub stream: LogStream,
    /// The files that lines are appended to, each of them to all. Several streams may name the same one.
    pub paths: Vec<PathBuf>,
    /// How lines look in the files and in the echo.
    pub style: LineStyle,
    /// When the files are set aside, and what is kept; the last stream that begins decides for a file.
    pub rotation: Option<LogRotation>,
    /// Write each line to the stream of the same name of this process too.
    pub echo: Option<EchoPrefix>,
}

/// What both threads know of a stream.
#[derive(Debug)]
pub(crate) struct StreamInfo {
    pub(super) app: Box<str>,
    pub(super) pm_id: u32,
    pub(super) process: Generation,
    pub(super) stream: LogStream,
    /// Shared with the table of files, for there are many of these.
    pub(super) paths: Box<[Arc<Path>]>,
    pub(super) style: LineStyle,
    pub(super) rotation: Option<LogRotation>,
    pub(super) echo: Option<EchoPrefix>,
    pub(super) counters: Arc<Counters>,
}

impl StreamInfo {
    pub(super) fn new(spec: StreamSpec, counters: Arc<Counters>) -> Self {
        let StreamSpec { app, pm_id, process, stream, mut paths, style, rotation, echo } = spec;
        // Nothing is kept there, so nothing need be done.
        paths.retain(|path| path != Path::new("/dev/null"));
        paths.sort();
        paths.dedup();
        let paths = paths.into_iter().map(Into::into).collect();
        Self { app: app.into(), pm_id, process, stream, paths, style, rotation, echo, counters }
    }
}

/// What is counted for a worker over all its processes.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    bytes: AtomicU64,
    dropped_lines: AtomicU64,
    cut_lines: AtomicU64,
    has_fault: AtomicBool,
    /// A file that cannot be written now, and why.
    fault: Mutex<Option<(Arc<Path>, Arc<str>)>>,
}

impl Counters {
    pub(super) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn add_dropped(&self, lines: u64) {
        self.dropped_lines.fetch_add(lines, Ordering::Relaxed);
    }

    pub(super) fn add_cut(&self, cuts: u64) {
        self.cut_lines.fetch_add(cuts, Ordering::Relaxed);
    }

    /// The file cannot be written.
    pub(super) fn set_fault(&self, path: &Arc<Path>, fault: &Arc<str>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Arc::clone(path), Arc::clone(fault)));
        self.has_fault.store(true, Ordering::Release);
    }

    /// The file was written.
    pub(super) fn clear_fault(&self, path: &Arc<Path>) {
        if !self.has_fault.load(Ordering::Acquire) {
            return;
        }
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        if fault.as_ref().is_some_and(|(of, _)| of == path) {
            *fault = None;
            self.has_fault.store(false, Ordering::Release);
        }
    }

    pub(super) fn fault(&self) -> Option<Arc<str>> {
        if !self.has_fault.load(Ordering::Acquire) {
            return None;
        }
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        fault.as_ref().map(|(_, fault)| Arc::clone(fault))
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped_lines.load(Ordering::Relaxed)
    }

    pub(super) fn cut(&self) -> u64 {
        self.cut_lines.load(Ordering::Relaxed)
    }
}

/// Whole lines that one stream said, each with its newline, and when they were read.
///
/// Two parts, so that a line that was read in many pieces (the head) and the lines after it (a range of the
/// buffer that they were read into) travel without being copied.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(super) stream: Arc<StreamInfo>,
    pub(super) head: Vec<u8>,
    pub(super) body: Vec<u8>,
    /// Where in `body` the lines are.
    pub(super) body_range: std::ops::Range<usize>,
    /// Milliseconds since the Unix epoch.
    pub(super) at_ms: u64,
    /// Given when they are written.
    pub(super) receipt: Option<Receipt>,
}

impl Batch {
    /// The lines are where they belong, or will never be.
    pub(super) fn settle(&self) {
        if let Some(receipt) = &self.receipt {
            receipt.give();
        }
    }

    /// The bytes, in order.
    pub(super) fn parts(&self) -> [&[u8]; 2] {
        [&self.head, &self.body[self.body_range.clone()]]
    }

    /// The lines, each with its newline.
    pub(super) fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.parts().into_iter().flat_map(lines_of)
    }

    /// Number of lines.
    pub(super) fn line_count(&self) -> u64 {
        self.parts().into_iter().map(count_lines).sum()
    }

    /// Bytes of the lines.
    pub(super) fn bytes(&self) -> usize {
        self.head.len() + self.body_range.len()
    }

    /// Memory that it holds, which is what the queue's bound is about.
    pub(super) fn cost(&self) -> usize {
        size_of::<Self>() + self.head.capacity() + self.body.capacity()
    }
}

/// Splits `bytes` after each newline.
pub(super) fn lines_of(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut start = 0;
    memchr::memchr_iter(b'\n', bytes).map(move |newline| {
        let line = &bytes[start..=newline];
        start = newline + 1;
        line
    })
}

/// Number of newlines in `bytes`.
pub(super) fn count_lines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}
