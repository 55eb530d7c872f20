//! Clients, the addresses they connect to, and the kernel's view of both.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use serde_json::{Value, json};

use super::world::PATIENCE;

/// A client's end of a connection; records which workers have answered it.
pub(crate) struct Client {
    stream: Box<dyn Read>,
    partial: Vec<u8>,
    pub(crate) answers: Vec<u32>,
    pub(crate) ended: bool,
}

impl Client {
    pub(crate) fn of(stream: TcpStream) -> Self {
        stream.set_nonblocking(true).unwrap();
        // Closed at once, without the kernel's TIME_WAIT state.
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        Self::new(stream)
    }

    fn new(stream: impl Read + 'static) -> Self {
        Self { stream: Box::new(stream), partial: Vec::new(), answers: Vec::new(), ended: false }
    }

    /// Reads available data; returns the answers so far.
    pub(crate) fn read(&mut self) -> &[u32] {
        let mut chunk = [0; 256];
        while !self.ended {
            match self.stream.read(&mut chunk) {
                Ok(0) => self.ended = true,
                Ok(read) => self.partial.extend_from_slice(&chunk[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(_) => self.ended = true,
            }
        }
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            self.answers.push(String::from_utf8(line).unwrap().trim_end().parse().unwrap());
        }
        &self.answers
    }
}

/// The single answer of each client.
pub(crate) fn only_answers(clients: &mut [Client]) -> Vec<u32> {
    let only = |client: &mut Client| {
        assert_eq!(client.read().len(), 1, "a connection is answered once: {:?}", client.answers);
        client.answers[0]
    };
    clients.iter_mut().map(only).collect()
}

pub(crate) fn connect(address: SocketAddr) -> Client {
    Client::of(TcpStream::connect_timeout(&address, PATIENCE).unwrap())
}

pub(crate) fn connect_all(address: SocketAddr, count: usize) -> Vec<Client> {
    (0..count).map(|_| connect(address)).collect()
}

pub(crate) fn connect_unix(path: &Path) -> Client {
    of_unix(UnixStream::connect(path).unwrap())
}

pub(crate) fn connect_abstract(name: &str) -> Client {
    let address =
        <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name)
            .unwrap();
    of_unix(UnixStream::connect_addr(&address).unwrap())
}

fn of_unix(stream: UnixStream) -> Client {
    stream.set_nonblocking(true).unwrap();
    Client::new(stream)
}

/// A loopback address used only by this test, so that fixed ports do not collide.
pub(crate) fn own_host() -> Ipv4Addr {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    Ipv4Addr::new(127, 1 + (std::process::id() % 250) as u8, high, low)
}

/// The members of a TCP query.
pub(crate) fn tcp(host: impl ToString + Copy, port: u16) -> Value {
    let host = host.to_string();
    let kind = if host.contains(':') { 6 } else { 4 };
    json!({ "index": 0, "data": null, "address": host, "port": port, "addressType": kind,
            "flags": 0, "backlog": 0 })
}

/// The members of a unix socket's query.
pub(crate) fn unix(path: &Path) -> Value {
    json!({ "index": 0, "data": null, "address": path, "port": -1, "addressType": -1, "backlog": 0 })
}

/// The number of connections in the kernel's queues of a listening address, over all its sockets.
pub(crate) fn queued(address: SocketAddr) -> usize {
    queues(address).into_iter().sum()
}

/// The queue of each socket that listens on an address.
///
/// Read with `sock_diag(7)`, because `/proc/net/tcp` is slow on a machine with many connections.
pub(crate) fn queues(address: SocketAddr) -> Vec<usize> {
    let SocketAddr::V4(address) = address else { panic!("IPv4 only") };
    let protocol = Some(netlink::SOCK_DIAG);
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol).unwrap();
    // A dump (0x301) by family (20) of IPv4 TCP sockets in the state LISTEN (10), for any address.
    let mut request = [0_u8; 72];
    request[..8].copy_from_slice(&[72, 0, 0, 0, 20, 0, 1, 3]);
    request[16..18].copy_from_slice(&[2, 6]);
    request[20..24].copy_from_slice(&(1_u32 << 10).to_ne_bytes());
    send(&socket, &request, SendFlags::empty()).unwrap();
    let mut queues = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let (length, _) = recv(&socket, buffer.as_mut_slice(), RecvFlags::empty()).unwrap();
        let mut messages = &buffer[..length];
        while let Some(head) = messages.first_chunk::<16>() {
            let word = |at: usize| u32::from_ne_bytes(messages[at..at + 4].try_into().unwrap());
            let is_ours = |message: &[u8]| {
                message[20..22] == address.port().to_be_bytes() && message[24..28] == address.ip().octets()
            };
            match u16::from_ne_bytes([head[4], head[5]]) {
                3 => return queues,
                20 if is_ours(messages) => queues.push(word(72) as usize),
                20 => {}
                other => panic!("unexpected answer of sock_diag: {other}"),
            }
            messages = &messages[(word(0) as usize).next_multiple_of(4).min(messages.len())..];
        }
    }
}
