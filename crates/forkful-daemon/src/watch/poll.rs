//! Looking again and again, for file systems that do not tell of changes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::tree::{Tree, Visitor};

/// Files at one look: when each was written, and its length.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Look(BTreeMap<PathBuf, (Option<SystemTime>, u64)>);

impl Look {
    pub(super) fn at(tree: &Tree) -> Self {
        let mut look = Self::default();
        // What cannot be read now is there at the next look, or not.
        let _partial = tree.walk(&mut look);
        look
    }

    /// The files that are there.
    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.0.keys()
    }

    /// Files that are new, gone, or not as they were.
    pub(super) fn changed_since(&self, before: &Self) -> BTreeSet<PathBuf> {
        let other = |path: &&PathBuf| before.0.get(*path) != self.0.get(*path);
        self.0.keys().chain(before.0.keys()).filter(other).cloned().collect()
    }
}

impl Visitor for Look {
    fn folder(&mut self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn above(&mut self, _path: &Path) {}

    fn file(&mut self, path: &Path) {
        if let Ok(metadata) = path.metadata() {
            self.0.insert(path.to_owned(), (metadata.modified().ok(), metadata.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_gone_and_changed_files_are_seen() {
        let look = |files: &[(&str, u64)]| {
            Look(files.iter().map(|(name, length)| (PathBuf::from(name), (None, *length))).collect())
        };
        let changed =
            look(&[("a", 1), ("b", 2), ("c", 3)]).changed_since(&look(&[("a", 1), ("b", 9), ("d", 4)]));
        assert_eq!(changed, BTreeSet::from(["b", "c", "d"].map(PathBuf::from)));
    }
}
