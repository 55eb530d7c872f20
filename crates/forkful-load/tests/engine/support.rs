//! Servers for the engine's tests: one thread per connection, in this process, with the behaviour that a test
//! specifies.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

pub(crate) use forkful_testkit::wait_until;
use rustix::net::{AddressFamily, SocketType};

/// What a server received.
#[derive(Default)]
pub(crate) struct Seen {
    pub connections: AtomicU64,
    pub requests: AtomicU64,
    /// First lines of the requests.
    pub lines: Mutex<Vec<String>>,
}

/// A server on a free loopback port; its threads end with the process.
pub(crate) struct Server {
    pub address: SocketAddr,
    pub seen: Arc<Seen>,
}

/// A connection, for a test's handler.
pub(crate) struct Peer {
    pub stream: TcpStream,
    /// Number of the connection, from 0.
    pub number: u64,
    pub seen: Arc<Seen>,
    rest: Vec<u8>,
}

impl Server {
    pub(crate) fn new(handle: impl Fn(&mut Peer) + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), handle)
    }

    /// On a listener of the test.
    pub(crate) fn on(listener: TcpListener, handle: impl Fn(&mut Peer) + Send + Sync + 'static) -> Self {
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let (handle, shared) = (Arc::new(handle), Arc::clone(&seen));
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let number = shared.connections.fetch_add(1, Ordering::SeqCst);
                stream.set_nodelay(true).unwrap();
                let (handle, seen) = (Arc::clone(&handle), Arc::clone(&shared));
                std::thread::spawn(move || handle(&mut Peer { stream, number, seen, rest: Vec::new() }));
            }
        });
        Self { address, seen }
    }

    /// Answers every request with `answer(number)`; `None` closes the connection.
    pub(crate) fn answering(answer: impl Fn(u64) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        Self::new(move |peer| {
            while let Some(number) = peer.request() {
                match answer(number) {
                    Some(bytes) if peer.stream.write_all(&bytes).is_ok() => {}
                    _ => break,
                }
            }
        })
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn requests(&self) -> u64 {
        self.seen.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.seen.connections.load(Ordering::SeqCst)
    }
}

/// A port without a listener, which is reserved as long as its socket is open.
pub(crate) fn port_of_nobody() -> (OwnedFd, u16) {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    (socket, address.port())
}

/// Closed until it is opened once.
#[derive(Default)]
pub(crate) struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    pub(crate) fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    pub(crate) fn wait(&self) {
        let is_open = self.is_open.lock().unwrap();
        drop(self.opened.wait_while(is_open, |is_open| !*is_open).unwrap());
    }
}

impl Peer {
    /// Reads one request without a body. Returns its number among all requests of the server; `None`: the
    /// client is gone.
    pub(crate) fn request(&mut self) -> Option<u64> {
        let mut buffer = [0; 16 * 1024];
        loop {
            if let Some(end) = self.rest.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                let head: Vec<u8> = self.rest.drain(..end + 4).collect();
                let line = String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned();
                self.seen.lines.lock().unwrap().push(line);
                return Some(self.seen.requests.fetch_add(1, Ordering::SeqCst));
            }
            match self.stream.read(&mut buffer) {
                Ok(0) | Err(_) => return None,
                Ok(length) => self.rest.extend_from_slice(&buffer[..length]),
            }
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Keeps the connection open until the client closes it.
    pub(crate) fn hold(&mut self) {
        let mut buffer = [0; 1024];
        while matches!(self.stream.read(&mut buffer), Ok(length) if length > 0) {}
    }

    /// Ends the connection with a reset.
    pub(crate) fn reset(&mut self) {
        let linger = rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO));
        linger.unwrap();
    }

    /// Closes this end of the connection, as returning from the handler does.
    pub(crate) fn leave(&mut self) {
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
        self.stream = TcpStream::connect(nobody.local_addr().unwrap()).unwrap();
        let _ = nobody.accept();
    }

    pub(crate) fn close(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// A complete answer.
pub(crate) fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}
