//! Opens log files by their path. An operator may have linked a log elsewhere, and that is followed, as PM2 does.
//! But the daemon of root writes logs in folders of the users that its workers run as, and these could put a link
//! there that leads to a file of root. So root follows a link of another user only to what is that user's own: the
//! same for links to folders, and for folders that are made on the way.
//!
//! The path is walked part by part, each by the descriptor of the one before, so that nothing can be exchanged
//! between the look and the opening.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fstat, fstatfs, mkdirat, openat, readlinkat,
};
use rustix::io::Errno;

/// As many as the kernel follows.
const LINKS_MAX: u32 = 40;
/// A FIFO without a reader is an error and not a wait; a terminal does not become ours.
const CAUTION: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
/// The file that swallows everything may be linked to by anybody.
const NULL_DEVICE: (u32, u32) = (1, 3);

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// To add lines; it and its folders are made if they are absent.
    Appending,
    /// To be emptied.
    Writing,
    /// To be looked into.
    Reading,
}

/// Opens a file. `path` is absolute.
pub(super) fn open(path: &Path, what_for: For) -> io::Result<File> {
    if rustix::process::geteuid().is_root() {
        return Walk::new(path, what_for, &[0]).open_last();
    }
    // What others put there leads nowhere that this user could not be led to anyway.
    if let (For::Appending, Some(folder)) = (what_for, path.parent()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|fault| {
            io::Error::new(fault.kind(), format!("cannot create {}: {fault}", folder.display()))
        })?;
    }
    let mut options = fs_err::OpenOptions::new();
    match what_for {
        For::Appending => options.append(true).create(true),
        For::Writing => options.write(true),
        For::Reading => options.read(true),
    };
    let options = fs_err::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o640);
    Ok(fs_err::os::unix::fs::OpenOptionsExt::custom_flags(options, CAUTION.bits().cast_signed())
        .open(path)?
        .into_file())
}

/// Empties the file at `path` if there is one.
pub(super) fn truncate(path: &Path) -> io::Result<()> {
    match open(path, For::Writing) {
        Ok(file) if file.metadata()?.is_file() => file.set_len(0),
        Ok(_) => Ok(()),
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(fault) => Err(fault),
    }
}

/// One walk along a path.
struct Walk<'a> {
    path: &'a Path,
    what_for: For,
    /// Users whose links are followed anywhere.
    trusted: &'a [u32],
    /// The other user whose link was followed.
    other: Option<u32>,
    links: u32,
    /// Parts that are still to go.
    parts: VecDeque<OsString>,
}

impl<'a> Walk<'a> {
    fn new(path: &'a Path, what_for: For, trusted: &'a [u32]) -> Self {
        Self { path, what_for, trusted, other: None, links: 0, parts: parts_of(path) }
    }

    fn open_last(mut self) -> io::Result<File> {
        let mut folder = root()?;
        while let Some(part) = self.parts.pop_front() {
            if fstatfs(&folder)?.f_type == PROC_SUPER_MAGIC {
                // Its links are the kernel's, and can be followed by it alone: `/proc/self/fd/1`.
                self.parts.push_front(part);
                let rest: PathBuf = self.parts.iter().collect();
                return self.last(&folder, rest.as_os_str(), OFlags::empty());
            }
            let looked = self.look(&folder, &part)?;
            match looked.map(|found| Ok::<_, Errno>((fstat(&found)?, found))).transpose()? {
                Some((stat, link)) if FileType::from_raw_mode(stat.st_mode).is_symlink() => {
                    let target = PathBuf::from(OsString::from_vec(readlinkat(&link, "", [])?.into_bytes()));
                    self.follow(&stat, &target)?;
                    if target.is_absolute() {
                        folder = root()?;
                    }
                }
                Some(_) | None if self.parts.is_empty() => {
                    return self.last(&folder, &part, OFlags::NOFOLLOW);
                }
                Some((_, next)) => folder = next,
                None => return Err(Errno::NOENT.into()),
            }
        }
        Err(Errno::ISDIR.into())
    }

    /// What is there under a name, not followed; folders on the way to a file for lines are made.
    fn look(&self, folder: &OwnedFd, part: &OsStr) -> io::Result<Option<OwnedFd>> {
        let look = || openat(folder, part, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
        match look() {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) if self.what_for == For::Appending && !self.parts.is_empty() => {
                self.check(&fstat(folder)?)?;
                match mkdirat(folder, part, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => Ok(Some(look()?)),
                    Err(errno) => {
                        let fault = io::Error::from(errno);
                        let error = format!("cannot create the folder {}: {fault}", part.to_string_lossy());
                        Err(io::Error::new(fault.kind(), error))
                    }
                }
            }
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn follow(&mut self, link: &Stat, target: &Path) -> io::Result<()> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        if !self.trusted.contains(&link.st_uid) {
            self.check(link)?;
            self.other = Some(link.st_uid);
        }
        for part in parts_of(target).into_iter().rev() {
            self.parts.push_front(part);
        }
        Ok(())
    }

    /// Opens the file itself.
    fn last(&self, folder: &OwnedFd, part: &OsStr, nofollow: OFlags) -> io::Result<File> {
        let how = match self.what_for {
            For::Appending => OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE,
            For::Writing => OFlags::WRONLY,
            For::Reading => OFlags::RDONLY,
        };
        // Nothing is made in a folder that is not that user's.
        let may_make = self.check(&fstat(folder)?);
        let how = if may_make.is_ok() { how } else { how - OFlags::CREATE };
        let opened = openat(folder, part, how | CAUTION | nofollow, Mode::RUSR | Mode::WUSR | Mode::RGRP);
        let file = match opened {
            Err(Errno::NOENT) => return Err(may_make.err().unwrap_or_else(|| Errno::NOENT.into())),
            other => File::from(other?),
        };
        let stat = fstat(&file)?;
        let device = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
        let is_null = FileType::from_raw_mode(stat.st_mode).is_char_device() && device == NULL_DEVICE;
        // In a folder of that user's, a file of ours is one that we have made there: it has no other name.
        let is_ours = may_make.is_ok() && self.trusted.contains(&stat.st_uid) && stat.st_nlink <= 1;
        if !is_null && !is_ours {
            self.check(&stat)?;
        }
        Ok(file)
    }

    /// Whether something is of the user whose link was followed, if there was one.
    fn check(&self, stat: &Stat) -> io::Result<()> {
        match self.other {
            Some(user) if stat.st_uid != user => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "{} leads by a link of user {user} to what is not that user's; `chown -h root` the link if \
                     it is meant",
                    self.path.display()
                ),
            )),
            _ => Ok(()),
        }
    }
}

fn root() -> io::Result<OwnedFd> {
    Ok(openat(CWD, "/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

fn parts_of(path: &Path) -> VecDeque<OsString> {
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    parts.map(|part| part.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;

    /// Appends by a walk for which all links are another user's, as they are for root in a worker's folder.
    fn append(path: &Path, trusted: &[u32]) -> io::Result<()> {
        Walk::new(path, For::Appending, trusted).open_last()?.write_all(b"line\n")
    }

    /// Nobody's number, so that nobody is trusted.
    const NOBODY: &[u32] = &[u32::MAX - 1];

    #[test]
    fn without_links_the_file_and_its_folders_are_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/../log");
        append(&path, NOBODY).unwrap();
        append(&path, NOBODY).unwrap();
        let log = folder.path().join("a/log");
        assert_eq!(fs_err::read_to_string(&log).unwrap(), "line\nline\n");
        assert_eq!(fs_err::metadata(&log).unwrap().mode() & 0o777 & !0o640, 0);
        assert_eq!(fs_err::metadata(folder.path().join("a")).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_link_is_followed_to_what_is_its_owners() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs_err::create_dir(&real).unwrap();
        symlink("real", &link).unwrap();
        symlink(real.join("log"), real.join("second")).unwrap();
        for path in ["link/log", "link/second", "link/new/log"] {
            append(&folder.path().join(path), NOBODY).unwrap();
        }
        assert_eq!(fs_err::read_to_string(real.join("log")).unwrap(), "line\nline\n");
        assert_eq!(fs_err::read_to_string(real.join("new/log")).unwrap(), "line\n");
        let mut text = String::new();
        Walk::new(&link.join("second"), For::Reading, NOBODY)
            .open_last()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "line\nline\n");
        symlink("/dev/null", folder.path().join("null")).unwrap();
        append(&folder.path().join("null"), NOBODY).unwrap();
    }

    #[test]
    fn a_link_is_not_followed_to_what_is_not_its_owners() {
        let folder = tempfile::tempdir().unwrap();
        // Somebody else's folder and file: root's, or, where we are root, made so.
        let other = if rustix::process::geteuid().is_root() {
            let other = folder.path().join("other");
            fs_err::create_dir(&other).unwrap();
            fs_err::write(other.join("passwd"), "").unwrap();
            for path in [&other, &other.join("passwd")] {
                std::os::unix::fs::chown(path, Some(65_533), None).unwrap();
            }
            other
        } else {
            PathBuf::from("/etc")
        };
        symlink(&other, folder.path().join("link")).unwrap();
        symlink(other.join("passwd"), folder.path().join("direct")).unwrap();
        for name in ["link/passwd", "link/new", "link/new/log", "direct"] {
            let fault = append(&folder.path().join(name), NOBODY).unwrap_err();
            assert_eq!(fault.kind(), io::ErrorKind::PermissionDenied, "{name}: {fault}");
        }
        assert!(!other.join("new").exists());
        for what_for in [For::Reading, For::Writing] {
            let path = folder.path().join("direct");
            let fault = Walk::new(&path, what_for, NOBODY).open_last().unwrap_err();
            assert_eq!(fault.kind(), io::ErrorKind::PermissionDenied, "{what_for:?}: {fault}");
        }
    }

    #[test]
    fn links_of_who_is_trusted_are_followed_anywhere_but_not_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let me = [rustix::process::geteuid().as_raw()];
        symlink("/proc/self/fd/1", folder.path().join("stdout")).unwrap();
        Walk::new(&folder.path().join("stdout"), For::Writing, &me).open_last().unwrap();
        symlink("round", folder.path().join("round")).unwrap();
        let fault = append(&folder.path().join("round"), &me).unwrap_err();
        assert_eq!(fault.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
        let fault = append(folder.path(), &me).unwrap_err();
        assert_eq!(fault.kind(), io::ErrorKind::IsADirectory);
        fs_err::write(folder.path().join("file"), "").unwrap();
        let fault = append(&folder.path().join("file/log"), &me).unwrap_err();
        assert_eq!(fault.kind(), io::ErrorKind::NotADirectory);
    }
}
