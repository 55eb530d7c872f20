//! The number of workers follows the load.

use std::rc::Rc;
use std::time::Duration;

use forkful_core::autoscale::{ScaleBounds, Signals, WorkerSignals};
use forkful_core::slot::{Generation, State};
use forkful_core::spec::AppSpec;
use forkful_core::supervisor::{Effect, Event, Notice};

use crate::driver::{Driver, spawned, spec};

const FIRST: Generation = Generation(0);

fn scaling(min: u16, max: u16) -> AppSpec {
    AppSpec { autoscale: Some(ScaleBounds { min, max }), ..spec("app", min) }
}

fn load(driver: &mut Driver, permille: u32) -> Vec<Effect> {
    let worker = |(slot, generation)| WorkerSignals {
        slot,
        generation,
        loop_permille: Some(permille),
        cpu_millicores: permille,
        wait_permille: 0,
        throttled_permille: 0,
        queued: 0,
        memory_bytes: 1,
    };
    let serving = driver.app.slots().iter().filter_map(|(slot, record)| Some((*slot, record.online()?)));
    let workers: Vec<WorkerSignals> = serving.map(worker).collect();
    driver.step(Event::Load(Signals { workers, ..Signals::default() }))
}

/// The same load for some seconds; everything that follows.
fn loaded(driver: &mut Driver, permille: u32, seconds: u64) -> Vec<Effect> {
    let mut effects = Vec::new();
    for _ in 0..seconds {
        effects.extend(driver.pass(Duration::from_secs(1)));
        effects.extend(load(driver, permille));
    }
    effects
}

fn scaled(effects: &[Effect]) -> Vec<(u16, u16)> {
    let scaled = |effect: &Effect| match effect {
        Effect::Notice(None, Notice::Scaled { from, to, .. }) => Some((*from, *to)),
        _ => None,
    };
    effects.iter().filter_map(scaled).collect()
}

#[test]
fn busy_workers_get_another_one_and_it_goes_again_without_loss() {
    let mut driver = Driver::online(scaling(1, 2));
    let effects = loaded(&mut driver, 900, 7);
    assert_eq!((scaled(&effects), spawned(&effects)), (vec![(1, 2)], vec![(1, 0)]));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Owed(_))), "no command waits for it");
    assert!(effects.contains(&Effect::Changed), "the number is saved");
    assert_eq!(driver.app.spec().instances, 2);
    assert_eq!(scaled(&loaded(&mut driver, 900, 20)), [], "the new worker does not serve yet");
    driver.serve(1, FIRST);
    let effects = loaded(&mut driver, 900, 20);
    let held = |effect: &Effect| matches!(effect, Effect::Notice(None, Notice::NotScaled { workers: 2, .. }));
    assert_eq!((scaled(&effects), effects.iter().filter(|effect| held(effect)).count()), (vec![], 1));
    let effects = loaded(&mut driver, 100, 62);
    assert_eq!(scaled(&effects), [(2, 1)]);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Drain { slot: 1, job: None, .. })));
    assert_eq!(driver.app.spec().instances, 1);
    assert!(!driver.app.stays(1));
    assert_eq!(scaled(&loaded(&mut driver, 900, 20)), [], "the worker that leaves is still there");
    driver.exit(1, FIRST, 0);
    assert_eq!(driver.app.slots().len(), 1);
    assert_eq!(scaled(&loaded(&mut driver, 900, 7)), [(1, 2)]);
    insta::assert_snapshot!(driver.app.last_scaling().unwrap(), @"scaled up from 1 to 2 workers: the event loop was 90 % busy for 5 s");
}

#[test]
fn a_number_that_is_fixed_stays() {
    let mut driver = Driver::online(spec("app", 1));
    assert_eq!(loaded(&mut driver, 1000, 60), []);
    assert_eq!(driver.app.last_scaling(), None);
}

#[test]
fn nothing_changes_while_a_reload_is_under_way() {
    let mut driver = Driver::online(scaling(1, 3));
    loaded(&mut driver, 900, 5);
    driver.reload(None);
    assert_eq!(scaled(&loaded(&mut driver, 900, 20)), []);
    driver.serve(0, Generation(1));
    assert_eq!(scaled(&loaded(&mut driver, 900, 3)), [], "the old worker still finishes its requests");
    driver.exit(0, FIRST, 0);
    assert_eq!(scaled(&loaded(&mut driver, 900, 4)), [], "what was before the reload does not count");
    assert_eq!(scaled(&loaded(&mut driver, 900, 4)), [(1, 2)]);
    // A reload that comes while the new worker starts.
    let (_, effects) = driver.reload(None);
    assert_eq!(spawned(&effects), [(0, 2)]);
}

#[test]
fn workers_that_are_stopped_or_fail_are_waited_for() {
    let mut driver = Driver::online(scaling(2, 4));
    driver.exit(1, FIRST, 1);
    assert!(!matches!(driver.state(1), State::Online(_)));
    assert_eq!(scaled(&loaded(&mut driver, 900, 10)), []);
}

#[test]
fn a_definition_with_bounds_keeps_the_number_and_one_without_sets_it() {
    let mut driver = Driver::online(scaling(1, 4));
    loaded(&mut driver, 900, 7);
    driver.serve(1, FIRST);
    let job = driver.job();
    driver.step(Event::ScaleAsDefined { instances: 1, job });
    assert_eq!(driver.app.slots().len(), 2, "a file that is applied again");
    driver.step(Event::Restart { slots: vec![0, 1], spec: Some(Rc::new(scaling(1, 4))), job });
    assert_eq!(driver.app.slots().len(), 2);
    for slot in 0..2 {
        driver.exit(slot, FIRST, 0);
        driver.serve(slot, Generation(1));
    }
    driver.reload(Some(scaling(1, 8)));
    for slot in 0..2 {
        driver.serve(slot, Generation(2));
        driver.exit(slot, Generation(1), 0);
    }
    assert_eq!((driver.app.is_reloading(), driver.app.slots().len()), (false, 2));
    assert_eq!(driver.app.spec().autoscale, Some(ScaleBounds { min: 1, max: 8 }));
    let job = driver.job();
    driver.step(Event::Restart { slots: vec![0, 1], spec: Some(Rc::new(scaling(3, 4))), job });
    assert_eq!(driver.app.slots().len(), 3, "the least number");
    driver.step(Event::Restart { slots: vec![0, 1, 2], spec: Some(Rc::new(spec("app", 5))), job });
    assert_eq!((driver.app.slots().len(), driver.app.spec().autoscale), (5, None));
}

#[test]
fn a_reload_that_fails_keeps_number_and_bounds() {
    let mut driver = Driver::online(scaling(2, 4));
    driver.reload(Some(scaling(1, 8)));
    driver.exit(0, Generation(1), 1);
    assert!(!driver.app.is_reloading());
    assert_eq!(driver.app.spec().autoscale, Some(ScaleBounds { min: 2, max: 4 }));
    assert_eq!(driver.app.spec().instances, 2);
}

#[test]
fn a_number_set_by_hand_holds_until_the_next_decision() {
    let mut driver = Driver::online(scaling(1, 4));
    loaded(&mut driver, 900, 5);
    driver.scale(2);
    driver.serve(1, FIRST);
    assert_eq!(scaled(&loaded(&mut driver, 900, 5)), []);
    assert_eq!(scaled(&loaded(&mut driver, 900, 2)), [(2, 3)]);
}
