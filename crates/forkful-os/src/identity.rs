//! Identities: peers of unix sockets, the single daemon of a home, and starting that daemon.

mod detach;
mod lock;

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

pub use detach::{Detached, READY_FD, spawn_detached};
pub use lock::LockFile;

/// The name of this machine.
#[cfg(target_os = "linux")]
pub fn host_name() -> io::Result<String> {
    use std::io::Read as _;
    /// Host names are shorter: `HOST_NAME_MAX` of limits.h, and a line break.
    const HOST_NAME_BYTES_MAX: u64 = 128;
    let mut name = String::new();
    std::fs::File::open("/proc/sys/kernel/hostname")?.take(HOST_NAME_BYTES_MAX).read_to_string(&mut name)?;
    Ok(name.trim().to_owned())
}

/// The name of this machine.
#[cfg(not(target_os = "linux"))]
pub fn host_name() -> io::Result<String> {
    let mut name = [0_u8; 256];
    // SAFETY: the buffer has that many bytes; the last one stays zero.
    if unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..length]).into_owned())
}

/// The process at the other end of a unix socket, at the time it connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its pid; the process may have passed the connection on since.
    pub pid: u32,
    pub uid: u32,
    pub gid: u32,
}

/// The peer of a connected unix socket, as verified by the kernel.
pub fn peer_credentials(fd: impl AsFd) -> io::Result<Peer> {
    #[cfg(not(target_os = "linux"))]
    return peer_by_getpeereid(fd.as_fd());
    #[cfg(target_os = "linux")]
    let credentials = rustix::net::sockopt::socket_peercred(fd)?;
    #[cfg(target_os = "linux")]
    Ok(Peer {
        pid: credentials.pid.as_raw_nonzero().get() as u32,
        uid: credentials.uid.as_raw(),
        gid: credentials.gid.as_raw(),
    })
}

#[cfg(not(target_os = "linux"))]
fn peer_by_getpeereid(fd: std::os::fd::BorrowedFd<'_>) -> io::Result<Peer> {
    use std::os::fd::AsRawFd as _;
    let (mut uid, mut gid, mut pid) = (0, 0, 0_i32);
    let mut length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the results are integers of ours.
    let outcome = unsafe {
        libc::getpeereid(fd.as_raw_fd(), &raw mut uid, &raw mut gid) != 0
            || libc::getsockopt(
                fd.as_raw_fd(),
                libc::SOL_LOCAL,
                libc::LOCAL_PEERPID,
                (&raw mut pid).cast(),
                &raw mut length,
            ) != 0
    };
    if outcome { Err(io::Error::last_os_error()) } else { Ok(Peer { pid: pid.cast_unsigned(), uid, gid }) }
}

/// The effective user id of this process.
pub fn euid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Takes ownership of an inherited descriptor, once: it becomes close-on-exec, and a second call for the same
/// number is `EBADF`, as is a number that is not open, or a standard stream.
pub fn take_inherited_fd(fd: RawFd) -> io::Result<OwnedFd> {
    if fd <= libc::STDERR_FILENO {
        return Err(rustix::io::Errno::BADF.into());
    }
    // SAFETY: used only for two queries before anyone owns the descriptor; a wrong number is an error.
    let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    let flags = fcntl_getfd(borrowed)?;
    if flags.contains(FdFlags::CLOEXEC) {
        // Everything opened by this process has the flag, and descriptors taken before have it too.
        return Err(rustix::io::Errno::BADF.into());
    }
    fcntl_setfd(borrowed, FdFlags::CLOEXEC)?;
    // SAFETY: open and without the flag, so it was inherited and no object of this process owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::IntoRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_peer_of_an_own_pair_is_this_process() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let peer = peer_credentials(&ours).unwrap();
        assert_eq!((peer.pid, peer.uid), (std::process::id(), euid()));
        assert!(peer_credentials(std::fs::File::open("/dev/null").unwrap()).is_err());
    }

    #[test]
    fn an_inherited_descriptor_is_taken_over_once() {
        let raw = rustix::io::dup(std::fs::File::open("/dev/null").unwrap()).unwrap().into_raw_fd();
        let taken = take_inherited_fd(raw).unwrap();
        assert!(fcntl_getfd(&taken).unwrap().contains(FdFlags::CLOEXEC));
        assert_eq!(take_inherited_fd(raw).unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert_eq!(take_inherited_fd(1).unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert_eq!(take_inherited_fd(1_000_000).unwrap_err().raw_os_error(), Some(libc::EBADF));
    }
}
