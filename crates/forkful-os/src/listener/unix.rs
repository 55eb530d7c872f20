//! Unix sockets and their files.
//!
//! The meaning of a path can change while a socket is open: a folder is renamed, or another program takes the
//! name. The app that requests the path may also belong to another user, who might try to have another file
//! removed or its mode changed. Therefore the folder is opened before the bind, and the file is changed only
//! if it is the one created by the bind.

use std::ffi::OsStr;
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

use super::single::clamp_backlog;
use super::unix_options::UnixOptions;
use crate::behalf::{Entry, Find, Identity, as_user};

/// The file of a bound socket. Drop it before the socket: this removes the file, unless something else has
/// its name.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// An `O_PATH` descriptor of the folder that the path led to when the socket was bound.
    folder: OwnedFd,
    device: u64,
    /// While the socket is open, no other file has this inode.
    inode: u64,
}

/// A listening unix socket and its file. A `path` that starts with a NUL byte is in the abstract namespace
/// and has no file.
///
/// As in Node, an existing file is `EADDRINUSE` whether or not anyone listens on it, and a missing directory
/// is `EACCES`. The modes only add permissions to those that the umask left.
pub fn bind_unix(path: &Path, options: &UnixOptions) -> io::Result<(OwnedFd, Option<SocketFile>)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let file = match path.as_os_str().as_bytes() {
        [0, name @ ..] => {
            bind(&socket, &SocketAddrUnix::new_abstract_name(name)?)?;
            None
        }
        // The path comes from the app: where the app's user may not create a file, a daemon of root must not
        // create one either.
        _ => Some(match &options.owner {
            Some(owner) => as_user(owner, || bind_file(&socket, path, options))?,
            None => bind_file(&socket, path, options)?,
        }),
    };
    // A file without a listener would only block the path; on an error it is removed.
    listen(&socket, clamp_backlog(options.backlog))?;
    Ok((socket, file))
}

fn bind_file(socket: &OwnedFd, path: &Path, options: &UnixOptions) -> io::Result<SocketFile> {
    let as_node = |error| if error == Errno::NOENT { Errno::ACCESS } else { error };
    let named = SocketAddrUnix::new(path);
    let folder = rustix::fs::open(folder_of(path), FOLDER, Mode::empty()).map_err(as_node)?;
    // Another user's path could lead elsewhere a moment later. The kernel remembers the name given here, so
    // the plain name is better if no other user is involved. An address has room for 107 bytes, and a path may be longer, such
    // as the absolute form of a relative path: then the address goes through the folder, too.
    let address = match (&options.owner, named) {
        (None, Ok(named)) => named,
        (Some(_), _) | (None, Err(_)) => SocketAddrUnix::new(through(&folder).join(name_of(path)))?,
    };
    bind(socket, &address).map_err(as_node)?;
    let (file, found) = look(&folder, name_of(path))?;
    if !found.file_type().is_socket() {
        return Err(Errno::ACCESS.into());
    }
    let made = SocketFile { path: path.to_owned(), folder, device: found.dev(), inode: found.ino() };
    let wanted = if options.readable_all { 0o444 } else { 0 } | if options.writable_all { 0o222 } else { 0 };
    if wanted != 0 {
        let mode = found.mode() & 0o7777 | wanted;
        std::fs::set_permissions(through(file.as_fd()), Permissions::from_mode(mode))?;
    }
    Ok(made)
}

impl SocketFile {
    /// The socket file that the previous daemon has bound, by device and inode; whether it still exists is
    /// checked when it is removed.
    pub fn handed_over(path: &Path, (device, inode): (u64, u64)) -> io::Result<Self> {
        let folder = rustix::fs::open(folder_of(path), FOLDER, Mode::empty())?;
        Ok(Self { path: path.to_owned(), folder, device, inode })
    }

    /// Device and inode of the file.
    pub fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// The path that it was bound to.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the path still leads to this socket.
    pub fn is_still_there(&self) -> bool {
        look(&self.folder, name_of(&self.path)).is_ok_and(|(_, found)| {
            found.file_type().is_socket() && (found.dev(), found.ino()) == (self.device, self.inode)
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_still_there() {
            // If it is already gone, that is fine.
            let _gone = rustix::fs::unlinkat(&self.folder, name_of(&self.path), AtFlags::empty());
        }
    }
}

/// Removes a stale unix socket, on which nobody listens. Other files, and sockets with a listener, stay, and so do sockets to
/// which a link of another user leads. Does not wait. Returns whether it is gone.
pub fn remove_left_over(path: &Path) -> io::Result<bool> {
    // Since the socket was bound, an app of another user may have replaced a folder along the path by a link.
    let entry = Entry::find(&std::path::absolute(path)?, TO_REMOVE)?;
    let (file, found) = look(entry.folder().descriptor(), entry.name())?;
    if !found.file_type().is_socket() {
        return Ok(false);
    }
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let address = SocketAddrUnix::new(through(&file))?;
    let is_left_over = rustix::net::connect(&socket, &address) == Err(Errno::CONNREFUSED);
    Ok(is_left_over && entry.remove(Some(Identity::of(&file)?))?)
}

/// A link in the place of a socket is not followed.
const TO_REMOVE: Find = Find { make_folders: None, follow_last: false };

/// Opens a folder for lookups without permission to read it.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The file with a name in a folder, without following links.
fn look(folder: &OwnedFd, name: &OsStr) -> io::Result<(File, Metadata)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?);
    let found = file.metadata()?;
    Ok((file, found))
}

/// A path that leads to exactly this file, independent of renames.
fn through(file: impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
}

/// Up to the last slash, as `bind` interprets it.
fn folder_of(path: &Path) -> &Path {
    let bytes = path.as_os_str().as_bytes();
    match bytes.iter().rposition(|byte| *byte == b'/') {
        Some(0) => Path::new("/"),
        Some(slash) => Path::new(OsStr::from_bytes(&bytes[..slash])),
        None => Path::new("."),
    }
}

/// The part after the last slash.
fn name_of(path: &Path) -> &OsStr {
    let bytes = path.as_os_str().as_bytes();
    let start = bytes.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    OsStr::from_bytes(&bytes[start..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::{Owner, accept};
    use crate::testing::wait_until;
    use std::io::{Read, Write};
    use std::os::unix::fs::symlink;
    use std::os::unix::net::{UnixListener, UnixStream};

    const PLAIN: UnixOptions =
        UnixOptions { backlog: 16, readable_all: false, writable_all: false, owner: None };

    /// This process's user, which needs no privilege.
    fn ourselves() -> Option<Owner> {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Some(Owner { uid, gid, groups: Vec::new() })
    }

    /// The app gave a short name, relative to its folder.
    #[test]
    fn a_path_that_is_longer_than_an_address_is_bound_by_its_folder() {
        for owner in [None, ourselves()] {
            let dir = tempfile::tempdir().unwrap();
            let folder = dir.path().join("f".repeat(150));
            std::fs::create_dir(&folder).unwrap();
            let path = folder.join("app.sock");
            let (_listener, file) = bind_unix(&path, &UnixOptions { owner, ..PLAIN }).unwrap();
            let opened = std::fs::File::open(&folder).unwrap();
            UnixStream::connect(through(&opened).join("app.sock")).unwrap();
            drop(file);
            assert!(!path.exists());
            let error = bind_unix(&folder.join("s".repeat(120)), &PLAIN).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ENAMETOOLONG));
        }
    }

    #[test]
    fn a_unix_socket_has_its_modes_and_a_stale_file_stays_in_use() {
        for owner in [None, ourselves()] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("app.sock");
            let open = UnixOptions { readable_all: true, writable_all: true, owner, ..PLAIN };
            let (listener, file) = bind_unix(&path, &open).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o666, 0o666);
            let mut client = UnixStream::connect(&path).unwrap();
            let connection = accept(listener.as_fd()).unwrap().unwrap();
            client.write_all(b"hello").unwrap();
            let mut text = [0; 5];
            UnixStream::from(connection).read_exact(&mut text).unwrap();
            assert_eq!(&text, b"hello");
            assert!(!remove_left_over(&path).unwrap(), "somebody listens");
            drop(listener);
            let error = bind_unix(&path, &PLAIN).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EADDRINUSE));
            // A child of another test may briefly hold a copy.
            wait_until("nobody listens", || remove_left_over(&path).unwrap());
            assert!(!path.exists());
            drop(file);
            let error = bind_unix(&dir.path().join("none/app.sock"), &open).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EACCES));
        }
    }

    #[test]
    fn only_a_socket_is_left_over() {
        let dir = tempfile::tempdir().unwrap();
        let [socket, file, link] = ["app.sock", "file", "link"].map(|name| dir.path().join(name));
        std::fs::write(&file, "").unwrap();
        drop(UnixListener::bind(&socket).unwrap());
        symlink(&socket, &link).unwrap();
        assert!(!remove_left_over(&file).unwrap() && !remove_left_over(&link).unwrap());
        assert!(remove_left_over(&dir.path().join("none")).is_err());
        assert!(file.exists() && link.exists());
        wait_until("nobody listens", || remove_left_over(&socket).unwrap());
        assert!(!socket.exists());
    }

    #[test]
    fn a_left_over_socket_behind_a_link_of_another_user_stays() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root makes files for others");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let [bobs, link] = ["bobs", "link"].map(|name| dir.path().join(name));
        std::fs::create_dir(&bobs).unwrap();
        drop(UnixListener::bind(bobs.join("app.sock")).unwrap());
        std::os::unix::fs::chown(&bobs, Some(65_533), None).unwrap();
        symlink(&bobs, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(65_534), None).unwrap();
        let behind = || remove_left_over(&link.join("app.sock"));
        assert!(crate::behalf::is_refusal(&behind().unwrap_err()));
        assert!(bobs.join("app.sock").exists());
        // A link to what is its owner's is followed.
        std::os::unix::fs::lchown(&link, Some(65_533), None).unwrap();
        wait_until("nobody listens", || behind().unwrap());
    }

    #[test]
    fn another_programs_socket_of_the_same_name_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app.sock");
        let (socket, file) = bind_unix(&path, &PLAIN).unwrap();
        std::fs::remove_file(&path).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        drop((file, socket));
        UnixStream::connect(&path).unwrap();
        other.accept().unwrap();
    }

    #[test]
    fn a_link_in_place_of_the_folder_costs_nobody_a_file() {
        for owner in [None, ourselves()] {
            let dir = tempfile::tempdir().unwrap();
            let (folder, moved, victim) =
                (dir.path().join("app"), dir.path().join("moved"), dir.path().join("victim"));
            std::fs::create_dir(&folder).unwrap();
            std::fs::create_dir(&victim).unwrap();
            std::fs::write(victim.join("passwd"), "root").unwrap();
            let (socket, file) = bind_unix(&folder.join("passwd"), &UnixOptions { owner, ..PLAIN }).unwrap();
            std::fs::rename(&folder, &moved).unwrap();
            symlink(&victim, &folder).unwrap();
            drop((file, socket));
            assert_eq!(std::fs::read(victim.join("passwd")).unwrap(), b"root");
            assert!(!moved.join("passwd").exists(), "ours is removed where it is now");
        }
    }

    #[test]
    fn a_file_is_its_owners() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root makes files for others");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(dir.path(), Some(65_534), Some(65_533)).unwrap();
        let path = dir.path().join("app.sock");
        let owner = Some(Owner { uid: 65_534, gid: 65_533, groups: Vec::new() });
        let made = bind_unix(&path, &UnixOptions { owner, writable_all: true, ..PLAIN }).unwrap();
        let found = std::fs::metadata(&path).unwrap();
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o222), (65_534, 65_533, 0o222));
        drop(made);
    }

    #[test]
    fn where_the_owner_may_make_no_file_none_is_made() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root makes files for others");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("own");
        std::fs::create_dir(&own).unwrap();
        std::os::unix::fs::chown(&own, Some(65_534), Some(65_533)).unwrap();
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let owner = Some(Owner { uid: 65_534, gid: 65_533, groups: Vec::new() });
        let options = UnixOptions { owner, ..PLAIN };
        // As if a worker requested /run/docker.sock while nobody listens there, or a link that leads to it.
        symlink(dir.path(), own.join("link")).unwrap();
        for path in [dir.path().join("system.sock"), own.join("link/system.sock")] {
            let error = bind_unix(&path, &options).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EACCES), "{}", path.display());
        }
        assert!(!dir.path().join("system.sock").exists());
        drop(bind_unix(&own.join("app.sock"), &options).unwrap());
        assert_eq!(rustix::process::geteuid().as_raw(), 0);
        std::fs::write(dir.path().join("still-root"), "").unwrap();
    }

    #[test]
    fn a_path_is_cut_where_the_kernel_cuts_it() {
        for (path, folder, name) in [
            ("/a/b.sock", "/a", "b.sock"),
            ("/b.sock", "/", "b.sock"),
            ("b.sock", ".", "b.sock"),
            ("a/", "a", ""),
        ] {
            assert_eq!(
                (folder_of(Path::new(path)), name_of(Path::new(path))),
                (Path::new(folder), OsStr::new(name))
            );
        }
        let dir = tempfile::tempdir().unwrap();
        for end in ["", ".", "..", "none/"] {
            assert!(bind_unix(&dir.path().join(end), &PLAIN).is_err(), "{end:?}");
        }
    }

    #[test]
    fn an_abstract_unix_socket_leaves_no_file() {
        let name = format!("\0forkful-test-{}", std::process::id());
        let (listener, file) = bind_unix(Path::new(&name), &PLAIN).unwrap();
        assert!(file.is_none());
        let address = SocketAddrUnix::new_abstract_name(&name.as_bytes()[1..]).unwrap();
        let client =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::connect(&client, &address).unwrap();
        assert!(accept(listener.as_fd()).unwrap().is_some());
    }
}
