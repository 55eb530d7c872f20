//! Open TCP connections of a port, with the kernel's counters, and the processes that hold them.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;

use super::sockets::tcp_listeners;
use crate::netlink;

/// One end of an open TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Its inode; the [`super::socket_inodes`] of a process that holds it contain it. 0: no process holds it,
    /// such as before it is accepted.
    pub inode: u64,
    /// Payload bytes received and acknowledged since the connection was established.
    pub received_bytes: u64,
}

/// The established connections with the own port `port`.
pub fn connections_at(port: u16) -> io::Result<Vec<Connection>> {
    let mut found = Vec::new();
    netlink::established(port, |socket, remote, received_bytes| {
        found.push(Connection { local: socket.local, remote, inode: socket.inode, received_bytes });
    })?;
    Ok(found)
}

/// An end of an open TCP connection, without counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenConnection {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// As in [`Connection`].
    pub inode: u64,
}

/// Calls `f` with each established TCP connection of this network namespace; there may be very many.
pub fn each_connection(mut f: impl FnMut(OpenConnection)) -> io::Result<()> {
    netlink::all_established(|socket, remote| {
        f(OpenConnection { local: socket.local, remote, inode: socket.inode });
    })
}

/// The ports on which any process of this network namespace listens.
pub fn listening_ports() -> io::Result<BTreeSet<u16>> {
    Ok(tcp_listeners(0)?.into_iter().map(|socket| socket.local.port()).collect())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::procinfo::socket_inodes;

    #[test]
    fn a_connection_is_listed_with_its_holder_and_the_bytes_that_came_in() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 1_000]).unwrap();
        server.read_exact(&mut [0; 1_000]).unwrap();
        let found = connections_at(address.port()).unwrap();
        let ours: Vec<_> = found.iter().filter(|one| one.remote == client.local_addr().unwrap()).collect();
        assert_eq!(ours.len(), 1, "{found:?}");
        assert_eq!((ours[0].local, ours[0].received_bytes), (address, 1_000));
        assert!(socket_inodes(std::process::id()).unwrap().contains(&ours[0].inode));
        let mut all = Vec::new();
        each_connection(|one| all.push(one)).unwrap();
        let ends: Vec<_> = all.iter().filter(|one| one.remote == address || one.local == address).collect();
        assert_eq!(ends.len(), 2, "both ends are here: {ends:?}");
        let ports = listening_ports().unwrap();
        assert!(ports.contains(&address.port()));
        assert!(!ports.contains(&client.local_addr().unwrap().port()));
        drop(client);
        drop(server);
    }
}
