//! An open folder, and the checks for operations in it.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{Dir, FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;

use super::entry::Identity;

/// Maximum names returned for a folder, so that millions of files do not use unbounded memory.
pub const NAMES_MAX: usize = 65_536;
/// Anybody may link to the null device.
const NULL_DEVICE: (u32, u32) = (1, 3);

/// Why an operation was refused although the kernel would have allowed it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A link owned by another user leads to something that this user does not own.
    #[error(
        "{path} leads through a link owned by user {user} to a file that this user does not own; `chown -h root` the link if it is intended"
    )]
    Link {
        /// The requested path.
        path: PathBuf,
        user: u32,
    },
    /// A hard link, in a folder that others can write to, to a file that the folder's owner does not own.
    #[error(
        "{path} is a hard link in a folder of user {user} in which others than root can write, and the file is not \
         that user's"
    )]
    HardLink {
        /// The requested path.
        path: PathBuf,
        user: u32,
    },
    /// Files in `/proc` are never created, renamed or removed.
    #[error("{path} leads into /proc, where no file can be made")]
    Kernels {
        /// The requested path.
        path: PathBuf,
    },
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, refused)
    }
}

/// Whether an error is a refusal of this module, not of the kernel.
pub fn is_refusal(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Refused>)
}

/// Whose links are always followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Trust {
    /// Everybody's, as the kernel does.
    Everyone,
    /// Only those of these users.
    Only(&'static [u32]),
}

impl Trust {
    pub(super) fn covers(self, user: u32) -> bool {
        match self {
            Self::Everyone => true,
            Self::Only(users) => users.contains(&user),
        }
    }

    /// Whether an untrusted user can create and rename entries in a folder.
    pub(super) fn is_open_to_others(self, folder: &Stat) -> bool {
        let others_write = Mode::from_raw_mode(folder.st_mode).intersects(Mode::WGRP | Mode::WOTH);
        match self {
            Self::Everyone => false,
            Self::Only(_) => !self.covers(folder.st_uid) || others_write,
        }
    }
}

/// A folder, held by a descriptor: renaming it or replacing it by a link has no effect. All entries found in
/// a folder in the same way share one descriptor.
#[derive(Debug)]
pub struct Folder {
    /// An `O_PATH` descriptor, without access rights.
    pub(super) descriptor: OwnedFd,
    manner: Manner,
}

/// The identity of a folder, and how it was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Manner {
    identity: Identity,
    trust: Trust,
    led_by: Option<u32>,
    is_kernels: bool,
}

/// The folders that are open now. An open folder keeps its inode number, so no other folder has it.
static HELD: Mutex<Option<HashMap<Manner, Weak<Folder>>>> = Mutex::new(None);

impl Folder {
    /// The folder of this descriptor, shared if it is already open. `led_by` is the untrusted user whose link
    /// led here.
    pub(super) fn held(
        descriptor: OwnedFd,
        trust: Trust,
        led_by: Option<u32>,
        is_kernels: bool,
    ) -> io::Result<Arc<Self>> {
        let manner = Manner { identity: Identity::of(&descriptor)?, trust, led_by, is_kernels };
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let held = held.get_or_insert_default();
        if let Some(folder) = held.get(&manner).and_then(Weak::upgrade) {
            return Ok(folder);
        }
        if held.len() == held.capacity() {
            held.retain(|_, folder| folder.strong_count() > 0);
        }
        let folder = Arc::new(Self { descriptor, manner });
        held.insert(manner, Arc::downgrade(&folder));
        Ok(folder)
    }

    /// Its descriptor, which only leads to names.
    #[cfg(target_os = "linux")]
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    /// The identity of the folder.
    pub fn identity(&self) -> Identity {
        self.manner.identity
    }

    /// Whether it is in `/proc`, where the kernel defines the names.
    pub fn is_kernels(&self) -> bool {
        self.manner.is_kernels
    }

    /// Its names that are wanted, unsorted; at most [`NAMES_MAX`].
    pub fn names(&self, mut is_wanted: impl FnMut(&OsStr) -> bool) -> io::Result<Vec<OsString>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut names = Vec::new();
        for entry in Dir::new(openat(&self.descriptor, ".", flags, Mode::empty())?)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." && is_wanted(name) {
                names.push(name.to_owned());
                if names.len() >= NAMES_MAX {
                    break;
                }
            }
        }
        Ok(names)
    }

    /// Checks that files may be created, renamed and removed in it; `asked` is the path that led here.
    pub(super) fn may_change(&self, asked: &Path) -> io::Result<()> {
        if self.manner.is_kernels {
            return Err(Refused::Kernels { path: asked.to_owned() }.into());
        }
        match self.manner.led_by {
            Some(_) => self.check(&fstat(&self.descriptor)?, asked),
            None => Ok(()),
        }
    }

    /// Checks that a file in it may be used.
    pub(super) fn check_file(&self, file: &Stat, asked: &Path) -> io::Result<()> {
        let kind = FileType::from_raw_mode(file.st_mode);
        let device = (rustix::fs::major(file.st_rdev), rustix::fs::minor(file.st_rdev));
        let trust = self.manner.trust;
        if kind.is_char_device() && device == NULL_DEVICE || trust == Trust::Everyone {
            return Ok(());
        }
        let folder = fstat(&self.descriptor)?;
        let has_one_name = file.st_nlink <= 1;
        if self.manner.led_by.is_some() {
            // In the user's folder, a file of ours must be one that we created there: it has no other name.
            let is_ours = self.check(&folder, asked).is_ok() && trust.covers(file.st_uid) && has_one_name;
            return if is_ours { Ok(()) } else { self.check(file, asked) };
        }
        let is_the_owners = file.st_uid == folder.st_uid && !trust.covers(folder.st_uid);
        if kind.is_file() && !has_one_name && !is_the_owners && trust.is_open_to_others(&folder) {
            return Err(Refused::HardLink { path: asked.to_owned(), user: folder.st_uid }.into());
        }
        Ok(())
    }

    /// Checks that a file belongs to the user whose link was followed, if there was one.
    fn check(&self, stat: &Stat, asked: &Path) -> io::Result<()> {
        match self.manner.led_by {
            Some(user) if stat.st_uid != user => Err(Refused::Link { path: asked.to_owned(), user }.into()),
            _ => Ok(()),
        }
    }
}

/// Refuses names that lead out of the folder, or nowhere.
pub(super) fn check_name(name: &OsStr) -> io::Result<()> {
    let is_one = !name.is_empty() && name != "." && name != ".." && !name.as_bytes().contains(&b'/');
    if is_one { Ok(()) } else { Err(Errno::INVAL.into()) }
}
