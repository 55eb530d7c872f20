//! The report's counts equal the server's own, exactly, however a run ends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Gate, Server, ok, wait_until};
use forkful_load::{
    Arrivals, Counts, ErrorCause, Load, Order, Phase, Plan, Progress, Report, Request, Reuse, Stop,
    StopHandle, Think, Threads, run,
};

fn go(plan: &Plan) -> Report {
    watched(plan, &mut |_| {}, &StopHandle::new())
}

fn watched(plan: &Plan, look: &mut dyn FnMut(&Progress), stop: &StopHandle) -> Report {
    let report = run(plan, look, stop).unwrap();
    let Counts { started, completed, failed, late, unfinished, .. } = report.counts;
    assert_eq!(started, completed + failed + late + unfinished, "{:?}", report.counts);
    let answers: u64 = report.statuses.iter().map(|(_, count)| count).sum();
    assert_eq!(answers, completed + late);
    let in_windows: u64 = report.windows.iter().map(|window| window.completed).sum();
    assert_eq!(in_windows, completed + report.counts.carried_in);
    assert_eq!(report.threads.iter().map(|thread| thread.completed).sum::<u64>(), completed);
    report
}

fn plan(server: &Server, stop: Stop) -> Plan {
    let mut plan = Plan::get(&server.url("/")).unwrap();
    plan.connections = 6;
    plan.threads = Threads::Count(2);
    plan.timeout = Duration::from_secs(20);
    plan.stop = stop;
    plan
}

fn short() -> Stop {
    Stop::Duration(Duration::from_secs(2))
}

#[test]
fn a_number_of_requests_is_exact() {
    for requests in [6, 7, 100, 5_003] {
        let server = Server::answering(|_| Some(ok("hello")));
        let report = go(&plan(&server, Stop::Requests(requests)));
        assert_eq!((report.counts.started, report.counts.completed), (requests, requests));
        assert_eq!(server.requests(), requests);
        assert_eq!(server.connections(), 6, "exactly the connections that were asked for");
        assert_eq!((report.connections.opened, report.connections.reached), (6, 6));
        assert_eq!(report.bytes.received_bodies, 5 * requests);
        assert_eq!(report.response.len(), requests);
        assert_eq!(report.errors_total(), 0);
    }
}

/// A server that answers the first request of each connection at once, and the others when the gate opens. So
/// every connection has one request under way, independent of the machine's speed.
fn holding() -> (Server, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let opened = Arc::clone(&gate);
    let server = Server::new(move |peer| {
        for number in 0_u64.. {
            if peer.request().is_none() {
                return;
            }
            if number > 0 {
                opened.wait();
            }
            if !peer.send(&ok("hello")) {
                return;
            }
        }
    });
    (server, gate)
}

/// Runs until the time limit, and only then lets the server answer.
fn go_and_release(plan: &Plan, gate: &Gate) -> Report {
    let mut look = |progress: &Progress| {
        if progress.phase == Phase::Draining {
            gate.open();
        }
    };
    watched(plan, &mut look, &StopHandle::new())
}

#[test]
fn a_duration_is_exact_and_what_was_under_way_is_told_apart() {
    let (server, gate) = holding();
    let mut plan = plan(&server, short());
    plan.drain = Duration::from_secs(60);
    let report = go_and_release(&plan, &gate);
    assert_eq!(report.elapsed, Duration::from_secs(2));
    assert_eq!(report.counts.started, server.requests());
    assert_eq!(report.counts.late, 6, "each connection was waiting at the end");
    assert_eq!(report.counts.unfinished + report.counts.failed, 0);
    assert_eq!(report.response.len(), report.counts.completed + report.counts.late);
}

#[test]
fn warm_up_and_ramp_are_not_counted() {
    let server = Server::answering(|_| {
        std::thread::sleep(Duration::from_millis(1));
        Some(ok("hello"))
    });
    let mut plan = plan(&server, Stop::Requests(200));
    plan.ramp = Duration::from_millis(100);
    plan.warmup = Duration::from_millis(100);
    let mut phases = BTreeSet::new();
    let report = run(
        &plan,
        &mut |progress| {
            phases.insert(progress.phase);
        },
        &StopHandle::new(),
    )
    .unwrap();
    assert_eq!((report.counts.started, report.counts.completed), (200, 200));
    assert!(report.warmup.started > 0 && report.warmup.failed == 0, "{:?}", report.warmup);
    assert_eq!(report.warmup.started, report.warmup.completed + report.warmup.late);
    assert_eq!(server.requests(), 200 + report.warmup.started);
    assert!(phases.contains(&Phase::Draining));
}

#[test]
fn requests_without_an_answer_are_counted_as_failed() {
    let server = Server::answering(|number| (number % 5 != 4).then(|| ok("hello")));
    let report = go(&plan(&server, Stop::Requests(500)));
    assert_eq!(server.requests(), 500);
    assert_eq!((report.counts.completed, report.counts.failed), (400, 100));
    let closed =
        report.errors_of(ErrorCause::ClosedBeforeAnswer) + report.errors_of(ErrorCause::ResetBeforeAnswer);
    assert_eq!(closed, 100);
    assert_eq!(report.connections.opened, server.connections());
}

#[test]
fn timeouts_are_counted_and_are_in_the_distribution() {
    let server = Server::new(|peer| {
        while let Some(number) = peer.request() {
            if number % 10 == 9 {
                return peer.hold();
            }
            if !peer.send(&ok("hello")) {
                return;
            }
        }
    });
    let mut plan = plan(&server, Stop::Requests(50));
    plan.timeout = Duration::from_millis(400);
    let report = go(&plan);
    wait_until("all requests arrive", || server.requests() == 50);
    // On a very busy machine other requests may time out too.
    let failed = report.counts.failed;
    assert!(failed >= 5 && report.counts.completed + failed == 50, "{:?}", report.counts);
    assert_eq!(report.errors_of(ErrorCause::TimeoutBeforeAnswer), failed);
    assert_eq!(report.response.len(), 50);
    assert!(report.response.count_between(399_000_000, u64::MAX) >= failed, "each has its time");
}

#[test]
fn what_never_ends_is_unfinished_and_its_age_is_kept() {
    let server = Server::new(|peer| {
        peer.request();
        peer.hold();
    });
    let mut plan = plan(&server, short());
    plan.drain = Duration::from_millis(100);
    let report = go(&plan);
    assert_eq!((report.counts.started, report.counts.unfinished), (6, 6));
    wait_until("all requests arrive", || server.requests() == 6);
    assert_eq!(report.censored.len(), 6);
    assert!(report.censored.min() >= 2_000_000_000);
}

#[test]
fn a_bad_status_is_completed_and_an_error() {
    let server = Server::answering(|number| {
        let status = if number % 4 == 0 { "503 Busy" } else { "200 OK" };
        Some(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").into_bytes())
    });
    let report = go(&plan(&server, Stop::Requests(400)));
    assert_eq!((report.counts.completed, report.counts.failed), (400, 0));
    assert_eq!(report.statuses, [(200, 300), (503, 100)]);
    assert_eq!((report.errors_total(), report.errors_of(ErrorCause::UnexpectedStatus)), (100, 100));
    assert_eq!(report.errors[0].examples[0].detail, "status 503");
}

#[test]
fn a_number_and_a_time_end_at_whichever_comes_first_exactly() {
    let (server, gate) = holding();
    let mut plan = plan(&server, Stop::Requests(1_000_000));
    plan.time_limit = Some(Duration::from_millis(300));
    plan.drain = Duration::from_secs(60);
    let report = go_and_release(&plan, &gate);
    assert_eq!((report.elapsed, report.stopped_early()), (Duration::from_millis(300), false));
    assert_eq!((report.counts.started, report.counts.late), (server.requests(), 6));
    (plan.stop, plan.time_limit) = (Stop::Requests(30), Some(Duration::from_secs(600)));
    let report = go(&plan);
    assert_eq!((report.counts.completed, report.counts.late), (30, 0));
    assert!(report.elapsed < Duration::from_secs(300));
}

#[test]
fn a_display_that_panics_ends_the_run() {
    let server = Server::answering(|_| Some(ok("hello")));
    for at in [Phase::Connecting, Phase::Draining] {
        let plan = plan(&server, Stop::Requests(60));
        let ran = std::panic::catch_unwind(|| {
            let mut show = |progress: &Progress| assert_ne!(progress.phase, at, "shown");
            drop(run(&plan, &mut show, &StopHandle::new()));
        });
        assert!(ran.is_err(), "{at:?}");
    }
}

#[test]
fn connections_are_there_at_the_last_look() {
    let server = Server::answering(|_| Some(ok("hello")));
    let mut looks = Vec::new();
    let mut look = |progress: &Progress| {
        let open = forkful_os::procinfo::connections_at(server.address.port()).unwrap();
        let received: u64 = open.iter().map(|connection| connection.received_bytes).sum();
        looks.push((progress.phase, open.len(), received));
    };
    let report = run(&plan(&server, Stop::Requests(60)), &mut look, &StopHandle::new()).unwrap();
    let (first, last) = (looks[0], looks[looks.len() - 1]);
    assert_eq!((first.0, last.0), (Phase::Connecting, Phase::Draining));
    let all = looks.iter().find(|look| look.2 == report.bytes.sent).unwrap();
    assert_eq!(all.1, 6, "with all that was sent, the connections were still open: {looks:?}");
}

#[test]
fn an_open_loop_sends_what_its_schedule_says() {
    let server = Server::answering(|_| Some(ok("hello")));
    let mut plan = plan(&server, Stop::Duration(Duration::from_millis(500)));
    plan.load = Load::Open { rate: 400.0, connections_max: 50, arrivals: Arrivals::Even };
    let report = go(&plan);
    assert_eq!((report.offered, report.counts.started + report.unsent), (200, 200));
    assert_eq!(report.counts.started, server.requests());
    assert_eq!(report.slip.len(), report.counts.started);
    plan.stop = Stop::Requests(77);
    let before = server.requests();
    let report = go(&plan);
    assert_eq!((report.counts.started, report.unsent, server.requests() - before), (77, 0, 77));
}

#[test]
fn an_open_loop_opens_connections_up_to_its_bound_and_counts_what_it_could_not_send() {
    let server = Server::new(|peer| {
        peer.request();
        peer.hold();
    });
    let mut plan = plan(&server, Stop::Duration(Duration::from_millis(400)));
    plan.load = Load::Open { rate: 200.0, connections_max: 20, arrivals: Arrivals::Even };
    // A busy machine may take this long to open the connections.
    plan.drain = Duration::from_secs(1);
    let report = go(&plan);
    assert_eq!((report.offered, report.counts.started, report.unsent), (80, 20, 60));
    assert_eq!((report.connections.reached, server.connections()), (20, 20));
}

#[test]
fn connections_are_used_as_often_as_asked() {
    for (reuse, expected) in [(Reuse::Never, 60), (Reuse::Requests(4), 15), (Reuse::Always, 2)] {
        let server = Server::answering(|_| Some(ok("hello")));
        let mut plan = plan(&server, Stop::Requests(60));
        plan.connections = 2;
        plan.threads = Threads::Count(1);
        plan.reuse = reuse;
        let report = go(&plan);
        assert_eq!((report.counts.completed, report.errors_total()), (60, 0));
        // With a limit per connection, two connections may each end a few requests short.
        let most = if matches!(reuse, Reuse::Requests(_)) { expected + 1 } else { expected };
        assert!((expected..=most).contains(&server.connections()), "{reuse:?}: {}", server.connections());
        assert_eq!(report.connections.opened, server.connections());
        assert_eq!(report.connections.reused, 60 - server.connections());
    }
}

#[test]
fn pipelines_and_think_time_lose_nothing() {
    let server = Server::answering(|_| Some(ok("hello")));
    let mut pipelined = plan(&server, Stop::Requests(1_001));
    pipelined.pipelining = 16;
    let report = go(&pipelined);
    assert_eq!((report.counts.completed, server.requests(), server.connections()), (1_001, 1_001, 6));
    let mut thinking = plan(&server, Stop::Requests(30));
    thinking.load = Load::Closed { think: Think::UpTo(Duration::from_millis(5)) };
    assert_eq!(go(&thinking).counts.completed, 30);
    assert_eq!(server.requests(), 1_031);
}

#[test]
fn numbers_and_order_are_exact_over_threads() {
    let server = Server::answering(|_| Some(ok("hello")));
    let urls = ["/a/{id}", "/b/{id}", "/c/{id}"];
    let mut plan = plan(&server, Stop::Requests(301));
    plan.requests = urls.iter().map(|path| Request::get(&server.url(path)).unwrap()).collect();
    let report = go(&plan);
    let lines: BTreeSet<String> = server.seen.lines.lock().unwrap().iter().cloned().collect();
    let expected: BTreeSet<String> =
        (0..301).map(|id| format!("GET /{}/{id} HTTP/1.1", ["a", "b", "c"][id % 3])).collect();
    assert_eq!(lines, expected);
    assert_eq!(report.requests.iter().map(|request| request.completed).collect::<Vec<_>>(), [101, 100, 100]);
    assert_eq!(report.requests.iter().map(|request| request.response.len()).sum::<u64>(), 301);

    plan.order = Order::Weighted { seed: 1 };
    plan.stop = Stop::Requests(3_000);
    plan.requests[0].weight = 3;
    plan.requests[1].weight = 0;
    let report = go(&plan);
    assert_eq!(report.requests[1].completed, 0);
    assert!((2_100..2_400).contains(&report.requests[0].completed), "{}", report.requests[0].completed);
}

#[test]
fn workers_are_counted_by_their_header() {
    let server = Server::new(|peer| {
        let worker = peer.number % 3;
        while peer.request().is_some() {
            let answer = format!("HTTP/1.1 200 OK\r\nX-Worker: {worker}\r\nContent-Length: 0\r\n\r\n");
            if !peer.send(answer.as_bytes()) {
                return;
            }
        }
    });
    let mut plan = plan(&server, Stop::Requests(600));
    plan.worker_header = Some("x-worker".to_owned());
    let report = go(&plan);
    assert_eq!(report.workers.iter().map(|worker| worker.name.as_str()).collect::<Vec<_>>(), ["0", "1", "2"]);
    assert_eq!(report.workers.iter().map(|worker| worker.requests).sum::<u64>(), 600);
    assert_eq!(report.workers.iter().map(|worker| worker.connections).sum::<u64>(), 6);
}

#[test]
fn workers_have_connections_also_after_a_warm_up() {
    let answer = b"HTTP/1.1 200 OK\r\nX-Worker: 1\r\nContent-Length: 0\r\n\r\n".to_vec();
    let server = Server::answering(move |_| Some(answer.clone()));
    let mut plan = plan(&server, Stop::Requests(600));
    (plan.connections, plan.threads) = (1, Threads::Count(1));
    (plan.worker_header, plan.warmup) = (Some("x-worker".to_owned()), Duration::from_millis(200));
    let report = go(&plan);
    assert!(report.warmup.completed > 0, "{:?}", report.warmup);
    let [worker] = report.workers.as_slice() else { panic!("{:?}", report.workers) };
    assert_eq!((worker.requests, worker.connections), (600, 1));
}

#[test]
fn each_url_has_its_own_times() {
    let server = Server::answering(|_| {
        std::thread::sleep(Duration::from_millis(5));
        Some(ok("hello"))
    });
    let mut plan = plan(&server, Stop::Requests(60));
    plan.requests = ["/a", "/b"].map(|path| Request::get(&server.url(path)).unwrap()).to_vec();
    let report = go(&plan);
    let all = &report.response;
    for request in &report.requests {
        let times = &request.response;
        assert_eq!(times.len(), 30);
        // Both are within 2 % of what the histogram of all has.
        assert!(times.min() as f64 >= 0.97 * all.min() as f64, "{} of {}", times.min(), all.min());
        assert!(times.max() as f64 <= 1.03 * all.max() as f64, "{} of {}", times.max(), all.max());
        assert!(times.min() >= 4_800_000, "{}", times.min());
    }
    let longest = report.requests.iter().map(|request| request.response.max()).max().unwrap();
    assert!(longest as f64 >= 0.97 * all.max() as f64, "{longest} of {}", all.max());
}

#[test]
fn connections_for_a_number_of_requests_get_no_more_also_in_pipelines() {
    let server = Server::answering(|_| Some(ok("hello")));
    let mut plan = plan(&server, Stop::Requests(100));
    (plan.connections, plan.threads) = (1, Threads::Count(1));
    (plan.pipelining, plan.reuse) = (4, Reuse::Requests(10));
    let report = go(&plan);
    assert_eq!((report.counts.completed, report.errors_total()), (100, 0), "{:?}", report.errors);
    assert_eq!((server.connections(), report.connections.closed_by_server), (10, 0));
}

#[test]
fn a_run_can_be_ended_early() {
    let server = Server::answering(|_| Some(ok("hello")));
    let stop = StopHandle::new();
    let mut calls = 0;
    let mut progress = |progress: &Progress| {
        calls += u32::from(progress.phase == Phase::Measuring);
        if calls >= 2 {
            stop.stop();
        }
    };
    let report = run(&plan(&server, Stop::Duration(Duration::from_secs(600))), &mut progress, &stop).unwrap();
    assert!(report.stopped_early() && report.elapsed < Duration::from_secs(60));
    assert_eq!(report.counts.started, server.requests());
    let mut plan = plan(&server, Stop::Duration(Duration::from_secs(600)));
    plan.requests = vec![Request::get(&server.url("/")).unwrap()];
    plan.expect.statuses = vec![201];
    plan.errors_max = Some(10);
    assert!(go(&plan).stopped_early());
}
