//! The doctor over synthetic seconds: a table of apps with a known limit, and the bounds around each rule.

use forkful_core::doctor::{
    App, ByHand, Certainty, Diagnosis, OpenTrial, Outcome, Remedy, Setting, Signs, Split, TrialCommands,
    TrialState, Unclear, Verdict, WorkerSeconds, compare, examine, words,
};
use forkful_core::metrics::Readings;
use forkful_core::outgoing::HostLoad;

const MIB: f64 = 1024.0 * 1024.0;

/// A busy server without any limit: the other seconds differ from it in what they say.
fn usual() -> Signs {
    Signs {
        loop_busy: Some(0.5),
        main_cpu: Some(0.48),
        cpu_wait: Some(0.01),
        gc: Some(0.01),
        gc_minor: Some(0.01),
        delay_max_ms: Some(4.0),
        iterations: Some(2000.0),
        requests: Some(500.0),
        latency_p50_ms: Some(2.0),
        in_flight: Some(1.0),
        outgoing: Some(0.0),
        pool_threads: Some(4.0),
        pool_busy: Some(0.05),
        pool_cpu: Some(0.01),
        pool_wait_ms: Some(0.2),
        cpu_cores: Some(0.5),
        throttled: Some(0.0),
        throttled_periods: Some(0.0),
        memory_bytes: Some(80.0 * MIB),
        memory_limit_bytes: None,
        swap_bytes: Some(0.0),
        heap_used_bytes: Some(20.0 * MIB),
        heap_limit_bytes: Some(2096.0 * MIB),
        accept_queue: Some(0.0),
    }
}

/// A worker whose JavaScript uses its core.
fn computing() -> Signs {
    Signs {
        loop_busy: Some(0.99),
        main_cpu: Some(0.97),
        in_flight: Some(8.0),
        cpu_cores: Some(1.0),
        ..usual()
    }
}

/// A worker whose event loop has time while many requests wait.
fn waiting() -> Signs {
    Signs {
        loop_busy: Some(0.1),
        main_cpu: Some(0.1),
        in_flight: Some(20.0),
        cpu_cores: Some(0.1),
        ..usual()
    }
}

fn idle() -> Signs {
    Signs {
        loop_busy: Some(0.02),
        main_cpu: Some(0.02),
        in_flight: Some(0.1),
        requests: Some(3.0),
        ..usual()
    }
}

/// For each cause, the seconds of workers that have it.
fn causes() -> Vec<(Verdict, Vec<Signs>)> {
    let pool = Signs { pool_busy: Some(1.0), pool_wait_ms: Some(200.0), ..waiting() };
    vec![
        (
            Verdict::MemoryLimit,
            vec![Signs {
                heap_used_bytes: Some(61.0 * MIB),
                heap_limit_bytes: Some(112.0 * MIB),
                gc: Some(0.5),
                ..computing()
            }],
        ),
        (Verdict::Idle, vec![idle()]),
        (
            Verdict::CpuQuota,
            vec![Signs {
                throttled: Some(0.45),
                throttled_periods: Some(0.9),
                cpu_wait: Some(0.5),
                ..computing()
            }],
        ),
        (Verdict::CpuContention, vec![Signs { cpu_wait: Some(0.45), main_cpu: Some(0.5), ..computing() }]),
        (Verdict::GarbageCollection, vec![Signs { gc: Some(0.35), gc_minor: Some(0.3), ..computing() }]),
        (Verdict::SynchronousCall, vec![Signs { main_cpu: Some(0.1), cpu_wait: Some(0.02), ..computing() }]),
        (Verdict::CpuShortCallbacks, vec![computing()]),
        (
            Verdict::CpuLongCallbacks,
            vec![Signs {
                requests: Some(3.0),
                delay_max_ms: Some(330.0),
                iterations: Some(6.0),
                ..computing()
            }],
        ),
        (Verdict::PoolCpu, vec![Signs { pool_threads: Some(1.0), pool_cpu: Some(0.98), ..pool }]),
        (Verdict::PoolWaiting, vec![pool]),
        (Verdict::Upstream, vec![Signs { outgoing: Some(19.0), ..waiting() }]),
        (Verdict::OtherWaiting, vec![waiting()]),
        (Verdict::Imbalance, vec![computing(), idle()]),
    ]
}

/// An app on four cores whose workers have the same second over and over.
fn app_of(workers: &[Signs], seconds: usize) -> App {
    let workers = workers.iter().enumerate();
    let workers =
        workers.map(|(slot, signs)| WorkerSeconds { slot: slot as u16, seconds: vec![*signs; seconds] });
    App {
        name: "web".to_owned(),
        cores: 4.0,
        is_scalable: true,
        workers: workers.collect(),
        node_args: Vec::new(),
        refusing: None,
    }
}

/// An app with pools of 10, of which a database with 40 places refuses some.
fn refused_app(workers: usize) -> App {
    let refusing = HostLoad {
        host: "db:5432".to_owned(),
        connections: 40,
        workers: 5,
        most: 10,
        refused: 17,
        limit: Some(40),
    };
    App { refusing: Some(refusing), ..app_of(&vec![waiting(); workers], 12) }
}

fn diagnose(workers: &[Signs]) -> Diagnosis {
    examine(&app_of(workers, 12))
}

fn verdict(signs: &Signs) -> Verdict {
    diagnose(&[*signs]).verdict
}

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
fn remedies_fit_the_verdict_and_the_machine() {
    let remedy = |workers: &[Signs]| diagnose(workers).remedy;
    assert_eq!(remedy(&[computing()]), Some(Remedy::Workers(4)));
    assert_eq!(remedy(&[computing(); 4]), None, "as many as cores");
    let crowded = Signs { cpu_wait: Some(0.45), main_cpu: Some(0.5), ..computing() };
    assert_eq!(remedy(&[crowded; 8]), Some(Remedy::Workers(4)));
    assert_eq!(remedy(&[crowded; 2]), None, "somebody else uses the cores");
    let pool = Signs { pool_busy: Some(1.0), pool_wait_ms: Some(200.0), ..waiting() };
    assert_eq!(remedy(&[pool]), Some(Remedy::PoolSize(16)));
    assert_eq!(remedy(&[Signs { pool_threads: Some(32.0), ..pool }]), Some(Remedy::PoolSize(64)));
    assert_eq!(remedy(&[Signs { pool_threads: Some(128.0), ..pool }]), None);
    assert_eq!(
        remedy(&[Signs { pool_threads: Some(1.0), pool_cpu: Some(1.0), ..pool }]),
        Some(Remedy::PoolSize(4))
    );
    let garbage = Signs { gc: Some(0.35), gc_minor: Some(0.3), ..computing() };
    assert_eq!(remedy(&[garbage]), Some(Remedy::SemiSpace(64)));
    assert_eq!(
        remedy(&[Signs { gc_minor: Some(0.05), ..garbage }]),
        None,
        "old objects need no room for young ones"
    );
    let mut fork = app_of(&[computing()], 12);
    fork.is_scalable = false;
    assert_eq!(examine(&fork).remedy, None);
}

#[test]
fn a_gain_is_told_within_what_the_machine_can_give() {
    for (cause, workers) in causes() {
        if let Some(gain) = diagnose(&workers).gain {
            assert!(1.0 <= gain.low && gain.low <= gain.high && gain.high < 11.0, "{cause:?}: {gain:?}");
        }
    }
    let gain = diagnose(&[computing(); 2]).gain.unwrap();
    assert!((gain.high - 2.0).abs() < 1e-9, "from two to four workers: {gain:?}");
    assert_eq!(words::gain(gain), "60 to 100 % more requests per second");
    let blocked = Signs { main_cpu: Some(0.47), cpu_wait: Some(0.02), ..computing() };
    assert_eq!(words::gain(diagnose(&[blocked; 4]).gain.unwrap()), "up to 100 % more requests per second");
}

#[test]
fn words_name_the_cause_the_numbers_and_the_next_command() {
    let found = diagnose(&[computing(); 2]);
    assert_eq!(
        words::headline(&found, "web"),
        "web is limited by JavaScript on the CPU, in short callbacks (certain)"
    );
    assert_eq!(words::advice(&found, "web")[0], "Run 4 workers: forkful scale web 4");
    assert_eq!(found.evidence[0].shown(), "99 % (over 90 %)");
    for (cause, workers) in causes() {
        let found = diagnose(&workers);
        assert!(!words::meaning(cause).is_empty());
        assert!(!words::advice(&found, "web").is_empty(), "{cause:?} has advice");
    }
}

#[test]
fn advice_about_nodes_arguments_keeps_those_of_the_app() {
    let advice = |node_args: &[&str]| {
        let node_args = node_args.iter().map(|argument| (*argument).to_owned()).collect();
        let collecting = Signs { gc: Some(0.4), gc_minor: Some(0.35), ..computing() };
        let found = examine(&App { node_args, ..app_of(&[collecting], 12) });
        assert_eq!(found.verdict, Verdict::GarbageCollection);
        (words::advice(&found, "web").remove(0), words::command(&found, "web"))
    };
    let purpose = "Give young objects more room (64 MB), so that fewer of them are copied";
    let command = "forkful reload web --node-args='--require ./tracing.cjs --max-semi-space-size=64'";
    let expected = (format!("{purpose}: {command}"), Some(command.to_owned()));
    assert_eq!(advice(&["--require", "./tracing.cjs", "--max-semi-space-size=16"]), expected);
    assert_eq!(advice(&["--api-token=hunter2"]), (purpose.to_owned(), None), "a secret is not shown");
}

#[test]
fn a_database_that_refuses_connections_is_named_with_its_places() {
    let found = examine(&refused_app(6));
    assert_eq!((found.certainty, found.remedy), (Certainty::Certain, Some(Remedy::Workers(4))));
    assert_eq!(
        words::headline(&found, "web"),
        "web is refused connections by db:5432, which takes 40 of this app (certain)"
    );
    let advice = words::advice(&found, "web");
    assert_eq!(advice[0], "Run 4 workers: forkful scale web 4");
    assert_eq!(
        advice[1],
        "Or give the pool for db:5432 at most 6 connections in each worker (6 workers with pools of 10 want 60)."
    );
    let numbers: Vec<f64> = found.evidence.iter().map(|row| row.value).collect();
    assert_eq!(numbers, [17.0, 40.0, 10.0, 6.0]);
    assert_eq!(found.host.unwrap().host, "db:5432");
    let fits = examine(&refused_app(4));
    assert_eq!((fits.verdict, fits.remedy), (Verdict::ConnectionLimit, None), "others use it, too");
    let fork = examine(&App { is_scalable: false, ..refused_app(6) });
    assert_eq!(fork.remedy, None);
    let unknown = App { refusing: None, ..refused_app(6) };
    assert_eq!(examine(&unknown).verdict, Verdict::OtherWaiting);
}

#[test]
fn signs_are_read_by_names_of_metrics() {
    let mut readings = Readings::default();
    readings.take("event_loop_utilization", 0.9);
    readings.take("gc_pause_ms_per_s", 250.0);
    let signs = Signs::of(&readings);
    assert_eq!((signs.loop_busy, signs.gc, signs.requests), (Some(0.9), Some(0.25), None));
}

/// The same app with other requests per second and latency in each second.
fn with_requests(requests: impl Fn(usize) -> f64, latency: f64) -> App {
    let mut app = app_of(&[computing(); 2], 12);
    for worker in &mut app.workers {
        for (at, second) in worker.seconds.iter_mut().enumerate() {
            second.requests = Some(requests(at));
            second.latency_p50_ms = Some(latency);
        }
    }
    app
}

#[test]
fn a_change_is_kept_only_when_it_surely_helped() {
    let noise = |at: usize| (at % 3) as f64 * 10.0;
    let before = with_requests(|at| 500.0 + noise(at), 8.0);
    let outcome =
        |requests: f64, latency: f64| compare(&before, &with_requests(|at| requests + noise(at), latency));
    assert!(matches!(outcome(900.0, 8.0), Outcome::MoreRequests(factor) if (1.75..1.8).contains(&factor)));
    assert!(!outcome(510.0, 8.0).is_gain(), "less than 3 %");
    assert!(!outcome(300.0, 4.0).is_gain(), "fewer requests are faster, which is no gain");
    assert!(matches!(outcome(500.0, 4.0), Outcome::LessLatency(share) if (share - 0.5).abs() < 1e-9));
    assert!(!outcome(500.0, 7.6).is_gain(), "less than 10 %");
    let wild = with_requests(|at| if at % 2 == 0 { 100.0 } else { 1100.0 }, 8.0);
    assert!(!compare(&before, &wild).is_gain(), "that may be chance");
    assert_eq!(compare(&before, &with_requests(|_| 0.0, 8.0)), Outcome::NotMeasured);
    assert_eq!(compare(&before, &app_of(&[], 12)), Outcome::NotMeasured);
    assert_eq!(words::outcome(outcome(900.0, 8.0)), "it helped: +78 % requests per second");
}

#[test]
fn a_trial_that_nobody_has_decided_about_is_told_with_what_settles_it() {
    let sets = |setting: &Setting| ByHand::Command(setting.command("web"));
    assert_eq!(Setting::Workers(2).command("my app"), "forkful scale 'my app' 2");
    assert_eq!(Setting::PoolSize(16).command("a;b"), "forkful reload 'a;b' --env UV_THREADPOOL_SIZE=16");
    let (keep, undo) = (sets(&Setting::Workers(4)), sets(&Setting::Workers(2)));
    let trial = OpenTrial { id: "a".to_owned(), since_ms: 5_000, state: TrialState::Changed, keep, undo };
    for (state, begin) in [
        (TrialState::Changing, "is trying a change of a setting, ordered at 1970-01-01 00:00:05 UTC:"),
        (TrialState::Changed, "has changed a setting at 1970-01-01 00:00:05 UTC,"),
        (TrialState::Reverting, "is taking back a change of a setting of 1970-01-01 00:00:05 UTC."),
        (TrialState::CutOff, "was cut off by the end of the daemon"),
    ] {
        let told = words::undecided(&OpenTrial { state, ..trial.clone() });
        assert!(told.starts_with(&format!("forkful doctor --fix {begin}")), "{told}");
        let end = "undo the change with `forkful scale web 2`, or keep it with `forkful scale web 4`";
        assert!(told.ends_with(end), "{told}");
        // The daemon reads a text, and tells commands from words.
        let text = serde_json::to_string(&trial).unwrap();
        assert_eq!(serde_json::from_str::<OpenTrial>(&text).unwrap(), trial);
    }
}

#[test]
fn a_trial_of_arguments_that_hold_a_secret_is_told_without_them() {
    let args = |args: &[&str]| args.iter().map(|argument| (*argument).to_owned()).collect::<Vec<_>>();
    let of = |node_args: &[&str]| {
        let new = Remedy::SemiSpace(64).setting(&args(node_args));
        TrialCommands::new("web", &new, &Setting::NodeArgs(args(node_args)))
    };
    let plain = of(&["--inspect"]);
    assert_eq!(plain.keep.as_str(), "forkful reload web --node-args='--inspect --max-semi-space-size=64'");
    assert_eq!(plain.undo.as_str(), "forkful reload web --node-args=--inspect");
    for secret in ["--title=token=hunter2", "--api-key=hunter2", "--url=http://me:hunter2@host/"] {
        let TrialCommands { keep, undo } = of(&["--inspect", secret]);
        let trial = OpenTrial { id: "a".to_owned(), since_ms: 5_000, state: TrialState::Changed, keep, undo };
        let told = words::undecided(&trial);
        assert!(!format!("{trial:?}{told}").contains("hunter2"), "{told}");
        let end = "Then undo the change with a reload that gives web its earlier `node_args` (by `--node-args` or its configuration; \
                   they hold a secret, which is not shown), or keep it with a reload that adds --max-semi-space-size=64 to the \
                   `node_args` of web (by `--node-args` or its configuration; they hold a secret, which is not shown)";
        assert!(told.ends_with(end), "{told}");
        // The daemon reads a text, and tells commands from words.
        let text = serde_json::to_string(&trial).unwrap();
        assert_eq!(serde_json::from_str::<OpenTrial>(&text).unwrap(), trial);
    }
}
