//! A folder that is held open, and what may be done in it.

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

/// Names that are given of one folder at most, so that a user with millions of files costs no memory.
pub const NAMES_MAX: usize = 65_536;
/// The file that swallows everything may be linked to by anybody.
const NULL_DEVICE: (u32, u32) = (1, 3);

/// Why something was not opened or changed though the kernel would have done it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A link of another user leads to what is not that user's.
    #[error(
        "{path} leads by a link of user {user} to what is not that user's; `chown -h root` the link if it is meant"
    )]
    Link {
        /// The path that was asked for.
        path: PathBuf,
        user: u32,
    },
    /// A hard link in a folder where others write, to a file that is not the folder's owner's.
    #[error(
        "{path} is a hard link in a folder of user {user} in which others than root can write, and the file is not \
         that user's"
    )]
    HardLink {
        /// The path that was asked for.
        path: PathBuf,
        user: u32,
    },
    /// Nothing is made, renamed or removed in `/proc`.
    #[error("{path} leads into /proc, where no file can be made")]
    Kernels {
        /// The path that was asked for.
        path: PathBuf,
    },
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, refused)
    }
}

/// Whether an error is a refusal of this module and not of the kernel.
pub fn is_refusal(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Refused>)
}

/// Whose links are followed anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Trust {
    /// As the kernel does.
    Everyone,
    /// These users alone.
    Only(&'static [u32]),
}

impl Trust {
    pub(super) fn covers(self, user: u32) -> bool {
        match self {
            Self::Everyone => true,
            Self::Only(users) => users.contains(&user),
        }
    }

    /// Whether somebody who is not trusted can make and rename things in a folder.
    pub(super) fn is_open_to_others(self, folder: &Stat) -> bool {
        let others_write = Mode::from_raw_mode(folder.st_mode).intersects(Mode::WGRP | Mode::WOTH);
        match self {
            Self::Everyone => false,
            Self::Only(_) => !self.covers(folder.st_uid) || others_write,
        }
    }
}

/// A folder, held by a descriptor: renaming it or putting a link in its place changes nothing. All entries that were
/// found in one folder in the same way share one descriptor.
#[derive(Debug)]
pub struct Folder {
    /// Without rights of its own (`O_PATH`).
    pub(super) descriptor: OwnedFd,
    manner: Manner,
}

/// Which folder, and how it was come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Manner {
    identity: Identity,
    trust: Trust,
    led_by: Option<u32>,
    is_kernels: bool,
}

/// The folders that are held now. A folder that is held keeps its number, so that no other one has it.
static HELD: Mutex<Option<HashMap<Manner, Weak<Folder>>>> = Mutex::new(None);

impl Folder {
    /// The folder of this descriptor, or the one that is held already. `led_by` is the user who is not trusted and whose
    /// link led here.
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

    /// Which folder it is.
    pub fn identity(&self) -> Identity {
        self.manner.identity
    }

    /// In `/proc`, whose names are the kernel's and stay as they are.
    pub fn is_kernels(&self) -> bool {
        self.manner.is_kernels
    }

    /// The names in it that are wanted, in no order; at most [`NAMES_MAX`].
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

    /// Whether files may be made, renamed and removed in it; `asked` is the path that led here.
    pub(super) fn may_change(&self, asked: &Path) -> io::Result<()> {
        if self.manner.is_kernels {
            return Err(Refused::Kernels { path: asked.to_owned() }.into());
        }
        match self.manner.led_by {
            Some(_) => self.check(&fstat(&self.descriptor)?, asked),
            None => Ok(()),
        }
    }

    /// Whether a file in it may be used.
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
            // In a folder of that user's, a file of ours is one that we have made there: it has no other name.
            let is_ours = self.check(&folder, asked).is_ok() && trust.covers(file.st_uid) && has_one_name;
            return if is_ours { Ok(()) } else { self.check(file, asked) };
        }
        let is_the_owners = file.st_uid == folder.st_uid && !trust.covers(folder.st_uid);
        if kind.is_file() && !has_one_name && !is_the_owners && trust.is_open_to_others(&folder) {
            return Err(Refused::HardLink { path: asked.to_owned(), user: folder.st_uid }.into());
        }
        Ok(())
    }

    /// Whether something is of the user whose link was followed, if there was one.
    fn check(&self, stat: &Stat, asked: &Path) -> io::Result<()> {
        match self.manner.led_by {
            Some(user) if stat.st_uid != user => Err(Refused::Link { path: asked.to_owned(), user }.into()),
            _ => Ok(()),
        }
    }
}

/// A name that leads out of its folder, or nowhere, is an error.
pub(super) fn check_name(name: &OsStr) -> io::Result<()> {
    let is_one = !name.is_empty() && name != "." && name != ".." && !name.as_bytes().contains(&b'/');
    if is_one { Ok(()) } else { Err(Errno::INVAL.into()) }
}
