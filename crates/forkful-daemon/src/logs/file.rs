//! One log file: opened for appending, opened again when it was moved or when writing failed.
//!
//! Takes the time as an argument. Does not know whose lines it writes.

use std::fs::{DirBuilder, File};
use std::io::{self, IoSlice, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fs_err::os::unix::fs::OpenOptionsExt;

/// How long a file that cannot be written is left alone, and how often one that is written is looked for under
/// its name.
pub(super) const RETRY_EVERY: Duration = Duration::from_secs(1);
/// Slices in one system call.
const SLICES_MAX: usize = 256;

/// A file and whether it can be written.
#[derive(Debug)]
pub(super) struct LogFile {
    path: Arc<Path>,
    state: State,
}

#[derive(Debug)]
enum State {
    Open(OpenFile),
    /// Since the first failure until something was written again.
    Failed {
        retry_at: Instant,
    },
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    device: u64,
    inode: u64,
    /// When the file was last found under its name.
    found_at: Instant,
    /// The file ends within a line, that of a write that failed or of a daemon that was killed.
    torn: bool,
}

/// Not everything was written.
#[derive(Debug)]
pub(super) struct WriteFault {
    /// Bytes that are in the file, up to the end of a line.
    pub(super) kept: usize,
    /// What to report; `None` when this was reported before and the file has failed ever since.
    pub(super) report: Option<io::Error>,
}

impl LogFile {
    /// Opens or creates the file; also gives what to report when that fails.
    pub(super) fn open(path: Arc<Path>, now: Instant) -> (Self, Option<io::Error>) {
        match OpenFile::open(&path, now) {
            Ok(file) => (Self { path, state: State::Open(file) }, None),
            Err(fault) => (Self { path, state: State::Failed { retry_at: now + RETRY_EVERY } }, Some(fault)),
        }
    }

    /// Appends `slices`, which hold whole lines.
    pub(super) fn append(&mut self, slices: &[&[u8]], now: Instant) -> Result<(), WriteFault> {
        let failed_before = match &self.state {
            State::Open(_) => false,
            State::Failed { retry_at } if now < *retry_at => {
                return Err(WriteFault { kept: 0, report: None });
            }
            State::Failed { .. } => true,
        };
        self.try_append(slices, now).map_err(|(kept, fault)| {
            self.state = State::Failed { retry_at: now + RETRY_EVERY };
            WriteFault { kept, report: Some(fault).filter(|_| !failed_before) }
        })
    }

    fn try_append(&mut self, slices: &[&[u8]], now: Instant) -> Result<(), (usize, io::Error)> {
        if let State::Open(open) = &mut self.state
            && open.is_in_place(&self.path, now)
        {
            return open.append(slices);
        }
        let mut open = OpenFile::open(&self.path, now).map_err(|fault| (0, fault))?;
        open.append(slices)?;
        self.state = State::Open(open);
        Ok(())
    }

    /// Empties the file.
    pub(super) fn truncate(&mut self, now: Instant) -> io::Result<()> {
        match &mut self.state {
            State::Open(open) => {
                // What was moved away but is still written to is emptied too.
                if open.file.metadata()?.is_file() {
                    open.file.set_len(0)?;
                    open.torn = false;
                }
            }
            // Most likely there is room now.
            State::Failed { retry_at } => *retry_at = now,
        }
        truncate_path(&self.path)
    }
}

/// Empties the file at `path` if there is one.
pub(super) fn truncate_path(path: &Path) -> io::Result<()> {
    match fs_err::OpenOptions::new().write(true).custom_flags(open_flags()).open(path) {
        Ok(file) if file.metadata()?.is_file() => file.set_len(0),
        Ok(_) => Ok(()),
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(fault) => Err(fault),
    }
}

/// A FIFO without a reader is an error and not a wait; a terminal does not become ours.
fn open_flags() -> i32 {
    (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY).bits().cast_signed()
}

impl OpenFile {
    fn open(path: &Path, now: Instant) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|fault| {
                io::Error::new(fault.kind(), format!("cannot create {}: {fault}", folder.display()))
            })?;
        }
        let file = fs_err::OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o640)
            .custom_flags(open_flags())
            .open(path)?
            .into_file();
        let metadata = file.metadata()?;
        let torn = metadata.is_file() && metadata.len() > 0 && ends_within_a_line(path);
        Ok(Self { file, device: metadata.dev(), inode: metadata.ino(), found_at: now, torn })
    }

    /// Whether the file is still the one under that name; looks at most once per [`RETRY_EVERY`].
    fn is_in_place(&mut self, path: &Path, now: Instant) -> bool {
        if now.saturating_duration_since(self.found_at) < RETRY_EVERY {
            return true;
        }
        self.found_at = now;
        match std::fs::metadata(path) {
            Ok(found) => (found.dev(), found.ino()) == (self.device, self.inode),
            Err(fault) => !matches!(fault.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        }
    }

    /// Appends all of `slices`, or gives how many bytes of them are in the file up to the end of a line.
    fn append(&mut self, slices: &[&[u8]]) -> Result<(), (usize, io::Error)> {
        if self.torn {
            self.file.write_all(b"\n").map_err(|fault| (0, fault))?;
            self.torn = false;
        }
        let mut written = 0;
        for group in slices.chunks(SLICES_MAX) {
            if let Err(fault) = write_all_vectored(&mut self.file, group, &mut written) {
                let kept = end_of_last_line(slices, written);
                self.cut(written - kept);
                return Err((kept, fault));
            }
        }
        Ok(())
    }

    /// Takes the last `bytes` of what was just written away again, because they are not a whole line.
    fn cut(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        // After an append the position is the end of what was appended. If that is not the end of the file,
        // another program has appended since, and its bytes are not ours to take. What cannot be cut away is
        // found when the file is opened again.
        let _ = self.file.stream_position().and_then(|end| {
            let metadata = self.file.metadata()?;
            if !metadata.is_file() || metadata.len() != end {
                return Err(io::ErrorKind::Other.into());
            }
            self.file.set_len(end.saturating_sub(bytes as u64))
        });
    }
}

fn write_all_vectored(file: &mut File, slices: &[&[u8]], written: &mut usize) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = slices.iter().map(|slice| IoSlice::new(slice)).collect();
    let mut rest = slices.as_mut_slice();
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match file.write_vectored(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                *written += count;
                IoSlice::advance_slices(&mut rest, count);
            }
            Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(())
}

/// The largest number of bytes, at most `written`, after which a line ends.
fn end_of_last_line(slices: &[&[u8]], written: usize) -> usize {
    let (mut start, mut kept) = (0, 0);
    for slice in slices {
        let inside = slice.len().min(written - start);
        if let Some(newline) = memchr::memrchr(b'\n', &slice[..inside]) {
            kept = start + newline + 1;
        }
        start += inside;
    }
    kept
}

fn ends_within_a_line(path: &Path) -> bool {
    let last_byte = || {
        let mut file = fs_err::File::open(path)?;
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        io::Result::Ok(last[0])
    };
    last_byte().is_ok_and(|last| last != b'\n')
}
