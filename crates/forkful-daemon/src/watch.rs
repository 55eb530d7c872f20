//! Watching the files of an app: one thread for each app that asks for it, asleep while nothing changes.
//!
//! The kernel tells of changes folder by folder; only folders that matter are watched (`tree`), so that
//! `node_modules`, what `.gitignore` names, and the app's own logs cost nothing. File systems that do not
//! tell are looked at again and again (`poll`). A change is passed on once nothing more has changed for
//! the user's delay.

mod own_files;
mod poll;
mod tree;

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use forkful_core::spec::Watch;
use forkful_core::upkeep::burst::Burst;
use forkful_os::behalf::{Rights, as_user};
use notify::event::ModifyKind;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use own_files::OwnFiles;
use poll::Look;
use tree::{Tree, Visitor};

use crate::engine::Clock;

/// How often files are looked at when the kernel cannot tell of changes.
const FALLBACK: Duration = Duration::from_secs(2);
/// Paths that are passed on; people read only the first.
const PATHS_MAX: usize = 100;
/// Notices that wait for the thread. When there are more, it walks over all files again.
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
    /// Log files that do not count. They only become more: a worker that leaves still writes to its file, and what was set aside
    /// of it is still compressed.
    logs: BTreeSet<PathBuf>,
    notices: SyncSender<Notice>,
    shared: Arc<Shared>,
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

/// What the thread looks at when it has heard something.
#[derive(Debug, Default)]
struct Shared {
    ended: AtomicBool,
    /// Notices were lost, because the queue was full.
    lost: AtomicBool,
    /// Log files that the tree does not know yet.
    new_logs: Mutex<Vec<PathBuf>>,
}

impl Shared {
    fn add_logs(&self, logs: impl IntoIterator<Item = PathBuf>) {
        self.new_logs.lock().unwrap_or_else(PoisonError::into_inner).extend(logs);
    }

    fn take_logs(&self) -> Vec<PathBuf> {
        std::mem::take(&mut *self.new_logs.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

/// What to watch, and how.
pub(crate) struct WatchRequest<'a> {
    pub(crate) watch: Watch,
    /// Whose file rights the thread has: those of the app's user.
    pub(crate) user: Option<Rights>,
    pub(crate) cwd: &'a Path,
    /// A folder whose changes do not count.
    pub(crate) home: &'a Path,
    /// Log files whose changes do not count, nor those of what is set aside of them.
    pub(crate) logs: BTreeSet<PathBuf>,
    /// Files that were changed later are told at once.
    pub(crate) since: Option<SystemTime>,
}

impl Watcher {
    /// Begins to watch, on a thread of its own.
    pub(crate) fn start(request: WatchRequest<'_>, tell: impl Fn(News) + Send + 'static) -> io::Result<Self> {
        let WatchRequest { watch, user, cwd, home, logs, since } = request;
        let (cwd, home) = (cwd.to_owned(), home.to_owned());
        let (notices, heard) = mpsc::sync_channel(NOTICES_MAX);
        let shared = Arc::new(Shared::default());
        shared.add_logs(logs.iter().cloned());
        let (sender, of) = (notices.clone(), watch.clone());
        let inbox = Inbox { notices: heard, shared: Arc::clone(&shared) };
        std::thread::Builder::new().name("forkful-watch".to_owned()).spawn(move || {
            let work = || {
                let mut tree = Tree::new(&watch, &cwd, OwnFiles::new(&home))?;
                tree.exclude_logs(inbox.shared.take_logs());
                work(tree, &watch, since, sender, &inbox, &tell);
                Ok(())
            };
            let done = match user {
                Some(user) => as_user(&user, work),
                None => work(),
            };
            if let Err(error) = done {
                tell(News::Failed(error.to_string()));
            }
        })?;
        Ok(Self { of, logs, notices, shared })
    }

    /// Whether this is what is asked for.
    pub(crate) fn is_for(&self, watch: &Watch) -> bool {
        self.of == *watch
    }

    /// Log files that do not count.
    pub(crate) fn logs(&self) -> &BTreeSet<PathBuf> {
        &self.logs
    }

    /// Changes of these log files do not count from now on: those that come after this call.
    pub(crate) fn exclude_logs(&mut self, logs: impl IntoIterator<Item = PathBuf>) {
        let new: Vec<_> = logs.into_iter().filter(|log| self.logs.insert(log.clone())).collect();
        self.shared.add_logs(new);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        // A full queue wakes the thread as well, and it looks at the flag.
        let _full = self.notices.try_send(Notice::End);
    }
}

/// What the thread does until the end.
fn work(
    mut tree: Tree,
    watch: &Watch,
    since: Option<SystemTime>,
    sender: SyncSender<Notice>,
    inbox: &Inbox,
    tell: &dyn Fn(News),
) {
    if let Some(interval) = watch.polling {
        return look_again(&mut tree, interval, Untold { since, changed: BTreeSet::new() }, inbox, tell);
    }
    let untold = Untold { since, changed: BTreeSet::new() };
    let (error, untold) = match kernel_watcher(&tree, sender, Arc::clone(&inbox.shared)) {
        Err(error) => (error, untold),
        Ok(watcher) => {
            let mut told = Told { watcher, untold };
            match told.run(&mut tree, watch.delay, inbox, tell) {
                Ok(()) => return,
                Err(error) => (error, told.untold),
            }
        }
    };
    poll_instead(&error, &mut tree, (FALLBACK, untold), inbox, tell);
}

/// How the thread hears of changes, and of the end.
struct Inbox {
    notices: Receiver<Notice>,
    shared: Arc<Shared>,
}

/// What has changed and was not told yet.
#[derive(Debug, Default)]
struct Untold {
    /// What was changed up to here was told, or need not be; nothing is known of later changes but `changed`.
    since: Option<SystemTime>,
    changed: BTreeSet<PathBuf>,
}

/// All programs of a user share the kernel's limits of watches. When a limit is reached, changes are noticed later, by polling.
fn poll_instead(
    error: &io::Error,
    tree: &mut Tree,
    (interval, untold): (Duration, Untold),
    inbox: &Inbox,
    tell: &dyn Fn(News),
) {
    tell(News::Polls(format!(
        "its files are looked at every {} s, because the kernel cannot tell of changes: {error}",
        interval.as_secs()
    )));
    look_again(tree, interval, untold, inbox, tell);
}

/// Looks again after each interval, until the end.
fn look_again(tree: &mut Tree, interval: Duration, untold: Untold, inbox: &Inbox, tell: &dyn Fn(News)) {
    let tell_changed = |tree: &Tree, mut paths: BTreeSet<PathBuf>, seen| {
        // Log files may have become known while the files were looked at.
        paths.retain(|path| !tree.is_own(path));
        if !paths.is_empty() {
            tell(News::Changed { paths: paths.into_iter().take(PATHS_MAX).collect(), seen });
        }
    };
    let (mut seen, mut last) = (SystemTime::now(), Look::at(tree));
    let Untold { since, mut changed } = untold;
    changed.extend(last.paths().filter(|path| is_newer(path, since)).cloned());
    loop {
        tree.exclude_logs(inbox.shared.take_logs());
        tell_changed(tree, changed, seen);
        if inbox.ends_within(interval) {
            return;
        }
        seen = SystemTime::now();
        let look = Look::at(tree);
        changed = look.changed_since(&last);
        last = look;
    }
}

impl Inbox {
    /// Waits for the end, at most so long; returns whether it has come. What the kernel still tells of changes does not matter.
    fn ends_within(&self, interval: Duration) -> bool {
        let until = Instant::now() + interval;
        while !self.shared.has_ended() {
            match self.notices.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Notice::Changed(_) | Notice::Overflow) => {}
                Ok(Notice::End) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
        true
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
    watcher: RecommendedWatcher,
    untold: Untold,
}

/// A watcher of the kernel that passes on what may matter.
fn kernel_watcher(
    tree: &Tree,
    notices: SyncSender<Notice>,
    shared: Arc<Shared>,
) -> io::Result<RecommendedWatcher> {
    let named = tree.named().to_vec();
    // Above the named paths are folders where others may write a lot; there, what matters is that a folder was made.
    let may_matter = move |kind: EventKind, path: &Path| {
        let is_new = matches!(kind, EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(_)));
        named.iter().any(|named| path.starts_with(named) || (is_new && named.starts_with(path)))
            || is_gitignore(path)
    };
    let listen = move |event: notify::Result<notify::Event>| {
        let told = match event {
            Ok(event) if event.need_rescan() => vec![Notice::Overflow],
            Ok(event) if matters(event.kind) => {
                let kind = event.kind;
                event.paths.into_iter().filter(|path| may_matter(kind, path)).map(Notice::Changed).collect()
            }
            Ok(_) | Err(_) => Vec::new(),
        };
        for notice in told {
            if let Err(TrySendError::Full(_)) = notices.try_send(notice) {
                shared.lost.store(true, Ordering::Release);
            }
        }
    };
    notify::recommended_watcher(listen).map_err(|error| in_words(&error))
}

fn is_gitignore(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == ".gitignore")
}

impl Told {
    fn run(
        &mut self,
        tree: &mut Tree,
        delay: Duration,
        inbox: &Inbox,
        tell: &dyn Fn(News),
    ) -> io::Result<()> {
        let began = SystemTime::now();
        let files = self.walk(tree, Path::new("/"))?;
        let since = self.untold.since;
        self.untold.changed.extend(files.into_iter().filter(|path| is_newer(path, since)));
        self.untold.since.get_or_insert(began);
        let mut burst = Burst::new(delay);
        if !self.untold.changed.is_empty() {
            burst.on_change(Clock.now());
        }
        while !inbox.shared.has_ended() {
            let notice = match burst.due() {
                None => inbox.notices.recv().ok(),
                Some(at) => match inbox.notices.recv_timeout(at.since(Clock.now())) {
                    Ok(notice) => Some(notice),
                    Err(RecvTimeoutError::Disconnected) => None,
                    Err(RecvTimeoutError::Timeout) => {
                        if burst.ends(Clock.now()) {
                            tree.exclude_logs(inbox.shared.take_logs());
                            self.tell_changed(tree, delay, tell);
                        }
                        continue;
                    }
                },
            };
            let Some(notice) = notice else { return Ok(()) };
            tree.exclude_logs(inbox.shared.take_logs());
            if self.hear(notice, tree, inbox)? {
                burst.on_change(Clock.now());
            }
        }
        Ok(())
    }

    /// Tells what has changed, when nothing more has changed for the delay.
    fn tell_changed(&mut self, tree: &Tree, delay: Duration, tell: &dyn Fn(News)) {
        let mut changed = std::mem::take(&mut self.untold.changed);
        // Log files may have become known during a walk.
        changed.retain(|path| !tree.is_own(path));
        // Later changes may be on their way to us.
        let seen = SystemTime::now() - delay;
        self.untold.since = Some(seen);
        if !changed.is_empty() {
            tell(News::Changed { paths: changed.into_iter().take(PATHS_MAX).collect(), seen });
        }
    }

    /// Follows a notice; returns whether it is of a change that counts.
    fn hear(&mut self, notice: Notice, tree: &Tree, inbox: &Inbox) -> io::Result<bool> {
        if inbox.shared.lost.swap(false, Ordering::AcqRel) {
            // The walk finds what the queue tells of, and what there was no room for. The end has a flag.
            inbox.notices.try_iter().take(NOTICES_MAX).for_each(drop);
            return self.begin_anew(tree);
        }
        match notice {
            Notice::End => Ok(false),
            Notice::Overflow => self.begin_anew(tree),
            Notice::Changed(path) => self.take(path, tree),
        }
    }

    /// Something has changed; returns whether it counts.
    fn take(&mut self, path: PathBuf, tree: &Tree) -> io::Result<bool> {
        if is_gitignore(&path) {
            tree.forget_gitignores();
        }
        let is_folder = path.is_dir();
        let files = if is_folder && tree.is_above(&path) {
            // What lies on the way to a named path was made again.
            self.walk(tree, &path)?
        } else if !tree.is_within(&path) || !tree.counts(&path, is_folder) {
            return Ok(false);
        } else if is_folder {
            // A folder by itself is nothing that an app consists of; what lies in it may have come before
            // it was watched.
            let mut folders = Folders { watcher: &mut self.watcher, files: Vec::new() };
            tree.walk_folder(&path, 0, &mut 0, &mut folders)?;
            folders.files
        } else {
            vec![path]
        };
        let counts = !files.is_empty();
        self.untold.changed.extend(files);
        Ok(counts)
    }

    fn begin_anew(&mut self, tree: &Tree) -> io::Result<bool> {
        tree.forget_gitignores();
        let since = self.untold.since;
        let mut files = self.walk(tree, Path::new("/"))?.into_iter();
        let first = files.find(|path| since.is_none() || is_newer(path, since));
        let counts = first.is_some();
        self.untold.changed.extend(first);
        Ok(counts)
    }

    /// Watches what the user has named in a folder; returns the files.
    fn walk(&mut self, tree: &Tree, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut folders = Folders { watcher: &mut self.watcher, files: Vec::new() };
        tree.walk_below(folder, &mut folders)?;
        Ok(folders.files)
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

    fn above(&mut self, path: &Path) {
        // It may belong to others. Without it, what is below is watched all the same, until that is made again.
        let _not_readable = self.watcher.watch(path, RecursiveMode::NonRecursive);
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
