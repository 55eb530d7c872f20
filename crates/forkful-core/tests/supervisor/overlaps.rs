//! Commands that overlap: what waits for other apps, what is being deleted, what is reloaded.

use std::collections::BTreeMap;

use forkful_core::slot::{Generation, Verb};
use forkful_core::spec::AppName;
use forkful_core::supervisor::{AppId, AppSupervisor, Effect, Event, JobId, others_of};

use crate::driver::{Driver, settled, spawned, spec};

impl AsRef<AppSupervisor> for Driver {
    fn as_ref(&self) -> &AppSupervisor {
        &self.app
    }
}

/// A stop of all workers that waits for another app.
fn stop_after(driver: &mut Driver, other: AppId) -> JobId {
    let job = driver.job();
    let slots = driver.app.slots().keys().copied().collect();
    let effects = driver.step(Event::Stop { slots, verb: Verb::Stop, first: [other].into(), job });
    assert!(!signals(&effects));
    job
}

fn signals(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Signal(..)))
}

#[test]
fn a_stop_does_not_wait_for_an_app_that_runs_on() {
    let (database, web) = (AppId(1), AppId(2));
    let mut on_it = spec("web", 2);
    on_it.depends_on = vec![AppName::new("database").unwrap()];
    let mut apps =
        BTreeMap::from([(database, Driver::online(spec("database", 1))), (web, Driver::new(on_it).0)]);
    let go_on = |apps: &mut BTreeMap<AppId, Driver>, app: AppId| {
        let others = others_of(apps, app);
        let driver = apps.get_mut(&app).unwrap();
        driver.others = others;
        driver.step(Event::OthersMoved)
    };
    assert_eq!(spawned(&go_on(&mut apps, web)).len(), 2);
    (0..2).for_each(|slot| drop(apps.get_mut(&web).unwrap().serve(slot, Generation(0))));
    stop_after(apps.get_mut(&database).unwrap(), web);
    apps.get_mut(&web).unwrap().stop(Verb::Stop);
    assert!(!signals(&go_on(&mut apps, database)), "the other app is on its way out");
    let job = apps.get_mut(&web).unwrap().job();
    apps.get_mut(&web).unwrap().step(Event::Restart { slots: vec![1], spec: None, job });
    assert!(signals(&go_on(&mut apps, database)), "the other app may run for ever");
}

#[test]
fn a_slot_that_goes_while_its_command_waits_is_answered_for() {
    let mut driver = Driver::online(spec("database", 2));
    driver.scale(1);
    let job = stop_after(&mut driver, AppId(3));
    driver.exit(1, Generation(0), 0);
    assert!(driver.app.slot(1).is_none());
    let mut effects = driver.step(Event::OthersMoved);
    effects.extend(driver.exit(0, Generation(0), 0));
    assert_eq!(settled(&effects), [job, job]);
}

#[test]
fn what_was_to_run_before_a_stop_that_is_cancelled_is_to_run_again() {
    let mut driver = Driver::online(spec("database", 3));
    let job = driver.job();
    driver.step(Event::Stop { slots: vec![2], verb: Verb::Stop, first: [].into(), job });
    stop_after(&mut driver, AppId(3));
    let wanted =
        |driver: &Driver| driver.app.slots().values().map(|record| record.wanted).collect::<Vec<_>>();
    assert_eq!(wanted(&driver), [false, false, false]);
    let job = driver.job();
    driver.step(Event::Restart { slots: vec![1], spec: None, job });
    assert_eq!(wanted(&driver), [true, true, false]);
}

#[test]
fn a_reload_that_waits_starts_nothing_in_a_slot_that_is_deleted() {
    let mut driver = Driver::online(spec("web", 1));
    driver.reload(None);
    // The old process drains: the reload is not over.
    driver.serve(0, Generation(1));
    driver.stop(Verb::Delete);
    driver.exit(0, Generation(1), 0);
    let (job, _) = driver.reload(None);
    let effects = driver.exit(0, Generation(0), 0);
    assert_eq!(spawned(&effects), []);
    assert!(effects.contains(&Effect::Removed) && settled(&effects).contains(&job), "{effects:?}");
}
