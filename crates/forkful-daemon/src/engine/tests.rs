//! The engine with real processes, turned by hand.

mod app_metrics;
mod apply;
mod clearing;
mod deployments;
mod events;
mod hung;
mod keeper;
mod metrics;
mod reload;
mod saved;
mod start;
mod takeover;
mod targets;
mod trials;
mod written;

use std::time::{Duration, Instant};

use forkful_cluster::protocol::incoming::AgentReport;
use forkful_core::spec::{AppName, AppSpec};
use forkful_core::supervisor::SlotRecord;

use super::work::{CLEARS_PER_TURN, Done, SIGNALS_PER_TURN, STARTS_PER_TURN};
use super::*;
use crate::command::Verb;
use forkful_api::types::{ActionReply, ActionRequest};

/// How long processes of this machine may take for what they do at once.
const PATIENCE: Duration = Duration::from_secs(120);

/// An engine, and what it would be told by others.
struct World {
    engine: Engine,
    back: mpsc::UnboundedReceiver<Back>,
    _home: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        Self::at(tempfile::tempdir().unwrap())
    }

    /// With a home where another one may have been.
    fn at(home: tempfile::TempDir) -> Self {
        let options = EngineOptions {
            home: Home::new(home.path().to_owned()),
            agent: None,
            echo: None,
            write_log_files: false,
            shutdown_delay: std::time::Duration::ZERO,
            keeping: Keeping::default(),
            history: crate::history::History::new(&Keeping::default()),
            rest: crate::rest::Rest::default(),
        };
        let (engine, back) = Engine::new(options, tree::Marks::new()).unwrap();
        Self { engine, back, _home: home }
    }

    fn start(&mut self, name: &str, command: &[&str], instances: u16) -> AppId {
        self.engine.start_now(vec![spec(name, command, instances)]);
        AppId(self.engine.apps.last)
    }

    /// One turn of the loop; says what it has worked.
    async fn turn(&mut self) -> Done {
        self.engine.on_reactor();
        while let Ok(event) = self.back.try_recv() {
            self.engine.on_back(event);
        }
        let done = self.engine.end_turn();
        tokio::task::yield_now().await;
        done
    }

    async fn turn_until(&mut self, what: &str, done: impl Fn(&Engine) -> bool) -> Vec<Done> {
        let began = Instant::now();
        let mut turns = Vec::new();
        while !done(&self.engine) {
            assert!(began.elapsed() < PATIENCE, "never: {what}");
            turns.push(self.turn().await);
        }
        turns
    }

    fn running(&self, app: AppId) -> usize {
        running(&self.engine, app)
    }

    fn action(&mut self, verb: Verb, target: &str) -> Answer {
        self.ask(verb, request(target))
    }

    fn ask(&mut self, verb: Verb, request: ActionRequest) -> Answer {
        let (reply, answer) = tokio::sync::oneshot::channel();
        self.engine.on_command(Command::Action { verb, request, reply });
        answer
    }

    /// Turns until every command has its answer.
    async fn turn_until_answered(&mut self) {
        self.turn_until("all commands are answered", |engine| engine.jobs.is_empty()).await;
        tokio::task::yield_now().await;
    }

    /// Ends everything.
    async fn close(&mut self) {
        self.action(Verb::Delete, "all");
        self.turn_until("all are gone", |engine| engine.apps.is_empty()).await;
    }
}

fn request(target: &str) -> ActionRequest {
    ActionRequest {
        targets: vec![target.to_owned()],
        optional_targets: Vec::new(),
        wait: true,
        instances: None,
        signal: None,
        definitions: Vec::new(),
        update_env: false,
        changes: Vec::new(),
        code_changed_at_ms: std::collections::BTreeMap::new(),
        fix: None,
        deployment: None,
    }
}

/// A command's answer, which waits for the disk.
async fn told(answer: Answer) -> ActionReply {
    tokio::time::timeout(PATIENCE, answer).await.unwrap().unwrap().unwrap()
}

type Answer = tokio::sync::oneshot::Receiver<Result<ActionReply, forkful_api::types::ErrorReply>>;

fn running(engine: &Engine, app: AppId) -> usize {
    engine.apps.get(&app).map_or(0, |entry| {
        entry.places.values().flat_map(|place| place.processes.values()).filter(|p| p.ended.is_none()).count()
    })
}

pub(super) fn spec(name: &str, command: &[&str], instances: u16) -> AppSpec {
    let mut spec = AppSpec::new(AppName::new(name).unwrap());
    spec.launch.program = command[0].into();
    spec.launch.program_args = command[1..].iter().map(|argument| (*argument).to_owned()).collect();
    spec.instances = instances;
    spec.restart.autorestart = false;
    spec.restart.min_uptime = Duration::ZERO;
    spec.agent = false;
    spec
}

/// One test at a time.
fn locally(test: impl Future<Output = ()>) {
    let _alone = crate::testing::alone_with_children();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test);
}

const SLEEP: &[&str] = &["/bin/sleep", "1000"];

#[test]
fn many_workers_are_started_a_few_in_each_turn_and_apps_take_turns() {
    locally(async {
        let mut world = World::new();
        let many = world.start("many", SLEEP, 40);
        assert_eq!(world.running(many), 0, "a command itself starts nothing");
        let turns = world.turn_until("some are started", |engine| running(engine, many) >= 10).await;
        assert!(turns.iter().all(|done| done.starts <= STARTS_PER_TURN), "{turns:?}");
        let one = world.start("one", SLEEP, 1);
        let turns = world.turn_until("the other app is started", |engine| running(engine, one) == 1).await;
        let before = turns.iter().map(|done| done.starts).sum::<usize>();
        // Starts take place on threads of their own, so that a few of the first app may come between; not all of them.
        assert!(before < 20, "it waited for {before} starts");
        world.turn_until("all are started", |engine| running(engine, many) == 40).await;

        let answer = world.action(Verb::Delete, "all");
        let turns = world.turn_until("all are deleted", |engine| engine.apps.is_empty()).await;
        assert!(turns.iter().all(|done| done.signals <= SIGNALS_PER_TURN && done.clears <= CLEARS_PER_TURN));
        assert_eq!(turns.iter().map(|done| done.signals).sum::<usize>(), 41);
        assert!(told(answer).await.apps.iter().all(|app| app.ok));
        assert!(world.engine.processes.is_empty());
    });
}

#[test]
fn a_worker_counts_as_online_only_after_its_own_start() {
    locally(async {
        let mut world = World::new();
        let mut spec = spec("many", SLEEP, 5);
        spec.restart.min_uptime = Duration::from_nanos(1);
        world.engine.start_now(vec![spec]);
        let app = AppId(1);
        let online = |engine: &Engine| {
            let is_online =
                |record: &SlotRecord| matches!(record.slot.state, forkful_core::slot::State::Online(_));
            engine.apps[&app].supervisor.slots().values().filter(|record| is_online(record)).count()
        };
        for _ in 0..3 {
            world.engine.on_time();
            world.engine.settle();
            assert_eq!((online(&world.engine), world.running(app)), (0, 0));
        }
        world
            .turn_until("all are online", |engine| {
                assert!(online(engine) <= running(engine, app), "online without a process");
                online(engine) == 5
            })
            .await;
        world.action(Verb::Delete, "all");
        world.turn_until("it is gone", |engine| engine.apps.is_empty()).await;
    });
}

#[test]
fn what_is_deleted_before_it_was_started_never_starts() {
    locally(async {
        let mut world = World::new();
        let app = world.start("many", SLEEP, 20);
        world.turn_until("one is started", |engine| running(engine, app) == 1).await;
        let answer = world.action(Verb::Delete, "many");
        let turns = world.turn_until("it is gone", |engine| !engine.apps.contains_key(&app)).await;
        assert_eq!(turns.iter().map(|done| done.starts).sum::<usize>(), 0);
        let signals = turns.iter().map(|done| done.signals).sum::<usize>();
        assert!((1..=2).contains(&signals), "one runs, and another may have been on its way: {signals}");
        tokio::task::yield_now().await;
        assert!(told(answer).await.apps.iter().all(|app| app.ok));
    });
}

#[test]
fn what_is_restarted_before_it_was_started_starts_once() {
    locally(async {
        let mut world = World::new();
        let app = world.start("many", SLEEP, 5);
        let answer = world.action(Verb::Restart, "many");
        let turns = world.turn_until("all run", |engine| running(engine, app) == 5).await;
        assert_eq!(turns.iter().map(|done| done.starts).sum::<usize>(), 5);
        world.turn_until("it is answered", |engine| engine.jobs.is_empty()).await;
        tokio::task::yield_now().await;
        assert!(told(answer).await.apps[0].ok);
        world.action(Verb::Delete, "all");
        world.turn_until("it is gone", |engine| engine.apps.is_empty()).await;
    });
}

#[test]
fn the_loop_does_not_sleep_while_work_waits() {
    locally(async {
        let World { mut engine, mut back, _home } = World::new();
        engine.start_now(vec![spec("brief", &["/bin/true"], 60)]);
        let (_sender, mut commands) = command_queue();
        let mut signals = Signals::listen(&[], &[]).unwrap();
        let run = engine.run(&mut commands, &mut back, &mut signals, true);
        tokio::time::timeout(PATIENCE, run).await.expect("all have ended").unwrap();
        assert_eq!(engine.exit_code(), 0);
    });
}

#[test]
fn what_an_agent_counts_is_an_event_only_where_a_limit_asks_for_it() {
    locally(async {
        let mut world = World::new();
        let app = world.start("app", SLEEP, 1);
        world.turn_until_answered().await;
        let now = world.engine.clock.now();
        let entry = world.engine.apps.get_mut(app).unwrap();
        let worker = entry.shown().next().unwrap().worker;
        let report = Box::new(AgentReport { requests: 7, ..AgentReport::default() });
        assert_eq!(entry.on_agent_report(worker, report, now), None);
        world.close().await;
    });
}

#[test]
fn a_program_that_cannot_be_started_ends_its_slot() {
    locally(async {
        let mut world = World::new();
        let app = world.start("none", &["/nonexistent/program"], 3);
        world.turn_until("all have failed", |engine| engine.apps[&app].is_at_rest()).await;
        assert_eq!(world.running(app), 0);
    });
}

#[test]
fn a_process_whose_end_could_not_be_noticed_is_a_failed_start() {
    use std::os::fd::AsFd;
    locally(async {
        let mut world = World::new();
        let app = world.start("unwatched", SLEEP, 1);
        let began = Instant::now();
        let pid = loop {
            assert!(began.elapsed() < PATIENCE, "no start");
            world.engine.on_time();
            world.engine.settle();
            world.engine.work_some();
            let Ok(event) = world.back.try_recv() else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            let mut pid = None;
            if let Back::Started { result: starting::StartResult { child: Ok(child), .. }, .. } = &event {
                // A descriptor that is watched already is refused.
                let token = PROCESS_BIT | u64::from(u32::MAX);
                world
                    .engine
                    .wake
                    .reactor()
                    .add(child.pidfd.as_fd(), token, forkful_os::reactor::Interest::READ)
                    .unwrap();
                pid = Some(child.pid);
            }
            world.engine.on_back(event);
            if let Some(pid) = pid {
                break pid;
            }
        };
        world.turn_until("the app has ended", |engine| engine.apps[&app].is_at_rest()).await;
        assert_eq!(world.running(app), 0);
        let reason = format!("{:?}", world.engine.apps[&app].supervisor.slots()[&0].slot.state);
        assert!(reason.contains("cannot watch the new process"), "{reason}");
        // Turned by hand, the loop does not reap what is no process of a slot.
        let is_killed = |_: &Engine| {
            let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        world.turn_until("the process is killed", is_killed).await;
        let _reaped = rustix::process::waitpid(
            rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()),
            rustix::process::WaitOptions::empty(),
        );
        world.close().await;
    });
}

#[test]
fn numbers_of_apps_stay_within_their_bits_and_are_not_given_twice() {
    locally(async {
        let mut world = World::new();
        let first = world.start("first", SLEEP, 1);
        world.engine.apps.last = apps::APP_IDS_MAX - 1;
        let last = world.start("last", SLEEP, 1);
        let next = world.start("next", SLEEP, 1);
        assert_eq!([first, last, next], [AppId(1), AppId(apps::APP_IDS_MAX), AppId(2)]);
        let token = u64::from(last.0) << forkful_cluster::primary::TOKEN_BITS;
        assert_eq!(token & PROCESS_BIT, 0);
        world.close().await;
    });
}
