//! Calls that exist on Linux and elsewhere in different forms: descriptors that close on exec and do not block from
//! their beginning, and flags without a counterpart.

use std::io;
#[cfg(not(target_os = "linux"))]
use std::os::fd::AsFd;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, RawMode, Stat};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketType};

#[cfg(target_os = "linux")]
mod of_linux {
    use rustix::net::SocketFlags;

    use super::{
        AddressFamily, BorrowedFd, OFlags, OwnedFd, Protocol, RecvFlags, SendFlags, SocketType, Stat, io,
    };

    /// To hold a file or folder without permission to read it.
    pub(crate) const HOLD: OFlags = OFlags::PATH;
    /// Writing to a closed connection is an error and no signal.
    pub(crate) const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;
    pub(crate) const CLOSE_ON_EXEC: RecvFlags = RecvFlags::CMSG_CLOEXEC;

    pub(crate) fn socket(
        family: AddressFamily,
        kind: SocketType,
        protocol: Option<Protocol>,
    ) -> rustix::io::Result<OwnedFd> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        rustix::net::socket_with(family, kind, flags, protocol)
    }

    pub(crate) fn stream_pair() -> io::Result<(OwnedFd, OwnedFd)> {
        Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
    }

    pub(crate) fn accept(listener: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
        rustix::net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
    }

    pub(crate) fn received(_handle: &OwnedFd) {}

    pub(crate) fn device(stat: &Stat) -> u64 {
        stat.st_dev
    }

    pub(crate) fn modified_nanoseconds(stat: &Stat) -> u64 {
        stat.st_mtime_nsec
    }
}

#[cfg(not(target_os = "linux"))]
mod of_others {
    use rustix::io::{FdFlags, fcntl_setfd, ioctl_fionbio};
    use rustix::net::SocketFlags;

    use super::{
        AddressFamily, AsFd, BorrowedFd, OFlags, OwnedFd, Protocol, RecvFlags, SendFlags, SocketType, Stat,
        io,
    };

    /// To hold a folder.
    pub(crate) const HOLD: OFlags = OFlags::RDONLY;
    /// `SIGPIPE` is ignored in every program in Rust.
    pub(crate) const NO_SIGNAL: SendFlags = SendFlags::empty();
    pub(crate) const CLOSE_ON_EXEC: RecvFlags = RecvFlags::empty();

    pub(crate) fn socket(
        family: AddressFamily,
        kind: SocketType,
        protocol: Option<Protocol>,
    ) -> rustix::io::Result<OwnedFd> {
        prepared(rustix::net::socket(family, kind, protocol)?)
    }

    pub(crate) fn stream_pair() -> io::Result<(OwnedFd, OwnedFd)> {
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None)?;
        fcntl_setfd(&ours, FdFlags::CLOEXEC)?;
        fcntl_setfd(&theirs, FdFlags::CLOEXEC)?;
        Ok((ours, theirs))
    }

    pub(crate) fn accept(listener: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
        prepared(rustix::net::accept(listener)?)
    }

    fn prepared(fd: OwnedFd) -> rustix::io::Result<OwnedFd> {
        fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
        ioctl_fionbio(&fd, true)?;
        Ok(fd)
    }

    /// A descriptor has come from another process.
    pub(crate) fn received(handle: &OwnedFd) {
        let _set = fcntl_setfd(handle.as_fd(), FdFlags::CLOEXEC);
    }

    pub(crate) fn device(stat: &Stat) -> u64 {
        u64::from(stat.st_dev.cast_unsigned())
    }

    pub(crate) fn modified_nanoseconds(stat: &Stat) -> u64 {
        stat.st_mtime_nsec.cast_unsigned()
    }
}

#[cfg(target_os = "linux")]
pub(crate) use of_linux::*;
#[cfg(not(target_os = "linux"))]
pub(crate) use of_others::*;

/// Access rights in the system's own width.
pub(crate) fn mode(bits: u32) -> Mode {
    Mode::from_raw_mode(bits as RawMode)
}
