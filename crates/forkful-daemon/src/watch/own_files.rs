//! Files that the daemon writes itself: its home, and the log files of an app with what is set aside of them. Their changes
//! are no changes of the app.
//!
//! One folder may have several paths: `current/logs` and `releases/5/logs`, where `current` is a link. Events have the path
//! by which a folder is watched, and log files the path of the configuration. So paths are compared first, and where only
//! the name fits, the folders are.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::logs::archived_log_of;

/// A folder, whatever its path: device and inode.
type Identity = (u64, u64);

/// See the module's documentation. Looks at the disk, so it belongs to the thread that watches.
#[derive(Debug, Clone, Default)]
pub(super) struct OwnFiles {
    /// Paths of the home, which is left out with everything in it.
    home: BTreeSet<PathBuf>,
    /// By the name of the log file.
    logs: BTreeMap<OsString, LogFolders>,
}

/// Where log files of one name are.
#[derive(Debug, Clone, Default)]
struct LogFolders {
    paths: BTreeSet<PathBuf>,
    /// The folders that these paths have led to. A link may lead elsewhere later, while workers still write to the file that
    /// they have opened.
    found: RefCell<BTreeSet<Identity>>,
}

impl OwnFiles {
    pub(super) fn new(home: &Path) -> Self {
        let resolved = home.canonicalize().unwrap_or_else(|_| home.to_owned());
        Self { home: BTreeSet::from([home.to_owned(), resolved]), logs: BTreeMap::new() }
    }

    /// Adds log files.
    pub(super) fn add_logs(&mut self, logs: impl IntoIterator<Item = PathBuf>) {
        for log in logs {
            let (Some(folder), Some(name)) = (log.parent(), log.file_name()) else { continue };
            let folders = self.logs.entry(name.to_owned()).or_default();
            folders.found.borrow_mut().extend(identity(folder));
            folders.paths.insert(folder.to_owned());
        }
    }

    /// Whether the daemon writes this file, or everything in this folder.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.is_home(path) || self.is_log(path)
    }

    fn is_home(&self, path: &Path) -> bool {
        self.home.iter().any(|home| {
            // What is in the home is not walked to, so that only the home itself can come by another path.
            let is_same = || identity(path).is_some_and(|found| identity(home) == Some(found));
            path.starts_with(home) || (path.file_name() == home.file_name() && is_same())
        })
    }

    fn is_log(&self, path: &Path) -> bool {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return false };
        let archived = archived_log_of(name).map(OsStr::to_owned);
        std::iter::once(name)
            .chain(archived.as_deref())
            .any(|log| self.logs.get(log).is_some_and(|folders| folders.has(folder)))
    }
}

impl LogFolders {
    fn has(&self, folder: &Path) -> bool {
        if self.paths.contains(folder) {
            return true;
        }
        let Some(here) = identity(folder) else { return false };
        let mut found = self.found.borrow_mut();
        // The folder may have been made, and a link changed, after the last time.
        found.contains(&here) || {
            found.extend(self.paths.iter().filter_map(|path| identity(path)));
            found.contains(&here)
        }
    }
}

fn identity(folder: &Path) -> Option<Identity> {
    folder.metadata().ok().map(|found| (found.dev(), found.ino()))
}
