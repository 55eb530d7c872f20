//! Apps that need each other.

use std::time::Duration;

use forkful_core::slot::{Fault, Generation, Verb};
use forkful_core::spec::{AppName, AppSpec, CronPattern};
use forkful_core::supervisor::{AppId, Effect, Event, JobId, Readiness, ReloadOrder, Whom};

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

fn ready(driver: &mut Driver) -> Vec<(u16, u32)> {
    driver.others = vec![standing(9, "database", Readiness::Ready)];
    spawned(&driver.step(Event::OthersMoved))
}

/// An app of two workers that served and that a command has stopped; what it depends on is on its way.
fn stopped() -> Driver {
    let mut driver = on_database();
    ready(&mut driver);
    (0..2).for_each(|slot| drop(driver.serve(slot, Generation(0))));
    driver.stop(Verb::Stop);
    (0..2).for_each(|slot| drop(driver.exit(slot, Generation(0), 0)));
    driver.others = vec![standing(9, "database", Readiness::Coming)];
    driver
}

fn restart(driver: &mut Driver, slots: &[u16]) -> (JobId, Vec<Effect>) {
    let (slots, job) = (slots.to_vec(), driver.job());
    (job, driver.step(Event::Restart { slots, spec: None, job }))
}

#[test]
fn a_stopped_app_whose_start_fails_is_not_ready_for_those_that_depend_on_it() {
    let mut driver = stopped();
    restart(&mut driver, &[0, 1]);
    driver.others = vec![standing(9, "database", Readiness::Failed)];
    driver.step(Event::OthersMoved);
    assert_eq!(driver.app.readiness(), Readiness::Failed);
    assert_eq!(driver.app.saved_states().finished, Vec::<u16>::new(), "it has not done its work");
    let record = driver.app.slot(0).unwrap();
    assert_eq!(record.last_exit, Some(forkful_core::slot::Exit::Code(0)), "as lists show it");
}

#[test]
fn a_program_that_finished_and_was_stopped_has_not_finished_after_a_start_that_fails() {
    let mut web = spec("web", 2);
    web.depends_on = vec![AppName::new("database").unwrap()];
    web.restart.autorestart = false;
    let (mut driver, _) = Driver::new(web);
    ready(&mut driver);
    for slot in 0..2 {
        driver.serve(slot, Generation(0));
        driver.exit(slot, Generation(0), 0);
    }
    assert_eq!(driver.app.readiness(), Readiness::Ready, "it has done its work");
    driver.stop(Verb::Stop);
    driver.others = vec![standing(9, "database", Readiness::Coming)];
    restart(&mut driver, &[0, 1]);
    driver.others.clear();
    driver.step(Event::OthersMoved);
    assert_eq!(driver.app.readiness(), Readiness::Failed);
}

#[test]
fn a_renewal_while_a_stop_waits_leaves_the_worker_stopped() {
    let mut app = spec("database", 2);
    app.renewal.max_requests = Some(100);
    let mut driver = Driver::online(app);
    // One worker is being replaced for changed files, and the other has its turn after it.
    driver.step(Event::FilesChanged("app.js changed".to_owned()));
    let job = driver.job();
    driver.others = vec![standing(3, "web", Readiness::Ready)];
    driver.step(Event::Stop { slots: vec![0, 1], verb: Verb::Stop, first: [AppId(3)].into(), job });
    driver.serve(0, Generation(1));
    let effects = driver.exit(0, Generation(0), 0);
    assert!(spawned(&effects).is_empty() && !driver.app.is_reloading(), "{effects:?}");
    for (slot, generation) in [(0, Generation(1)), (1, Generation(0))] {
        driver.step(Event::Requests { slot, generation, served: 200 });
    }
    assert!(spawned(&driver.pass(Duration::from_secs(3))).is_empty(), "no worker is renewed to be stopped");
    // A reload by a command does not undo the stop either.
    driver.reload(None);
    driver.others.clear();
    driver.step(Event::OthersMoved);
    assert!(driver.app.slots().values().all(|record| !record.wanted));
    assert_eq!(driver.app.saved_states().stopped, Some(vec![0, 1]));
}

#[test]
fn a_reload_of_an_app_that_runs_nothing_waits_for_what_it_depends_on() {
    // At rest, and while its start waits.
    for mut driver in [stopped(), on_database()] {
        driver.others = vec![standing(9, "database", Readiness::Coming)];
        let mut next = AppSpec::clone(driver.app.spec());
        next.launch.args = vec!["next".to_owned()];
        let (job, effects) = driver.reload(Some(next));
        assert!(spawned(&effects).is_empty(), "{effects:?}");
        assert_eq!(effects.iter().filter(|effect| **effect == Effect::Owed(job)).count(), 2);
        assert_eq!(driver.app.spec().launch.args, ["next"]);
        assert_eq!(ready(&mut driver).len(), 2);
        let settled = [settled(&driver.serve(0, Generation(1))), settled(&driver.serve(0, Generation(0)))];
        assert_eq!(settled.concat(), [job]);
    }
}

#[test]
fn a_time_of_its_pattern_starts_no_app_that_waits() {
    let mut web = spec("web", 1);
    web.depends_on = vec![AppName::new("database").unwrap()];
    web.renewal.cron = Some(CronPattern::new("0 3 * * *").unwrap());
    let (mut driver, _) = Driver::new(web);
    driver.others = vec![standing(9, "database", Readiness::Coming)];
    let day = Duration::from_secs(24 * 3600);
    assert!(spawned(&driver.pass(day)).is_empty());
    assert_eq!(ready(&mut driver), [(0, 0)]);
    driver.serve(0, Generation(0));
    assert_eq!(spawned(&driver.pass(Duration::from_secs(3600))), [], "that time is over");
    assert_eq!(spawned(&driver.pass(day)), [(0, 1)]);
}

#[test]
fn an_app_is_ready_while_a_worker_of_a_scale_down_finishes_its_requests() {
    let mut driver = Driver::online(spec("database", 2));
    driver.scale(1);
    assert_eq!(driver.app.readiness(), Readiness::Ready);
    driver.exit(1, Generation(0), 0);
    assert_eq!(driver.app.readiness(), Readiness::Ready);
}

#[test]
fn an_app_of_which_one_worker_is_stopped_is_ready_as_long_as_another_one_serves() {
    let mut driver = Driver::online(spec("database", 2));
    let stop = |driver: &mut Driver, slot| {
        let job = driver.job();
        driver.step(Event::Stop { slots: vec![slot], verb: Verb::Stop, first: [].into(), job });
    };
    stop(&mut driver, 0);
    assert_eq!(driver.app.readiness(), Readiness::Ready);
    driver.exit(0, Generation(0), 0);
    assert_eq!(driver.app.readiness(), Readiness::Ready);
    stop(&mut driver, 1);
    assert_eq!(driver.app.readiness(), Readiness::Coming);
    driver.exit(1, Generation(0), 0);
    assert_eq!(driver.app.readiness(), Readiness::Failed);
}

#[test]
fn a_command_for_one_worker_of_an_app_that_waits_leaves_the_others_waiting() {
    let waiting = || {
        let mut driver = on_database();
        driver.others = vec![standing(9, "database", Readiness::Coming)];
        driver
    };
    let mut driver = waiting();
    let (job, effects) = restart(&mut driver, &[1]);
    let cancelled = Effect::Failed(JobId(1), Some(1), Fault::Cancelled { by: Verb::Restart });
    assert!(effects.contains(&cancelled) && spawned(&effects).is_empty(), "{effects:?}");
    assert_eq!(ready(&mut driver), [(0, 0), (1, 0)]);
    assert_eq!(settled(&driver.serve(1, Generation(0))), [job]);
    assert_eq!(settled(&driver.serve(0, Generation(0))), [JobId(1)]);

    // Nothing is left of the command that was the first to wait, and a worker is added.
    let mut driver = waiting();
    let (job, _) = restart(&mut driver, &[1]);
    let one = driver.job();
    driver.step(Event::Stop { slots: vec![0], verb: Verb::Stop, first: [].into(), job: one });
    let (_, effects) = driver.scale(3);
    assert_eq!(effects.iter().filter(|effect| **effect == Effect::Owed(job)).count(), 1, "{effects:?}");

    for verb in [Verb::Stop, Verb::Delete] {
        let mut driver = waiting();
        let job = driver.job();
        let first = [AppId(4)].into();
        let effects = driver.step(Event::Stop { slots: vec![1], verb, first, job });
        assert_eq!(settled(&effects), [JobId(1), job], "nothing of it runs: {effects:?}");
        driver.scale(3);
        assert_eq!(ready(&mut driver)[0], (0, 0));
        let runs =
            |driver: &Driver, slot| driver.app.slot(slot).is_some_and(|record| !record.slot.is_at_rest());
        assert!(runs(&driver, 0) && runs(&driver, 2));
    }
}

#[test]
fn what_runs_is_renewed_while_the_start_of_another_worker_waits() {
    let mut driver = on_database();
    driver.others = vec![standing(9, "database", Readiness::Failed)];
    restart(&mut driver, &[0]);
    driver.serve(0, Generation(0));
    let effects = driver.step(Event::FilesChanged("web.js changed".to_owned()));
    assert_eq!(spawned(&effects), [(0, 1)]);
    driver.serve(0, Generation(1));
    driver.exit(0, Generation(0), 0);
    let order = ReloadOrder { job: Some(driver.job()), spec: None, whom: Whom::All };
    assert_eq!(spawned(&driver.step(Event::Reload(order))), [(0, 2)]);
    driver.serve(0, Generation(2));
    assert!(spawned(&driver.exit(0, Generation(1), 0)).is_empty(), "its start waits");
    assert_eq!(ready(&mut driver), [(1, 0)]);
}
