//! Groups of listeners and sockets of other processes, where the kernel does not choose among them: a group has the
//! daemon's member, which accepts everything.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::listen;

use super::query::local_addr;
use super::single::{bound_tcp, clamp_backlog};

/// Maximum members of a group: one for the daemon and one per slot.
pub const MEMBERS_MAX: usize = 1025;

/// Which members of a group get new connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Steer {
    /// All connections to one member.
    Only(u16),
    /// Each connection to a random listed member, uniformly.
    Random(Vec<u16>),
    /// By the client's address.
    BySource(Vec<u16>),
    /// Exact round robin over the listed members.
    RoundRobin(Vec<u16>),
}

/// A listener on an address, with the interface of a group.
#[derive(Debug)]
pub struct TcpGroup {
    members: Vec<OwnedFd>,
    addr: SocketAddr,
    ipv6_only: bool,
    backlog: u32,
}

impl TcpGroup {
    pub fn bind(addr: SocketAddr, ipv6_only: bool, backlog: u32) -> io::Result<Self> {
        Self::reopened(bound_tcp(addr, ipv6_only)?, ipv6_only, backlog)
    }

    /// The group of the previous daemon.
    pub fn handed_over(members: Vec<OwnedFd>, ipv6_only: bool, backlog: u32) -> io::Result<Self> {
        let addr = local_addr(members.first().ok_or(Errno::INVAL)?.as_fd())?;
        Ok(Self { members, addr, ipv6_only, backlog })
    }

    /// A group of a listener that was open before.
    pub fn reopened(first: OwnedFd, ipv6_only: bool, backlog: u32) -> io::Result<Self> {
        listen(&first, clamp_backlog(backlog))?;
        Self::handed_over(vec![first], ipv6_only, backlog)
    }

    /// Whether members accept IPv6 only, and their backlog.
    pub fn options(&self) -> (bool, u32) {
        (self.ipv6_only, self.backlog)
    }

    /// Always an error: the kernel would give a second member connections that nobody accepts.
    pub fn add_member(&mut self) -> io::Result<usize> {
        Err(crate::portable::unsupported())
    }

    /// The number of members; at least one.
    #[expect(clippy::len_without_is_empty, reason = "a group is never empty")]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// The listener with index `i`, which must be below [`Self::len`].
    pub fn member(&self, i: usize) -> BorrowedFd<'_> {
        self.members[i].as_fd()
    }

    /// The bound address.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Without effect for the only member, otherwise an error.
    pub fn steer(&self, steer: &Steer) -> io::Result<()> {
        if *steer == Steer::Only(0) { Ok(()) } else { Err(crate::portable::unsupported()) }
    }
}

/// Always an error.
pub fn shared_listeners_of(_pidfd: BorrowedFd<'_>, _pid: u32) -> io::Result<Vec<OwnedFd>> {
    Err(crate::portable::unsupported())
}

/// Sockets that processes have opened themselves, of which none are adopted.
#[derive(Debug)]
pub struct AdoptedGroup(Infallible);

impl AdoptedGroup {
    /// Always an error.
    pub fn new() -> io::Result<Self> {
        Err(crate::portable::unsupported())
    }

    pub fn add(&mut self, _socket: OwnedFd) -> io::Result<usize> {
        match self.0 {}
    }

    pub fn remove(&mut self, _place: usize) {
        match self.0 {}
    }

    pub fn socket(&self, _place: usize) -> Option<BorrowedFd<'_>> {
        match self.0 {}
    }

    pub fn steer(&self, _places: &[u16]) -> io::Result<()> {
        match self.0 {}
    }

    pub fn queue(&self, _place: usize) -> io::Result<u32> {
        match self.0 {}
    }

    pub fn flush(&self, _place: usize) -> io::Result<()> {
        match self.0 {}
    }
}
