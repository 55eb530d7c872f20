//! Walks along a path. Each step uses the descriptor of the previous one, so that nothing can be replaced
//! between the check and the step.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, Stat, fstat, fstatfs, mkdirat,
    openat, openat2, readlinkat, statat,
};
use rustix::io::Errno;

use super::entry::Find;
use super::folder::{Folder, Refused, Trust};

/// The kernel's own limit.
const LINKS_MAX: u32 = 40;
/// To inspect something without opening it.
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// To traverse a folder without permission to read it.
const PASS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

pub(super) struct Walk<'a> {
    pub(super) path: &'a Path,
    find: Find,
    trust: Trust,
    /// The untrusted user whose link was followed.
    led_by: Option<u32>,
    links: u32,
    /// The remaining components.
    parts: VecDeque<OsString>,
}

impl<'a> Walk<'a> {
    /// `path` must be absolute.
    pub(super) fn new(path: &'a Path, find: Find, trust: Trust) -> Self {
        Self { path, find, trust, led_by: None, links: 0, parts: parts_of(path) }
    }

    /// Returns the folder and the name in it.
    pub(super) fn go(self) -> io::Result<(Arc<Folder>, OsString)> {
        if !self.path.is_absolute() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is not absolute"));
        }
        match self.straight() {
            Some(folder) => {
                let name = self.parts.back().cloned().unwrap_or_default();
                Ok((self.arrive(folder, false)?, name))
            }
            None => self.step_by_step(),
        }
    }

    /// In one call, if there are no links. All other cases, including errors, are left to the step-by-step
    /// walk.
    pub(super) fn straight(&self) -> Option<OwnedFd> {
        if crate::portable::is_on() {
            return None;
        }
        let name = self.parts.back().filter(|name| *name != "..")?;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let folder = openat2(CWD, self.path.parent()?, PASS, Mode::empty(), resolve).ok()?;
        if is_kernels(&folder).ok()? {
            return None;
        }
        let is_link = || match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode).is_symlink(),
            Err(errno) => errno != Errno::NOENT,
        };
        (!self.find.follow_last || !is_link()).then_some(folder)
    }

    /// Component by component.
    pub(super) fn step_by_step(mut self) -> io::Result<(Arc<Folder>, OsString)> {
        let mut folder = root()?;
        while let Some(part) = self.parts.pop_front() {
            let is_last = self.parts.is_empty();
            if is_kernels(&folder)? {
                // Links like `/proc/self/fd/1` can only be followed by the kernel.
                if let Some(user) = self.led_by {
                    return Err(Refused::Link { path: self.path.to_owned(), user }.into());
                }
                self.parts.push_front(part);
                let rest: PathBuf = self.parts.iter().collect();
                return Ok((self.arrive(folder, true)?, rest.into_os_string()));
            }
            let is_name = part != "..";
            if is_last && is_name && !self.find.follow_last {
                return Ok((self.arrive(folder, false)?, part));
            }
            let looked = self.look(&folder, &part, is_last)?;
            match looked.map(|found| Ok::<_, Errno>((fstat(&found)?, found))).transpose()? {
                Some((stat, link)) if FileType::from_raw_mode(stat.st_mode).is_symlink() => {
                    let target = PathBuf::from(OsString::from_vec(readlinkat(&link, "", [])?.into_bytes()));
                    self.follow(&folder, &stat, &target)?;
                    if target.is_absolute() {
                        folder = root()?;
                    }
                }
                Some(_) | None if is_last && is_name => return Ok((self.arrive(folder, false)?, part)),
                Some((_, next)) => folder = next,
                None => return Err(Errno::NOENT.into()),
            }
        }
        Err(Errno::ISDIR.into())
    }

    fn arrive(&self, descriptor: OwnedFd, is_kernels: bool) -> io::Result<Arc<Folder>> {
        Folder::held(descriptor, self.trust, self.led_by, is_kernels)
    }

    /// Inspects a component without following it; creates missing folders if requested.
    fn look(&self, folder: &OwnedFd, part: &OsStr, is_last: bool) -> io::Result<Option<OwnedFd>> {
        let look = || openat(folder, part, LOOK, Mode::empty());
        match (look(), self.find.make_folders) {
            (Ok(found), _) => Ok(Some(found)),
            (Err(Errno::NOENT), Some(mode)) if !is_last => {
                self.check(&fstat(folder)?)?;
                match mkdirat(folder, part, Mode::from_raw_mode(mode)) {
                    Ok(()) | Err(Errno::EXIST) => Ok(Some(look()?)),
                    Err(errno) => {
                        let fault = io::Error::from(errno);
                        let error = format!("cannot create the folder {}: {fault}", part.to_string_lossy());
                        Err(io::Error::new(fault.kind(), error))
                    }
                }
            }
            (Err(Errno::NOENT), _) => Ok(None),
            (Err(errno), _) => Err(errno.into()),
        }
    }

    fn follow(&mut self, folder: &OwnedFd, link: &Stat, target: &Path) -> io::Result<()> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        if !self.trust.covers(link.st_uid) {
            self.check(link)?;
            self.led_by = Some(link.st_uid);
        } else if link.st_nlink > 1 && self.trust.is_open_to_others(&fstat(folder)?) {
            // A link owned by root for which another user may have made a second name here.
            let user = fstat(folder)?.st_uid;
            return Err(Refused::HardLink { path: self.path.to_owned(), user }.into());
        }
        for part in parts_of(target).into_iter().rev() {
            self.parts.push_front(part);
        }
        Ok(())
    }

    /// Checks that something belongs to the user whose link was followed, if there was one.
    fn check(&self, stat: &Stat) -> io::Result<()> {
        match self.led_by {
            Some(user) if stat.st_uid != user => {
                Err(Refused::Link { path: self.path.to_owned(), user }.into())
            }
            _ => Ok(()),
        }
    }
}

fn is_kernels(folder: &OwnedFd) -> io::Result<bool> {
    Ok(fstatfs(folder)?.f_type == PROC_SUPER_MAGIC)
}

fn root() -> io::Result<OwnedFd> {
    Ok(openat(CWD, "/", PASS, Mode::empty())?)
}

fn parts_of(path: &Path) -> VecDeque<OsString> {
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    parts.map(|part| part.as_os_str().to_owned()).collect()
}
