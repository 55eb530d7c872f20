//! The engine: a router between the loop and the owners of the state. Events go in, effects are performed.
//!
//! Each turn: something is ready (descriptors in the reactor, a command, a point in time, a signal)
//! → the event is fed to the supervisor of its app in the core → its effects are performed. All of it is
//! synchronous and short; what may take long (disks, clients) happens in the log service and the
//! API server.
//!
//! Owners; each gets what else it needs as arguments, and returns what is to be done:
//! - `apps`: the apps, with `app` (one app, its slots and processes), `log_files`, `targets` and `resolve` (what a request means),
//!   `dependencies`, `view` (lists), `lacks`, `readiness` (sockets), `upkeep` (health, files, the clock), `groups`, `stalls` (event loops that stood still), `metrics`
//! - `jobs`: commands under way, and their replies; `reload`: the words at the end of one · `apply`: configurations being
//!   made true · `look`: lists that wait for workers
//! - `processes`: process ids, trees, pid files · `starting`: starts under way, with `work`: what takes its time, a little
//!   in each turn, and `launch`: one process
//! - `conversation`: events, messages, actions; `stdin`; `incidents`: what nobody asked for
//! - `persistence`: what is saved; `resurrect`: the way back · `written`: what is written down for a daemon that follows this
//!   one; `adoption`: the way back
//! - `update`: the program of another version looks at what was written down
//! - `closes`: connections that ended · `wake`: the reactor and its timer; `tokens`: which descriptor an event is about ·
//!   `back`: what threads and tasks send when their work is done
//!
//! The router itself, and nothing else, is `impl Engine`: the loop below, `commands` and `keep` (what clients ask for),
//! `actions` (effects performed), `lifecycle` (processes begin and end), `time` (what is due).

mod actions;
mod adoption;
mod alerts;
mod app;
mod app_metrics;
mod apply;
mod apps;
mod autoscaling;
mod back;
mod clock;
mod closes;
mod commands;
mod conversation;
mod cpu_sample;
mod exit_tail;
mod failures;
mod faults;
mod groups;
mod incidents;
mod jobs;
mod keep;
mod lacks;
mod launch;
mod lifecycle;
mod log_files;
mod log_request;
mod look;
mod memory;
mod metrics;
mod otlp;
mod outgoing;
mod persistence;
mod process;
mod processes;
mod profiles;
mod readiness;
mod recalled;
mod relatives;
mod reload;
mod resolve;
mod resurrect;
mod signals;
mod stalls;
mod start_plan;
mod starting;
mod stdin;
mod targets;
#[cfg(test)]
mod tests;
mod time;
mod tokens;
mod trials;
mod update;
mod upkeep;
mod view;
mod wake;
mod work;
mod written;

pub(crate) use app_metrics::MetricsOrder;
pub(crate) use back::Back;
pub(crate) use clock::{Clock, wall_ms};
pub(crate) use signals::Signals;
pub use update::check_state;
pub(crate) use written::Written;

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use forkful_api::types::{ActionReply, ErrorReply};
use forkful_core::Time;
use forkful_core::foreground::{LogPrefix, OnSignal, Stop, exit_code};
use forkful_core::random::Random;
use forkful_core::slot::Exit;
use forkful_core::spec::AppSpec;
use forkful_core::supervisor::{Effect, Event, FirstStates};
use forkful_core::update::Trial;
use forkful_os::keeper::Keeping;
use forkful_os::reactor;
use forkful_os::tree;
use tokio::sync::mpsc;

use crate::command::{COMMAND_QUEUE, Command};
use crate::history::History;
use crate::home::Home;
use crate::incidents::Incidents;
use crate::logs::LogService;
use crate::rest::Rest;
use app::{App, AppId};
use apps::Apps;
use closes::Closes;
use jobs::{JobId, Jobs};
use look::Looks;
use otlp::LastExports;
use processes::Processes;
use signals::Signal;
use starting::Starts;
use tokens::{CLOSES_TOKEN, KEEPER_TOKEN, PROCESS_BIT, RELATIVES_TOKEN, TIMER_TOKEN, app_of};
use wake::Wake;
use work::Done;

/// Rounds of reactor events in one turn, so that commands and timers have their say.
const ROUNDS_PER_TURN: usize = 16;
/// A turn of many rounds ends after so long, for the same reason.
const TURN_MAX: Duration = Duration::from_millis(50);
/// For so long a turn takes in what threads have answered.
const BACK_MAX: Duration = Duration::from_millis(1);

/// How far the engine is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Takes every command.
    Serving,
    /// Everything is being stopped; nothing new is begun.
    Closing,
    /// Another program is about to go on in this daemon's place; nothing new is begun.
    MakingWay,
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
    /// In the foreground: workers' output goes to our own stdout and stderr.
    pub(crate) echo: Option<LogPrefix>,
    /// Workers' output goes to files.
    pub(crate) write_log_files: bool,
    /// For how long workers serve on after a signal that asks for a stop (foreground).
    pub(crate) shutdown_delay: Duration,
    /// The keeper, if there is one.
    pub(crate) keeping: Keeping,
    /// Where what was measured is kept.
    pub(crate) history: History,
    /// Is told when apps were looked at.
    pub(crate) rest: Rest,
}

/// How far the engine is in its life, and how it is to end.
#[derive(Debug)]
struct Life {
    phase: Phase,
    /// The stop that a signal asked for (foreground); its signal replaces the apps' own.
    stop: Option<Stop>,
    /// How the process that ended last did so.
    last_exit: Option<Exit>,
    /// The program for which this daemon makes way, and by when.
    successor: Option<(OwnedFd, Time)>,
    /// Of this daemon, if it has replaced another one.
    trial: Option<Trial>,
    last_exports: LastExports,
}

/// What is delivered after what is being done now.
struct Inbox {
    /// From within.
    events: VecDeque<(AppId, Event)>,
    /// Where threads and tasks send theirs to.
    back: mpsc::UnboundedSender<Back>,
    /// Effects of the event that is being handled. Empty between two events; keeps its memory.
    effects: Vec<Effect>,
}

/// See the module's documentation.
pub(crate) struct Engine {
    options: EngineOptions,
    clock: Clock,
    wake: Wake,
    logs: LogService,
    apps: Apps,
    processes: Processes,
    starts: Starts,
    jobs: Jobs,
    plans: apply::Plans,
    looks: Looks,
    conversations: conversation::Conversations,
    closes: Closes,
    /// The saved state; none in the foreground.
    persistence: Option<persistence::Persistence>,
    inbox: Inbox,
    life: Life,
}

impl Engine {
    /// An engine whose workers are known by `marks`.
    pub(crate) fn new(
        options: EngineOptions,
        marks: tree::Marks,
    ) -> io::Result<(Self, mpsc::UnboundedReceiver<Back>)> {
        let (back, back_receiver) = mpsc::unbounded_channel();
        let wake = Wake::new()?;
        let persistence =
            if options.echo.is_some() { None } else { Some(persistence::Persistence::start(&options.home)?) };
        let mut starts = Starts::new(marks, back.clone());
        starts.listen(&options.home, wake.reactor(), &options.keeping);
        let (tell_noted, tell_full) = (back.clone(), back.clone());
        // The engine is gone only when the daemon ends.
        let incidents = Incidents::new(options.home.incidents(), move |incident| {
            let _gone = tell_noted.send(Back::Noted(Box::new(incident)));
        });
        let logs = LogService::start_telling(move |path, fault| {
            let _gone = tell_full.send(Back::DiskFull { path, fault });
        })?;
        let seed = clock::wall_ms() ^ (u64::from(std::process::id()) << 32);
        let engine = Self {
            clock: Clock,
            processes: Processes::new(Rc::clone(wake.reactor()), &options.keeping)?,
            wake,
            logs,
            apps: Apps::new(Random::new(seed), options.history.clone()),
            starts,
            jobs: Jobs::default(),
            plans: apply::Plans::default(),
            looks: Looks::default(),
            conversations: conversation::Conversations::new(incidents),
            closes: Closes::default(),
            options,
            persistence,
            inbox: Inbox { events: VecDeque::new(), effects: Vec::new(), back },
            life: Life {
                phase: Phase::Serving,
                stop: None,
                last_exit: None,
                successor: None,
                trial: None,
                last_exports: LastExports::default(),
            },
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
        let ready = self.wake.watch()?;
        while !(self.has_ended() || until_rest && self.is_at_rest()) {
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
                Some(event) = back.recv() => self.on_back_and_more(event, back),
                signal = signals.next() => self.on_signal(signal),
                // What is ready comes first; then the loop turns at once.
                () = tokio::task::yield_now(), if self.has_work() => {}
            }
            self.end_turn();
        }
        self.jobs.give_all().await;
        self.export_last().await;
        Ok(())
    }

    /// Does what is due, delivers everything and works; returns what it has worked. What this changes is delivered and written down too.
    fn end_turn(&mut self) -> Done {
        self.on_time();
        let has_finished = self.settle();
        let done = self.work_some();
        if has_finished || done != Done::default() || !self.inbox.events.is_empty() {
            self.settle();
        }
        done
    }

    /// Sends the metrics of what is left, and waits for a moment until they have arrived. When another daemon goes on with the apps, it
    /// does neither: no app is served meanwhile.
    async fn export_last(&mut self) {
        if self.life.successor.is_some() {
            return;
        }
        let now = self.clock.now();
        self.apps.values_mut().for_each(|app| self.life.last_exports.begin(app, &self.logs, now));
        self.life.last_exports.finish().await;
    }

    /// Serves ready descriptors; says whether all have been.
    fn on_reactor(&mut self) -> bool {
        let mut events = Vec::new();
        let began = Instant::now();
        for _ in 0..ROUNDS_PER_TURN {
            events.clear();
            let waited = self.wake.reactor().wait(&mut events, Some(Duration::ZERO));
            if waited.is_err() || events.is_empty() {
                return true;
            }
            for event in &events {
                self.on_event(event);
            }
            if events.iter().any(|event| event.token != TIMER_TOKEN) {
                self.starts.work.note_served(self.clock.now());
            }
            self.settle();
            self.apps.take_read(&events, self.clock.now());
            if !self.starts.work.is_empty() || began.elapsed() > TURN_MAX {
                break;
            }
        }
        false
    }

    fn on_event(&mut self, event: &reactor::Event) {
        let now = self.clock.now();
        if event.token == TIMER_TOKEN {
            // What is due is done at the end of the turn.
            self.wake.note_rung();
        } else if event.token == RELATIVES_TOKEN {
            self.starts.take_in(&mut self.apps, now);
        } else if event.token == KEEPER_TOKEN {
            self.hear_keeper();
        } else if event.token == CLOSES_TOKEN {
            self.closes.on_readable(&mut self.apps, self.wake.reactor(), now);
        } else if event.token & PROCESS_BIT != 0 {
            self.on_process_ended(event.token & !PROCESS_BIT);
        } else if let Some(app) = app_of(event)
            && let Some(entry) = self.apps.get_mut(app)
        {
            entry.primary.on_event(event, now);
            self.take_primary_events(app);
        }
    }

    fn hear_keeper(&mut self) {
        self.processes.hear_keeper(|pid| self.starts.is_being_started(pid));
    }

    /// Delivers what the last event has left behind, until nothing is. Says whether jobs have finished, which changes what is written down.
    fn settle(&mut self) -> bool {
        loop {
            match self.inbox.events.pop_front() {
                Some((app, event)) => {
                    self.supervise(app, event);
                    self.apps.free_ports(app);
                }
                None if !self.go_on_with_held() => break,
                None => {}
            }
        }
        self.write_down();
        if self.processes.has_news() {
            self.hear_keeper();
        }
        let has_finished = self.finish_jobs();
        self.finish_looks();
        self.save_changes();
        self.jobs.reply_at_once(self.persistence.as_ref());
        self.jobs.forget_given();
        self.closes.follow(&mut self.apps, self.wake.reactor(), self.clock.now());
        has_finished
    }

    /// Has apps that wait for others go on, where those are as far as they should be; says whether any did.
    fn go_on_with_held(&mut self) -> bool {
        let mut any = false;
        for app in self.apps.waiting() {
            self.supervise(app, Event::OthersMoved);
            any |= !self.apps.get(&app).is_some_and(|entry| entry.supervisor.waits_for_others());
        }
        any
    }

    /// What else has come meanwhile is delivered and written down with it. Connections do not wait for more than [`BACK_MAX`].
    fn on_back_and_more(&mut self, first: Back, others: &mut mpsc::UnboundedReceiver<Back>) {
        let began = Instant::now();
        self.on_back(first);
        while began.elapsed() < BACK_MAX
            && let Ok(next) = others.try_recv()
        {
            self.on_back(next);
        }
    }

    fn on_back(&mut self, back: Back) {
        match back {
            Back::Step(command) => self.on_command(command),
            Back::Exported { app, receiver, outcome } => {
                if let Some(entry) = self.apps.get_mut(app) {
                    entry.on_exported(&receiver, outcome, self.clock.now());
                }
            }
            Back::Merged(merged) => self.apps.on_merged(&merged, self.clock.now()),
            Back::Advanced(number, progress) => self.plans.advance(number, progress),
            Back::Applied(applied) => self.plans.end(applied),
            Back::Noted(incident) => {
                let now = self.clock.now();
                self.conversations.publish_incident(*incident, &self.apps, &mut self.starts, now);
            }
            Back::Reported(reports) => {
                self.apps.on_reports(reports);
                self.looks.reading.go_on(&self.inbox.back);
            }
            Back::DiskFull { path, fault } => self.conversations.note_full_disk(&path, &fault, &self.apps),
            Back::Flushed { job, app, fault } => {
                self.jobs.fail(job, app, fault);
                self.jobs.answered(job);
            }
            Back::Files { app, news } => {
                let event = self.apps.get_mut(app).and_then(|entry| entry.on_files(news));
                self.supervise_some(app, event);
            }
            Back::Health { app, slot, generation, answer } => {
                self.tell(app, Event::Health { slot, generation, answer });
            }
            Back::Warmed { app, slot, generation, outcome } => {
                self.tell(app, Event::Warmed { slot, generation, outcome });
            }
            Back::Loaded(resurrection, loaded) => self.on_loaded(resurrection, loaded),
            Back::Revived(resurrection, candidates) => self.on_revived(resurrection, candidates),
            Back::Started { number, result } => self.on_started(number, result),
            Back::OwnPrimary { app, slot, generation } => {
                if let Some(entry) = self.apps.get_mut(app) {
                    entry.note_own_primary(slot, generation);
                }
            }
            Back::HelperStarted { number, result, waits } => {
                self.starts.hand_over_helper(number, result, waits, &mut self.processes);
            }
            Back::HelperEnded { pid } => self.processes.note_gone(pid),
        }
    }

    fn on_signal(&mut self, signal: Signal) {
        match signal {
            Signal::Child => self.processes.reap_orphans(|pid| self.starts.is_being_started(pid)),
            Signal::Stop(_) if self.options.echo.is_none() => self.kill(None),
            Signal::Stop(number) => self.on_stop_signal(number),
            // In the background SIGUSR2, the only one of these, asks what PM2 does on it.
            Signal::Forward(_) if self.options.echo.is_none() => drop(self.logs.reopen()),
            Signal::Forward(number) => self.apps.signal_all(number),
        }
    }

    /// Foreground: the signal is passed on as it is.
    fn on_stop_signal(&mut self, number: i32) {
        let delay = self.options.shutdown_delay;
        match Stop::on_signal(self.life.stop, number, delay, self.clock.now()) {
            OnSignal::Nothing => {}
            OnSignal::Wait(stop) => self.life.stop = Some(stop),
            OnSignal::StopApps(stop) => {
                self.life.stop = Some(stop);
                self.kill(None);
            }
            OnSignal::KillApps => {
                if self.life.phase == Phase::Serving {
                    self.kill(None);
                }
                self.apps.signal_all(9);
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.life.phase == Phase::Ended
            || self
                .makes_way_by()
                .is_some_and(|by| self.apps.have_handed_all_over() || by <= self.clock.now())
    }

    /// Until when this daemon hands over what it has accepted, before another program goes on in its place.
    fn makes_way_by(&self) -> Option<Time> {
        self.life.successor.as_ref().filter(|_| self.life.phase == Phase::MakingWay).map(|(_, by)| *by)
    }

    fn is_at_rest(&self) -> bool {
        self.apps.values().all(App::is_at_rest) && self.jobs.is_empty()
    }

    /// How the foreground's process should end: as its workers did.
    pub(crate) fn exit_code(&self) -> i32 {
        let records = self.apps.values().flat_map(|entry| entry.supervisor.slots().values());
        let exits = records.filter_map(|record| record.last_exit.as_ref());
        exit_code(self.life.stop.is_some(), self.life.last_exit.as_ref(), exits)
    }

    /// Starts apps without a client; what is returned tells when all are up or have failed.
    pub(crate) fn start_now(&mut self, specs: Vec<AppSpec>) -> Started {
        let (reply, started) = tokio::sync::oneshot::channel();
        let job = self.jobs.begin(Some(reply));
        for spec in specs {
            self.create(spec, job, FirstStates::default());
        }
        self.settle();
        started
    }

    /// Makes an app and starts its workers.
    fn create(&mut self, spec: AppSpec, job: JobId, first: FirstStates) -> AppId {
        let id = self.apps.create(spec, self.wake.reactor(), &self.options.keeping);
        self.conversations.hear_messages(&mut self.apps);
        self.jobs.join(job, id, &self.apps);
        self.supervise(id, Event::Create { first, job });
        self.jobs.note(job, id, self.apps.memory_note(id, self.clock.now()));
        let balance = self.apps.get(&id).and_then(|entry| launch::balance_note(entry.spec()));
        self.jobs.note(job, id, balance.map(str::to_owned));
        id
    }
}

/// The queue between clients and the engine.
pub(crate) fn command_queue() -> (mpsc::Sender<Command>, mpsc::Receiver<Command>) {
    mpsc::channel(COMMAND_QUEUE)
}
