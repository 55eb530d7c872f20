//! An open log file: whether it is still in its place, and appending to it.

use std::fs::File;
use std::io::{self, IoSlice, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::{Instant, UNIX_EPOCH};

use forkful_os::behalf::{Entry, Find, Identity, is_refusal};
use rustix::io::Errno;

use super::slices::end_of_last_line;
use super::{Incident, Now, RETRY_EVERY};

/// Only ours and our group's to read.
const MODE: u32 = 0o640;
/// Slices in one system call.
const SLICES_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: File,
    /// Its folder, held open, and its name there: what is set aside is renamed by these and not by the path, in which
    /// the app may have put a link since.
    pub(super) entry: Entry,
    pub(super) identity: Identity,
    /// Neither a device nor a pipe.
    pub(super) is_regular: bool,
    pub(super) bytes: u64,
    /// When its first line was written.
    pub(super) begun_ms: u64,
    /// When the file was last found under its name.
    found_at: Instant,
    /// The file ends within a line, that of a write that failed or of a daemon that was killed.
    pub(super) torn: bool,
}

/// Where a file is that was found before.
pub(super) enum Place {
    AsBefore,
    /// The path leads to it still, but by another folder or name.
    Elsewhere,
    /// The path leads to another file, or to none.
    Lost,
}

impl OpenFile {
    pub(super) fn open(path: &Path, now: Now) -> io::Result<Self> {
        let entry = Entry::find(path, Find::TO_WRITE)?;
        let file = entry.append(MODE)?;
        let metadata = file.metadata()?;
        let is_regular = metadata.is_file();
        let torn = is_regular && metadata.len() > 0 && ends_within_a_line(&entry);
        // Not all file systems know when a file was made; then its last change stands for it.
        let begun = metadata.created().or_else(|_| metadata.modified()).unwrap_or(UNIX_EPOCH);
        let begun = begun.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self {
            identity: Identity::of(&file)?,
            file,
            entry,
            is_regular,
            bytes: metadata.len(),
            begun_ms: u64::try_from(begun.as_millis()).unwrap_or(u64::MAX),
            found_at: now.instant,
            torn,
        })
    }

    /// Whether the file is still the one under that name. That it was removed is noticed at once; that it was
    /// moved, within [`RETRY_EVERY`], and until then what is written is in the file that was moved.
    pub(super) fn is_in_place(&mut self, path: &Path, now: Instant, incidents: &mut Vec<Incident>) -> Place {
        if self.is_regular
            && let Ok(stat) = rustix::fs::fstat(&self.file)
        {
            self.bytes = stat.st_size.max(0).cast_unsigned();
            if stat.st_nlink == 0 {
                incidents.push(Incident::Removed);
                return Place::Lost;
            }
        }
        // What is in `/proc` has no name of its own.
        if now.saturating_duration_since(self.found_at) < RETRY_EVERY || self.entry.folder().is_kernels() {
            return Place::AsBefore;
        }
        self.found_at = now;
        match Entry::find(path, Find::TO_READ).and_then(|entry| Ok((entry.is(self.identity)?, entry))) {
            Ok((true, entry)) => {
                let is_as_before = entry.name() == self.entry.name()
                    && entry.folder().identity() == self.entry.folder().identity();
                self.entry = entry;
                if is_as_before { Place::AsBefore } else { Place::Elsewhere }
            }
            Ok((false, _)) => Place::Lost,
            // Links that lead nowhere, or where they must not lead: opening will tell.
            Err(fault) if is_refusal(&fault) || is_nowhere(&fault) => Place::Lost,
            Err(_) => Place::AsBefore,
        }
    }

    /// Appends all of `slices`, or gives how many bytes of them are in the file up to the end of a line.
    pub(super) fn append(&mut self, slices: &[&[u8]]) -> Result<(), (usize, io::Error)> {
        if self.torn {
            self.file.write_all(b"\n").map_err(|fault| (0, fault))?;
            self.torn = false;
            self.bytes += 1;
        }
        let mut written = 0;
        for group in slices.chunks(SLICES_MAX) {
            if let Err(fault) = write_all_vectored(&mut self.file, group, &mut written) {
                let kept = end_of_last_line(slices, written);
                self.cut(written - kept);
                return Err((kept, fault));
            }
        }
        self.bytes += written as u64;
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

fn is_nowhere(fault: &io::Error) -> bool {
    matches!(fault.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || fault.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

fn ends_within_a_line(entry: &Entry) -> bool {
    let last_byte = || {
        let mut file = entry.read()?;
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        io::Result::Ok(last[0])
    };
    last_byte().is_ok_and(|last| last != b'\n')
}
