//! What renews workers that run.

use std::time::Duration;

use forkful_core::slot::Generation;
use forkful_core::spec::{AppSpec, HealthCheck, HealthProbe};
use forkful_core::supervisor::{Effect, Event, Notice, Observation};
use forkful_core::upkeep::renewal::OwnMemory;
use forkful_core::upkeep::thrashing::Stall;

use crate::driver::{Driver, spawned, spec};

const FIRST: Generation = Generation(0);

fn checked(instances: u16) -> AppSpec {
    let mut spec = spec("app", instances);
    spec.health = Some(HealthCheck {
        probe: HealthProbe::Tcp { port: None },
        interval: Duration::from_secs(10),
        timeout: Duration::from_secs(2),
        failures_max: 2,
        start_period: Duration::from_secs(5),
        stuck_limit: Some(Duration::from_secs(3)),
    });
    spec
}

fn asked(effects: &[Effect]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::AskHealth(..))).count()
}

fn fails(driver: &mut Driver) -> Vec<Effect> {
    driver.step(Event::Health { slot: 0, generation: FIRST, answer: Err("status 503".to_owned()) })
}

#[test]
fn failed_checks_in_a_row_replace_the_worker_and_the_next_renewal_waits() {
    let mut spec = checked(1);
    spec.health.as_mut().unwrap().interval = Duration::from_secs(1);
    let mut driver = Driver::online(spec);
    assert_eq!(asked(&driver.pass(Duration::from_secs(5))), 1);
    let effects = fails(&mut driver);
    let failing = Notice::HealthCheckFailed { failures: 1, most: 2, fault: "status 503".to_owned() };
    assert_eq!(effects, [Effect::Notice(Some(0), failing)]);
    assert_eq!(asked(&driver.pass(Duration::from_secs(1))), 1);
    let effects = fails(&mut driver);
    assert_eq!(spawned(&effects), [(0, 1)]);
    assert!(
        !effects.iter().any(|effect| matches!(effect, Effect::Owed(_))),
        "no command waits for a renewal"
    );
    // The fresh worker fails: the old one serves on, and is not replaced again at once. An incident tells of it.
    let effects = driver.exit(0, Generation(1), 1);
    let failed = effects.iter().find_map(|effect| match effect {
        Effect::Reloaded(None, result) => result.failure.as_ref(),
        _ => None,
    });
    assert!(failed.is_some_and(|failure| failure.old_serves), "{effects:?}");
    let why = driver.app.slot(0).unwrap().upkeep.renewed.clone().unwrap();
    assert!(why.ends_with("status 503; the new worker failed, so this one serves on"), "{why}");
    for _ in 0..4 {
        assert_eq!(asked(&driver.pass(Duration::from_secs(1))), 1);
        assert!(spawned(&fails(&mut driver)).is_empty());
    }
}

#[test]
fn an_answer_that_nobody_asked_for_changes_nothing() {
    let mut driver = Driver::online(checked(1));
    let refused = |driver: &mut Driver| {
        let before = driver.app.clone();
        assert!(fails(driver).is_empty() && driver.app == before);
    };
    refused(&mut driver);
    assert_eq!(asked(&driver.pass(Duration::from_secs(5))), 1);
    assert_eq!(fails(&mut driver).len(), 1);
    refused(&mut driver);
    // The worker could not be asked yet.
    driver.pass(Duration::from_secs(10));
    driver.step(Event::ChannelBusy { slot: 0, generation: FIRST });
    refused(&mut driver);
    // The question was about another definition.
    assert_eq!(asked(&driver.pass(Duration::from_millis(20))), 1);
    driver.reload(Some(checked(2)));
    refused(&mut driver);
}

#[test]
fn a_busy_channel_is_tried_again_until_the_time_of_the_check_is_over() {
    let mut driver = Driver::online(checked(1));
    driver.pass(Duration::from_secs(5));
    let mut tries = 0;
    let fault = loop {
        let busy = driver.step(Event::ChannelBusy { slot: 0, generation: FIRST });
        if let Some(Effect::Notice(_, notice)) = busy.first() {
            break notice.to_string();
        }
        assert_eq!(asked(&driver.pass(Duration::from_millis(20))), 1);
        tries += 1;
    };
    assert_eq!(tries, 100);
    assert_eq!(fault, "health check 1 of 2 failed: its event loop has not turned for 2000 ms");
}

#[test]
fn a_loop_that_stands_still_for_longer_than_its_limit_is_killed_once() {
    let mut driver = Driver::online(checked(1));
    let silent = |seconds| Event::Silent {
        slot: 0,
        generation: FIRST,
        silent: Duration::from_secs(seconds),
        report: "it was busy".to_owned(),
    };
    assert!(driver.step(silent(2)).is_empty());
    assert!(driver.step(silent(3)).contains(&Effect::Kill(0, FIRST)));
    assert!(driver.step(silent(9)).is_empty());
}

#[test]
fn a_worker_that_thrashes_in_its_memory_limit_is_killed_once_without_any_setting() {
    let mut app = spec("app", 2);
    app.limits.memory_bytes = Some(200 << 20);
    let mut driver = Driver::online(app);
    let looks = |effects: &[Effect]| effects.iter().filter(|effect| **effect == Effect::Observe).count();
    assert_eq!(looks(&driver.pass(Duration::from_secs(3))), 3);
    assert!(driver.step(Event::Observed(Vec::new())).is_empty());
    let stalled = |seconds, major_faults| {
        let stall = Stall {
            silent: Duration::from_secs(seconds),
            major_faults,
            counted_for: Duration::from_secs(seconds),
            own_bytes: 90 << 20,
            used_bytes: 199 << 20,
            limit_bytes: 200 << 20,
        };
        Event::Stalled(vec![(1, FIRST, stall)])
    };
    assert!(driver.step(stalled(9, 900)).is_empty());
    assert!(driver.step(stalled(60, 0)).is_empty(), "it computes");
    let effects = driver.step(stalled(10, 1000));
    let [Effect::Notice(Some(1), notice), Effect::Kill(1, FIRST)] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert!(notice.to_string().starts_with("killed: its event loop stood still for 10.0 s"), "{notice}");
    assert!(driver.step(stalled(11, 1100)).is_empty());
}

#[test]
fn of_workers_that_thrash_together_the_largest_is_killed_and_the_others_may_go_on() {
    let mut app = spec("app", 3);
    app.limits.memory_bytes = Some(200 << 20);
    let mut driver = Driver::online(app);
    let stalled = |sizes: &[(u16, u64)]| {
        let of = |(slot, own): &(u16, u64)| {
            let stall = Stall {
                silent: Duration::from_secs(10),
                major_faults: 1000,
                counted_for: Duration::from_secs(10),
                own_bytes: own << 20,
                used_bytes: 199 << 20,
                limit_bytes: 200 << 20,
            };
            (*slot, FIRST, stall)
        };
        Event::Stalled(sizes.iter().map(of).collect())
    };
    let killed = |effects: Vec<Effect>| -> Vec<u16> {
        let slot = |effect: &Effect| if let Effect::Kill(slot, _) = effect { Some(*slot) } else { None };
        effects.iter().filter_map(slot).collect()
    };
    assert_eq!(killed(driver.step(stalled(&[(0, 40), (1, 100), (2, 50)]))), [1]);
    assert!(killed(driver.step(stalled(&[(0, 40), (2, 50)]))).is_empty(), "the first is not gone yet");
    driver.exit(1, FIRST, 137);
    assert_eq!(killed(driver.step(stalled(&[(0, 40), (2, 50)]))), [2], "it was not enough");
}

#[test]
fn a_worker_that_owes_an_answer_is_looked_at_when_its_limit_is_over() {
    let mut driver = Driver::online(checked(1));
    let looks = |effects: &[Effect]| effects.contains(&Effect::LookWhetherStuck(0, FIRST));
    let owes = |driver: &mut Driver| {
        let since = driver.now;
        driver.step(Event::Owes { slot: 0, generation: FIRST, since });
    };
    owes(&mut driver);
    assert!(!looks(&driver.pass(Duration::from_secs(3))));
    assert!(looks(&driver.pass(Duration::from_millis(5))));
    assert!(!looks(&driver.pass(Duration::from_secs(30))), "once");
    owes(&mut driver);
    driver.pass(Duration::from_secs(2));
    // It has answered, and owes the next answer.
    owes(&mut driver);
    assert!(!looks(&driver.pass(Duration::from_secs(2))));
    assert!(looks(&driver.pass(Duration::from_secs(2))));
}

#[test]
fn limits_renew_one_worker_at_a_time() {
    let mut app = spec("app", 3);
    app.renewal.max_requests = Some(100);
    let mut driver = Driver::online(app);
    for slot in 0..3 {
        driver.step(Event::Requests { slot, generation: FIRST, served: 100 });
    }
    let effects = driver.pass(Duration::from_secs(3));
    assert_eq!(spawned(&effects), [(0, 1)], "the others have their turn after it");
}

#[test]
fn a_worker_that_grows_fast_is_looked_at_sooner_and_renewed_above_its_limit() {
    let mut app = spec("app", 1);
    app.renewal.max_memory_bytes = Some(1000);
    let mut driver = Driver::online(app);
    let looks = |effects: &[Effect]| effects.iter().filter(|effect| **effect == Effect::Observe).count();
    let seen = |memory_bytes| {
        Event::Observed(vec![Observation { slot: 0, generation: FIRST, memory_bytes, own: None }])
    };
    assert_eq!(looks(&driver.pass(Duration::from_secs(1))), 1);
    driver.step(seen(900));
    assert!(looks(&driver.pass(Duration::from_millis(100))) >= 1);
    assert_eq!(spawned(&driver.step(seen(1001))), [(0, 1)]);
}

/// What was seen of workers of an app with a memory plan: slot, generation, own bytes; the limit is 100.
fn planned(seen: &[(u16, u32, u64)]) -> Event {
    let observation = |(slot, generation, bytes): &(u16, u32, u64)| Observation {
        slot: *slot,
        generation: Generation(*generation),
        memory_bytes: bytes + 1000,
        own: Some(OwnMemory { bytes: *bytes, limit: 100 }),
    };
    Event::Observed(seen.iter().map(observation).collect())
}

#[test]
fn a_memory_plan_replaces_the_largest_worker_first_and_as_often_as_they_grow() {
    let mut app = spec("app", 2);
    app.memory_auto = true;
    let mut driver = Driver::online(app);
    assert!(driver.pass(Duration::from_secs(1)).contains(&Effect::Observe));
    assert_eq!(spawned(&driver.step(planned(&[(0, 0, 30), (1, 0, 30)]))), []);
    driver.pass(Duration::from_secs(9));
    assert_eq!(spawned(&driver.step(planned(&[(0, 0, 101), (1, 0, 104)]))), [(1, 1)]);
    driver.serve(1, Generation(1));
    assert_eq!(spawned(&driver.step(planned(&[(0, 0, 102), (1, 1, 30)]))), [], "the old one is leaving");
    driver.exit(1, FIRST, 0);
    assert_eq!(spawned(&driver.step(planned(&[(0, 0, 103), (1, 1, 30)]))), [(0, 1)]);
    driver.serve(0, Generation(1));
    driver.exit(0, FIRST, 0);
    driver.pass(Duration::from_secs(9));
    let grown = planned(&[(0, 1, 30), (1, 1, 101)]);
    assert_eq!(spawned(&driver.step(grown)), [(1, 2)], "a worker of 10 s gives memory back");
    let renewed = driver.app.slot(1).unwrap().upkeep.renewed.clone().unwrap();
    assert!(renewed.contains("`memory: auto`"), "{renewed}");
}

#[test]
fn a_worker_that_begins_with_more_than_its_plan_is_not_replaced_over_and_over() {
    let mut app = spec("app", 1);
    app.memory_auto = true;
    let mut driver = Driver::online(app);
    let mut begun = 0;
    for second in 0..600 {
        driver.pass(Duration::from_secs(1));
        let seen = planned(&[(0, begun, 150)]);
        if !spawned(&driver.step(seen)).is_empty() {
            driver.serve(0, Generation(begun + 1));
            driver.exit(0, Generation(begun), 0);
            begun += 1;
            assert!(begun < 10, "{begun} starts in {second} s");
        }
    }
    assert!(begun > 1);
}

#[test]
fn a_reload_of_an_app_with_a_memory_plan_has_one_worker_more_at_a_time() {
    let mut app = spec("app", 3);
    app.memory_auto = true;
    let mut driver = Driver::online(app);
    let (_, effects) = driver.reload(None);
    assert_eq!(spawned(&effects), [(0, 1)]);
    assert_eq!(spawned(&driver.serve(0, Generation(1))), [], "the old worker still has its memory");
    assert_eq!(spawned(&driver.exit(0, FIRST, 0)), [(1, 1)]);
}

#[test]
fn the_clock_and_changed_files_renew_those_that_should_run() {
    let mut driver = Driver::online(spec("app", 2));
    let job = driver.job();
    driver.step(Event::Stop { slots: vec![0], verb: forkful_core::slot::Verb::Stop, first: [].into(), job });
    driver.exit(0, FIRST, 0);
    let effects = driver.step(Event::FilesChanged("app.js changed".to_owned()));
    assert_eq!(spawned(&effects), [(1, 1)]);
    assert_eq!(driver.app.slot(0).unwrap().upkeep.renewed, None);
    assert_eq!(driver.app.slot(1).unwrap().upkeep.renewed.as_deref(), Some("app.js changed"));
}

/// An app whose worker has too much memory as soon as it is looked at.
fn too_large(driver: &mut Driver, generation: u32) -> Vec<(u16, u32)> {
    let generation = Generation(generation);
    let seen = Observation { slot: 0, generation, memory_bytes: 2000, own: None };
    spawned(&driver.step(Event::Observed(vec![seen])))
}

#[test]
fn reloads_of_the_user_that_fail_do_not_make_renewals_wait() {
    let mut app = spec("app", 1);
    app.renewal.max_memory_bytes = Some(1000);
    let mut driver = Driver::online(app);
    driver.pass(Duration::from_secs(100));
    for generation in 1..4 {
        driver.reload(None);
        driver.exit(0, Generation(generation), 1);
    }
    // A renewal that fails makes the next one wait.
    assert_eq!(too_large(&mut driver, 0), [(0, 4)]);
    driver.exit(0, Generation(4), 1);
    assert_eq!(too_large(&mut driver, 0), []);
    // What the user has brought works.
    driver.reload(None);
    driver.serve(0, Generation(5));
    driver.exit(0, FIRST, 0);
    driver.pass(Duration::from_secs(1));
    assert_eq!(too_large(&mut driver, 5), [(0, 6)]);
}

#[test]
fn a_renewal_that_a_command_cancels_has_not_failed() {
    let mut app = spec("app", 1);
    app.renewal.max_memory_bytes = Some(1000);
    let mut driver = Driver::online(app);
    driver.pass(Duration::from_secs(100));
    assert_eq!(too_large(&mut driver, 0), [(0, 1)]);
    let job = driver.job();
    driver.step(Event::Restart { slots: vec![0], spec: None, job });
    driver.exit(0, Generation(1), 0);
    driver.exit(0, FIRST, 0);
    driver.serve(0, Generation(2));
    driver.pass(Duration::from_secs(100));
    assert_eq!(too_large(&mut driver, 2), [(0, 3)]);
}
