//! The engine: the only owner of all apps, and the loop that serves them.
//!
//! Each turn: something is ready (descriptors in the reactor, a command, a point in time, a signal)
//! → the event is fed to the core's state machines → their actions are performed. All of it is
//! synchronous and short; what may take long (disks, clients) happens in the log service and the
//! API server.
//!
//! - `app`: what is kept of an app · `places`: apps and slots come and go
//! - `commands`: what clients ask for · `targets`: of whom · `jobs`: what still owes them an answer
//! - `actions`: what the core decides, performed · `launch`: one process · `starting`: its start · `exits`: processes end
//! - `groups`: control groups, limits and the kernel's figures
//! - `readiness`: when a worker counts as ready · `work`: what takes its time, a little in each turn
//! - `upkeep`: what renews workers · `dependencies`: apps that need each other · `persistence`: what is saved ·
//!   `resurrect`: the way back
//! - `resolve`: what a request means · `apply`: a configuration made true · `reload` · `signals` · `time`: what is due · `closes`: connections that ended · `view`: lists ·
//!   `conversation`: events, messages

mod actions;
mod app;
mod apply;
mod clock;
mod closes;
mod commands;
mod conversation;
mod cpu_sample;
mod dependencies;
mod exit_tail;
mod exits;
mod faults;
mod groups;
mod jobs;
mod lacks;
mod launch;
mod log_request;
mod look;
mod persistence;
mod places;
mod readiness;
mod reload;
mod resolve;
mod resurrect;
mod signals;
mod starting;
mod stdin;
mod targets;
#[cfg(test)]
mod tests;
mod time;
mod upkeep;
mod view;
mod work;

pub(crate) use clock::wall_ms;
pub(crate) use signals::Signals;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forkful_api::saved::ResurrectRequest;
use forkful_api::types::{ActionReply, ErrorReply};
use forkful_core::Time;
use forkful_core::chance::Chance;
use forkful_core::slot::{Exit, Generation};
use forkful_core::spec::AppSpec;
use forkful_core::supervisor::{Effect, Event};
use forkful_os::cgroup::Groups;
use forkful_os::closed::ClosedConnections;
use forkful_os::process::{Child, Flight};
use forkful_os::reactor::{self, Interest, Reactor};
use forkful_os::timer::Timer;
use forkful_os::tree;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

use crate::command::{COMMAND_QUEUE, Command};
use crate::home::Home;
use crate::logs::{EchoPrefix, LogService};
use crate::pid_files::PidFiles;
use crate::service_environment;
use crate::starter::Starter;
use app::{App, AppId};
use clock::Clock;
use jobs::{Job, JobId};
use work::Work;

/// Marks a reactor token as a process's pidfd; the rest of it is the key in `Engine::watched`.
const PROCESS_BIT: u64 = 1 << 63;
/// The reactor token of the kernel's reports of closed connections.
const CLOSES_TOKEN: u64 = PROCESS_BIT;
/// The reactor token of the engine's timer.
const TIMER_TOKEN: u64 = PROCESS_BIT | (PROCESS_BIT - 1);
/// Rounds of reactor events in one turn, so that commands and timers have their say.
const ROUNDS_PER_TURN: usize = 16;
/// A turn of many rounds ends after so long, for the same reason.
const TURN_MAX: Duration = Duration::from_millis(50);

/// What comes back from work that was done elsewhere.
#[derive(Debug)]
pub(crate) enum Back {
    /// The next step of a configuration that is being applied.
    Step(Command),
    /// A configuration has been applied, or taken back.
    Applied(apply::Applied),
    /// Log files have been emptied.
    Flushed { job: JobId, app: AppId, fault: Option<String> },
    /// What a watch of files has to tell.
    Files { app: AppId, news: crate::watch::News },
    /// A health check has an answer.
    Health {
        app: AppId,
        slot: u16,
        /// Of which of its processes.
        generation: Generation,
        /// What was wrong, if anything.
        answer: Result<(), String>,
    },
    /// A saved state has been read.
    Loaded(resurrect::Resurrection, Result<crate::store::Loaded, String>),
    /// The `.env` files of saved apps have been read.
    Revived(resurrect::Resurrection, Vec<resurrect::Candidate>),
    /// A thread has started a worker's process, or could not.
    Started {
        /// The number of the start.
        number: u64,
        result: starting::StartResult,
    },
    /// The script of a worker has a primary part of its own.
    OwnPrimary {
        app: AppId,
        slot: u16,
        /// Of which of its processes.
        generation: Generation,
    },
    /// A thread has started a process that is no worker, or could not.
    HelperStarted {
        /// The number of the start.
        number: u64,
        result: Result<Child, String>,
        /// Gets it.
        waits: tokio::sync::oneshot::Sender<Result<Child, String>>,
    },
    /// A process that is no worker has ended, and was reaped.
    HelperEnded { pid: u32 },
}

/// How far the engine is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Takes every command.
    Serving,
    /// Everything is being stopped; nothing new is begun.
    Closing,
    /// All is done; the loop ends.
    Ended,
}

/// The answer to a start that comes when it is over.
pub(crate) type Started = tokio::sync::oneshot::Receiver<Result<ActionReply, ErrorReply>>;

/// How the engine is run.
#[derive(Debug)]
pub(crate) struct EngineOptions {
    pub(crate) home: Home,
    /// `None` when it could not be installed: drains are less exact then.
    pub(crate) agent: Option<PathBuf>,
    /// Workers' output goes to our own stdout and stderr.
    pub(crate) echo: bool,
    /// Workers' output goes to files.
    pub(crate) write_log_files: bool,
    /// What its workers are known by.
    pub(crate) marks: tree::Marks,
}

/// See the module's documentation.
pub(crate) struct Engine {
    clock: Clock,
    home: Home,
    /// The apps' unix sockets, as the next daemon would find them noted.
    noted_sockets: BTreeSet<PathBuf>,
    agent: Option<PathBuf>,
    echo: bool,
    write_log_files: bool,
    reactor: Rc<Reactor>,
    timer: Timer,
    /// What the timer is set to.
    timer_set: Option<Time>,
    logs: LogService,
    conversations: conversation::Conversations,
    apps: BTreeMap<AppId, App>,
    watched: HashMap<u64, (AppId, u16, Generation)>,
    /// The process ids of our workers, and of the commands of health checks.
    pids: HashSet<u32>,
    pid_files: PidFiles,
    /// What takes its time.
    work: Work,
    /// The threads that start processes.
    starter: Starter,
    /// Where the apps' control groups are made, if they can be.
    groups: Option<Groups>,
    pending: BTreeMap<(AppId, u16, Generation), starting::Pending>,
    stuck: Vec<starting::Stuck>,
    /// Since when starts fail for want of descriptors or memory.
    short_since: Option<Time>,
    /// Starts of processes that are no workers.
    helpers: HashMap<u64, Arc<Flight>>,
    /// Some app may hold something back for another.
    holds_some: bool,
    /// The apps that an `apply` under way changes.
    applying: BTreeSet<String>,
    /// All processes, as they were then; taken when needed, kept while there is work.
    snapshot: Option<(Time, tree::Snapshot)>,
    /// How such a view is had.
    look: fn(&HashSet<u32>) -> io::Result<tree::Snapshot>,
    jobs: BTreeMap<JobId, Job>,
    /// Empty between two events; keeps its memory.
    effects: Vec<Effect>,
    /// Events of slots that come from within: exits of processes that never began, drains that need no time.
    told: VecDeque<(AppId, Event)>,
    looks: Vec<look::Look>,
    replies: Vec<tokio::task::JoinHandle<()>>,
    back: mpsc::UnboundedSender<Back>,
    closes: Option<ClosedConnections>,
    closes_ports: Vec<u16>,
    closes_seen: (Time, u32),
    closes_pause: Option<Time>,
    /// The saved state; none in the foreground.
    persistence: Option<persistence::Persistence>,
    /// Distinguishes this daemon's workers from each other and from any other's.
    marks: tree::Marks,
    chance: Chance,
    next_app: u32,
    next_pm_id: u32,
    next_job: u64,
    next_watch: u64,
    next_start: u64,
    next_later: u64,
    /// Replaces apps' own stop signal (foreground mode forwards what it got).
    stop_signal: Option<i32>,
    /// How the process that ended last did so.
    last_exit: Option<Exit>,
    phase: Phase,
}

impl Engine {
    pub(crate) fn new(options: EngineOptions) -> io::Result<(Self, mpsc::UnboundedReceiver<Back>)> {
        let (back, back_receiver) = mpsc::unbounded_channel();
        let (reactor, timer) = (Rc::new(Reactor::new()?), Timer::new()?);
        reactor.add(timer.as_fd(), TIMER_TOKEN, Interest::READ | Interest::EDGE)?;
        let persistence =
            if options.echo { None } else { Some(persistence::Persistence::start(&options.home)?) };
        let engine = Self {
            persistence,
            clock: Clock::new(),
            home: options.home,
            noted_sockets: BTreeSet::new(),
            agent: options.agent,
            echo: options.echo,
            write_log_files: options.write_log_files,
            reactor,
            timer,
            timer_set: None,
            logs: LogService::start()?,
            conversations: conversation::Conversations::default(),
            apps: BTreeMap::new(),
            watched: HashMap::new(),
            pids: HashSet::new(),
            pid_files: PidFiles::default(),
            work: Work::default(),
            starter: Starter::default(),
            groups: Groups::make(options.marks.instance()),
            pending: BTreeMap::new(),
            stuck: Vec::new(),
            short_since: None,
            helpers: HashMap::new(),
            holds_some: false,
            applying: BTreeSet::new(),
            snapshot: None,
            look: tree::Snapshot::take,
            jobs: BTreeMap::new(),
            effects: Vec::new(),
            told: VecDeque::new(),
            looks: Vec::new(),
            replies: Vec::new(),
            back,
            closes: None,
            closes_ports: Vec::new(),
            closes_seen: (Time::default(), 0),
            closes_pause: None,
            marks: options.marks,
            chance: Chance::new(clock::wall_ms() ^ (u64::from(std::process::id()) << 32)),
            next_app: 0,
            next_pm_id: 0,
            next_job: 0,
            next_watch: 0,
            next_start: 0,
            next_later: 0,
            stop_signal: None,
            last_exit: None,
            phase: Phase::Serving,
        };
        Ok((engine, back_receiver))
    }

    /// Serves until [`Self::kill`] has been carried out, or, with `until_rest`, until nothing runs
    /// and nothing is planned.
    pub(crate) async fn run(
        &mut self,
        commands: &mut mpsc::Receiver<Command>,
        back: &mut mpsc::UnboundedReceiver<Back>,
        signals: &mut Signals,
        until_rest: bool,
    ) -> io::Result<()> {
        let ready = watch_reactor(&self.reactor)?;
        while !(self.phase == Phase::Ended || until_rest && self.is_at_rest()) {
            self.set_timer()?;
            tokio::select! {
                guard = ready.readable() => {
                    let mut guard = guard?;
                    if self.on_reactor() {
                        guard.clear_ready();
                    } else {
                        // Workers that keep us busy must not keep clients and signals waiting: without
                        // this, the runtime would never look at anything else.
                        tokio::task::yield_now().await;
                    }
                }
                command = commands.recv() => match command {
                    Some(command) => self.on_command(command),
                    None => self.kill(None),
                },
                Some(event) = back.recv() => self.on_back(event),
                signal = signals.next() => self.on_signal(signal),
                // What is ready comes first; then the loop turns at once.
                () = tokio::task::yield_now(), if self.has_work() => {}
            }
            self.on_time();
            self.settle();
            self.work_some();
            self.settle();
        }
        for reply in self.replies.drain(..) {
            // A reply that panicked has nobody to tell.
            let _ended = reply.await;
        }
        Ok(())
    }

    /// Serves ready descriptors; says whether all have been.
    fn on_reactor(&mut self) -> bool {
        let mut events = Vec::new();
        let began = Instant::now();
        for _ in 0..ROUNDS_PER_TURN {
            events.clear();
            if self.reactor.wait(&mut events, Some(Duration::ZERO)).is_err() || events.is_empty() {
                return true;
            }
            for event in &events {
                self.on_event(event);
            }
            if events.iter().any(|event| event.token != TIMER_TOKEN) {
                self.work.note_served(self.clock.now());
            }
            self.settle();
            if !self.work.is_empty() || began.elapsed() > TURN_MAX {
                break;
            }
        }
        false
    }

    fn on_event(&mut self, event: &reactor::Event) {
        if event.token == TIMER_TOKEN {
            // What is due is done at the end of the turn.
            self.timer_set = None;
        } else if event.token == CLOSES_TOKEN {
            self.on_closes();
        } else if event.token & PROCESS_BIT != 0 {
            self.on_process_ended(event.token & !PROCESS_BIT);
        } else {
            let app = AppId((event.token >> forkful_cluster::primary::TOKEN_BITS) as u32);
            let now = self.clock.now();
            if let Some(entry) = self.apps.get_mut(&app) {
                entry.primary.on_event(event, now);
                self.take_primary_events(app);
            }
        }
    }

    /// Delivers what the last event has left behind, until nothing is.
    fn settle(&mut self) {
        loop {
            match self.told.pop_front() {
                Some((app, event)) => {
                    self.supervise(app, event);
                    self.after_exit(app);
                }
                None if !self.go_on_with_held() => break,
                None => {}
            }
        }
        self.finish_jobs();
        self.finish_looks();
        self.save_changes();
        self.replies.retain(|reply| !reply.is_finished());
        self.follow_closes();
    }

    fn on_back(&mut self, back: Back) {
        match back {
            Back::Step(command) => self.on_command(command),
            Back::Applied(applied) => self.on_applied(applied),
            Back::Flushed { job, app, fault } => {
                if let Some(part) = self.part(job, app)
                    && let Some(fault) = fault
                {
                    part.note(fault);
                }
                self.answered(job);
            }
            Back::Files { app, news } => self.on_files(app, news),
            Back::Health { app, slot, generation, answer } => self.on_health(app, slot, generation, answer),
            Back::Loaded(resurrection, loaded) => self.on_loaded(resurrection, loaded),
            Back::Revived(resurrection, candidates) => self.on_revived(resurrection, candidates),
            Back::Started { number, result } => self.on_started(number, result),
            Back::OwnPrimary { app, slot, generation } => self.on_own_primary(app, slot, generation),
            Back::HelperStarted { number, result, waits } => self.on_helper_started(number, result, waits),
            Back::HelperEnded { pid } => {
                self.pids.remove(&pid);
            }
        }
    }

    fn is_at_rest(&self) -> bool {
        self.apps.values().all(App::is_at_rest) && self.jobs.is_empty()
    }

    /// How the foreground's process should end: as its workers did. After a stop signal, as the last
    /// of them (an app that handles the signal decides itself); else the worst of them.
    pub(crate) fn exit_code(&self) -> i32 {
        let code = |exit: &Exit| match exit {
            Exit::Code(code) => *code,
            Exit::Signal(signal) => 128 + signal,
            Exit::SpawnFailed(_) => 127,
        };
        if self.stop_signal.is_some() {
            return self.last_exit.as_ref().map_or(0, code);
        }
        let records = self.apps.values().flat_map(|entry| entry.supervisor.slots().values());
        records.filter_map(|record| record.last_exit.as_ref()).map(code).max().unwrap_or(0)
    }

    /// Starts apps without a client; what is returned tells when all are up or have failed.
    pub(crate) fn start_now(&mut self, specs: Vec<AppSpec>) -> Started {
        let (reply, started) = tokio::sync::oneshot::channel();
        let job = self.new_job(Some(reply), |reply| reply);
        for spec in specs {
            self.create(spec, job);
        }
        self.settle();
        started
    }

    /// The same for what was saved. Values that were not saved are taken from the home's file `environment`, else from this
    /// process's environment.
    pub(crate) fn resurrect_now(&mut self) -> Started {
        let (reply, started) = tokio::sync::oneshot::channel();
        let texts = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let mut env: BTreeMap<String, String> = std::env::vars_os().filter_map(texts).collect();
        match service_environment::read(&self.home.environment()) {
            Ok(variables) => env.extend(variables),
            Err(fault) => log_line!("forkful: {fault}; apps start without its values"),
        }
        let request = ResurrectRequest { saved: false, env, wait: true, ..ResurrectRequest::default() };
        self.resurrect(request, reply);
        self.settle();
        started
    }

    fn echo_for(&self, slot: u16) -> Option<EchoPrefix> {
        let several = self.apps.values().map(|entry| entry.spec().instances).sum::<u16>() > 1;
        self.echo.then(|| if several { EchoPrefix(format!("{slot} | ")) } else { EchoPrefix::default() })
    }
}

/// The queue between clients and the engine.
pub(crate) fn command_queue() -> (mpsc::Sender<Command>, mpsc::Receiver<Command>) {
    mpsc::channel(COMMAND_QUEUE)
}

/// Lets tokio watch the reactor.
#[expect(deprecated, reason = "its successor is unsafe for types that may close early; an OwnedFd cannot")]
fn watch_reactor(reactor: &Reactor) -> io::Result<AsyncFd<OwnedFd>> {
    let fd = reactor.as_fd().try_clone_to_owned()?;
    AsyncFd::with_interest(fd, tokio::io::Interest::READABLE)
}
