//! A server that answers every request with the same bytes and does not parse requests, so that it is faster
//! than any generator. For benchmarks of generators. `canned [PORT]` prints its address and exits when its
//! standard input closes.
//!
//! One epoll loop. An empty line ends a request, so requests have no bodies.

use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\nhello world\n";
const READ_BYTES: usize = 64 * 1024;
/// Most answers sent by one `send` call.
const ANSWERS_MAX: usize = 1_024;
const LISTENER: u64 = u64::MAX;
const STDIN: u64 = u64::MAX - 1;

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(0);
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(true)?;
    println!("http://{}/", listener.local_addr()?);
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let stdin = io::stdin();
    // epoll can watch a terminal or a pipe, but not a file or `/dev/null`. In that case the server runs until
    // it is killed.
    let _ = epoll::add(&epoll, &stdin, EventData::new_u64(STDIN), EventFlags::IN | EventFlags::HUP);
    let answers = ANSWER.repeat(ANSWERS_MAX);
    let mut connections: HashMap<u64, OwnedFd> = HashMap::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut events = Vec::with_capacity(256);
    loop {
        events.clear();
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            match event.data.u64() {
                LISTENER => accept_all(&listener, &epoll, &mut connections)?,
                STDIN => {
                    if rustix::io::read(&stdin, &mut buffer)? == 0 {
                        return Ok(());
                    }
                }
                token => {
                    if let Some(connection) = connections.get(&token)
                        && !answer(connection, &mut buffer, &answers)
                    {
                        connections.remove(&token);
                    }
                }
            }
        }
    }
}

fn accept_all(
    listener: &TcpListener,
    epoll: &OwnedFd,
    connections: &mut HashMap<u64, OwnedFd>,
) -> io::Result<()> {
    while let Ok(connection) = accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        rustix::net::sockopt::set_tcp_nodelay(&connection, true)?;
        let token = connection.as_raw_fd() as u64;
        epoll::add(epoll, &connection, EventData::new_u64(token), EventFlags::IN | EventFlags::ET)?;
        connections.insert(token, connection);
    }
    Ok(())
}

/// Answers the requests that arrived. Returns whether the connection stays open.
fn answer(connection: &OwnedFd, buffer: &mut [u8], answers: &[u8]) -> bool {
    loop {
        match recv(connection, &mut *buffer, RecvFlags::empty()) {
            Ok((0, _)) => return false,
            Ok((length, _)) => {
                let asked =
                    memchr::memmem::find_iter(&buffer[..length], b"\r\n\r\n").count().min(ANSWERS_MAX);
                let bytes = &answers[..asked * ANSWER.len()];
                if send(connection, bytes, SendFlags::NOSIGNAL) != Ok(bytes.len()) {
                    return false;
                }
                if length < buffer.len() {
                    return true;
                }
            }
            Err(Errno::AGAIN) => return true,
            Err(_) => return false,
        }
    }
}
