//! A name in a folder, and all operations on the file with that name.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, fstat, openat, renameat, renameat_with, statat,
    unlinkat,
};
use rustix::io::Errno;

use super::folder::{Folder, Refused, Trust, check_name};
use super::rights::has_roots_rights;
use super::walk::Walk;
use crate::sys;

/// Opening a FIFO without a reader fails instead of waiting; a terminal does not become our controlling
/// terminal.
const CAUTION: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
/// How often to try a file that is created and removed concurrently.
const TRIES_MAX: u32 = 8;
/// Users whose links root always follows.
const ROOT_ALONE: &[u32] = &[0];

/// How to walk a path.
#[derive(Debug, Clone, Copy)]
pub struct Find {
    /// The mode of missing folders, which are created; `None`: they are not created.
    pub make_folders: Option<u32>,
    /// If the last component is a link, follow it; otherwise the entry is the link itself.
    pub follow_last: bool,
}

impl Find {
    /// For an existing file: follows links, creates nothing.
    pub const TO_READ: Self = Self { make_folders: None, follow_last: true };
    /// For a file that is created if absent, together with its folders, which only we can access.
    pub const TO_WRITE: Self = Self { make_folders: Some(0o700), follow_last: true };
}

/// The identity of a file, independent of its name: unique as long as the file exists or is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    pub device: u64,
    /// The inode number.
    pub inode: u64,
}

impl Identity {
    /// The identity of an open file.
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        Ok(Self::of_stat(&fstat(file)?))
    }

    pub(super) fn of_stat(stat: &Stat) -> Self {
        Self { device: sys::device(stat), inode: stat.st_ino }
    }
}

/// The file with a name; links are not followed.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    /// The file's identity.
    pub identity: Identity,
    /// Not a folder, link, device or pipe.
    pub is_regular: bool,
    pub bytes: u64,
    /// When it was last written.
    pub modified: SystemTime,
    pub uid: u32,
}

/// A name in a folder; see the module's documentation.
#[derive(Debug, Clone)]
pub struct Entry {
    folder: Arc<Folder>,
    name: OsString,
    /// The requested path.
    asked: Arc<Path>,
}

/// Reads a regular file of at most `bytes_max` bytes; `path` must be absolute.
pub fn read_whole(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    Entry::find(path, Find::TO_READ)?.read_whole(bytes_max)
}

impl Entry {
    /// Walks along an absolute path. The file itself need not exist.
    pub fn find(path: &Path, find: Find) -> io::Result<Self> {
        let trust = if has_roots_rights() { Trust::Only(ROOT_ALONE) } else { Trust::Everyone };
        Self::found(Walk::new(path, find, trust))
    }

    pub(super) fn found(walk: Walk<'_>) -> io::Result<Self> {
        let asked = walk.path.into();
        let (folder, name) = walk.go()?;
        Ok(Self { folder, name, asked })
    }

    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The name in the folder. It differs from the requested name if links were followed.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Another name in the same folder.
    pub fn sibling(&self, name: &OsStr) -> io::Result<Self> {
        if self.folder.is_kernels() {
            // The name may have several components, whose folders need not exist.
            return Err(Refused::Kernels { path: self.asked.to_path_buf() }.into());
        }
        check_name(name)?;
        let (folder, asked) = (Arc::clone(&self.folder), Arc::clone(&self.asked));
        Ok(Self { folder, name: name.to_owned(), asked })
    }

    /// The file with this name; `None` if there is none.
    pub fn look(&self) -> io::Result<Option<Found>> {
        let stat = match statat(&self.folder.descriptor, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(None),
            other => other?,
        };
        let seconds = Duration::from_secs(stat.st_mtime.max(0).cast_unsigned());
        let nanoseconds = Duration::from_nanos(sys::modified_nanoseconds(&stat));
        Ok(Some(Found {
            identity: Identity::of_stat(&stat),
            is_regular: FileType::from_raw_mode(stat.st_mode).is_file(),
            bytes: stat.st_size.max(0).cast_unsigned(),
            modified: UNIX_EPOCH + seconds + nanoseconds,
            uid: stat.st_uid,
        }))
    }

    /// Whether the name belongs to this file.
    pub fn is(&self, identity: Identity) -> io::Result<bool> {
        Ok(self.look()?.is_some_and(|found| found.identity == identity))
    }

    /// Opens a file for appending. If absent, it is created with this mode (minus the umask). It may be a
    /// pipe or a device.
    pub fn append(&self, mode: u32) -> io::Result<File> {
        self.open(OFlags::WRONLY | OFlags::APPEND, Some(mode))
    }

    /// Opens an existing file for writing from its beginning, or for truncating. It may be a pipe or a
    /// device.
    pub fn write(&self) -> io::Result<File> {
        self.open(OFlags::WRONLY, None)
    }

    /// Creates a file, which must not exist.
    pub fn create_new(&self, mode: u32) -> io::Result<File> {
        self.folder.may_change(&self.asked)?;
        let how = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | CAUTION;
        Ok(openat(&self.folder.descriptor, &self.name, how, sys::mode(mode))?.into())
    }

    /// Opens a regular file for reading; any other type is an error of the kind `InvalidInput`.
    pub fn read(&self) -> io::Result<File> {
        let file = self.open(OFlags::RDONLY, None)?;
        if !FileType::from_raw_mode(fstat(&file)?.st_mode).is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        Ok(file)
    }

    /// Reads a regular file; more than `bytes_max` is an error of the kind `FileTooLarge`.
    pub fn read_whole(&self, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read()?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > bytes_max {
            let error = format!("it is larger than {bytes_max} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, error));
        }
        Ok(bytes)
    }

    /// Renames the file `only` within its folder without replacing another file, which is an error of the
    /// kind `AlreadyExists`. Returns `false` if the name no longer belongs to that file.
    pub fn rename_new(&self, to: &OsStr, only: Identity) -> io::Result<bool> {
        check_name(to)?;
        self.folder.may_change(&self.asked)?;
        if !self.is(only)? {
            return Ok(false);
        }
        let folder = &self.folder.descriptor;
        match renameat_with(folder, &self.name, folder, to, RenameFlags::NOREPLACE) {
            // Some file systems do not support this.
            Err(Errno::INVAL | Errno::NOSYS) => {
                if self.sibling(to)?.look()?.is_some() {
                    return Err(Errno::EXIST.into());
                }
                renameat(folder, &self.name, folder, to)?;
            }
            Err(Errno::NOENT) => return Ok(false),
            other => other?,
        }
        Ok(true)
    }

    /// Replaces the file with this name atomically: a draft in the same folder (`.NAME.draft`, which watchers
    /// ignore) takes the name after `write` has succeeded. Readers see the old file or the complete new file.
    /// A link is replaced, not followed.
    pub fn replace_whole(
        &self,
        mode: u32,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut name = OsString::from(".");
        name.push(&self.name);
        name.push(".draft");
        let draft = self.sibling(&name)?;
        // Left behind by a process that was killed in between.
        draft.remove(None)?;
        let written = draft.create_new(mode).and_then(|mut file| {
            write(&mut file)?;
            self.replace_by(&draft)
        });
        if written.is_err() {
            // Report the first error.
            let _removed = draft.remove(None);
        }
        written
    }

    /// Renames `draft`, in the same folder, to this name and replaces the existing file.
    pub fn replace_by(&self, draft: &Self) -> io::Result<()> {
        self.folder.may_change(&self.asked)?;
        if !Arc::ptr_eq(&self.folder, &draft.folder) {
            return Err(Errno::XDEV.into());
        }
        Ok(renameat(&self.folder.descriptor, &draft.name, &self.folder.descriptor, &self.name)?)
    }

    /// Removes the file with this name, but not a folder; with `only`, only that file. Returns whether
    /// anything was removed.
    pub fn remove(&self, only: Option<Identity>) -> io::Result<bool> {
        self.folder.may_change(&self.asked)?;
        if let Some(only) = only
            && !self.is(only)?
        {
            return Ok(false);
        }
        match unlinkat(&self.folder.descriptor, &self.name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(false),
            other => Ok(other.map(|()| true)?),
        }
    }

    /// Opens the file with this name.
    fn open(&self, how: OFlags, make: Option<u32>) -> io::Result<File> {
        let folder = &self.folder;
        // Entries in `/proc` are links that only the kernel can follow.
        let nofollow = if folder.is_kernels() { OFlags::empty() } else { OFlags::NOFOLLOW };
        let how = how | nofollow | CAUTION;
        for _ in 0..TRIES_MAX {
            let opened = match (openat(&folder.descriptor, &self.name, how, Mode::empty()), make) {
                // Not combined with the previous attempt, because in `/tmp` the kernel refuses root to open
                // other users' files with O_CREAT (fs.protected_regular).
                (Err(Errno::NOENT), Some(mode)) => {
                    folder.may_change(&self.asked)?;
                    let made = how | OFlags::CREATE | OFlags::EXCL;
                    openat(&folder.descriptor, &self.name, made, sys::mode(mode))
                }
                (opened, _) => opened,
            };
            match opened {
                Err(Errno::EXIST) => {}
                other => {
                    let file = File::from(other?);
                    folder.check_file(&fstat(&file)?, &self.asked)?;
                    return Ok(file);
                }
            }
        }
        Err(Errno::EXIST.into())
    }
}
