//! Programs by descriptor, so that the checked program is the one that is executed, even if the file is
//! replaced: replacing this process by another program, and starting its own program again.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, CWD, FileType, Mode, OFlags, access, fstat, openat};
use rustix::io::Errno;

/// The name of our processes in process lists (`comm`); otherwise the kernel would name them after a
/// descriptor.
#[cfg(target_os = "linux")]
const NAME: &std::ffi::CStr = c"forkful";

/// Opens a program for executing it later. It need not be readable.
pub fn open_program(path: &Path) -> io::Result<OwnedFd> {
    let file = openat(CWD, path, crate::sys::HOLD | OFlags::CLOEXEC, Mode::empty())?;
    let found = fstat(&file)?;
    let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    if is_file && found.st_mode & 0o111 != 0 { Ok(file) } else { Err(Errno::ACCESS.into()) }
}

/// Whether this is a file that this process may execute.
pub fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// The path under which other processes of this user find a file that this process has open.
pub fn path_of(file: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
}

/// A path to this process's program for other processes to execute: exactly this file, even if it was
/// replaced or removed.
pub fn own_program() -> io::Result<PathBuf> {
    let own = PathBuf::from(format!("/proc/{}/exe", std::process::id()));
    if open_program(&own).is_ok() { Ok(own) } else { std::env::current_exe() }
}

/// Whether a process runs the program at this path, and not another file of that name. `None` if unknown.
pub fn runs_program(pid: u32, program: &Path) -> Option<bool> {
    if cfg!(not(target_os = "linux")) {
        let path = crate::procinfo::command_line(pid);
        return path.first().map(|path| Path::new(path) == program);
    }
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    Some(identity(Path::new(&format!("/proc/{pid}/exe")))? == identity(program)?)
}

/// Sets this process's name in process lists.
pub fn set_name() {
    // A name of at most 15 bytes is always accepted.
    #[cfg(target_os = "linux")]
    let _named = rustix::thread::set_name(NAME);
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::io::{FdFlags, fcntl_getfd};

    use super::*;
    use crate::process::become_program;
    use crate::procinfo;

    #[test]
    fn a_program_is_a_file_that_may_be_executed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        std::fs::write(&file, "text").unwrap();
        assert!(open_program(&file).is_err());
        assert!(open_program(folder.path()).is_err());
        assert!(open_program(Path::new("/nowhere")).is_err());
        let shell = open_program(Path::new("/bin/sh")).unwrap();
        assert_eq!(
            std::fs::metadata(path_of(shell.as_fd())).unwrap().ino(),
            std::fs::metadata("/bin/sh").unwrap().ino()
        );
    }

    #[test]
    fn the_own_program_is_told_from_others() {
        let own = own_program().unwrap();
        assert_eq!(runs_program(std::process::id(), &own), Some(true));
        assert_eq!(runs_program(std::process::id(), Path::new("/bin/sh")), Some(false));
        assert_eq!(runs_program(std::process::id(), Path::new("/nowhere")), None);
    }

    #[test]
    fn what_is_no_program_changes_nothing() {
        let _alone = procinfo::CHANGING.lock();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        crate::testing::write_executable(&file, "\x7fELF and nothing more");
        let (program, kept) = (open_program(&file).unwrap(), std::fs::File::open("/dev/null").unwrap());
        let failed = become_program(&program, &["x".to_owned()], &[kept.as_fd()]);
        assert_eq!(failed.raw_os_error(), Some(libc::ENOEXEC));
        assert!(fcntl_getfd(&kept).unwrap().contains(FdFlags::CLOEXEC));
        let failed = become_program(&program, &["a\0b".to_owned()], &[]);
        assert_eq!(failed.raw_os_error(), Some(libc::EINVAL));
    }
}
