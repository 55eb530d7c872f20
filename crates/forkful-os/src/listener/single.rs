//! A single socket for an address: TCP and UDP.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType, bind, ipproto, listen, sockopt};

use crate::sys;

/// A listener that all workers of an app share.
pub fn bind_tcp_shared(addr: SocketAddr, ipv6_only: bool, backlog: u32) -> io::Result<OwnedFd> {
    let socket = bound_tcp(addr, ipv6_only)?;
    listen(&socket, clamp_backlog(backlog))?;
    Ok(socket)
}

/// Changes the backlog of a listener that was open before.
pub fn listen_again(socket: &OwnedFd, backlog: u32) -> io::Result<()> {
    Ok(listen(socket, clamp_backlog(backlog))?)
}

/// A bound UDP socket. With `reuse_addr`, several sockets can share a multicast port, as in Node.
pub fn bind_udp(addr: SocketAddr, ipv6_only: bool, reuse_addr: bool) -> io::Result<OwnedFd> {
    let socket = sys::socket(family(&addr), SocketType::DGRAM, Some(ipproto::UDP))?;
    if reuse_addr {
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    if addr.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, ipv6_only)?;
    }
    bind(&socket, &addr)?;
    Ok(socket)
}

/// A TCP socket bound without `SO_REUSEPORT`, so that a port in use is `EADDRINUSE`; not yet listening.
pub(super) fn bound_tcp(addr: SocketAddr, ipv6_only: bool) -> io::Result<OwnedFd> {
    let socket = unbound_tcp(&addr, ipv6_only)?;
    bind(&socket, &addr)?;
    Ok(socket)
}

/// A TCP socket with `SO_REUSEADDR`, neither bound nor listening.
pub(super) fn unbound_tcp(addr: &SocketAddr, ipv6_only: bool) -> io::Result<OwnedFd> {
    let socket = sys::socket(family(addr), SocketType::STREAM, Some(ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if addr.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, ipv6_only)?;
    }
    Ok(socket)
}

/// The kernel takes a signed number and limits it to `net.core.somaxconn`.
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
    use std::net::{TcpStream, UdpSocket};
    use std::os::fd::AsFd;

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
        // Another process may have the IPv4 port.
        crate::testing::wait_until("the IPv4 port is free", || {
            let only = bind_tcp_shared("[::]:0".parse().unwrap(), true, 16).unwrap();
            let port = local_addr(only.as_fd()).unwrap().port();
            bind_tcp_shared(SocketAddr::from(([127, 0, 0, 1], port)), false, 16).is_ok()
        });
        let dual = bind_tcp_shared("[::]:0".parse().unwrap(), false, 16).unwrap();
        let port = local_addr(dual.as_fd()).unwrap().port();
        TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert!(accept(dual.as_fd()).unwrap().is_some());
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
