//! Which limit an app has, how certain that is, and when nothing is said.

use forkful_core::doctor::{Certainty, Signs, Split, Unclear, Verdict, examine, words};
use forkful_core::metrics::Readings;

use crate::apps::{MIB, app_of, causes, computing, diagnose, idle, refused_app, usual, verdict, waiting};

#[test]
fn each_cause_is_named_and_is_certain_where_it_is_clear() {
    for (cause, workers) in causes() {
        let found = diagnose(&workers);
        assert_eq!(found.verdict, cause, "{found:#?}");
        // What requests wait for was not seen.
        let most = if cause == Verdict::OtherWaiting { Certainty::Likely } else { Certainty::Certain };
        assert_eq!(found.certainty, most, "{cause:?}");
        assert!(!found.evidence.is_empty(), "{cause:?} has numbers behind it");
    }
    let mut named = vec![examine(&refused_app(6)).verdict];
    named.extend(causes().iter().map(|(cause, _)| *cause));
    assert_eq!(named, Verdict::CAUSES, "all causes are in the table");
}

#[test]
fn nothing_is_said_of_a_few_seconds() {
    for (cause, workers) in causes() {
        let found = examine(&app_of(&workers, 9));
        assert_eq!(found.verdict, Verdict::Unclear(Unclear::TooShort), "{cause:?}");
        assert_eq!(found.certainty, Certainty::Inconclusive);
    }
    let nobody = examine(&app_of(&[], 12));
    assert_eq!(nobody.verdict, Verdict::Unclear(Unclear::TooShort));
}

#[test]
fn seconds_that_disagree_make_a_verdict_less_sure_or_none() {
    let with = |others: usize| {
        let mut app = app_of(&[computing()], 20 - others);
        app.workers[0].seconds.extend(vec![
            Signs {
                loop_busy: Some(0.88),
                main_cpu: Some(0.85),
                ..computing()
            };
            others
        ]);
        examine(&app)
    };
    assert_eq!(with(2).certainty, Certainty::Certain);
    let likely = with(7);
    assert_eq!((likely.verdict, likely.certainty), (Verdict::CpuShortCallbacks, Certainty::Likely));
    let mut app = app_of(&[Signs { gc: Some(0.9), ..computing() }], 3);
    app.workers[0].seconds.extend(vec![Signs { gc: Some(0.02), ..computing() }; 15]);
    let mixed = examine(&app);
    assert_eq!((mixed.verdict, mixed.certainty), (Verdict::Unclear(Unclear::Mixed), Certainty::Inconclusive));
}

#[test]
fn an_app_that_hardly_runs_waits_for_a_cpu_only_where_its_requests_do() {
    // 100 requests per second that wait 200 ms for another service, on a machine whose cores others use.
    let service = Signs {
        loop_busy: Some(0.25),
        main_cpu: Some(0.03),
        cpu_wait: Some(0.2),
        requests: Some(100.0),
        latency_p50_ms: Some(200.0),
        ..waiting()
    };
    for (signs, expected) in [
        // 2 ms of 200.
        (service, Verdict::OtherWaiting),
        (Signs { outgoing: Some(19.0), ..service }, Verdict::Upstream),
        (Signs { pool_busy: Some(1.0), pool_wait_ms: Some(200.0), ..service }, Verdict::PoolWaiting),
        // 2 ms of 10.
        (Signs { latency_p50_ms: Some(10.0), ..service }, Verdict::CpuContention),
        // Nothing of it is known, so that it is not said.
        (Signs { latency_p50_ms: None, requests: None, ..service }, Verdict::OtherWaiting),
        // It would run for most of the time, whatever its requests wait for.
        (Signs { loop_busy: Some(0.6), cpu_wait: Some(0.55), ..service }, Verdict::CpuContention),
        // It runs.
        (Signs { main_cpu: Some(0.11), ..service }, Verdict::CpuContention),
    ] {
        assert_eq!(verdict(&signs), expected, "{signs:?}");
    }
    let found = diagnose(&[Signs { latency_p50_ms: Some(10.0), ..service }]);
    assert_eq!(found.certainty, Certainty::Likely);
    let row = found.evidence.iter().find(|row| row.label == "of a request's time").unwrap();
    assert!((row.value - 0.2).abs() < 1e-9, "{row:?}");
}

#[test]
fn an_app_that_only_waits_is_not_called_busy() {
    let with = |loop_busy: f64, in_flight: f64| {
        let found = diagnose(&[Signs {
            loop_busy: Some(loop_busy),
            main_cpu: Some(loop_busy),
            in_flight: Some(in_flight),
            ..waiting()
        }]);
        (found.verdict, found.certainty)
    };
    // Two clients, each waiting for a timer most of the time.
    assert_eq!(with(0.02, 1.9), (Verdict::OtherWaiting, Certainty::Likely));
    assert_eq!(with(0.02, 1.0), (Verdict::OtherWaiting, Certainty::Likely));
    assert_eq!(with(0.02, 0.9).0, Verdict::Idle);
    assert_eq!(with(0.35, 1.9).0, Verdict::Unclear(Unclear::NothingStandsOut));
}

#[test]
fn an_app_that_is_busy_and_has_room_is_no_case() {
    let found = diagnose(&[usual()]);
    assert_eq!(
        (found.verdict, found.certainty),
        (Verdict::Unclear(Unclear::NothingStandsOut), Certainty::Inconclusive)
    );
    assert_eq!((found.remedy, found.gain), (None, None));
}

#[test]
fn without_the_agent_only_what_is_seen_from_outside_decides() {
    let outside = |signs: Signs| Signs {
        loop_busy: None,
        in_flight: None,
        outgoing: None,
        gc: None,
        pool_wait_ms: None,
        delay_max_ms: None,
        ..signs
    };
    assert_eq!(verdict(&outside(usual())), Verdict::Unclear(Unclear::NoAgent));
    let cpu = diagnose(&[outside(computing())]);
    assert_eq!((cpu.verdict, cpu.certainty), (Verdict::CpuShortCallbacks, Certainty::Likely));
    assert_eq!(verdict(&outside(Signs { throttled: Some(0.4), ..computing() })), Verdict::CpuQuota);
    let pool = diagnose(&[outside(Signs { pool_busy: Some(1.0), ..waiting() })]);
    assert_eq!((pool.verdict, pool.certainty), (Verdict::PoolWaiting, Certainty::Likely));
}

#[test]
fn a_turn_that_serves_many_short_requests_is_no_long_callback() {
    let many =
        Signs { in_flight: Some(128.0), requests: Some(1000.0), delay_max_ms: Some(150.0), ..computing() };
    assert_eq!(verdict(&many), Verdict::CpuShortCallbacks);
    let rare_long_one = Signs { in_flight: Some(8.0), delay_max_ms: Some(600.0), ..many };
    assert_eq!(verdict(&rare_long_one), Verdict::CpuLongCallbacks);
    let no_server = Signs { requests: None, in_flight: None, ..computing() };
    assert_eq!(
        verdict(&Signs { delay_max_ms: Some(400.0), iterations: Some(3.0), ..no_server }),
        Verdict::CpuLongCallbacks
    );
    assert_eq!(verdict(&no_server), Verdict::CpuShortCallbacks);
}

#[test]
fn all_cores_busy_with_the_pool_are_computing_although_each_thread_has_half_a_core() {
    let pool = Signs {
        pool_busy: Some(1.0),
        pool_wait_ms: Some(90.0),
        pool_threads: Some(4.0),
        pool_cpu: Some(1.9),
        ..waiting()
    };
    let mut app = app_of(&[pool], 12);
    app.cores = 2.0;
    let found = examine(&app);
    assert_eq!((found.verdict, found.certainty), (Verdict::PoolCpu, Certainty::Certain));
    assert_eq!(found.remedy, None, "there are no more cores");
    assert!(words::advice(&found, "web").iter().any(|line| line.contains("another machine")));
}

#[test]
fn a_worker_alone_with_one_request_is_not_uneven() {
    let long = Signs { requests: Some(3.0), delay_max_ms: Some(330.0), in_flight: Some(1.0), ..computing() };
    assert_eq!(diagnose(&[long, idle()]).verdict, Verdict::CpuLongCallbacks);
    let with_a_queue = Signs { accept_queue: Some(5.0), ..long };
    assert_eq!(diagnose(&[with_a_queue, idle()]).verdict, Verdict::Imbalance);
    let quota = Signs { throttled: Some(0.4), ..computing() };
    assert_eq!(diagnose(&[quota, idle()]).verdict, Verdict::CpuQuota, "a quota is everybody's");
}

#[test]
fn a_heap_that_is_nearly_full_counts_without_load_and_swap_does_not() {
    let full = Signs { heap_used_bytes: Some(120.0 * MIB), heap_limit_bytes: Some(176.0 * MIB), ..idle() };
    assert_eq!(verdict(&full), Verdict::MemoryLimit);
    let swapped = Signs { swap_bytes: Some(80.0 * MIB), ..idle() };
    assert_eq!(verdict(&swapped), Verdict::Idle);
    assert_eq!(verdict(&Signs { swap_bytes: swapped.swap_bytes, ..usual() }), Verdict::MemoryLimit);
}

#[test]
fn requests_that_are_answered_in_one_piece_count_by_the_turns_of_the_event_loop() {
    // As measured: 574 requests per second in 80 turns, and none is in flight when the agent reports.
    let sticky = Signs { in_flight: Some(0.0), requests: Some(574.0), iterations: Some(80.0), ..computing() };
    let found = diagnose(&[idle(), sticky]);
    assert_eq!((found.verdict, found.certainty), (Verdict::Imbalance, Certainty::Certain));
    let many = Signs { requests: Some(500.0), iterations: Some(5.0), delay_max_ms: Some(250.0), ..sticky };
    assert_eq!(verdict(&many), Verdict::CpuShortCallbacks);
}

#[test]
fn workers_that_differ_without_a_majority_are_told_apart_one_by_one() {
    let pool = Signs { pool_busy: Some(1.0), pool_wait_ms: Some(200.0), ..waiting() };
    let found = diagnose(&[computing(), pool]);
    assert_eq!(found.verdict, Verdict::Unclear(Unclear::Mixed));
    let each: Vec<Verdict> = found.workers.iter().map(|worker| worker.verdict).collect();
    assert_eq!(each, [Verdict::CpuShortCallbacks, Verdict::PoolWaiting]);
}

#[test]
fn a_second_is_split_into_parts_that_make_it_whole() {
    for (cause, workers) in causes() {
        for signs in workers {
            let split = Split::of(&signs).unwrap();
            let sum: f64 = split.parts().iter().map(|(_, share)| share).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{cause:?}: {split:?}");
            assert!(split.parts().iter().all(|(_, share)| *share >= 0.0), "{cause:?}: {split:?}");
        }
    }
    let blocked = Split::of(&Signs {
        main_cpu: Some(0.1),
        cpu_wait: Some(0.05),
        gc: Some(0.02),
        loop_busy: Some(0.95),
        ..usual()
    });
    let blocked = blocked.unwrap();
    assert!((blocked.blocked - 0.8).abs() < 1e-9 && (blocked.javascript - 0.08).abs() < 1e-9);
    // Two clocks: more time on a core than busy is no negative part.
    let noisy =
        Split::of(&Signs { loop_busy: Some(0.5), main_cpu: Some(0.6), cpu_wait: Some(0.9), ..usual() })
            .unwrap();
    assert!(noisy.parts().iter().all(|(_, share)| (0.0..=1.0).contains(share)), "{noisy:?}");
    assert_eq!(Split::of(&Signs { loop_busy: None, ..usual() }), None);
}

#[test]
fn signs_are_read_by_names_of_metrics() {
    let mut readings = Readings::default();
    readings.take("event_loop_utilization", 0.9);
    readings.take("gc_pause_ms_per_s", 250.0);
    let signs = Signs::of(&readings);
    assert_eq!((signs.loop_busy, signs.gc, signs.requests), (Some(0.9), Some(0.25), None));
}

#[test]
fn an_event_loop_that_answers_no_more_is_named_before_all_that_needs_its_answers() {
    // The agent of such a worker reports nothing; the other one has time, and connections wait.
    let stands = Signs {
        main_cpu: Some(1.0),
        cpu_wait: Some(0.2),
        standing: Some(1.0),
        accept_queue: Some(3.0),
        ..Signs::default()
    };
    for (signs, expected) in [
        (stands, Verdict::CpuLongCallbacks),
        (Signs { main_cpu: Some(0.0), ..stands }, Verdict::SynchronousCall),
        // It stood for a part of the time only, or had no core.
        (Signs { standing: Some(0.0), ..stands }, Verdict::CpuContention),
        (Signs { main_cpu: Some(0.3), cpu_wait: Some(0.7), ..stands }, Verdict::CpuContention),
    ] {
        let found = diagnose(&[signs, Signs { standing: Some(0.0), ..idle() }]);
        assert_eq!(found.workers[0].verdict, expected, "{signs:?}");
    }
    let found = diagnose(&[stands, Signs { standing: Some(0.0), ..idle() }]);
    assert_eq!((found.verdict, found.certainty), (Verdict::CpuLongCallbacks, Certainty::Certain));
    let watched = |blocked_ms| Signs::of_watched(|_| None, blocked_ms).standing;
    assert_eq!([None, Some(999), Some(1000)].map(watched), [Some(0.0), Some(0.0), Some(1.0)]);
    assert!(Signs::metrics().all(|name| name != "standing"), "the daemon is not asked for it");
}
