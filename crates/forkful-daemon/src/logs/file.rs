//! One log file: opened for appending, set aside when it is large or old, opened again when it was moved or
//! removed or when writing failed.
//!
//! Takes the time as an argument. Does not know whose lines it writes.

mod open_file;
mod slices;

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forkful_core::logs::{LogRotation, MinFree};
use forkful_os::behalf::{Entry, Find, Identity};

use super::archive_name::archive_name;
use super::order::Extent;
use super::space::Space;
use open_file::{OpenFile, Place};
use slices::{first_line, part_of_lines, range};

/// How long a file that cannot be written is left alone, and how often one that is written is looked for under
/// its name.
pub(super) const RETRY_EVERY: Duration = Duration::from_secs(1);
/// How long a file that cannot be set aside goes on growing before that is tried again.
const ROTATE_RETRY_EVERY: Duration = Duration::from_secs(60);

/// The time, by both clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) instant: Instant,
    /// Milliseconds since the Unix epoch.
    pub(super) wall_ms: u64,
}

impl Now {
    pub(super) fn read() -> Self {
        Self { instant: Instant::now(), wall_ms: forkful_os::wall_clock::now_ms() }
    }
}

/// When a file is set aside, and when it is not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) max_size: u64,
    pub(super) max_age: Option<Duration>,
    pub(super) min_free: MinFree,
}

impl Limits {
    /// No limits.
    pub(super) const NONE: Self = Self { max_size: u64::MAX, max_age: None, min_free: MinFree::Bytes(0) };

    /// Those of the user. One file takes at most its share of half of the app's total, so that something of the
    /// past can be kept.
    pub(super) fn new(rotation: Option<&LogRotation>, files_of_app: usize) -> Self {
        let Some(rotation) = rotation else { return Self::NONE };
        let share = rotation.total.map_or(u64::MAX, |total| total / 2 / files_of_app.max(1) as u64);
        Self {
            max_size: rotation.max_size.unwrap_or(u64::MAX).min(share.max(LogRotation::MAX_SIZE_MIN)),
            max_age: rotation.max_age,
            min_free: rotation.min_free,
        }
    }
}

/// What an append needs and tells beyond the file.
pub(super) struct Surroundings<'a> {
    pub(super) space: &'a mut Space,
    /// Times that a file was set aside are added.
    pub(super) set_aside: &'a mut u32,
    /// What happened besides is added.
    pub(super) incidents: &'a mut Vec<Incident>,
}

/// Something that the user should know though every line was written.
#[derive(Debug)]
pub(super) enum Incident {
    /// The file was removed while it was written to.
    Removed,
    /// The file cannot be set aside, and grows.
    NotSetAside(io::Error),
}

/// A file and whether it can be written.
#[derive(Debug)]
pub(super) struct LogFile {
    path: Arc<Path>,
    pub(super) limits: Limits,
    state: State,
    /// The time in the name of the last file that was set aside; the next one's is later.
    stamped_ms: u64,
    rotate_after: Option<Instant>,
    /// The file was opened, or found elsewhere, since [`Self::placed_anew`] was asked.
    is_placed_anew: bool,
    /// Others have appended to the file since [`Self::take_foreign`] was asked.
    is_foreign: bool,
}

#[derive(Debug)]
enum State {
    Open(OpenFile),
    /// Since the first failure until something was written again.
    Failed {
        retry_at: Instant,
        /// It was reported.
        is_told: bool,
    },
}

/// Not everything was written.
#[derive(Debug)]
pub(super) struct WriteFault {
    /// Bytes that were written, up to the end of a line.
    pub(super) kept: usize,
    /// What to report; `None` when this was reported before and the file has failed ever since.
    pub(super) report: Option<io::Error>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Appended {
    /// As before.
    AsUsual,
    /// The first since a failure.
    Again,
}

/// A file as it is now, for reading.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// The file and its length; `None` when there is none, or something else than a regular file.
    pub(super) present: io::Result<Option<(File, u64)>>,
    /// Where it is, and so what was set aside of it; `None` when its folder is not there either.
    pub(super) entry: Option<Entry>,
    /// Everything set aside until now was set aside at this time or before.
    pub(super) until_ms: u64,
}

impl LogFile {
    /// Opens or creates the file; also gives what to report when that fails.
    pub(super) fn open(path: Arc<Path>, limits: Limits, now: Now) -> (Self, Option<io::Error>) {
        let (state, fault) = match OpenFile::open(&path, now) {
            Ok(file) => (State::Open(file), None),
            Err(fault) => (State::Failed { retry_at: now.instant + RETRY_EVERY, is_told: true }, Some(fault)),
        };
        let is_placed_anew = fault.is_none();
        let file = Self {
            path,
            limits,
            state,
            stamped_ms: 0,
            rotate_after: None,
            is_placed_anew,
            is_foreign: false,
        };
        (file, fault)
    }

    /// Where the file is, if it is open.
    pub(super) fn entry(&self) -> Option<&Entry> {
        match &self.state {
            State::Open(open) => Some(&open.entry),
            State::Failed { .. } => None,
        }
    }

    /// Where the file is, if that may be elsewhere than when this was asked before.
    pub(super) fn placed_anew(&mut self) -> Option<&Entry> {
        if std::mem::take(&mut self.is_placed_anew) { self.entry() } else { None }
    }

    /// The file and its length after what was appended.
    pub(super) fn extent(&self) -> Option<Extent> {
        match &self.state {
            State::Open(open) => Some((open.identity, open.bytes)),
            State::Failed { .. } => None,
        }
    }

    /// Whether others have appended to the file before the last append.
    pub(super) fn take_foreign(&mut self) -> bool {
        std::mem::take(&mut self.is_foreign)
    }

    fn open_anew(&mut self, now: Now) -> io::Result<()> {
        self.state = State::Open(OpenFile::open(&self.path, now)?);
        self.is_placed_anew = true;
        Ok(())
    }

    /// Appends `slices`, which hold whole lines.
    pub(super) fn append(
        &mut self,
        slices: &[&[u8]],
        now: Now,
        around: &mut Surroundings<'_>,
    ) -> Result<Appended, WriteFault> {
        let failed_before = match &self.state {
            State::Open(_) => false,
            State::Failed { retry_at, .. } if now.instant < *retry_at => {
                return Err(WriteFault { kept: 0, report: None });
            }
            State::Failed { is_told, .. } => *is_told,
        };
        match self.try_append(slices, now, around) {
            Ok(()) if failed_before => Ok(Appended::Again),
            Ok(()) => Ok(Appended::AsUsual),
            Err((kept, fault)) => {
                self.state = State::Failed { retry_at: now.instant + RETRY_EVERY, is_told: true };
                Err(WriteFault { kept, report: Some(fault).filter(|_| !failed_before) })
            }
        }
    }

    fn try_append(
        &mut self,
        slices: &[&[u8]],
        now: Now,
        around: &mut Surroundings<'_>,
    ) -> Result<(), (usize, io::Error)> {
        let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        let mut kept = 0;
        while kept < bytes {
            let room = self.room(now, around).map_err(|fault| (kept, fault))?;
            let left = bytes - kept;
            let part = if left as u64 <= room { left } else { part_of_lines(slices, kept, room) };
            let State::Open(open) = &mut self.state else { unreachable!("room opens it") };
            let part = match part {
                0 if open.bytes > 0 => {
                    self.set_aside(now, around).map_err(|fault| (kept, fault))?;
                    continue;
                }
                // A line that is longer than a file may be has one of its own.
                0 => first_line(slices, kept),
                part => part,
            };
            if open.is_regular {
                let taken = around.space.take(
                    &open.file,
                    open.identity.device,
                    self.limits.min_free,
                    part as u64,
                    now.instant,
                );
                taken.map_err(|fault| (kept, fault))?;
            }
            if open.bytes == 0 {
                open.begun_ms = now.wall_ms;
            }
            open.append(&range(slices, kept, part)).map_err(|(more, fault)| (kept + more, fault))?;
            kept += part;
        }
        Ok(())
    }

    /// Sees to it that the file is open and in its place; gives how much may still be written to it.
    fn room(&mut self, now: Now, around: &mut Surroundings<'_>) -> io::Result<u64> {
        let in_place = match &mut self.state {
            State::Open(open) => {
                let bytes = open.bytes;
                let place = open.is_in_place(&self.path, now.instant, around.incidents);
                self.is_foreign |= open.bytes > bytes;
                place
            }
            State::Failed { .. } => Place::Lost,
        };
        match in_place {
            Place::AsBefore => {}
            Place::Elsewhere => self.is_placed_anew = true,
            Place::Lost => self.open_anew(now)?,
        }
        let State::Open(open) = &mut self.state else { return Ok(0) };
        // After the clock was set back, the file has its age from then on.
        open.begun_ms = open.begun_ms.min(now.wall_ms);
        if !open.is_regular || self.rotate_after.is_some_and(|after| now.instant < after) {
            return Ok(u64::MAX);
        }
        let age = Duration::from_millis(now.wall_ms.saturating_sub(open.begun_ms));
        let is_old = open.bytes > 0 && self.limits.max_age.is_some_and(|max_age| age >= max_age);
        Ok(if is_old { 0 } else { self.limits.max_size.saturating_sub(open.bytes) })
    }

    /// Gives the file another name and begins a new one. When it cannot be renamed it goes on growing.
    fn set_aside(&mut self, now: Now, around: &mut Surroundings<'_>) -> io::Result<()> {
        let State::Open(open) = &self.state else { return Ok(()) };
        self.stamped_ms = now.wall_ms.max(self.stamped_ms + 1);
        match open.entry.rename_new(&archive_name(open.entry.name(), self.stamped_ms), open.identity) {
            Ok(true) => {
                self.rotate_after = None;
                *around.set_aside += 1;
            }
            // Something else has the name by now, which is not ours to rename.
            Ok(false) => {}
            Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => {
                // Of a daemon before us whose clock was ahead. The next name is later by a millisecond.
                return Ok(());
            }
            Err(fault) => {
                if self.rotate_after.is_none() {
                    around.incidents.push(Incident::NotSetAside(fault));
                }
                self.rotate_after = Some(now.instant + ROTATE_RETRY_EVERY);
                return Ok(());
            }
        }
        self.open_anew(now)
    }

    /// Empties the file.
    pub(super) fn truncate(&mut self, now: Instant) -> io::Result<()> {
        match &mut self.state {
            State::Open(open) => {
                // What was moved away but is still written to is emptied too.
                if open.is_regular {
                    open.file.set_len(0)?;
                    open.torn = false;
                    open.bytes = 0;
                }
            }
            // Most likely there is room now.
            State::Failed { retry_at, .. } => *retry_at = now,
        }
        truncate(&self.path)
    }

    /// Opens the file anew, under its name. When that fails, the next line tries again, and reports it.
    pub(super) fn reopen(&mut self, now: Now) -> io::Result<()> {
        let is_told = matches!(self.state, State::Failed { is_told: true, .. });
        let failed = State::Failed { retry_at: now.instant, is_told };
        self.open_anew(now).inspect_err(|_| self.state = failed)
    }

    /// The file as it is now. Whatever is set aside from now on is stamped later than that.
    pub(super) fn snapshot(&mut self, now_ms: u64) -> Snapshot {
        self.stamped_ms = self.stamped_ms.max(now_ms);
        snapshot_of(&self.path, self.stamped_ms)
    }
}

/// A file that nobody writes to, as it is now.
pub(super) fn snapshot_of(path: &Path, until_ms: u64) -> Snapshot {
    let (entry, fault) = match Entry::find(path, Find::TO_READ) {
        Ok(entry) => (Some(entry), None),
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => (None, None),
        Err(fault) => (None, Some(fault)),
    };
    let present = match (&entry, fault) {
        (_, Some(fault)) => Err(fault),
        (None, None) => Ok(None),
        (Some(entry), None) => open_regular(entry).and_then(|file| {
            let length = file.as_ref().map(File::metadata).transpose()?.map_or(0, |metadata| metadata.len());
            Ok(file.map(|file| (file, length)))
        }),
    };
    Snapshot { present, entry, until_ms }
}

/// Opens a regular file to read it; `None` when there is none, or something else.
pub(super) fn open_regular(entry: &Entry) -> io::Result<Option<File>> {
    use io::ErrorKind::{InvalidInput, NotFound};
    match entry.read() {
        Err(fault) if matches!(fault.kind(), NotFound | InvalidInput) => Ok(None),
        other => other.map(Some),
    }
}

/// Empties the file at `path` if there is one.
pub(super) fn truncate(path: &Path) -> io::Result<()> {
    match Entry::find(path, Find::TO_READ).and_then(|entry| entry.write()) {
        Ok(file) if file.metadata()?.is_file() => file.set_len(0),
        Ok(_) => Ok(()),
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(fault) => Err(fault),
    }
}

impl Snapshot {
    /// The file and its length.
    pub(super) fn extent(&self) -> Option<Extent> {
        let (file, length) = self.present.as_ref().ok()?.as_ref()?;
        Some((Identity::of(file).ok()?, *length))
    }
}
