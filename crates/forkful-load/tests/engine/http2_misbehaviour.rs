//! HTTP/2 servers that misbehave, down to single frames: each fault has its cause in the report, and nothing
//! hangs.

use std::io::Read;
use std::time::{Duration, Instant};

use crate::support::{Peer, Server, ok, port_of_nobody};
use forkful_load::{
    Arrivals, ErrorCause, HttpVersion, Load, LoadError, Plan, Report, Stop, StopHandle, Think, Threads, run,
};

/// For servers that send nothing or half an answer: all twelve requests wait at the same time. For other
/// servers, a timeout would only mean a busy machine.
const SHORT: Duration = Duration::from_secs(3);
/// Far longer than a run of twelve requests takes; a run that exceeds it hangs.
const HANG: Duration = Duration::from_secs(60);
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:status: 200` in HPACK.
const STATUS_200: u8 = 0x88;

fn plan(server: &Server) -> Plan {
    let mut plan = Plan::get(&server.url("/")).unwrap();
    plan.http = HttpVersion::Http2;
    plan.connections = 3;
    plan.threads = Threads::Count(1);
    plan.timeout = Duration::from_secs(20);
    plan.stop = Stop::Requests(12);
    plan
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// An answer without a body.
pub(crate) fn answer_at_once(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &[STATUS_200])
}

/// Reads the client's preface and sends the server's settings.
pub(crate) fn greet(peer: &mut Peer) -> bool {
    let mut preface = [0; 24];
    peer.stream.read_exact(&mut preface).is_ok() && peer.send(&frame(SETTINGS, 0, 0, &[]))
}

/// The stream of the next request; `None`: the client is gone.
pub(crate) fn request(peer: &mut Peer) -> Option<u32> {
    loop {
        let mut head = [0; 9];
        peer.stream.read_exact(&mut head).ok()?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        peer.stream.read_exact(&mut payload).ok()?;
        match head[3] {
            HEADERS => return Some(u32::from_be_bytes([head[5], head[6], head[7], head[8]])),
            SETTINGS if head[4] == 0 => assert!(peer.send(&frame(SETTINGS, 1, 0, &[]))),
            _ => {}
        }
    }
}

fn go(server: &Server, timeout: Option<Duration>) -> Report {
    let begun = Instant::now();
    let mut plan = plan(server);
    if let Some(timeout) = timeout {
        (plan.timeout, plan.connections) = (timeout, 12);
    }
    let report = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap();
    assert!(begun.elapsed() < HANG);
    assert_eq!(report.counts.started, 12, "{:?}", report.counts);
    assert_eq!(report.counts.completed + report.counts.failed, 12, "{:?}", report.counts);
    report
}

/// All twelve requests end with one of these causes; `answer` runs when the first bytes of a request arrive.
fn all_fail(causes: &[ErrorCause], answer: impl Fn(&mut Peer, u32) + Send + Sync + 'static) -> Report {
    let server = Server::new(move |peer| {
        if greet(peer) {
            while let Some(stream) = request(peer) {
                answer(peer, stream);
            }
        }
    });
    let report = go(&server, causes.iter().any(|cause| cause.is_timeout()).then_some(SHORT));
    let named: u64 = causes.iter().map(|cause| report.errors_of(*cause)).sum();
    assert_eq!((report.counts.failed, named), (12, 12), "{causes:?} but {:?}", report.errors);
    report
}

/// No connection can be made.
fn unreachable(cause: ErrorCause, handle: impl Fn(&mut Peer) + Send + Sync + 'static) -> String {
    let server = Server::new(handle);
    let begun = Instant::now();
    let mut plan = plan(&server);
    if cause.is_timeout() {
        plan.timeout = SHORT;
    }
    let error = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap_err();
    assert!(begun.elapsed() < HANG);
    assert!(matches!(error, LoadError::Unreachable { cause: found, .. } if found == cause), "{error:?}");
    error.to_string()
}

#[test]
fn a_server_of_http_1_is_named() {
    let error = unreachable(ErrorCause::NoHttp2, |peer| {
        let mut bytes = [0; 1024];
        let _ = peer.stream.read(&mut bytes);
        peer.send(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        peer.close();
    });
    assert!(error.ends_with("the server does not speak HTTP/2 (it answers with HTTP/1)"), "{error}");
}

#[test]
fn what_is_no_server_of_http_2_is_named() {
    unreachable(ErrorCause::NoHttp2, |peer| {
        let mut bytes = [0; 1024];
        let _ = peer.stream.read(&mut bytes);
        peer.close();
    });
    unreachable(ErrorCause::NoHttp2, |peer| {
        peer.send(&[b'?'; 100]);
        peer.hold();
    });
    unreachable(ErrorCause::ConnectTimeout, Peer::hold);
    unreachable(ErrorCause::ConnectReset, |peer| {
        let mut bytes = [0; 10];
        let _ = peer.stream.read_exact(&mut bytes);
        peer.reset();
    });
}

#[test]
fn nobody_there() {
    let (_held, port) = port_of_nobody();
    let mut plan = Plan::get(&format!("http://127.0.0.1:{port}/")).unwrap();
    plan.http = HttpVersion::Http2;
    let error = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap_err();
    assert!(matches!(error, LoadError::Unreachable { cause: ErrorCause::ConnectRefused, .. }), "{error:?}");
}

#[test]
fn a_tls_server_without_http_2_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (server, authority) = crate::transports::https(&folder);
    let mut plan = plan(&server);
    plan.requests = Plan::get(&format!("https://127.0.0.1:{}/", server.address.port())).unwrap().requests;
    plan.tls.server_name = Some("localhost".to_owned());
    plan.tls.authorities = Some(authority);
    let error = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap_err();
    assert!(matches!(error, LoadError::Unreachable { cause: ErrorCause::NoHttp2, .. }), "{error:?}");
}

#[test]
fn never_answers() {
    all_fail(&[ErrorCause::TimeoutBeforeAnswer], |_, _| {});
}

#[test]
fn answers_half() {
    all_fail(&[ErrorCause::TimeoutInAnswer], |peer, stream| {
        peer.send(&frame(HEADERS, END_HEADERS, stream, &[STATUS_200]));
        peer.send(&frame(DATA, 0, stream, b"half"));
    });
}

#[test]
fn closes_before_and_within_an_answer() {
    all_fail(&[ErrorCause::ClosedBeforeAnswer], |peer, _| peer.close());
    all_fail(&[ErrorCause::ClosedInAnswer], |peer, stream| {
        peer.send(&frame(HEADERS, END_HEADERS, stream, &[STATUS_200]));
        peer.send(&frame(DATA, 0, stream, b"half"));
        peer.close();
    });
}

#[test]
fn resets_the_connection() {
    all_fail(&[ErrorCause::ResetBeforeAnswer], |peer, _| {
        peer.reset();
        // The reset is sent when the last descriptor closes.
        peer.leave();
    });
}

#[test]
fn resets_the_stream_within_an_answer() {
    all_fail(&[ErrorCause::StreamReset], |peer, stream| {
        peer.send(&frame(HEADERS, END_HEADERS, stream, &[STATUS_200]));
        peer.send(&frame(RST_STREAM, 0, stream, &2_u32.to_be_bytes()));
    });
}

#[test]
fn says_goodbye_with_an_error() {
    // With the request unprocessed, and processed.
    for last_stream in [0, 0x7fff_ffff_u32] {
        let goodbye = [last_stream.to_be_bytes(), 11_u32.to_be_bytes()].concat();
        let report = all_fail(&[ErrorCause::GoAway], move |peer, _| {
            peer.send(&frame(GOAWAY, 0, 0, &goodbye));
            peer.close();
        });
        let detail = &report.errors[0].examples[0].detail;
        assert!(detail.contains("detected excessive load generating behavior"), "{detail}");
    }
}

#[test]
fn says_goodbye_and_answers_nobody() {
    // Unprocessed requests are retried once, and then fail.
    all_fail(&[ErrorCause::GoAway], |peer, _| {
        peer.send(&frame(GOAWAY, 0, 0, &[0; 8]));
    });
}

#[test]
fn breaks_the_protocol() {
    // A frame for an unknown stream, a frame of a wrong length, and an invalid frame.
    let broken = [frame(DATA, 0, 999, b"x"), frame(SETTINGS, 0, 0, b"xyz"), vec![0xff; 64]];
    for bytes in broken {
        all_fail(&[ErrorCause::Http2Protocol], move |peer, _| {
            peer.send(&bytes);
        });
    }
}

#[test]
fn answers_with_less_than_it_promised() {
    all_fail(&[ErrorCause::Http2Protocol], |peer, stream| {
        // `content-length: 9` without indexing, and one byte.
        let head = [&[STATUS_200, 0x0f, 0x0d, 1][..], b"9"].concat();
        peer.send(&frame(HEADERS, END_HEADERS, stream, &head));
        peer.send(&frame(DATA, END_STREAM, stream, b"x"));
    });
}

#[test]
fn a_megabyte_of_headers() {
    let causes = [ErrorCause::HeadTooLarge, ErrorCause::Http2Protocol];
    all_fail(&causes, |peer, stream| {
        peer.send(&frame(HEADERS, 0, stream, &[STATUS_200]));
        for number in 0..80 {
            // A header of 10,000 bytes, not indexed: `x: yyy…`, with an HPACK length.
            let mut head = vec![0, 1, b'x', 127];
            head.extend([(10_000 - 127) as u8 & 127 | 128, ((10_000 - 127) >> 7) as u8]);
            head.extend([b'y'; 10_000]);
            let flags = if number == 79 { END_HEADERS } else { 0 };
            peer.send(&frame(CONTINUATION, flags, stream, &head));
        }
    });
}

/// A server whose first answer on a connection announces that no more requests are allowed, and which
/// optionally allows requests again later.
fn holds_back(again: Option<Duration>) -> Server {
    let allow = |streams: u32| frame(SETTINGS, 0, 0, &[&[0, 3][..], &streams.to_be_bytes()].concat());
    Server::new(move |peer| {
        let mut first = greet(peer);
        while let Some(stream) = request(peer) {
            let held_back = if std::mem::take(&mut first) { allow(0) } else { Vec::new() };
            peer.send(&[held_back.clone(), answer_at_once(stream)].concat());
            if let Some(pause) = again.filter(|_| !held_back.is_empty()) {
                std::thread::sleep(pause);
                peer.send(&allow(100));
            }
        }
    })
}

#[test]
fn a_server_that_allows_no_more_requests_on_a_connection_ends_with_a_name_and_not_never() {
    let open = Load::Open { rate: 1_000.0, connections_max: 3, arrivals: Arrivals::Even };
    for load in [Load::Closed { think: Think::None }, open] {
        let server = holds_back(None);
        let mut plan = plan(&server);
        (plan.load, plan.timeout) = (load, SHORT * 10);
        let report = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap();
        let (completed, failed) = (report.counts.completed, report.counts.failed);
        assert_eq!((report.counts.started, completed + failed), (12, 12), "{load:?}: {:?}", report.counts);
        assert_eq!(report.errors_of(ErrorCause::StreamRefused), failed, "{load:?}: {:?}", report.errors);
        assert_eq!(completed, server.connections(), "{load:?}: one answer for each connection");
        assert!(failed >= 3, "{load:?}: {failed}");
    }
}

#[test]
fn a_server_that_allows_requests_again_gets_those_that_waited() {
    let open = Load::Open { rate: 1_000.0, connections_max: 3, arrivals: Arrivals::Even };
    for load in [Load::Closed { think: Think::None }, open] {
        let server = holds_back(Some(Duration::from_millis(50)));
        let mut plan = plan(&server);
        plan.load = load;
        let report = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap();
        assert_eq!(
            (report.counts.completed, report.errors_total()),
            (12, 0),
            "{load:?}: {:?}",
            report.errors
        );
        assert_eq!(server.connections(), 3, "{load:?}");
    }
}

#[test]
fn an_http_1_run_is_still_one() {
    let server = Server::answering(|_| Some(ok("hello")));
    let mut plan = plan(&server);
    plan.http = HttpVersion::Http11;
    let report = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap();
    assert_eq!((report.counts.completed, report.engine.as_str()), (12, "raw epoll, HTTP/1.1"));
}
