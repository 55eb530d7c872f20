//! There are no socket diagnostics.

use std::io;
use std::net::SocketAddr;

/// An IPv4 or IPv6 socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InetSocket {
    pub(crate) local: SocketAddr,
    pub(crate) cookie: u64,
    pub(crate) uid: u32,
    pub(crate) inode: u64,
}

/// A unix socket with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnixSocket {
    pub(crate) name: Vec<u8>,
    pub(crate) inode: u64,
}

pub(crate) fn established(_port: u16, _f: impl FnMut(InetSocket, SocketAddr, u64)) -> io::Result<()> {
    Err(crate::portable::unsupported())
}

pub(crate) fn all_established(_f: impl FnMut(InetSocket, SocketAddr)) -> io::Result<()> {
    Err(crate::portable::unsupported())
}

pub(crate) fn tcp_listeners(_port: u16) -> io::Result<Vec<InetSocket>> {
    Err(crate::portable::unsupported())
}

pub(crate) fn listening_unix_sockets() -> io::Result<Vec<UnixSocket>> {
    Err(crate::portable::unsupported())
}
