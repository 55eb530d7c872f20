//! Pipes that another daemon may have to read on from: bytes stay in the pipe until their lines are in the files, so that a
//! daemon that is killed takes no line with it.
//!
//! ```text
//! look: the bytes as they are in the pipe ──▶ whole lines to the writer ──▶ written: their number goes into the word
//!                                               bytes leave the pipe ◀── the reader sees it ◀──────┘   of the kept pipe
//! ```
//!
//! The next daemon finds the word: so many bytes at the head of the pipe are in the files already. A disk that is slow holds
//! up a pipe for [`CARE_MAX`] at most; then the bytes leave it first, as they do without a keeper.
//!
//! While lines flow, the reader looks at a pipe again after each pause in which lines gather ([`GATHER`]), and finds those of
//! before written. Where that would be too late, because the pipe may be full by then, the writer wakes it.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forkful_os::keeper::Hold;
use forkful_os::pipe::View;
use forkful_os::wake::Wake;
use rustix::io::Errno;

use super::reader::{GATHER, READ_BYTES_MAX};

/// See the module's documentation.
pub(super) const CARE_MAX: Duration = Duration::from_millis(100);

/// A stream that is read with care.
pub(super) struct Care {
    receipts: Arc<Receipts>,
    owed: Option<Owed>,
    last: u64,
}

/// Bytes at the head of the pipe that the writer has been given.
struct Owed {
    bytes: usize,
    since: Instant,
    /// The writer wakes the reader when they are written.
    wakes: bool,
}

/// What both threads know of a stream.
struct Receipts {
    hold: Hold,
    wake: Arc<Wake>,
    awaited: Mutex<Awaited>,
}

#[derive(Default)]
struct Awaited {
    /// The number of the batch that is awaited; 0 is none.
    number: u64,
    /// The reader is to be woken.
    wakes: bool,
}

/// Comes with lines whose bytes are in their pipe until they are written.
pub(crate) struct Receipt {
    of: Arc<Receipts>,
    number: u64,
    bytes: u64,
}

impl std::fmt::Debug for Receipt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Receipt({} bytes)", self.bytes)
    }
}

impl Receipt {
    /// The lines are where they belong, or will never be.
    pub(super) fn give(&self) {
        let mut awaited = self.of.awaited();
        if awaited.number == self.number {
            if let Some(word) = self.of.hold.word() {
                word.store(self.bytes, Ordering::SeqCst);
            }
            if std::mem::take(&mut *awaited).wakes {
                // A full counter wakes too.
                self.of.wake.wake();
            }
        }
    }
}

impl Receipts {
    fn awaited(&self) -> MutexGuard<'_, Awaited> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a look has brought.
pub(super) enum Look {
    /// Whole lines, with a receipt; there may be more in the pipe.
    Lines(Vec<u8>, Receipt),
    /// The beginning of a line without its end, which has left the pipe.
    Beginning(Vec<u8>),
    Nothing,
    Ended,
}

impl Care {
    /// For a pipe that is kept; none for one that is not. What the daemon before has written already leaves the pipe.
    pub(super) fn new(pipe: &OwnedFd, hold: Hold, wake: &Arc<Wake>, view: &View) -> Option<Self> {
        let word = hold.word()?;
        view.discard(pipe, word.load(Ordering::SeqCst) as usize);
        word.store(0, Ordering::SeqCst);
        let receipts = Receipts { hold, wake: Arc::clone(wake), awaited: Mutex::default() };
        Some(Self { receipts: Arc::new(receipts), owed: None, last: 0 })
    }

    /// Whether lines are on their way to the files.
    pub(super) fn owes(&self) -> bool {
        self.owed.is_some()
    }

    /// When to look whether the lines are written, or to wait for them no longer.
    pub(super) fn look_at(&self) -> Option<Instant> {
        self.owed.as_ref().map(|owed| owed.since + if owed.wakes { CARE_MAX } else { GATHER })
    }

    /// Whether the bytes that are owed should leave the pipe now. If it is time for that and their lines are not written yet, the
    /// writer is to wake the reader when they are.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let Some(owed) = &mut self.owed else { return false };
        if owed.wakes {
            return owed.since + CARE_MAX <= now || self.receipts.awaited().number == 0;
        }
        if owed.since + GATHER > now {
            return false;
        }
        let mut awaited = self.receipts.awaited();
        owed.wakes = awaited.number != 0;
        awaited.wakes = owed.wakes;
        !owed.wakes
    }

    /// The writer is to wake the reader when the lines are written.
    pub(super) fn hurry(&mut self) {
        if let Some(owed) = &mut self.owed {
            let mut awaited = self.receipts.awaited();
            awaited.wakes = awaited.number != 0;
            owed.wakes = true;
        }
    }

    /// Looks at what is in the pipe.
    pub(super) fn look(
        &mut self,
        pipe: &OwnedFd,
        view: &View,
        buffer_of: impl FnOnce(usize) -> Vec<u8>,
    ) -> Look {
        let mut bytes = match view.look(pipe, READ_BYTES_MAX, buffer_of) {
            Ok(bytes) if bytes.is_empty() => return Look::Ended,
            Ok(bytes) => bytes,
            Err(Errno::AGAIN | Errno::INTR) => return Look::Nothing,
            Err(_) => return Look::Ended,
        };
        let Some(end) = memchr::memrchr(b'\n', &bytes) else {
            view.discard(pipe, bytes.len());
            return Look::Beginning(bytes);
        };
        bytes.truncate(end + 1);
        self.last += 1;
        self.owed = Some(Owed { bytes: bytes.len(), since: Instant::now(), wakes: false });
        *self.receipts.awaited() = Awaited { number: self.last, wakes: false };
        let receipt =
            Receipt { of: Arc::clone(&self.receipts), number: self.last, bytes: bytes.len() as u64 };
        Look::Lines(bytes, receipt)
    }

    /// The bytes that are owed leave the pipe: their lines are written, or are not waited for any more.
    pub(super) fn settle(&mut self, pipe: &OwnedFd, view: &View) {
        let mut awaited = self.receipts.awaited();
        *awaited = Awaited::default();
        // The word first: a daemon that is killed between the two has its lines come again. The other way round, the next daemon would
        // take other lines, which nobody has written, for these.
        if let Some(word) = self.receipts.hold.word() {
            word.store(0, Ordering::SeqCst);
        }
        if let Some(owed) = self.owed.take() {
            view.discard(pipe, owed.bytes);
        }
    }
}
