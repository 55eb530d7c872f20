//! The supervisor's own log: its stderr, which is `daemon.log` or, in the foreground, the user's terminal or pipe.
//!
//! A line is queued and written by a thread, so that neither a full disk nor a reader that does not read can stop or
//! delay the engine. The queue is bounded; lines that find it full, or that cannot be written, are dropped and counted,
//! and the count is told once lines can be written again. Nothing here panics and no caller waits, except at the end of
//! the process ([`flush`]), for at most [`FLUSH_WAIT_MAX`].
//!
//! Before [`start`], and in the processes of tests, lines are written at once, by the caller.
//!
//! Messages quote foreign text: names of files, reports of workers. Characters that end a line, steer a terminal or reorder text
//! are escaped, so that a message has as many lines as its caller gives it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use forkful_core::foreign::visible;
use forkful_os::output::Output;

/// Maximum bytes waiting to be written; more is dropped. A burst of thousands of workers' exits fits in.
const QUEUE_BYTES_MAX: usize = 1 << 20;
/// How long the exiting process waits for a reader of its log.
const FLUSH_WAIT_MAX: Duration = Duration::from_secs(1);
/// How long the writer waits for room before it checks again.
const ROOM_WAIT: Duration = Duration::from_secs(60);
/// For the last message of a process whose log is locked: the number of attempts to get the queue, and the
/// interval between two.
const LAST_TRIES: (u32, Duration) = (50, Duration::from_millis(2));
/// Stack of the thread, which only writes.
const STACK_BYTES: usize = 64 * 1024;

static LOG: OnceLock<OwnLog> = OnceLock::new();

/// Writes a line to the supervisor's own log, like `eprintln!`, but without waiting and without panics.
macro_rules! log_line {
    ($($argument:tt)*) => { $crate::own_log::line(&format!($($argument)*)) };
}

struct OwnLog {
    queue: Mutex<Queue>,
    /// Something was queued.
    queued: Condvar,
    /// Everything queued has been written or dropped.
    empty: Condvar,
    writer: OnceLock<ThreadId>,
    /// Each line begins with the time.
    has_times: bool,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<String>,
    bytes: usize,
    /// Dropped lines that were not reported yet.
    dropped: u64,
    /// The thread is writing a line.
    is_writing: bool,
    /// The target of the next lines: stderr is another file now.
    reopened: Option<Output>,
}

/// Starts the writing thread; `has_times` adds the time before each line.
pub(crate) fn start(has_times: bool) {
    if LOG.set(OwnLog::new(has_times)).is_err() {
        return;
    }
    let started = thread::Builder::new().name("own-log".to_owned()).stack_size(STACK_BYTES).spawn(|| {
        let (Some(log), Ok(output)) = (LOG.get(), Output::of(io::stderr().as_fd())) else { return };
        log.write_all(output);
    });
    if let (Some(log), Ok(thread)) = (LOG.get(), started) {
        let _first = log.writer.set(thread.thread().id());
    }
}

/// Lines queued from now on go to the current stderr.
pub(crate) fn reopen() {
    if let (Some(log), Ok(output)) = (LOG.get(), Output::of(io::stderr().as_fd())) {
        log.queue().reopened = Some(output);
    }
}

/// Queues one line; adds its line feed.
pub(crate) fn line(text: &str) {
    lines(&[text]);
}

/// Queues a message of several lines, which stay together.
pub(crate) fn lines(lines: &[&str]) {
    let text = message(lines);
    match LOG.get().filter(|log| log.writer.get().is_some()) {
        Some(log) => log.put(text),
        None => write_now(io::stderr().as_fd(), &format!("{text}\n")),
    }
}

/// Waits until everything queued is written, or cannot be.
pub(crate) fn flush() {
    if let Some(log) = LOG.get().filter(|log| log.writer.get().is_some()) {
        log.wait_until_empty(log.queue(), Instant::now() + FLUSH_WAIT_MAX);
    }
}

/// Writes the last message of a process that is about to abort, with the line breaks of its backtrace. Whatever the log's
/// state, this neither panics nor waits long.
pub(crate) fn last_words(text: &str) {
    let text = message(&text.trim_end().lines().collect::<Vec<_>>());
    if let Some(log) = LOG.get()
        && log.writer.get().is_some_and(|writer| *writer != thread::current().id())
    {
        for _ in 0..LAST_TRIES.0 {
            let queue = match log.queue.try_lock() {
                Ok(queue) => queue,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    thread::sleep(LAST_TRIES.1);
                    continue;
                }
            };
            let queue = log.put_at(queue, text.clone());
            if log.wait_until_empty(queue, Instant::now() + FLUSH_WAIT_MAX) {
                return;
            }
            break;
        }
    }
    write_now(io::stderr().as_fd(), &format!("{text}\n"));
}

/// The text of a message: each of its lines on one line.
fn message(lines: &[&str]) -> String {
    lines.iter().map(|line| visible(line, &['\t'])).collect::<Vec<_>>().join("\n")
}

/// Writes as much as the stream accepts immediately.
fn write_now(stream: BorrowedFd<'_>, text: &str) {
    let Ok(output) = Output::of(stream) else { return };
    let mut left = text.as_bytes();
    while !left.is_empty() {
        match output.write(left) {
            Ok(written) if written > 0 => left = left.get(written..).unwrap_or_default(),
            Ok(_) | Err(_) => return,
        }
    }
}

impl OwnLog {
    fn new(has_times: bool) -> Self {
        Self {
            queue: Mutex::default(),
            queued: Condvar::new(),
            empty: Condvar::new(),
            writer: OnceLock::new(),
            has_times,
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, text: String) {
        drop(self.put_at(self.queue(), text));
    }

    fn put_at<'a>(&'a self, mut queue: MutexGuard<'a, Queue>, text: String) -> MutexGuard<'a, Queue> {
        let text = if self.has_times { with_time(&now(), &text) } else { text + "\n" };
        if queue.bytes + text.len() > QUEUE_BYTES_MAX {
            queue.dropped += 1;
        } else {
            queue.bytes += text.len();
            queue.waiting.push_back(text);
            self.queued.notify_one();
        }
        queue
    }

    /// False if `deadline` came first.
    fn wait_until_empty(&self, mut queue: MutexGuard<'_, Queue>, deadline: Instant) -> bool {
        while queue.is_writing || !queue.waiting.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            queue = self.empty.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// The thread's main function, which runs as long as the process.
    fn write_all(&self, output: Output) {
        let mut pen = Pen { output, torn: false };
        loop {
            let mut queue = self.queue();
            queue.is_writing = false;
            if queue.waiting.is_empty() {
                self.empty.notify_all();
            }
            while queue.waiting.is_empty() {
                queue = self.queued.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            let Some(text) = queue.waiting.pop_front() else { continue };
            if let Some(output) = queue.reopened.take() {
                pen = Pen { output, torn: false };
            }
            queue.bytes -= text.len();
            queue.is_writing = true;
            let dropped = queue.dropped;
            drop(queue);
            let told = dropped == 0 || pen.write(&self.of_dropped(dropped));
            let written = told && pen.write(&text);
            let mut queue = self.queue();
            queue.dropped -= if told { dropped } else { 0 };
            queue.dropped += u64::from(!written);
        }
    }

    fn of_dropped(&self, dropped: u64) -> String {
        let what = if dropped == 1 { "1 message" } else { &format!("{dropped} messages") };
        let text = format!("forkful: {what} could not be written to this log and were dropped");
        if self.has_times { with_time(&now(), &text) } else { text + "\n" }
    }
}

/// The writer of the stream.
struct Pen {
    output: Output,
    /// The last write ended within a line.
    torn: bool,
}

impl Pen {
    /// Waits for a slow reader. False if the stream accepts nothing: no space, or no reader any more.
    fn write(&mut self, text: &str) -> bool {
        let text = if self.torn { format!("\n{text}") } else { text.to_owned() };
        let mut left = text.as_bytes();
        while !left.is_empty() {
            match self.output.write(left) {
                Ok(written) if written > 0 => {
                    self.torn = left[written - 1] != b'\n';
                    left = &left[written..];
                }
                Err(fault) if fault == rustix::io::Errno::AGAIN => {
                    self.output.wait(ROOM_WAIT);
                }
                Ok(_) | Err(_) => return false,
            }
        }
        true
    }
}

fn now() -> String {
    chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

/// The time (ISO 8601) before each line of a message, so that every line of the log has one.
fn with_time(now: &str, text: &str) -> String {
    text.lines().map(|line| format!("{now} {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};

    use super::*;

    /// A log on a stream of the test; its thread ends with the test's process, as in a daemon.
    fn log_on(stream: BorrowedFd<'_>, has_times: bool) -> &'static OwnLog {
        let log: &'static OwnLog = Box::leak(Box::new(OwnLog::new(has_times)));
        let output = Output::of(stream).unwrap();
        thread::spawn(move || log.write_all(output));
        log
    }

    fn is_empty_soon(log: &OwnLog) -> bool {
        log.wait_until_empty(log.queue(), Instant::now() + Duration::from_secs(20))
    }

    #[test]
    fn a_reader_that_does_not_read_stops_nobody_and_is_told_what_was_dropped() {
        let (reader, writer) = io::pipe().unwrap();
        let log = log_on(writer.as_fd(), false);
        let long = "x".repeat(999);
        // More than pipe and queue can hold; a write that waited would wait forever.
        let sent = 4 * QUEUE_BYTES_MAX / 1000;
        for _ in 0..sent {
            log.put(long.clone());
        }
        assert!(log.queue().dropped > 0 && log.queue().bytes <= QUEUE_BYTES_MAX);
        assert!(
            !log.wait_until_empty(log.queue(), Instant::now()),
            "the end of the process would not wait either"
        );
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        let (mut whole, mut dropped) = (0, 0);
        // The count is reported before the following line.
        while whole + dropped < sent {
            let line = lines.next().unwrap();
            if let Some(told) = line.strip_prefix("forkful: ") {
                dropped += told.split(' ').next().unwrap().parse::<usize>().unwrap();
            } else {
                assert_eq!(line, long, "no line is torn");
                whole += 1;
            }
        }
        assert!(whole > 0 && whole < sent, "{whole} of {sent}");
        drop(lines);
        log.put("nobody reads".to_owned());
        assert!(is_empty_soon(log), "a reader that has gone is not waited for");
    }

    #[test]
    fn a_full_disk_costs_lines_and_they_are_counted() {
        let full = fs_err::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let log = log_on(full.as_fd(), true);
        for _ in 0..10 {
            log.put("a line".to_owned());
        }
        assert!(is_empty_soon(log));
        assert_eq!(log.queue().dropped, 10);
    }

    #[test]
    fn foreign_text_adds_no_line_and_no_escape_sequence() {
        let file = "a\n2026-11-28T00:00:00.000Z forkful: FAKE line\r\u{1b}]0;PWN\u{7}\u{202e}";
        assert_eq!(
            message(&[&format!("forkful: api: {file} changed"), "hint:\tnone"]),
            "forkful: api: a\\n2026-11-28T00:00:00.000Z forkful: FAKE line\\r\\u{1b}]0;PWN\\u{7}\\u{202e} changed\nhint:\tnone"
        );
        let (reader, writer) = io::pipe().unwrap();
        write_now(writer.as_fd(), &with_time("T", &message(&[file])));
        drop(writer);
        let told: Vec<String> = BufReader::new(reader).lines().map(Result::unwrap).collect();
        assert!(told.len() == 1 && !told[0].contains(char::is_control), "{told:?}");
    }

    #[test]
    fn every_line_has_its_time_when_asked_for() {
        assert_eq!(with_time("T", "error: one\ncaused by: two"), "T error: one\nT caused by: two\n");
        let now = now();
        assert!(now.len() == "2026-11-22T20:18:36.123Z".len() && now.ends_with('Z'), "{now}");
    }
}
