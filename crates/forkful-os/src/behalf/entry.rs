//! A name in a folder, and everything that is done with the file of that name.

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

/// A FIFO without a reader is an error and not a wait; a terminal does not become ours.
const CAUTION: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
/// How often a file that comes and goes is tried.
const TRIES_MAX: u32 = 8;
/// Users whose links root follows anywhere.
const ROOT_ALONE: &[u32] = &[0];

/// How a path is walked.
#[derive(Debug, Clone, Copy)]
pub struct Find {
    /// The mode of folders that are made where they are absent; none are without one.
    pub make_folders: Option<u32>,
    /// The last part is followed if it is a link; otherwise the entry is the link itself.
    pub follow_last: bool,
}

impl Find {
    /// What is there: links are followed and nothing is made.
    pub const TO_READ: Self = Self { make_folders: None, follow_last: true };
    /// A file that is made if it is absent, with its folders, which are ours alone.
    pub const TO_WRITE: Self = Self { make_folders: Some(0o700), follow_last: true };
}

/// Which file it is, whatever its name: no other file has these numbers while it exists or is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    pub device: u64,
    /// The file in it.
    pub inode: u64,
}

impl Identity {
    /// That of an open file.
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        Ok(Self::of_stat(&fstat(file)?))
    }

    pub(super) fn of_stat(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

/// What is under a name; a link is not followed.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    /// Which file it is.
    pub identity: Identity,
    /// Neither a folder, a link, a device nor a pipe.
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
    /// The path that led here.
    asked: Arc<Path>,
}

/// Reads a regular file of at most `bytes_max` bytes; `path` is absolute.
pub fn read_whole(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    Entry::find(path, Find::TO_READ)?.read_whole(bytes_max)
}

impl Entry {
    /// Walks along `path`, which is absolute. The file itself need not exist.
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

    /// The name in it. It differs from the requested name where links were followed.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Another name in the same folder.
    pub fn sibling(&self, name: &OsStr) -> io::Result<Self> {
        if self.folder.is_kernels() {
            // The name may have several parts; their folders need not exist.
            return Err(Refused::Kernels { path: self.asked.to_path_buf() }.into());
        }
        check_name(name)?;
        let (folder, asked) = (Arc::clone(&self.folder), Arc::clone(&self.asked));
        Ok(Self { folder, name: name.to_owned(), asked })
    }

    /// What is under the name; `None` when nothing is.
    pub fn look(&self) -> io::Result<Option<Found>> {
        let stat = match statat(&self.folder.descriptor, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(None),
            other => other?,
        };
        let seconds = Duration::from_secs(stat.st_mtime.max(0).cast_unsigned());
        let nanoseconds = Duration::from_nanos(stat.st_mtime_nsec);
        Ok(Some(Found {
            identity: Identity::of_stat(&stat),
            is_regular: FileType::from_raw_mode(stat.st_mode).is_file(),
            bytes: stat.st_size.max(0).cast_unsigned(),
            modified: UNIX_EPOCH + seconds + nanoseconds,
            uid: stat.st_uid,
        }))
    }

    /// Whether the name is that of a file.
    pub fn is(&self, identity: Identity) -> io::Result<bool> {
        Ok(self.look()?.is_some_and(|found| found.identity == identity))
    }

    /// Opens a file to add to it, which is made with this mode (less the umask) if it is absent. It may be a pipe or a
    /// device.
    pub fn append(&self, mode: u32) -> io::Result<File> {
        self.open(OFlags::WRONLY | OFlags::APPEND, Some(mode))
    }

    /// Opens a file that exists to write to it from its beginning, or to empty it. It may be a pipe or a device.
    pub fn write(&self) -> io::Result<File> {
        self.open(OFlags::WRONLY, None)
    }

    /// Makes a file that does not exist.
    pub fn create_new(&self, mode: u32) -> io::Result<File> {
        self.folder.may_change(&self.asked)?;
        let how = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | CAUTION;
        Ok(openat(&self.folder.descriptor, &self.name, how, Mode::from_raw_mode(mode))?.into())
    }

    /// Opens a regular file to read it; anything else is an error of the kind `InvalidInput`.
    pub fn read(&self) -> io::Result<File> {
        let file = self.open(OFlags::RDONLY, None)?;
        if !FileType::from_raw_mode(fstat(&file)?.st_mode).is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        Ok(file)
    }

    /// All of a regular file; more than `bytes_max` is an error of the kind `FileTooLarge`.
    pub fn read_whole(&self, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read()?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > bytes_max {
            let error = format!("it is larger than {bytes_max} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, error));
        }
        Ok(bytes)
    }

    /// Gives the file `only` another name in its folder, but not that of another file, which is an error of the kind
    /// `AlreadyExists`. Says `false` when the name is no longer that of the file.
    pub fn rename_new(&self, to: &OsStr, only: Identity) -> io::Result<bool> {
        check_name(to)?;
        self.folder.may_change(&self.asked)?;
        if !self.is(only)? {
            return Ok(false);
        }
        let folder = &self.folder.descriptor;
        match renameat_with(folder, &self.name, folder, to, RenameFlags::NOREPLACE) {
            // Some file systems do not know how.
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

    /// Writes a new file in place of whatever has the name: a draft beside it (`.NAME.draft`), of which a watcher sees nothing,
    /// takes the name once `write` has succeeded. Readers see the old file or the whole new one, and a link is replaced and
    /// not followed.
    pub fn replace_whole(
        &self,
        mode: u32,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut name = OsString::from(".");
        name.push(&self.name);
        name.push(".draft");
        let draft = self.sibling(&name)?;
        // Left by a process that was killed in between.
        draft.remove(None)?;
        let written = draft.create_new(mode).and_then(|mut file| {
            write(&mut file)?;
            self.replace_by(&draft)
        });
        if written.is_err() {
            // What went wrong first is told.
            let _removed = draft.remove(None);
        }
        written
    }

    /// Puts `draft`, of the same folder, in place of whatever has the name.
    pub fn replace_by(&self, draft: &Self) -> io::Result<()> {
        self.folder.may_change(&self.asked)?;
        if !Arc::ptr_eq(&self.folder, &draft.folder) {
            return Err(Errno::XDEV.into());
        }
        Ok(renameat(&self.folder.descriptor, &draft.name, &self.folder.descriptor, &self.name)?)
    }

    /// Removes what has the name, not a folder; only that file if one is given. Says whether anything was removed.
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

    /// Opens what is under the name.
    fn open(&self, how: OFlags, make: Option<u32>) -> io::Result<File> {
        let folder = &self.folder;
        // What is in `/proc` are links that only the kernel can follow.
        let nofollow = if folder.is_kernels() { OFlags::empty() } else { OFlags::NOFOLLOW };
        let how = how | nofollow | CAUTION;
        for _ in 0..TRIES_MAX {
            let opened = match (openat(&folder.descriptor, &self.name, how, Mode::empty()), make) {
                // Not in one call with the attempt before, because the kernel refuses to root what others own in
                // `/tmp` if it is to be made (fs.protected_regular).
                (Err(Errno::NOENT), Some(mode)) => {
                    folder.may_change(&self.asked)?;
                    let made = how | OFlags::CREATE | OFlags::EXCL;
                    openat(&folder.descriptor, &self.name, made, Mode::from_raw_mode(mode))
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
