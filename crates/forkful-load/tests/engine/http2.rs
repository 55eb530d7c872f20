//! HTTP/2 against a real Node.js server: the report's counts equal the server's own.

use std::time::Duration;

use crate::node_server::NodeServer;
use forkful_load::{
    Arrivals, BodyCheck, Counts, ErrorCause, HttpVersion, Load, LoadError, Plan, Report, Reuse, Stop,
    StopHandle, Think, Threads, run,
};

fn go(plan: &Plan) -> Report {
    let report = run(plan, &mut |_| {}, &StopHandle::new()).unwrap();
    let Counts { started, completed, failed, late, unfinished, .. } = report.counts;
    assert_eq!(started, completed + failed + late + unfinished, "{:?}", report.counts);
    let answers: u64 = report.statuses.iter().map(|(_, count)| count).sum();
    assert_eq!(answers, completed + late);
    let in_windows: u64 = report.windows.iter().map(|window| window.completed).sum();
    assert_eq!(in_windows, completed + report.counts.carried_in);
    assert_eq!(report.engine, "h2, HTTP/2");
    report
}

/// Six connections of four streams each, on two threads.
fn plan(server: &NodeServer, path: &str, stop: Stop) -> Plan {
    let mut plan = Plan::get(&server.url(path)).unwrap();
    plan.http = HttpVersion::Http2;
    plan.connections = 6;
    plan.pipelining = 4;
    plan.threads = Threads::Count(2);
    plan.timeout = Duration::from_secs(20);
    plan.stop = stop;
    plan
}

#[test]
fn a_number_of_requests_is_exact() {
    let mut server = NodeServer::start(&[]);
    let mut before = 0;
    for requests in [6, 25, 3_001] {
        let report = go(&plan(&server, "/", Stop::Requests(requests)));
        assert_eq!(
            (report.counts.started, report.counts.completed),
            (requests, requests),
            "{:?}",
            report.errors
        );
        let seen = server.seen();
        assert_eq!(seen["requests"], before + requests);
        assert_eq!((report.connections.opened, report.connections.reached), (6, 6));
        assert_eq!((report.connections.streams, report.errors_total()), (4, 0));
        assert_eq!((report.bytes.received_bodies, report.response.len()), (5 * requests, requests));
        assert!(report.bytes.sent > 0 && report.bytes.received > report.bytes.received_bodies);
        before += requests;
    }
    assert_eq!(server.seen()["sessions"], 18, "exactly the connections that were asked for");
}

#[test]
fn a_duration_is_exact_and_what_was_under_way_is_told_apart() {
    let mut server = NodeServer::start(&[]);
    let report = go(&plan(&server, "/slow", Stop::Duration(Duration::from_secs(2))));
    assert_eq!(report.elapsed, Duration::from_secs(2));
    assert_eq!(report.counts.started, server.requests());
    // Almost always all 24 streams; on a busy machine some are between two requests.
    assert!((1..=24).contains(&report.counts.late), "{:?}", report.counts);
    assert_eq!(report.counts.completed + report.counts.late, report.counts.started);
    assert_eq!(report.counts.unfinished + report.counts.failed, 0);
    assert!(report.response.min() >= 19_000_000, "{}", report.response.min());
    let seen = server.seen();
    assert_eq!((&seen["aborted"], &seen["sessions"]), (&0.into(), &6.into()));
}

#[test]
fn warm_up_ramp_and_think_time_lose_nothing() {
    let mut server = NodeServer::start(&[]);
    let mut plan = plan(&server, "/", Stop::Requests(200));
    plan.ramp = Duration::from_millis(100);
    plan.warmup = Duration::from_millis(100);
    let report = go(&plan);
    assert_eq!((report.counts.started, report.counts.completed), (200, 200));
    assert!(report.warmup.started > 0 && report.warmup.failed == 0, "{:?}", report.warmup);
    assert_eq!(server.requests(), 200 + report.warmup.started);
    (plan.ramp, plan.warmup, plan.pipelining) = (Duration::ZERO, Duration::ZERO, 1);
    plan.load = Load::Closed { think: Think::UpTo(Duration::from_millis(5)) };
    plan.stop = Stop::Requests(30);
    assert_eq!((go(&plan).counts.completed, server.requests()), (30, 230 + report.warmup.started));
}

#[test]
fn errors_have_their_names_and_the_server_counts_the_same() {
    let mut server = NodeServer::start(&[]);
    for (path, cause, failed, wrong) in [
        ("/busy", ErrorCause::UnexpectedStatus, 0, 100),
        ("/reset", ErrorCause::StreamReset, 80, 0),
        ("/refuse", ErrorCause::StreamRefused, 80, 0),
        ("/hints-for-ever", ErrorCause::TooManyInterim, 400, 0),
    ] {
        let before = server.requests();
        let report = go(&plan(&server, path, Stop::Requests(400)));
        assert_eq!(server.requests() - before, 400, "{path}");
        assert_eq!((report.counts.completed, report.counts.failed), (400 - failed, failed), "{path}");
        assert_eq!(report.errors_of(cause), failed + wrong, "{path}: {:?}", report.errors);
        assert_eq!(report.errors_total(), failed + wrong, "{path}: {:?}", report.errors);
        assert_eq!(report.connections.opened, 6, "{path}: an error of a stream leaves the connection");
    }
}

#[test]
fn timeouts_end_the_stream_and_not_the_connection() {
    let mut server = NodeServer::start(&[]);
    let mut plan = plan(&server, "/hang", Stop::Requests(200));
    plan.timeout = Duration::from_millis(500);
    plan.threads = Threads::Count(1);
    let report = go(&plan);
    // On a very busy machine other requests may time out too.
    let failed = report.counts.failed;
    assert!(failed >= 20 && report.counts.completed + failed == 200, "{:?}", report.errors);
    assert_eq!(report.errors_of(ErrorCause::TimeoutBeforeAnswer), failed);
    assert_eq!((server.requests(), report.response.len()), (200, 200));
    assert!(report.response.count_between(499_000_000, u64::MAX) >= failed, "each has its time");
    plan.stop = Stop::Requests(24);
    plan.requests[0].url.path = "/half".to_owned();
    let report = go(&plan);
    let before = report.errors_of(ErrorCause::TimeoutBeforeAnswer);
    assert_eq!(report.errors_of(ErrorCause::TimeoutInAnswer) + before, 24, "{:?}", report.errors);
}

#[test]
fn what_never_ends_is_unfinished_and_its_age_is_kept() {
    let mut server = NodeServer::start(&[]);
    let mut plan = plan(&server, "/half", Stop::Duration(Duration::from_secs(2)));
    plan.drain = Duration::from_millis(100);
    let report = go(&plan);
    assert_eq!((report.counts.started, report.counts.unfinished, server.requests()), (24, 24, 24));
    assert_eq!(report.censored.len(), 24);
    assert!(report.censored.min() >= 2_000_000_000);
}

#[test]
fn an_open_loop_sends_what_its_schedule_says() {
    let mut server = NodeServer::start(&[]);
    let mut plan = plan(&server, "/", Stop::Duration(Duration::from_millis(500)));
    plan.load = Load::Open { rate: 400.0, connections_max: 50, arrivals: Arrivals::Even };
    let report = go(&plan);
    assert_eq!((report.offered, report.counts.started + report.unsent), (200, 200));
    assert_eq!((report.counts.started, report.slip.len()), (server.requests(), report.counts.started));
    plan.stop = Stop::Requests(77);
    let before = server.requests();
    let report = go(&plan);
    assert_eq!((report.counts.started, report.unsent, server.requests() - before), (77, 0, 77));
}

#[test]
fn an_open_loop_opens_connections_up_to_its_bound_and_counts_what_it_could_not_send() {
    let mut server = NodeServer::start(&[]);
    let mut plan = plan(&server, "/half", Stop::Duration(Duration::from_millis(400)));
    (plan.connections, plan.pipelining) = (2, 2);
    plan.load = Load::Open { rate: 200.0, connections_max: 10, arrivals: Arrivals::Even };
    // A busy machine may take this long to open the connections.
    plan.drain = Duration::from_secs(3);
    let report = go(&plan);
    assert_eq!((report.offered, report.counts.started, report.unsent), (80, 20, 60));
    assert_eq!((report.connections.reached, &server.seen()["sessions"]), (10, &10.into()));
}

#[test]
fn bodies_counters_workers_and_hints() {
    let mut server = NodeServer::start(&[]);
    let mut plan = plan(&server, "/echo?n={id}", Stop::Requests(120));
    "POST".clone_into(&mut plan.requests[0].method);
    plan.requests[0].body = vec![b'b'; 100_000];
    plan.expect.body = Some(BodyCheck::Equals(plan.requests[0].body.clone()));
    let report = go(&plan);
    assert_eq!((report.counts.completed, report.errors_total()), (120, 0), "{:?}", report.errors);
    assert_eq!((report.bytes.sent_bodies, report.bytes.received_bodies), (12_000_000, 12_000_000));
    let seen = server.seen();
    assert_eq!((&seen["bodies"], &seen["paths"]["/echo?n=119"]), (&12_000_000.into(), &1.into()));
    let mut plan = self::plan(&server, "/hints", Stop::Requests(60));
    plan.worker_header = Some("X-Worker".to_owned());
    let report = go(&plan);
    assert_eq!((report.counts.completed, report.counts.interim), (60, 60), "{:?}", report.errors);
    assert_eq!(report.workers.iter().map(|worker| worker.requests).sum::<u64>(), 60);
    assert_eq!(report.workers.iter().map(|worker| worker.connections).sum::<u64>(), 6);
    let first = report.first_response.unwrap();
    assert_eq!((first.version, first.status, first.body_bytes), ("HTTP/2", 200, 5));
}

#[test]
fn connections_are_used_as_often_as_asked() {
    let mut server = NodeServer::start(&[]);
    for (reuse, streams, expected) in
        [(Reuse::Never, 1, 60), (Reuse::Requests(4), 2, 15), (Reuse::Always, 2, 2)]
    {
        let before = server.seen()["sessions"].as_u64().unwrap();
        let mut plan = plan(&server, "/", Stop::Requests(60));
        (plan.connections, plan.pipelining, plan.threads) = (2, streams, Threads::Count(1));
        plan.reuse = reuse;
        let report = go(&plan);
        assert_eq!((report.counts.completed, report.errors_total()), (60, 0), "{:?}", report.errors);
        let sessions = server.seen()["sessions"].as_u64().unwrap() - before;
        // With a limit per connection, two connections may each end a few requests short.
        let most = if matches!(reuse, Reuse::Requests(_)) { expected + 1 } else { expected };
        assert!((expected..=most).contains(&sessions), "{reuse:?}: {sessions}");
        assert_eq!((report.connections.opened, report.connections.reused), (sessions, 60 - sessions));
        assert_eq!(report.connections.reached, 2, "{reuse:?}");
    }
}

#[test]
fn a_server_that_ends_its_connections_gracefully_loses_no_request() {
    let mut server = NodeServer::start(&[]);
    let report = go(&plan(&server, "/roll", Stop::Requests(600)));
    assert_eq!((report.counts.completed, report.errors_total()), (600, 0), "{:?}", report.errors);
    assert_eq!(server.requests(), 600, "those sent again had not reached the app");
    assert!(report.connections.opened > 6 && report.connections.closed_by_server > 0);
}

#[test]
fn a_server_that_allows_fewer_streams_is_told_in_the_report() {
    let mut server = NodeServer::start(&["--streams", "2"]);
    let plan = plan(&server, "/slow", Stop::Requests(120));
    let report = go(&plan);
    assert_eq!((report.counts.completed, report.connections.streams), (120, 2), "{:?}", report.errors);
    assert_eq!(server.requests(), 120);
    let trust = forkful_load::report::Trust::of(&plan, &report);
    let check = trust.check("streams").unwrap();
    assert_eq!((check.value.as_str(), check.level()), ("2 of 4", forkful_load::report::Level::Warning));
}

#[test]
fn over_tls_the_server_is_checked_and_must_choose_http2() {
    let folder = tempfile::tempdir().unwrap();
    let (mut server, authority) = NodeServer::start_tls(&folder);
    let mut plan = plan(&server, "/big", Stop::Requests(60));
    plan.tls.server_name = Some("localhost".to_owned());
    for insecure in [false, true] {
        plan.tls.insecure = insecure;
        plan.tls.authorities = (!insecure).then(|| authority.clone());
        let report = go(&plan);
        assert_eq!((report.counts.completed, report.errors_total()), (60, 0), "{:?}", report.errors);
        assert_eq!(report.bytes.received_bodies, 60 * 400_000);
        let first = report.first_response.unwrap();
        assert_eq!((first.server.as_deref(), first.version), (Some("test"), "HTTP/2"));
        assert!(first.tls.unwrap().starts_with("TLSv1.3 TLS"));
    }
    assert_eq!(server.requests(), 120);
    (plan.tls.insecure, plan.tls.authorities) = (false, None);
    let error = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap_err();
    assert!(matches!(error, LoadError::Unreachable { cause: ErrorCause::TlsCertificate, .. }), "{error:?}");
    plan.tls.authorities = Some(authority);
    plan.tls.server_name = Some("example.org".to_owned());
    let error = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap_err();
    assert!(matches!(error, LoadError::Unreachable { cause: ErrorCause::TlsCertificate, .. }), "{error:?}");
    assert_eq!(server.requests(), 120);
}
