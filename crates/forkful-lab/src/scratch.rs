//! Temporary folders and the servers in them. They are known to the whole program, so that a program that
//! must exit at once can end the servers and remove the folders.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

use crate::server::{Tree, kill_managed};

static REGISTRY: Registry = Registry::new();

/// Ends every server that this program has started, and removes its temporary folders: for a program that
/// exits before what it has started is dropped.
pub fn remove_everything() {
    REGISTRY.remove_everything();
}

/// The folders that exist.
#[derive(Debug)]
struct Registry {
    entries: Mutex<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    folder: PathBuf,
    /// The root of the server's processes, with its start time, by which a reused process id is noticed.
    root: Option<(u32, u64)>,
}

impl Registry {
    const fn new() -> Self {
        Self { entries: Mutex::new(Vec::new()) }
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove_everything(&self) {
        let entries = std::mem::take(&mut *self.entries());
        for entry in &entries {
            // Without it, the server has ended already.
            let tree = entry.root.and_then(|(pid, start_time)| {
                Tree::of_pid(pid).ok().filter(|tree| tree.root().start_time == start_time)
            });
            if let Some(tree) = tree {
                tree.kill(&tree.members());
            }
            kill_managed(&entry.folder);
        }
        for entry in entries {
            // It may be removed already.
            drop(fs_err::remove_dir_all(entry.folder));
        }
    }
}

/// A temporary folder, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// `None` while it is dropped.
    folder: Option<TempDir>,
    path: PathBuf,
    registry: &'static Registry,
}

impl Scratch {
    pub(crate) fn new(prefix: &str) -> io::Result<Self> {
        Self::within(&REGISTRY, prefix)
    }

    fn within(registry: &'static Registry, prefix: &str) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(prefix).tempdir()?;
        let path = folder.path().to_owned();
        registry.entries().push(Entry { folder: path.clone(), root: None });
        Ok(Self { folder: Some(folder), path, registry })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Notes the server whose folder this is.
    pub(crate) fn holds(&self, tree: &Tree) {
        let root = Some((tree.root().pid, tree.root().start_time));
        self.registry
            .entries()
            .iter_mut()
            .filter(|entry| entry.folder == self.path)
            .for_each(|entry| entry.root = root);
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(self.folder.take());
        self.registry.entries().retain(|entry| entry.folder != self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn servers_are_ended_and_folders_removed_before_an_exit() {
        static OWN: Registry = Registry::new();
        let [server, managed, dropped] = ["a-", "b-", "c-"].map(|name| Scratch::within(&OWN, name).unwrap());
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        server.holds(&Tree::of_pid(child.id()).unwrap());
        let mut daemon =
            Command::new("sleep").arg("600").env("FORKFUL_HOME", managed.path()).spawn().unwrap();
        let gone = dropped.path().to_owned();
        drop(dropped);
        assert!(!gone.exists());
        assert_eq!(OWN.entries().len(), 2);
        OWN.remove_everything();
        let killed = [&mut child, &mut daemon].map(|process| process.wait().unwrap().signal());
        assert_eq!(killed, [Some(9), Some(9)]);
        assert!(!server.path().exists() && !managed.path().exists());
        // Dropping them afterwards has nothing left to do.
        drop((server, managed));
        assert!(OWN.entries().is_empty());
    }
}
