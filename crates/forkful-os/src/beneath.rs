//! Opens files beneath a folder, and nothing that a path or a link would lead to outside of it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::sys;

/// How the file is opened: a pipe does not wait for a writer.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens a file or folder below `root` for reading; an empty path is the root. `ENOENT` if a path or link would lead out
/// of it. The root is looked up at each call.
///
/// Linux resolves the path in one call (`openat2`, 5.6). With the portable mechanisms no link is followed at all.
pub fn open_beneath(root: &Path, path: &Path) -> io::Result<OwnedFd> {
    let root = openat(CWD, root, sys::HOLD | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    if !crate::portable::is_on() {
        return in_one_call(&root, path);
    }
    step_by_step(root, path)
}

#[cfg(target_os = "linux")]
fn in_one_call(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    use rustix::fs::ResolveFlags;
    /// Attempts for a path while the file system changes concurrently, for which the kernel returns `EAGAIN`.
    const ATTEMPTS_MAX: u32 = 16;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..ATTEMPTS_MAX {
        match rustix::fs::openat2(root, path, READ, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::XDEV | Errno::LOOP | Errno::NXIO | Errno::NAMETOOLONG) => break,
            other => return Ok(other?),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

#[cfg(not(target_os = "linux"))]
fn in_one_call(_root: &OwnedFd, _path: &Path) -> io::Result<OwnedFd> {
    Err(crate::portable::unsupported())
}

fn step_by_step(root: OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    use std::path::Component;
    let not_found = || io::Error::from(io::ErrorKind::NotFound);
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(not_found()),
        }
    }
    let Some((last, folders)) = names.split_last() else {
        return Ok(openat(&root, ".", READ, Mode::empty())?);
    };
    let mut folder = root;
    for name in folders {
        let flags = sys::HOLD | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        folder = openat(&folder, *name, flags, Mode::empty()).map_err(of_links)?;
    }
    Ok(openat(&folder, *last, READ | OFlags::NOFOLLOW, Mode::empty()).map_err(of_links)?)
}

/// A link, or something else that is not served.
fn of_links(errno: Errno) -> Errno {
    if matches!(errno, Errno::LOOP | Errno::NOTDIR | Errno::NXIO | Errno::NAMETOOLONG) {
        Errno::NOENT
    } else {
        errno
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_portable_walk_finds_files_and_follows_no_link_and_no_parent() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/file"), "text").unwrap();
        fs::write(folder.path().join("secret"), "secret").unwrap();
        symlink(folder.path(), root.join("out")).unwrap();
        symlink("../secret", root.join("link")).unwrap();
        let open = |path: &str| {
            let root = openat(CWD, &root, sys::HOLD | OFlags::DIRECTORY, Mode::empty()).unwrap();
            step_by_step(root, Path::new(path)).map(|_opened| ()).map_err(|error| error.kind())
        };
        for there in [".", "a", "a/b/file", "./a/./b"] {
            assert_eq!(open(there), Ok(()), "{there}");
        }
        for hidden in
            ["../secret", "a/../../secret", "out/secret", "link", "out", "/etc/passwd", "a/b/file/x", "none"]
        {
            assert_eq!(open(hidden), Err(io::ErrorKind::NotFound), "{hidden}");
        }
    }
}
