//! Health checks of workers: whether a worker answers an HTTP request, accepts a connection, or whether a
//! program reports it as healthy. A worker that shares its port is checked with a connection that is handed
//! only to it, so the answer comes from this worker.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use forkful_core::Time;
use forkful_core::slot::Generation;
use forkful_core::spec::{HealthCheck, HealthProbe};
use forkful_core::supervisor::Event;
use forkful_os::procinfo::{self, ListeningSocket};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

use super::super::Back;
use super::super::app::{App, ProcessKey};
use super::super::starting::Starts;

/// A worker that accepts a connection waits for the first bytes; a worker that refuses it has closed it by
/// then.
const REFUSED_WITHIN: Duration = Duration::from_millis(20);
/// Maximum bytes of an answer that are read for its status.
const HEAD_BYTES_MAX: usize = 4096;

/// How a worker can be reached.
pub(super) enum Way {
    /// Wait for its channel.
    Busy,
    /// A connection to it.
    Connection(TcpStream),
    Address(SocketAddr),
    /// Not at all.
    None(String),
}

/// Answers a check later.
pub(super) struct Asker {
    pub(super) key: ProcessKey,
    pub(super) timeout: Duration,
    pub(super) back: mpsc::UnboundedSender<Back>,
}

impl Asker {
    /// Reports the answer if it arrives in time.
    fn await_answer(self, asked: impl Future<Output = io::Result<()>> + 'static) {
        let Self { key: (app, slot, generation), timeout, back } = self;
        tokio::task::spawn_local(async move {
            let answer = match tokio::time::timeout(timeout, asked).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err(format!("no answer within {} ms", timeout.as_millis())),
            };
            // The engine is gone only when the daemon ends.
            let _gone = back.send(Back::Health { app, slot, generation, answer });
        });
    }
}

impl App {
    /// Checks a worker. An immediate result is returned; a later one goes `back`.
    pub(in crate::engine) fn ask_worker(
        &mut self,
        key: ProcessKey,
        starts: &mut Starts,
        back: &mpsc::UnboundedSender<Back>,
        now: Time,
    ) -> Vec<Event> {
        let (_, slot, generation) = key;
        let Some(check) = self.spec().health.clone() else { return Vec::new() };
        // First, because a connection needs the worker's channel to be free; the answer also shows that the
        // event loop runs.
        let answer = self.ask_by_probe(key, &check, starts, back, now);
        let owes = check.stuck_limit.and_then(|_| self.ask_whether_it_turns(slot, generation, now));
        owes.into_iter().chain(answer).collect()
    }

    fn ask_by_probe(
        &mut self,
        key: ProcessKey,
        check: &HealthCheck,
        starts: &mut Starts,
        back: &mpsc::UnboundedSender<Back>,
        now: Time,
    ) -> Option<Event> {
        let (_, slot, generation) = key;
        let answered = |answer| Some(Event::Health { slot, generation, answer });
        let asker = Asker { key, timeout: check.timeout, back: back.clone() };
        let http = match &check.probe {
            HealthProbe::Loop => return answered(Ok(())),
            HealthProbe::Command { words } => {
                self.ask_command(words, asker, starts);
                return None;
            }
            HealthProbe::Http { path, .. } => Some(path.clone()),
            HealthProbe::Tcp { .. } => None,
        };
        let port = match &check.probe {
            HealthProbe::Http { port, .. } | HealthProbe::Tcp { port } => *port,
            HealthProbe::Command { .. } | HealthProbe::Loop => None,
        };
        match self.way_to(slot, generation, port, now) {
            Way::Busy => return Some(Event::ChannelBusy { slot, generation }),
            Way::None(why) => return answered(Err(why)),
            Way::Connection(stream) => asker.await_answer(async move {
                stream.set_nonblocking(true)?;
                talk(tokio::net::TcpStream::from_std(stream)?, http).await
            }),
            Way::Address(address) => asker.await_answer(async move {
                let stream = tokio::net::TcpStream::connect(address).await?;
                match http {
                    Some(_) => talk(stream, http).await,
                    // Connecting was the check.
                    None => Ok(()),
                }
            }),
        }
        None
    }

    pub(super) fn way_to(&mut self, slot: u16, generation: Generation, port: Option<u16>, now: Time) -> Way {
        if let Some(port) = port {
            return Way::Address(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        }
        let Some(process) = self.process(slot, generation) else { return Way::None("it is gone".to_owned()) };
        let worker = self.listener_of(slot, process, generation);
        if self.primary.shares_tcp(worker) {
            return match connected_pair() {
                Ok((ours, theirs)) => match self.primary.hand_to(worker, theirs.into(), now) {
                    Ok(()) => Way::Connection(ours),
                    Err(_) => Way::Busy,
                },
                Err(error) => Way::None(format!("no connection could be made: {error}")),
            };
        }
        let pid = self.process(slot, generation).map(|process| process.child.pid);
        let sockets = pid.and_then(|pid| procinfo::listening_sockets_of(pid).ok()).unwrap_or_default();
        let own = sockets.iter().find_map(|socket| match socket {
            ListeningSocket::Tcp(address) => Some(*address),
            ListeningSocket::Unix(_) => None,
        });
        match own {
            Some(mut address) => {
                if address.ip().is_unspecified() {
                    address.set_ip(Ipv4Addr::LOCALHOST.into());
                }
                Way::Address(address)
            }
            None => Way::None("it does not listen on any port".to_owned()),
        }
    }
}

/// The two ends of a TCP connection over loopback, like the connections of the app's clients.
fn connected_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let ours = TcpStream::connect(listener.local_addr()?)?;
    let own = ours.local_addr()?;
    loop {
        // Another client may have connected first; that connection is closed.
        let (theirs, peer) = listener.accept()?;
        if peer == own {
            return Ok((ours, theirs));
        }
    }
}

/// One request; without a path, whether the connection stays open for a moment.
async fn talk(mut stream: tokio::net::TcpStream, path: Option<String>) -> io::Result<()> {
    let Some(path) = path else {
        // A worker that refuses a connection closes it; a worker that accepts it waits for the first bytes.
        let mut byte = [0];
        return match tokio::time::timeout(REFUSED_WITHIN, stream.read(&mut byte)).await {
            Ok(Ok(0)) => Err(io::Error::other("the connection was refused")),
            Ok(Err(error)) => Err(error),
            Ok(Ok(_)) | Err(_) => Ok(()),
        };
    };
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: forkful-health\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    while !head.contains(&b'\n') && head.len() < HEAD_BYTES_MAX {
        match stream.read(&mut chunk).await? {
            0 => break,
            n => head.extend_from_slice(&chunk[..n]),
        }
    }
    judge(&head)
}

/// Judges a status line.
fn judge(head: &[u8]) -> io::Result<()> {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let text = String::from_utf8_lossy(line);
    let status: Option<u16> = text
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split_ascii_whitespace().nth(1))
        .and_then(|status| status.parse().ok());
    match status {
        Some(200..=399) => Ok(()),
        Some(status) => Err(io::Error::other(format!("status {status}"))),
        None if head.is_empty() => Err(io::Error::other("the connection was closed without an answer")),
        None => Err(io::Error::other("the answer is not HTTP")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_from_200_to_399_are_health() {
        assert!(judge(b"HTTP/1.1 200 OK\r\n").is_ok());
        assert!(judge(b"HTTP/1.0 302 Found\r\n").is_ok());
        let fault = |head: &[u8]| judge(head).expect_err("a fault").to_string();
        assert_eq!(fault(b"HTTP/1.1 503 Service Unavailable\r\n"), "status 503");
        assert_eq!(fault(b"HTTP/1.1 404\r\n"), "status 404");
        assert_eq!(fault(b"SSH-2.0-OpenSSH\r\n"), "the answer is not HTTP");
        assert_eq!(fault(b""), "the connection was closed without an answer");
    }

    #[test]
    fn a_pair_is_connected() {
        use std::io::{Read as _, Write as _};
        let (mut ours, mut theirs) = connected_pair().expect("loopback is there");
        ours.write_all(b"x").expect("it is connected");
        let mut byte = [0];
        theirs.read_exact(&mut byte).expect("it arrives");
        assert_eq!(byte, *b"x");
    }
}
