//! Finds the folder of a path. Links are followed by the kernel, since files are used for this process's user alone.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use super::entry::Find;
use super::folder::{Folder, Trust};
use crate::sys;

/// The kernel's own limit.
const LINKS_MAX: u32 = 40;

pub(super) struct Walk<'a> {
    pub(super) path: &'a Path,
    find: Find,
    trust: Trust,
}

impl<'a> Walk<'a> {
    /// `path` must be absolute.
    pub(super) fn new(path: &'a Path, find: Find, trust: Trust) -> Self {
        Self { path, find, trust }
    }

    /// Returns the folder and the name in it.
    pub(super) fn go(self) -> io::Result<(Arc<Folder>, OsString)> {
        if !self.path.is_absolute() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is not absolute"));
        }
        let mut path: PathBuf = self.path.to_owned();
        for _ in 0..LINKS_MAX {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
                return Err(Errno::ISDIR.into());
            };
            if let Some(mode) = self.find.make_folders {
                std::fs::DirBuilder::new().recursive(true).mode(mode).create(parent)?;
            }
            match std::fs::read_link(&path) {
                Ok(target) if self.find.follow_last => path = parent.join(target),
                _ => {
                    let flags = sys::HOLD | OFlags::DIRECTORY | OFlags::CLOEXEC;
                    let folder = openat(CWD, parent, flags, Mode::empty())?;
                    return Ok((Folder::held(folder, self.trust, None, false)?, name.to_owned()));
                }
            }
        }
        Err(Errno::LOOP.into())
    }
}
