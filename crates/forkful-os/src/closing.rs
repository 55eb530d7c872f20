//! Closes descriptors that came from another process, or were shared with it, on separate threads.
//!
//! `close` of the last descriptor of a TCP socket waits for unsent bytes as long as `SO_LINGER` says, also for a socket that does
//! not block; a file of FUSE waits for its server. The other process decides how long that takes, so it must not happen in an event
//! loop that serves other apps.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt;

/// Maximum threads: if this many closes block, further descriptors stay open until a close returns.
const THREADS_MAX: usize = 64;
/// A thread without work ends after this time.
const IDLE: Duration = Duration::from_secs(5);
/// They call nothing deep.
const STACK_BYTES: usize = 64 << 10;

#[derive(Debug)]
struct Closers {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug)]
struct State {
    waiting: VecDeque<OwnedFd>,
    threads: usize,
    idle: usize,
}

static CLOSERS: Closers = Closers {
    state: Mutex::new(State { waiting: VecDeque::new(), threads: 0, idle: 0 }),
    wake: Condvar::new(),
};

/// Closes a descriptor on another thread and returns at once. If no thread can be started, a later call closes the descriptor.
pub fn close_aside(descriptor: OwnedFd) {
    let mut state = CLOSERS.state.lock().unwrap_or_else(PoisonError::into_inner);
    state.waiting.push_back(descriptor);
    if state.idle >= state.waiting.len() {
        CLOSERS.wake.notify_one();
    } else if state.threads < THREADS_MAX {
        let begun =
            thread::Builder::new().name("forkful-close".to_owned()).stack_size(STACK_BYTES).spawn(run);
        state.threads += usize::from(begun.is_ok());
    }
}

fn run() {
    let mut state = CLOSERS.state.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let Some(descriptor) = state.waiting.pop_front() else {
            state.idle += 1;
            let (woken, late) =
                CLOSERS.wake.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if late.timed_out() && state.waiting.is_empty() {
                state.threads -= 1;
                return;
            }
            continue;
        };
        drop(state);
        // Only sockets have this option.
        let _no_socket = sockopt::set_socket_linger(&descriptor, None);
        drop(descriptor);
        state = CLOSERS.state.lock().unwrap_or_else(PoisonError::into_inner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::wait_until;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    /// A connection with bytes that nobody reads, whose close waits for an hour, and its other end.
    fn lingering() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        client.set_nonblocking(true).unwrap();
        while client.write(&[0; 16_384]).is_ok() {}
        sockopt::set_socket_linger(&client, Some(Duration::from_secs(3600))).unwrap();
        (client.into(), server)
    }

    #[test]
    fn many_descriptors_are_closed_and_nobody_waits() {
        let ends: Vec<UnixStream> = (0..500)
            .map(|_| {
                let (ours, theirs) = UnixStream::pair().unwrap();
                close_aside(ours.into());
                theirs
            })
            .collect();
        for mut end in ends {
            assert_eq!(end.read(&mut [0]).unwrap(), 0);
        }
    }

    #[test]
    fn a_socket_that_lingers_holds_up_nobody() {
        let (socket, mut server) = lingering();
        let began = Instant::now();
        close_aside(socket);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        close_aside(ours.into());
        assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
        // It is closed, and what was sent is delivered.
        let mut all = Vec::new();
        server.read_to_end(&mut all).unwrap();
        assert!(began.elapsed() < Duration::from_secs(1800));
    }

    #[test]
    fn what_comes_through_a_channel_is_closed_aside_with_it() {
        let (ours, theirs) = crate::channel::pair().unwrap();
        let (socket, mut server) = lingering();
        crate::channel::send(theirs.as_fd(), b"line\n", Some(socket.as_fd())).unwrap();
        drop((socket, theirs));
        crate::channel::close_with_all(ours.as_fd());
        drop(ours);
        wait_until("the end of the connection", || {
            let mut buffer = [0; 16_384];
            server.read(&mut buffer).is_ok_and(|bytes| bytes == 0)
        });
    }
}
