//! Sockets of one port that processes have opened themselves with `SO_REUSEPORT`: duplicates of them, and a
//! program that distributes connections among them.
//!
//! Duplicates are taken with `pidfd_getfd(2)`, which needs the right to trace the process. The program has
//! the same requirements as [`RoundRobin`]. With it, when a socket is closed or shut down, the kernel moves
//! the connections in its queue to a socket that the program chooses (`BPF_SK_REUSEPORT_SELECT_OR_MIGRATE`,
//! Linux 5.14).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{Shutdown, bind, listen, shutdown, sockopt};
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use super::group::MEMBERS_MAX;
use super::query::{accepting, local_addr, queue_length};
use super::round_robin::RoundRobin;
use crate::procinfo::tcp_listener_numbers;

/// The queue length of a socket that listens again; the kernel's own limit (`net.core.somaxconn`) is lower by
/// default.
const BACKLOG: i32 = 4096;

/// How often to check whether the kernel has released a socket from another program, which takes
/// milliseconds.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(1);

/// Duplicates of the listening TCP sockets with `SO_REUSEPORT` of a process. `EPERM` if it may not be traced.
pub fn shared_listeners_of(pidfd: BorrowedFd<'_>, pid: u32) -> io::Result<Vec<OwnedFd>> {
    if crate::portable::is_on() {
        return Err(crate::portable::unsupported());
    }
    let mut found = Vec::new();
    for number in tcp_listener_numbers(pid)? {
        let socket = match pidfd_getfd(pidfd, number, PidfdGetfdFlags::empty()) {
            Ok(socket) => socket,
            // It was closed meanwhile.
            Err(Errno::BADF) => continue,
            Err(error) => return Err(error.into()),
        };
        // The number may belong to another socket by now.
        if accepting(socket.as_fd())? && sockopt::socket_reuseport(&socket)? {
            found.push(socket);
        }
    }
    Ok(found)
}

/// See the module's documentation.
#[derive(Debug)]
pub struct AdoptedGroup {
    program: RoundRobin,
    /// By index; a free index can be reused by another socket.
    sockets: Vec<Option<OwnedFd>>,
}

impl AdoptedGroup {
    /// A group without sockets; `EPERM` if the kernel does not permit the program.
    pub fn new() -> io::Result<Self> {
        Ok(Self { program: RoundRobin::load_migrating()?, sockets: Vec::new() })
    }

    /// Adds a socket and returns its index. It gets connections once it is listed in [`Self::steer`].
    pub fn add(&mut self, socket: OwnedFd) -> io::Result<usize> {
        let free = self.sockets.iter().position(Option::is_none);
        let place = free.unwrap_or(self.sockets.len());
        if place >= MEMBERS_MAX {
            return Err(Errno::NOSPC.into());
        }
        self.register(place, socket.as_fd())?;
        match free {
            Some(_) => self.sockets[place] = Some(socket),
            None => self.sockets.push(Some(socket)),
        }
        Ok(place)
    }

    fn register(&self, place: usize, socket: BorrowedFd<'_>) -> io::Result<()> {
        let mut outcome = self.program.register(place, socket);
        for _ in 0..TRIES {
            let is_busy = |error| Errno::from_io_error(error) == Some(Errno::BUSY);
            if !outcome.as_ref().is_err_and(is_busy) {
                break;
            }
            // It is still in the list of the previous daemon's program, and leaves it when that program is
            // freed.
            self.program.attach_to(socket)?;
            std::thread::sleep(PAUSE);
            outcome = self.program.register(place, socket);
        }
        outcome
    }

    /// Closes the duplicate. If it was the last one, the connections in its queue move to a listed socket.
    pub fn remove(&mut self, place: usize) {
        if let Some(socket) = self.sockets.get_mut(place).filter(|socket| socket.is_some()) {
            // Its owner may still have it open.
            let _gone = self.program.forget(place);
            *socket = None;
        }
    }

    /// The socket with this index.
    pub fn socket(&self, place: usize) -> Option<BorrowedFd<'_>> {
        self.sockets.get(place)?.as_ref().map(AsFd::as_fd)
    }

    /// From now on, new connections go to these indexes in turn.
    pub fn steer(&self, places: &[u16]) -> io::Result<()> {
        let any = self.sockets.iter().flatten().next().ok_or(Errno::INVAL)?;
        self.program.list(places)?;
        self.program.attach_once(any.as_fd())
    }

    /// The number of connections in a socket's queue.
    pub fn queue(&self, place: usize) -> io::Result<u32> {
        queue_length(self.socket(place).ok_or(Errno::INVAL)?)
    }

    /// Makes the kernel move the queued connections of a socket to the listed sockets, which must be other
    /// ones. The socket listens again immediately. Its owner must not call accept meanwhile: it would get
    /// `EINVAL`.
    pub fn flush(&self, place: usize) -> io::Result<()> {
        let socket = self.socket(place).ok_or(Errno::INVAL)?;
        let address = local_addr(socket)?;
        shutdown(socket, Shutdown::Read)?;
        // The kernel has released a port that it chose itself; any other port is still bound, and this call
        // fails.
        let _bound = bind(socket, &address);
        listen(socket, BACKLOG)?;
        // The kernel has removed it from the program's list.
        self.register(place, socket)
    }
}

#[cfg(test)]
mod tests;
