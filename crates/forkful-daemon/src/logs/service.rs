//! The handle that the engine holds.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use forkful_core::slot::Generation;
use forkful_os::keeper::Hold;
use forkful_os::wake::Wake;
use tokio::sync::oneshot;

use super::alerts::{Alerts, TellFull};
use super::archivist::Archivist;
use super::echo::Echo;
use super::follow::{FOLLOWER_CHUNKS_MAX, FollowRequest};
use super::frame::{LINE_BYTES_MAX, PARTIAL_BYTES_MAX};
use super::lines::{self, LogLines};
use super::queue::{DISK_WAIT_MAX, Queue};
use super::read_back;
use super::reader::{Control, Reader};
use super::recent::StderrTail;
use super::stream::{Counters, StreamInfo, StreamSpec};
use super::writer::{Helpers, Report, Writer};

/// How long the end of the service may take, so that a dead disk cannot keep the daemon alive.
const SHUT_DOWN_WAIT_MAX: Duration = Duration::from_secs(5);
/// The threads' stack; they call nothing deep.
const STACK_BYTES: usize = 256 << 10;

/// Handle of the log service. No method waits for a disk or for a worker.
///
/// When the last clone is dropped, what is in the pipes is read and written (for at most
/// five seconds, during which the drop blocks), and the threads end.
#[derive(Debug, Clone)]
pub struct LogService {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    inbox: Sender<Control>,
    wake: Arc<Wake>,
    counters: Mutex<HashMap<u32, Arc<Counters>>>,
    /// Ends without a message when all threads have ended.
    ended: Mutex<Receiver<()>>,
}

pub(super) struct Options {
    pub(super) report: Report,
    /// Hears of each file whose disk is full, as seldom as it is reported.
    pub(super) full: TellFull,
    pub(super) echo: Echo,
    pub(super) line_bytes_max: usize,
    pub(super) partial_bytes_max: usize,
    pub(super) disk_wait_max: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            report: Arc::new(|text: &str| crate::own_log::line(text)),
            full: Box::new(|_, _| {}),
            echo: Echo::to_ours(),
            line_bytes_max: LINE_BYTES_MAX,
            partial_bytes_max: PARTIAL_BYTES_MAX,
            disk_wait_max: DISK_WAIT_MAX,
        }
    }
}

impl LogService {
    /// Starts the threads.
    pub fn start() -> io::Result<Self> {
        Self::start_with(Options::default())
    }

    /// The same; `full` hears of files whose disk is full, with the error in words.
    pub(crate) fn start_telling(full: impl Fn(PathBuf, String) + Send + 'static) -> io::Result<Self> {
        Self::start_with(Options { full: Box::new(full), ..Options::default() })
    }

    pub(super) fn start_with(options: Options) -> io::Result<Self> {
        let Options { report, full, echo, line_bytes_max, partial_bytes_max, disk_wait_max } = options;
        let wake = Arc::new(Wake::new()?);
        let queue = Arc::new(Queue::new(disk_wait_max));
        let (inbox, messages) = channel();
        let (lives, ended) = channel();
        let (to_archivist, notices) = channel();
        let (to_read_back, requests) = channel();
        let helpers = Helpers { archivist: to_archivist, read_back: to_read_back };
        let archivist = Archivist::new(notices, Arc::clone(&report));
        let writer = Writer::new(Arc::clone(&queue), echo, Alerts::new(Arc::clone(&report), full), helpers);
        let queue_end = Arc::clone(&queue);
        let reader =
            Reader::new(Arc::clone(&wake), messages, queue_end, report, line_bytes_max, partial_bytes_max)?;
        let start = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let lives = lives.clone();
            let begin = move || {
                work();
                drop(lives);
            };
            thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(begin).map(drop)
        };
        start("forkful-logs", Box::new(move || reader.run()))?;
        let service = Self {
            shared: Arc::new(Shared { inbox, wake, counters: Mutex::default(), ended: Mutex::new(ended) }),
        };
        start("forkful-log-disk", Box::new(move || writer.run()))?;
        start("forkful-log-old", Box::new(move || archivist.run()))?;
        start("forkful-log-back", Box::new(move || read_back::run(&requests)))?;
        Ok(service)
    }

    /// Takes over the read end of a worker's stdout or stderr, until it ends.
    pub fn attach(&self, spec: StreamSpec, pipe: OwnedFd) {
        self.attach_kept(spec, pipe, Hold::default());
    }

    /// The same for a pipe that is kept for another daemon while it is read.
    pub fn attach_kept(&self, spec: StreamSpec, pipe: OwnedFd, hold: Hold) {
        let counters = Arc::clone(self.shared.counters().entry(spec.pm_id).or_default());
        self.shared.send(Control::Attach { info: Arc::new(StreamInfo::new(spec, counters)), pipe, hold });
    }

    /// A new process of the worker begins, with nothing written yet. The pipes of earlier processes are still read to
    /// their end.
    pub fn begin_process(&self, pm_id: u32, process: Generation) {
        self.shared.send(Control::BeginProcess { pm_id, process });
    }

    /// The last lines that a process of the worker wrote to stderr before this call: at most 20, long ones cut short.
    /// Without a process: of the process that began last. The log service keeps the lines of the three newest processes.
    pub fn stderr_tail(&self, pm_id: u32, process: Option<Generation>) -> oneshot::Receiver<StderrTail> {
        let (reply, answer) = oneshot::channel();
        self.shared.send(Control::StderrTail { pm_id, process, reply });
        answer
    }

    /// Bytes of lines that this worker has written, since it was first seen.
    pub fn bytes(&self, pm_id: u32) -> u64 {
        self.shared.counters().get(&pm_id).map_or(0, |counters| counters.bytes())
    }

    /// Lines of this worker that could not be written to its files, since it was first seen.
    pub fn dropped_lines(&self, pm_id: u32) -> u64 {
        self.shared.counters().get(&pm_id).map_or(0, |counters| counters.dropped())
    }

    /// Why lines of this worker cannot be written to one of its files now, if so.
    pub fn fault(&self, pm_id: u32) -> Option<Arc<str>> {
        self.shared.counters().get(&pm_id).and_then(|counters| counters.fault())
    }

    /// Times that a line of this worker was longer than `LINE_BYTES_MAX` and was cut there.
    pub fn cut_lines(&self, pm_id: u32) -> u64 {
        self.shared.counters().get(&pm_id).map_or(0, |counters| counters.cut())
    }

    /// Empties files, and removes what was set aside of them; lines written by workers before this call go too.
    pub fn flush(&self, paths: Vec<PathBuf>) -> oneshot::Receiver<Result<(), String>> {
        let (reply, answer) = oneshot::channel();
        self.shared.send(Control::Flush { paths, reply });
        answer
    }

    /// Opens all files anew, under their names: for who has moved them.
    pub fn reopen(&self) -> oneshot::Receiver<Result<(), String>> {
        let (reply, answer) = oneshot::channel();
        self.shared.send(Control::Reopen { reply });
        answer
    }

    /// Reads no more, and answers when all that was read is in the files: another daemon reads on from the pipes.
    pub(crate) fn rest(&self) -> oneshot::Receiver<()> {
        let (reply, answer) = oneshot::channel();
        self.shared.send(Control::Rest { reply });
        answer
    }

    /// The worker will not come back: forgets its counters and the end of its stderr. Pipes that are still open
    /// are read to their end.
    pub fn forget(&self, pm_id: u32) {
        self.shared.counters().remove(&pm_id);
        self.shared.send(Control::Forget { pm_id });
    }

    /// The ends of files and then new lines, none lost or doubled in between.
    ///
    /// A receiver that is too slow misses lines, and is told how many. To end it, drop it.
    pub fn subscribe(&self, request: FollowRequest) -> LogLines {
        let (senders, lines) = lines::channel(FOLLOWER_CHUNKS_MAX);
        self.shared.send(Control::Follow { request, senders });
        lines
    }
}

impl Shared {
    fn send(&self, control: Control) {
        // The reader ends before its handle only when epoll failed, which it reported.
        if self.inbox.send(control).is_ok() {
            // A full counter wakes too.
            self.wake.wake();
        }
    }

    fn counters(&self) -> MutexGuard<'_, HashMap<u32, Arc<Counters>>> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.send(Control::Shutdown);
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Ends by disconnection, or by timeout.
        let _ = ended.recv_timeout(SHUT_DOWN_WAIT_MAX);
    }
}
