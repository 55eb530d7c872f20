//! The life of one slot on a simulated machine: how fast it is restarted, and when its commands are answered. What must
//! hold of whole apps and daemons is in the crate `forkful-simulate`.

mod machine;

use std::time::Duration;

use forkful_core::slot::{Exit, Fault, GREETING_TIMEOUT, Outcome, Policy, ReadySign, State, Verb};
use forkful_core::spec::{Mode, Readiness, RestartDelay, RestartPolicy, StopPolicy, StopSignal};
use machine::{Machine, Plan};
use proptest::prelude::*;

/// How long a crash loop is simulated: long enough to see how fast the restarts come.
const LOOPING: Duration = Duration::from_secs(60);

fn millis(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_millis)
}

fn policy() -> impl Strategy<Value = Policy> {
    // A good worker is ready after 100 ms, and has time for it.
    let listen_timeout = prop::option::of(millis(101..5_000));
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (flags, restart_policy(), listen_timeout, stop_policy()).prop_map(
        |((cluster, wait_ready, greets, compiles), restart, listen_timeout, stop)| Policy {
            restart,
            readiness: Readiness { wait_ready, listen_timeout },
            stop,
            mode: if cluster { Mode::Cluster } else { Mode::Fork },
            greets,
            compiles,
        },
    )
}

fn stop_policy() -> impl Strategy<Value = StopPolicy> {
    (millis(0..5_000), millis(0..10_000)).prop_map(|(kill_timeout, drain_timeout)| StopPolicy {
        signal: StopSignal(2),
        kill_timeout,
        drain_timeout,
        ..StopPolicy::default()
    })
}

fn restart_policy() -> impl Strategy<Value = RestartPolicy> {
    let delay = prop_oneof![
        millis(0..2_000).prop_map(RestartDelay::Fixed),
        Just(RestartDelay::Fixed(Duration::ZERO)),
        (millis(0..1_000), millis(0..15_000))
            .prop_map(|(initial, max)| RestartDelay::Exponential { initial, max }),
        Just(RestartDelay::default()),
    ];
    let codes = prop::sample::subsequence(vec![0, 3], 0..=2);
    (prop::bool::weighted(0.85), 0u32..20, millis(1_000..600_000), millis(0..5_000), delay, codes).prop_map(
        |(autorestart, max_restarts, window, min_uptime, delay, stop_exit_codes)| RestartPolicy {
            autorestart,
            restart_finished: true,
            max_restarts,
            window,
            min_uptime,
            delay,
            stop_exit_codes,
        },
    )
}

fn exit() -> impl Strategy<Value = Exit> {
    prop_oneof![
        prop::sample::select(vec![0, 1, 3, 137]).prop_map(Exit::Code),
        prop::sample::select(vec![6, 9, 11, 15]).prop_map(Exit::Signal),
    ]
}

fn calm(mode: Mode) -> Policy {
    Policy {
        restart: RestartPolicy::default(),
        readiness: Readiness::default(),
        stop: StopPolicy::default(),
        mode,
        greets: false,
        compiles: false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_crash_loop_is_slowed_and_then_given_up(
        policy in policy(),
        exit in exit(),
        lifetime in 0u64..3_000,
    ) {
        let bad = Plan { dies: Some((lifetime, exit)), ready: None, ..Plan::good() };
        let mut machine = Machine::new(policy.clone(), bad);
        machine.command(Verb::Start);
        machine.pass(LOOPING);
        let starts = machine.slot.counters.next_generation;
        // Each life and each pause costs time, whatever the policy is; only the first restart may not.
        let pace = Duration::from_millis(lifetime.min(100)) + forkful_core::restart::DELAY_MIN;
        prop_assert!(f64::from(starts) <= LOOPING.as_secs_f64() / pace.as_secs_f64() + 3.0);
        if Duration::from_millis(lifetime) < policy.restart.min_uptime
            && policy.restart.max_restarts <= 1
            && policy.restart.autorestart
        {
            let resting = matches!(machine.slot.state, State::Failed { .. } | State::Stopped { .. });
            prop_assert!(resting, "{:?}", machine.slot.state);
        }
    }
}

#[test]
fn a_stubborn_worker_is_killed_and_the_stop_is_answered_after_that() {
    let stubborn = Plan { obeys: None, ..Plan::good() };
    let mut machine = Machine::new(calm(Mode::Cluster), stubborn);
    machine.command(Verb::Start);
    machine.pass(Duration::from_secs(1));
    let stop = machine.command(Verb::Stop);
    machine.pass(Duration::from_secs(5));
    assert_eq!(machine.answer(stop), None);
    machine.pass(Duration::from_millis(1));
    assert_eq!(machine.answer(stop), Some(&Outcome::Stopped));
}

/// An app in fork mode that announces nothing, and says hello only after so long.
fn quiet(hello: Option<u64>, dies: Option<(u64, Exit)>) -> Machine {
    let policy = Policy { greets: true, ..calm(Mode::Fork) };
    Machine::new(policy, Plan { ready: None, hello, dies, ..Plan::good() })
}

#[test]
fn an_app_that_fails_at_once_is_told_failed_however_late_it_begins() {
    let mut machine = quiet(Some(2_500), Some((2_600, Exit::Code(1))));
    let start = machine.command(Verb::Start);
    machine.pass(Duration::from_millis(2_599));
    assert_eq!(machine.answer(start), None);
    machine.pass(Duration::from_millis(1));
    assert_eq!(machine.answer(start), Some(&Outcome::Failed(Fault::Exited(Exit::Code(1)))));
}

#[test]
fn an_app_that_stays_alive_is_online_its_time_after_its_hello() {
    let mut machine = quiet(Some(2_500), None);
    let start = machine.command(Verb::Start);
    machine.pass(Duration::from_millis(3_499));
    assert_eq!(machine.answer(start), None);
    machine.pass(Duration::from_millis(1));
    assert_eq!(machine.answer(start), Some(&Outcome::Online { confirmed: true }));
}

#[test]
fn a_hello_that_does_not_come_is_not_waited_for_for_ever() {
    let mut machine = quiet(None, None);
    let start = machine.command(Verb::Start);
    machine.pass(GREETING_TIMEOUT);
    assert_eq!(machine.answer(start), None);
    machine.pass(Duration::from_secs(1));
    assert_eq!(machine.answer(start), Some(&Outcome::Online { confirmed: true }));
}

#[test]
fn an_app_that_is_compiled_first_is_online_when_it_listens_or_after_ten_seconds() {
    let policy = Policy { compiles: true, ..calm(Mode::Fork) };
    // It is no Node.js, and says no hello.
    let never = Plan { ready: None, hello: None, ..Plan::good() };
    let fails = Plan { dies: Some((6_000, Exit::Code(1))), ..never.clone() };
    let listens = Plan { ready: Some((6_000, ReadySign::Listening)), ..never.clone() };
    let table = [
        (fails, 6_000, Outcome::Failed(Fault::Exited(Exit::Code(1)))),
        (listens, 6_000, Outcome::Online { confirmed: true }),
        (never, 10_000, Outcome::Online { confirmed: true }),
    ];
    for (plan, at_ms, outcome) in table {
        let mut machine = Machine::new(policy.clone(), plan);
        let start = machine.command(Verb::Start);
        machine.pass(Duration::from_millis(at_ms - 1));
        assert_eq!(machine.answer(start), None);
        machine.pass(Duration::from_millis(1));
        assert_eq!(machine.answer(start), Some(&outcome));
    }
}

#[test]
fn a_hello_does_not_give_more_time_to_say_that_it_is_ready() {
    let policy = Policy { greets: true, ..calm(Mode::Cluster) };
    let mut machine = Machine::new(policy, Plan { ready: None, hello: Some(2_900), ..Plan::good() });
    let start = machine.command(Verb::Start);
    machine.pass(Duration::from_secs(3));
    assert_eq!(machine.answer(start), Some(&Outcome::Online { confirmed: false }));
}
