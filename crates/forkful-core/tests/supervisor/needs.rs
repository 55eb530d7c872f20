//! Apps that need each other.

use forkful_core::slot::{Fault, Generation, Verb};
use forkful_core::spec::{AppName, AppSpec};
use forkful_core::supervisor::{AppId, Effect, Event, Readiness};

use crate::driver::{Driver, settled, spawned, spec, standing};

fn on_database() -> Driver {
    let mut web = spec("web", 2);
    web.depends_on = vec![AppName::new("database").unwrap()];
    let (driver, effects) = Driver::new(web);
    assert!(spawned(&effects).is_empty());
    assert_eq!(effects.iter().filter(|effect| matches!(effect, Effect::Owed(_))).count(), 2);
    driver
}

#[test]
fn an_app_is_started_when_what_it_depends_on_is_ready() {
    let mut driver = on_database();
    assert_eq!(driver.app.readiness(), Readiness::Coming);
    driver.others = vec![standing(9, "database", Readiness::Coming)];
    assert!(driver.step(Event::OthersMoved).is_empty());
    driver.others = vec![standing(9, "database", Readiness::Ready)];
    assert_eq!(spawned(&driver.step(Event::OthersMoved)), [(0, 0), (1, 0)]);
}

#[test]
fn an_app_is_not_started_when_what_it_depends_on_fails_or_is_gone() {
    for others in [vec![standing(9, "database", Readiness::Failed)], Vec::new()] {
        let mut driver = on_database();
        driver.others = others;
        let effects = driver.step(Event::OthersMoved);
        let fault = Fault::DependencyFailed { name: "database".to_owned() };
        assert_eq!(
            effects.iter().filter(|effect| matches!(effect, Effect::Failed(_, _, f) if *f == fault)).count(),
            2
        );
        assert_eq!(settled(&effects).len(), 2);
        assert!(driver.app.is_at_rest());
    }
}

#[test]
fn a_stop_waits_for_the_apps_that_go_first_and_another_command_overtakes_it() {
    let mut driver = Driver::online(spec("database", 1));
    let job = driver.job();
    driver.others = vec![standing(3, "web", Readiness::Ready)];
    let first = [AppId(3)].into();
    let effects = driver.step(Event::Stop { slots: vec![0], verb: Verb::Stop, first, job });
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Signal(..))));
    assert!(driver.app.looks_at(AppId(3), &AppName::new("web").unwrap()));
    assert!(driver.step(Event::OthersMoved).is_empty());
    driver.others = vec![standing(3, "web", Readiness::Failed)];
    assert!(driver.step(Event::OthersMoved).contains(&Effect::Signal(0, Generation(0))));
    assert_eq!(settled(&driver.exit(0, Generation(0), 0)), [job]);

    let mut driver = Driver::online(spec("database", 1));
    let job = driver.job();
    driver.others = vec![standing(3, "web", Readiness::Ready)];
    driver.step(Event::Stop { slots: vec![0], verb: Verb::Stop, first: [AppId(3)].into(), job });
    let restart = driver.job();
    let effects = driver.step(Event::Restart { slots: vec![0], spec: None, job: restart });
    assert!(effects.contains(&Effect::Failed(job, Some(0), Fault::Cancelled { by: Verb::Restart })));
}

#[test]
fn a_held_stop_ends_a_reload_that_has_begun_meanwhile() {
    let mut driver = Driver::online(spec("database", 2));
    let job = driver.job();
    driver.others = vec![standing(3, "web", Readiness::Ready)];
    driver.step(Event::Stop { slots: vec![0, 1], verb: Verb::Stop, first: [AppId(3)].into(), job });
    driver.reload(None);
    driver.others.clear();
    driver.step(Event::OthersMoved);
    driver.exit(0, Generation(1), 0);
    driver.exit(0, Generation(0), 0);
    let effects = driver.exit(1, Generation(0), 0);
    assert!(spawned(&effects).is_empty(), "the plan begins no slot that was stopped");
    assert!(driver.app.is_at_rest() && !driver.app.is_reloading());
}

#[test]
fn workers_that_are_added_to_a_start_that_waits_wait_too() {
    let ready = |driver: &mut Driver| {
        driver.others = vec![standing(9, "database", Readiness::Ready)];
        spawned(&driver.step(Event::OthersMoved))
    };
    let mut driver = on_database();
    let (_, effects) = driver.scale(3);
    assert!(spawned(&effects).is_empty(), "{effects:?}");
    driver.others = vec![standing(9, "database", Readiness::Coming)];
    let effects = driver.step(Event::FilesChanged("web.js changed".to_owned()));
    assert!(effects.is_empty(), "{effects:?}");
    assert_eq!(ready(&mut driver), [(0, 0), (1, 0), (2, 0)]);

    // One of them goes before: the start has its answer, and nothing failed.
    let mut driver = on_database();
    let (_, effects) = driver.scale(1);
    assert_eq!(settled(&effects).len(), 2, "of the start and of the scale: {effects:?}");
    assert_eq!(ready(&mut driver), [(0, 0)]);

    // A start by another definition, with another number of workers.
    let mut driver = on_database();
    driver.others = vec![standing(9, "database", Readiness::Coming)];
    driver.stop(Verb::Stop);
    let mut web = AppSpec::clone(driver.app.spec());
    web.instances = 3;
    let job = driver.job();
    let effects = driver.step(Event::Restart { slots: vec![0, 1], spec: Some(web.into()), job });
    assert!(spawned(&effects).is_empty(), "{effects:?}");
    assert_eq!(ready(&mut driver), [(0, 0), (1, 0), (2, 0)]);
}

#[test]
fn workers_that_a_command_stopped_are_counted_before_their_number_changes() {
    let mut driver = Driver::online(spec("web", 2));
    assert_eq!(driver.app.stopped_workers(3), 0);
    driver.stop(Verb::Stop);
    assert_eq!((driver.app.stopped_workers(3), driver.app.stopped_workers(1)), (2, 1));
    let (_, effects) = driver.scale(3);
    assert_eq!(spawned(&effects), [(2, 0)]);
    assert_eq!(driver.app.stopped_workers(3), 2);
}

#[test]
fn workers_that_are_added_while_a_delete_waits_are_deleted_with_the_app() {
    let mut driver = Driver::online(spec("database", 1));
    let job = driver.job();
    driver.others = vec![standing(3, "web", Readiness::Ready)];
    driver.step(Event::Stop { slots: vec![0], verb: Verb::Delete, first: [AppId(3)].into(), job });
    let (_, effects) = driver.scale(3);
    assert!(spawned(&effects).is_empty(), "{effects:?}");
    driver.others.clear();
    let mut effects = driver.step(Event::OthersMoved);
    effects.extend(driver.exit(0, Generation(0), 0));
    assert!(effects.contains(&Effect::Removed), "{effects:?}");
    assert_eq!(settled(&effects).iter().filter(|settled| **settled == job).count(), 3);
}
