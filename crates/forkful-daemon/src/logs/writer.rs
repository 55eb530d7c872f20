//! The thread that touches files: appends lines in order, serves followers and the echo.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use forkful_api::types::LogLine;
use tokio::sync::{mpsc, oneshot};

use super::echo::Echo;
use super::file::{LogFile, truncate_path};
use super::follow::{FollowRequest, Followers};
use super::queue::{Queue, Taken};
use super::stream::{Batch, count_lines};
use super::timestamp::{iso_8601, now_ms};

/// Where the service's own troubles are told.
pub(super) type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// What the writer is asked to do; in this order.
pub(super) enum Job {
    /// A stream begins that will write to this file.
    Open(Arc<Path>),
    /// Lines.
    Lines(Batch),
    /// A stream that wrote to this file has ended.
    Close(Arc<Path>),
    /// Empty these files.
    Truncate { paths: Vec<PathBuf>, reply: oneshot::Sender<Result<(), String>> },
    /// The ends of files, and new lines.
    Follow { request: FollowRequest, sender: mpsc::Sender<LogLine> },
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open(_) => "Open",
            Self::Lines(_) => "Lines",
            Self::Close(_) => "Close",
            Self::Truncate { .. } => "Truncate",
            Self::Follow { .. } => "Follow",
        })
    }
}

/// The writer's state.
pub(super) struct Writer {
    queue: Arc<Queue>,
    files: HashMap<Arc<Path>, Shared>,
    followers: Followers,
    echo: Echo,
    report: Report,
}

/// A file and how many streams write to it.
struct Shared {
    file: LogFile,
    streams: usize,
}

impl Writer {
    pub(super) fn new(queue: Arc<Queue>, echo: Echo, report: Report) -> Self {
        Self { queue, files: HashMap::new(), followers: Followers::default(), echo, report }
    }

    /// Works until the queue is closed and empty.
    pub(super) fn run(mut self) {
        let mut jobs = VecDeque::new();
        loop {
            match self.queue.take(&mut jobs, self.followers.wait_max()) {
                Taken::Jobs => self.step(&mut jobs),
                Taken::Nothing => {}
                Taken::Closed => return,
            }
            if self.followers.wait_max().is_some() {
                self.followers.tell_skips(now_ms());
            }
        }
    }

    fn step(&mut self, jobs: &mut VecDeque<Job>) {
        let now = Instant::now();
        let mut batches = Vec::new();
        while let Some(job) = jobs.pop_front() {
            if let Job::Lines(batch) = job {
                batches.push(batch);
                continue;
            }
            self.write(&mut batches, now);
            match job {
                Job::Lines(_) => {}
                Job::Open(path) => self.open(path, now),
                Job::Close(path) => self.close(&path),
                Job::Truncate { paths, reply } => {
                    // That nobody waits for the answer any more is no fault.
                    let _ = reply.send(self.truncate(&paths, now));
                }
                Job::Follow { request, sender } => self.followers.add(request, sender),
            }
        }
        self.write(&mut batches, now);
    }

    fn open(&mut self, path: Arc<Path>, now: Instant) {
        if let Some(shared) = self.files.get_mut(&path) {
            shared.streams += 1;
            return;
        }
        let (file, fault) = LogFile::open(Arc::clone(&path), now);
        if let Some(fault) = fault {
            complain_of(&self.report, &path, &fault);
        }
        self.files.insert(path, Shared { file, streams: 1 });
    }

    fn close(&mut self, path: &Path) {
        if let Some(shared) = self.files.get_mut(path) {
            shared.streams -= 1;
            if shared.streams == 0 {
                self.files.remove(path);
            }
        }
    }

    fn truncate(&mut self, paths: &[PathBuf], now: Instant) -> Result<(), String> {
        let mut faults = Vec::new();
        for path in paths {
            let emptied = match self.files.get_mut(path.as_path()) {
                Some(shared) => shared.file.truncate(now),
                None => truncate_path(path),
            };
            if let Err(fault) = emptied {
                faults.push(format!("cannot empty {}: {fault}", path.display()));
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
    }

    /// Appends the batches, each file's with as few calls as they allow, then shows them in their order to
    /// those who read along.
    fn write(&mut self, batches: &mut Vec<Batch>, now: Instant) {
        let mut by_file: Vec<&Batch> = batches.iter().collect();
        // Stable, so that each file's batches keep their order.
        by_file.sort_by(|one, other| one.stream.path.cmp(&other.stream.path));
        for group in by_file.chunk_by(|one, other| one.stream.path == other.stream.path) {
            if let Some(path) = &group[0].stream.path
                && let Some(shared) = self.files.get_mut(path)
            {
                append(&mut shared.file, path, group, now, &self.report);
            }
        }
        for batch in batches.drain(..) {
            self.echo(&batch);
            self.followers.offer(&batch);
            let shed = self.queue.release(batch);
            if shed > 0 {
                let report = &self.report;
                report(&format!(
                    "warning: {shed} log lines were dropped: they could not be written for half a second"
                ));
            }
        }
    }

    fn echo(&mut self, batch: &Batch) {
        let stream = &batch.stream;
        let Some(prefix) = &stream.echo else { return };
        let prefix =
            if stream.time { format!("{}{}: ", prefix.0, iso_8601(batch.at_ms)) } else { prefix.0.clone() };
        let written = if prefix.is_empty() {
            batch.parts().into_iter().try_for_each(|part| self.echo.write(stream.stream, part))
        } else {
            self.echo.write(stream.stream, &prefixed(batch, &prefix))
        };
        if written.is_err() {
            batch.stream.counters.add_dropped(batch.line_count());
        }
    }
}

/// Appends batches of one file; counts the lines that could not be written.
fn append(file: &mut LogFile, path: &Path, batches: &[&Batch], now: Instant, report: &Report) {
    let stamped: Vec<Option<Vec<u8>>> = batches.iter().map(|batch| stamped(batch)).collect();
    let mut slices = Vec::with_capacity(2 * batches.len());
    for (batch, stamped) in batches.iter().zip(&stamped) {
        match stamped {
            Some(bytes) => slices.push(bytes.as_slice()),
            None => slices.extend(batch.parts()),
        }
    }
    let Err(fault) = file.append(&slices, now) else { return };
    let mut kept_lines = lines_within(&slices, fault.kept);
    for batch in batches {
        let lines = batch.line_count();
        let kept = lines.min(kept_lines);
        kept_lines -= kept;
        batch.stream.counters.add_dropped(lines - kept);
    }
    if let Some(cause) = &fault.report {
        complain_of(report, path, cause);
    }
}

fn complain_of(report: &Report, path: &Path, cause: &std::io::Error) {
    report(&format!(
        "error: cannot write the log file {}; its lines are dropped until it can be written again\ncaused by: {cause}",
        path.display()
    ));
}

fn lines_within(slices: &[&[u8]], mut bytes: usize) -> u64 {
    let mut lines = 0;
    for slice in slices {
        let inside = slice.len().min(bytes);
        lines += count_lines(&slice[..inside]);
        bytes -= inside;
    }
    lines
}

/// The lines with the time before each, when the stream wants that.
fn stamped(batch: &Batch) -> Option<Vec<u8>> {
    batch.stream.time.then(|| prefixed(batch, &format!("{}: ", iso_8601(batch.at_ms))))
}

fn prefixed(batch: &Batch, prefix: &str) -> Vec<u8> {
    let bytes: usize = batch.parts().iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(bytes + batch.line_count() as usize * prefix.len());
    for line in batch.lines() {
        out.extend_from_slice(prefix.as_bytes());
        out.extend_from_slice(line);
    }
    out
}
