//! A lock file: at most one process holds it at a time, and the kernel releases it when that process dies.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, ftruncate, openat, statat};
use rustix::io::Errno;

/// How often to reopen a file that was replaced between opening and locking.
const ATTEMPTS_MAX: usize = 8;

/// A lock, held until dropped. The file is not removed: otherwise two processes could lock two files of the
/// same name.
#[derive(Debug)]
pub struct LockFile {
    file: OwnedFd,
}

impl LockFile {
    /// Takes the lock, or returns `None` if another process (or another object of this process) holds it. The
    /// file is created with mode 0600 and contains the owner's pid for people to read.
    pub fn acquire(path: &Path) -> io::Result<Option<Self>> {
        Self::acquire_for(std::process::id(), path)
    }

    /// The same for another process that holds the lock on behalf of this one; the file contains its pid.
    pub fn acquire_for(holder: u32, path: &Path) -> io::Result<Option<Self>> {
        for _ in 0..ATTEMPTS_MAX {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let file = openat(CWD, path, flags, Mode::RUSR | Mode::WUSR)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            if is_still_at(&file, path)? {
                // A full disk must not prevent the daemon's start; the text is only for people.
                let _ = ftruncate(&file, 0);
                let _ = rustix::io::pwrite(&file, format!("{holder}\n").as_bytes(), 0);
                return Ok(Some(Self { file }));
            }
        }
        Err(Errno::AGAIN.into())
    }

    /// A lock that was acquired by another process and handed over as a descriptor.
    pub fn handed_over(file: OwnedFd) -> Self {
        Self { file }
    }

    /// The identity of the locked file: device and inode.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        let locked = rustix::fs::fstat(&self.file)?;
        Ok((crate::sys::device(&locked), locked.st_ino))
    }

    /// Whether the process named in the file is alive and has the file open. The check does not interfere
    /// with taking the lock. A process that reused the pid does not count. Unreadable means not held.
    pub fn is_held(path: &Path) -> bool {
        let text = crate::procinfo::read_text(path).unwrap_or_default();
        let Ok(holder) = text.trim().parse::<u32>() else { return false };
        let identity = |path: &Path| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
        let Some(lock) = identity(path) else { return false };
        if cfg!(not(target_os = "linux")) {
            // Whether it has the file open is not known.
            return crate::process::signal_number(holder, 0).is_ok();
        }
        let Ok(open) = std::fs::read_dir(format!("/proc/{holder}/fd")) else { return false };
        open.flatten().any(|file| identity(&file.path()) == Some(lock))
    }
}

impl AsFd for LockFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Whether the path still refers to the locked file.
fn is_still_at(file: &OwnedFd, path: &Path) -> io::Result<bool> {
    let locked = rustix::fs::fstat(file)?;
    match statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(named) => Ok((named.st_dev, named.st_ino) == (locked.st_dev, locked.st_ino)),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{read_line, start_shell, wait_exit, wait_until};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn one_holder_at_a_time_and_the_file_says_who() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = LockFile::acquire(&path).unwrap().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let mut text = String::new();
        std::io::Read::read_to_string(&mut std::fs::File::open(&path).unwrap(), &mut text).unwrap();
        assert_eq!(text, format!("{}\n", std::process::id()));
        assert!(LockFile::acquire(&path).unwrap().is_none());
        assert!(LockFile::is_held(&path));
        drop(held);
        // A child that another test is starting may briefly hold a copy.
        wait_until("the lock is free", || LockFile::acquire(&path).unwrap().is_some());
        assert!(LockFile::acquire(&dir.path().join("none/lock")).is_err());
    }

    #[test]
    fn a_process_that_got_the_number_of_a_holder_does_not_hold_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        assert!(!LockFile::is_held(&path), "there is none");
        for text in ["", "0", "-1", "4294967295", "words", &std::process::id().to_string()] {
            std::fs::write(&path, text).unwrap();
            assert!(!LockFile::is_held(&path), "{text:?}");
        }
    }

    #[test]
    fn the_death_of_the_holder_frees_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let env = [("PATH", "/usr/bin:/bin"), ("LOCK", path.to_str().unwrap())];
        let (child, output) = start_shell(r#"exec flock "$LOCK" sh -c 'echo locked; exec sleep 100'"#, &env);
        assert_eq!(read_line(&output), "locked");
        assert!(LockFile::acquire(&path).unwrap().is_none());
        crate::tree::signal_tree(&child.0, crate::tree::Mark::NONE, libc::SIGKILL);
        wait_exit(&child.0);
        wait_until("the lock is free", || LockFile::acquire(&path).unwrap().is_some());
    }
}
