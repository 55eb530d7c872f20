//! Reloads: their order, what they do to the definition, and what overtakes them.

use std::rc::Rc;
use std::time::Duration;

use forkful_core::apply::Doing;
use forkful_core::slot::{Event as SlotEvent, Exit, Fault, Generation, State, Verb};
use forkful_core::spec::{AppSpec, Mode, ResourceLimits, Runtime};
use forkful_core::supervisor::{Effect, Event, Note, Notice, ReloadOrder, Whom};

use crate::driver::{Driver, settled, spawned, spec};

fn version(args: &str, instances: u16) -> AppSpec {
    let mut spec = spec("app", instances);
    spec.launch.args = vec![args.to_owned()];
    spec
}

fn runs(driver: &Driver) -> &str {
    driver.app.spec().launch.args.first().map_or("", String::as_str)
}

#[test]
fn workers_are_replaced_one_after_the_other_and_then_their_number_changes() {
    let mut driver = Driver::online(version("old", 2));
    let (job, effects) = driver.reload(Some(version("new", 3)));
    assert_eq!(spawned(&effects), [(0, 1)]);
    assert_eq!((runs(&driver), driver.app.spec().instances), ("new", 2));
    let effects = driver.serve(0, Generation(1));
    assert_eq!(spawned(&effects), [(1, 1)], "the second begins when the first serves");
    assert!(effects.contains(&Effect::Drain { slot: 0, generation: Generation(0), job: Some(job) }));
    driver.serve(1, Generation(1));
    driver.exit(0, Generation(0), 0);
    let effects = driver.exit(1, Generation(0), 0);
    assert!(effects.contains(&Effect::Note(job, Note::Scaled { from: 2, to: 3 })));
    assert_eq!(spawned(&effects), [(2, 0)]);
    let effects = driver.serve(2, Generation(0));
    assert_eq!(settled(&effects), [job], "the new worker's answer is the last");
    assert!(!driver.app.is_reloading());
}

#[test]
fn a_reload_for_changed_files_keeps_no_plan_from_an_app() {
    let mut driver = Driver::online(version("old", 2));
    driver.step(Event::FilesChanged("app.js changed".to_owned()));
    assert_eq!((driver.app.is_reloading(), Doing::of(&driver.app)), (true, None));
    driver.reload(Some(version("new", 2)));
    assert_eq!(Doing::of(&driver.app), Some(Doing::Reloading), "a command waits for it");
    let mut driver = Driver::online(version("old", 2));
    driver.reload(None);
    assert_eq!(Doing::of(&driver.app), Some(Doing::Reloading));
}

#[test]
fn a_version_that_does_not_start_leaves_the_old_definition_and_the_old_workers() {
    let mut driver = Driver::online(version("old", 2));
    let (job, _) = driver.reload(Some(version("broken", 4)));
    let effects = driver.exit(0, Generation(1), 1);
    let failure = effects.iter().find_map(|effect| match effect {
        Effect::Reloaded(_, result) => result.failure.clone(),
        _ => None,
    });
    let failure = failure.expect("it has failed");
    assert_eq!((failure.slot, failure.old_serves), (0, true));
    assert_eq!(settled(&effects), [job]);
    assert_eq!((runs(&driver), driver.app.spec().instances), ("old", 2));
    assert!(driver.app.slots().values().all(|record| matches!(record.slot.state, State::Online(_))));
}

#[test]
fn limits_are_enough_for_both_versions_for_as_long_as_both_run() {
    let limits = |mebi: Option<u64>, millicores| ResourceLimits {
        memory_bytes: mebi.map(|mebi| mebi << 20),
        millicores,
    };
    let old = limits(Some(400), Some(1500));
    let with = |args, limits| AppSpec { limits, ..version(args, 1) };
    for (new, both) in [
        (limits(Some(250), Some(50)), old),
        (limits(Some(500), Some(50)), limits(Some(500), Some(1500))),
        (limits(None, Some(2000)), limits(None, Some(2000))),
    ] {
        let begun = || {
            let mut driver = Driver::online(with("old", old));
            assert_eq!(driver.app.limits(old), old);
            driver.reload(Some(with("new", new)));
            assert_eq!(driver.app.limits(old), both, "{new:?}");
            driver
        };
        let mut failed = begun();
        failed.exit(0, Generation(1), 1);
        assert_eq!(failed.app.limits(both), old, "the old version serves on");
        let mut done = begun();
        done.serve(0, Generation(1));
        assert_eq!(done.app.limits(both), both, "the old process still leaves");
        done.exit(0, Generation(0), 0);
        assert_eq!(done.app.limits(both), new);
        let mut restarted = Driver::online(with("old", old));
        let job = restarted.job();
        let next = Some(Rc::new(with("new", new)));
        restarted.step(Event::Restart { slots: vec![0], spec: next, job });
        assert_eq!(restarted.app.limits(old), both, "the process before is told to stop");
    }
}

#[test]
fn a_version_that_fails_soon_after_it_served_replaces_no_further_worker() {
    let failure = |effects: &[Effect]| {
        effects.iter().find_map(|effect| match effect {
            Effect::Reloaded(_, result) => Some((result.replaced.clone(), result.failure.clone())),
            _ => None,
        })
    };
    let begun = |workers: u16| {
        let mut driver = Driver::online(version("old", workers));
        driver.reload(Some(version("broken", workers)));
        driver.serve(0, Generation(1));
        driver.exit(0, Generation(0), 0);
        driver
    };
    let mut driver = begun(3);
    assert!(failure(&driver.exit(0, Generation(1), 1)).is_none(), "slot 1 is being replaced");
    assert_eq!(runs(&driver), "old");
    driver.serve(1, Generation(1));
    let (replaced, failed) = failure(&driver.exit(1, Generation(0), 0)).expect("it is over");
    assert_eq!((replaced, failed.map(|failed| failed.slot)), (vec![0, 1], Some(0)));
    assert_eq!(driver.app.slot(2).unwrap().online(), Some(Generation(0)));
    // Nothing is left to keep.
    let mut driver = begun(2);
    driver.exit(0, Generation(1), 1);
    driver.serve(1, Generation(1));
    let (_, failed) = failure(&driver.exit(1, Generation(0), 0)).expect("it is over");
    assert!(failed.is_none());
    // Somebody has killed it, or it has served for a while.
    for (passed, signal) in [(Duration::ZERO, Some(9)), (Duration::from_secs(2), None)] {
        let mut driver = begun(3);
        driver.pass(passed);
        match signal {
            Some(signal) => {
                driver.step(Event::Slot(0, SlotEvent::Exited(Generation(1), Exit::Signal(signal))))
            }
            None => driver.exit(0, Generation(1), 1),
        };
        driver.serve(1, Generation(1));
        driver.exit(1, Generation(0), 0);
        driver.serve(2, Generation(1));
        let (replaced, failed) = failure(&driver.exit(2, Generation(0), 0)).expect("it is over");
        assert!(replaced.len() == 3 && failed.is_none(), "{signal:?}");
    }
}

#[test]
fn a_version_that_never_listens_is_given_up_and_the_old_one_serves() {
    let mut driver = Driver::online(version("old", 2));
    driver.reload(Some(version("silent", 2)));
    driver.step(Event::Runs(0, Generation(1)));
    let effects = driver.pass(Duration::from_secs(40));
    assert!(effects.contains(&Effect::Signal(0, Generation(1))) && spawned(&effects).is_empty());
    driver.exit(0, Generation(1), 0);
    assert!(!driver.app.is_reloading());
    assert!((0..2).all(|slot| driver.app.slot(slot).unwrap().online() == Some(Generation(0))));
    assert_eq!(runs(&driver), "old");
}

/// Programs that do not listen, such as workers of a queue, never say that they are ready.
#[test]
fn a_reload_of_programs_that_are_still_starting_and_say_nothing_is_no_failure() {
    let (mut driver, _) = Driver::new(version("quiet", 2));
    driver.step(Event::Runs(0, Generation(0)));
    driver.step(Event::Runs(1, Generation(0)));
    driver.reload(None);
    assert_eq!(spawned(&driver.exit(0, Generation(0), 0)), [(0, 1)]);
    driver.step(Event::Runs(0, Generation(1)));
    let mut effects = driver.pass(Duration::from_secs(40));
    assert_eq!(spawned(&effects), [(1, 1)], "the first counts as started, and it is the turn of the second");
    driver.step(Event::Runs(1, Generation(1)));
    effects = driver.pass(Duration::from_secs(40));
    effects.extend(driver.exit(1, Generation(0), 0));
    assert_eq!(reload_failures(&effects), Some(Vec::new()));
}

#[test]
fn a_reload_of_a_worker_that_had_crashed_wants_to_be_told_that_the_new_one_is_ready() {
    let mut driver = Driver::online(version("old", 1));
    assert_eq!(spawned(&driver.exit(0, Generation(0), 1)), [(0, 1)]);
    driver.reload(Some(version("silent", 1)));
    assert_eq!(spawned(&driver.exit(0, Generation(1), 0)), [(0, 2)]);
    driver.step(Event::Runs(0, Generation(2)));
    let effects = driver.pass(Duration::from_secs(40));
    let failures = reload_failures(&effects).expect("it is over");
    assert!(matches!(failures[..], [Fault::NotReadyInTime { .. }]), "{failures:?}");
}

/// Why reloads have failed; `None` if none has ended.
fn reload_failures(effects: &[Effect]) -> Option<Vec<Fault>> {
    let results = effects.iter().filter_map(|effect| match effect {
        Effect::Reloaded(_, result) => Some(result),
        _ => None,
    });
    let results: Vec<_> = results.collect();
    let failures = results.iter().filter_map(|result| Some(result.failure.as_ref()?.fault.clone()));
    (!results.is_empty()).then(|| failures.collect())
}

#[test]
fn a_second_reload_waits_and_is_dropped_when_its_client_has_gone() {
    let mut driver = Driver::online(version("old", 1));
    driver.reload(None);
    let (second, effects) = driver.reload(Some(version("new", 1)));
    assert!(effects.contains(&Effect::Note(second, Note::WaitedForReload)));
    assert!(spawned(&effects).is_empty());
    driver.serve(0, Generation(1));
    driver.abandoned = driver.app.waiting_reloads().collect();
    assert_eq!(driver.abandoned, [second]);
    let effects = driver.exit(0, Generation(0), 0);
    assert!(effects.contains(&Effect::Notice(None, Notice::ReloadDropped)));
    assert!(settled(&effects).contains(&second));
    assert_eq!(runs(&driver), "old");
}

#[test]
fn a_scale_outlives_the_reload_under_way_and_the_one_that_waits() {
    let mut driver = Driver::online(version("old", 2));
    driver.reload(Some(version("new", 4)));
    driver.reload(Some(version("newer", 5)));
    driver.scale(1);
    driver.exit(1, Generation(0), 0);
    driver.serve(0, Generation(1));
    driver.exit(0, Generation(0), 0);
    driver.serve(0, Generation(2));
    driver.exit(0, Generation(1), 0);
    assert!(!driver.app.is_reloading());
    assert_eq!((runs(&driver), driver.app.spec().instances, driver.app.slots().len()), ("newer", 1, 1));
}

#[test]
fn a_stop_ends_the_reload_and_those_that_wait() {
    let mut driver = Driver::online(version("old", 2));
    let (first, _) = driver.reload(Some(version("new", 2)));
    let (second, _) = driver.reload(None);
    let (stop, effects) = driver.stop(Verb::Stop);
    assert!(effects.contains(&Effect::Failed(second, Some(0), Fault::Cancelled { by: Verb::Stop })));
    driver.exit(0, Generation(1), 0);
    driver.exit(0, Generation(0), 0);
    let effects = driver.exit(1, Generation(0), 0);
    assert!(spawned(&effects).is_empty());
    assert!(settled(&effects).contains(&stop));
    assert!(driver.app.is_at_rest() && !driver.app.is_reloading());
    assert_eq!(runs(&driver), "old", "the new version never served");
    let _ = first;
}

#[test]
fn fork_mode_workers_are_stopped_first() {
    let mut old = version("old", 1);
    old.mode = Mode::Fork;
    let (mut driver, _) = Driver::new(old);
    driver.said_ready(0, Generation(0));
    let (job, effects) = driver.reload(None);
    assert!(effects.contains(&Effect::Note(job, Note::NotRolling)));
    assert!(effects.contains(&Effect::Signal(0, Generation(0))) && spawned(&effects).is_empty());
    assert_eq!(spawned(&driver.exit(0, Generation(0), 0)), [(0, 1)]);
}

#[test]
fn what_reloads_without_a_gap_depends_on_the_program() {
    let of = |runtime, agent| {
        let mut spec = version("old", 1);
        (spec.launch.runtime, spec.agent) = (runtime, agent);
        Note::NotRolling.told(&spec)
    };
    assert!(
        of(Runtime::Node, true).ends_with("in the main thread, on a port or a named socket, or with `-i 1`")
    );
    assert!(of(Runtime::Node, false).ends_with("(without `--no-agent`), or with `-i 1`"));
    assert!(of(Runtime::Other, true).ends_with("in Bun `reusePort: true`)"));
}

/// A process in fork mode to which the primary lends its sockets.
fn lent() -> AppSpec {
    let mut spec = version("old", 1);
    spec.mode = Mode::Fork;
    spec
}

#[test]
fn a_fork_mode_worker_whose_sockets_are_lent_serves_until_its_successor_listens() {
    let mut driver = Driver::online(lent());
    let (job, effects) = driver.reload(None);
    assert!(!effects.contains(&Effect::Note(job, Note::NotRolling)));
    assert_eq!(spawned(&effects), [(0, 1)]);
    driver.step(Event::Runs(0, Generation(1)));
    // Neither its life nor its word makes it ready.
    driver.slot(0, SlotEvent::Greeted(Generation(1)));
    driver.step(Event::SaidReady(0, Generation(1)));
    driver.pass(Duration::from_secs(20));
    assert_eq!(driver.app.slot(0).unwrap().online(), Some(Generation(0)));
    let effects = driver.serve(0, Generation(1));
    let drain = Effect::Drain { slot: 0, generation: Generation(0), job: Some(job) };
    assert!(effects.contains(&drain), "{effects:?}");
    assert!(!effects.contains(&Effect::Signal(0, Generation(0))), "it has requests to finish");
    let effects = driver.slot(0, SlotEvent::Drained(Generation(0)));
    assert!(effects.contains(&Effect::Signal(0, Generation(0))));
    assert_eq!(settled(&driver.exit(0, Generation(0), 0)), [job]);
}

#[test]
fn a_fork_mode_worker_whose_sockets_are_lent_stays_when_its_successor_does_not_listen() {
    let mut driver = Driver::online(lent());
    let (_, effects) = driver.reload(None);
    assert_eq!(spawned(&effects), [(0, 1)]);
    driver.step(Event::Runs(0, Generation(1)));
    let effects = driver.pass(Duration::from_secs(31));
    assert!(effects.contains(&Effect::Signal(0, Generation(1))), "{effects:?}");
    assert_eq!(driver.app.slot(0).unwrap().online(), Some(Generation(0)));
}

#[test]
fn a_definition_without_the_agent_or_in_another_mode_does_not_start_beside_a_process_whose_sockets_are_lent()
{
    let without_agent = AppSpec { agent: false, ..lent() };
    let cluster = AppSpec { mode: Mode::Cluster, ..lent() };
    for next in [without_agent, cluster] {
        let mut driver = Driver::online(lent());
        let (job, effects) = driver.reload(Some(next));
        assert!(effects.contains(&Effect::Note(job, Note::NotRolling)));
        assert!(spawned(&effects).is_empty());
    }
    // Of a process that has ended nothing is known any more.
    let mut driver = Driver::online(lent());
    driver.exit(0, Generation(0), 1);
    driver.step(Event::Runs(0, Generation(1)));
    driver.pass(Duration::from_secs(15));
    let (job, effects) = driver.reload(None);
    assert!(effects.contains(&Effect::Note(job, Note::NotRolling)), "the second one has not listened");
}

#[test]
fn deleting_the_last_slot_removes_the_app_once() {
    let mut driver = Driver::online(version("old", 2));
    let (job, _) = driver.stop(Verb::Delete);
    let effects = driver.exit(1, Generation(0), 0);
    assert_eq!(settled(&effects), [job]);
    assert_eq!(driver.app.spec().instances, 0, "no slot stays");
    let effects = driver.exit(0, Generation(0), 0);
    assert_eq!(effects.iter().filter(|effect| **effect == Effect::Removed).count(), 1);
    assert!(driver.pass(Duration::from_secs(60)).is_empty());
}

#[test]
fn a_fork_mode_worker_that_is_scaled_away_has_nothing_to_finish() {
    let mut old = version("old", 2);
    old.mode = Mode::Fork;
    let (mut driver, _) = Driver::new(old);
    for slot in 0..2 {
        driver.said_ready(slot, Generation(0));
    }
    let (_, effects) = driver.scale(1);
    assert!(effects.contains(&Effect::Signal(1, Generation(0))), "{effects:?}");
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Drain { .. })));
}

/// Both workers are replaced by another version, and the old ones still have requests.
fn draining(next: AppSpec) -> Driver {
    let mut driver = Driver::online(version("old", 2));
    driver.reload(Some(next));
    for slot in 0..2 {
        driver.serve(slot, Generation(1));
    }
    assert!(driver.app.is_reloading());
    driver
}

/// The old ones end.
fn drained(driver: &mut Driver) -> Vec<Effect> {
    [driver.exit(0, Generation(0), 0), driver.exit(1, Generation(0), 0)].concat()
}

#[test]
fn an_app_that_is_deleted_while_old_workers_leave_does_not_come_back() {
    for next in [version("new", 2), version("new", 4)] {
        let mut driver = draining(next);
        let (job, _) = driver.stop(Verb::Delete);
        let mut effects = driver.exit(0, Generation(1), 0);
        effects.extend(driver.exit(1, Generation(1), 0));
        effects.extend(drained(&mut driver));
        assert!(spawned(&effects).is_empty(), "{effects:?}");
        assert_eq!(settled(&effects).iter().filter(|settled| **settled == job).count(), 2);
        assert_eq!(effects.iter().filter(|effect| **effect == Effect::Removed).count(), 1);
        assert!(driver.app.slots().is_empty());
    }
}

#[test]
fn a_worker_that_is_deleted_or_an_app_that_is_stopped_while_old_workers_leave_is_not_started_again() {
    let mut driver = draining(version("new", 2));
    let job = driver.job();
    driver.step(Event::Stop { slots: vec![1], verb: Verb::Delete, first: [].into(), job });
    let mut effects = driver.exit(1, Generation(1), 0);
    effects.extend(drained(&mut driver));
    assert!(spawned(&effects).is_empty() && !driver.app.is_reloading(), "{effects:?}");
    assert_eq!((driver.app.spec().instances, driver.app.slots().len()), (1, 1));

    let mut driver = draining(version("new", 4));
    driver.stop(Verb::Stop);
    let mut effects = drained(&mut driver);
    effects.extend([driver.exit(0, Generation(1), 0), driver.exit(1, Generation(1), 0)].concat());
    assert!(spawned(&effects).is_empty() && driver.app.is_at_rest(), "{effects:?}");
}

#[test]
fn a_restart_while_old_workers_leave_has_the_number_of_its_own_definition_or_of_the_one_that_serves() {
    for (spec, instances) in [(Some(version("last", 2)), 2), (None, 4)] {
        let mut driver = draining(version("new", 4));
        let job = driver.job();
        driver.step(Event::Restart { slots: vec![0, 1], spec: spec.map(Rc::new), job });
        driver.exit(0, Generation(1), 0);
        driver.exit(1, Generation(1), 0);
        drained(&mut driver);
        assert_eq!(
            (driver.app.spec().instances, driver.app.slots().len()),
            (instances, usize::from(instances))
        );
    }
}

#[test]
fn of_automatic_reloads_that_mean_the_same_one_waits() {
    let mut driver = Driver::online(version("old", 2));
    driver.reload(None);
    for _ in 0..20 {
        driver.step(Event::FilesChanged("app.js changed".to_owned()));
    }
    // The reload of a command is not refused because of them: it begins after the automatic reload that waits.
    let (last, effects) = driver.reload(None);
    assert!(effects.contains(&Effect::Note(last, Note::WaitedForReload)), "{effects:?}");
    let mut reloads = 0;
    for generation in 1..=3 {
        for slot in 0..2 {
            driver.serve(slot, Generation(generation));
        }
        for slot in 0..2 {
            let effects = driver.exit(slot, Generation(generation - 1), 0);
            reloads += effects.iter().filter(|effect| matches!(effect, Effect::Reloaded(..))).count();
        }
    }
    assert_eq!((reloads, driver.app.is_reloading()), (3, false));
}

#[test]
fn a_successor_has_the_time_of_a_reload_once_the_worker_before_has_confirmed() {
    let (mut driver, _) = Driver::new(version("slow", 1));
    driver.step(Event::Runs(0, Generation(0)));
    driver.pass(Duration::from_secs(4));
    assert!(matches!(driver.state(0), State::Online(running) if !running.confirmed), "it listens after 5 s");
    driver.reload(None);
    driver.step(Event::Runs(0, Generation(1)));
    driver.pass(Duration::from_secs(1));
    driver.step(Event::Listening { slot: 0, generation: Generation(0), lacks_address: false });
    driver.pass(Duration::from_secs(5));
    driver.step(Event::Listening { slot: 0, generation: Generation(1), lacks_address: false });
    assert_eq!(driver.app.slot(0).unwrap().online(), Some(Generation(1)));
    let (_, effects) = driver.reload(None);
    assert_eq!(spawned(&effects), [] as [(u16, u32); 0], "the old one has not left yet");
}

#[test]
fn a_reload_of_some_workers_replaces_these_alone_and_waits_with_them() {
    let mut driver = Driver::online(version("app", 4));
    driver.reload(None);
    let order = ReloadOrder { job: Some(driver.job()), spec: None, whom: Whom::of(&[1, 3], 4) };
    driver.step(Event::Reload(order));
    for slot in 0..4 {
        driver.serve(slot, Generation(1));
        driver.exit(slot, Generation(0), 0);
    }
    let mut replaced = Vec::new();
    for slot in [1, 3] {
        driver.serve(slot, Generation(2));
        replaced.extend(driver.exit(slot, Generation(1), 0).into_iter().filter_map(|effect| match effect {
            Effect::Reloaded(_, result) => Some(result.replaced),
            _ => None,
        }));
    }
    assert_eq!(replaced, [vec![1, 3]]);
    assert_eq!(driver.app.slot(2).unwrap().online(), Some(Generation(1)));
}

#[test]
fn a_successor_that_is_given_up_says_nothing_about_the_worker_that_serves() {
    let mut driver = Driver::online(version("old", 1));
    driver.reload(Some(version("broken", 1)));
    driver.exit(0, Generation(1), 3);
    assert_eq!(driver.app.slot(0).unwrap().last_exit, None);
    driver.exit(0, Generation(0), 4);
    assert_eq!(driver.app.slot(0).unwrap().last_exit, Some(Exit::Code(4)));
}
