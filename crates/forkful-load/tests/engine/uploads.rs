//! Requests with bodies too large for one send, over plain connections and TLS: every byte arrives, and an
//! answer before the body is read counts.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::{Peer, Server, ok};
use crate::transports::{accept, tls_server};
use forkful_load::{ErrorCause, Plan, Report, Stop, StopHandle, Threads, run};

/// Capacity of the receiving end of a connection.
const RECEIVED_MAX: usize = 64 * 1024;

/// Larger than the buffers of both ends of a connection together, for any configuration of the machine.
fn large() -> usize {
    let limits = fs_err::read_to_string("/proc/sys/net/ipv4/tcp_wmem").unwrap();
    let sent_max: usize = limits.split_whitespace().last().unwrap().parse().unwrap();
    sent_max + 8 * RECEIVED_MAX + 1_000_000
}

trait Wire: Read + Write {}
impl<W: Read + Write> Wire for W {}

/// A server with plain or TLS connections; the certificate is only for clients that do not verify it.
fn server(tls: bool, handle: impl Fn(&mut Peer, &mut dyn Wire) + Send + Sync + 'static) -> Server {
    let (config, _) = tls_server();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, RECEIVED_MAX).unwrap();
    Server::on(listener, move |peer| {
        if tls {
            let mut stream = accept(&config, peer);
            handle(peer, &mut stream);
        } else {
            let mut stream = peer.stream.try_clone().unwrap();
            handle(peer, &mut stream);
        }
    })
}

/// Twelve requests with a body of this length on two connections.
fn plan(server: &Server, tls: bool, length: usize) -> Plan {
    let scheme = if tls { "https" } else { "http" };
    let mut plan = Plan::get(&format!("{scheme}://{}/", server.address)).unwrap();
    plan.requests[0].method = "POST".to_owned();
    plan.requests[0].body = body(length);
    plan.connections = 2;
    plan.threads = Threads::Count(1);
    plan.timeout = Duration::from_secs(20);
    plan.stop = Stop::Requests(12);
    plan.tls.insecure = true;
    plan
}

fn go(plan: &Plan) -> Report {
    let report = run(plan, &mut |_| {}, &StopHandle::new()).unwrap();
    let counts = report.counts;
    assert_eq!((counts.started, counts.completed + counts.failed), (12, 12), "{counts:?}");
    report
}

/// Bytes that differ from their neighbours.
fn body(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

/// Reads to the end of a head. `rest` gets the bytes of the body received with it.
fn read_head(stream: &mut dyn Wire, rest: &mut Vec<u8>) -> Option<()> {
    let mut buffer = [0; 4096];
    loop {
        if let Some(end) = rest.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            rest.drain(..end + 4);
            return Some(());
        }
        let length = stream.read(&mut buffer).ok().filter(|length| *length > 0)?;
        rest.extend_from_slice(&buffer[..length]);
    }
}

#[test]
fn every_byte_arrives_however_much_is_sent_at_once() {
    for (tls, length, pipelining) in [
        (false, 200_000, 1),
        (true, 200_000, 1),
        (true, large(), 1),
        (false, 3_000_000, 6),
        (true, 3_000_000, 6),
        (true, 12_000, 6),
    ] {
        let right = Arc::new(AtomicU64::new(0));
        let (counted, expected) = (Arc::clone(&right), body(length));
        let server = server(tls, move |_, stream| {
            let (mut rest, mut came) = (Vec::new(), vec![0; length]);
            while read_head(stream, &mut rest).is_some() {
                let early = rest.len().min(length);
                came[..early].copy_from_slice(&rest[..early]);
                rest.drain(..early);
                if stream.read_exact(&mut came[early..]).is_err() {
                    return;
                }
                counted.fetch_add(u64::from(came == expected), Ordering::SeqCst);
                if stream.write_all(&ok("stored")).is_err() || stream.flush().is_err() {
                    return;
                }
            }
        });
        let mut plan = plan(&server, tls, length);
        plan.pipelining = pipelining;
        let report = go(&plan);
        let what = format!("tls {tls}, {length} bytes, {pipelining} at once: {:?}", report.errors);
        assert_eq!((report.counts.completed, report.errors_total()), (12, 0), "{what}");
        assert_eq!(right.load(Ordering::SeqCst), 12, "{what}");
        assert_eq!((report.bytes.sent_bodies, server.connections()), (12 * length as u64, 2), "{what}");
    }
}

/// The result of twelve large requests whose server reads their heads, sends `answer`, and closes with unread
/// bytes, which causes a reset. `ended`: it shuts down its sending side first.
fn answered_early(tls: bool, answer: &'static [u8], ended: bool) -> Report {
    let server = server(tls, move |peer, stream| {
        if read_head(stream, &mut Vec::new()).is_some() && stream.write_all(answer).is_ok() {
            let _ = stream.flush();
            if ended {
                let _ = peer.stream.shutdown(Shutdown::Write);
            }
            // A part of the body has arrived.
            let _ = peer.stream.peek(&mut [0]);
        }
    });
    go(&plan(&server, tls, large()))
}

#[test]
fn an_answer_before_the_body_is_read_counts_with_its_status() {
    let answers: [(&'static [u8], bool); 2] = [
        (b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 5\r\n\r\nlarge", false),
        // The end of the connection ends this answer.
        (b"HTTP/1.1 413 Too Large\r\n\r\nlarge", true),
    ];
    for (tls, (answer, ended)) in
        [(false, answers[0]), (false, answers[1]), (true, answers[0]), (true, answers[1])]
    {
        let report = answered_early(tls, answer, ended);
        assert_eq!(report.statuses, [(413, 12)], "tls {tls}, ended {ended}: {:?}", report.errors);
        assert_eq!((report.counts.completed, report.counts.failed), (12, 0), "tls {tls}, ended {ended}");
        assert_eq!((report.bytes.received_bodies, report.connections.opened), (60, 12), "tls {tls}");
    }
}

#[test]
fn a_reset_before_the_body_is_read_and_without_a_whole_answer_is_one() {
    let halves: [(&'static [u8], ErrorCause); 3] = [
        (b"", ErrorCause::ResetBeforeAnswer),
        (
            b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 9\r\n\r\nlarge",
            ErrorCause::ResetInAnswer,
        ),
        (b"HTTP/1.1 413 Too Large\r\n\r\nlarge", ErrorCause::ResetInAnswer),
    ];
    for tls in [false, true] {
        for (answer, cause) in halves {
            let report = answered_early(tls, answer, false);
            let named = report.errors_of(cause);
            assert_eq!((report.counts.failed, named), (12, 12), "tls {tls}, {cause:?}: {:?}", report.errors);
        }
    }
}
