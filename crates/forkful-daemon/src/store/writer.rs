//! The thread that writes states, so that no disk delays a connection. Of several states that wait,
//! only the newest is written.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::sync::watch;

use super::file;

/// Stack of the thread, which only writes files.
const STACK_BYTES: usize = 64 * 1024;

/// What became of the states that were handed over so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    /// The number of the newest state that was written, or could not be.
    pub(crate) number: u64,
    /// Why the last one could not be.
    pub(crate) fault: Option<String>,
}

#[derive(Default)]
struct Desk {
    waiting: Option<(u64, String)>,
    closed: bool,
}

/// See the module's documentation.
pub(crate) struct Writer {
    desk: Arc<(Mutex<Desk>, Condvar)>,
    saved: watch::Receiver<Saved>,
    thread: Option<JoinHandle<()>>,
    number: u64,
}

impl Writer {
    /// Starts the thread. Nothing is written before the first state.
    pub(crate) fn start(path: PathBuf) -> io::Result<Self> {
        let desk: Arc<(Mutex<Desk>, Condvar)> = Arc::default();
        let (tell, saved) = watch::channel(Saved::default());
        let theirs = Arc::clone(&desk);
        let thread = thread::Builder::new()
            .name("state".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || work(&path, &theirs, &tell))?;
        Ok(Self { desk, saved, thread: Some(thread), number: 0 })
    }

    /// Hands a state over; yields its number.
    pub(crate) fn write(&mut self, text: String) -> u64 {
        self.number += 1;
        let (desk, waker) = &*self.desk;
        desk.lock().unwrap_or_else(PoisonError::into_inner).waiting = Some((self.number, text));
        waker.notify_one();
        self.number
    }

    /// The number of the state that was handed over last; 0 before the first.
    pub(crate) fn newest(&self) -> u64 {
        self.number
    }

    /// Tells when a state is on disk.
    pub(crate) fn saved(&self) -> watch::Receiver<Saved> {
        self.saved.clone()
    }
}

impl Drop for Writer {
    /// What was handed over is written before the daemon ends.
    fn drop(&mut self) {
        let (desk, waker) = &*self.desk;
        desk.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        waker.notify_one();
        if let Some(thread) = self.thread.take() {
            // It cannot be asked for more than to end.
            let _ended = thread.join();
        }
    }
}

fn work(path: &std::path::Path, desk: &(Mutex<Desk>, Condvar), tell: &watch::Sender<Saved>) {
    let (desk, waker) = desk;
    loop {
        let mut guard = desk.lock().unwrap_or_else(PoisonError::into_inner);
        while guard.waiting.is_none() && !guard.closed {
            guard = waker.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        let Some((number, text)) = guard.waiting.take() else { return };
        drop(guard);
        let fault = file::write_whole(path, &text).err().map(|error| error.to_string());
        let was_fine = tell.borrow().fault.is_none();
        if let (Some(fault), true) = (&fault, was_fine) {
            log_line!("forkful: the state cannot be saved: {fault}");
        }
        tell.send_replace(Saved { number, fault });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_newest_state_is_what_is_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        let mut writer = Writer::start(path.clone()).unwrap();
        let mut last = 0;
        for number in 0..200 {
            last = writer.write(number.to_string());
        }
        let mut saved = writer.saved();
        let told = saved.wait_for(|saved| saved.number >= last).await.unwrap().clone();
        assert_eq!(told, Saved { number: 200, fault: None });
        assert_eq!(fs_err::read_to_string(&path).unwrap(), "199");
        writer.write("end".to_owned());
        drop(writer);
        assert_eq!(fs_err::read_to_string(&path).unwrap(), "end");
    }

    #[tokio::test]
    async fn a_fault_is_told_and_the_next_state_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/state.json");
        let mut writer = Writer::start(path.clone()).unwrap();
        writer.write("one".to_owned());
        let mut saved = writer.saved();
        assert!(saved.wait_for(|saved| saved.number == 1).await.unwrap().fault.is_some());
        fs_err::create_dir(path.parent().unwrap()).unwrap();
        writer.write("two".to_owned());
        assert_eq!(saved.wait_for(|saved| saved.number == 2).await.unwrap().fault, None);
    }
}
