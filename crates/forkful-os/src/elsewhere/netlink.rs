//! There are no socket diagnostics.

use std::io;
use std::net::SocketAddr;

use crate::diagnosed::{InetSocket, UnixSocket};

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
