//! What the generated scenarios are made of.

use std::time::Duration;

use forkful_core::slot::{Event, Exit, Generation, Policy, ReadySign, Verb};
use forkful_core::spec::{Mode, Readiness, RestartDelay, RestartPolicy, StopPolicy, StopSignal};
use proptest::prelude::*;

use crate::world::{Drains, Plan};

/// One thing that happens to the app from outside.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Command(usize, Verb),
    CommandAll(Verb),
    Reload,
    Pass(Duration),
    KillFromOutside(usize),
    /// An event about a process that the slot has never had, or has no longer.
    Stray(usize, Stray),
    EarlyDeadline(usize),
    Reset(usize),
}

/// Events that come too late.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stray {
    Ready,
    Exited,
    Drained,
    Disconnected,
    Greeted,
}

const STRAYS: [Stray; 5] = [Stray::Ready, Stray::Exited, Stray::Drained, Stray::Disconnected, Stray::Greeted];

impl Stray {
    /// The event, about a generation that no scenario reaches.
    pub(crate) fn event(self) -> Event {
        let foreign = Generation(u32::MAX);
        match self {
            Self::Ready => Event::Ready(foreign, ReadySign::Message),
            Self::Exited => Event::Exited(foreign, Exit::Code(0)),
            Self::Drained => Event::Drained(foreign),
            Self::Disconnected => Event::Disconnected(foreign),
            Self::Greeted => Event::Greeted(foreign),
        }
    }
}

fn millis(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_millis)
}

fn verb() -> impl Strategy<Value = Verb> {
    prop_oneof![
        4 => Just(Verb::Start),
        2 => Just(Verb::Stop),
        3 => Just(Verb::Restart),
        1 => Just(Verb::Delete),
        1 => Just(Verb::Retire),
        4 => Just(Verb::Replace),
    ]
}

pub(crate) fn step(slots: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..slots, verb()).prop_map(|(slot, verb)| Step::Command(slot, verb)),
        2 => verb().prop_map(Step::CommandAll),
        3 => Just(Step::Reload),
        6 => millis(0..200).prop_map(Step::Pass),
        3 => millis(200..8_000).prop_map(Step::Pass),
        1 => millis(8_000..60_000).prop_map(Step::Pass),
        2 => (0..slots).prop_map(Step::KillFromOutside),
        1 => (0..slots, prop::sample::select(&STRAYS[..]))
            .prop_map(|(slot, stray)| Step::Stray(slot, stray)),
        1 => (0..slots).prop_map(Step::EarlyDeadline),
        1 => (0..slots).prop_map(Step::Reset),
    ]
}

pub(crate) fn policy() -> impl Strategy<Value = Policy> {
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

pub(crate) fn exit() -> impl Strategy<Value = Exit> {
    prop_oneof![
        prop::sample::select(vec![0, 1, 3, 137]).prop_map(Exit::Code),
        prop::sample::select(vec![6, 9, 11, 15]).prop_map(Exit::Signal),
    ]
}

pub(crate) fn plan() -> impl Strategy<Value = Plan> {
    let sign = prop_oneof![Just(ReadySign::Listening), Just(ReadySign::Message)];
    let ready = prop::option::weighted(0.8, (0u64..6_000, sign));
    let lifetime = prop_oneof![0u64..50, 50u64..6_000, 6_000u64..60_000];
    let dies = prop::option::weighted(0.4, (lifetime, exit()));
    let obeys = prop::option::weighted(0.7, 0u64..7_000);
    let drains = prop_oneof![
        (0u64..12_000).prop_map(Drains::Exits),
        (0u64..12_000).prop_map(Drains::ReportsDrained),
        Just(Drains::Never),
    ];
    let hello = prop::option::weighted(0.8, 0u64..15_000);
    let disconnects = prop::option::weighted(0.2, 0u64..20_000);
    (prop::bool::weighted(0.05), ready, hello, dies, obeys, drains, disconnects).prop_map(
        |(spawn_fails, ready, hello, dies, obeys, drains, disconnects)| Plan {
            spawn_fails,
            ready,
            hello,
            dies,
            obeys,
            drains,
            disconnects,
        },
    )
}

/// Plans of which half are as they should be, so that scenarios get somewhere.
pub(crate) fn plans() -> impl Strategy<Value = Vec<Plan>> {
    prop::collection::vec(prop_oneof![plan(), Just(Plan::good())], 1..12)
}
