//! Servers that misbehave: each fault has its cause in the report, nothing hangs, nothing panics.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::{Peer, Server, ok, port_of_nobody};
use forkful_load::report::{Check, Level, Trust};
use forkful_load::{
    BodyCheck, EarlyEnd, ErrorCause, Load, LoadError, Plan, Report, Request, Reuse, Stop, StopHandle, Think,
    Threads, run,
};

/// Far longer than a run of twelve requests takes; a run that exceeds it hangs.
const HANG: Duration = Duration::from_secs(60);

fn plan(server: &Server) -> Plan {
    let mut plan = Plan::get(&server.url("/")).unwrap();
    plan.connections = 3;
    plan.threads = Threads::Count(1);
    plan.timeout = Duration::from_secs(20);
    plan.stop = Stop::Requests(12);
    plan
}

fn go(plan: &Plan) -> Report {
    let begun = Instant::now();
    let report = run(plan, &mut |_| {}, &StopHandle::new()).unwrap();
    assert!(begun.elapsed() < HANG);
    assert_eq!(report.counts.started, 12, "{:?}", report.counts);
    assert_eq!(report.counts.completed + report.counts.failed, 12, "{:?}", report.counts);
    report
}

/// All twelve requests end with one of these causes.
fn all_fail(causes: &[ErrorCause], handle: impl Fn(&mut Peer) + Send + Sync + 'static) {
    let server = Server::new(handle);
    let mut plan = plan(&server);
    if causes.iter().any(|cause| cause.is_timeout()) {
        // All requests at once, so that the timeout passes only once; it is long enough for a busy machine to
        // send half an answer.
        (plan.timeout, plan.connections) = (Duration::from_secs(3), 12);
    }
    let report = go(&plan);
    let named: u64 = causes.iter().map(|cause| report.errors_of(*cause)).sum();
    assert_eq!((report.counts.failed, named), (12, 12), "{causes:?} but {:?}", report.errors);
}

#[test]
fn closes_at_once() {
    let causes = [ErrorCause::ClosedBeforeAnswer, ErrorCause::ResetBeforeAnswer, ErrorCause::SendFailed];
    all_fail(&causes, super::support::Peer::close);
}

#[test]
fn closes_after_the_request() {
    all_fail(&[ErrorCause::ClosedBeforeAnswer], |peer| {
        peer.request();
        peer.close();
    });
}

#[test]
fn resets() {
    all_fail(&[ErrorCause::ResetBeforeAnswer], |peer| {
        peer.request();
        peer.reset();
    });
}

#[test]
fn never_answers() {
    all_fail(&[ErrorCause::TimeoutBeforeAnswer], |peer| {
        peer.request();
        peer.hold();
    });
}

#[test]
fn answers_garbage() {
    all_fail(&[ErrorCause::NotHttp], |peer| {
        peer.request();
        peer.send(b"\x00\xff not http at all\r\n\r\n");
        peer.hold();
    });
}

#[test]
fn half_a_body_and_then_nothing() {
    all_fail(&[ErrorCause::TimeoutInAnswer], |peer| {
        peer.request();
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        peer.hold();
    });
}

#[test]
fn half_a_body_and_then_the_end() {
    all_fail(&[ErrorCause::ClosedInAnswer], |peer| {
        peer.request();
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        peer.close();
    });
}

#[test]
fn a_megabyte_of_headers() {
    all_fail(&[ErrorCause::HeadTooLarge], |peer| {
        peer.request();
        peer.send(format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(1 << 20)).as_bytes());
        peer.hold();
    });
}

#[test]
fn an_impossible_chunk() {
    all_fail(&[ErrorCause::BadChunk], |peer| {
        peer.request();
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n");
        peer.hold();
    });
}

#[test]
fn a_huge_chunk_that_never_ends() {
    all_fail(&[ErrorCause::TimeoutInAnswer], |peer| {
        peer.request();
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n");
        while peer.send(&[0; 1024]) {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}

/// A stream that is always faster than its reader must not keep the others, the timeout and the end waiting.
#[test]
fn small_chunks_that_never_end_and_never_pause() {
    all_fail(&[ErrorCause::TimeoutInAnswer], |peer| {
        peer.request();
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let chunks = b"1\r\na\r\n".repeat(1 << 18);
        while peer.send(&chunks) {}
    });
}

#[test]
fn continues_for_ever() {
    all_fail(&[ErrorCause::TooManyInterim], |peer| {
        peer.request();
        peer.send(&b"HTTP/1.1 100 Continue\r\n\r\n".repeat(100));
        peer.hold();
    });
}

#[test]
fn a_hundred_continue_is_passed_over() {
    let server = Server::answering(|_| Some([b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(), ok("x")].concat()));
    let report = go(&plan(&server));
    assert_eq!((report.counts.completed, report.counts.interim, report.errors_total()), (12, 12, 0));
}

#[test]
fn more_than_was_asked_for() {
    let server = Server::answering(|_| Some(ok("x").repeat(2)));
    let report = go(&plan(&server));
    assert_eq!(report.counts.completed + report.counts.failed, 12);
    assert!(report.errors_of(ErrorCause::UnaskedBytes) > 0, "{:?}", report.errors);
}

#[test]
fn an_announced_end_of_a_connection_is_counted_once_whenever_it_comes() {
    let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx";
    let acts: [fn(&mut Peer); 3] =
        [Peer::close, Peer::hold, |_| std::thread::sleep(Duration::from_millis(5))];
    for act in acts {
        let server = Server::new(move |peer| {
            if peer.request().is_some() && peer.send(answer) {
                act(peer);
            }
        });
        let report = go(&plan(&server));
        assert_eq!((report.counts.completed, report.errors_total()), (12, 0), "{:?}", report.errors);
        assert_eq!(report.connections.closed_by_server, 12);
    }
}

#[test]
fn bytes_that_come_while_a_connection_thinks_do_not_change_its_rate() {
    const THINK: Duration = Duration::from_millis(200);
    // When the last answer was sent, and the shortest time until the next request.
    let answered = Arc::new(Mutex::new((None::<Instant>, Duration::MAX)));
    let seen = Arc::clone(&answered);
    let server = Server::new(move |peer| {
        while peer.request().is_some() {
            let mut seen = seen.lock().unwrap();
            let pause = seen.0.map_or(Duration::MAX, |at| at.elapsed());
            *seen = (Some(Instant::now()), seen.1.min(pause));
            drop(seen);
            if !peer.send(&ok("x")) {
                return;
            }
            if peer.number == 0 {
                std::thread::sleep(THINK / 10);
                peer.send(b"nobody asked");
                return peer.hold();
            }
        }
    });
    let mut plan = plan(&server);
    (plan.connections, plan.load) = (1, Load::Closed { think: Think::Fixed(THINK) });
    go(&plan);
    let shortest = answered.lock().unwrap().1;
    assert!(shortest >= THINK.mul_f64(0.9), "{shortest:?} between an answer and the next request");
}

#[test]
fn ends_every_third_connection() {
    let server = Server::new(|peer| {
        if peer.number % 3 == 2 {
            return peer.reset();
        }
        while peer.request().is_some() && peer.send(&ok("x")) {}
    });
    let mut plan = plan(&server);
    plan.reuse = Reuse::Never;
    let report = go(&plan);
    assert_eq!((report.counts.completed, report.counts.failed), (8, 4), "{:?}", report.errors);
    assert!(
        report.errors.iter().all(|error| error.cause.is_closed_or_reset()
            || matches!(error.cause, ErrorCause::SendFailed | ErrorCause::ConnectReset)),
        "{:?}",
        report.errors
    );
}

#[test]
fn a_body_that_is_not_the_expected_one() {
    let server = Server::answering(|number| Some(ok(if number % 3 == 0 { "bad" } else { "good" })));
    let mut plan = plan(&server);
    for (check, errors) in [
        (BodyCheck::Equals(b"good".to_vec()), 4),
        (BodyCheck::Contains(b"oo".to_vec()), 4),
        (BodyCheck::Contains(b"d".to_vec()), 0),
    ] {
        plan.expect.body = Some(check);
        let report = go(&plan);
        assert_eq!(report.errors_of(ErrorCause::UnexpectedBody), errors);
        assert_eq!((report.counts.completed, report.length_differs > 0), (12, true));
    }
}

/// The listener is closed after three connections, and each of them after four answers.
#[test]
fn a_target_that_goes_away_ends_a_number_of_requests() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let streams: Vec<TcpStream> = (0..3).map(|_| listener.accept().unwrap().0).collect();
        drop(listener);
        for mut stream in streams {
            let mut buffer = [0; 1024];
            for _ in 0..4 {
                assert!(stream.read(&mut buffer).unwrap() > 0);
                stream.write_all(&ok("x")).unwrap();
            }
        }
    });
    let mut plan = Plan::get(&url).unwrap();
    (plan.connections, plan.threads) = (3, Threads::Count(1));
    (plan.timeout, plan.stop) = (Duration::from_secs(10), Stop::Requests(1_000_000));
    let begun = Instant::now();
    let report = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap();
    assert!(begun.elapsed() < HANG);
    server.join().unwrap();
    assert_eq!(report.early_end, Some(EarlyEnd::TargetGone), "{:?}", report.counts);
    assert_eq!(report.counts.completed, 12);
    let trust = Trust::of(&plan, &report);
    assert_eq!(trust.check("silence").map(Check::level), Some(Level::Fault), "{:?}", trust.sentence());
}

#[test]
fn nobody_there() {
    let (_held, port) = port_of_nobody();
    for reuse in [Reuse::Always, Reuse::Never] {
        let mut plan = Plan::get(&format!("http://127.0.0.1:{port}/")).unwrap();
        plan.reuse = reuse;
        let error = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap_err();
        assert!(
            matches!(error, LoadError::Unreachable { cause: ErrorCause::ConnectRefused, .. }),
            "{error:?}"
        );
        assert!(error.to_string().starts_with(&format!("`http://127.0.0.1:{port}` cannot be reached")));
    }
}

#[test]
fn plans_that_make_no_sense_are_refused() {
    type Change = fn(&mut Plan);
    let changes: [(Change, &str); 11] = [
        (|plan| plan.connections = 0, "connections must be at least 1, not 0"),
        (|plan| plan.stop = Stop::Requests(49), "requests to send (49) are fewer than connections (50)"),
        (|plan| plan.stop = Stop::Duration(Duration::ZERO), "duration must be longer"),
        (|plan| plan.threads = Threads::Count(0), "threads must be 1 to 1024, not 0"),
        (|plan| plan.pipelining = 0, "pipelined requests must be 1"),
        (|plan| plan.timeout = Duration::ZERO, "timeout must be longer"),
        (|plan| plan.warmup = Duration::from_secs(1 << 34), "warm-up must be at most a year"),
        (|plan| plan.stop = Stop::Duration(Duration::MAX), "duration must be at most a year"),
        (|plan| plan.requests.clear(), "requests must be 1"),
        (|plan| plan.requests.push(Request::get("http://other/").unwrap()), "go to one server"),
        (|plan| plan.unix_socket = Some("x".repeat(200).into()), "is not a valid socket path"),
    ];
    for (change, expected) in changes {
        let mut plan = Plan::get("http://127.0.0.1:1/").unwrap();
        change(&mut plan);
        let error = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
