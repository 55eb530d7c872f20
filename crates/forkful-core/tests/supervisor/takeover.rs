//! Another daemon goes on with an app: what the one before had only in its memory.

use std::time::Duration;

use forkful_core::leaving::AFTER_DISCONNECT;
use forkful_core::slot::{Event as SlotEvent, Generation, State, Verb};
use forkful_core::spec::{HealthCheck, HealthProbe};
use forkful_core::supervisor::{Adopted, Effect, Event};

use crate::driver::{Driver, spawned, spec};

const FIRST: Generation = Generation(0);
const SECOND: Generation = Generation(1);

fn runs(slot: u16, generation: Generation) -> Adopted {
    Adopted { slot, generation, runs: true }
}

#[test]
fn starts_that_were_put_off_are_ordered_again_and_processes_that_are_there_are_not() {
    let (mut driver, _) = Driver::new(spec("api", 3));
    let begun = Adopted { runs: false, ..runs(1, FIRST) };
    let effects = driver.step(Event::TakenOver(vec![begun, runs(2, FIRST)]));
    assert_eq!(spawned(&effects), [(0, 0)]);
    driver.serve(0, FIRST);
    driver.serve(1, FIRST);
    driver.step(Event::Listening { slot: 2, generation: FIRST, lacks_address: false });
    assert!((0..3).all(|slot| matches!(driver.state(slot), State::Online(_))));
}

#[test]
fn a_process_that_awaits_its_readiness_is_looked_at_and_one_that_serves_gets_traffic() {
    let mut driver = Driver::online(spec("api", 2));
    driver.reload(None);
    driver.step(Event::Runs(0, SECOND));
    let effects = driver.step(Event::TakenOver(vec![runs(0, FIRST), runs(0, SECOND), runs(1, FIRST)]));
    let expected =
        [Effect::OpenTraffic(0, FIRST), Effect::LookAtSockets(0, SECOND), Effect::OpenTraffic(1, FIRST)];
    assert_eq!(effects, expected);
}

#[test]
fn a_question_without_an_answer_is_asked_again() {
    let mut spec = spec("api", 1);
    spec.health = Some(HealthCheck {
        probe: HealthProbe::Loop,
        interval: Duration::from_secs(10),
        timeout: Duration::from_secs(2),
        start_period: Duration::ZERO,
        failures_max: 3,
        stuck_limit: None,
    });
    let mut driver = Driver::online(spec);
    driver.pass(Duration::from_secs(1));
    let ask = Effect::AskHealth(0, FIRST);
    assert!(driver.step(Event::TakenOver(vec![runs(0, FIRST)])).contains(&ask));
    driver.step(Event::Health { slot: 0, generation: FIRST, answer: Ok(()) });
    assert!(!driver.step(Event::TakenOver(vec![runs(0, FIRST)])).contains(&ask));
}

#[test]
fn a_process_that_leaves_is_asked_to_again_but_gets_no_second_signal_while_it_runs() {
    let mut driver = Driver::online(spec("api", 1));
    driver.reload(None);
    driver.serve(0, SECOND);
    let there = || Event::TakenOver(vec![runs(0, FIRST), runs(0, SECOND)]);
    let drain = Effect::Drain { slot: 0, generation: FIRST, job: None };
    assert_eq!(driver.step(there()), [Effect::OpenTraffic(0, SECOND), drain]);
    driver.slot(0, SlotEvent::Drained(FIRST));
    assert!(driver.pass(AFTER_DISCONNECT).contains(&Effect::Signal(0, FIRST)));
    assert_eq!(driver.step(there()), [Effect::OpenTraffic(0, SECOND)]);
    driver.pass(Duration::from_secs(6));
    assert_eq!(driver.step(there()), [Effect::OpenTraffic(0, SECOND), Effect::Kill(0, FIRST)]);
}

#[test]
fn a_signal_that_waited_for_the_start_of_its_process_is_sent_again() {
    let (mut driver, _) = Driver::new(spec("api", 1));
    driver.stop(Verb::Stop);
    let begun = Adopted { runs: false, ..runs(0, FIRST) };
    assert_eq!(driver.step(Event::TakenOver(vec![begun])), [Effect::Signal(0, FIRST)]);
    driver.step(Event::TakenOver(Vec::new()));
    assert!(matches!(driver.state(0), State::Stopped { .. }), "it was never begun");
}

#[test]
fn a_worker_that_went_unseen_is_followed_by_another() {
    let mut driver = Driver::online(spec("api", 1));
    let effects = driver.step(Event::TakenOver(Vec::new()));
    assert_eq!(driver.app.slot(0).unwrap().slot.counters.crashes, 1);
    assert_eq!(spawned(&effects), [(0, 1)]);
}
