//! Requests that a worker answers before it is ready.

use std::time::Duration;

use forkful_core::slot::{Event as SlotEvent, Generation, State};
use forkful_core::spec::{AppSpec, Mode, Warmup};
use forkful_core::supervisor::{Adopted, Effect, Event, JobId, Note, Notice, Sockets, Warmed};

use crate::driver::{Driver, settled, spec};

const FIRST: Generation = Generation(0);
const NEXT: Generation = Generation(1);
const TIMEOUT: Duration = Duration::from_secs(10);

fn warm(instances: u16) -> AppSpec {
    let paths = vec!["/a".to_owned(), "/b".to_owned()];
    let warmup = Warmup { paths, requests: 2, timeout: TIMEOUT };
    AppSpec { warmup: Some(warmup), ..spec("app", instances) }
}

/// The paths that workers are to be asked for.
fn asked(effects: &[Effect]) -> Vec<&str> {
    let warmups = effects.iter().filter_map(|effect| match effect {
        Effect::WarmUp { path, .. } => Some(path.as_str()),
        _ => None,
    });
    warmups.collect()
}

fn opened(effects: &[Effect]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::OpenTraffic(..))).count()
}

fn answer(driver: &mut Driver, generation: Generation, outcome: Warmed) -> Vec<Effect> {
    driver.step(Event::Warmed { slot: 0, generation, outcome })
}

/// What is said of workers that are not warm.
fn notes(effects: &[Effect]) -> Vec<JobId> {
    let notice = effects.iter().any(|effect| matches!(effect, Effect::Notice(Some(0), Notice::NotWarm(_))));
    let note = |effect: &Effect| match effect {
        Effect::Note(job, Note::NotWarm(_)) => Some(*job),
        _ => None,
    };
    let notes: Vec<JobId> = effects.iter().filter_map(note).collect();
    assert!(notice || notes.is_empty());
    notes
}

#[test]
fn a_worker_answers_all_requests_one_after_the_other_before_it_has_traffic() {
    let (mut driver, _) = Driver::new(warm(1));
    let effects = driver.serve(0, FIRST);
    assert_eq!((asked(&effects), opened(&effects)), (vec!["/a"], 0));
    // It listens on another address, too.
    let effects = driver.step(Event::Listening { slot: 0, generation: FIRST, lacks_address: false });
    assert_eq!(effects, []);
    for path in ["/b", "/a", "/b"] {
        let effects = answer(&mut driver, FIRST, Warmed::Answered);
        assert_eq!((asked(&effects), opened(&effects)), (vec![path], 0));
        assert!(matches!(driver.state(0), State::Starting { .. }));
    }
    let effects = answer(&mut driver, FIRST, Warmed::Answered);
    assert_eq!((asked(&effects), opened(&effects)), (Vec::new(), 1));
    assert!(notes(&effects).is_empty());
    assert_eq!(answer(&mut driver, FIRST, Warmed::Answered), [], "a late answer says nothing");
}

#[test]
fn the_old_worker_serves_until_the_new_one_is_warm() {
    let mut app = warm(1);
    app.readiness.listen_timeout = Some(Duration::from_secs(1));
    let (mut driver, _) = Driver::new(app);
    driver.serve(0, FIRST);
    (0..4).for_each(|_| drop(answer(&mut driver, FIRST, Warmed::Answered)));
    let (job, _) = driver.reload(None);
    let effects = driver.serve(0, NEXT);
    assert_eq!(asked(&effects), ["/a"]);
    // Longer than it may take to listen.
    let effects = driver.pass(TIMEOUT - Duration::from_millis(1));
    assert_eq!((opened(&effects), settled(&effects)), (0, vec![]));
    assert!(matches!(driver.state(0), State::Replacing { .. }));
    let effects = driver.pass(Duration::from_millis(1));
    assert_eq!(opened(&effects), 1, "then it serves as it is");
    assert_eq!(notes(&effects), [job]);
    assert!(matches!(driver.state(0), State::Online(running) if running.generation == NEXT));
}

#[test]
fn a_worker_that_cannot_be_asked_serves_and_the_command_is_told() {
    let (mut driver, effects) = Driver::new(warm(1));
    let Some(Effect::Owed(job)) = effects.iter().find(|effect| matches!(effect, Effect::Owed(_))) else {
        panic!("{effects:?}");
    };
    driver.serve(0, FIRST);
    let effects = answer(&mut driver, FIRST, Warmed::Failed("it does not listen on any port".to_owned()));
    assert_eq!(effects, [], "it may be about to end");
    let effects = driver.pass(Duration::from_millis(500));
    assert_eq!((opened(&effects), asked(&effects)), (1, vec![]));
    assert_eq!(notes(&effects), [*job]);
}

#[test]
fn a_busy_channel_is_waited_for() {
    let (mut driver, _) = Driver::new(warm(1));
    driver.serve(0, FIRST);
    assert_eq!(answer(&mut driver, FIRST, Warmed::Busy), []);
    assert_eq!(asked(&driver.pass(Duration::from_millis(9))), [""; 0]);
    assert_eq!(asked(&driver.pass(Duration::from_millis(1))), ["/a"]);
}

#[test]
fn a_worker_that_ends_while_it_is_warmed_up_is_not_ready() {
    let mut driver = Driver::online(spec("app", 1));
    let (job, _) = driver.reload(Some(warm(1)));
    driver.serve(0, NEXT);
    // The end of its connection is seen first.
    answer(&mut driver, NEXT, Warmed::Failed("closed without an answer".to_owned()));
    let effects = driver.exit(0, NEXT, 1);
    assert_eq!(settled(&effects), [job]);
    assert!(matches!(driver.state(0), State::Online(running) if running.generation == FIRST));
    assert_eq!(driver.pass(TIMEOUT), [], "nothing is left of it");
}

#[test]
fn a_command_that_ends_the_replacement_ends_the_requests() {
    let mut driver = Driver::online(spec("app", 1));
    driver.reload(Some(warm(1)));
    driver.serve(0, NEXT);
    driver.stop(forkful_core::slot::Verb::Stop);
    assert_eq!(asked(&answer(&mut driver, NEXT, Warmed::Answered)), [""; 0]);
    let effects = driver.pass(TIMEOUT * 2);
    assert!(asked(&effects).is_empty() && opened(&effects) == 0 && notes(&effects).is_empty());
}

#[test]
fn a_worker_that_listens_late_and_one_with_a_port_of_its_own_are_warmed_up_as_well() {
    let (mut driver, _) = Driver::new(warm(1));
    driver.step(Event::Runs(0, FIRST));
    driver.pass(Duration::from_secs(5));
    assert!(matches!(driver.state(0), State::Online(running) if !running.confirmed));
    let effects = driver.step(Event::Listening { slot: 0, generation: FIRST, lacks_address: false });
    assert_eq!((asked(&effects), opened(&effects)), (vec!["/a"], 0));
    (0..3).for_each(|_| drop(answer(&mut driver, FIRST, Warmed::Answered)));
    assert_eq!(opened(&answer(&mut driver, FIRST, Warmed::Answered)), 1);

    let (mut driver, _) = Driver::new(AppSpec { mode: Mode::Fork, ..warm(1) });
    driver.step(Event::Runs(0, FIRST));
    let own = Some(forkful_core::slot::OwnSocket::Tcp);
    let effects = driver.step(Event::Sockets(0, FIRST, Sockets { own, ..Sockets::default() }));
    assert_eq!((asked(&effects), opened(&effects)), (vec!["/a"], 0));
}

#[test]
fn another_daemon_asks_again() {
    let (mut driver, _) = Driver::new(warm(1));
    driver.serve(0, FIRST);
    answer(&mut driver, FIRST, Warmed::Answered);
    let there = vec![Adopted { slot: 0, generation: FIRST, runs: true }];
    let effects = driver.step(Event::TakenOver(there));
    assert_eq!(asked(&effects), ["/b"]);
}

#[test]
fn with_wait_ready_the_word_comes_first() {
    let mut app = warm(1);
    app.readiness.wait_ready = true;
    let (mut driver, _) = Driver::new(app);
    assert_eq!(asked(&driver.serve(0, FIRST)), [""; 0]);
    assert_eq!(asked(&driver.step(Event::SaidReady(0, FIRST))), ["/a"]);
    driver.slot(0, SlotEvent::Deadline);
    assert!(matches!(driver.state(0), State::Starting { .. }));
}
