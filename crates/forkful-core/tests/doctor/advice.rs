//! What is advised and tried: remedies, their words and commands, and whether a change has helped.

use forkful_core::autoscale::ScaleBounds;
use forkful_core::doctor::{
    App, ByHand, Certainty, OpenTrial, Outcome, Remedy, Setting, Signs, TrialCommands, TrialState, Verdict,
    compare, examine, words,
};

use crate::apps::{app_of, causes, computing, diagnose, refused_app, waiting};

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
    let larger = App { node_args: vec!["--max_semi_space_size=128".to_owned()], ..app_of(&[garbage], 12) };
    assert_eq!(examine(&larger).remedy, None, "young objects have more room than that");
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
    let crowded = Signs { main_cpu: Some(0.25), cpu_cores: Some(0.25), cpu_wait: Some(0.75), ..computing() };
    let full = examine(&App { cores: 2.0, ..app_of(&[crowded; 8], 12) });
    assert_eq!((full.verdict, full.gain), (Verdict::CpuContention, None), "the workers use all cores");
    assert_eq!(diagnose(&[crowded; 8]).gain.map(|gain| gain.high), Some(2.0));
}

#[test]
fn advice_keeps_within_the_bounds_of_an_app_that_follows_its_load() {
    let crowded = Signs { cpu_wait: Some(0.45), main_cpu: Some(0.5), ..computing() };
    let advised = |workers: &[Signs], min: u16, max: u16| {
        let found = examine(&App { bounds: Some(ScaleBounds { min, max }), ..app_of(workers, 12) });
        (found.remedy, words::advice(&found, "my app").remove(0))
    };
    let wider = |bounds: &str, range: &str| {
        format!("Widen the bounds of its number of workers to {bounds}: forkful restart 'my app' -i {range}")
    };
    let scaled = |workers: u16| {
        (Some(Remedy::Workers(workers)), format!("Run {workers} workers: forkful scale 'my app' {workers}"))
    };
    assert_eq!(advised(&[computing(); 2], 1, 8), scaled(4));
    assert_eq!(advised(&[computing(); 2], 1, 3), scaled(3));
    assert_eq!(advised(&[computing(); 2], 1, 2), (None, wider("1 to 4", "1..4")));
    // A smaller number would soon be larger again: the upper bound is what limits it.
    let limited = |bounds: &str, range: &str| {
        (None, format!("Limit its number of workers to {bounds}: forkful restart 'my app' -i {range}"))
    };
    assert_eq!(advised(&[crowded; 8], 1, 8), limited("1 to 4", "1..4"));
    assert_eq!(advised(&[crowded; 8], 6, 8), limited("4", "4..4"));
    assert_eq!(advised(&[crowded; 8], 8, 9), limited("4", "4..4"));
    let refused = App { bounds: Some(ScaleBounds { min: 6, max: 8 }), ..refused_app(6) };
    assert_eq!(
        words::advice(&examine(&refused), "web")[0],
        "Limit its number of workers to 4: forkful restart web -i 4..4"
    );
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
        (TrialState::Changed, "changed a setting at 1970-01-01 00:00:05 UTC and has not finished."),
        (TrialState::Reverting, "is undoing the change made at 1970-01-01 00:00:05 UTC."),
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
        let end = "If it is no longer running, undo the change with a reload that gives web its earlier `node_args` (by `--node-args` or its configuration; \
                   they hold a secret, which is not shown), or keep it with a reload that adds --max-semi-space-size=64 to the \
                   `node_args` of web (by `--node-args` or its configuration; they hold a secret, which is not shown)";
        assert!(told.ends_with(end), "{told}");
        // The daemon reads a text, and tells commands from words.
        let text = serde_json::to_string(&trial).unwrap();
        assert_eq!(serde_json::from_str::<OpenTrial>(&text).unwrap(), trial);
    }
}
