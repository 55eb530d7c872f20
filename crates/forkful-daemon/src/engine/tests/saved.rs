//! What a daemon saved is what the next one starts.

use forkful_api::saved::{ResurrectRequest, SaveRequest};
use forkful_api::types::{AppDefinition, FixNote, FixStep, StartRequest, TrialCommands, TrialState};
use forkful_core::scale::ScaleTarget;

use super::*;
use crate::command::Keep;

#[test]
fn a_stopped_worker_of_an_app_with_gaps_stays_stopped() {
    locally(async {
        let mut world = World::new();
        let app = world.start("app", SLEEP, 3);
        world.turn_until_answered().await;
        world.action(Verb::Delete, "0");
        world.turn_until("it is gone", |engine| engine.apps[&app].places.len() == 2).await;
        let stopped = world.action(Verb::Stop, "1");
        world.turn_until_answered().await;
        assert!(told(stopped).await.apps[0].ok);
        // As a daemon that ends: what ran is what should run again.
        world.engine.kill(None);
        world.turn_until("all are gone", |engine| engine.apps.is_empty()).await;
        let World { _home: home, engine, .. } = world;
        drop(engine);

        let mut world = World::at(home);
        world.engine.resurrect_now();
        world.turn_until_answered().await;
        let app = AppId(1);
        let entry = &world.engine.apps[&app];
        let wanted: Vec<_> =
            entry.supervisor.slots().iter().map(|(slot, record)| (*slot, record.wanted)).collect();
        assert_eq!((entry.spec().instances, wanted), (2, vec![(0, false), (1, true)]));
        assert_eq!(world.running(app), 1);
        world.close().await;
    });
}

/// Ends a world as a daemon that is killed: nothing is written any more but what was handed over.
fn killed(world: World) -> tempfile::TempDir {
    let World { mut engine, _home: home, .. } = world;
    engine.persistence = None;
    engine.kill(None);
    drop(engine);
    home
}

fn resurrect(world: &mut World) -> Answer {
    let (reply, answer) = tokio::sync::oneshot::channel();
    let request = ResurrectRequest { wait: true, ..ResurrectRequest::default() };
    world.engine.resurrect(request, reply);
    answer
}

async fn stopped_app(world: &mut World, name: &str) {
    let mut spec = spec(name, SLEEP, 1);
    spec.autostart = false;
    world.engine.start_now(vec![spec]);
    world.turn_until_answered().await;
}

fn state(home: &tempfile::TempDir) -> serde_json::Value {
    serde_json::from_slice(&fs_err::read(home.path().join("state.json")).unwrap()).unwrap()
}

fn names(state: &serde_json::Value) -> Vec<String> {
    let apps = state["apps"].as_array().unwrap().iter();
    apps.map(|app| app["definition"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Changes the saved state as another version of this program would have written it.
fn rewrite(home: &tempfile::TempDir, change: impl FnOnce(&mut serde_json::Value)) {
    let mut value = state(home);
    change(&mut value);
    fs_err::write(home.path().join("state.json"), value.to_string()).unwrap();
}

#[test]
fn an_entry_that_cannot_be_read_stays_saved_until_it_is_deleted_by_name() {
    locally(async {
        let mut world = World::new();
        for name in ["a", "newer", "b"] {
            stopped_app(&mut world, name).await;
        }
        let home = killed(world);
        rewrite(&home, |state| state["apps"][1]["definition"]["balance"] = "by-moon".into());
        let strange = state(&home)["apps"][1].clone();

        // A daemon of this version: the entry is told, and stays in every state that is saved from now on.
        let mut world = World::at(home);
        let answer = resurrect(&mut world);
        world.turn_until_answered().await;
        let reply = told(answer).await;
        let failed: Vec<_> = reply.apps.iter().filter(|app| !app.ok).collect();
        assert_eq!((reply.apps.len(), failed.len()), (3, 1), "{reply:?}");
        assert_eq!(failed[0].name, "newer");
        assert!(failed[0].error.as_ref().unwrap().contains("by-moon"), "{:?}", failed[0]);
        assert!(world.engine.list().notes[0].starts_with("newer does not run"), "{:?}", world.engine.notes());
        stopped_app(&mut world, "c").await;
        // Its name is taken, and it can be asked for again.
        let (reply, answer) = tokio::sync::oneshot::channel();
        let again = AppDefinition::from(&spec("newer", SLEEP, 1));
        let request = StartRequest { apps: vec![again], ..StartRequest::default() };
        world.engine.on_command(Command::Start { request, reply });
        assert!(answer.await.unwrap().unwrap_err().error.contains("is saved already"));
        let answer = resurrect(&mut world);
        world.turn_until_answered().await;
        assert!(told(answer).await.apps.iter().any(|app| app.name == "newer" && !app.ok));
        let home = killed(world);
        let saved = state(&home);
        assert_eq!(names(&saved), ["a", "b", "c", "newer"]);
        assert_eq!(saved["apps"][3], strange, "not a byte of it has changed");
        // The state that held it is kept as it was, too.
        assert!(home.path().join("state.previous.json").exists());

        // The version that wrote it is back.
        rewrite(&home, |state| state["apps"][3]["definition"]["balance"] = "auto".into());
        let mut world = World::at(home);
        let answer = resurrect(&mut world);
        world.turn_until_answered().await;
        assert!(told(answer).await.apps.iter().all(|app| app.ok));
        assert_eq!(world.engine.apps.len(), 4);
        let home = killed(world);

        // And gone again: its user forgets it.
        rewrite(&home, |state| state["apps"][3]["definition"]["balance"] = "by-moon".into());
        let mut world = World::at(home);
        resurrect(&mut world);
        world.turn_until_answered().await;
        // Not by a command that is refused.
        let both =
            ActionRequest { targets: vec!["newer".to_owned(), "typo".to_owned()], ..super::request("") };
        assert!(world.ask(Verb::Delete, both).await.unwrap().is_err());
        assert!(world.engine.notes()[0].starts_with("newer does not run"), "{:?}", world.engine.notes());
        let answer = world.action(Verb::Delete, "newer");
        world.turn_until_answered().await;
        assert!(told(answer).await.apps[0].ok);
        assert!(world.engine.notes().is_empty());
        let home = killed(world);
        assert_eq!(names(&state(&home)), ["a", "b", "c"]);
    });
}

#[test]
fn settings_of_a_newer_version_are_told_and_stay_saved() {
    locally(async {
        let mut world = World::new();
        stopped_app(&mut world, "a").await;
        let home = killed(world);
        rewrite(&home, |state| state["apps"][0]["definition"]["memory_max"] = 7.into());
        let mut world = World::at(home);
        let answer = resurrect(&mut world);
        world.turn_until_answered().await;
        let reply = told(answer).await;
        assert!(reply.apps[0].ok, "{reply:?}");
        assert!(reply.apps[0].notes[0].contains("definition.memory_max"), "{reply:?}");
        stopped_app(&mut world, "b").await;
        let home = killed(world);
        assert_eq!(state(&home)["apps"][0]["definition"]["memory_max"], 7);
    });
}

#[test]
fn what_is_about_to_be_started_is_saved_meanwhile() {
    locally(async {
        let mut world = World::new();
        stopped_app(&mut world, "a").await;
        let home = killed(world);
        let mut world = World::at(home);
        let answer = resurrect(&mut world);
        // The state has been read; the app is not made yet, and another one comes.
        world.turn_until("it is read", |engine| engine.persistence.as_ref().unwrap().saving.is_own()).await;
        let is_pending = !world.engine.persistence.as_ref().unwrap().pending.is_empty();
        world.engine.start_now(vec![spec("b", SLEEP, 1)]);
        let World { engine, _home: home, .. } = world;
        drop((engine, answer));
        let mut saved = names(&state(&home));
        saved.sort();
        assert_eq!((is_pending, saved), (true, vec!["a".to_owned(), "b".to_owned()]));
    });
}

#[test]
fn what_a_daemon_that_makes_way_has_not_started_is_pending_for_the_next_one() {
    locally(async {
        let mut world = World::new();
        stopped_app(&mut world, "a").await;
        let home = killed(world);
        let mut world = World::at(home);
        let _answer = resurrect(&mut world);
        let is_pending = |engine: &Engine| !engine.persistence.as_ref().unwrap().pending.is_empty();
        world.turn_until("it is read", is_pending).await;
        world.engine.life.phase = Phase::MakingWay;
        // Its files are read meanwhile.
        world.turn_until("it is over", |engine| engine.jobs.is_empty()).await;
        assert!(is_pending(&world.engine) && world.engine.apps.is_empty());
        drop(killed(world));
    });
}

#[test]
fn while_a_daemon_ends_nothing_is_accepted_that_it_would_not_save() {
    locally(async {
        let mut world = World::new();
        world.start("app", SLEEP, 1);
        world.turn_until_answered().await;
        world.engine.kill(None);
        for verb in [Verb::Stop, Verb::Delete, Verb::Restart] {
            let refusal = world.action(verb, "app").await.unwrap().unwrap_err();
            assert_eq!(refusal.error, "the daemon is ending");
        }
        let (reply, answer) = tokio::sync::oneshot::channel();
        world.engine.on_command(Command::Keep(Keep::Save { request: SaveRequest::default(), reply }));
        assert_eq!(answer.await.unwrap().unwrap_err().error, "the daemon is ending");
        world.turn_until("all are gone", |engine| engine.apps.is_empty()).await;
    });
}

#[test]
fn a_client_that_does_not_wait_is_told_when_the_state_is_saved() {
    locally(async {
        let mut world = World::new();
        world.start("app", SLEEP, 1);
        world.turn_until_answered().await;
        let mut answer = world.ask(Verb::Stop, ActionRequest { wait: false, ..request("app") });
        assert!(answer.try_recv().is_err(), "nothing is saved before the end of the turn");
        world.turn().await;
        assert!(told(answer).await.apps[0].ok);
        let home = killed(world);
        assert_eq!(state(&home)["apps"][0]["stopped"], serde_json::json!([0]), "{}", state(&home));
    });
}

/// A program that ends with code 0 at once, and is not told whether to start again.
fn one_shot(name: &str) -> AppSpec {
    let mut spec = spec(name, &["/bin/true"], 1);
    spec.restart.autorestart = true;
    spec.restart.min_uptime = Duration::from_secs(1);
    spec
}

#[test]
fn a_program_that_has_finished_is_not_run_again_by_resurrect_unless_autorestart_was_given() {
    locally(async {
        let mut world = World::new();
        let mut told_not_to = one_shot("told-not-to");
        told_not_to.restart.autorestart = false;
        let mut asks_to_stop =
            AppSpec { launch: spec("asks", &["/bin/false"], 1).launch, ..one_shot("asks") };
        asks_to_stop.restart.stop_exit_codes = [1].into();
        let mut failed = AppSpec { launch: asks_to_stop.launch.clone(), ..one_shot("failed") };
        failed.restart.autorestart = false;
        world.engine.start_now(vec![one_shot("migrate"), told_not_to, asks_to_stop, failed]);
        world.turn_until_answered().await;
        let home = killed_when_saved(world, |state| {
            let finished = |at: usize| state["apps"][at]["finished"] == serde_json::json!([0]);
            finished(0) && finished(1) && state["apps"][2]["stopped"] == serde_json::json!([0])
        })
        .await;

        let mut world = World::at(home);
        let answer = resurrect(&mut world);
        world.turn_until_answered().await;
        let reply = told(answer).await;
        let of = |name: &str| reply.apps.iter().find(|app| app.name == name).unwrap();
        assert!(of("migrate").ok && of("migrate").finished, "{reply:?}");
        let starts = |world: &World, name: &str| {
            world.engine.apps.values().find(|app| app.spec().name.as_str() == name).unwrap().workers.started
        };
        let started = ["migrate", "told-not-to", "asks", "failed"].map(|name| starts(&world, name));
        assert_eq!(started, [0, 0, 0, 1], "what has failed is tried again");
        let rows = world.engine.table();
        assert_eq!(rows.apps[0].workers[0].status, forkful_api::types::Status::Finished);

        // Once more, and it is still saved as finished; a command starts it.
        let home =
            killed_when_saved(world, |state| state["apps"][0]["finished"] == serde_json::json!([0])).await;
        let mut world = World::at(home);
        resurrect(&mut world);
        world.turn_until_answered().await;
        let answer = world.action(Verb::Restart, "migrate");
        world.turn_until_answered().await;
        assert!(told(answer).await.apps[0].finished);
        assert_eq!(starts(&world, "migrate"), 1);
        world.close().await;
    });
}

/// Turns until the state on disk is so, then ends the world as [`killed`].
async fn killed_when_saved(
    mut world: World,
    is_so: impl Fn(&serde_json::Value) -> bool,
) -> tempfile::TempDir {
    let path = world.engine.options.home.state();
    let holds = |_: &Engine| {
        let text = fs_err::read(&path).unwrap_or_default();
        serde_json::from_slice(&text).is_ok_and(|state| is_so(&state))
    };
    world.turn_until("the state is saved", holds).await;
    killed(world)
}

#[test]
fn resurrect_while_everything_runs_says_so() {
    locally(async {
        let mut world = World::new();
        stopped_app(&mut world, "a").await;
        let answer = resurrect(&mut world);
        world.turn_until_answered().await;
        let reply = told(answer).await;
        assert_eq!(reply.apps.len(), 1);
        let app = &reply.apps[0];
        assert!(app.ok && app.unchanged && app.notes.is_empty() && app.pm_ids.is_empty(), "{reply:?}");
        world.close().await;
        let answer = resurrect(&mut world);
        world.turn_until_answered().await;
        assert!(answer.await.unwrap().is_err(), "nothing is there and nothing is saved");
    });
}

#[test]
fn an_env_file_that_is_a_fifo_keeps_only_its_app_from_starting() {
    locally(async {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(".env");
        fs_err::write(&file, "COLOUR=blue\n").unwrap();
        let mut world = World::new();
        for name in ["a", "b"] {
            let mut spec = spec(name, SLEEP, 1);
            spec.autostart = false;
            if name == "a" {
                spec.launch.env.insert("COLOUR".to_owned(), "blue".to_owned());
                spec.launch.env_sources.from_files.insert("COLOUR".to_owned());
                spec.launch.env_sources.files.push(file.clone());
            }
            world.engine.start_now(vec![spec]);
        }
        world.turn_until_answered().await;
        let home = killed(world);
        assert!(!state(&home).to_string().contains("blue"), "values of files are not saved");

        fs_err::remove_file(&file).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let mut world = World::at(home);
        let answer = resurrect(&mut world);
        world.turn_until_answered().await;
        let reply = told(answer).await;
        let of = |name: &str| reply.apps.iter().find(|app| app.name == name).unwrap();
        assert!(of("b").ok, "{reply:?}");
        let error = of("a").error.as_deref().unwrap();
        assert!(error.contains("its environment file") && error.contains(".env cannot be read"), "{error}");
        let home = killed(world);
        assert_eq!(names(&state(&home)), ["b", "a"]);

        // As soon as it is a file again, the next one starts the app, with what it says now.
        fs_err::remove_file(&file).unwrap();
        fs_err::write(&file, "COLOUR=green\n").unwrap();
        let mut world = World::at(home);
        let answer = resurrect(&mut world);
        world.turn_until_answered().await;
        assert!(told(answer).await.apps.iter().all(|app| app.ok));
        let a = world.engine.apps.find("a").unwrap();
        assert_eq!(world.engine.apps[&a].spec().launch.env["COLOUR"], "green");
        world.close().await;
    });
}

#[test]
fn ids_begin_at_0_again_when_no_app_is_left() {
    locally(async {
        let mut world = World::new();
        stopped_app(&mut world, "a").await;
        stopped_app(&mut world, "b").await;
        world.action(Verb::Delete, "a");
        world.turn_until_answered().await;
        stopped_app(&mut world, "c").await;
        let ids = |engine: &Engine| -> Vec<u32> {
            engine.apps.values().flat_map(|app| app.places.values()).map(|place| place.pm_id).collect()
        };
        assert_eq!(ids(&world.engine), [1, 2], "while there is one, no id is given to another app");
        stopped_app(&mut world, "a").await;
        assert_eq!(ids(&world.engine), [1, 2, 0], "the same app goes on with its log files");
        world.action(Verb::Delete, "all");
        world.turn_until_answered().await;
        stopped_app(&mut world, "d").await;
        assert_eq!(ids(&world.engine), [0]);
        world.close().await;
    });
}

#[test]
fn a_variable_that_was_not_saved_is_named_as_long_as_it_is_missing() {
    locally(async {
        let mut world = World::new();
        let mut spec = spec("a", SLEEP, 1);
        spec.autostart = false;
        spec.launch.env.insert("DATABASE_URL".to_owned(), "postgres://u:p@h/d".to_owned());
        spec.launch.env_sources.inherited.insert("DATABASE_URL".to_owned());
        world.engine.start_now(vec![spec]);
        world.turn_until_answered().await;
        assert!(world.engine.notes().is_empty());
        let home = killed(world);
        assert!(!state(&home).to_string().contains("postgres"));
        let mut world = World::at(home);
        let answer = resurrect(&mut world);
        world.turn_until_answered().await;
        let reply = told(answer).await;
        assert!(reply.apps[0].notes[0].contains("DATABASE_URL"), "{reply:?}");
        assert!(world.engine.notes()[0].contains("DATABASE_URL"), "{:?}", world.engine.notes());
        world.close().await;
    });
}

/// A step of the trial `a`, which changes the number of workers.
fn scale(workers: u16, step: FixStep) -> ActionRequest {
    let commands = (step == FixStep::Try).then(|| TrialCommands {
        keep: "forkful scale app 2".to_owned().into(),
        undo: "forkful scale app 1".to_owned().into(),
    });
    let fix = Some(FixNote { commands, ..FixNote::new(step, "a", "why") });
    ActionRequest { instances: Some(ScaleTarget::Exactly(workers)), fix, ..request("app") }
}

#[test]
fn a_change_of_the_doctor_is_undecided_after_a_reboot_too() {
    locally(async {
        let mut world = World::new();
        world.start("app", SLEEP, 1);
        world.turn_until_answered().await;
        let tried = world.ask(Verb::Scale, scale(2, FixStep::Try));
        world.turn_until_answered().await;
        assert!(told(tried).await.apps[0].ok);
        let home = killed(world);
        assert_eq!(state(&home)["apps"][0]["trial"]["undo"], "forkful scale app 1");

        let mut world = World::at(home);
        let answer = resurrect(&mut world);
        world.turn_until_answered().await;
        assert!(told(answer).await.apps[0].ok);
        let view = world.engine.list().apps.remove(0);
        assert_eq!((view.definition.instances, view.trial.unwrap().state), (2, TrialState::Changed));
        assert!(view.notes[0].contains("undo the change with `forkful scale app 1`"), "{:?}", view.notes);
        let reverted = world.ask(Verb::Scale, scale(1, FixStep::Revert));
        world.turn_until_answered().await;
        assert!(told(reverted).await.apps[0].ok);
        let home = killed(world);
        let saved = state(&home);
        assert_eq!(
            (&saved["apps"][0]["definition"]["instances"], saved["apps"][0].get("trial")),
            (&1.into(), None)
        );
    });
}

#[test]
fn a_change_that_a_reboot_cut_off_may_be_in_place() {
    locally(async {
        let mut world = World::new();
        world.start("app", SLEEP, 1);
        world.turn_until_answered().await;
        let _tried = world.ask(Verb::Scale, scale(2, FixStep::Try));
        world.engine.save_changes();
        let home = killed(world);
        let mut world = World::at(home);
        drop(resurrect(&mut world));
        world.turn_until_answered().await;
        let view = world.engine.list().apps.remove(0);
        assert_eq!(view.trial.unwrap().state, TrialState::CutOff);
        world.close().await;
    });
}

#[test]
fn apps_whose_names_make_the_same_file_names_are_told() {
    locally(async {
        let mut world = World::new();
        let mut start = |name: &str| {
            let mut spec = spec(name, SLEEP, 1);
            spec.autostart = false;
            spec.logs.merge = true;
            world.engine.start_now(vec![spec]);
            world.engine.notes()
        };
        assert!(start("eu:api").is_empty() && start("web").is_empty());
        let notes = start("eu-api");
        assert!(
            notes.len() == 1 && notes[0].starts_with("eu:api: its log files are those of eu-api, too"),
            "{notes:?}"
        );
        world.turn_until_answered().await;
    });
}

#[test]
fn a_second_kill_waits_for_the_end_of_the_first_one_and_leaves_no_app_behind() {
    locally(async {
        let mut world = World::new();
        let database = spec("database", SLEEP, 1);
        let mut web = spec("web", &["/bin/sh", "-c", "trap '' INT; exec sleep 1000"], 1);
        web.depends_on = vec![database.name.clone()];
        web.stop.kill_timeout = Duration::from_millis(300);
        world.engine.start_now(vec![database, web]);
        world.turn_until_answered().await;
        // `database` waits until `web` is gone; the second command comes meanwhile.
        let mut answers = Vec::new();
        for _ in 0..2 {
            let (reply, answer) = tokio::sync::oneshot::channel();
            world.engine.on_command(Command::Kill { reply });
            answers.push(answer);
        }
        world.turn_until("the daemon ends", |engine| engine.life.phase == Phase::Ended).await;
        assert_eq!(world.engine.apps.len(), 0, "an app runs on without its daemon");
        for answer in answers {
            let said: Vec<_> = told(answer).await.apps.into_iter().map(|app| (app.name, app.ok)).collect();
            assert_eq!(said, [("database".to_owned(), true), ("web".to_owned(), true)]);
        }
    });
}
