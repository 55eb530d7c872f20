//! Sockets as the system lists them, by netlink or in `/proc/net`.

use std::net::SocketAddr;

/// An IPv4 or IPv6 socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InetSocket {
    pub(crate) local: SocketAddr,
    pub(crate) cookie: u64,
    pub(crate) uid: u32,
    pub(crate) inode: u64,
}

/// A unix socket with a name. An abstract one begins with a NUL byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnixSocket {
    pub(crate) name: Vec<u8>,
    pub(crate) inode: u64,
}
