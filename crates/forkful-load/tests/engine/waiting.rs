//! How both engines treat time: an open loop's latencies include waiting for a connection, and a connection
//! that the server closed while idle costs no request. The tests use lower bounds and counts, which hold on a
//! busy machine.

use std::time::Duration;

use crate::http2_misbehaviour::{answer_at_once, greet, request};
use crate::support::{Server, ok};
use forkful_load::{
    Arrivals, ErrorCause, HttpVersion, Load, Plan, Report, Stop, StopHandle, Think, Threads, run,
};

const ENGINES: [HttpVersion; 2] = [HttpVersion::Http11, HttpVersion::Http2];
/// Longer than the engine's limit for an idle connection in use.
const IDLE: Duration = Duration::from_millis(700);
/// Histograms have three significant digits.
const ROUNDING: f64 = 0.998;

/// Runs the test with both engines concurrently.
fn each_engine(test: impl Fn(HttpVersion) + Sync) {
    std::thread::scope(|scope| {
        for http in ENGINES {
            let test = &test;
            scope.spawn(move || test(http));
        }
    });
}

/// A server that answers a request after the time that `act` returns for the connection's number and the
/// request's number on it; `None` closes the connection.
fn server(http: HttpVersion, act: fn(u64, u64) -> Option<Duration>) -> Server {
    Server::new(move |peer| {
        let is_http2 = http == HttpVersion::Http2;
        if is_http2 && !greet(peer) {
            return;
        }
        for number in 0.. {
            let stream = if is_http2 { request(peer) } else { peer.request().map(|_| 0) };
            let Some(stream) = stream else { return };
            let Some(pause) = act(peer.number, number) else { return peer.close() };
            std::thread::sleep(pause);
            let answer = if is_http2 { answer_at_once(stream) } else { ok("hello") };
            if !peer.send(&answer) {
                return;
            }
        }
    })
}

/// On one connection, one request at a time.
fn go(server: &Server, http: HttpVersion, load: Load, requests: u64) -> Report {
    let mut plan = Plan::get(&server.url("/")).unwrap();
    plan.http = http;
    plan.load = load;
    plan.connections = 1;
    plan.threads = Threads::Count(1);
    plan.stop = Stop::Requests(requests);
    let report = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap();
    let counts = report.counts;
    assert_eq!(
        (counts.started, counts.completed + counts.failed),
        (requests, requests),
        "{http:?}: {counts:?}"
    );
    report
}

fn thinking(pause: Duration) -> Load {
    Load::Closed { think: Think::Fixed(pause) }
}

#[test]
fn a_request_that_waits_for_a_connection_has_that_in_its_latency() {
    each_engine(|http| {
        let server = server(http, |_, _| Some(Duration::from_millis(30)));
        let load = Load::Open { rate: 100.0, connections_max: 1, arrivals: Arrivals::Even };
        let report = go(&server, http, load, 20);
        let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
        assert_eq!(
            (report.errors_total(), report.response.len(), report.slip.len()),
            (0, 20, 20),
            "{http:?}"
        );
        // Request i is due at 10·i ms, and starts after the 30·i ms of the requests before it.
        let response = milliseconds(report.response.max());
        assert!(response >= ROUNDING * (20.0 * 30.0 - 19.0 * 10.0), "{http:?}: {response} ms");
        let mean = report.response.mean() / 1e6;
        assert!(
            mean >= ROUNDING * (0..20).map(|i| f64::from(30 + 20 * i) / 20.0).sum::<f64>(),
            "{http:?}: {mean}"
        );
        let late = milliseconds(report.slip.max());
        assert!(late >= ROUNDING * 19.0 * 20.0, "{http:?}: {late} ms");
        // The server's own time is reported separately.
        let service = milliseconds(report.service.min());
        assert!(service >= ROUNDING * 30.0, "{http:?}: {service} ms");
        assert_eq!(report.connections.opened, 1, "{http:?}");
    });
}

#[test]
fn what_was_due_before_the_end_is_sent_while_the_run_drains() {
    each_engine(|http| {
        // One connection with answers after 20 ms, and a request due every 10 ms for half a second.
        let server = server(http, |_, _| Some(Duration::from_millis(20)));
        let mut plan = Plan::get(&server.url("/")).unwrap();
        (plan.http, plan.connections, plan.threads) = (http, 1, Threads::Count(1));
        plan.load = Load::Open { rate: 100.0, connections_max: 1, arrivals: Arrivals::Even };
        plan.stop = Stop::Duration(Duration::from_millis(500));
        plan.drain = Duration::from_secs(20);
        let report = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap();
        let counts = report.counts;
        assert_eq!((report.offered, counts.started, report.unsent), (50, 50, 0), "{http:?}: {counts:?}");
        assert_eq!((counts.completed + counts.late, report.errors_total()), (50, 0), "{http:?}: {counts:?}");
        assert!(counts.late >= 25, "{http:?}: {counts:?}");
    });
}

#[test]
fn a_connection_that_was_closed_while_idle_costs_no_request() {
    each_engine(|http| {
        // Each connection ends when its second request arrives.
        let server = server(http, |_, request| (request == 0).then_some(Duration::ZERO));
        let report = go(&server, http, thinking(IDLE), 3);
        let counts = report.counts;
        assert_eq!((counts.completed, counts.stale_retries), (3, 2), "{http:?}: {:?}", report.errors);
        assert_eq!((report.errors_total(), server.connections()), (0, 3), "{http:?}");
    });
}

#[test]
fn a_connection_that_was_closed_in_use_is_an_error() {
    each_engine(|http| {
        let server = server(http, |_, request| (request == 0).then_some(Duration::ZERO));
        let report = go(&server, http, Load::Closed { think: Think::None }, 3);
        let closed = report.errors_of(ErrorCause::ClosedBeforeAnswer);
        assert_eq!((report.counts.stale_retries, closed), (0, 1), "{http:?}: {:?}", report.errors);
        assert_eq!((report.counts.completed, report.counts.failed), (2, 1), "{http:?}");
    });
}

#[test]
fn a_request_is_sent_once_more_and_then_it_has_failed() {
    each_engine(|http| {
        // Only the first connection answers, and only once.
        let answers = |connection, request| (connection + request == 0).then_some(Duration::ZERO);
        let server = server(http, answers);
        let report = go(&server, http, thinking(IDLE), 2);
        let closed = report.errors_of(ErrorCause::ClosedBeforeAnswer);
        assert_eq!((report.counts.stale_retries, closed), (1, 1), "{http:?}: {:?}", report.errors);
        assert_eq!((report.counts.completed, report.counts.failed), (1, 1), "{http:?}");
    });
}
