//! Watching the files of an app: one thread for each app that asks for it, asleep while nothing changes.
//!
//! The kernel tells of changes folder by folder; only folders that matter are watched (`tree`), so that
//! `node_modules`, what `.gitignore` names, and the app's own logs cost nothing. File systems that do not
//! tell are looked at again and again (`poll`). A change is passed on once nothing more has changed for
//! the user's delay.

mod poll;
mod tree;

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forkful_core::spec::Watch;
use forkful_core::upkeep::burst::Burst;
use forkful_os::behalf::{Rights, as_user};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use poll::Look;
use tree::{Tree, Visitor};

use crate::engine::Clock;

/// How often files are looked at when the kernel cannot tell of changes.
const FALLBACK: Duration = Duration::from_secs(2);
/// Paths that are passed on; people read only the first.
const PATHS_MAX: usize = 100;
/// Notices that wait for the thread; what is more counts as one change that is not named.
const NOTICES_MAX: usize = 4096;

/// What a watcher tells.
#[derive(Debug)]
pub(crate) enum News {
    /// These paths have changed.
    Changed {
        paths: Vec<PathBuf>,
        /// What was changed up to here is among them, or was told before.
        seen: SystemTime,
    },
    /// The kernel does not tell of changes, for this reason: the files are looked at again and again instead.
    Polls(String),
    /// It does not watch any more, or never did.
    Failed(String),
}

/// A watch that ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Watcher {
    of: Watch,
    notices: SyncSender<Notice>,
    ended: Arc<AtomicBool>,
}

/// What the thread hears.
#[derive(Debug)]
enum Notice {
    /// Something has changed.
    Changed(PathBuf),
    /// The kernel has lost count.
    Overflow,
    /// Nobody wants to know any more.
    End,
}

impl Watcher {
    /// Begins to watch, on a thread of its own, with the file rights of the app's user. `never` are files and folders whose changes
    /// do not count; files that were changed after `since` are told at once.
    pub(crate) fn start(
        (watch, user): (&Watch, Option<Rights>),
        cwd: &Path,
        (never, since): (Vec<PathBuf>, Option<SystemTime>),
        tell: impl Fn(News) + Send + 'static,
    ) -> io::Result<Self> {
        let tree = Tree::new(watch, cwd, never)?;
        let (notices, heard) = mpsc::sync_channel(NOTICES_MAX);
        let ended = Arc::new(AtomicBool::new(false));
        let (sender, end, of) = (notices.clone(), Arc::clone(&ended), watch.clone());
        std::thread::Builder::new().name("forkful-watch".to_owned()).spawn(move || {
            let watch = || match of.polling {
                Some(pause) => {
                    look_again(&tree, (pause, since), &heard, &tell);
                    Ok(())
                }
                None => {
                    let told = Told::new(tree.clone(), sender, end);
                    let told = told.and_then(|told| told.run((of.delay, since), &heard, &tell));
                    if let Err(error) = told {
                        poll_instead(&error, &tree, (FALLBACK, since), &heard, &tell);
                    }
                    Ok(())
                }
            };
            let done = match user {
                Some(user) => as_user(&user, watch),
                None => watch(),
            };
            if let Err(error) = done {
                tell(News::Failed(error.to_string()));
            }
        })?;
        Ok(Self { of: watch.clone(), notices, ended })
    }

    /// Whether this is what is asked for.
    pub(crate) fn is_for(&self, watch: &Watch) -> bool {
        self.of == *watch
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // A full queue wakes the thread as well, and it looks at the flag.
        let _full = self.notices.try_send(Notice::End);
    }
}

/// All programs of a user share the kernel's limits of watches. When a limit is reached, changes are noticed later, by polling.
fn poll_instead(
    error: &io::Error,
    tree: &Tree,
    pace: (Duration, Option<SystemTime>),
    heard: &mpsc::Receiver<Notice>,
    tell: &dyn Fn(News),
) {
    tell(News::Polls(format!(
        "its files are looked at every {} s, because the kernel cannot tell of changes: {error}",
        pace.0.as_secs()
    )));
    look_again(tree, pace, heard, tell);
}

/// Looks again after each interval, until the end.
fn look_again(
    tree: &Tree,
    (interval, since): (Duration, Option<SystemTime>),
    heard: &mpsc::Receiver<Notice>,
    tell: &dyn Fn(News),
) {
    let tell_changed = |mut paths: Vec<PathBuf>, seen| {
        paths.truncate(PATHS_MAX);
        if !paths.is_empty() {
            tell(News::Changed { paths, seen });
        }
    };
    let (mut seen, mut last) = (SystemTime::now(), Look::at(tree));
    tell_changed(last.paths().filter(|path| is_newer(path, since)).cloned().collect(), seen);
    while let Err(RecvTimeoutError::Timeout) = heard.recv_timeout(interval) {
        seen = SystemTime::now();
        let look = Look::at(tree);
        let changed = look.changed_since(&last);
        last = look;
        tell_changed(changed, seen);
    }
}

/// Whether a file has been written, made or renamed after `since`. One that is gone is not noticed.
fn is_newer(path: &Path, since: Option<SystemTime>) -> bool {
    let changed = |path: &Path| {
        let metadata = path.symlink_metadata().ok()?;
        let nanoseconds = u32::try_from(metadata.ctime_nsec()).ok()?;
        Some(UNIX_EPOCH + Duration::new(u64::try_from(metadata.ctime()).ok()?, nanoseconds))
    };
    since.is_some_and(|since| changed(path).is_some_and(|at| at > since))
}

/// A watch that the kernel tells.
struct Told {
    tree: Tree,
    watcher: RecommendedWatcher,
    ended: Arc<AtomicBool>,
}

impl Told {
    fn new(tree: Tree, notices: SyncSender<Notice>, ended: Arc<AtomicBool>) -> io::Result<Self> {
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let told = match event {
                Ok(event) if event.need_rescan() => vec![Notice::Overflow],
                Ok(event) if matters(event.kind) => event.paths.into_iter().map(Notice::Changed).collect(),
                Ok(_) | Err(_) => Vec::new(),
            };
            for notice in told {
                // A full queue holds changes enough.
                let _full = notices.try_send(notice);
            }
        })
        .map_err(|error| in_words(&error))?;
        Ok(Self { tree, watcher, ended })
    }

    fn run(
        mut self,
        (delay, since): (Duration, Option<SystemTime>),
        heard: &mpsc::Receiver<Notice>,
        tell: &dyn Fn(News),
    ) -> io::Result<()> {
        let mut folders = Folders { watcher: &mut self.watcher, files: Vec::new() };
        self.tree.walk(&mut folders)?;
        let newer = folders.files.into_iter().filter(|path| is_newer(path, since));
        let mut changed: BTreeSet<PathBuf> = newer.collect();
        let mut burst = Burst::new(delay);
        if !changed.is_empty() {
            burst.on_change(Clock.now());
        }
        loop {
            let notice = match burst.due() {
                None => heard.recv().ok(),
                Some(at) => {
                    match heard.recv_timeout(at.since(Clock.now())) {
                        Ok(notice) => Some(notice),
                        Err(RecvTimeoutError::Disconnected) => None,
                        Err(RecvTimeoutError::Timeout) if !burst.ends(Clock.now()) => continue,
                        Err(RecvTimeoutError::Timeout) => {
                            let paths = std::mem::take(&mut changed).into_iter().take(PATHS_MAX).collect();
                            // Later changes may be on their way to us.
                            tell(News::Changed { paths, seen: SystemTime::now() - delay });
                            continue;
                        }
                    }
                }
            };
            if self.ended.load(Ordering::Acquire) {
                return Ok(());
            }
            let counts = match notice {
                None | Some(Notice::End) => return Ok(()),
                Some(Notice::Overflow) => self.begin_anew(&mut changed)?,
                Some(Notice::Changed(path)) => self.take(path, &mut changed)?,
            };
            if counts {
                burst.on_change(Clock.now());
            }
        }
    }

    /// Something has changed; returns whether it counts.
    fn take(&mut self, path: PathBuf, changed: &mut BTreeSet<PathBuf>) -> io::Result<bool> {
        if path.file_name().is_some_and(|name| name == ".gitignore") {
            self.tree.forget_gitignores();
        }
        let is_folder = path.is_dir();
        if !self.tree.is_within(&path) || !self.tree.counts(&path, is_folder) {
            return Ok(false);
        }
        if is_folder {
            // A folder by itself is nothing that an app consists of; what lies in it may have come before
            // it was watched.
            let mut folders = Folders { watcher: &mut self.watcher, files: Vec::new() };
            self.tree.walk_folder(&path, 0, &mut 0, &mut folders)?;
            let counts = !folders.files.is_empty();
            changed.extend(folders.files);
            Ok(counts)
        } else {
            changed.insert(path);
            Ok(true)
        }
    }

    fn begin_anew(&mut self, changed: &mut BTreeSet<PathBuf>) -> io::Result<bool> {
        let mut folders = Folders { watcher: &mut self.watcher, files: Vec::new() };
        self.tree.walk(&mut folders)?;
        let first = folders.files.into_iter().next();
        let counts = first.is_some();
        changed.extend(first);
        Ok(counts)
    }
}

/// Has the kernel tell of each folder that a walk finds.
struct Folders<'a> {
    watcher: &'a mut RecommendedWatcher,
    files: Vec<PathBuf>,
}

impl Visitor for Folders<'_> {
    fn folder(&mut self, path: &Path) -> io::Result<()> {
        match self.watcher.watch(path, RecursiveMode::NonRecursive) {
            // It may have gone meanwhile.
            Err(error) if path.is_dir() => Err(in_words(&error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn file(&mut self, path: &Path) {
        self.files.push(path.to_owned());
    }
}

/// Whether an event is a change: reading is none.
fn matters(kind: EventKind) -> bool {
    match kind {
        EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_) => true,
        EventKind::Any | EventKind::Access(_) | EventKind::Other => false,
    }
}

/// `EMFILE`: no watcher is left for this user, or no descriptor for the daemon.
const EMFILE: i32 = 24;

fn in_words(error: &notify::Error) -> io::Error {
    let text = match &error.kind {
        notify::ErrorKind::MaxFilesWatch => {
            "its limit of watched folders is reached (raise the sysctl fs.inotify.max_user_watches)"
                .to_owned()
        }
        notify::ErrorKind::Io(error) if error.raw_os_error() == Some(EMFILE) => {
            "its limit of watchers is reached (raise the sysctl fs.inotify.max_user_instances)".to_owned()
        }
        _ => error.to_string(),
    };
    io::Error::other(text)
}

#[cfg(test)]
mod tests;
