//! A daemon is killed, and another one goes on from what was written down, with the processes that the keeper held.

use forkful_keeper::areas::{self, Areas};
use forkful_os::keeper::{Hold, Kept, Kind, Name};

use super::*;
use crate::engine::written::Written;
use crate::inherited::StateFile;

/// What outlives a daemon.
struct Remains {
    home: tempfile::TempDir,
    written: Written,
    kept: Vec<Kept>,
}

/// Ends a world as a daemon that is killed, whose processes live on.
fn killed(world: World) -> Remains {
    let World { mut engine, _home: home, .. } = world;
    let file = areas::create().unwrap();
    engine.write_to(StateFile::of(file.try_clone().unwrap()));
    let all: Vec<AppId> = engine.apps.keys().copied().collect();
    all.into_iter().for_each(|app| engine.apps.note_unwritten(app));
    engine.write_down();
    let mut kept = Vec::new();
    for (app, entry) in engine.apps.iter() {
        for process in entry.places.values().flat_map(|place| place.processes.values()) {
            let name = Name { kind: Kind::Process, app: app.0, of: process.worker.0, part: 0 };
            kept.push(Kept { name, fd: process.child.pidfd.try_clone().unwrap(), hold: Hold::default() });
        }
    }
    drop(engine);
    let written = Written::found(&Areas::open(file).unwrap().1.unwrap()).unwrap();
    Remains { home, written, kept }
}

/// The daemon that goes on.
fn next(remains: Remains) -> World {
    next_with(remains, crate::history::History::new(&Keeping::default()))
}

fn next_with(remains: Remains, history: crate::history::History) -> World {
    let Remains { home, written, kept } = remains;
    let options = EngineOptions {
        home: Home::new(home.path().to_owned()),
        agent: None,
        echo: None,
        write_log_files: false,
        shutdown_delay: std::time::Duration::ZERO,
        keeping: Keeping::default(),
        history,
        rest: crate::rest::Rest::default(),
    };
    let (mut engine, back) = Engine::new(options, written.marks().unwrap()).unwrap();
    engine.take_up(written, kept);
    World { engine, back, _home: home }
}

fn pid(engine: &Engine, app: AppId) -> Option<u32> {
    engine.apps.get(&app)?.shown().next().map(|process| process.child.pid)
}

#[test]
fn what_a_daemon_knew_of_an_app_is_known_to_the_next_one() {
    use forkful_core::primary_habits::Lack;
    locally(async {
        let mut world = World::new();
        let app = world.start("app", SLEEP, 1);
        world.turn_until_answered().await;
        let before = pid(&world.engine, app);
        let entry = world.engine.apps.get_mut(app).unwrap();
        entry.places.get_mut(&0).unwrap().exit_cause = Some("because".to_owned());
        let worker = entry.shown().next().unwrap().worker;
        entry.note_lack(worker, Lack::OwnPrimary);

        let mut world = next(killed(world));
        assert_eq!(pid(&world.engine, app), before);
        let entry = &world.engine.apps[&app];
        assert_eq!(entry.places[&0].exit_cause.as_deref(), Some("because"));
        assert_eq!(entry.lacks(), [Lack::OwnPrimary].into());
        assert_eq!(entry.told.lacks, [Lack::OwnPrimary].into());
        world.close().await;
    });
}

#[test]
fn restarts_that_the_history_does_not_know_are_counted_by_the_next_daemon() {
    use forkful_core::metrics::{Head, Readings, Totals};
    let heads: [(&[(&str, f64)], f64); 3] = [
        // The counts of an earlier version, and what was written before the last two restarts.
        (&[("http_requests_total", 9.0)], 3.0),
        (&[("restarts_total", 1.0), ("crashes_total", 0.0)], 3.0),
        // Lists began at zero again.
        (&[("restarts_total", 7.0), ("crashes_total", 2.0)], 7.0),
    ];
    for (known, expected) in heads {
        locally(async {
            let mut world = World::new();
            let app = world.start("app", SLEEP, 1);
            world.turn_until_answered().await;
            for _ in 0..3 {
                drop(world.action(Verb::Restart, "app"));
                world.turn_until_answered().await;
            }
            let mut totals = Totals::default();
            totals.add(&Readings::of(known));
            let history = crate::history::History::new(&Keeping::default());
            let (area, _) = history.area(app, 0).unwrap();
            history.write_head(area, &Head { app: app.0, totals, ..Head::default() }).unwrap();
            let mut world = next_with(killed(world), history);
            assert_eq!(metrics::counted(&mut world, app, 0, "restarts_total"), Some(expected));
            assert!(metrics::counted(&mut world, app, 0, "crashes_total").is_some(), "{known:?}");
            drop(world.action(Verb::Restart, "app"));
            world.turn_until_answered().await;
            assert_eq!(metrics::counted(&mut world, app, 0, "restarts_total"), Some(expected + 1.0));
            world.close().await;
        });
    }
}

#[test]
fn the_last_lines_of_a_process_that_has_ended_are_read_by_the_next_daemon() {
    use std::io::Write as _;
    locally(async {
        let mut world = World::new();
        let app = world.start("app", SLEEP, 1);
        world.turn_until_answered().await;
        let ended = world.engine.apps[&app].shown().next().unwrap();
        let (before, worker) = (ended.child.pid, ended.worker.0);
        drop(world.action(Verb::Restart, "app"));
        world.turn_until_answered().await;
        assert_ne!(pid(&world.engine, app), Some(before));
        let pm_id = world.engine.apps[&app].places[&0].pm_id;
        let generation = world.engine.apps[&app].places[&0].left[0].1;
        let mut remains = killed(world);
        // The log service was slow.
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"FATAL\n").unwrap();
        drop(writer);
        let name = Name { kind: Kind::Err, app: app.0, of: worker, part: 0 };
        remains.kept.push(Kept { name, fd: reader.into(), hold: Hold::default() });
        let mut world = next(remains);
        let mut tail = Vec::new();
        while tail != ["FATAL"] {
            tail = world.engine.logs.stderr_tail(pm_id, Some(generation)).await.unwrap().lines;
            world.turn().await;
        }
        world.close().await;
    });
}

#[test]
fn a_point_of_the_clock_that_came_without_a_daemon_is_made_up_for() {
    use forkful_core::spec::CronPattern;
    locally(async {
        let mut world = World::new();
        let mut spec = spec("app", SLEEP, 1);
        spec.renewal.cron = Some(CronPattern::new("0 0 29 2 *").unwrap());
        world.engine.start_now(vec![spec]);
        let app = AppId(1);
        world.turn_until_answered().await;
        let before = pid(&world.engine, app);
        let mut remains = killed(world);
        // Its point is now in the past, and due.
        let mut clock = serde_json::to_value(&remains.written.apps[0].supervisor).unwrap();
        clock["cron"]["next_ms"] = 1.into();
        clock["cron"]["look"] = 0.into();
        remains.written.apps[0].supervisor = serde_json::from_value(clock).unwrap();
        let mut world = next(remains);
        world.turn_until("another process", |engine| pid(engine, app) != before).await;
        // The next point is in the future.
        let remains = killed(world);
        assert!(remains.written.apps[0].supervisor.next_strike_ms() > Some(1));
        next(remains).close().await;
    });
}

#[test]
fn files_that_changed_without_a_daemon_are_followed_and_others_are_not() {
    locally(async {
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join("app.js"), "1").unwrap();
        let mut world = World::new();
        let mut spec = spec("app", SLEEP, 1);
        spec.watch = Some(forkful_core::spec::Watch {
            paths: vec![folder.path().canonicalize().unwrap()],
            ignore: Vec::new(),
            delay: Duration::from_millis(1),
            follow_links: false,
            polling: None,
        });
        world.engine.start_now(vec![spec]);
        let app = AppId(1);
        world.turn_until_answered().await;
        let before = pid(&world.engine, app);
        let mut remains = killed(world);
        // Long before anything was written.
        assert!(remains.written.apps[0].upkeep.files_seen_ms > Some(1));
        remains.written.apps[0].upkeep.files_seen_ms = Some(1);
        let mut world = next(remains);
        world.turn_until("another process", |engine| pid(engine, app) != before).await;
        let remains = killed(world);
        assert!(remains.written.apps[0].upkeep.files_seen_ms > Some(1), "it is not followed again");
        next(remains).close().await;
    });
}

/// Turns until every command has its answer; each turn writes down what it has changed. `written` is called after each turn.
async fn turn_and_write(world: &mut World, mut written: impl FnMut()) {
    while !world.engine.jobs.is_empty() {
        world.turn().await;
        world.engine.write_down();
        written();
    }
}

#[test]
fn what_turns_have_added_is_what_would_be_written_as_a_whole() {
    locally(async {
        let file = areas::create().unwrap();
        let found = || Areas::open(file.try_clone().unwrap()).unwrap().1.unwrap();
        let in_words = |written: &Written| {
            let apps = written.apps.iter().map(|app| serde_json::to_value(app).unwrap());
            (written.daemon.clone(), apps.collect::<Vec<_>>())
        };
        let mut world = World::new();
        world.engine.write_to(StateFile::of(file.try_clone().unwrap()));
        // How many turns there are depends on the machine, and some turn writes everything anew.
        let mut most = 0;
        let mut count = || most = most.max(found().additions.len());
        for name in ["one", "two", "three"] {
            world.start(name, SLEEP, 2);
            turn_and_write(&mut world, &mut count).await;
        }
        for (verb, target) in [(Verb::Restart, "one"), (Verb::Delete, "two"), (Verb::Stop, "three")] {
            let _answer = world.action(verb, target);
            turn_and_write(&mut world, &mut count).await;
        }
        assert!(most > 3, "not every turn writes everything: {most}");
        let added = Written::found(&found()).unwrap();
        let whole = world.engine.persistence.as_mut().unwrap().written().unwrap();
        assert_eq!(in_words(&added), in_words(&Written::read(&whole).unwrap()));
        assert_eq!(added.apps.len(), 2);

        // A program of another version may go on from here: it finds all in the state itself.
        world.start("four", SLEEP, 1);
        turn_and_write(&mut world, || ()).await;
        assert_eq!(found().additions.len(), 0);
        assert_eq!(Written::read(&found().state).unwrap().apps.len(), 3);
        world.close().await;
    });
}

#[test]
fn a_start_of_what_was_saved_goes_on_with_the_next_daemon() {
    locally(async {
        for is_read in [false, true] {
            let mut world = World::new();
            let app = world.start("app", SLEEP, 1);
            world.turn_until_answered().await;
            // As a daemon that ends, whose home has the state.
            world.engine.kill(None);
            world.turn_until("it is gone", |engine| engine.apps.is_empty()).await;
            let World { _home: home, engine, .. } = world;
            drop(engine);
            let mut world = World::at(home);
            world.engine.resurrect_now();
            if is_read {
                world
                    .turn_until("it is read", |engine| {
                        !engine.persistence.as_ref().unwrap().pending.is_empty()
                    })
                    .await;
            }
            // The daemon is killed before it has started anything of the saved state.
            let remains = killed(world);
            assert_eq!(remains.written.daemon.resurrects, !is_read);
            assert_eq!(remains.written.daemon.pending.len(), usize::from(is_read));
            let mut world = next(remains);
            world.turn_until("it runs", |engine| running(engine, app) == 1).await;
            world.close().await;
        }
    });
}

#[test]
fn clients_of_a_daemon_before_have_left_and_commands_without_one_go_on() {
    let (mut before, mut after) = (Jobs::default(), Jobs::default());
    let (reply, _answer) = tokio::sync::oneshot::channel();
    let (watched, unwatched) = (before.begin(Some(reply)), before.begin(None));
    assert!(!before.has_client_left(watched) && !before.has_client_left(unwatched));
    after.resume_after(before.newest(), before.unwatched());
    assert!(after.has_client_left(watched));
    assert!(!after.has_client_left(unwatched));
    let (reply, answer) = tokio::sync::oneshot::channel();
    let own = after.begin(Some(reply));
    assert!(!after.has_client_left(own));
    drop(answer);
    assert!(after.has_client_left(own));
    assert_eq!(after.unwatched(), [unwatched].into(), "also for the one after it");
}

/// A daemon dies when the first app of a configuration has been made and the second one has not.
async fn killed_while_it_applies(specs: &[AppSpec]) -> World {
    let mut world = World::new();
    let answer = world.apply(specs, false);
    world.turn_until("the first app", |engine| !engine.apps.is_empty()).await;
    assert_eq!(world.engine.apps.len(), 1);
    drop(answer);
    let remains = killed(world);
    assert_eq!(remains.written.daemon.plans.len(), 1);
    let world = next(remains);
    assert!(world.engine.plans.is_busy(), "no other configuration may change these apps");
    world
}

#[test]
fn a_configuration_that_a_daemon_was_applying_is_applied_by_the_next_one() {
    locally(async {
        let specs = ["api", "db", "web"].map(|name| spec(name, SLEEP, 1));
        let mut world = killed_while_it_applies(&specs).await;
        let applied = |engine: &Engine| !engine.plans.is_busy() && engine.jobs.is_empty();
        world.turn_until("all of it", applied).await;
        let names: Vec<_> = world.engine.apps.values().map(|app| app.spec().name.to_string()).collect();
        assert_eq!(names, ["api", "db", "web"]);
        assert!(world.engine.apps.keys().all(|app| world.running(*app) == 1));
        // Nothing is left of it for a third daemon.
        let remains = killed(world);
        assert_eq!(remains.written.daemon.plans, []);
        next(remains).close().await;
    });
}

#[test]
fn a_configuration_that_fails_under_the_next_daemon_is_taken_back() {
    locally(async {
        let readiness = forkful_core::spec::Readiness {
            wait_ready: true,
            listen_timeout: Some(Duration::from_millis(20)),
        };
        let never = AppSpec { readiness, ..spec("web", SLEEP, 1) };
        let mut world = killed_while_it_applies(&[spec("api", SLEEP, 1), never]).await;
        let taken_back = |engine: &Engine| !engine.plans.is_busy() && engine.apps.is_empty();
        world.turn_until("it is taken back", taken_back).await;
    });
}

#[test]
fn an_app_that_a_configuration_has_deleted_already_is_no_failure_for_the_next_daemon() {
    locally(async {
        let mut world = World::new();
        let old = world.start("old", SLEEP, 1);
        world.turn_until_answered().await;
        let _answer = world.apply(&[spec("api", SLEEP, 1)], true);
        world.turn_until("the app is deleted", |engine| engine.apps.get(&old).is_none()).await;
        let remains = killed(world);
        assert_eq!(remains.written.daemon.plans.len(), 1, "it is not known that it has ended");
        let mut world = next(remains);
        world.turn_until("all of it", |engine| !engine.plans.is_busy()).await;
        let names: Vec<_> = world.engine.apps.values().map(|app| app.spec().name.to_string()).collect();
        assert_eq!(names, ["api"]);
        world.close().await;
    });
}
