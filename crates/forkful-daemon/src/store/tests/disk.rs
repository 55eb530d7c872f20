//! A disk in memory that can stop the program at any call, fail calls, and lose what was not synced.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::super::files::Files;

/// The most bytes that one write takes, so that a save has several.
const WRITE_BYTES: usize = 700;

#[derive(Debug, Clone, Default)]
struct Inode {
    /// As programs see it.
    data: Vec<u8>,
    /// As the disk has it.
    synced: Vec<u8>,
}

/// A change of names that is not on the disk before the folder is synced.
#[derive(Debug, Clone)]
enum Change {
    Name(PathBuf, usize),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

#[derive(Debug, Clone, Default)]
struct Model {
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    synced_names: BTreeMap<PathBuf, usize>,
    unsynced: Vec<Change>,
    calls: usize,
    stop_at: Option<usize>,
    fail_at: Option<usize>,
    reads_fail: bool,
}

impl Model {
    /// Counts a call; an error when it does not happen.
    fn call(&mut self) -> io::Result<()> {
        let call = self.calls;
        self.calls += 1;
        if self.stop_at.is_some_and(|at| call >= at) {
            return Err(io::Error::other("the program is stopped"));
        }
        if self.fail_at == Some(call) {
            return Err(io::Error::from_raw_os_error(28));
        }
        Ok(())
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.names, &change);
        self.unsynced.push(change);
    }
}

fn apply(names: &mut BTreeMap<PathBuf, usize>, change: &Change) {
    match change {
        Change::Name(path, inode) => {
            names.insert(path.clone(), *inode);
        }
        Change::Rename(from, to) => {
            if let Some(inode) = names.remove(from) {
                names.insert(to.clone(), inode);
            }
        }
        Change::Remove(path) => {
            names.remove(path);
        }
    }
}

/// See the module's documentation.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk(Rc<RefCell<Model>>);

impl Disk {
    pub(super) fn files(&self) -> MemoryFiles {
        MemoryFiles(self.clone())
    }

    /// From this call on, counted from the first, nothing happens any more.
    pub(super) fn stop_at(&self, call: usize) {
        self.0.borrow_mut().stop_at = Some(call);
    }

    /// Another program comes.
    pub(super) fn go_on(&self) {
        self.0.borrow_mut().stop_at = None;
    }

    /// This call from now on fails, once.
    pub(super) fn fail_at(&self, call: usize) {
        let mut model = self.0.borrow_mut();
        model.fail_at = Some(model.calls + call);
    }

    pub(super) fn fail_reads(&self, fail: bool) {
        self.0.borrow_mut().reads_fail = fail;
    }

    pub(super) fn put(&self, path: &str, bytes: &[u8]) {
        let mut model = self.0.borrow_mut();
        let inode = model.inodes.len();
        model.inodes.push(Inode { data: bytes.to_vec(), synced: bytes.to_vec() });
        model.names.insert(path.into(), inode);
        model.synced_names.insert(path.into(), inode);
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.0.borrow().names.keys().map(|path| path.display().to_string()).collect()
    }

    /// What all files hold.
    pub(super) fn texts(&self) -> Vec<Vec<u8>> {
        let model = self.0.borrow();
        model.names.values().map(|inode| model.inodes[*inode].data.clone()).collect()
    }

    /// How many changes of names are not certain to be on the disk.
    pub(super) fn unsynced(&self) -> usize {
        self.0.borrow().unsynced.len()
    }

    /// The disk after the machine has stopped: synced content, and so many of the unsynced names.
    pub(super) fn after_power_cut(&self, reached: usize) -> Self {
        let mut model = self.0.borrow().clone();
        let mut names = model.synced_names.clone();
        model.unsynced.iter().take(reached).for_each(|change| apply(&mut names, change));
        model.inodes.iter_mut().for_each(|inode| inode.data.clone_from(&inode.synced));
        model.synced_names.clone_from(&names);
        model.names = names;
        model.unsynced.clear();
        Self(Rc::new(RefCell::new(model)))
    }
}

/// The files of a [`Disk`].
#[derive(Debug)]
pub(super) struct MemoryFiles(Disk);

impl Files for MemoryFiles {
    type File = usize;

    fn create(&mut self, path: &Path) -> io::Result<usize> {
        let mut model = self.0.0.borrow_mut();
        model.call()?;
        if let Some(inode) = model.names.get(path).copied() {
            // The disk may have it emptied at any time from now on.
            model.inodes[inode] = Inode::default();
            return Ok(inode);
        }
        let inode = model.inodes.len();
        model.inodes.push(Inode::default());
        model.change(Change::Name(path.to_owned(), inode));
        Ok(inode)
    }

    fn write(&mut self, file: &mut usize, bytes: &[u8]) -> io::Result<usize> {
        let mut model = self.0.0.borrow_mut();
        model.call()?;
        let taken = bytes.len().min(WRITE_BYTES);
        model.inodes[*file].data.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn sync(&mut self, file: &mut usize) -> io::Result<()> {
        let mut model = self.0.0.borrow_mut();
        model.call()?;
        let inode = &mut model.inodes[*file];
        inode.synced.clone_from(&inode.data);
        Ok(())
    }

    fn sync_folder(&mut self, _folder: &Path) -> io::Result<()> {
        let mut model = self.0.0.borrow_mut();
        model.call()?;
        let names = model.names.clone();
        model.synced_names = names;
        model.unsynced.clear();
        Ok(())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let mut model = self.0.0.borrow_mut();
        model.call()?;
        if !model.names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        model.change(Change::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn rename_to_free(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        if self.0.0.borrow().names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.rename(from, to)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        let mut model = self.0.0.borrow_mut();
        model.call()?;
        if !model.names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        model.change(Change::Remove(path.to_owned()));
        Ok(())
    }

    fn names(&mut self, folder: &Path) -> io::Result<Vec<OsString>> {
        let mut model = self.0.0.borrow_mut();
        model.call()?;
        let within = model.names.keys().filter(|path| path.parent() == Some(folder));
        Ok(within.filter_map(|path| path.file_name()).map(OsString::from).collect())
    }

    fn read(&mut self, path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        let mut model = self.0.0.borrow_mut();
        model.call()?;
        if model.reads_fail && model.names.contains_key(path) {
            return Err(io::Error::from_raw_os_error(5));
        }
        let Some(inode) = model.names.get(path) else { return Ok(None) };
        let data = &model.inodes[*inode].data;
        Ok(Some(data[..data.len().min(bytes_max as usize)].to_vec()))
    }
}
