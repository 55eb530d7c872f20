//! Notifications of closed TCP connections, which only Linux sends.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Maximum ports for [`ClosedConnections::only_ports`].
pub const PORTS_MAX: usize = 0;

/// Whether all notifications arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    None,
    /// The kernel dropped notifications because they were not read soon enough.
    Lost,
}

/// A subscription, of which there is none.
#[derive(Debug)]
pub struct ClosedConnections(Infallible);

impl ClosedConnections {
    /// Always an error.
    pub fn open() -> io::Result<Self> {
        Err(crate::portable::unsupported())
    }

    pub fn only_ports(&self, _ports: &[u16]) -> io::Result<()> {
        match self.0 {}
    }

    pub fn read(&mut self, _f: impl FnMut(u16, u64)) -> io::Result<Overflow> {
        match self.0 {}
    }
}

impl AsFd for ClosedConnections {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}
