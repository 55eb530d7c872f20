//! When a worker counts as ready.

use std::time::Duration;

use forkful_core::slot::{Generation, OwnSocket, State};
use forkful_core::spec::Mode;
use forkful_core::supervisor::{Effect, Event, Sockets, may_listen};

use crate::driver::{Driver, spec};

const FIRST: Generation = Generation(0);

fn looks(effects: &[Effect]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::LookAtSockets(..))).count()
}

fn is_online(driver: &Driver, slot: u16) -> bool {
    matches!(driver.state(slot), State::Online(running) if running.confirmed)
}

#[test]
fn sockets_of_a_starting_process_are_looked_at_until_it_has_one() {
    let mut app = spec("app", 1);
    app.mode = Mode::Fork;
    app.readiness.listen_timeout = Some(Duration::from_secs(30));
    app.readiness.wait_ready = false;
    let (mut driver, _) = Driver::new(app);
    driver.step(Event::Runs(0, FIRST));
    assert_eq!(looks(&driver.pass(Duration::from_millis(79))), 0);
    assert_eq!(looks(&driver.pass(Duration::from_millis(1))), 1);
    assert_eq!(looks(&driver.pass(Duration::from_secs(5))), 0, "the next one follows an answer");
    driver.step(Event::Sockets(0, FIRST, Sockets::default()));
    assert_eq!(looks(&driver.pass(Duration::from_millis(500))), 1);
    driver.step(Event::Sockets(0, FIRST, Sockets { own: Some(OwnSocket::Tcp), ..Sockets::default() }));
    assert!(is_online(&driver, 0));
}

#[test]
fn a_look_that_finds_nothing_needs_not_be_written_down() {
    let mut app = spec("app", 1);
    app.mode = Mode::Fork;
    app.readiness.wait_ready = false;
    let (mut driver, _) = Driver::new(app);
    driver.step(Event::Runs(0, FIRST));
    let due = |driver: &mut Driver, ms| {
        driver.now = driver.now + Duration::from_millis(ms);
        (driver.app.only_looks(&Event::Time, driver.now), driver.step(Event::Time))
    };
    let (only_looks, effects) = due(&mut driver, 80);
    assert!(only_looks && !effects.is_empty() && effects.iter().all(Effect::is_look), "{effects:?}");
    // A daemon that goes on with what was written before the look has the same look to do.
    assert_eq!(driver.step(Event::Sockets(0, FIRST, Sockets::default())), []);
    let (only_looks, effects) = due(&mut driver, 400);
    assert!(only_looks && effects.iter().all(Effect::is_look), "{effects:?}");
    driver.step(Event::Sockets(0, FIRST, Sockets::default()));
    let (only_looks, effects) = due(&mut driver, 20_000);
    assert!(!only_looks && !effects.iter().all(Effect::is_look), "its time is over: {effects:?}");
}

#[test]
fn what_follows_from_a_look_is_written_down() {
    let (mut driver, _) = Driver::new(spec("app", 1));
    driver.step(Event::Runs(0, FIRST));
    driver.pass(Duration::from_millis(80));
    let listens = Event::Sockets(0, FIRST, Sockets { own: Some(OwnSocket::Tcp), ..Sockets::default() });
    assert!(driver.app.only_looks(&listens, driver.now));
    assert!(!driver.step(listens).iter().all(Effect::is_look));
    assert!(!driver.app.only_looks(&Event::Runs(0, FIRST), driver.now));
}

#[test]
fn a_successor_that_lacks_an_address_is_not_ready() {
    let mut driver = Driver::online(spec("app", 1));
    driver.reload(None);
    let next = Generation(1);
    driver.step(Event::Runs(0, next));
    driver.step(Event::Listening { slot: 0, generation: next, lacks_address: true });
    assert!(matches!(driver.state(0), State::Replacing { .. }));
    // The old worker may let go of the address: it is looked at again and again.
    driver.pass(Duration::from_millis(80));
    let lacks = Sockets { has_asked: true, shares: true, lacks_address: true, ..Sockets::default() };
    driver.step(Event::Sockets(0, next, lacks));
    assert_eq!(looks(&driver.pass(Duration::from_millis(500))), 1);
    driver.step(Event::Sockets(0, next, Sockets { lacks_address: false, ..lacks }));
    assert!(is_online(&driver, 0));
}

#[test]
fn the_word_of_an_app_that_was_not_expected_to_say_it_counts_when_nothing_speaks_against_it() {
    let table = [
        (Sockets::default(), true),
        (Sockets { has_asked: true, ..Sockets::default() }, false),
        (Sockets { follows_listener: true, ..Sockets::default() }, false),
    ];
    for (seen, counts) in table {
        let (mut driver, _) = Driver::new(spec("app", 1));
        driver.step(Event::Runs(0, FIRST));
        driver.step(Event::SaidReady(0, FIRST));
        assert!(!is_online(&driver, 0), "not at once");
        let effects = driver.pass(Duration::from_secs(1));
        assert!(looks(&effects) >= 1);
        driver.step(Event::Sockets(0, FIRST, seen));
        assert_eq!(is_online(&driver, 0), counts, "{seen:?}");
    }
}

#[test]
fn with_wait_ready_the_word_counts_and_nothing_is_looked_at() {
    let mut app = spec("app", 1);
    app.readiness.wait_ready = true;
    let (mut driver, _) = Driver::new(app);
    driver.step(Event::Runs(0, FIRST));
    assert_eq!(looks(&driver.pass(Duration::from_secs(1))), 0);
    driver.step(Event::Listening { slot: 0, generation: FIRST, lacks_address: false });
    assert!(!is_online(&driver, 0));
    driver.step(Event::SaidReady(0, FIRST));
    assert!(is_online(&driver, 0));
}

#[test]
fn a_process_that_was_not_started_is_not_late() {
    let mut app = spec("app", 1);
    app.readiness.listen_timeout = Some(Duration::from_millis(5));
    let (mut driver, _) = Driver::new(app);
    driver.pass(Duration::from_secs(20));
    assert!(matches!(driver.state(0), State::Starting { .. }), "{:?}", driver.state(0));
    driver.step(Event::Runs(0, FIRST));
    driver.pass(Duration::from_millis(5));
    assert!(matches!(driver.state(0), State::Online(running) if !running.confirmed));
}

#[test]
fn a_process_that_listens_after_its_time_is_found_by_ever_rarer_looks() {
    let mut app = spec("app", 1);
    app.readiness.listen_timeout = Some(Duration::from_millis(5));
    let (mut driver, _) = Driver::new(app);
    driver.step(Event::Runs(0, FIRST));
    driver.pass(Duration::from_millis(5));
    assert!(!is_online(&driver, 0));
    for pause in [80, 80, 120] {
        assert_eq!(looks(&driver.pass(Duration::from_millis(pause))), 1, "{pause} ms");
        driver.step(Event::Sockets(0, FIRST, Sockets::default()));
    }
    // It may be a program that never listens.
    let mut an_hour = 0;
    for _ in 0..3600 {
        let looks = looks(&driver.pass(Duration::from_secs(1)));
        (0..looks).for_each(|_| drop(driver.step(Event::Sockets(0, FIRST, Sockets::default()))));
        an_hour += looks;
    }
    assert!((55..90).contains(&an_hour), "{an_hour}");
    driver.pass(Duration::from_secs(60));
    driver.step(Event::Sockets(0, FIRST, Sockets { own: Some(OwnSocket::Tcp), ..Sockets::default() }));
    assert!(is_online(&driver, 0));
    assert_eq!(looks(&driver.pass(Duration::from_secs(600))), 0);
}

#[test]
fn a_unix_sockets_file_alone_may_be_a_tools_in_fork_mode() {
    let file = Sockets { has_asked: true, shares: true, ..Sockets::default() };
    let port = Sockets { shares_tcp: true, ..file };
    for (mode, seen, is_ready) in [
        (Mode::Cluster, file, true),
        (Mode::Cluster, port, true),
        (Mode::Fork, file, false),
        (Mode::Fork, port, true),
    ] {
        let mut app = spec("app", 1);
        app.mode = mode;
        let (mut driver, _) = Driver::new(app);
        driver.step(Event::Runs(0, FIRST));
        driver.pass(Duration::from_millis(80));
        driver.step(Event::Sockets(0, FIRST, seen));
        assert_eq!(is_online(&driver, 0), is_ready, "{mode:?}, {seen:?}");
        assert_eq!(seen.lacks_any(mode), !is_ready, "{mode:?}, {seen:?}");
        assert!(Sockets { lacks_address: true, ..seen }.lacks_any(mode));
    }
}

#[test]
fn a_cluster_mode_process_can_listen_once_its_agent_has_spoken() {
    let ms = Duration::from_millis;
    let mut app = spec("app", 1);
    app.agent = true;
    for (mode, has_agent, listen_timeout, age, may) in [
        (Mode::Fork, false, None, ms(0), true),
        (Mode::Cluster, true, None, ms(0), true),
        (Mode::Cluster, false, None, ms(999), false),
        // A program that loads no agent.
        (Mode::Cluster, false, None, ms(1001), true),
        (Mode::Cluster, false, Some(ms(600)), ms(301), true),
        (Mode::Cluster, false, Some(ms(600)), ms(299), false),
    ] {
        (app.mode, app.readiness.listen_timeout) = (mode, listen_timeout);
        assert_eq!(may_listen(&app, has_agent, age), may, "{mode:?} {has_agent} {listen_timeout:?} {age:?}");
    }
    app.agent = false;
    assert!(may_listen(&app, false, ms(0)), "no agent is loaded");
}
