//! When a run ends: pauses of the plan are no reason, a stop at once is one.

use std::time::{Duration, Instant};

use crate::http2_misbehaviour::{greet, request};
use crate::support::{Server, ok};
use forkful_load::{
    Arrivals, HttpVersion, Load, Phase, Plan, Progress, Stop, StopHandle, Think, Threads, run,
};

/// Longer than the time for which a target may be silent.
const PAUSE: Duration = Duration::from_secs(2);
/// Far longer than any of these runs takes on a busy machine.
const HANG: Duration = Duration::from_secs(60);

fn plan(server: &Server, stop: Stop) -> Plan {
    let mut plan = Plan::get(&server.url("/")).unwrap();
    (plan.connections, plan.threads, plan.stop) = (2, Threads::Count(1), stop);
    plan
}

#[test]
fn a_number_of_requests_is_made_also_with_pauses_that_are_longer_than_the_timeout() {
    let pauses: [fn(&mut Plan); 4] = [
        |plan| plan.warmup = PAUSE,
        |plan| plan.ramp = PAUSE,
        |plan| plan.load = Load::Closed { think: Think::Fixed(PAUSE) },
        |plan| {
            let rate = 1.0 / PAUSE.as_secs_f64();
            plan.load = Load::Open { rate, connections_max: 2, arrivals: Arrivals::Even };
        },
    ];
    std::thread::scope(|scope| {
        for pause in pauses {
            scope.spawn(move || {
                // The answers take a little, so that a warm-up sends few requests.
                let server = Server::answering(|_| {
                    std::thread::sleep(Duration::from_millis(10));
                    Some(ok("hello"))
                });
                let mut plan = plan(&server, Stop::Requests(4));
                plan.timeout = Duration::from_millis(500);
                pause(&mut plan);
                let report = run(&plan, &mut |_| {}, &StopHandle::new()).unwrap();
                let ended = report.counts.completed + report.counts.failed;
                assert_eq!((report.early_end, ended), (None, 4), "{:?}", report.counts);
            });
        }
    });
}

#[test]
fn a_stop_at_once_does_not_wait_for_answers() {
    for http in [HttpVersion::Http11, HttpVersion::Http2] {
        let server = Server::new(move |peer| {
            let asked = match http {
                HttpVersion::Http2 => greet(peer) && request(peer).is_some(),
                _ => peer.request().is_some(),
            };
            if asked {
                peer.hold();
            }
        });
        let mut plan = plan(&server, Stop::Duration(Duration::from_secs(1)));
        (plan.http, plan.timeout, plan.drain) = (http, HANG * 2, HANG * 2);
        let stop = StopHandle::new();
        let mut progress = |progress: &Progress| {
            if progress.phase == Phase::Draining {
                stop.stop_at_once();
            }
        };
        let begun = Instant::now();
        let report = run(&plan, &mut progress, &stop).unwrap();
        assert!(begun.elapsed() < HANG, "{http:?}");
        assert_eq!((report.counts.started, report.counts.unfinished), (2, 2), "{http:?}");
    }
}
