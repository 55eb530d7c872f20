//! The thread that owns the saved states, so that no disk delays a connection. It does what it is asked in the
//! order in which it was asked; of several states that wait in a row, only the newest is written. A state that could
//! not be written is tried again until it is written or a newer one takes its place.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::files::RealFiles;
use super::shelf::Shelf;
use crate::Home;

/// Stack of the thread: JSON of at most 128 levels is read on it.
const STACK_BYTES: usize = 512 * 1024;

/// The first pause before a state is written again, which doubles, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// What became of the states that were handed over so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    /// The number of the newest state that was written, or could not be.
    pub(crate) number: u64,
    /// Why the last one could not be.
    pub(crate) fault: Option<String>,
}

/// Something else that the thread does.
type Errand = Box<dyn FnOnce(&mut Shelf<RealFiles>) + Send>;

struct Save {
    number: u64,
    /// The state that is there belongs to the daemon before.
    keep: bool,
    /// The state, or why it is none that can be written.
    text: Result<String, String>,
}

enum Job {
    Save(Save),
    Errand(Errand),
}

#[derive(Default)]
struct JobQueue {
    jobs: VecDeque<Job>,
    closed: bool,
}

type Shared = (Mutex<JobQueue>, Condvar);

/// See the module's documentation.
pub(crate) struct Writer {
    queue: Arc<Shared>,
    saved: watch::Receiver<Saved>,
    thread: Option<JoinHandle<()>>,
    number: u64,
}

impl Writer {
    /// Starts the thread. Nothing is written before the first state.
    pub(crate) fn start(home: Home) -> io::Result<Self> {
        let queue: Arc<Shared> = Arc::default();
        let (tell, saved) = watch::channel(Saved::default());
        let theirs = Arc::clone(&queue);
        let shelf = Shelf::new(RealFiles, home, crate::engine::wall_ms, thread::sleep);
        let thread = thread::Builder::new()
            .name("state".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || work(shelf, &theirs, &tell))?;
        Ok(Self { queue, saved, thread: Some(thread), number: 0 })
    }

    /// Hands a state over, or says why there is none that can be written; yields its number. With `keep`, the state
    /// on disk belongs to the daemon before.
    pub(crate) fn write(&mut self, text: Result<String, String>, keep: bool) -> u64 {
        self.number += 1;
        let mut save = Save { number: self.number, keep, text };
        self.with_queue(|queue| {
            match queue.jobs.back_mut() {
                // A state that cannot be written does not replace a state that can.
                Some(Job::Save(waiting)) if save.text.is_ok() => {
                    save.keep |= waiting.keep;
                    *waiting = save;
                }
                Some(_) | None => queue.jobs.push_back(Job::Save(save)),
            }
        });
        self.number
    }

    /// Has the thread do something else after everything that it was asked before.
    pub(crate) fn errand(&self, errand: impl FnOnce(&mut Shelf<RealFiles>) + Send + 'static) {
        self.with_queue(|queue| queue.jobs.push_back(Job::Errand(Box::new(errand))));
    }

    /// Why the newest state is not on disk, if it could not be written.
    pub(crate) fn fault(&self) -> Option<String> {
        self.saved.borrow().fault.clone()
    }

    /// Tells when a state is on disk.
    pub(crate) fn saved(&self) -> watch::Receiver<Saved> {
        self.saved.clone()
    }

    fn with_queue(&self, change: impl FnOnce(&mut JobQueue)) {
        let (queue, waker) = &*self.queue;
        change(&mut queue.lock().unwrap_or_else(PoisonError::into_inner));
        waker.notify_one();
    }
}

impl Drop for Writer {
    /// What was handed over is written before the daemon ends.
    fn drop(&mut self) {
        self.with_queue(|queue| queue.closed = true);
        if let Some(thread) = self.thread.take() {
            // It cannot be asked for more than to end.
            let _ended = thread.join();
        }
    }
}

/// A state that could not be written, and when it is tried again.
struct Failed {
    number: u64,
    text: String,
    pause: Duration,
    due: Instant,
}

enum Next {
    Job(Job),
    Retry,
    Closed,
}

fn next(shared: &Shared, due: Option<Instant>) -> Next {
    let (queue, waker) = shared;
    let mut guard = queue.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(job) = guard.jobs.pop_front() {
            return Next::Job(job);
        }
        if guard.closed {
            return Next::Closed;
        }
        guard = match due.map(|due| due.saturating_duration_since(Instant::now())) {
            None => waker.wait(guard).unwrap_or_else(PoisonError::into_inner),
            Some(Duration::ZERO) => return Next::Retry,
            Some(left) => waker.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0,
        };
    }
}

fn work(mut shelf: Shelf<RealFiles>, shared: &Shared, tell: &watch::Sender<Saved>) {
    // The state that is there belongs to the daemon before, until it is kept as the previous one.
    let mut keep = false;
    let mut failed: Option<Failed> = None;
    loop {
        let (number, text, pause) = match next(shared, failed.as_ref().map(|failed| failed.due)) {
            Next::Job(Job::Errand(errand)) => {
                errand(&mut shelf);
                continue;
            }
            Next::Job(Job::Save(save)) => {
                keep |= save.keep;
                match save.text {
                    Ok(text) => (save.number, text, RETRY.0),
                    Err(fault) => {
                        told(tell, save.number, Some(fault));
                        continue;
                    }
                }
            }
            Next::Retry => match failed.take() {
                Some(failed) => (failed.number, failed.text, (failed.pause * 2).min(RETRY.1)),
                None => continue,
            },
            Next::Closed => {
                if let Some(last) = failed.take() {
                    let fault = shelf.save(&last.text, &mut keep).err();
                    told(tell, last.number, fault.map(|error| error.to_string()));
                }
                return;
            }
        };
        failed = match shelf.save(&text, &mut keep) {
            Ok(()) => {
                told(tell, number, None);
                None
            }
            Err(error) => {
                told(tell, number, Some(error.to_string()));
                Some(Failed { number, text, pause, due: Instant::now() + pause })
            }
        };
    }
}

/// Tells how it went, and in the daemon's log when that has changed.
fn told(tell: &watch::Sender<Saved>, number: u64, fault: Option<String>) {
    let was_fine = tell.borrow().fault.is_none();
    match (&fault, was_fine) {
        (Some(fault), true) => log_line!("forkful: the state cannot be saved: {fault}; it is tried again"),
        (None, false) => log_line!("forkful: the state is saved again"),
        (None, true) | (Some(_), false) => {}
    }
    tell.send_replace(Saved { number, fault });
}

/// Writes a small file that the next daemon reads; for an [`Writer::errand`].
pub(crate) fn write_note(path: &Path, text: &[u8]) -> io::Result<()> {
    use std::io::Write as _;

    use fs_err::os::unix::fs::OpenOptionsExt as _;
    let mut note =
        fs_err::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    note.write_all(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> (tempfile::TempDir, Home) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"));
        (folder, home)
    }

    #[tokio::test]
    async fn the_newest_state_is_what_is_on_disk() {
        let (_folder, home) = home();
        home.create().unwrap();
        let mut writer = Writer::start(home.clone()).unwrap();
        let mut last = 0;
        for number in 0..200 {
            last = writer.write(Ok(number.to_string()), false);
        }
        let mut saved = writer.saved();
        let told = saved.wait_for(|saved| saved.number >= last).await.unwrap().clone();
        assert_eq!(told, Saved { number: 200, fault: None });
        assert_eq!(fs_err::read_to_string(home.state()).unwrap(), "199");
        writer.write(Ok("end".to_owned()), false);
        drop(writer);
        assert_eq!(fs_err::read_to_string(home.state()).unwrap(), "end");
    }

    #[tokio::test]
    async fn a_state_that_could_not_be_written_is_written_as_soon_as_it_can() {
        let (_folder, home) = home();
        let mut writer = Writer::start(home.clone()).unwrap();
        writer.write(Ok("one".to_owned()), false);
        let mut saved = writer.saved();
        assert!(saved.wait_for(|saved| saved.number == 1).await.unwrap().fault.is_some());
        home.create().unwrap();
        // Nothing changes meanwhile: the same state is tried again.
        saved.wait_for(|saved| saved.number == 1 && saved.fault.is_none()).await.unwrap();
        assert_eq!(fs_err::read_to_string(home.state()).unwrap(), "one");
    }

    #[tokio::test]
    async fn what_is_asked_is_done_in_order() {
        let (_folder, home) = home();
        home.create().unwrap();
        let mut writer = Writer::start(home.clone()).unwrap();
        let (tell, told) = tokio::sync::oneshot::channel();
        writer.write(Ok("before".to_owned()), false);
        let path = home.state();
        writer.errand(move |_| tell.send(fs_err::read_to_string(path).unwrap()).unwrap());
        writer.write(Ok("after".to_owned()), false);
        assert_eq!(told.await.unwrap(), "before");
        drop(writer);
        assert_eq!(fs_err::read_to_string(home.state()).unwrap(), "after");
    }

    #[tokio::test]
    async fn a_state_that_is_too_large_is_told_and_leaves_the_one_before() {
        let (_folder, home) = home();
        home.create().unwrap();
        let mut writer = Writer::start(home.clone()).unwrap();
        writer.write(Ok("before".to_owned()), false);
        writer.write(Err("`big` is too large".to_owned()), false);
        let mut saved = writer.saved();
        let told = saved.wait_for(|saved| saved.number == 2).await.unwrap().clone();
        assert_eq!(told.fault.as_deref(), Some("`big` is too large"));
        drop(writer);
    }
}
