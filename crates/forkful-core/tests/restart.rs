//! What follows an exit that nobody asked for.

use std::time::Duration;

use forkful_core::Time;
use forkful_core::restart::{
    Counters, DELAY_MIN, Life, UNSTABLE_KEPT_MAX, Verdict, after_exit, delay, has_asked_to_stop,
    stays_finished,
};
use forkful_core::slot::{
    Action, Event, Exit, FailReason, Generation, Policy, ReadySign, Slot, Ticket, Verb,
};
use forkful_core::spec::{AppName, AppSpec, Mode, Readiness, RestartDelay, RestartPolicy, StopPolicy};

/// A chance in the middle: no jitter.
const EVEN: f64 = 0.5;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Feeds exits with code 1, each after the given length of life, and gives what follows each.
fn loops(policy: &RestartPolicy, uptimes: impl IntoIterator<Item = Duration>) -> Vec<Verdict> {
    let mut counters = Counters::default();
    let mut now = Time::default();
    let exits = uptimes.into_iter().map(|uptime| {
        now = now + uptime;
        let life = Life { uptime, botched: false };
        let verdict = after_exit(&mut counters, &Exit::Code(1), life, now, policy, EVEN);
        if let Verdict::Again { delay, .. } = &verdict {
            now = now + *delay;
        }
        verdict
    });
    exits.collect()
}

fn delays(verdicts: &[Verdict]) -> Vec<u128> {
    let delay = |verdict: &Verdict| match verdict {
        Verdict::Again { delay, .. } => Some(delay.as_millis()),
        Verdict::StayStopped | Verdict::GiveUp(_) => None,
    };
    verdicts.iter().filter_map(delay).collect()
}

#[test]
fn the_first_restart_comes_at_once_and_the_pauses_grow_by_half() {
    let verdicts = loops(&RestartPolicy::default(), [secs(2); 16]);
    assert_eq!(
        delays(&verdicts),
        [0, 100, 150, 225, 337, 506, 759, 1139, 1708, 2562, 3844, 5766, 8649, 12974, 15000, 15000]
    );
}

/// What an app asks for, as its slots count it.
fn counted(change: impl FnOnce(&mut AppSpec)) -> Policy {
    let mut spec = AppSpec::new(AppName::new("api").expect("it is a name"));
    change(&mut spec);
    Policy::of(&spec)
}

#[test]
fn a_crash_loop_of_long_lives_ends_too() {
    assert_eq!(counted(|_| {}).restart.window, secs(600), "short lives are counted in ten minutes");
    let patient = counted(|spec| spec.restart.min_uptime = secs(300));
    let verdicts = loops(&patient.restart, [secs(299); 16]);
    assert!(matches!(verdicts[14], Verdict::Again { .. }));
    assert!(
        matches!(verdicts[15], Verdict::GiveUp(FailReason::CrashLoop { count: 16, .. })),
        "{:?}",
        verdicts[15]
    );
    let slow = counted(|spec| spec.restart.delay = RestartDelay::Fixed(secs(120)));
    assert!(matches!(loops(&slow.restart, [ms(500); 16])[15], Verdict::GiveUp(_)));
    let never_ready = counted(|spec| spec.readiness.listen_timeout = Some(secs(60)));
    assert!(never_ready.restart.window > secs(16 * 60));
    let endless = counted(|spec| spec.restart.max_restarts = u32::MAX);
    assert!(endless.restart.window > secs(600), "a bound that is never reached does not overflow");
}

#[test]
fn a_long_minimal_uptime_does_not_delay_the_readiness_of_a_program_that_reports_nothing() {
    let quiet = |min_uptime| {
        counted(|spec| (spec.mode, spec.agent, spec.restart.min_uptime) = (Mode::Fork, false, min_uptime))
            .quiet_start()
    };
    assert_eq!(quiet(ms(100)), ms(100));
    assert_eq!(quiet(secs(1)), secs(1));
    assert_eq!(quiet(secs(300)), secs(3));
}

#[test]
fn a_stable_life_starts_the_row_anew() {
    let verdicts = loops(&RestartPolicy::default(), [secs(2), secs(2), ms(29_999), secs(30), secs(2)]);
    assert_eq!(delays(&verdicts), [0, 100, 0, 0, 100], "29 s forgive five restarts of a row, 30 s all");
}

#[test]
fn a_fixed_delay_holds_for_every_restart() {
    let policy = RestartPolicy { delay: RestartDelay::Fixed(ms(700)), ..RestartPolicy::default() };
    assert_eq!(delays(&loops(&policy, [secs(2); 3])), [700, 700, 700]);
}

#[test]
fn no_configuration_makes_a_loop_without_pauses() {
    let zero = Duration::ZERO;
    for policy in [
        RestartDelay::Fixed(zero),
        RestartDelay::Exponential { initial: zero, max: secs(15) },
        RestartDelay::Exponential { initial: ms(100), max: zero },
    ] {
        assert_eq!(delay(policy, 0, EVEN), zero, "{policy:?}");
        for earlier in [1, 2, 1000, u32::MAX] {
            for chance in [0.0, 1.0] {
                assert!(delay(policy, earlier, chance) >= DELAY_MIN, "{policy:?} after {earlier}");
            }
        }
    }
}

#[test]
fn jitter_is_a_fifth_either_way_and_never_beyond_the_bound() {
    let policy = RestartDelay::Exponential { initial: ms(1000), max: ms(1100) };
    assert_eq!(delay(policy, 1, 0.0), ms(800));
    assert_eq!(delay(policy, 1, 0.5), ms(1000));
    assert_eq!(delay(policy, 1, 1.0), ms(1100));
}

#[test]
fn unstable_exits_within_the_window_trip_the_breaker() {
    let policy = RestartPolicy { max_restarts: 5, ..RestartPolicy::default() };
    let verdicts = loops(&policy, [ms(10); 5]);
    assert_eq!(delays(&verdicts).len(), 4);
    let reason = FailReason::CrashLoop { count: 5, window: secs(600) };
    assert_eq!(verdicts[4], Verdict::GiveUp(reason));
}

#[test]
fn unstable_exits_outside_the_window_are_forgotten() {
    let policy = RestartPolicy { max_restarts: 3, window: secs(10), ..RestartPolicy::default() };
    let uptimes = [ms(10), ms(10), secs(12), ms(10), ms(10)];
    assert_eq!(delays(&loops(&policy, uptimes)).len(), 5);
}

#[test]
fn stable_exits_never_trip_it() {
    let policy = RestartPolicy { max_restarts: 0, ..RestartPolicy::default() };
    assert_eq!(delays(&loops(&policy, [secs(2); 100])).len(), 100);
    assert!(matches!(loops(&policy, [ms(999)])[0], Verdict::GiveUp(_)));
}

#[test]
fn what_a_slot_remembers_is_bounded() {
    let policy = RestartPolicy { max_restarts: u32::MAX, window: Duration::MAX, ..RestartPolicy::default() };
    let mut counters = Counters::default();
    for step in 0..UNSTABLE_KEPT_MAX as u64 + 10 {
        let life = Life { uptime: Duration::ZERO, botched: false };
        let now = Time::from_start(ms(step));
        let verdict = after_exit(&mut counters, &Exit::Signal(11), life, now, &policy, EVEN);
        assert!(matches!(verdict, Verdict::Again { .. }));
    }
    assert_eq!(counters.unstable.len(), UNSTABLE_KEPT_MAX);
}

#[test]
fn the_policy_says_which_exits_are_final() {
    let stop_codes = RestartPolicy { stop_exit_codes: vec![0, 7], ..RestartPolicy::default() };
    let never = RestartPolicy { autorestart: false, ..RestartPolicy::default() };
    let default = RestartPolicy::default();
    let cases = [
        (&stop_codes, Exit::Code(0), false, true),
        (&stop_codes, Exit::Code(7), false, true),
        (&stop_codes, Exit::Code(1), false, false),
        (&stop_codes, Exit::Signal(7), false, false),
        (&stop_codes, Exit::Code(0), true, false),
        (&never, Exit::Code(1), false, true),
        (&never, Exit::SpawnFailed("no such file".into()), true, true),
        (&default, Exit::Code(0), false, false),
        (&default, Exit::SpawnFailed("no such file".into()), true, false),
    ];
    for (policy, exit, botched, is_final) in cases {
        let life = Life { uptime: secs(5), botched };
        let verdict = after_exit(&mut Counters::default(), &exit, life, Time::default(), policy, EVEN);
        assert_eq!(verdict == Verdict::StayStopped, is_final, "{exit}, botched: {botched}");
    }
}

/// A slot whose worker is online at 0 s, with its clock.
struct Bench {
    slot: Slot,
    policy: Policy,
}

impl Bench {
    fn online() -> Self {
        let policy = Policy {
            restart: RestartPolicy::default(),
            readiness: Readiness::default(),
            stop: StopPolicy::default(),
            mode: Mode::Cluster,
            greets: true,
            compiles: false,
        };
        let mut bench = Self { slot: Slot::default(), policy };
        bench.feed(0, Event::Command(Verb::Start, Ticket(1)));
        bench.feed(0, Event::Ready(Generation(0), ReadySign::Listening));
        bench
    }

    fn feed(&mut self, at_s: u64, event: Event) -> Vec<Action> {
        self.slot.apply(event, Time::from_start(secs(at_s)), &self.policy, EVEN)
    }
}

#[test]
fn a_reload_ends_a_row_only_if_the_old_worker_was_stable() {
    for (reload_s, in_a_row) in [(29, 1), (30, 0)] {
        let mut bench = Bench::online();
        bench.slot.counters.in_a_row = 1;
        bench.feed(reload_s, Event::Command(Verb::Replace, Ticket(2)));
        bench.feed(reload_s, Event::Ready(Generation(1), ReadySign::Listening));
        assert_eq!(bench.slot.counters.in_a_row, in_a_row, "reloaded after {reload_s} s");
        assert_eq!(bench.slot.counters.restarts, 1);
    }
}

#[test]
fn a_crash_during_a_reload_counts_as_the_restart_that_came_at_once() {
    let mut bench = Bench::online();
    bench.feed(5, Event::Command(Verb::Replace, Ticket(2)));
    bench.feed(5, Event::Exited(Generation(0), Exit::Code(1)));
    assert_eq!((bench.slot.counters.in_a_row, bench.slot.counters.restarts), (1, 1));
    let actions = bench.feed(6, Event::Exited(Generation(1), Exit::Code(1)));
    assert!(actions.iter().all(|action| !matches!(action, Action::Spawn(_))), "{actions:?}");
}

#[test]
fn who_asks_for_a_start_is_not_held_back_by_earlier_crashes() {
    let mut bench = Bench::online();
    bench.feed(2, Event::Exited(Generation(0), Exit::Code(1)));
    bench.feed(2, Event::Exited(Generation(1), Exit::Code(1)));
    let actions = bench.feed(2, Event::Command(Verb::Start, Ticket(2)));
    assert!(actions.contains(&Action::Spawn(Generation(2))), "{actions:?}");
    let counters = &bench.slot.counters;
    assert_eq!((counters.in_a_row, counters.unstable.len(), counters.restarts), (0, 0, 2));
}

#[test]
fn a_restart_counts_and_a_stop_with_a_later_start_does_not() {
    let mut bench = Bench::online();
    bench.feed(1, Event::Command(Verb::Restart, Ticket(2)));
    bench.feed(1, Event::Exited(Generation(0), Exit::Code(0)));
    assert_eq!(bench.slot.counters.restarts, 1);
    bench.feed(2, Event::Command(Verb::Stop, Ticket(3)));
    bench.feed(2, Event::Exited(Generation(1), Exit::Code(0)));
    bench.feed(3, Event::Command(Verb::Start, Ticket(4)));
    assert_eq!(bench.slot.counters.restarts, 1);
    bench.feed(3, Event::Reset);
    assert_eq!(bench.slot.counters.restarts, 0);
}

#[test]
fn lives_of_some_seconds_shorten_the_row_and_short_ones_do_not() {
    let policy = RestartPolicy { max_restarts: u32::MAX, ..RestartPolicy::default() };
    let pauses = |seconds| delays(&loops(&policy, [secs(seconds); 20]));
    assert!(pauses(10).iter().all(|pause| *pause == 0), "ten seconds forgive two restarts");
    let eight = pauses(8);
    assert!(eight.iter().all(|pause| *pause <= 100), "{eight:?}");
    let two = pauses(2);
    assert!(two.is_sorted() && two.last() > Some(&10_000), "{two:?}");
}

#[test]
fn work_that_is_done_stays_done_unless_autorestart_was_given() {
    let policy = RestartPolicy::default();
    assert!(stays_finished(Some(&Exit::Code(0)), &policy));
    assert!(!stays_finished(Some(&Exit::Code(1)), &policy));
    assert!(!stays_finished(Some(&Exit::Signal(15)), &policy));
    assert!(!stays_finished(None, &policy), "it has never run");
    let once = RestartPolicy { autorestart: false, ..RestartPolicy::default() };
    assert!(stays_finished(Some(&Exit::Code(0)), &once), "a later daemon does not run a migration again");
    assert!(!stays_finished(Some(&Exit::Code(1)), &once));
    let given = RestartPolicy { restart_finished: true, ..RestartPolicy::default() };
    assert!(!stays_finished(Some(&Exit::Code(0)), &given));
    let policy = RestartPolicy { stop_exit_codes: [3].into(), ..RestartPolicy::default() };
    assert!(
        has_asked_to_stop(Some(&Exit::Code(3)), &policy) && !stays_finished(Some(&Exit::Code(3)), &policy)
    );
    assert!(!has_asked_to_stop(Some(&Exit::Code(0)), &policy) && !has_asked_to_stop(None, &policy));
}
