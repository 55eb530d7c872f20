//! The first request to a server: whether it answers, with which status, and how long a single answer takes.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use forkful_load::{ErrorCause, LoadError, Reuse, Stop, StopHandle, run};

use crate::target::Target;

/// The result of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// From connecting to the end of the answer.
    pub(crate) took: Duration,
}

/// The address to connect to for a listening address: loopback for a wildcard.
pub(crate) fn reachable(listening: SocketAddr) -> SocketAddr {
    let ip = match listening.ip() {
        // An IPv6 wildcard accepts IPv4 too, unless it is IPv6-only.
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
    /// The TLS connection failed.
    Tls(String),
    /// Any other reason. `may_be_tls`: it closed the connection in the way a TLS server does on a plain
    /// request.
    Other { reason: String, may_be_tls: bool },
}

/// Sends the target's request on a new connection and returns the status of the answer. `stop` ends the wait
/// for it.
pub(crate) fn ask(
    address: SocketAddr,
    target: &Target,
    timeout: Duration,
    stop: &StopHandle,
) -> Result<Answer, NoAnswer> {
    let other = |reason: String| NoAnswer::Other { reason, may_be_tls: false };
    let mut plan = target.plan(address).map_err(|error| other(error.to_string()))?;
    plan.connections = 1;
    plan.stop = Stop::Requests(1);
    plan.reuse = Reuse::Never;
    plan.timeout = timeout;
    let report = run(&plan, &mut |_| {}, &stop.always_at_once()).map_err(|error| match &error {
        LoadError::Unreachable { cause, detail, .. } => no_answer(*cause, detail, false),
        LoadError::Tls { .. } => NoAnswer::Tls(error.to_string()),
        _ => other(error.to_string()),
    })?;
    let took = Duration::from_nanos(report.response.max());
    match (report.statuses.first(), report.errors.first()) {
        (Some((status, _)), _) => Ok(Answer { status: *status, took }),
        (None, Some(error)) => {
            let waited = format!("{timeout:?}");
            let told = error.examples.first().map_or("", |example| example.detail.as_str());
            let detail = if error.cause.is_timeout() { &waited } else { told };
            Err(no_answer(error.cause, detail, target.tls.is_none()))
        }
        (None, None) => Err(other("there was no answer".to_owned())),
    }
}

fn no_answer(cause: ErrorCause, detail: &str, is_plain: bool) -> NoAnswer {
    let reason = if detail.is_empty() { cause.to_string() } else { format!("{cause} ({detail})") };
    if matches!(cause, ErrorCause::TlsCertificate | ErrorCause::TlsHandshake) {
        return NoAnswer::Tls(reason);
    }
    NoAnswer::Other {
        reason,
        may_be_tls: is_plain && (cause == ErrorCause::NotHttp || cause.is_closed_or_reset()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn a_server_that_closes_speaks_otherwise_or_says_nothing_is_an_error_with_the_reason() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let accept = || listener.accept().unwrap().0;
            let mut request = [0; 1024];
            let mut first = accept();
            let length = first.read(&mut request).unwrap();
            drop(first);
            accept().write_all(b"\x15\x03\x03\0\x02\x02\x0a").unwrap();
            (String::from_utf8_lossy(&request[..length]).into_owned(), accept())
        });
        let asked = |timeout| match ask(address, &Target::get("/"), timeout, &StopHandle::new()).unwrap_err()
        {
            NoAnswer::Other { reason, may_be_tls } => (reason, may_be_tls),
            NoAnswer::Tls(reason) => panic!("{reason}"),
        };
        let (closed, may_be_tls) = asked(Duration::from_secs(5));
        assert!(closed.contains("closed") && may_be_tls, "{closed}");
        let (otherwise, may_be_tls) = asked(Duration::from_secs(5));
        assert!(otherwise.contains("not HTTP") && may_be_tls, "{otherwise}");
        let (silent, may_be_tls) = asked(Duration::from_millis(50));
        assert!(silent.contains("within the timeout (50ms)") && !may_be_tls, "{silent}");
        let (request, _open) = server.join().unwrap();
        assert!(request.starts_with("GET / HTTP/1.1\r\n"), "{request}");
    }

    #[test]
    fn a_stop_ends_the_wait_for_an_answer() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = StopHandle::new();
        let stopping = stop.clone();
        let server = std::thread::spawn(move || {
            let mut silent = listener.accept().unwrap().0;
            assert!(silent.read(&mut [0; 1024]).unwrap() > 0);
            stopping.stop();
            silent
        });
        // Without the stop, the answer would be waited for as long as this.
        let timeout = Duration::from_secs(60);
        let begun = std::time::Instant::now();
        assert!(ask(address, &Target::get("/"), timeout, &stop).is_err());
        assert!(begun.elapsed() < timeout);
        drop(server.join().unwrap());
    }

    #[test]
    fn wildcards_are_reached_by_the_loopback() {
        let v4: SocketAddr = "0.0.0.0:81".parse().unwrap();
        assert_eq!(reachable(v4).to_string(), "127.0.0.1:81");
        let listener = std::net::TcpListener::bind("[::]:0");
        // A machine without IPv6 cannot test this.
        if let Ok(listener) = listener {
            let found = reachable(listener.local_addr().unwrap());
            assert!(found.ip().is_loopback());
        }
        let own: SocketAddr = "10.0.0.1:81".parse().unwrap();
        assert_eq!(reachable(own), own);
    }
}
