//! The thread that touches files: appends lines in order, serves followers and the echo.

mod appender;

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::{fmt, io};

use forkful_api::types::LOG_TAIL_LINES_MAX;
use forkful_os::behalf::{Entry, Find};
use tokio::sync::oneshot;

use super::alerts::Alerts;
use super::archivist::{Notice, remove_archives};
use super::echo::Echo;
use super::file::{Limits, LogFile, Now, snapshot_of, truncate};
use super::follow::{FollowRequest, Followers};
use super::lines::{Chunk, LineSenders};
use super::order::{Extent, Order};
use super::queue::{Queue, Taken};
use super::read_back::{BackFile, BackRequest, note};
use super::space::Space;
use super::stream::{Batch, StreamInfo, lines_of};
use appender::{Appender, Piece, Shared};

/// Where the service's own troubles are told.
pub(super) type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// Written at a time, so that what is rendered is bounded; a longer line passes.
const WRITE_BYTES_MAX: usize = 4 << 20;
/// Bound on the files whose order of lines is remembered although nobody writes to them any more.
const ORDERS_KEPT: usize = 256;
/// Room for rendered lines that is kept.
const RENDERED_BYTES_KEPT: usize = 1 << 20;

/// What the writer is asked to do; in this order.
pub(super) enum Job {
    Open(Arc<StreamInfo>),
    /// Lines.
    Lines(Batch),
    /// A stream has ended.
    Close(Arc<StreamInfo>),
    /// Empty these files, and remove what was set aside of them.
    Truncate {
        paths: Vec<PathBuf>,
        reply: oneshot::Sender<Result<(), String>>,
    },
    /// Open all files anew, under their names.
    Reopen {
        reply: oneshot::Sender<Result<(), String>>,
    },
    /// The ends of files, and new lines.
    Follow {
        request: FollowRequest,
        senders: LineSenders,
    },
    /// Nothing more comes.
    Rest {
        reply: oneshot::Sender<()>,
    },
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open(_) => "Open",
            Self::Lines(_) => "Lines",
            Self::Close(_) => "Close",
            Self::Truncate { .. } => "Truncate",
            Self::Reopen { .. } => "Reopen",
            Self::Follow { .. } => "Follow",
            Self::Rest { .. } => "Rest",
        })
    }
}

/// The threads that the writer gives work to.
pub(super) struct Helpers {
    pub(super) archivist: Sender<Notice>,
    pub(super) read_back: Sender<BackRequest>,
}

pub(super) struct Writer {
    queue: Arc<Queue>,
    files: HashMap<Arc<Path>, Shared>,
    /// How many of them each app has.
    files_of: FilesOf,
    /// Also of files whose worker has ended.
    orders: HashMap<Arc<Path>, Order>,
    /// Batches that were written.
    batches: u64,
    followers: Followers,
    echo: Echo,
    helpers: Helpers,
    space: Space,
    alerts: Alerts,
    rendered: Vec<u8>,
}

impl Writer {
    pub(super) fn new(queue: Arc<Queue>, echo: Echo, alerts: Alerts, helpers: Helpers) -> Self {
        Self {
            queue,
            files: HashMap::new(),
            files_of: FilesOf::default(),
            orders: HashMap::new(),
            batches: 0,
            followers: Followers::default(),
            echo,
            helpers,
            space: Space::default(),
            alerts,
            rendered: Vec::new(),
        }
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
                self.followers.tell_skips(forkful_os::wall_clock::now_ms());
            }
        }
    }

    fn step(&mut self, jobs: &mut VecDeque<Job>) {
        let now = Now::read();
        let (mut batches, mut bytes) = (Vec::new(), 0);
        while let Some(job) = jobs.pop_front() {
            if let Job::Lines(batch) = job {
                bytes += batch.bytes();
                batches.push(batch);
                if bytes >= WRITE_BYTES_MAX {
                    self.write(&mut batches, now);
                    bytes = 0;
                }
                continue;
            }
            self.write(&mut batches, now);
            bytes = 0;
            match job {
                Job::Lines(_) => {}
                Job::Open(stream) => self.open(&stream, now),
                Job::Close(stream) => self.close(&stream),
                Job::Truncate { paths, reply } => {
                    // That nobody waits for the answer any more is no fault.
                    let _ = reply.send(self.truncate(&paths, now));
                }
                Job::Reopen { reply } => {
                    let _ = reply.send(self.reopen(now));
                }
                Job::Follow { request, senders } => self.follow(request, senders, now),
                Job::Rest { reply } => {
                    let _ = reply.send(());
                }
            }
        }
        self.write(&mut batches, now);
    }

    fn open(&mut self, stream: &Arc<StreamInfo>, now: Now) {
        for path in &stream.paths {
            if let Some(shared) = self.files.get_mut(path) {
                shared.streams += 1;
                self.files_of.moves(&shared.app, &stream.app);
                shared.app.clone_from(&stream.app);
                shared.rotation.clone_from(&stream.rotation);
            } else {
                let (file, fault) = LogFile::open(Arc::clone(path), Limits::NONE, now);
                let told =
                    fault.as_ref().is_some_and(|fault| self.alerts.not_written(path, fault, now.instant));
                let fault = fault.map(|fault| fault_text(path, &fault));
                match &fault {
                    Some(fault) => stream.counters.set_fault(path, fault),
                    None => stream.counters.clear_fault(path),
                }
                self.order_of(path, file.extent());
                let shared = Shared {
                    file,
                    streams: 1,
                    app: stream.app.clone(),
                    rotation: stream.rotation.clone(),
                    lost_lines: told.then_some(0),
                    fault,
                };
                self.files.insert(Arc::clone(path), shared);
                self.files_of.add(&stream.app);
            }
            if let Some(rotation) = stream.rotation.clone() {
                let (app, log) = (stream.app.clone(), Arc::clone(path));
                self.tell_archivist(Notice::Opened { app, log, rotation });
                // Not a file that could not be opened: the path may lead to another app's.
                if let Some(entry) = self.files[path].file.entry() {
                    self.tell_archivist(Notice::Placed { log: Arc::clone(path), entry: entry.clone() });
                }
            }
        }
    }

    /// The order of a file's lines, which is forgotten where others have appended to it.
    fn order_of(&mut self, path: &Arc<Path>, extent: Option<Extent>) -> &mut Order {
        if self.orders.len() >= self.files.len() + ORDERS_KEPT {
            self.orders.retain(|path, _| self.files.contains_key(path));
        }
        let order = self.orders.entry(Arc::clone(path)).or_default();
        order.check(extent);
        order
    }

    fn close(&mut self, stream: &StreamInfo) {
        for path in &stream.paths {
            if stream.rotation.is_some() {
                self.tell_archivist(Notice::Closed { app: stream.app.clone() });
            }
            if let Some(shared) = self.files.get_mut(path) {
                shared.streams -= 1;
                if shared.streams == 0 {
                    self.files_of.remove(&shared.app);
                    self.files.remove(path);
                }
            }
        }
    }

    fn tell_archivist(&self, notice: Notice) {
        // It ends only after us.
        let _sent = self.helpers.archivist.send(notice);
    }

    fn truncate(&mut self, paths: &[PathBuf], now: Now) -> Result<(), String> {
        let mut faults = Vec::new();
        for path in paths {
            if let Some(order) = self.orders.get_mut(path.as_path()) {
                order.forget();
            }
            let emptied = match self.files.get_mut(path.as_path()) {
                Some(shared) => shared.file.truncate(now.instant),
                None => truncate(path),
            };
            if let Err(fault) = emptied.and_then(|()| remove_archives_of(path)) {
                faults.push(format!("cannot empty {}: {fault}", path.display()));
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
    }

    fn reopen(&mut self, now: Now) -> Result<(), String> {
        let mut faults = Vec::new();
        for (path, shared) in &mut self.files {
            match shared.file.reopen(now) {
                Ok(()) => {
                    shared.fault = None;
                    if let Some(lost) = shared.lost_lines.take() {
                        self.alerts.written_again(path, lost);
                    }
                }
                Err(fault) => faults.push(format!("cannot open {}: {fault}", path.display())),
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
    }

    fn follow(&mut self, request: FollowRequest, senders: LineSenders, now: Now) {
        let FollowRequest { files, lines, follow, filter } = request;
        let mut faults = files.iter().filter_map(|file| self.files.get(file.path.as_path())?.fault.clone());
        if let Some(fault) = faults.next() {
            let others = match faults.count() {
                0 => String::new(),
                others => format!("; {others} more of these log files cannot be written either"),
            };
            // That nobody reads any more is no fault.
            let _sent = senders.back.send(Chunk::Read(note(&format!("lines are lost: {fault}{others}"))));
        }
        if lines > 0 && !files.is_empty() {
            let lines = lines.min(LOG_TAIL_LINES_MAX) as usize;
            let files = files.into_iter().map(|file| {
                let snapshot = match self.files.get_mut(file.path.as_path()) {
                    Some(shared) => shared.file.snapshot(now.wall_ms),
                    None => snapshot_of(&file.path, now.wall_ms),
                };
                let marks = self.orders.get_mut(file.path.as_path()).map(|order| {
                    order.check(snapshot.extent());
                    order.of_last(lines)
                });
                BackFile { file, snapshot, marks: marks.unwrap_or_default() }
            });
            let request = BackRequest { files: files.collect(), lines, sender: senders.back.clone() };
            // It ends only after us.
            let _sent = self.helpers.read_back.send(request);
        }
        if follow {
            self.followers.add(filter, senders);
        }
    }

    /// Appends the batches, each file's with as few calls as they allow, then shows them in their order to
    /// those who read along.
    fn write(&mut self, batches: &mut Vec<Batch>, now: Now) {
        if batches.is_empty() {
            return;
        }
        self.rendered.clear();
        let mut pieces = Vec::with_capacity(batches.len());
        for batch in &*batches {
            self.batches += 1;
            pieces.push(Piece::new(batch, self.batches, &mut self.rendered));
        }
        let mut by_file: Vec<(&Arc<Path>, &Piece<'_>)> = pieces
            .iter()
            .flat_map(|piece| piece.batch.stream.paths.iter().map(move |path| (path, piece)))
            .collect();
        // Stable, so that each file's batches keep their order.
        by_file.sort_by(|one, other| one.0.cmp(other.0));
        let mut appender = Appender {
            space: &mut self.space,
            alerts: &mut self.alerts,
            rendered: &self.rendered,
            archivist: &self.helpers.archivist,
            now,
        };
        for group in by_file.chunk_by(|one, other| one.0 == other.0) {
            if let Some(shared) = self.files.get_mut(group[0].0) {
                let order = self.orders.entry(Arc::clone(group[0].0)).or_default();
                // The files of an app share its total.
                shared.file.limits = Limits::new(shared.rotation.as_ref(), self.files_of.count(&shared.app));
                appender.append(shared, order, group);
            }
        }
        drop(by_file);
        drop(pieces);
        batches.iter().for_each(Batch::settle);
        if self.rendered.capacity() > RENDERED_BYTES_KEPT {
            self.rendered = Vec::new();
        }
        self.show(batches, now);
    }

    fn show(&mut self, batches: &mut Vec<Batch>, now: Now) {
        for batch in batches.drain(..) {
            self.echo(&batch);
            let (cost, mut buffer) = (batch.cost(), None);
            if self.followers.is_empty() {
                buffer = Some(batch.body);
            } else {
                let batch = Arc::new(batch);
                self.followers.offer(&batch);
                buffer = Arc::into_inner(batch).map(|batch| batch.body).or(buffer);
            }
            let shed = self.queue.release(cost, buffer);
            if shed > 0 {
                self.alerts.shed(shed, now.instant);
            }
        }
    }

    fn echo(&mut self, batch: &Batch) {
        let stream = &batch.stream;
        let Some(prefix) = &stream.echo else { return };
        let written = match stream.style.shown(batch) {
            None if prefix.0.is_empty() => {
                batch.parts().into_iter().try_for_each(|part| self.echo.write(stream.stream, part))
            }
            None => self.echo.write(stream.stream, &prefixed(batch.lines(), &prefix.0)),
            Some(shown) if prefix.0.is_empty() => self.echo.write(stream.stream, &shown),
            Some(shown) => self.echo.write(stream.stream, &prefixed(lines_of(&shown), &prefix.0)),
        };
        if written.is_err() {
            batch.stream.counters.add_dropped(batch.line_count());
        }
    }
}

/// How many open files each app has.
#[derive(Debug, Default)]
struct FilesOf(HashMap<Box<str>, usize>);

impl FilesOf {
    fn add(&mut self, app: &str) {
        *self.0.entry(app.into()).or_default() += 1;
    }

    fn remove(&mut self, app: &str) {
        if let Some(count) = self.0.get_mut(app) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(app);
            }
        }
    }

    /// A file is another app's from now on.
    fn moves(&mut self, from: &str, to: &str) {
        if from != to {
            self.remove(from);
            self.add(to);
        }
    }

    fn count(&self, app: &str) -> usize {
        self.0.get(app).copied().unwrap_or_default()
    }
}

fn fault_text(path: &Path, cause: &io::Error) -> Arc<str> {
    format!("the log file {} cannot be written: {cause}", path.display()).into()
}

fn remove_archives_of(path: &Path) -> io::Result<()> {
    match Entry::find(path, Find::TO_READ) {
        Ok(log) => remove_archives(&log),
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(fault) => Err(fault),
    }
}

fn prefixed<'a>(lines: impl Iterator<Item = &'a [u8]>, prefix: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for line in lines {
        out.extend_from_slice(prefix.as_bytes());
        out.extend_from_slice(line);
    }
    out
}
