//! Queries about an existing socket: its next connection, queue, address and cookie.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;

use crate::connection::{UNACKED, int_at, tcp_info};
use crate::procinfo::read_text;

/// The next connection in the queue, non-blocking and close-on-exec; `None` if the queue is empty.
///
/// A connection that died in the queue is skipped. The caller handles `EMFILE` and `ENFILE`: the connection
/// stays in the queue.
pub fn accept(fd: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    loop {
        match crate::sys::accept(fd) {
            Ok(connection) => return Ok(Some(connection)),
            Err(Errno::AGAIN) => return Ok(None),
            // accept(2): accept reports pending errors of the new socket, and they should be handled by
            // retrying.
            Err(
                Errno::INTR
                | Errno::CONNABORTED
                | Errno::PROTO
                | Errno::NETDOWN
                | Errno::NOPROTOOPT
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::NETUNREACH,
            ) => {}
            #[cfg(target_os = "linux")]
            Err(Errno::NONET) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The first port that every user may bind: 1024 unless the system sets another
/// (`net.ipv4.ip_unprivileged_port_start`, ip-sysctl.rst).
pub fn unprivileged_from() -> u16 {
    let text = read_text("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(1024)
}

/// Has a TCP listener listen no more, through whichever copy of it. With `SO_REUSEADDR` another one can be bound to its port then.
pub fn end(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::net::shutdown(fd, rustix::net::Shutdown::Both)?)
}

/// The number of established connections in a TCP listener's queue.
pub fn queue_length(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let (info, _) = tcp_info(fd)?;
    // For a listener the field counts the accept queue (tcp_get_info in the kernel's net/ipv4/tcp.c).
    Ok(int_at(&info, UNACKED))
}

/// Whether a socket is listening.
#[cfg(target_os = "linux")]
pub(super) fn accepting(fd: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(rustix::net::sockopt::socket_acceptconn(fd)?)
}

/// The address that a TCP or UDP socket is bound to; `EAFNOSUPPORT` for other families.
pub fn local_addr(fd: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let address = rustix::net::getsockname(fd)?;
    SocketAddr::try_from(address).map_err(|_| Errno::AFNOSUPPORT.into())
}

/// Whether a TCP socket is bound to this address, with the same IPv6-only option.
pub fn is_bound_to(fd: BorrowedFd<'_>, address: SocketAddr, ipv6_only: bool) -> bool {
    local_addr(fd).is_ok_and(|bound| bound == address)
        && (address.is_ipv4() || rustix::net::sockopt::ipv6_v6only(fd).is_ok_and(|only| only == ipv6_only))
}

/// The kernel's identifier of this socket: the same for every duplicate, never reused.
pub fn cookie(fd: BorrowedFd<'_>) -> io::Result<u64> {
    #[cfg(target_os = "linux")]
    return Ok(rustix::net::sockopt::socket_cookie(fd)?);
    // Within this process: the number of the descriptor is known to nobody else.
    #[cfg(not(target_os = "linux"))]
    {
        let stat = rustix::fs::fstat(fd)?;
        Ok(stat.st_ino)
    }
}
