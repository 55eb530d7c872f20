//! The thread that looks after log files that were set aside: removes what is too many or too much, compresses the rest.
//!
//! It compresses at a bounded rate, so that neither the apps nor the disk feel it. While lines come faster than that, files
//! are removed before they were compressed; the bounds hold all the same.
//!
//! Not at a lower priority, though that seems natural: it would be preempted within calls that hold the folder or the
//! file system's journal, and on a busy machine the writer would wait for it for a long time.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use forkful_core::logs::LogRotation;
use fs_err::os::unix::fs::OpenOptionsExt as _;
use rustix::fs::OFlags;

use super::archive_name::{
    Archive, COMPRESSED, Retention, UNFINISHED, archives_of, scan, superfluous, with_ending,
};
use super::writer::Report;

/// Read and compressed in a second at most, which takes about a tenth of a core.
const BYTES_PER_SECOND: u64 = 8 << 20;
/// Read and compressed at a time: less than a millisecond.
const PIECE_BYTES: usize = 64 << 10;
/// A good third faster than the default, and the files are a tenth larger.
const LEVEL: u32 = 4;
/// How long an app's files are left uncompressed after a fault.
const FAULT_PAUSE: Duration = Duration::from_secs(60);

/// What the writer tells. As many as streams that begin and end, and files that are set aside; all are taken in
/// between two pieces.
#[derive(Debug)]
pub(super) enum Notice {
    /// A stream of the app writes to this file.
    Opened { app: Box<str>, log: PathBuf, rotation: LogRotation },
    /// It has ended.
    Closed { app: Box<str>, log: PathBuf },
    /// A log file was set aside.
    SetAside { app: Box<str> },
}

pub(super) struct Archivist {
    inbox: Receiver<Notice>,
    report: Report,
    apps: BTreeMap<Box<str>, AppFiles>,
    bytes_per_second: u64,
}

/// The files of one app.
struct AppFiles {
    /// Where they really are, and how many streams write to each. They count until no stream of the app is left.
    logs: BTreeMap<PathBuf, usize>,
    rotation: LogRotation,
    /// To be compressed, oldest first.
    pending: VecDeque<PathBuf>,
    /// After a fault.
    pause_until: Option<Instant>,
}

/// Nobody will tell anything any more.
struct Ended;

impl Archivist {
    pub(super) fn new(inbox: Receiver<Notice>, report: Report) -> Self {
        Self { inbox, report, apps: BTreeMap::new(), bytes_per_second: BYTES_PER_SECOND }
    }

    /// Works until its inbox is closed; what is half compressed then is taken back.
    pub(super) fn run(mut self) {
        while let Ok(()) = self.step() {}
    }

    fn step(&mut self) -> Result<(), Ended> {
        let Some((app, path)) = self.next_pending() else {
            let first = match self.next_pause_end() {
                None => Some(self.inbox.recv().map_err(|_| Ended)?),
                Some(end) => match self.inbox.recv_timeout(end.saturating_duration_since(Instant::now())) {
                    Ok(notice) => Some(notice),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return Err(Ended),
                },
            };
            return self.take(first);
        };
        self.take(None)?;
        match self.compress(&path) {
            Ok(Ok(())) => {}
            Ok(Err(ended)) => return Err(ended),
            Err(fault) => {
                let report = &self.report;
                report(&format!(
                    "warning: the log file {} cannot be compressed and stays as it is\ncaused by: {fault}",
                    path.display()
                ));
                if let Some(files) = self.apps.get_mut(&app) {
                    files.pause_until = Some(Instant::now() + FAULT_PAUSE);
                }
            }
        }
        Ok(())
    }

    fn next_pause_end(&self) -> Option<Instant> {
        self.apps
            .values()
            .filter(|files| !files.pending.is_empty())
            .filter_map(|files| files.pause_until)
            .min()
    }

    fn next_pending(&mut self) -> Option<(Box<str>, PathBuf)> {
        let now = Instant::now();
        self.apps.iter_mut().find_map(|(app, files)| {
            if files.pause_until.is_some_and(|until| now < until) {
                return None;
            }
            files.pause_until = None;
            files.pending.pop_front().map(|path| (app.clone(), path))
        })
    }

    /// Takes in everything that was told, and then looks at each app that it concerns once.
    fn take(&mut self, first: Option<Notice>) -> Result<(), Ended> {
        let mut touched = BTreeSet::new();
        let mut next = first;
        loop {
            if let Some(notice) = next.take() {
                touched.extend(self.note(notice));
            }
            match self.inbox.try_recv() {
                Ok(notice) => next = Some(notice),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Err(Ended),
            }
        }
        for app in touched {
            self.tidy(&app);
        }
        Ok(())
    }

    /// Gives the app whose files are to be looked at.
    fn note(&mut self, notice: Notice) -> Option<Box<str>> {
        match notice {
            Notice::Opened { app, log, rotation } => {
                let files = self.apps.entry(app.clone()).or_insert_with(|| AppFiles {
                    logs: BTreeMap::new(),
                    rotation: rotation.clone(),
                    pending: VecDeque::new(),
                    pause_until: None,
                });
                let is_new = !files.logs.contains_key(&log) || files.rotation != rotation;
                *files.logs.entry(log).or_default() += 1;
                files.rotation = rotation;
                is_new.then_some(app)
            }
            Notice::Closed { app, log } => {
                let files = self.apps.get_mut(&app)?;
                if let Some(streams) = files.logs.get_mut(&log) {
                    *streams = streams.saturating_sub(1);
                }
                if files.logs.values().all(|streams| *streams == 0) {
                    self.apps.remove(&app);
                }
                None
            }
            Notice::SetAside { app } => Some(app),
        }
    }

    /// Removes what is too much, and notes what is to be compressed.
    fn tidy(&mut self, app: &str) {
        let Some(files) = self.apps.get_mut(app) else { return };
        let (archives, faults) = files.look();
        let active =
            files.logs.keys().filter_map(|log| std::fs::metadata(log).ok()).map(|found| found.len()).sum();
        let retention = Retention { keep: files.rotation.keep, total: files.rotation.total };
        let gone = superfluous(&archives, active, retention);
        let gone_paths: HashSet<&Path> = gone.iter().map(|archive| archive.path.as_path()).collect();
        files.pending = archives
            .iter()
            .filter(|archive| files.rotation.compress && !archive.is_compressed)
            .filter(|archive| !gone_paths.contains(archive.path.as_path()))
            .map(|archive| archive.path.clone())
            .collect();
        let removed = gone_paths.iter().filter_map(|path| remove(path).err());
        for fault in faults.into_iter().chain(removed) {
            let report = &self.report;
            report(&format!("warning: old log files of {app} cannot be removed\ncaused by: {fault}"));
        }
    }

    /// Compresses a file; gives up without a fault when it is removed meanwhile.
    fn compress(&mut self, path: &Path) -> io::Result<Result<(), Ended>> {
        // Whoever owns the folder may put anything there: links are not followed, pipes not waited for.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let mut source = match fs_err::OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Ok(source) => source.into_file(),
            Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(Ok(())),
            Err(fault) => return Err(fault),
        };
        let unfinished = with_ending(path, UNFINISHED);
        let outcome = self.compress_into(&mut source, &unfinished);
        if !matches!(outcome, Ok(Done::Whole)) {
            remove(&unfinished)?;
        }
        match outcome? {
            Done::Whole => replace(path, &unfinished)?,
            Done::Removed => {}
            Done::Ended => return Ok(Err(Ended)),
        }
        Ok(Ok(()))
    }

    fn compress_into(&mut self, source: &mut File, unfinished: &Path) -> io::Result<Done> {
        // Left by a daemon that was killed, or a link that somebody has put there.
        remove(unfinished)?;
        let target = fs_err::OpenOptions::new().write(true).create_new(true).mode(0o640).open(unfinished)?;
        let mut encoder = GzEncoder::new(target.into_file(), Compression::new(LEVEL));
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let began = Instant::now();
            let count = source.read(&mut piece)?;
            if rustix::fs::fstat(&*source)?.st_nlink == 0 {
                return Ok(Done::Removed);
            }
            if count == 0 {
                break;
            }
            encoder.write_all(&piece[..count])?;
            let pause = Duration::from_secs_f64(count as f64 / self.bytes_per_second as f64);
            if self.pause(began + pause).is_err() {
                return Ok(Done::Ended);
            }
        }
        let target = encoder.finish()?;
        // The original is removed next.
        target.sync_data()?;
        if let Ok(modified) = source.metadata().and_then(|metadata| metadata.modified()) {
            // Of use to people and to other programs only.
            let _kept = target.set_modified(modified);
        }
        Ok(Done::Whole)
    }

    /// Waits, but goes on keeping the bounds.
    fn pause(&mut self, until: Instant) -> Result<(), Ended> {
        loop {
            match self.inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(notice) => self.take(Some(notice))?,
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => return Err(Ended),
            }
        }
    }
}

/// How compressing ended.
enum Done {
    Whole,
    /// The file was removed.
    Removed,
    /// The service ends.
    Ended,
}

impl AppFiles {
    /// What was set aside, oldest first. Half-compressed files of a daemon that was killed are removed; one that is
    /// being compressed now has its old form beside it and is not among `pending`, so it is told apart by its age.
    fn look(&self) -> (Vec<Archive>, Vec<io::Error>) {
        let mut names: BTreeMap<&Path, HashSet<std::ffi::OsString>> = BTreeMap::new();
        for log in self.logs.keys() {
            if let (Some(folder), Some(name)) = (log.parent(), log.file_name()) {
                names.entry(folder).or_default().insert(name.to_owned());
            }
        }
        let (mut archives, mut faults) = (Vec::new(), Vec::new());
        for (folder, names) in names {
            match scan(folder, &names) {
                Ok(found) => {
                    faults.extend(
                        found
                            .unfinished
                            .iter()
                            .filter(|path| is_stale(path))
                            .filter_map(|path| remove(path).err()),
                    );
                    archives.extend(found.archives);
                }
                Err(fault) => faults.push(fault),
            }
        }
        archives.sort_by(|one, other| one.stamp.cmp(&other.stamp));
        (archives, faults)
    }
}

/// A file that is being compressed grows all the time.
fn is_stale(path: &Path) -> bool {
    const STALE: Duration = Duration::from_secs(3600);
    let age = fs_err::metadata(path)
        .and_then(|metadata| metadata.modified())
        .map(|at| at.elapsed().unwrap_or_default());
    age.is_ok_and(|age| age > STALE)
}

/// Puts the compressed form of a file in its place. When the file was removed since it was read to its end, its lines
/// are to be gone, and so its compressed form goes too.
fn replace(path: &Path, unfinished: &Path) -> io::Result<()> {
    let compressed = with_ending(path, COMPRESSED);
    fs_err::rename(unfinished, &compressed)?;
    match fs_err::remove_file(path) {
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => remove(&compressed),
        other => other,
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs_err::remove_file(path) {
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Removes everything that was set aside of a log file.
pub(super) fn remove_archives(log: &Path) -> io::Result<()> {
    for archive in archives_of(log)? {
        remove(&archive.path)?;
        // While it is compressed both forms are there.
        remove(&with_ending(&archive.path, COMPRESSED))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_removed_while_it_was_compressed_does_not_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let names = || -> Vec<_> {
            fs_err::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect()
        };
        let path = folder.path().join("out.log.19700101T000000.001Z");
        let unfinished = with_ending(&path, UNFINISHED);
        fs_err::write(&path, "lines\n").unwrap();
        fs_err::write(&unfinished, "compressed").unwrap();
        replace(&path, &unfinished).unwrap();
        assert_eq!(names(), ["out.log.19700101T000000.001Z.gz"]);
        fs_err::remove_file(with_ending(&path, COMPRESSED)).unwrap();
        fs_err::write(&unfinished, "compressed").unwrap();
        replace(&path, &unfinished).unwrap();
        assert_eq!(names(), [""; 0]);
    }
}
