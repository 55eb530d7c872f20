//! Pipes that another daemon may have to read on from: bytes stay in the pipe until their lines are in the files, so that a
//! daemon that is killed takes no line with it.
//!
//! ```text
//! tee: the bytes as they are in the pipe ──▶ whole lines to the writer ──▶ written: their number goes into the word
//!                                              bytes leave the pipe ◀── the reader hears of it ◀──┘   of the kept pipe
//! ```
//!
//! The next daemon finds the word: so many bytes at the head of the pipe are in the files already. A disk that is slow holds
//! up a pipe for [`CARE_MAX`] at most; then the bytes leave it first, as they do without a keeper.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forkful_os::keeper::Hold;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, tee};

/// See the module's documentation.
pub(super) const CARE_MAX: Duration = Duration::from_millis(100);
/// Of the pipe that bytes are looked at through.
const SIDE_BYTES: usize = 256 << 10;
/// Of the stack, for bytes that nobody needs any more.
const WASTE_BYTES: usize = 16 << 10;

/// The pipe that bytes are looked at through, of all streams.
pub(super) struct Side {
    read: OwnedFd,
    write: OwnedFd,
}

/// What the writer tells the reader.
#[derive(Default)]
pub(super) struct Done {
    tokens: Mutex<Vec<u64>>,
}

/// A stream that is read with care.
pub(super) struct Care {
    receipts: Arc<Receipts>,
    /// Bytes at the head of the pipe that the writer has been given, and since when.
    owed: Option<(usize, Instant)>,
    last: u64,
}

/// What both threads know of a stream.
struct Receipts {
    token: u64,
    hold: Hold,
    wake: Arc<OwnedFd>,
    done: Arc<Done>,
    /// The number of the batch that is awaited; 0 is none.
    awaited: Mutex<u64>,
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
        let Receipts { token, hold, wake, done, .. } = &*self.of;
        let mut awaited = self.of.awaited();
        if *awaited == self.number {
            *awaited = 0;
            if let Some(word) = hold.word() {
                word.store(self.bytes, Ordering::SeqCst);
            }
            done.tokens.lock().unwrap_or_else(PoisonError::into_inner).push(*token);
            // A full counter wakes too.
            let _ = rustix::io::write(&**wake, &1_u64.to_ne_bytes());
        }
    }
}

impl Receipts {
    fn awaited(&self) -> MutexGuard<'_, u64> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Done {
    /// The streams whose lines are written.
    pub(super) fn take(&self) -> Vec<u64> {
        std::mem::take(&mut *self.tokens.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Side {
    pub(super) fn new() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // With less, it takes more turns.
        let _ = fcntl_setpipe_size(&write, SIDE_BYTES);
        Ok(Self { read, write })
    }

    /// Puts what is at the head of a pipe into an empty buffer, and leaves it there. 0 is the end.
    fn look(&self, pipe: &OwnedFd, buffer: &mut Vec<u8>) -> rustix::io::Result<usize> {
        let room = buffer.capacity();
        let seen = tee(pipe, &self.write, room, SpliceFlags::NONBLOCK)?;
        while buffer.len() < seen {
            rustix::io::read(&self.read, spare_capacity(buffer))?;
        }
        Ok(seen)
    }
}

/// What a look has brought.
pub(super) enum Look {
    /// Whole lines are in the buffer, with a receipt; there may be more in the pipe.
    Lines(Receipt),
    /// The beginning of a line without its end is in the buffer, and has left the pipe.
    Beginning,
    Nothing,
    Ended,
}

impl Care {
    /// For a pipe that is kept; none for one that is not. What the daemon before has written already leaves the pipe.
    pub(super) fn new(
        token: u64,
        pipe: &OwnedFd,
        hold: Hold,
        (wake, done): (&Arc<OwnedFd>, &Arc<Done>),
    ) -> Result<Self, Hold> {
        let Some(word) = hold.word() else { return Err(hold) };
        discard(pipe, word.load(Ordering::SeqCst) as usize);
        word.store(0, Ordering::SeqCst);
        let receipts =
            Receipts { token, hold, wake: Arc::clone(wake), done: Arc::clone(done), awaited: Mutex::new(0) };
        Ok(Self { receipts: Arc::new(receipts), owed: None, last: 0 })
    }

    /// Whether lines are on their way to the files.
    pub(super) fn owes(&self) -> bool {
        self.owed.is_some()
    }

    /// When to wait for them no longer.
    pub(super) fn patience_ends(&self) -> Option<Instant> {
        self.owed.map(|(_, since)| since + CARE_MAX)
    }

    /// Looks at what is in the pipe.
    pub(super) fn look(&mut self, pipe: &OwnedFd, side: &Side, buffer: &mut Vec<u8>) -> Look {
        match side.look(pipe, buffer) {
            Ok(0) => return Look::Ended,
            Ok(_) => {}
            Err(Errno::AGAIN | Errno::INTR) => return Look::Nothing,
            Err(_) => return Look::Ended,
        }
        let Some(end) = memchr::memrchr(b'\n', buffer) else {
            discard(pipe, buffer.len());
            return Look::Beginning;
        };
        buffer.truncate(end + 1);
        self.last += 1;
        self.owed = Some((buffer.len(), Instant::now()));
        *self.receipts.awaited() = self.last;
        Look::Lines(Receipt { of: Arc::clone(&self.receipts), number: self.last, bytes: buffer.len() as u64 })
    }

    /// The bytes that are owed leave the pipe: their lines are written, or are not waited for any more.
    pub(super) fn settle(&mut self, pipe: &OwnedFd) {
        let mut awaited = self.receipts.awaited();
        *awaited = 0;
        // The word first: a daemon that is killed between the two has its lines come again. The other way round, the next daemon would
        // take other lines, which nobody has written, for these.
        if let Some(word) = self.receipts.hold.word() {
            word.store(0, Ordering::SeqCst);
        }
        if let Some((bytes, _)) = self.owed.take() {
            discard(pipe, bytes);
        }
    }
}

/// Reads so many bytes of a pipe that are known already.
fn discard(pipe: &OwnedFd, mut bytes: usize) {
    let mut waste = [const { MaybeUninit::<u8>::uninit() }; WASTE_BYTES];
    while bytes > 0 {
        let most = waste.len().min(bytes);
        match rustix::io::retry_on_intr(|| {
            rustix::io::read(pipe.as_fd(), &mut waste[..most]).map(|(read, _)| read.len())
        }) {
            Ok(0) | Err(_) => return,
            Ok(read) => bytes -= read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_leaves_the_bytes_where_they_are() {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        let side = Side::new().unwrap();
        let mut buffer = Vec::with_capacity(100);
        assert_eq!(side.look(&read, &mut buffer).unwrap_err(), Errno::AGAIN);
        rustix::io::write(&write, b"one\ntwo\nthr").unwrap();
        for _ in 0..2 {
            buffer.clear();
            assert_eq!(side.look(&read, &mut buffer).unwrap(), 11);
            assert_eq!(buffer, b"one\ntwo\nthr");
        }
        discard(&read, 8);
        drop(write);
        buffer.clear();
        assert_eq!(side.look(&read, &mut buffer).unwrap(), 3);
        discard(&read, 3);
        assert_eq!(side.look(&read, &mut Vec::with_capacity(1)).unwrap(), 0, "the end");
    }
}
