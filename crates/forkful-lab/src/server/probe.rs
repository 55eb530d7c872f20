//! The first request to a server: does it answer, with what status, and how long does one answer take alone?

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use forkful_load::{ErrorCause, LoadError, Reuse, Stop, StopHandle, run};

use crate::target::Target;

/// The most of an answer's head that is read.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// What one request brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// From connecting to the end of the head.
    pub(crate) took: Duration,
}

/// Where to connect to for an address that a server listens on: the loopback for a wildcard.
pub(crate) fn reachable(listening: SocketAddr) -> SocketAddr {
    let ip = match listening.ip() {
        // A wildcard for IPv6 takes IPv4 too, unless it was told not to.
        ip if ip.is_unspecified()
            && (ip.is_ipv4() || is_open(Ipv4Addr::LOCALHOST.into(), listening.port())) =>
        {
            Ipv4Addr::LOCALHOST.into()
        }
        ip if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listening.port())
}

fn is_open(ip: std::net::IpAddr, port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::new(ip, port), Duration::from_millis(500)).is_ok()
}

/// Why a server gave no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// No TLS connection could be made.
    Tls(String),
    /// Anything else. `may_be_tls`: it ended as a server of TLS ends plain requests.
    Other { reason: String, may_be_tls: bool },
}

impl From<io::Error> for NoAnswer {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{ConnectionReset, InvalidData, UnexpectedEof};
        let may_be_tls = matches!(error.kind(), ConnectionReset | InvalidData | UnexpectedEof);
        Self::Other { reason: error.to_string(), may_be_tls }
    }
}

/// Sends the target's request on a connection of its own, and tells the status of the answer.
pub(crate) fn ask(address: SocketAddr, target: &Target, timeout: Duration) -> Result<Answer, NoAnswer> {
    if target.tls.is_some() {
        ask_over_tls(address, target, timeout)
    } else {
        Ok(ask_plainly(address, target, timeout)?)
    }
}

/// The load engine's smallest load.
fn ask_over_tls(address: SocketAddr, target: &Target, timeout: Duration) -> Result<Answer, NoAnswer> {
    let other = |reason: String| NoAnswer::Other { reason, may_be_tls: false };
    let mut plan = target.plan(address).map_err(|error| other(error.to_string()))?;
    plan.connections = 1;
    plan.stop = Stop::Requests(1);
    plan.reuse = Reuse::Never;
    plan.timeout = timeout;
    let tls = |cause: ErrorCause| matches!(cause, ErrorCause::TlsCertificate | ErrorCause::TlsHandshake);
    let report = run(&plan, &mut |_| {}, &StopHandle::new()).map_err(|error| match &error {
        LoadError::Unreachable { cause, detail, .. } if tls(*cause) => {
            NoAnswer::Tls(format!("{cause} ({detail})"))
        }
        LoadError::Unreachable { cause, detail, .. } => other(format!("{cause} ({detail})")),
        LoadError::Tls { .. } => NoAnswer::Tls(error.to_string()),
        _ => other(error.to_string()),
    })?;
    let took = Duration::from_nanos(report.response.max());
    match (report.statuses.first(), report.errors.first()) {
        (Some((status, _)), _) => Ok(Answer { status: *status, took }),
        (None, Some(error)) => Err(other(error.cause.to_string())),
        (None, None) => Err(other("there was no answer".to_owned())),
    }
}

/// Reads no more than the head of the answer.
fn ask_plainly(address: SocketAddr, target: &Target, timeout: Duration) -> io::Result<Answer> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(timeout))?;
    stream.write_all(&target.bytes(address))?;
    let mut head = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let left = timeout.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {timeout:?}")));
        }
        stream.set_read_timeout(Some(left))?;
        let read = match stream.read(&mut chunk) {
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the connection was closed without an answer",
                ));
            }
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {timeout:?}")));
            }
            Err(error) => return Err(error),
        };
        head.extend_from_slice(&chunk[..read]);
        match status_of(&head) {
            Head::Complete(status) => return Ok(Answer { status, took: begun.elapsed() }),
            Head::NotHttp => {
                let start: String = String::from_utf8_lossy(&head).chars().take(40).collect();
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("the answer is not HTTP: {start:?}"),
                ));
            }
            Head::Incomplete if head.len() > HEAD_BYTES_MAX => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer's head has no end"));
            }
            Head::Incomplete => {}
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Head {
    Incomplete,
    NotHttp,
    Complete(u16),
}

/// The status of an answer whose head is complete; interim answers (1xx) are passed over.
fn status_of(head: &[u8]) -> Head {
    let begin = b"HTTP/1.";
    if !head.starts_with(&begin[..head.len().min(begin.len())]) {
        return Head::NotHttp;
    }
    let Some(end) = head.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return Head::Incomplete };
    let status = head
        .get(9..12)
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|text| text.parse().ok());
    match status {
        None => Head::NotHttp,
        Some(status) if (100..200).contains(&status) => status_of(&head[end + 4..]),
        Some(status) => Head::Complete(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_told_from_other_bytes() {
        assert_eq!(status_of(b""), Head::Incomplete);
        assert_eq!(status_of(b"HTT"), Head::Incomplete);
        assert_eq!(status_of(b"HTTP/1.1 200 OK\r\nA: b\r\n"), Head::Incomplete);
        assert_eq!(status_of(b"HTTP/1.1 404 Not Found\r\n\r\nbody"), Head::Complete(404));
        assert_eq!(
            status_of(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\n\r\n"),
            Head::Complete(201)
        );
        assert_eq!(status_of(b"\x15\x03\x03"), Head::NotHttp);
        assert_eq!(status_of(b"HTTP/1.1 2x0 OK\r\n\r\n"), Head::NotHttp);
    }

    #[test]
    fn a_server_that_closes_or_says_nothing_is_an_error_with_the_reason() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let target = Target::get("/");
        let server = std::thread::spawn(move || {
            let mut first = listener.accept().unwrap().0;
            let mut request = [0; 1024];
            let length = first.read(&mut request).unwrap();
            drop(first);
            let second = listener.accept().unwrap().0;
            (String::from_utf8_lossy(&request[..length]).into_owned(), second)
        });
        let closed = ask_plainly(address, &target, Duration::from_secs(5)).unwrap_err();
        assert!(closed.to_string().contains("closed"), "{closed}");
        let silent = ask_plainly(address, &target, Duration::from_millis(50)).unwrap_err();
        assert_eq!(silent.kind(), io::ErrorKind::TimedOut);
        let (request, _open) = server.join().unwrap();
        assert!(request.starts_with("GET / HTTP/1.1\r\n"), "{request}");
    }

    #[test]
    fn wildcards_are_reached_by_the_loopback() {
        let v4: SocketAddr = "0.0.0.0:81".parse().unwrap();
        assert_eq!(reachable(v4).to_string(), "127.0.0.1:81");
        let listener = std::net::TcpListener::bind("[::]:0");
        // A machine without IPv6 has nothing to be reached there.
        if let Ok(listener) = listener {
            let found = reachable(listener.local_addr().unwrap());
            assert!(found.ip().is_loopback());
        }
        let own: SocketAddr = "10.0.0.1:81".parse().unwrap();
        assert_eq!(reachable(own), own);
    }
}
