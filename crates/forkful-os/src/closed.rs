//! Notifications of closed TCP connections, without holding the connections open.
//!
//! A process that passes a connection to another process must close its own copy, or the peer never sees the
//! end. From then on only the kernel knows when the connection ends. It reports this here, for all
//! connections of the network namespace, by socket cookie ([`crate::listener::cookie`]). Needs no privilege.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::bpf::{self, instruction, jump_if_equal, ret};
use crate::netlink;

/// Multicast groups `SKNLGRP_INET_TCP_DESTROY` (1) and `SKNLGRP_INET6_TCP_DESTROY` (3), as a mask.
const GROUPS: u32 = 1 << 0 | 1 << 2;

/// Requested size of the receive buffer; a message needs about a kilobyte. Without privilege, the machine's
/// limit applies.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// Maximum ports for [`ClosedConnections::only_ports`].
pub const PORTS_MAX: usize = 1024;

/// Maximum messages of one [`ClosedConnections::read`], so that a flood does not starve the caller's other
/// work; the descriptor stays readable for the rest.
const MESSAGES_MAX: usize = 4096;

/// The part of a message up to the cookie; the kernel truncates the rest.
const MESSAGE_BYTES: usize = 128;

/// Offset of the port in a message: the header, then offset 4 of `inet_diag_msg`.
const PORT_OFFSET: u32 = 16 + 4;

/// Whether all notifications arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    None,
    /// The kernel dropped notifications because they were not read soon enough.
    Lost,
}

/// A subscription; its descriptor is readable when there are notifications.
#[derive(Debug)]
pub struct ClosedConnections {
    socket: OwnedFd,
}

impl ClosedConnections {
    /// Subscribes to the ends of all TCP connections from now on.
    pub fn open() -> io::Result<Self> {
        let socket = netlink::open(GROUPS)?;
        netlink::widen_receive_buffer(&socket, RECEIVE_BUFFER_BYTES);
        Ok(Self { socket })
    }

    /// Makes the kernel drop notifications of sockets whose own port is not listed (at most [`PORTS_MAX`]).
    /// Without it, both ends of every connection of the machine are reported.
    pub fn only_ports(&self, ports: &[u16]) -> io::Result<()> {
        if ports.len() > PORTS_MAX {
            return Err(Errno::INVAL.into());
        }
        let load_half = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
        let mut program = vec![instruction(load_half, 0, 0, PORT_OFFSET)];
        for port in ports {
            program.extend([jump_if_equal(u32::from(*port), 0, 1), ret(u32::MAX)]);
        }
        program.push(ret(0));
        bpf::attach(&self.socket, libc::SO_ATTACH_FILTER, &mut program)
    }

    /// Calls `f` with the own port and the cookie of every socket destroyed since the last call.
    pub fn read(&mut self, mut f: impl FnMut(u16, u64)) -> io::Result<Overflow> {
        let mut overflow = Overflow::None;
        let mut buffer = [0; MESSAGE_BYTES];
        for _ in 0..MESSAGES_MAX {
            match recv(&self.socket, &mut buffer, RecvFlags::DONTWAIT) {
                Ok((read, _)) => {
                    netlink::messages(&buffer[..read], |message| {
                        let told = netlink::parse_port(message).zip(netlink::parse_cookie(message));
                        if let Some((port, cookie)) = told {
                            f(port, cookie);
                        }
                    })?;
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS) => overflow = Overflow::Lost,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(overflow)
    }
}

impl AsFd for ClosedConnections {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::cookie;
    use crate::testing::wait_until;
    use std::collections::HashSet;
    use std::net::{TcpListener, TcpStream};

    fn connection(listen: &str) -> (TcpListener, TcpStream, TcpStream) {
        let listener = TcpListener::bind(listen).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        (listener, client, server)
    }

    #[test]
    fn the_end_of_a_connection_is_told_when_its_last_copy_is_closed() {
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            let mut closed = ClosedConnections::open().unwrap();
            let (listener, client, server) = connection(listen);
            closed.only_ports(&[1, listener.local_addr().unwrap().port()]).unwrap();
            let (ours, clients) = (cookie(server.as_fd()).unwrap(), cookie(client.as_fd()).unwrap());
            let mut seen = HashSet::new();
            let copy = server.try_clone().unwrap();
            drop(server);
            drop(client);
            closed.read(|_, cookie| _ = seen.insert(cookie)).unwrap();
            assert!(!seen.contains(&ours), "a copy is open");
            drop(copy);
            wait_until("the end is told", || {
                assert_eq!(closed.read(|_, cookie| _ = seen.insert(cookie)).unwrap(), Overflow::None);
                seen.contains(&ours)
            });
            assert!(!seen.contains(&clients), "the client's port is filtered out");
        }
    }

    #[test]
    fn news_that_were_not_read_are_an_overflow() {
        let mut closed = ClosedConnections::open().unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&closed.socket, 1).unwrap();
        let (listener, _client, _server) = connection("127.0.0.1:0");
        let addr = listener.local_addr().unwrap();
        for _ in 0..50 {
            drop(TcpStream::connect(addr).unwrap());
            drop(listener.accept().unwrap());
        }
        wait_until("news are lost", || closed.read(|_, _| ()).unwrap() == Overflow::Lost);
    }
}
