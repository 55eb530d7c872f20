//! Sockets of one port that processes have opened by themselves with `SO_REUSEPORT`: duplicates of them, and a program that
//! chooses among them.
//!
//! A duplicate is taken by `pidfd_getfd(2)`, which needs the right to trace the process. The program needs what
//! [`RoundRobin`] needs; with it, the kernel moves what waits in the queue of a socket that is closed, or shut down, to one
//! that the program chooses (`BPF_SK_REUSEPORT_SELECT_OR_MIGRATE`, Linux 5.14).

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

/// The queue of a socket that listens again; the kernel's own bound (`net.core.somaxconn`) is below it by default.
const BACKLOG: i32 = 4096;

/// How often the kernel is asked whether another program has let go of a socket, which it does within milliseconds.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(1);

/// Duplicates of the TCP sockets with `SO_REUSEPORT` that a process listens on. `EPERM` when it may not be traced.
pub fn shared_listeners_of(pidfd: BorrowedFd<'_>, pid: u32) -> io::Result<Vec<OwnedFd>> {
    let mut found = Vec::new();
    for number in tcp_listener_numbers(pid)? {
        let socket = match pidfd_getfd(pidfd, number, PidfdGetfdFlags::empty()) {
            Ok(socket) => socket,
            // It was closed meanwhile.
            Err(Errno::BADF) => continue,
            Err(error) => return Err(error.into()),
        };
        // The number may be another socket's by now.
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
    /// By their places, which other sockets may take later.
    sockets: Vec<Option<OwnedFd>>,
}

impl AdoptedGroup {
    /// A group without sockets; `EPERM` when the kernel does not let us choose.
    pub fn new() -> io::Result<Self> {
        Ok(Self { program: RoundRobin::load_migrating()?, sockets: Vec::new() })
    }

    /// Takes a socket in, and gives its place. It gets connections when it is listed by [`Self::steer`].
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
            // It is in the list of a daemon before this one, which goes with that daemon's program.
            self.program.attach_to(socket)?;
            std::thread::sleep(PAUSE);
            outcome = self.program.register(place, socket);
        }
        outcome
    }

    /// Closes the duplicate. When it was the last one, what waits in the queue goes to a listed socket.
    pub fn remove(&mut self, place: usize) {
        if let Some(socket) = self.sockets.get_mut(place).filter(|socket| socket.is_some()) {
            // Its owner may have it open still.
            let _gone = self.program.forget(place);
            *socket = None;
        }
    }

    /// The socket of a place.
    pub fn socket(&self, place: usize) -> Option<BorrowedFd<'_>> {
        self.sockets.get(place)?.as_ref().map(AsFd::as_fd)
    }

    /// New connections go to these places in turn, from now on.
    pub fn steer(&self, places: &[u16]) -> io::Result<()> {
        let any = self.sockets.iter().flatten().next().ok_or(Errno::INVAL)?;
        self.program.list(places)?;
        self.program.attach_once(any.as_fd())
    }

    /// How many connections wait in the queue of a place.
    pub fn queue(&self, place: usize) -> io::Result<u32> {
        queue_length(self.socket(place).ok_or(Errno::INVAL)?)
    }

    /// Has the kernel move what waits in the queue of a place to the listed sockets, which must be others. The socket listens
    /// again at once. Its owner must not accept meanwhile: it would see `EINVAL`.
    pub fn flush(&self, place: usize) -> io::Result<()> {
        let socket = self.socket(place).ok_or(Errno::INVAL)?;
        let address = local_addr(socket)?;
        shutdown(socket, Shutdown::Read)?;
        // The kernel has let go of a port that it chose itself; another one is still bound, and this is refused.
        let _bound = bind(socket, &address);
        listen(socket, BACKLOG)?;
        // The kernel has taken it out of the program's list.
        self.register(place, socket)
    }
}

#[cfg(test)]
mod tests;
