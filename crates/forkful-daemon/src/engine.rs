//! The engine: the only owner of all apps, and the loop that serves them.
//!
//! Each turn: something is ready (descriptors in the reactor, a command, a point in time, a signal)
//! → the event is fed to the core's state machines → their actions are performed. All of it is
//! synchronous and short; what may take long (disks, clients) happens in the log service and the
//! API server.
//!
//! - `app`: what is kept of an app · `commands`: what clients ask for · `actions`: what the core
//!   decides, performed · `exits`: processes end · `reload` · `launch`: one process · `view`: lists

mod actions;
mod app;
mod clock;
mod commands;
mod exits;
mod faults;
mod jobs;
mod launch;
mod log_request;
mod reload;
mod view;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use forkful_core::Time;
use forkful_core::slot::{Event, Exit, Generation, Outcome, Ticket};
use forkful_core::spec::AppSpec;
use forkful_os::closed::{ClosedConnections, Overflow};
use forkful_os::reactor::{self, Interest, Reactor};
use forkful_os::timer::Timer;
use forkful_os::tree;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

use crate::command::{COMMAND_QUEUE, Command};
use crate::home::Home;
use crate::logs::{EchoPrefix, LogService};
use app::{App, AppId, EndStep, Later, ListenFault};
use clock::Clock;
use jobs::{Job, JobId};

/// Marks a reactor token as a process's pidfd; the rest of it is the key in `Engine::watched`.
const PROCESS_BIT: u64 = 1 << 63;
/// The reactor token of the kernel's reports of closed connections.
const CLOSES_TOKEN: u64 = PROCESS_BIT;
/// The reactor token of the engine's timer.
const TIMER_TOKEN: u64 = PROCESS_BIT | (PROCESS_BIT - 1);
/// Rounds of reactor events in one turn, so that commands and timers have their say.
const ROUNDS_PER_TURN: usize = 16;
/// More closed connections than this in a second are not worth following: evenness is for few.
const CLOSES_PER_SECOND_MAX: u32 = 8_000;
/// After that, they are not followed for so long.
const CLOSES_PAUSE: Duration = Duration::from_secs(30);
/// Orphans are reaped at most so often: a reading of `/proc` per crash would add up.
const TURN_MAX: Duration = Duration::from_millis(50);

/// Who waits for a slot's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TicketUse {
    /// A command.
    Job(JobId),
    /// The plan of the app's reload.
    Reload,
}

/// A slot's answer on its way to whoever asked.
#[derive(Debug)]
pub(crate) struct Answered {
    app: AppId,
    slot: u16,
    ticket: Ticket,
    outcome: Outcome,
    listen_fault: Option<ListenFault>,
}

/// What comes back from work that was done elsewhere.
#[derive(Debug)]
pub(crate) enum Back {
    /// Log files have been emptied.
    Flushed {
        /// For which command.
        job: JobId,
        /// For which app.
        app: AppId,
        /// What failed.
        fault: Option<String>,
    },
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

/// How the engine is run.
#[derive(Debug, Clone)]
pub(crate) struct EngineOptions {
    pub(crate) home: Home,
    /// `None` when it could not be installed: drains are less exact then.
    pub(crate) agent: Option<PathBuf>,
    /// Workers' output goes to our own stdout and stderr.
    pub(crate) echo: bool,
    /// Workers' output goes to files.
    pub(crate) write_log_files: bool,
}

/// See the module's documentation.
pub(crate) struct Engine {
    clock: Clock,
    home: Home,
    agent: Option<PathBuf>,
    echo: bool,
    write_log_files: bool,
    reactor: Rc<Reactor>,
    timer: Timer,
    /// What the timer is set to.
    timer_set: Option<Time>,
    logs: LogService,
    apps: BTreeMap<AppId, App>,
    watched: HashMap<u64, (AppId, u16, Generation)>,
    /// All processes, as they were in this turn; taken when first needed.
    snapshot: Option<tree::Snapshot>,
    tickets: HashMap<Ticket, TicketUse>,
    jobs: BTreeMap<JobId, Job>,
    answers: VecDeque<Answered>,
    later: VecDeque<(AppId, u16, Event)>,
    replies: Vec<tokio::task::JoinHandle<()>>,
    back: mpsc::UnboundedSender<Back>,
    closes: Option<ClosedConnections>,
    closes_ports: Vec<u16>,
    closes_seen: (Time, u32),
    closes_pause: Option<Time>,
    /// Distinguishes this daemon's workers from any other's.
    instance: String,
    chance_state: u64,
    next_app: u32,
    next_pm_id: u32,
    next_ticket: u64,
    next_job: u64,
    next_watch: u64,
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
        let engine = Self {
            clock: Clock::new(),
            home: options.home,
            agent: options.agent,
            echo: options.echo,
            write_log_files: options.write_log_files,
            reactor,
            timer,
            timer_set: None,
            logs: LogService::start()?,
            apps: BTreeMap::new(),
            watched: HashMap::new(),
            snapshot: None,
            tickets: HashMap::new(),
            jobs: BTreeMap::new(),
            answers: VecDeque::new(),
            later: VecDeque::new(),
            replies: Vec::new(),
            back,
            closes: None,
            closes_ports: Vec::new(),
            closes_seen: (Time::default(), 0),
            closes_pause: None,
            instance: format!("{}.{}", std::process::id(), clock::wall_ms()),
            chance_state: clock::wall_ms() ^ (u64::from(std::process::id()) << 32) | 1,
            next_app: 0,
            next_pm_id: 0,
            next_ticket: 0,
            next_job: 0,
            next_watch: 0,
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
            }
            self.on_time();
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
            self.settle();
            if began.elapsed() > TURN_MAX {
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

    /// Carries out what is due.
    fn on_time(&mut self) {
        let now = self.clock.now();
        let due: Vec<AppId> = self
            .apps
            .iter()
            .filter(|(_, entry)| entry.next_wake().is_some_and(|at| at <= now))
            .map(|(id, _)| *id)
            .collect();
        for app in due {
            self.app_on_time(app, now);
        }
    }

    fn app_on_time(&mut self, app: AppId, now: Time) {
        let Some(entry) = self.apps.get_mut(&app) else { return };
        if entry.primary.next_wake().is_some_and(|at| at <= now) {
            entry.primary.on_time(now);
        }
        let due: Vec<u16> = entry
            .places
            .iter()
            .filter(|(_, place)| place.deadline.is_some_and(|at| at <= now))
            .map(|(slot, _)| *slot)
            .collect();
        for slot in due {
            self.feed(app, slot, Event::Deadline);
        }
        while let Some(entry) = self.apps.get_mut(&app)
            && let Some(first) = entry.later.first_entry()
            && first.key().0 <= now
        {
            let later = first.remove();
            self.do_later(app, later);
        }
        self.take_primary_events(app);
    }

    fn do_later(&mut self, app: AppId, later: Later) {
        match later {
            Later::Disconnected(slot, generation) => self.feed(app, slot, Event::Drained(generation)),
            Later::LookForSocket { slot, generation, looks } => {
                self.look_for_socket(app, slot, generation, looks);
            }
            Later::ClearTree(slot, generation) => self.clear_tree(app, slot, generation),
            Later::Shrink(slot) => self.shrink(app, slot),
            Later::EndLeft(slot, generation, step) => self.end_left(app, slot, generation, step),
        }
    }

    /// A worker that left the cluster by itself and still runs keeps its slot from serving.
    fn end_left(&mut self, app: AppId, slot: u16, generation: Generation, step: EndStep) {
        let Some(entry) = self.apps.get(&app) else { return };
        let serves = entry.places.get(&slot).is_some_and(|place| place.serves_by(generation));
        if !serves {
            return;
        }
        let (signal, kill_timeout) = (entry.spec.stop.signal.0, entry.spec.stop.kill_timeout);
        match step {
            EndStep::Signal => {
                self.signal_tree(app, slot, generation, signal);
                self.later(app, kill_timeout, Later::EndLeft(slot, generation, EndStep::Kill));
            }
            EndStep::Kill => self.signal_tree(app, slot, generation, 9),
        }
    }

    /// Has something done later.
    pub(crate) fn later(&mut self, app: AppId, after: Duration, later: Later) {
        let at = self.clock.now() + after;
        self.next_later += 1;
        if let Some(entry) = self.apps.get_mut(&app) {
            entry.later.insert((at, self.next_later), later);
        }
    }

    /// Delivers what the last event has left behind, until nothing is.
    fn settle(&mut self) {
        loop {
            self.deliver_answers();
            match self.later.pop_front() {
                Some((app, slot, event)) => self.feed(app, slot, event),
                None if self.answers.is_empty() => break,
                None => {}
            }
        }
        self.snapshot = None;
        self.finish_jobs();
        self.replies.retain(|reply| !reply.is_finished());
        self.follow_closes();
    }

    fn on_back(&mut self, back: Back) {
        match back {
            Back::Flushed { job, app, fault } => {
                if let Some(part) = self.part(job, app)
                    && let Some(fault) = fault
                {
                    part.note(fault);
                }
                self.answered(job);
            }
        }
    }

    fn on_signal(&mut self, signal: Signal) {
        match signal {
            Signal::Child => {
                let known: std::collections::HashSet<u32> = self
                    .apps
                    .values()
                    .flat_map(|entry| entry.places.values())
                    .flat_map(|place| place.processes.values())
                    .map(|process| process.child.pid)
                    .collect();
                // Zombies that are left are looked for again at the next child's end.
                let _failed = tree::reap_orphans(&|pid| known.contains(&pid));
            }
            Signal::Stop(number) => {
                if self.echo {
                    self.forward_stop(number);
                } else {
                    self.kill(None);
                }
            }
            Signal::Forward(number) => self.signal_all(number),
        }
    }

    /// Foreground: the first stop signal is passed on as it is, a second one does not wait any more.
    fn forward_stop(&mut self, number: i32) {
        if self.stop_signal.is_some() {
            self.signal_all(9);
        } else {
            self.stop_signal = Some(number);
            self.kill(None);
        }
    }

    fn signal_all(&mut self, number: i32) {
        for process in self.apps.values().flat_map(|a| a.places.values()).flat_map(|p| p.processes.values()) {
            if process.ended.is_none() {
                // It may have ended this moment.
                let _gone = process.child.signal(number);
            }
        }
    }

    /// Has the reactor wake when something is due next.
    fn set_timer(&mut self) -> io::Result<()> {
        let wake = self.apps.values().filter_map(App::next_wake).min();
        if wake != self.timer_set {
            self.timer.set(wake.map(|at| at.since(self.clock.now())))?;
            self.timer_set = wake;
        }
        Ok(())
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
        let places = self.apps.values().flat_map(|entry| entry.places.values());
        places.filter_map(|place| place.last_exit.as_ref()).map(code).max().unwrap_or(0)
    }

    /// Starts apps without a client.
    pub(crate) fn start_now(&mut self, specs: Vec<AppSpec>) {
        self.next_job += 1;
        let job = JobId(self.next_job);
        for spec in specs {
            self.create(spec, job);
        }
        self.settle();
    }

    /// Subscribes to closed connections of the ports where the daemon hands connections over.
    fn follow_closes(&mut self) {
        let now = self.clock.now();
        if self.closes_pause.is_some_and(|until| until > now) {
            return self.stop_following_closes();
        }
        let mut ports: Vec<u16> =
            self.apps.values().flat_map(|entry| entry.primary.counted_ports()).collect();
        ports.sort_unstable();
        ports.dedup();
        if ports == self.closes_ports {
            return;
        }
        if ports.is_empty() {
            return self.stop_following_closes();
        }
        if self.subscribe_to_closes(&ports).is_err() {
            // Without it, connections are handed out in turns.
            self.closes_pause = Some(now + CLOSES_PAUSE);
            return self.stop_following_closes();
        }
        self.closes_ports = ports;
        for entry in self.apps.values_mut() {
            entry.primary.count_closes(true);
        }
    }

    fn subscribe_to_closes(&mut self, ports: &[u16]) -> io::Result<()> {
        if self.closes.is_none() {
            let closes = ClosedConnections::open()?;
            self.reactor.add(closes.as_fd(), CLOSES_TOKEN, Interest::READ)?;
            self.closes = Some(closes);
        }
        self.closes.as_ref().map_or(Ok(()), |closes| closes.only_ports(ports))
    }

    fn stop_following_closes(&mut self) {
        if let Some(closes) = self.closes.take() {
            let _gone = self.reactor.remove(closes.as_fd());
            for entry in self.apps.values_mut() {
                entry.primary.count_closes(false);
            }
        }
        self.closes_ports.clear();
    }

    fn on_closes(&mut self) {
        let now = self.clock.now();
        let Some(closes) = &mut self.closes else { return };
        let mut seen = 0_u32;
        let apps = &mut self.apps;
        let outcome = closes.read(|cookie| {
            seen += 1;
            for entry in apps.values_mut() {
                entry.primary.connection_closed(cookie);
            }
        });
        if now.since(self.closes_seen.0) > Duration::from_secs(1) {
            self.closes_seen = (now, 0);
        }
        self.closes_seen.1 += seen;
        let lost = !matches!(outcome, Ok(Overflow::None));
        if lost || self.closes_seen.1 > CLOSES_PER_SECOND_MAX {
            // Counts cannot be trusted any more, or cost more than they are worth.
            self.closes_pause = Some(now + CLOSES_PAUSE);
            self.follow_closes();
        }
    }

    fn echo_for(&self, slot: u16) -> Option<EchoPrefix> {
        let several = self.apps.values().map(|entry| entry.spec.instances).sum::<u16>() > 1;
        self.echo.then(|| if several { EchoPrefix(format!("{slot} | ")) } else { EchoPrefix::default() })
    }

    /// Uniform in 0..1, for jitter (xorshift64*).
    fn chance(&mut self) -> f64 {
        let mut x = self.chance_state;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.chance_state = x;
        (x.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// What the process is told by signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// A child has ended.
    Child,
    /// End in an orderly way.
    Stop(i32),
    /// For the workers.
    Forward(i32),
}

/// The signals that are listened to.
pub(crate) struct Signals {
    child: tokio::signal::unix::Signal,
    stop: Vec<(i32, tokio::signal::unix::Signal)>,
    forward: Vec<(i32, tokio::signal::unix::Signal)>,
}

impl Signals {
    pub(crate) fn listen(stop: &[i32], forward: &[i32]) -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let all = |numbers: &[i32]| -> io::Result<Vec<_>> {
            numbers.iter().map(|n| Ok((*n, signal(SignalKind::from_raw(*n))?))).collect()
        };
        Ok(Self { child: signal(SignalKind::child())?, stop: all(stop)?, forward: all(forward)? })
    }

    async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            for (number, signal) in &mut self.stop {
                if signal.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(Signal::Stop(*number));
                }
            }
            for (number, signal) in &mut self.forward {
                if signal.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(Signal::Forward(*number));
                }
            }
            self.child.poll_recv(context).map(|_| Signal::Child)
        })
        .await
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
