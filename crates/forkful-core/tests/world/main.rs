//! Properties of slots and rollouts over generated scenarios in a simulated world. The invariants
//! of [`checks`] are checked after each event; each test adds what it is about.

mod checks;
mod plans;
mod world;

use std::time::Duration;

use forkful_core::slot::{
    Event, Exit, Fault, GREETING_TIMEOUT, Generation, Outcome, Policy, ReadySign, State, Verb,
};
use forkful_core::spec::{Mode, Readiness, RestartPolicy, StopPolicy};
use plans::Step;
use proptest::prelude::*;
use world::{Drains, Plan, World};

/// Long enough to see what a crash loop comes to.
const LOOPING: Duration = Duration::from_secs(60);

/// Enough for every timeout of the generated policies, one after another.
const LONG: Duration = Duration::from_secs(600);

fn play(world: &mut World, steps: &[Step]) {
    for step in steps {
        match *step {
            Step::Command(slot, verb) => {
                let _ = world.command(slot, verb);
            }
            Step::CommandAll(verb) => {
                let _ = world.command_all(verb);
            }
            Step::Reload => world.reload(),
            Step::Pass(by) => world.pass(by),
            Step::KillFromOutside(slot) => world.kill_from_outside(slot),
            Step::Stray(slot, stray) => world.deliver(slot, &stray.event()),
            Step::EarlyDeadline(slot) => world.deliver(slot, &Event::Deadline),
            Step::Reset(slot) => world.deliver(slot, &Event::Reset),
        }
    }
}

fn everything_is_answered(world: &World) {
    let open: Vec<_> = world.ledger.iter().filter(|(_, answer)| answer.is_none()).collect();
    assert!(open.is_empty(), "commands without an answer: {open:?}");
    assert!(!world.is_reloading(), "a reload never ended");
    assert_eq!(world.summaries.len() + world.reloads_refused, world.reloads_asked);
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
    fn whatever_happens_slots_settle_and_commands_are_answered(
        policy in plans::policy(),
        plans in plans::plans(),
        steps in prop::collection::vec(plans::step(3), 1..60),
    ) {
        let mut world = World::new(3, policy, plans);
        play(&mut world, &steps);
        world.change_plans(vec![Plan::good()]);
        world.pass(LONG);
        everything_is_answered(&world);
        for slot in &world.slots {
            prop_assert!(slot.leaving.is_empty(), "{slot:?}");
            prop_assert!(
                matches!(slot.state, State::Stopped { .. } | State::Online(_) | State::Failed { .. }),
                "{slot:?}"
            );
        }
    }

    #[test]
    fn after_a_stop_nothing_is_left(
        policy in plans::policy(),
        plans in plans::plans(),
        steps in prop::collection::vec(plans::step(2), 1..40),
        verb in prop_oneof![Just(Verb::Stop), Just(Verb::Delete)],
    ) {
        let mut world = World::new(2, policy.clone(), plans);
        play(&mut world, &steps);
        let tickets = world.command_all(verb);
        // The stop signal, then SIGKILL, then the kernel; a drain is cut short.
        world.pass(policy.stop.kill_timeout + Duration::from_millis(1));
        prop_assert!(world.processes.is_empty(), "{:?}", world.processes.keys());
        let expected = if verb == Verb::Stop { Outcome::Stopped } else { Outcome::Deleted };
        for (slot, ticket) in tickets.into_iter().enumerate() {
            if let Some(ticket) = ticket {
                prop_assert_eq!(world.answer(ticket, slot), Some(&expected));
            }
            prop_assert!(world.slots[slot].is_at_rest());
        }
        everything_is_answered(&world);
    }

    #[test]
    fn a_reload_never_takes_a_ready_worker_away(
        policy in plans::policy(),
        new in plans::plans(),
        drains in prop::collection::vec(prop_oneof![
            (0u64..12_000).prop_map(Drains::Exits), Just(Drains::Never)
        ], 4),
    ) {
        let old = drains.into_iter().map(|drains| Plan { drains, ..Plan::good() }).collect();
        let mut world = World::new(4, policy, old);
        (0..4).for_each(|slot| { world.command(slot, Verb::Start); });
        world.pass(Duration::from_secs(60));
        prop_assert_eq!(world.serving(), 4);
        world.change_plans(new);
        world.monitor.serving_min = 4;
        world.reload();
        // Ready, drained, signalled, killed: each has its bound, four times.
        world.pass(Duration::from_secs(4 * 120));
        prop_assert!(!world.is_reloading());
        let summary = &world.summaries[0];
        let failed = usize::from(summary.failure.is_some());
        prop_assert_eq!(summary.replaced.len() + failed + summary.untouched.len(), 4);
        prop_assert!(failed == 1 || summary.untouched.is_empty());
    }

    #[test]
    fn a_crash_loop_is_slowed_and_then_given_up(
        policy in plans::policy(),
        exit in plans::exit(),
        lifetime in 0u64..3_000,
    ) {
        let bad = Plan { dies: Some((lifetime, exit)), ready: None, ..Plan::good() };
        let mut world = World::new(1, policy.clone(), vec![bad]);
        world.command(0, Verb::Start);
        world.pass(LOOPING);
        everything_is_answered(&world);
        let starts = world.slots[0].counters.next_generation;
        // Each life and each pause costs time, whatever the policy is; only the first restart may not.
        let pace = Duration::from_millis(lifetime.min(100)) + forkful_core::restart::DELAY_MIN;
        prop_assert!(f64::from(starts) <= LOOPING.as_secs_f64() / pace.as_secs_f64() + 3.0);
        if Duration::from_millis(lifetime) < policy.restart.min_uptime
            && policy.restart.max_restarts <= 1
            && policy.restart.autorestart
        {
            let resting = matches!(world.slots[0].state, State::Failed { .. } | State::Stopped { .. });
            prop_assert!(resting, "{:?}", world.slots[0].state);
        }
    }
}

#[test]
fn a_stubborn_worker_is_killed_and_the_stop_is_answered_after_that() {
    let stubborn = Plan { obeys: None, ..Plan::good() };
    let mut world = World::new(1, calm(Mode::Cluster), vec![stubborn]);
    world.command(0, Verb::Start);
    world.pass(Duration::from_secs(1));
    let stop = world.command(0, Verb::Stop).expect("the slot is there");
    world.pass(Duration::from_secs(5));
    assert_eq!(world.answer(stop, 0), None);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.answer(stop, 0), Some(&Outcome::Stopped));
}

/// An app in fork mode that announces nothing, and says hello only after so long.
fn quiet(hello: Option<u64>, dies: Option<(u64, Exit)>) -> World {
    let policy = Policy { greets: true, ..calm(Mode::Fork) };
    World::new(1, policy, vec![Plan { ready: None, hello, dies, ..Plan::good() }])
}

#[test]
fn an_app_that_fails_at_once_is_told_failed_however_late_it_begins() {
    let mut world = quiet(Some(2_500), Some((2_600, Exit::Code(1))));
    let start = world.command(0, Verb::Start).expect("the slot is there");
    world.pass(Duration::from_millis(2_599));
    assert_eq!(world.answer(start, 0), None);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.answer(start, 0), Some(&Outcome::Failed(Fault::Exited(Exit::Code(1)))));
}

#[test]
fn an_app_that_stays_alive_is_online_its_time_after_its_hello() {
    let mut world = quiet(Some(2_500), None);
    let start = world.command(0, Verb::Start).expect("the slot is there");
    world.pass(Duration::from_millis(3_499));
    assert_eq!(world.answer(start, 0), None);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.answer(start, 0), Some(&Outcome::Online { confirmed: true }));
}

#[test]
fn a_hello_that_does_not_come_is_not_waited_for_for_ever() {
    let mut world = quiet(None, None);
    let start = world.command(0, Verb::Start).expect("the slot is there");
    world.pass(GREETING_TIMEOUT);
    assert_eq!(world.answer(start, 0), None);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.answer(start, 0), Some(&Outcome::Online { confirmed: true }));
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
        let mut world = World::new(1, policy.clone(), vec![plan]);
        let start = world.command(0, Verb::Start).expect("the slot is there");
        world.pass(Duration::from_millis(at_ms - 1));
        assert_eq!(world.answer(start, 0), None);
        world.pass(Duration::from_millis(1));
        assert_eq!(world.answer(start, 0), Some(&outcome));
    }
}

#[test]
fn a_hello_does_not_give_more_time_to_say_that_it_is_ready() {
    let policy = Policy { greets: true, ..calm(Mode::Cluster) };
    let mut world = World::new(1, policy, vec![Plan { ready: None, hello: Some(2_900), ..Plan::good() }]);
    let start = world.command(0, Verb::Start).expect("the slot is there");
    world.pass(Duration::from_secs(3));
    assert_eq!(world.answer(start, 0), Some(&Outcome::Online { confirmed: false }));
}

#[test]
fn a_reload_of_a_version_that_never_listens_keeps_the_old_one() {
    let mut world = World::new(2, calm(Mode::Cluster), vec![Plan::good()]);
    (0..2).for_each(|slot| {
        world.command(slot, Verb::Start);
    });
    world.pass(Duration::from_secs(1));
    world.change_plans(vec![Plan { ready: None, ..Plan::good() }]);
    world.reload();
    world.pass(Duration::from_secs(40));
    let summary = &world.summaries[0];
    assert_eq!((summary.replaced.len(), summary.untouched.len()), (0, 1));
    assert!(world.processes.keys().all(|(_, generation)| *generation == Generation(0)));
    assert_eq!(world.serving(), 2);
}

#[test]
fn ten_reloads_at_once_run_one_after_another_and_one_is_refused() {
    let mut world = World::new(2, calm(Mode::Cluster), vec![Plan::good()]);
    (0..2).for_each(|slot| {
        world.command(slot, Verb::Start);
    });
    world.pass(Duration::from_secs(1));
    (0..10).for_each(|_| world.reload());
    world.pass(Duration::from_secs(60));
    everything_is_answered(&world);
    assert_eq!((world.summaries.len(), world.reloads_refused), (9, 1));
    assert!(world.summaries.iter().all(|summary| summary.replaced.len() == 2));
    assert!(world.slots.iter().all(|slot| slot.counters.restarts == 9));
}
