//! Information from the kernel about a TCP connection.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Flags with which writing to a closed connection is an error and no signal.
pub const NO_SIGNAL: rustix::net::SendFlags = crate::sys::NO_SIGNAL;

/// `tcp_info` of `linux/tcp.h` up to `tcpi_bytes_sent` (Linux 4.19), which the libc crate's definition lacks.
const INFO_BYTES: usize = 208;
pub(crate) const UNACKED: usize = 24;
const TOTAL_RETRANS: usize = 100;
const BYTES_RECEIVED: usize = 128;
const NOT_SENT_BYTES: usize = 144;
const BYTES_SENT: usize = 200;

/// `TCP_CLOSE_WAIT`: the client has sent its FIN, which counts as a received byte.
const CLOSE_WAIT: u8 = 8;

/// Whether no process has read from or written to a connection since it was accepted.
///
/// `ENOTSUP` if the kernel does not count bytes (before 4.19, or not TCP).
pub fn is_untouched(connection: BorrowedFd<'_>) -> io::Result<bool> {
    let unread = rustix::io::ioctl_fionread(connection)?;
    let info = whole_tcp_info(connection)?;
    let long = |at: usize| info[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
    let received = long(BYTES_RECEIVED) - u64::from(info[0] == CLOSE_WAIT).min(long(BYTES_RECEIVED));
    Ok(received <= unread && long(BYTES_SENT) == 0 && int_at(&info, NOT_SENT_BYTES) == 0)
}

/// Segments that this end has retransmitted since it started connecting, including SYNs. `ENOTSUP` as above.
pub fn retransmits(connection: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(int_at(&whole_tcp_info(connection)?, TOTAL_RETRANS))
}

fn whole_tcp_info(connection: BorrowedFd<'_>) -> io::Result<[u8; INFO_BYTES]> {
    match tcp_info(connection)? {
        (info, INFO_BYTES) => Ok(info),
        _ => Err(rustix::io::Errno::NOTSUP.into()),
    }
}

pub(crate) fn int_at(info: &[u8; INFO_BYTES], at: usize) -> u32 {
    info[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

/// It is not known.
#[cfg(not(target_os = "linux"))]
pub(crate) fn tcp_info(_connection: BorrowedFd<'_>) -> io::Result<([u8; INFO_BYTES], usize)> {
    Err(crate::portable::unsupported())
}

/// Ends a connection whose peer acknowledges nothing for this long, where the system can (`TCP_USER_TIMEOUT` of tcp(7)).
pub fn limit_stall(connection: impl std::os::fd::AsFd, limit: std::time::Duration) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return Ok(rustix::net::sockopt::set_tcp_user_timeout(connection, limit.as_millis() as u32)?);
    #[cfg(not(target_os = "linux"))]
    {
        let _unlimited = (connection, limit);
        Err(crate::portable::unsupported())
    }
}

/// A stream socket that does not block and closes on exec.
pub fn stream(family: rustix::net::AddressFamily) -> rustix::io::Result<OwnedFd> {
    crate::sys::socket(family, rustix::net::SocketType::STREAM, None)
}

/// The address of a name in the abstract namespace, which only Linux has.
pub fn abstract_address(name: &str) -> io::Result<std::os::unix::net::SocketAddr> {
    #[cfg(target_os = "linux")]
    return <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name);
    #[cfg(not(target_os = "linux"))]
    {
        let _name = name;
        Err(crate::portable::unsupported())
    }
}

/// As much as the kernel returns, with its length, padded with zeros.
#[cfg(target_os = "linux")]
pub(crate) fn tcp_info(connection: BorrowedFd<'_>) -> io::Result<([u8; INFO_BYTES], usize)> {
    let mut info = [0_u8; INFO_BYTES];
    let mut length = INFO_BYTES as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into the buffer, which has as many.
    let result = unsafe {
        libc::getsockopt(
            connection.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    match result {
        0 => Ok((info, length as usize)),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    fn accepted() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn is_untouched_soon(server: &TcpStream, unread: u64) -> bool {
        while rustix::io::ioctl_fionread(server).unwrap() < unread {
            std::thread::yield_now();
        }
        is_untouched(server.as_fd()).unwrap()
    }

    #[test]
    fn a_connection_is_untouched_until_somebody_reads_or_writes() {
        let (mut client, mut server) = accepted();
        assert!(is_untouched(server.as_fd()).unwrap());
        client.write_all(b"request").unwrap();
        assert!(is_untouched_soon(&server, 7));
        assert_eq!(server.read(&mut [0; 3]).unwrap(), 3);
        assert!(!is_untouched(server.as_fd()).unwrap());

        let (client, mut server) = accepted();
        server.write_all(b"greeting").unwrap();
        assert!(!is_untouched(server.as_fd()).unwrap());
        drop(client);
    }

    #[test]
    fn the_end_that_a_client_sends_is_no_touch() {
        let (mut client, server) = accepted();
        client.write_all(b"request").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert!(is_untouched_soon(&server, 7));
        let (mut client, mut server) = accepted();
        client.write_all(b"request").unwrap();
        assert_eq!(server.read(&mut [0; 16]).unwrap(), 7);
        client.shutdown(Shutdown::Write).unwrap();
        assert!(!is_untouched(server.as_fd()).unwrap());
    }

    #[test]
    fn a_connection_on_loopback_sends_nothing_again() {
        let (mut client, mut server) = accepted();
        client.write_all(&[7; 100]).unwrap();
        server.read_exact(&mut [0; 100]).unwrap();
        assert_eq!((retransmits(client.as_fd()).unwrap(), retransmits(server.as_fd()).unwrap()), (0, 0));
    }

    #[test]
    fn of_other_sockets_it_cannot_be_told() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(is_untouched(ours.as_fd()).is_err() && retransmits(ours.as_fd()).is_err());
    }
}
