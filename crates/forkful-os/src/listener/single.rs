//! One socket for one address: TCP, UDP and unix.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, ipproto, listen, socket_with, sockopt,
};

/// A plain listener that all workers of an app share.
pub fn bind_tcp_shared(addr: SocketAddr, ipv6_only: bool, backlog: u32) -> io::Result<OwnedFd> {
    let socket = bound_tcp(addr, ipv6_only)?;
    listen(&socket, clamp_backlog(backlog))?;
    Ok(socket)
}

/// A bound UDP socket. `reuse_addr` lets several sockets share a multicast port, as in Node.
pub fn bind_udp(addr: SocketAddr, ipv6_only: bool, reuse_addr: bool) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family(&addr), SocketType::DGRAM, flags, Some(ipproto::UDP))?;
    if reuse_addr {
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    if addr.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, ipv6_only)?;
    }
    bind(&socket, &addr)?;
    Ok(socket)
}

/// A listening unix socket; a `path` that starts with a NUL byte names one in the abstract namespace.
///
/// As in Node, an existing file is `EADDRINUSE` whether or not anyone listens on it, and a missing
/// directory is `EACCES`. The modes only add permissions to what the umask left.
pub fn bind_unix(path: &Path, backlog: u32, readable_all: bool, writable_all: bool) -> io::Result<OwnedFd> {
    let bytes = path.as_os_str().as_bytes();
    let is_abstract = bytes.first() == Some(&0);
    let address = match bytes {
        [0, name @ ..] => SocketAddrUnix::new_abstract_name(name)?,
        _ => SocketAddrUnix::new(path)?,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    bind(&socket, &address).map_err(|error| if error == Errno::NOENT { Errno::ACCESS } else { error })?;
    let opened = || -> io::Result<()> {
        if !is_abstract {
            widen(path, readable_all, writable_all)?;
        }
        Ok(listen(&socket, clamp_backlog(backlog))?)
    };
    if let Err(error) = opened() {
        if !is_abstract {
            // The file is ours, made a moment ago; without a listener it would only be in the way.
            let _ = rustix::fs::unlink(path);
        }
        return Err(error);
    }
    Ok(socket)
}

/// Whether a file is a unix socket that is left over: nobody listens on it. Does not wait.
pub fn is_left_over(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let refused = || -> io::Result<bool> {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let address = SocketAddrUnix::new(path)?;
        Ok(rustix::net::connect(&socket, &address) == Err(Errno::CONNREFUSED))
    };
    is_socket && refused().unwrap_or(false)
}

/// Adds read or write permission for everyone (the bits of libuv's `uv_pipe_chmod`).
fn widen(path: &Path, readable_all: bool, writable_all: bool) -> io::Result<()> {
    let wanted = if readable_all { 0o444 } else { 0 } | if writable_all { 0o222 } else { 0 };
    if wanted == 0 {
        return Ok(());
    }
    let mode = std::fs::metadata(path)?.permissions().mode() & 0o7777;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode | wanted))
}

/// A TCP socket bound without `SO_REUSEPORT`, so that a taken port is a plain `EADDRINUSE`; not yet listening.
pub(super) fn bound_tcp(addr: SocketAddr, ipv6_only: bool) -> io::Result<OwnedFd> {
    let socket = unbound_tcp(&addr, ipv6_only)?;
    bind(&socket, &addr)?;
    Ok(socket)
}

/// A TCP socket with `SO_REUSEADDR`, neither bound nor listening.
pub(super) fn unbound_tcp(addr: &SocketAddr, ipv6_only: bool) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family(addr), SocketType::STREAM, flags, Some(ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if addr.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, ipv6_only)?;
    }
    Ok(socket)
}

/// The kernel takes a signed number and caps it at `net.core.somaxconn`.
pub(super) fn clamp_backlog(backlog: u32) -> i32 {
    i32::try_from(backlog).unwrap_or(i32::MAX)
}

fn family(addr: &SocketAddr) -> AddressFamily {
    if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::{accept, local_addr, queue_length};
    use std::io::{Read, Write};
    use std::net::{TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_taken_port_is_a_plain_eaddrinuse() {
        let first = bind_tcp_shared("127.0.0.1:0".parse().unwrap(), false, 16).unwrap();
        let addr = local_addr(first.as_fd()).unwrap();
        let error = bind_tcp_shared(addr, false, 16).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EADDRINUSE));
    }

    #[test]
    fn the_queue_length_counts_connections_that_wait() {
        let listener = bind_tcp_shared("127.0.0.1:0".parse().unwrap(), false, 16).unwrap();
        let addr = local_addr(listener.as_fd()).unwrap();
        assert!(accept(listener.as_fd()).unwrap().is_none());
        let clients: Vec<_> = (0..5).map(|_| TcpStream::connect(addr).unwrap()).collect();
        assert_eq!(queue_length(listener.as_fd()).unwrap(), 5);
        let connection = accept(listener.as_fd()).unwrap().unwrap();
        assert_eq!(queue_length(listener.as_fd()).unwrap(), 4);
        let flags = rustix::fs::fcntl_getfl(&connection).unwrap();
        assert!(flags.contains(rustix::fs::OFlags::NONBLOCK));
        drop(clients);
    }

    #[test]
    fn ipv6_only_leaves_the_ipv4_port_free() {
        let only = bind_tcp_shared("[::]:0".parse().unwrap(), true, 16).unwrap();
        let port = local_addr(only.as_fd()).unwrap().port();
        let v4 = bind_tcp_shared(SocketAddr::from(([127, 0, 0, 1], port)), false, 16).unwrap();
        drop((only, v4));
        let dual = bind_tcp_shared("[::]:0".parse().unwrap(), false, 16).unwrap();
        let port = local_addr(dual.as_fd()).unwrap().port();
        TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert!(accept(dual.as_fd()).unwrap().is_some());
    }

    #[test]
    fn a_unix_socket_has_its_modes_and_a_stale_file_stays_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app.sock");
        let listener = bind_unix(&path, 16, true, true).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o666, 0o666);
        let mut client = UnixStream::connect(&path).unwrap();
        let connection = accept(listener.as_fd()).unwrap().unwrap();
        client.write_all(b"hello").unwrap();
        let mut text = [0; 5];
        UnixStream::from(connection).read_exact(&mut text).unwrap();
        assert_eq!(&text, b"hello");
        assert!(!is_left_over(&path), "somebody listens");
        drop(listener);
        let error = bind_unix(&path, 16, false, false).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EADDRINUSE));
        assert!(path.exists());
        assert!(is_left_over(&path));
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(!is_left_over(&file) && !is_left_over(&dir.path().join("none")));
        let error = bind_unix(&dir.path().join("none/app.sock"), 16, false, false).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EACCES));
    }

    #[test]
    fn an_abstract_unix_socket_leaves_no_file() {
        let name = format!("\0forkful-test-{}", std::process::id());
        let listener = bind_unix(Path::new(&name), 16, false, false).unwrap();
        let address = SocketAddrUnix::new_abstract_name(&name.as_bytes()[1..]).unwrap();
        let client =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::connect(&client, &address).unwrap();
        assert!(accept(listener.as_fd()).unwrap().is_some());
    }

    #[test]
    fn udp_is_shared_only_when_asked_for() {
        let first = bind_udp("127.0.0.1:0".parse().unwrap(), false, true).unwrap();
        let addr = local_addr(first.as_fd()).unwrap();
        assert_eq!(bind_udp(addr, false, false).unwrap_err().raw_os_error(), Some(libc::EADDRINUSE));
        bind_udp(addr, false, true).unwrap();
        let echo = bind_udp("127.0.0.1:0".parse().unwrap(), false, false).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.send_to(b"ping", local_addr(echo.as_fd()).unwrap()).unwrap();
        let server = UdpSocket::from(echo);
        server.set_nonblocking(false).unwrap();
        let mut buf = [0; 8];
        assert_eq!(server.recv_from(&mut buf).unwrap().1, client.local_addr().unwrap());
    }
}
