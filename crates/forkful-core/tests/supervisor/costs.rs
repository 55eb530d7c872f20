//! What an event costs: how often a slot is asked when it is due. Time is not measured.

use std::time::Duration;

use forkful_core::slot::Generation;
use forkful_core::supervisor::{Effect, Event, Sockets};

use super::driver::{Driver, spec};

const FIRST: Generation = Generation(0);

/// How many slots are asked while something happens.
fn asked(driver: &mut Driver, happens: impl FnOnce(&mut Driver) -> Vec<Effect>) -> u64 {
    let before = driver.app.slots_asked();
    happens(driver);
    driver.app.slots_asked() - before
}

/// How many slots are asked by events of the last slot of an app.
fn costs(instances: u16) -> [u64; 5] {
    let (mut driver, _) = Driver::new(spec("app", instances));
    driver.takes_over = false;
    let slot = instances - 1;
    [
        asked(&mut driver, |driver| driver.step(Event::Runs(slot, FIRST))),
        // Its sockets are looked at, and nobody else is due.
        asked(&mut driver, |driver| {
            let effects = driver.pass(Duration::from_millis(100));
            assert_eq!(effects, [Effect::LookAtSockets(slot, FIRST)]);
            effects
        }),
        asked(&mut driver, |driver| driver.step(Event::Sockets(slot, FIRST, Sockets::default()))),
        asked(&mut driver, |driver| {
            driver.step(Event::Listening { slot, generation: FIRST, lacks_address: false })
        }),
        asked(&mut driver, |driver| driver.exit(slot, FIRST, 1)),
    ]
}

#[test]
fn an_event_of_a_slot_asks_that_slot_alone_however_many_there_are() {
    let of_two = costs(2);
    assert!(of_two.iter().all(|asked| (1..=3).contains(asked)), "{of_two:?}");
    assert_eq!(costs(500), of_two);
}

#[test]
fn a_time_at_which_no_slot_is_due_asks_none() {
    let mut driver = Driver::online(spec("app", 500));
    assert_eq!(asked(&mut driver, |driver| driver.step(Event::Time)), 0);
}
