//! Starts under way: begun on another thread (see [`crate::starter`]), taken over when their program runs, given up at a
//! deadline.
//!
//! From the order until the result, signals to the new process are kept for it; SIGKILL takes it at once. A start that is
//! given up counts as a failed start. Its thread may still hang. Until the thread returns, the same program is not started
//! in the same directory again, so that the restarts of an app hold one thread at most.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use forkful_api::types::LogStream;
use forkful_cluster::WorkerId;
use forkful_core::Time;
use forkful_core::slot::{Event, Generation};
use forkful_core::spec::Mode;
use forkful_core::supervisor;
use forkful_os::cgroup::WorkerGroup;
use forkful_os::process::{self, Child, Flight, SpawnError, SpawnPlan, SpawnStep};
use forkful_os::tree::{self, Mark};
use tokio::sync::oneshot;

use super::app::{AppId, LogPlaces, Process, SpecialFiles};
use super::lacks::{has_own_primary, script_to_look_into};
use super::launch::{Ends, Identity, prepare};
use super::{Back, Engine};
use crate::home::AgentPlace;
use crate::logs::{LineStyle, StreamSpec};

/// From the order of a start until its program is executed. A program on a slow network file system takes a second.
pub(super) const START_DEADLINE: Duration = Duration::from_secs(10);
/// Signals that are kept for a process that is being started: its stop signal and a few of its user's.
const SIGNALS_MAX: usize = 16;

/// Between two tries while the supervisor has no descriptors or no memory for a start.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(500);
/// After so long without a single start, starts fail.
const SHORTAGE_MAX: Duration = Duration::from_secs(30);

const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

/// A process's place: its app, its slot, and which of the slot's processes it is.
type Whose = (AppId, u16, Generation);

/// What is known of a process before it is there.
struct Known {
    /// Our ends of what connects it.
    ends: Ends,
    mark: Mark,
    worker: WorkerId,
    /// Goes away with a start that fails.
    group: Option<WorkerGroup>,
}

/// The log file that a start looks at, for as long as it does.
type LookedAt = Arc<Mutex<Option<PathBuf>>>;

/// What a thread has come to.
#[derive(Debug)]
pub(crate) struct StartResult {
    pub(crate) child: Result<Child, SpawnError>,
    pub(crate) special_logs: SpecialFiles,
}

/// A start under way.
pub(super) struct Pending {
    number: u64,
    flight: Arc<Flight>,
    looked_at: LookedAt,
    known: Known,
    program: PathBuf,
    cwd: PathBuf,
    pub(super) deadline: Time,
    signals: Vec<i32>,
}

/// A start that was given up and has not come back.
pub(super) struct Stuck {
    number: u64,
    program: PathBuf,
    cwd: PathBuf,
    /// The log file that it looks at, if it is that.
    log_file: Option<PathBuf>,
    what: String,
}

/// Leaves a file out that Node.js is told to load and that is not there.
fn leave_out(argv: &mut Vec<String>, path: &Path) {
    let place = argv.windows(2).position(|pair| pair[0] == "--require" && Path::new(&pair[1]) == path);
    if let Some(at) = place {
        argv.drain(at..at + 2);
    }
}

impl Engine {
    /// Begins the start of a slot's process.
    pub(crate) fn spawn(&mut self, app: AppId, slot: u16, generation: Generation, now: Time) {
        self.feed(app, slot, Event::Begun(generation, now));
        let agent = self.agent_for(app);
        let agent_path = agent.as_ref().map(AgentPlace::path);
        let Some(entry) = self.apps.get_mut(&app) else { return };
        entry.workers_started += 1;
        let worker = WorkerId(entry.workers_started);
        let Some(place) = entry.places.get(&slot) else { return };
        let mark = self.marks.give();
        let identity = Identity {
            slot,
            pm_id: place.pm_id,
            worker: worker.0,
            mark,
            agent: agent_path.as_deref(),
            // As PM2: of fork mode alone. Nobody can write to the workers of a supervisor in the foreground.
            takes_input: entry.spec().mode == Mode::Fork && !self.echo,
        };
        self.logs.begin_process(place.pm_id);
        match prepare(entry.spec(), &identity) {
            Ok((mut plan, ends)) => match self.join_group(app, mark) {
                Ok(joined) => {
                    let (group, membership) = joined.unzip();
                    plan.groups = membership;
                    let known = Known { ends, mark, worker, group };
                    self.begin_start((app, slot, generation), (plan, agent), known);
                }
                Err(why) => self.fail_spawn((app, slot, generation), why),
            },
            Err(error) => {
                let why = format!("no descriptors for its pipes: {error}");
                self.fail_start((app, slot, generation), &error, why);
            }
        }
    }

    /// A start has failed. While the supervisor itself lacks descriptors or memory, that is no fault of the app: the
    /// start is tried again, for a while.
    fn fail_start(&mut self, (app, slot, generation): Whose, error: &io::Error, why: String) {
        let now = self.clock.now();
        let is_shortage = matches!(error.raw_os_error(), Some(EMFILE | ENFILE | ENOMEM));
        let since = *self.short_since.get_or_insert(now);
        if is_shortage && now.since(since) < SHORTAGE_MAX {
            if since == now {
                log_line!("forkful: starts wait: {why}");
            }
            self.work.start_after(app, slot, generation, now + SHORTAGE_PAUSE);
        } else {
            self.short_since = None;
            self.fail_spawn((app, slot, generation), why);
        }
    }

    /// Has a thread start a process.
    fn begin_start(&mut self, whose: Whose, plan: (SpawnPlan, Option<AgentPlace>), known: Known) {
        let (app, slot, generation) = whose;
        let (mut plan, agent) = plan;
        let logs = self.apps.get(&app).map(|entry| LogPlaces::of(entry.spec())).unwrap_or_default();
        let is_the_same = |stuck: &&Stuck| match &stuck.log_file {
            Some(path) => logs.has(path),
            None => (&stuck.program, &stuck.cwd) == (&plan.program, &plan.cwd),
        };
        if let Some(stuck) = self.stuck.iter().find(is_the_same) {
            let why = format!("{}: an earlier start still waits for it", stuck.what);
            self.fail_spawn((app, slot, generation), why);
            return;
        }
        let now = self.clock.now();
        let number = self.next_start();
        let flight = Arc::new(Flight::default());
        let looked_at = LookedAt::default();
        let pending = Pending {
            number,
            flight: Arc::clone(&flight),
            looked_at: Arc::clone(&looked_at),
            known,
            program: plan.program.clone(),
            cwd: plan.cwd.clone(),
            deadline: now + START_DEADLINE,
            signals: Vec::new(),
        };
        let back = self.back.clone();
        let script = self.apps.get(&app).and_then(|entry| script_to_look_into(entry.spec(), slot));
        let order = Box::new(move || {
            if let Some(agent) = agent
                && let Err(error) = agent.install()
            {
                log_line!("forkful: drains are less exact without the agent: {error}");
                leave_out(&mut plan.argv, &agent.path());
            }
            let look = |path: Option<&Path>| {
                *looked_at.lock().unwrap_or_else(PoisonError::into_inner) = path.map(Path::to_owned);
            };
            let special_logs = logs.special(|path| look(Some(path)));
            look(None);
            let child = process::spawn_watched(plan, &flight);
            let result = StartResult { child, special_logs };
            // The engine is gone only when the daemon ends.
            let _gone = back.send(Back::Started { number, result });
            if script.is_some_and(|script| has_own_primary(&script)) {
                let _gone = back.send(Back::OwnPrimary { app, slot, generation });
            }
        });
        if self.starter.order(order).is_err() {
            let why = "no thread can be had to start it".to_owned();
            self.fail_spawn((app, slot, generation), why);
            return;
        }
        self.work.begun(app, number, now);
        self.pending.insert(whose, pending);
    }

    /// Tells the slot that its process could not be started.
    fn fail_spawn(&mut self, (app, slot, generation): Whose, why: String) {
        self.tell(app, supervisor::Event::Slot(slot, Event::SpawnFailed(generation, why)));
    }

    fn next_start(&mut self) -> u64 {
        self.next_start += 1;
        self.next_start
    }

    /// A thread has started a process, or could not.
    pub(super) fn on_started(&mut self, number: u64, result: StartResult) {
        let StartResult { child: result, special_logs } = result;
        self.work.done(number);
        let whose =
            self.pending.iter().find(|(_, pending)| pending.number == number).map(|(whose, _)| *whose);
        let Some((app, slot, generation)) = whose else {
            // It was given up, and nobody else knows of it: it is reaped as an orphan.
            self.stuck.retain(|stuck| stuck.number != number);
            if let Ok(child) = result {
                let _gone = child.signal(9);
            }
            return;
        };
        let Some(pending) = self.pending.remove(&(app, slot, generation)) else { return };
        self.note_special_logs(app, special_logs);
        match result {
            Ok(child) => {
                self.short_since = None;
                let signals = pending.signals.clone();
                self.take_over((app, slot, generation), child, pending);
                for signal in signals {
                    self.work.signal(app, slot, generation, signal);
                }
            }
            // A signal that came meanwhile has what it wanted.
            Err(error) if !pending.signals.is_empty() => {
                let why = format!("{error}: {}", error.source);
                self.fail_spawn((app, slot, generation), why);
            }
            Err(error) => {
                let why = format!("{error}: {}", error.source);
                self.fail_start((app, slot, generation), &error.source, why);
            }
        }
    }

    /// The program of a start runs: from now on it is a process of its slot.
    fn take_over(&mut self, (app, slot, generation): Whose, child: Child, pending: Pending) {
        let now = self.clock.now();
        let Known { ends, mark, worker, group } = pending.known;
        let remote = ends.remote_of(&child);
        let Ends { channel, stdin, stdout, stderr, .. } = ends;
        if let Err(error) = self.watch_process(&child.pidfd, app, slot, generation) {
            // Its end would never be noticed.
            tree::signal_tree(&child, mark, 9);
            let why = format!("cannot watch the new process: {error}");
            self.fail_spawn((app, slot, generation), why);
            return;
        }
        self.pids.insert(child.pid);
        self.attach_logs(app, slot, stdout, stderr);
        let Some(entry) = self.apps.get_mut(&app) else { return };
        if let Some(channel) = channel
            && let Err(error) = entry.primary.attach(worker, channel, remote)
        {
            log_line!("forkful: cannot watch the channel of worker {slot}: {error}");
        }
        entry.primary.identify(worker, child.pid, slot);
        let Some(place) = entry.places.get_mut(&slot) else { return };
        place.started_at_ms = Some(super::clock::wall_ms());
        let process = Process {
            child,
            worker,
            mark,
            stdin: stdin.map(|stdin| Rc::new(tokio::sync::Mutex::new(stdin))),
            pid_file: None,
            group,
            spawned: now,
            ended: None,
            loop_delay: None,
            node_version: None,
            reports: forkful_api::conversation::WorkerReports::default(),
            lacks: std::collections::BTreeSet::new(),
        };
        place.processes.insert(generation, process);
        if place.processes.len() == 1 {
            // Beside an older process the new one must become ready first, since the older process may stay.
            self.write_pid_file(app, slot, generation);
        }
        self.supervise(app, supervisor::Event::Runs(slot, generation));
    }

    /// Takes over what a start has found out about the paths of log files.
    fn note_special_logs(&mut self, app: AppId, special: SpecialFiles) {
        let folder = self.home.logs();
        let Some(entry) = self.apps.get_mut(&app) else { return };
        if entry.special_logs != special {
            entry.special_logs = special;
            entry.name_log_files(&folder);
        }
    }

    fn attach_logs(&self, app: AppId, slot: u16, stdout: OwnedFd, stderr: OwnedFd) {
        let echo = self.echo_for(slot);
        let Some(entry) = self.apps.get(&app) else { return };
        let Some(place) = entry.places.get(&slot) else { return };
        for (stream, pipe) in [(LogStream::Out, stdout), (LogStream::Err, stderr)] {
            let spec = StreamSpec {
                app: entry.spec().name.to_string(),
                pm_id: place.pm_id,
                stream,
                paths: if self.write_log_files { place.log_paths(stream) } else { Vec::new() },
                style: LineStyle::from(&entry.spec().logs),
                rotation: entry.spec().logs.rotation.clone(),
                echo: echo.clone(),
            };
            self.logs.attach(spec, pipe);
        }
    }

    /// Keeps a signal for a process that is being started; says whether it is.
    pub(super) fn keep_signal(&mut self, app: AppId, slot: u16, generation: Generation, signal: i32) -> bool {
        let Some(pending) = self.pending.get_mut(&(app, slot, generation)) else { return false };
        if signal == 9 {
            pending.flight.cancel();
        }
        if pending.signals.len() < SIGNALS_MAX {
            pending.signals.push(signal);
        }
        true
    }
    /// Whether a child of ours is being started, or waits to be taken over.
    pub(super) fn is_being_started(&self, pid: u32) -> bool {
        let workers = self.pending.values().map(|pending| &pending.flight);
        workers.chain(self.helpers.values()).any(|flight| flight.pid() == pid)
    }

    /// Has a thread start a process that is no worker, by an order that may look for its program first.
    pub(super) fn start_helper(
        &mut self,
        order: impl FnOnce(&Flight) -> Result<Child, String> + Send + 'static,
    ) -> (Arc<Flight>, oneshot::Receiver<Result<Child, String>>) {
        let (waits, started) = oneshot::channel();
        let number = self.next_start();
        let flight = Arc::new(Flight::default());
        let (back, theirs) = (self.back.clone(), Arc::clone(&flight));
        let order = Box::new(move || {
            let result = order(&theirs);
            // The engine is gone only when the daemon ends.
            let _gone = back.send(Back::HelperStarted { number, result, waits });
        });
        // Refused: the sender is dropped, which tells.
        if self.starter.order(order).is_ok() {
            self.helpers.insert(number, Arc::clone(&flight));
        }
        (flight, started)
    }

    pub(super) fn on_helper_started(
        &mut self,
        number: u64,
        result: Result<Child, String>,
        waits: oneshot::Sender<Result<Child, String>>,
    ) {
        self.helpers.remove(&number);
        if let Ok(child) = &result {
            self.pids.insert(child.pid);
        }
        if let Err(Ok(child)) = waits.send(result) {
            // Nobody waits any more: it is reaped as an orphan.
            self.pids.remove(&child.pid);
            let _gone = child.signal_group(9);
        }
    }

    /// When the next start is given up.
    pub(super) fn next_start_deadline(&self) -> Option<Time> {
        self.pending.values().map(|pending| pending.deadline).min()
    }

    /// Gives up the starts that have had their time.
    pub(super) fn give_up_starts(&mut self, now: Time) {
        while let Some(whose) =
            self.pending.iter().find(|(_, pending)| pending.deadline <= now).map(|(whose, _)| *whose)
        {
            let Some(pending) = self.pending.remove(&whose) else { return };
            pending.flight.cancel();
            let (app, slot, generation) = whose;
            let what = pending.busy_with();
            let why = format!(
                "{what}: no answer within {} s; a file system may hang, or the new process was stopped",
                START_DEADLINE.as_secs()
            );
            self.work.done(pending.number);
            let log_file = pending.log_file();
            let Pending { number, program, cwd, .. } = pending;
            self.stuck.push(Stuck { number, program, cwd, log_file, what });
            self.fail_spawn((app, slot, generation), why);
        }
    }
}

impl Pending {
    /// Whether its process waits for its working directory.
    #[cfg(test)]
    pub(super) fn is_in_its_directory(&self) -> bool {
        self.flight.pid() != 0 && self.flight.step() == SpawnStep::ChangeDirectory
    }

    /// The log file that its thread looks at.
    fn log_file(&self) -> Option<PathBuf> {
        self.looked_at.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether its thread waits for the file system of a log file.
    #[cfg(test)]
    pub(super) fn looks_at_a_log(&self) -> bool {
        self.log_file().is_some()
    }

    /// What the start was doing, with the path that it was about.
    fn busy_with(&self) -> String {
        if let Some(path) = self.log_file() {
            return format!("cannot look at the log file {}", path.display());
        }
        match self.flight.step() {
            SpawnStep::ChangeDirectory => {
                format!("cannot enter the working directory {}", self.cwd.display())
            }
            SpawnStep::Arguments
            | SpawnStep::Group
            | SpawnStep::Descriptors
            | SpawnStep::Clone
            | SpawnStep::Session
            | SpawnStep::User
            | SpawnStep::Execute => format!("cannot execute {}", self.program.display()),
        }
    }
}
