//! The clock of `cron_restart`, above all of an app that `autostart` does not start.

use std::time::Duration;

use forkful_core::slot::{Generation, State, Verb};
use forkful_core::spec::{AppSpec, CronPattern};
use forkful_core::supervisor::{Effect, Event, FirstStates};

use crate::driver::{Driver, spawned, spec};

const FIRST: Generation = Generation(0);

fn job(instances: u16) -> AppSpec {
    let mut job = spec("job", instances);
    job.autostart = false;
    job.restart.autorestart = false;
    job.renewal.cron = Some(CronPattern::new("0 3 * * *").unwrap());
    job
}

/// A day passes, and with it one point of the pattern.
fn strike(driver: &mut Driver) -> Vec<Effect> {
    driver.now = driver.now + Duration::from_secs(24 * 3600);
    driver.step(Event::Time)
}

fn waiting(slots: &[u16]) -> FirstStates {
    FirstStates { stopped: Some(slots.to_vec()), finished: Vec::new(), waits_for_cron: slots.to_vec() }
}

#[test]
fn it_runs_at_the_time_of_its_pattern_and_at_each_time_after_that() {
    let (mut driver, effects) = Driver::new(job(2));
    assert_eq!(spawned(&effects), []);
    assert_eq!(driver.app.saved_states(), waiting(&[0, 1]));
    let effects = strike(&mut driver);
    assert!(effects.contains(&Effect::Changed), "the saved state is another one");
    assert_eq!(spawned(&effects), [(0, 0), (1, 0)]);
    driver.serve(0, FIRST);
    driver.serve(1, FIRST);
    driver.exit(1, FIRST, 0);
    assert_eq!(driver.app.saved_states(), FirstStates { stopped: Some(vec![1]), ..waiting(&[1]) });
    assert!(driver.exit(0, FIRST, 0).contains(&Effect::Changed), "a reboot does not start it");
    assert_eq!(driver.app.saved_states(), waiting(&[0, 1]));
    assert_eq!(spawned(&strike(&mut driver)), [(0, 1), (1, 1)]);
}

#[test]
fn it_waits_on_after_a_reboot() {
    let (mut driver, effects) = Driver::created_as(job(1), waiting(&[0]));
    assert_eq!(spawned(&effects), []);
    assert_eq!(*driver.state(0), State::Stopped { last_exit: None });
    assert_eq!(driver.app.saved_states(), waiting(&[0]));
    assert_eq!(spawned(&strike(&mut driver)), [(0, 0)]);
}

#[test]
fn changed_files_do_not_start_it() {
    let (mut driver, _) = Driver::new(job(1));
    let effects = driver.step(Event::FilesChanged("job.js changed".to_owned()));
    assert_eq!(effects, []);
    assert_eq!(driver.app.saved_states(), waiting(&[0]));
}

#[test]
fn after_a_command_it_does_what_the_command_says() {
    let stopped = FirstStates { stopped: Some(vec![0]), ..FirstStates::default() };
    let (mut driver, _) = Driver::new(job(1));
    let (_, effects) = driver.stop(Verb::Stop);
    assert!(effects.contains(&Effect::Changed), "a daemon that follows must not start it");
    assert_eq!(driver.app.saved_states(), stopped);
    assert_eq!(spawned(&strike(&mut driver)), []);

    let (mut driver, _) = Driver::new(job(1));
    let (slots, job_id) = (vec![0], driver.job());
    assert_eq!(spawned(&driver.step(Event::Restart { slots, spec: None, job: job_id })), [(0, 0)]);
    assert_eq!(driver.app.saved_states().waits_for_cron, Vec::<u16>::new());
}

#[test]
fn an_app_that_is_created_stopped_waits_for_nothing() {
    let stopped = FirstStates { stopped: Some(vec![0]), ..FirstStates::default() };
    let (mut driver, _) = Driver::created_as(job(1), stopped.clone());
    assert_eq!(spawned(&strike(&mut driver)), []);
    assert_eq!(driver.app.saved_states(), stopped);
    assert_eq!(driver.exit(0, FIRST, 0), [], "an end that comes late changes nothing");
    let (mut driver, _) = Driver::new(AppSpec { autostart: false, ..spec("app", 1) });
    assert_eq!(driver.app.saved_states(), stopped, "it has no pattern");
    assert_eq!(spawned(&strike(&mut driver)), []);
}

#[test]
fn a_stop_that_was_not_carried_out_leaves_it_waiting() {
    let (mut driver, _) = Driver::new(job(2));
    let (job, first) = (driver.job(), [forkful_core::supervisor::AppId(7)].into());
    driver.step(Event::Stop { slots: vec![0, 1], verb: Verb::Stop, first, job });
    assert_eq!(driver.app.saved_states().waits_for_cron, Vec::<u16>::new());
    // Another command has one of the two start.
    let (slots, job) = (vec![0], driver.job());
    driver.step(Event::Restart { slots, spec: None, job });
    let left = FirstStates { stopped: Some(vec![1]), finished: Vec::new(), waits_for_cron: vec![1] };
    assert_eq!(driver.app.saved_states(), left);
}

/// The processes of a slot that follows a pattern, by the seconds after which they have begun to replace each other.
fn strikes(driver: &mut Driver, seconds: u64) -> Vec<u64> {
    let mut struck = Vec::new();
    for second in 1..=seconds {
        driver.now = driver.now + Duration::from_secs(1);
        let is_due = driver.app.next_wake().is_some_and(|at| at <= driver.now);
        let effects = if is_due { driver.step(Event::Time) } else { Vec::new() };
        for (slot, generation) in spawned(&effects) {
            driver.serve(slot, Generation(generation));
            driver.exit(slot, Generation(generation - 1), 0);
            struck.push(second);
        }
    }
    struck
}

#[test]
fn workers_are_replaced_at_each_time_of_the_pattern() {
    let mut app = spec("app", 1);
    app.renewal.cron = Some(CronPattern::new("*/2 * * * *").unwrap());
    let mut driver = Driver::online(app);
    // The clock began a hundred seconds ago. It is looked at a moment after each point.
    assert_eq!(strikes(&mut driver, 300), [21, 141, 261]);
    assert_eq!(driver.app.slots()[&0].upkeep.renewed.as_deref(), Some("its hour has come (`cron_restart`)"));
}

#[test]
fn a_new_definition_changes_the_times_and_one_with_the_same_pattern_does_not() {
    let with = |pattern: &str| {
        let mut app = spec("app", 1);
        app.renewal.cron = Some(CronPattern::new(pattern).unwrap());
        app
    };
    let mut driver = Driver::online(with("*/2 * * * *"));
    driver.now = driver.now + Duration::from_secs(19);
    driver.reload(Some(AppSpec { autostart: false, ..with("*/2 * * * *") }));
    driver.serve(0, Generation(1));
    driver.exit(0, FIRST, 0);
    assert_eq!(strikes(&mut driver, 100), [2]);
    driver.reload(Some(with("*/5 * * * *")));
    driver.serve(0, Generation(3));
    driver.exit(0, Generation(2), 0);
    assert_eq!(driver.app.next_strike_ms(), Some(300_000));
    driver.reload(Some(spec("app", 1)));
    driver.serve(0, Generation(4));
    assert_eq!(driver.app.next_strike_ms(), None);
}

#[test]
fn a_worker_that_fails_at_its_time_keeps_no_other_one_from_running() {
    let (mut driver, _) = Driver::new(job(2));
    assert_eq!(spawned(&strike(&mut driver)), [(0, 0), (1, 0)]);
    driver.exit(0, FIRST, 1);
    driver.serve(1, FIRST);
    assert!(!driver.app.is_reloading());
    let why = |slot| driver.app.slot(slot).unwrap().upkeep.renewed.clone().unwrap();
    assert!(!why(0).contains("serves on") && !why(1).contains("serves on"), "{}, {}", why(0), why(1));
    // One serves and is replaced, the other one starts.
    assert_eq!(spawned(&strike(&mut driver)), [(0, 1), (1, 1)]);
    driver.exit(1, Generation(1), 1);
    assert!(driver.app.slot(1).unwrap().upkeep.renewed.as_ref().unwrap().ends_with("so this one serves on"));
}
