//! What can be asked of a socket that exists: its next connection, its queue, its address, its cookie.

use std::fs::File;
use std::io::{self, Read as _};
use std::mem::{MaybeUninit, size_of};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

/// The next connection from the queue, non-blocking and close-on-exec; `None` when the queue is empty.
///
/// A connection that died in the queue is passed over. `EMFILE` and `ENFILE` are the caller's to handle:
/// the connection stays in the queue.
pub fn accept(fd: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    loop {
        match accept_with(fd, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(connection) => return Ok(Some(connection)),
            Err(Errno::AGAIN) => return Ok(None),
            // accept(2): errors already pending on the new socket are reported by accept, and are to be
            // treated by trying again.
            Err(
                Errno::INTR
                | Errno::CONNABORTED
                | Errno::PROTO
                | Errno::NETDOWN
                | Errno::NOPROTOOPT
                | Errno::HOSTDOWN
                | Errno::NONET
                | Errno::HOSTUNREACH
                | Errno::NETUNREACH,
            ) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The first port that every user may bind: 1024 where the system does not say another
/// (`net.ipv4.ip_unprivileged_port_start`, ip-sysctl.rst).
pub fn unprivileged_from() -> u16 {
    let mut text = String::new();
    let read = File::open("/proc/sys/net/ipv4/ip_unprivileged_port_start")
        .and_then(|mut file| file.read_to_string(&mut text));
    read.ok().and_then(|_| text.trim().parse().ok()).unwrap_or(1024)
}

/// How many established connections wait in a TCP listener's queue.
pub fn queue_length(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the buffer is valid for `length` bytes, and the kernel writes at most that many.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed at the start, so every byte is initialised, and all fields are integers.
    // For a listener the field counts the accept queue (tcp_get_info in the kernel's net/ipv4/tcp.c).
    Ok(unsafe { info.assume_init() }.tcpi_unacked)
}

/// The address that a TCP or UDP socket is bound to; `EAFNOSUPPORT` for other families.
pub fn local_addr(fd: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let address = rustix::net::getsockname(fd)?;
    SocketAddr::try_from(address).map_err(|_| Errno::AFNOSUPPORT.into())
}

/// The kernel's number for this socket: the same through every duplicate, never used twice.
pub fn cookie(fd: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(rustix::net::sockopt::socket_cookie(fd)?)
}
