//! Clients, the addresses that they connect to, and the kernel's view of both.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::world::PATIENCE;

/// Another end of a connection; knows which workers have answered it.
pub(crate) struct Client {
    stream: Box<dyn Read>,
    partial: Vec<u8>,
    pub(crate) answers: Vec<u32>,
    pub(crate) ended: bool,
}

impl Client {
    pub(crate) fn of(stream: TcpStream) -> Self {
        stream.set_nonblocking(true).unwrap();
        // Closed at once, without the minute that the kernel remembers others for.
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        Self::new(stream)
    }

    fn new(stream: impl Read + 'static) -> Self {
        Self { stream: Box::new(stream), partial: Vec::new(), answers: Vec::new(), ended: false }
    }

    /// Reads what is there; gives the answers so far.
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

/// Each client's one answer.
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
    let stream = UnixStream::connect(path).unwrap();
    stream.set_nonblocking(true).unwrap();
    Client::new(stream)
}

/// A loopback address of this test's own, so that fixed ports never meet.
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

/// How many connections wait in the kernel's queue of a listening address, all its sockets together.
pub(crate) fn queued(address: SocketAddr) -> usize {
    let IpAddr::V4(host) = address.ip() else { panic!("IPv4 only") };
    let local = format!("{:08X}:{:04X}", u32::from_le_bytes(host.octets()), address.port());
    let table = fs_err::read_to_string("/proc/self/net/tcp").unwrap();
    let columns = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    table
        .lines()
        .map(columns)
        .filter(|columns| columns.len() > 4 && columns[1] == local && columns[3] == "0A")
        .map(|columns| usize::from_str_radix(columns[4].split(':').nth(1).unwrap(), 16).unwrap())
        .sum()
}
