//! The thread that looks after log files that were set aside: removes what is too many or too much, compresses the rest.
//!
//! It compresses at a bounded rate, so that neither the apps nor the disk feel it. While lines come faster than that, files
//! are removed before they were compressed; the bounds hold all the same.
//!
//! Not at a lower priority, though that seems natural: it would be preempted within calls that hold the folder or the
//! file system's journal, and on a busy machine the writer would wait for it for a long time.
//!
//! It knows a log only since the writer has opened it, and acts in the folder that the writer holds open: a link that an
//! app puts in the path leads it to nothing of others.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use forkful_core::logs::LogRotation;
use forkful_os::behalf::{Entry, Identity};

use super::archive_name::{
    Archive, COMPRESSED, Retention, UNFINISHED, archives_of, scan, superfluous, with_ending,
};
use super::file::open_regular;
use super::writer::Report;

/// Read and compressed in a second at most, which takes about a tenth of a core.
const BYTES_PER_SECOND: u64 = 8 << 20;
/// Read and compressed at a time: less than a millisecond.
const PIECE_BYTES: usize = 64 << 10;
/// A good third faster than the default, and the files are a tenth larger.
const LEVEL: u32 = 4;
/// How long an app's files are left uncompressed after a fault.
const FAULT_PAUSE: Duration = Duration::from_secs(60);
/// What earlier files are there is looked at so long after a log was opened: hundreds of workers that start are looked at
/// together, for each look reads the whole folder.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// What the writer tells. As many as streams that begin and end, and files that are set aside; all are taken in
/// between two pieces.
#[derive(Debug)]
pub(super) enum Notice {
    /// A stream of the app writes to this file.
    Opened { app: Box<str>, log: Arc<Path>, rotation: LogRotation },
    /// The file was opened, and is there.
    Placed { log: Arc<Path>, entry: Entry },
    /// A stream of the app has ended.
    Closed { app: Box<str> },
    /// A log file was set aside.
    SetAside { app: Box<str> },
}

pub(super) struct Archivist {
    inbox: Receiver<Notice>,
    report: Report,
    apps: BTreeMap<Box<str>, AppFiles>,
    /// The apps that write to each log.
    apps_of: HashMap<Arc<Path>, BTreeSet<Box<str>>>,
    /// Apps whose files are to be looked at, and when the first of them is.
    looks: BTreeSet<Box<str>>,
    look_at: Option<Instant>,
    bytes_per_second: u64,
}

/// The files of one app.
struct AppFiles {
    /// They count until no stream of the app is left.
    logs: BTreeMap<Arc<Path>, Log>,
    /// How many streams write to all of them.
    streams: usize,
    rotation: LogRotation,
    /// To be compressed, oldest first.
    pending: VecDeque<Entry>,
    /// After a fault.
    pause_until: Option<Instant>,
}

#[derive(Default)]
struct Log {
    /// Where it is; `None` until it could be opened.
    entry: Option<Entry>,
}

/// Nobody will tell anything any more.
struct Ended;

impl Archivist {
    pub(super) fn new(inbox: Receiver<Notice>, report: Report) -> Self {
        Self {
            inbox,
            report,
            apps: BTreeMap::new(),
            apps_of: HashMap::new(),
            looks: BTreeSet::new(),
            look_at: None,
            bytes_per_second: BYTES_PER_SECOND,
        }
    }

    /// Works until its inbox is closed; what is half compressed then is taken back.
    pub(super) fn run(mut self) {
        while let Ok(()) = self.step() {}
    }

    fn step(&mut self) -> Result<(), Ended> {
        let Some((app, archive)) = self.next_pending() else {
            let wake = self.next_pause_end().into_iter().chain(self.look_at).min();
            let first = match wake {
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
        match self.compress(&archive) {
            Ok(Ok(())) => {}
            Ok(Err(ended)) => return Err(ended),
            Err(fault) => {
                let report = &self.report;
                report(&format!(
                    "warning: the log file {} cannot be compressed and stays as it is: {fault}",
                    archive.name().display()
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

    fn next_pending(&mut self) -> Option<(Box<str>, Entry)> {
        let now = Instant::now();
        self.apps.iter_mut().find_map(|(app, files)| {
            if files.pause_until.is_some_and(|until| now < until) {
                return None;
            }
            files.pause_until = None;
            files.pending.pop_front().map(|archive| (app.clone(), archive))
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
        if self.look_at.is_some_and(|at| at <= Instant::now()) {
            self.look_at = None;
            touched.append(&mut self.looks);
        }
        self.tidy(&touched);
        Ok(())
    }

    fn look_later(&mut self, app: Box<str>) {
        self.looks.insert(app);
        self.look_at.get_or_insert_with(|| Instant::now() + LOOK_AFTER);
    }

    /// Gives the app whose files are to be looked at now.
    fn note(&mut self, notice: Notice) -> Option<Box<str>> {
        match notice {
            Notice::Opened { app, log, rotation } => {
                let files = self.apps.entry(app.clone()).or_insert_with(|| AppFiles {
                    logs: BTreeMap::new(),
                    streams: 0,
                    rotation: rotation.clone(),
                    pending: VecDeque::new(),
                    pause_until: None,
                });
                let is_new = files.rotation != rotation;
                files.logs.entry(Arc::clone(&log)).or_default();
                files.streams += 1;
                files.rotation = rotation;
                self.apps_of.entry(log).or_default().insert(app.clone());
                if is_new {
                    self.look_later(app);
                }
                None
            }
            Notice::Placed { log, entry } => {
                for app in self.apps_of.get(&log).cloned().unwrap_or_default() {
                    let files = self.apps.get_mut(&app);
                    let Some(log) = files.and_then(|files| files.logs.get_mut(&log)) else { continue };
                    let is_known = log.entry.as_ref().is_some_and(|known| {
                        known.name() == entry.name() && known.folder().identity() == entry.folder().identity()
                    });
                    log.entry = Some(entry.clone());
                    if !is_known {
                        self.look_later(app);
                    }
                }
                None
            }
            Notice::Closed { app } => {
                let files = self.apps.get_mut(&app)?;
                files.streams = files.streams.saturating_sub(1);
                if files.streams == 0 {
                    self.forget(&app);
                }
                None
            }
            Notice::SetAside { app } => Some(app),
        }
    }

    /// No stream of the app is left.
    fn forget(&mut self, app: &str) {
        self.looks.remove(app);
        for log in self.apps.remove(app).into_iter().flat_map(|files| files.logs.into_keys()) {
            if let Some(apps) = self.apps_of.get_mut(&log) {
                apps.remove(app);
                if apps.is_empty() {
                    self.apps_of.remove(&log);
                }
            }
        }
    }

    /// Looks at the files of some apps, each folder once.
    fn tidy(&mut self, apps: &BTreeSet<Box<str>>) {
        let mut places = Places::new();
        let mut apps_of: HashMap<(Identity, OsString), Vec<&str>> = HashMap::new();
        for (app, files) in apps.iter().filter_map(|app| Some((app, self.apps.get(app)?))) {
            for entry in files.entries() {
                let folder = entry.folder().identity();
                let (_, names) = places.entry(folder).or_insert_with(|| (entry.clone(), HashSet::new()));
                names.insert(entry.name().to_owned());
                apps_of.entry((folder, entry.name().to_owned())).or_default().push(app);
            }
        }
        let (archives, faults) = look(&places);
        let mut found: BTreeMap<&str, Vec<Archive>> = BTreeMap::new();
        for archive in archives {
            for app in apps_of.get(&(archive.folder, archive.log.clone())).into_iter().flatten() {
                found.entry(app).or_default().push(archive.clone());
            }
        }
        for app in apps {
            self.tidy_app(app, &places, &found.remove(&**app).unwrap_or_default());
        }
        for fault in faults {
            (self.report)(&format!("warning: old log files cannot be removed: {fault}"));
        }
    }

    /// Removes what is too much, and notes what is to be compressed.
    fn tidy_app(&mut self, app: &str, places: &Places, archives: &[Archive]) {
        let Some(files) = self.apps.get_mut(app) else { return };
        let active = files.entries().filter_map(|entry| entry.look().ok()?).map(|found| found.bytes).sum();
        let retention = Retention { keep: files.rotation.keep, total: files.rotation.total };
        let entry_of = |archive: &Archive| places[&archive.folder].0.sibling(&archive.name);
        let gone = superfluous(archives, active, retention);
        let gone_names: HashSet<_> = gone.iter().map(|archive| (archive.folder, &archive.name)).collect();
        files.pending = archives
            .iter()
            .filter(|archive| files.rotation.compress && !archive.is_compressed)
            .filter(|archive| !gone_names.contains(&(archive.folder, &archive.name)))
            .filter_map(|archive| entry_of(archive).ok())
            .collect();
        let removed =
            gone.iter().filter_map(|archive| entry_of(archive).and_then(|entry| remove(&entry)).err());
        for fault in removed {
            let report = &self.report;
            report(&format!("warning: old log files of {app} cannot be removed: {fault}"));
        }
    }

    /// Compresses a file; gives up without a fault when it is removed meanwhile.
    fn compress(&mut self, archive: &Entry) -> io::Result<Result<(), Ended>> {
        let Some(mut source) = open_regular(archive)? else { return Ok(Ok(())) };
        let unfinished = archive.sibling(&with_ending(archive.name(), UNFINISHED))?;
        let outcome = self.compress_into(&mut source, &unfinished);
        if !matches!(outcome, Ok(Done::Whole)) {
            remove(&unfinished)?;
        }
        match outcome? {
            Done::Whole => replace(archive, &unfinished)?,
            Done::Removed => {}
            Done::Ended => return Ok(Err(Ended)),
        }
        Ok(Ok(()))
    }

    fn compress_into(&mut self, source: &mut File, unfinished: &Entry) -> io::Result<Done> {
        // Left by a daemon that was killed, or a link that somebody has put there.
        remove(unfinished)?;
        let mut encoder = GzEncoder::new(unfinished.create_new(0o640)?, Compression::new(LEVEL));
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

enum Done {
    Whole,
    /// The file was removed.
    Removed,
    Ended,
}

/// The folders of logs: an entry in each, and the names of the logs there.
type Places = BTreeMap<Identity, (Entry, HashSet<OsString>)>;

impl AppFiles {
    /// Where its logs are, as far as they could be opened.
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.logs.values().filter_map(|log| log.entry.as_ref())
    }
}

/// What was set aside, oldest first. Half-compressed files of a daemon that was killed are removed; one that is
/// being compressed now has its old form beside it and is not among `pending`, so it is told apart by its age.
fn look(places: &Places) -> (Vec<Archive>, Vec<io::Error>) {
    let (mut archives, mut faults) = (Vec::new(), Vec::new());
    for (entry, names) in places.values() {
        match scan(entry, names) {
            Ok(found) => {
                let unfinished = found.unfinished.iter().filter_map(|name| entry.sibling(name).ok());
                faults.extend(unfinished.filter(is_stale).filter_map(|entry| remove(&entry).err()));
                archives.extend(found.archives);
            }
            Err(fault) => faults.push(fault),
        }
    }
    archives.sort_by(|one, other| one.stamp.cmp(&other.stamp));
    (archives, faults)
}

/// A file that is being compressed grows all the time.
fn is_stale(unfinished: &Entry) -> bool {
    const STALE: Duration = Duration::from_secs(3600);
    let looked = unfinished.look().ok().flatten();
    looked.is_some_and(|found| found.modified.elapsed().unwrap_or_default() > STALE)
}

/// Puts the compressed form of a file in its place. When the file was removed since it was read to its end, its lines
/// are to be gone, and so its compressed form goes too.
fn replace(archive: &Entry, unfinished: &Entry) -> io::Result<()> {
    let compressed = archive.sibling(&with_ending(archive.name(), COMPRESSED))?;
    compressed.replace_by(unfinished)?;
    if archive.remove(None)? { Ok(()) } else { remove(&compressed) }
}

/// Gone already is as good as removed.
fn remove(entry: &Entry) -> io::Result<()> {
    entry.remove(None).map(drop)
}

/// Removes everything that was set aside of a log file.
pub(super) fn remove_archives(log: &Entry) -> io::Result<()> {
    for archive in archives_of(log)? {
        remove(&log.sibling(&archive.name)?)?;
        // While it is compressed both forms are there.
        remove(&log.sibling(&with_ending(&archive.name, COMPRESSED))?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use forkful_os::behalf::Find;

    use super::*;

    #[test]
    fn hundreds_of_logs_that_are_opened_are_looked_at_together() {
        let folder = tempfile::tempdir().unwrap();
        let (notices, inbox) = std::sync::mpsc::channel();
        let mut archivist = Archivist::new(inbox, Arc::new(|_: &str| {}));
        for number in 0..200 {
            let log: Arc<Path> = folder.path().join(format!("{number}.log")).into();
            let entry = Entry::find(&log, Find::TO_READ).unwrap();
            let app: Box<str> = format!("app{}", number % 2).into();
            let rotation = LogRotation::default();
            notices.send(Notice::Opened { app, log: Arc::clone(&log), rotation }).unwrap();
            notices.send(Notice::Placed { log, entry }).unwrap();
        }
        assert!(archivist.take(None).is_ok());
        assert_eq!((archivist.looks.len(), archivist.look_at.is_some()), (2, true));
        archivist.look_at = Some(Instant::now());
        assert!(archivist.take(None).is_ok());
        assert_eq!((archivist.looks.len(), archivist.look_at), (0, None));
        for _ in 0..100 {
            notices.send(Notice::Closed { app: "app0".into() }).unwrap();
        }
        assert!(archivist.take(None).is_ok());
        assert_eq!((archivist.apps.len(), archivist.apps_of.len()), (1, 100));
    }

    #[test]
    fn what_was_removed_while_it_was_compressed_does_not_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let names = || -> Vec<_> {
            fs_err::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect()
        };
        let path = folder.path().join("out.log.19700101T000000.001Z");
        let archive = Entry::find(&path, Find::TO_READ).unwrap();
        let unfinished = archive.sibling(&with_ending(archive.name(), UNFINISHED)).unwrap();
        fs_err::write(&path, "lines\n").unwrap();
        fs_err::write(folder.path().join(unfinished.name()), "compressed").unwrap();
        replace(&archive, &unfinished).unwrap();
        assert_eq!(names(), ["out.log.19700101T000000.001Z.gz"]);
        fs_err::remove_file(folder.path().join("out.log.19700101T000000.001Z.gz")).unwrap();
        fs_err::write(folder.path().join(unfinished.name()), "compressed").unwrap();
        replace(&archive, &unfinished).unwrap();
        assert_eq!(names(), [""; 0]);
    }
}
