//! Unix sockets and their files, by path. Files are created for this process's user alone.

use std::fs::Permissions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen};

use super::single::clamp_backlog;
use super::unix_options::UnixOptions;
use crate::behalf::as_user;
use crate::sys;

/// The file of a bound socket. Drop it before the socket: this removes the file, unless something else has
/// its name.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// A listening unix socket and its file. There is no abstract namespace.
pub fn bind_unix(path: &Path, options: &UnixOptions) -> io::Result<(OwnedFd, Option<SocketFile>)> {
    if path.as_os_str().as_bytes().first() == Some(&0) {
        return Err(crate::portable::unsupported());
    }
    let socket = sys::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    let file = match &options.owner {
        Some(owner) => as_user(owner, || bind_file(&socket, path, options))?,
        None => bind_file(&socket, path, options)?,
    };
    listen(&socket, clamp_backlog(options.backlog))?;
    Ok((socket, Some(file)))
}

fn bind_file(socket: &OwnedFd, path: &Path, options: &UnixOptions) -> io::Result<SocketFile> {
    let as_node = |error| if error == Errno::NOENT { Errno::ACCESS } else { error };
    bind(socket, &SocketAddrUnix::new(path)?).map_err(as_node)?;
    let found = std::fs::symlink_metadata(path)?;
    let wanted = if options.readable_all { 0o444 } else { 0 } | if options.writable_all { 0o222 } else { 0 };
    if wanted != 0 {
        std::fs::set_permissions(path, Permissions::from_mode(found.mode() & 0o7777 | wanted))?;
    }
    Ok(SocketFile { path: path.to_owned(), device: found.dev(), inode: found.ino() })
}

impl SocketFile {
    /// The file of a socket that another process has bound.
    pub fn handed_over(path: &Path, (device, inode): (u64, u64)) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), device, inode })
    }

    /// Device and inode.
    pub fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Whether the path still leads to this socket.
    pub fn is_still_there(&self) -> bool {
        std::fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == (self.device, self.inode))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_still_there() {
            let _removed = std::fs::remove_file(&self.path);
        }
    }
}

/// Removes a stale unix socket, on which nobody listens. Other files, and sockets with a listener, stay. Does
/// not wait. Returns whether it is gone.
pub fn remove_left_over(path: &Path) -> io::Result<bool> {
    if !std::fs::symlink_metadata(path)?.file_type().is_socket() {
        return Ok(false);
    }
    let socket = sys::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    let is_left_over = rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) == Err(Errno::CONNREFUSED);
    if is_left_over {
        std::fs::remove_file(path)?;
    }
    Ok(is_left_over)
}
