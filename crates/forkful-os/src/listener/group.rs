//! A port shared by several listeners, with a program that distributes connections among them.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{bind, listen, sockopt};

use super::query::local_addr;
use super::round_robin::RoundRobin;
use super::single::{bound_tcp, clamp_backlog, unbound_tcp};
use super::steer::{self, Steer};
use crate::behalf::{Rights, as_user};
use crate::identity::euid;

/// Maximum members of a group: one for the daemon and one per slot.
pub const MEMBERS_MAX: usize = 1025;

/// How often to check whether the kernel has freed the program of the previous owner, which takes
/// milliseconds.
const TRIES_OF_HANDED_OVER: u32 = 50;
const PAUSE_OF_HANDED_OVER: Duration = Duration::from_millis(1);

/// Listeners on one address, numbered from 0 in the order they were added.
///
/// Members are never closed while the group exists: the kernel would reset the connections in a closed
/// member's queue and move its last member into the gap, which changes the meaning of indexes.
#[derive(Debug)]
pub struct TcpGroup {
    members: Vec<OwnedFd>,
    addr: SocketAddr,
    ipv6_only: bool,
    backlog: u32,
    /// Created on first use. An error (missing privilege or kernel support) is remembered and not retried at
    /// every steering.
    round_robin: OnceLock<Result<RoundRobin, String>>,
}

impl TcpGroup {
    /// A group of one listener. It is bound without `SO_REUSEPORT`, so that a port in use is `EADDRINUSE`;
    /// afterwards further members of this user are allowed.
    pub fn bind(addr: SocketAddr, ipv6_only: bool, backlog: u32) -> io::Result<Self> {
        let first = bound_tcp(addr, ipv6_only)?;
        sockopt::set_socket_reuseport(&first, true)?;
        listen(&first, clamp_backlog(backlog))?;
        let addr = local_addr(first.as_fd())?;
        Ok(Self { members: vec![first], addr, ipv6_only, backlog, round_robin: OnceLock::new() })
    }

    /// The group of the previous daemon: all its members, in order. The kernel's distribution of connections
    /// continues.
    pub fn handed_over(members: Vec<OwnedFd>, ipv6_only: bool, backlog: u32) -> io::Result<Self> {
        let first = members.first().ok_or(Errno::INVAL)?;
        let addr = local_addr(first.as_fd())?;
        Ok(Self { members, addr, ipv6_only, backlog, round_robin: OnceLock::new() })
    }

    /// A group of one listener that was open before, with the connections in its queue.
    pub fn reopened(first: OwnedFd, ipv6_only: bool, backlog: u32) -> io::Result<Self> {
        sockopt::set_socket_reuseport(&first, true)?;
        listen(&first, clamp_backlog(backlog))?;
        Self::handed_over(vec![first], ipv6_only, backlog)
    }

    /// Whether members accept IPv6 only, and their backlog.
    pub fn options(&self) -> (bool, u32) {
        (self.ipv6_only, self.backlog)
    }

    /// Adds a listener and returns its index. It gets connections immediately, unless a program is attached
    /// that does not list it.
    pub fn add_member(&mut self) -> io::Result<usize> {
        if self.members.len() >= MEMBERS_MAX {
            return Err(Errno::NOSPC.into());
        }
        let socket = self.of_same_user(|| unbound_tcp(&self.addr, self.ipv6_only))?;
        sockopt::set_socket_reuseport(&socket, true)?;
        bind(&socket, &self.addr)?;
        listen(&socket, clamp_backlog(self.backlog))?;
        self.members.push(socket);
        Ok(self.members.len() - 1)
    }

    /// Makes a socket of the first member's user, whoever this process has become since: sockets of one user alone share a
    /// port.
    fn of_same_user(&self, make: impl FnOnce() -> io::Result<OwnedFd>) -> io::Result<OwnedFd> {
        let first = rustix::fs::fstat(&self.members[0])?;
        if first.st_uid == euid() {
            return make();
        }
        as_user(&Rights { uid: first.st_uid, gid: first.st_gid, groups: Vec::new() }, make)
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

    /// The bound address, with the port that the kernel chose if 0 was requested.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Changes the distribution among the members, from the next new connection on. `EINVAL` for an empty
    /// list or an invalid index; the kind `Unsupported` for [`Steer::RoundRobin`] without the privilege.
    pub fn steer(&self, steer: &Steer) -> io::Result<()> {
        let listed = match steer {
            Steer::Only(index) => std::slice::from_ref(index),
            Steer::Random(list) | Steer::BySource(list) | Steer::RoundRobin(list) => list,
        };
        if listed.is_empty() || listed.iter().any(|index| usize::from(*index) >= self.members.len()) {
            return Err(Errno::INVAL.into());
        }
        let Steer::RoundRobin(list) = steer else {
            steer::attach(self.member(0), steer)?;
            if let Some(Ok(turns)) = self.round_robin.get() {
                turns.replaced();
            }
            return Ok(());
        };
        match self.round_robin() {
            Ok(turns) => {
                let mut outcome = turns.steer(&self.members, list);
                // The program of a previous owner, which has exited, still has the sockets in its list.
                for _ in 0..TRIES_OF_HANDED_OVER {
                    let is_busy = |error| Errno::from_io_error(error) == Some(Errno::BUSY);
                    if !outcome.as_ref().is_err_and(is_busy) {
                        break;
                    }
                    steer::attach(self.member(0), &Steer::Random(list.clone()))?;
                    std::thread::sleep(PAUSE_OF_HANDED_OVER);
                    outcome = turns.steer(&self.members, list);
                }
                outcome
            }
            Err(reason) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("round robin in the kernel is not available: {reason}"),
            )),
        }
    }

    fn round_robin(&self) -> Result<&RoundRobin, String> {
        if let Some(known) = self.round_robin.get() {
            return known.as_ref().map_err(Clone::clone);
        }
        let loaded = RoundRobin::load();
        if let Err(error) = &loaded
            && is_shortage(error)
        {
            return Err(error.to_string());
        }
        let known = self.round_robin.get_or_init(|| loaded.map_err(|error| error.to_string()));
        known.as_ref().map_err(Clone::clone)
    }
}

/// Whether a retry may succeed later.
fn is_shortage(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN | Errno::INTR)
    )
}

#[cfg(test)]
mod tests;
