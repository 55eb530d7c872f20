//! Health checks of workers: whether a worker answers an HTTP request, accepts a connection, or whether a
//! program reports it as healthy. A worker that shares its port is checked with a connection that is handed
//! only to it, so the answer comes from this worker.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
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
/// Maximum bytes of an answer that are read for its status, with the head of one informational answer before it: what Node.js
/// accepts by default.
const HEAD_BYTES_MAX: usize = 16 << 10;

const END_OF_HEAD: &[u8] = b"\r\n\r\n";

/// How a worker can be reached.
pub(super) enum Way {
    /// Wait for its channel.
    Busy,
    /// A connection to it.
    Connection(TcpStream),
    /// The first of these that does not refuse a connection.
    Addresses(Vec<SocketAddr>),
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
            Way::Addresses(addresses) => asker.await_answer(async move {
                let stream = connect(&addresses).await?;
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
            // `localhost` has both addresses, and an app may listen on one of them alone.
            return Way::Addresses(addresses_of(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))));
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
            Some(address) => Way::Addresses(addresses_of(address)),
            None => Way::None("it does not listen on any port".to_owned()),
        }
    }
}

/// The addresses at which a listener may be reached. One that listens on all IPv6 addresses usually has IPv4 connections, too.
fn addresses_of(listener: SocketAddr) -> Vec<SocketAddr> {
    let all: &[IpAddr] = match listener.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => &[IpAddr::V4(Ipv4Addr::LOCALHOST)],
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
            &[IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]
        }
        _ => return vec![listener],
    };
    all.iter().map(|ip| SocketAddr::new(*ip, listener.port())).collect()
}

/// Connects to the first address that does not refuse. When all refuse, the error is that of the first.
pub(super) async fn connect(addresses: &[SocketAddr]) -> io::Result<tokio::net::TcpStream> {
    let mut refusal = None;
    for address in addresses {
        match tokio::net::TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) if refusal.is_none() && error.kind() != io::ErrorKind::ConnectionRefused => {
                return Err(error);
            }
            Err(error) => drop(refusal.get_or_insert(error)),
        }
    }
    Err(refusal.unwrap_or_else(|| io::Error::other("there is no address")))
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
    while !has_final_status(&head) && head.len() < HEAD_BYTES_MAX {
        match stream.read(&mut chunk).await? {
            0 => break,
            n => head.extend_from_slice(&chunk[..n]),
        }
        let informational = head.len() - after_informational(&head).len();
        head.drain(..informational);
    }
    judge(&head)
}

/// What follows complete informational answers, such as 103 Early Hints (RFC 9110, section 15.2).
fn after_informational(mut bytes: &[u8]) -> &[u8] {
    while is_informational(bytes)
        && let Some(end) = memchr::memmem::find(bytes, END_OF_HEAD)
    {
        bytes = &bytes[end + END_OF_HEAD.len()..];
    }
    bytes
}

/// Whether an answer begins with the status of an informational one. After 101 comes another protocol, so it is final.
fn is_informational(bytes: &[u8]) -> bool {
    matches!(status_of(bytes), Some(100 | 102..=199))
}

fn has_final_status(bytes: &[u8]) -> bool {
    bytes.contains(&b'\n') && !is_informational(bytes)
}

/// The status of an answer whose first line this begins with.
fn status_of(bytes: &[u8]) -> Option<u16> {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let text = String::from_utf8_lossy(line);
    text.strip_prefix("HTTP/1.")?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Judges the final answer by its status line.
fn judge(head: &[u8]) -> io::Result<()> {
    match status_of(head) {
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
    fn block_on<T>(what: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(what)
    }

    #[test]
    fn informational_answers_are_passed_over_however_they_are_cut() {
        let hints =
            format!("HTTP/1.1 103 Early Hints\r\nLink: </{}>\r\n\r\n", "x".repeat(HEAD_BYTES_MAX / 2));
        let answered = |last: &str, cut: usize| {
            let answer = format!("HTTP/1.1 100 Continue\r\n\r\n{hints}{hints}{hints}{last}");
            let (ours, theirs) = connected_pair().expect("loopback is there");
            block_on(async move {
                for stream in [&ours, &theirs] {
                    stream.set_nonblocking(true)?;
                }
                let mut theirs = tokio::net::TcpStream::from_std(theirs)?;
                let answering = async move {
                    for piece in answer.as_bytes().chunks(cut) {
                        theirs.write_all(piece).await?;
                        tokio::task::yield_now().await;
                    }
                    // What it was asked is read before it closes, so that no answer is lost.
                    theirs.shutdown().await?;
                    theirs.read_to_end(&mut Vec::new()).await
                };
                let ours = tokio::net::TcpStream::from_std(ours)?;
                let (judged, _) = tokio::join!(talk(ours, Some("/".to_owned())), answering);
                judged
            })
        };
        for cut in [1_000, 1 << 20] {
            answered("HTTP/1.1 200 OK\r\n\r\n", cut).expect("it is healthy");
            let fault = answered("HTTP/1.1 503 Service Unavailable\r\n\r\n", cut).expect_err("a fault");
            assert_eq!(fault.to_string(), "status 503");
            assert!(answered("", cut).is_err());
        }
        assert!(has_final_status(b"HTTP/1.1 101 Switching Protocols\r\n"));
    }

    #[test]
    fn a_listener_on_all_addresses_is_looked_for_on_both_loopback_addresses() {
        let addresses = |listener: &str| {
            let found = addresses_of(listener.parse().expect("an address"));
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(addresses("0.0.0.0:80"), ["127.0.0.1:80"]);
        assert_eq!(addresses("[::]:80"), ["127.0.0.1:80", "[::1]:80"]);
        assert_eq!(addresses("[::1]:80"), ["[::1]:80"]);
        assert_eq!(addresses("10.0.0.1:80"), ["10.0.0.1:80"]);
    }

    #[test]
    fn when_one_address_refuses_the_next_is_tried_and_the_first_error_is_told() {
        // An address that refuses for as long as the socket is there: it is bound and does not listen.
        let refuses = |ip: IpAddr| {
            let family = rustix::net::AddressFamily::INET;
            let socket =
                rustix::net::socket(family, rustix::net::SocketType::STREAM, None).expect("a socket");
            rustix::net::bind(&socket, &SocketAddr::new(ip, 0)).expect("bound");
            let bound = rustix::net::getsockname(&socket).expect("it has a name");
            (SocketAddr::try_from(bound).expect("an address"), socket)
        };
        let (first, _first) = refuses(Ipv4Addr::LOCALHOST.into());
        let (second, _second) = refuses(Ipv4Addr::LOCALHOST.into());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
        let served = listener.local_addr().expect("it has an address");
        let peer = block_on(async { connect(&[first, served]).await?.peer_addr() });
        assert_eq!(peer.expect("connected"), served);
        let refused = block_on(connect(&[first, second])).expect_err("both refuse");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
