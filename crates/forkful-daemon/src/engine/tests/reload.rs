//! Which definition an app has when a reload has failed or was overtaken, and whom a renewal concerns.

use forkful_api::types::AppDefinition;

use forkful_core::scale::ScaleTarget;
use forkful_core::spec::{AppName, Mode, Readiness, Runtime};

use super::*;

/// In cluster mode, so that its workers are replaced one after the other. A worker that says nothing counts as up after a moment.
pub(super) fn version(seconds: &str, instances: u16) -> AppSpec {
    let mut spec = spec("app", &["/bin/sleep", seconds], instances);
    spec.mode = Mode::Cluster;
    spec.launch.runtime = Runtime::Node;
    spec.readiness = Readiness { wait_ready: false, listen_timeout: Some(Duration::from_millis(1)) };
    // Its program does not know that it should leave.
    spec.stop.drain_timeout = Duration::from_millis(50);
    spec
}

/// One that is waited for and never says that it is ready.
pub(super) fn silent(seconds: &str, listen_timeout: Option<Duration>) -> AppSpec {
    AppSpec { readiness: Readiness { wait_ready: true, listen_timeout }, ..version(seconds, 2) }
}

impl World {
    fn define(&mut self, verb: Verb, spec: &AppSpec) -> Answer {
        self.ask(verb, ActionRequest { definitions: vec![AppDefinition::from(spec)], ..request("app") })
    }

    async fn start_spec(&mut self, spec: AppSpec) -> AppId {
        let app = AppId(self.engine.apps.last + 1);
        self.engine.start_now(vec![spec]);
        self.turn_until_answered().await;
        app
    }

    /// What the app is said to run, and what each of its slots does run.
    fn seconds(&self, app: AppId) -> (String, Vec<String>) {
        let entry = &self.engine.apps[&app];
        let run = |process: &app::Process| {
            let pid = process.child.pid;
            // For a moment within `exec`, a process has no command line.
            let begin = Instant::now();
            loop {
                let line = fs_err::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
                if let Some(argument) = line.split('\0').nth(1) {
                    return argument.to_owned();
                }
                assert!(begin.elapsed() < PATIENCE, "the command line of {pid}: {line:?}");
                std::thread::yield_now();
            }
        };
        (entry.spec().launch.program_args[0].clone(), entry.shown().map(run).collect())
    }
}

pub(super) fn is_replacing(engine: &Engine, app: AppId, slot: u16) -> bool {
    matches!(
        engine.apps[&app].supervisor.slots()[&slot].slot.state,
        forkful_core::slot::State::Replacing { .. }
    )
}

#[test]
fn a_restart_with_another_definition_overtakes_a_reload_that_hangs() {
    locally(async {
        let mut world = World::new();
        let app = world.start_spec(version("1001", 2)).await;
        let reload = world.define(Verb::Reload, &silent("1002", None));
        world.turn_until("a successor starts", |engine| is_replacing(engine, app, 0)).await;
        let restart = world.define(Verb::Restart, &version("1003", 2));
        world.turn_until_answered().await;
        assert!(told(restart).await.apps[0].ok);
        let refused = told(reload).await.apps.remove(0);
        assert_eq!(refused.error.as_deref(), Some("worker 0: cancelled by a later `restart`"));
        let third = || "1003".to_owned();
        assert_eq!(world.seconds(app), (third(), vec![third(), third()]));
        world.close().await;
    });
}

#[test]
fn a_plain_restart_that_overtakes_a_reload_starts_what_the_app_is_then() {
    locally(async {
        let mut world = World::new();
        let app = world.start_spec(version("1001", 3)).await;
        let mut next = version("1002", 3);
        next.stop.drain_timeout = Duration::from_secs(2);
        world.define(Verb::Reload, &next);
        // While those replaced drain, the third waits for its turn.
        let leaving = |engine: &Engine| {
            engine.apps[&app]
                .supervisor
                .slots()
                .values()
                .map(|record| record.slot.leaving.len())
                .sum::<usize>()
        };
        world.turn_until("two are replaced", |engine| leaving(engine) == 2).await;
        world.action(Verb::Restart, "app");
        world.turn_until_answered().await;
        let (said, run) = world.seconds(app);
        assert_eq!(run, vec![said; 3]);
        world.close().await;
    });
}

#[test]
fn the_number_of_workers_outlives_a_reload_that_fails() {
    locally(async {
        let mut world = World::new();
        let app = world.start_spec(version("1001", 2)).await;
        let reload = world.define(Verb::Reload, &silent("1002", Some(Duration::from_millis(50))));
        world.ask(Verb::Scale, ActionRequest { instances: Some(ScaleTarget::Exactly(4)), ..request("app") });
        world.turn_until_answered().await;
        assert!(!told(reload).await.apps[0].ok);
        let entry = &world.engine.apps[&app];
        assert_eq!((entry.spec().instances, entry.places.len()), (4, 4));
        assert_eq!(entry.spec().launch.program_args, ["1001"]);
        world.close().await;
    });
}

#[test]
fn changes_are_told_only_of_a_reload_that_has_made_them() {
    locally(async {
        let mut world = World::new();
        world.start_spec(version("1001", 2)).await;
        let reload = world.define(Verb::Reload, &silent("1002", Some(Duration::from_millis(50))));
        world.turn_until_answered().await;
        let failed = told(reload).await.apps.remove(0);
        assert_eq!((failed.ok, failed.notes), (false, Vec::new()));
        let reload = world.define(Verb::Reload, &version("1003", 2));
        world.turn_until_answered().await;
        let reloaded = told(reload).await.apps.remove(0);
        assert_eq!((reloaded.ok, reloaded.notes), (true, vec!["node_args: 1001 → 1003".to_owned()]));
        world.close().await;
    });
}

#[test]
fn workers_that_serve_on_after_a_failed_reload_keep_the_time_of_their_start() {
    locally(async {
        let mut world = World::new();
        let app = world.start_spec(version("1001", 2)).await;
        let shown = |world: &mut World| {
            let list = world.engine.table();
            list.apps[0].workers.iter().map(|worker| worker.started_at_ms).collect::<Vec<_>>()
        };
        let before = (shown(&mut world), world.engine.apps[&app].oldest_start_ms(Time::default(), u64::MAX));
        let reload = world.define(Verb::Reload, &silent("1002", Some(Duration::from_millis(50))));
        world.turn_until_answered().await;
        assert!(!told(reload).await.apps[0].ok);
        // The uptime in lists; and whether a reload by file finds code that is newer than the workers.
        assert_eq!(
            (shown(&mut world), world.engine.apps[&app].oldest_start_ms(Time::default(), u64::MAX)),
            before
        );
        world.close().await;
    });
}

#[test]
fn the_number_of_workers_outlives_a_reload_that_waits() {
    locally(async {
        let mut world = World::new();
        let app = world.start_spec(version("1001", 2)).await;
        world.define(Verb::Reload, &version("1002", 3));
        let waiting = world.define(Verb::Reload, &version("1003", 1));
        world.ask(Verb::Scale, ActionRequest { instances: Some(ScaleTarget::Exactly(4)), ..request("app") });
        world.turn_until_answered().await;
        assert!(told(waiting).await.apps[0].ok);
        let entry = &world.engine.apps[&app];
        assert_eq!((entry.spec().instances, entry.places.len()), (4, 4));
        assert_eq!(entry.spec().launch.program_args, ["1003"]);
        world.close().await;
    });
}

#[test]
fn a_reload_with_a_definition_changes_the_number_of_workers_and_starts_what_is_missing() {
    locally(async {
        let mut world = World::new();
        let app = world.start_spec(version("1001", 2)).await;
        let mut missing = version("1003", 1);
        missing.name = AppName::new("missing").unwrap();
        let definitions = [version("1002", 3), missing].iter().map(AppDefinition::from).collect();
        let reload =
            world.ask(Verb::Reload, ActionRequest { definitions, targets: Vec::new(), ..request("app") });
        world.turn_until_answered().await;
        let outcomes = told(reload).await.apps;
        let told: Vec<_> = outcomes.iter().map(|app| (app.name.as_str(), app.ok, app.started)).collect();
        assert_eq!(told, [("app", true, false), ("missing", true, true)]);
        assert!(outcomes[0].notes.contains(&"scaled from 2 to 3 workers".to_owned()), "{outcomes:?}");
        let entry = &world.engine.apps[&app];
        assert_eq!((entry.spec().instances, entry.places.len()), (3, 3));
        assert_eq!(entry.spec().launch.program_args, ["1002"]);
        world.close().await;
    });
}

#[test]
fn nothing_is_done_where_a_part_of_the_request_is_wrong() {
    locally(async {
        let mut world = World::new();
        let app = world.start_spec(version("1001", 1)).await;
        let before = world.engine.apps[&app].supervisor.slots()[&0].slot.clone();
        let mut missing = version("1003", 1);
        missing.name = AppName::new("missing").unwrap();
        let definitions: Vec<_> =
            [version("1002", 1), missing.clone(), missing].iter().map(AppDefinition::from).collect();
        let restart = world.ask(Verb::Restart, ActionRequest { definitions, ..request("app") });
        let refusal = restart.await.unwrap().unwrap_err();
        assert_eq!(refusal.error, "an app is defined twice in one request");
        let entry = &world.engine.apps[&app];
        assert_eq!((world.engine.apps.len(), &entry.supervisor.slots()[&0].slot), (1, &before));
        assert_eq!(entry.spec().launch.program_args, ["1001"]);
        world.close().await;
    });
}

#[test]
fn a_reload_by_file_leaves_an_unchanged_app_alone() {
    locally(async {
        let mut world = World::new();
        let app = world.start_spec(version("1001", 2)).await;
        let pids = |engine: &Engine| {
            let places = engine.apps[&app].places.keys();
            places
                .map(|slot| engine.apps[&app].current(*slot).map(|process| process.child.pid))
                .collect::<Vec<_>>()
        };
        let before = pids(&world.engine);
        let by_file = |seconds: &str, code_changed_at_ms: u64| ActionRequest {
            definitions: vec![AppDefinition::from(&version(seconds, 2))],
            code_changed_at_ms: [("app".to_owned(), code_changed_at_ms)].into(),
            ..request("app")
        };
        let left = world.ask(Verb::Reload, by_file("1001", 1));
        world.turn_until_answered().await;
        let left = told(left).await.apps.remove(0);
        assert!(left.ok && left.unchanged && left.pm_ids.len() == 2, "{left:?}");
        assert_eq!(pids(&world.engine), before);
        // Newer code, or another definition.
        let newer = world.ask(Verb::Reload, by_file("1001", u64::MAX));
        world.turn_until_answered().await;
        assert!(!told(newer).await.apps[0].unchanged);
        let middle = pids(&world.engine);
        assert!(middle.iter().all(|pid| !before.contains(pid)));
        let other = world.ask(Verb::Reload, by_file("1002", 1));
        world.turn_until_answered().await;
        assert!(!told(other).await.apps[0].unchanged);
        assert!(pids(&world.engine).iter().all(|pid| !middle.contains(pid)));
        world.close().await;
    });
}

#[test]
fn a_renewal_leaves_stopped_workers_alone_and_a_reload_starts_them() {
    locally(async {
        let mut world = World::new();
        let app = world.start("app", SLEEP, 3);
        world.turn_until_answered().await;
        world.action(Verb::Stop, "1");
        world.turn_until_answered().await;
        let pids = |engine: &Engine| {
            let places = engine.apps[&app].places.keys();
            places
                .map(|slot| engine.apps[&app].current(*slot).map(|process| process.child.pid))
                .collect::<Vec<_>>()
        };
        let before = pids(&world.engine);
        assert!(before[0].is_some() && before[1].is_none() && before[2].is_some());
        world.engine.supervise(app, Event::FilesChanged("app.js changed".to_owned()));
        world.turn_until("all are renewed", |engine| !engine.apps[&app].supervisor.is_reloading()).await;
        let after = pids(&world.engine);
        assert!(after[0].is_some() && after[1].is_none() && after[2].is_some(), "{after:?}");
        assert!(after[0] != before[0] && after[2] != before[2], "{before:?} {after:?}");
        let entry = &world.engine.apps[&app];
        let record = &entry.supervisor.slots()[&1];
        assert!(!record.wanted && record.upkeep.renewed.is_none());
        world.action(Verb::Reload, "app");
        world.turn_until_answered().await;
        assert_eq!(world.running(app), 3);
        world.close().await;
    });
}

#[test]
fn reloads_whose_client_has_gone_are_not_carried_out() {
    locally(async {
        let mut world = World::new();
        let mut spec = version("1001", 2);
        spec.stop.drain_timeout = Duration::from_millis(1);
        let app = world.start_spec(spec).await;
        let first = world.action(Verb::Reload, "app");
        for _ in 0..5 {
            drop(world.action(Verb::Reload, "app"));
        }
        let last = world.action(Verb::Reload, "app");
        world.turn_until_answered().await;
        assert!(told(first).await.apps[0].ok && told(last).await.apps[0].ok);
        let entry = &world.engine.apps[&app];
        assert_eq!(entry.workers.started, 6, "two workers, and two reloads of them");
        world.close().await;
    });
}
