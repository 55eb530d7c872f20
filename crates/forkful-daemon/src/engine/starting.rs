//! Starts under way: begun on another thread (see [`crate::starter`]), taken over when their program runs, given up at a
//! deadline.
//!
//! From the order until the result, signals to the new process are kept for it; SIGKILL takes it at once. A start that is
//! given up counts as a failed start. Its thread may still hang. Until the thread returns, the same program is not started
//! in the same directory again, so that the restarts of an app hold one thread at most.

mod pending;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, PoisonError};

use forkful_cluster::WorkerId;
use forkful_core::Time;
use forkful_core::late_start::{START_DEADLINE, more_time};
use forkful_core::shortage::Shortage;
use forkful_core::slot::{Event, Exit};
use forkful_core::spec::Mode;
use forkful_os::cgroup::{Groups, WorkerGroup};
use forkful_os::keeper::Keeping;
use forkful_os::pressure::Pressure;
use forkful_os::process::{self, Child, Flight, SpawnError, SpawnPlan};
use forkful_os::procinfo;
use forkful_os::reactor::Reactor;
use forkful_os::tree::{Mark, Marks};
use tokio::sync::{mpsc, oneshot};

use super::app::{App, ProcessKey};
use super::apps::Apps;
use super::groups::join_group;
use super::lacks::{has_own_primary, script_to_look_into};
use super::launch::{Aids, Ends, Identity, prepare, refuse_special_script, script_of};
use super::log_files::{LogPlaces, SpecialFiles};
use super::processes::Processes;
use super::relatives::Relatives;
use super::work::Work;
use super::{Back, EngineOptions};
use crate::code_cache::CodeCache;
use crate::home::{AgentPlace, Home};
use crate::starter::Starter;
pub(super) use pending::Pending;
use pending::{BeforeStart, BegunBy, LookedAt, Stuck, waited_by};

/// Signals that are kept for a process that is being started: its stop signal and a few of its user's.
const SIGNALS_MAX: usize = 16;

const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

/// A command that is no worker: its words, and where it runs.
pub(super) type HelperCommand = (Vec<String>, PathBuf);

/// A start of such a command, in which a thread is busy.
struct Helping {
    flight: Arc<Flight>,
    command: HelperCommand,
}

impl Helping {
    /// It was given up, and its thread has not come back.
    fn hangs(&self) -> bool {
        self.flight.is_cancelled()
    }
}

/// What is known of a process before it is there.
struct Known {
    /// Our ends of what connects it.
    ends: Ends,
    mark: Mark,
    worker: WorkerId,
    /// Goes away with a start that fails.
    group: Option<WorkerGroup>,
}

/// What a thread has come to.
#[derive(Debug)]
pub(crate) struct StartResult {
    pub(crate) child: Result<Child, SpawnError>,
    pub(crate) special_logs: SpecialFiles,
}

/// A process that was started, and that its slot is to take over.
pub(super) struct Begun {
    pub(super) child: Child,
    /// Our ends of what connects it.
    pub(super) ends: Ends,
    pub(super) mark: Mark,
    pub(super) worker: WorkerId,
    pub(super) group: Option<WorkerGroup>,
    /// What it is to be sent, once it is its slot's.
    pub(super) signals: Vec<i32>,
}

/// What has become of a start.
pub(super) enum StartOutcome {
    Begun(Box<Begun>),
    /// It is tried again.
    Postponed,
    Failed(String),
}

/// Starts that wait, that are under way, and that were given up.
pub(super) struct Starts {
    /// What takes its time.
    pub(super) work: Work,
    /// Where the apps' control groups are made, if they can be.
    pub(super) groups: Option<Groups>,
    /// Distinguishes this daemon's workers from each other and from any other's.
    marks: Marks,
    /// The threads that start processes.
    starter: Starter,
    pub(super) pending: BTreeMap<ProcessKey, Pending>,
    pub(super) stuck: Vec<Stuck>,
    shortage: Shortage,
    /// Where processes below workers connect to, if it can be had.
    relatives: Option<Relatives>,
    /// Starts of processes that are no workers.
    helpers: HashMap<u64, Helping>,
    /// The number of the start that was begun last.
    last: u64,
    back: mpsc::UnboundedSender<Back>,
}

impl Starts {
    pub(super) fn new(marks: Marks, back: mpsc::UnboundedSender<Back>) -> Self {
        Self {
            work: Work::default(),
            groups: Groups::make(marks.instance()),
            marks,
            starter: Starter::default(),
            pending: BTreeMap::new(),
            stuck: Vec::new(),
            shortage: Shortage::default(),
            relatives: None,
            helpers: HashMap::new(),
            last: 0,
            back,
        }
    }

    /// Lets processes below workers connect. Without that they open their sockets by themselves.
    pub(super) fn listen(&mut self, home: &Home, reactor: &Rc<Reactor>, keeping: &Keeping) {
        // It removes its file.
        self.relatives = None;
        match Relatives::listen(home, reactor, keeping.clone()) {
            Ok(relatives) => self.relatives = Some(relatives),
            Err(error) => {
                log_line!("forkful: processes below workers open their sockets by themselves: {error}");
            }
        }
    }

    /// A process below a worker connects.
    pub(super) fn take_in(&self, apps: &mut Apps, now: Time) {
        if let Some(relatives) = &self.relatives {
            relatives.accept(apps, now);
        }
    }

    /// The marks that were given.
    pub(super) fn marks(&self) -> &Marks {
        &self.marks
    }

    /// An app is gone: its compiled code goes, too.
    pub(super) fn remove_cache(&self, cache: CodeCache) {
        // Refused: its size is bounded.
        let _refused = self.starter.order(Box::new(move || cache.remove()));
    }

    /// What the descendants of a new process are known by.
    pub(super) fn give_mark(&mut self) -> Mark {
        self.marks.give()
    }

    /// Begins the start of a slot's process, or says why it has failed.
    pub(super) fn begin(
        &mut self,
        key: ProcessKey,
        entry: &mut App,
        options: &EngineOptions,
        now: Time,
    ) -> Result<(), String> {
        let (app, slot, _) = key;
        let agent = options.agent_for(entry.spec());
        let agent_path = agent.as_ref().map(AgentPlace::path);
        // The home is closed to other users.
        let is_own = matches!(agent, Some(AgentPlace::Home(_)));
        let lends = self.relatives.as_ref().filter(|_| is_own).map(|_| options.home.lends());
        let cache = CodeCache::for_workers(entry.spec(), lends.is_some(), &options.home);
        let heap = entry.heap_options();
        let Some(place) = entry.places.get(&slot) else { return Ok(()) };
        let (pm_id, mark) = (place.pm_id, self.marks.give());
        entry.workers.started += 1;
        let worker = WorkerId(entry.workers.started);
        let identity = Identity {
            slot,
            pm_id,
            worker: worker.0,
            mark,
            agent: agent_path.as_deref(),
            lends: lends.as_deref(),
            cache: cache.as_ref().map(CodeCache::path),
            heap: &heap,
            // As PM2: of fork mode alone. Nobody can write to the workers of a supervisor in the foreground.
            takes_input: entry.spec().mode == Mode::Fork && options.echo.is_none(),
        };
        match prepare(entry.spec(), &identity) {
            Ok((mut plan, ends)) => {
                let (group, membership) = join_group(self.groups.as_ref(), app, entry, mark)?.unzip();
                plan.groups = membership;
                plan.keeping = options.keeping.clone();
                self.order(
                    key,
                    entry,
                    (plan, Aids { agent, cache }),
                    Known { ends, mark, worker, group },
                    now,
                )
            }
            Err(error) => {
                let why = format!("no descriptors for its pipes: {error}");
                self.postpone_or_fail(key, &error, why, now)
            }
        }
    }

    /// A start has failed. While the daemon itself lacks descriptors or memory, the start is tried again.
    fn postpone_or_fail(
        &mut self,
        (app, slot, generation): ProcessKey,
        error: &io::Error,
        why: String,
        now: Time,
    ) -> Result<(), String> {
        if !matches!(error.raw_os_error(), Some(EMFILE | ENFILE | ENOMEM)) {
            self.shortage.end();
            return Err(why);
        }
        let Some(again) = self.shortage.on_lack(now) else { return Err(why) };
        if again.is_first {
            log_line!("forkful: starts wait: {why}");
        }
        self.work.start_after(app, slot, generation, again.at);
        Ok(())
    }

    /// Has a thread start a process.
    fn order(
        &mut self,
        key: ProcessKey,
        entry: &App,
        (mut plan, mut aids): (SpawnPlan, Aids),
        known: Known,
        now: Time,
    ) -> Result<(), String> {
        let (app, slot, generation) = key;
        let logs = LogPlaces::of(entry.spec());
        let script = script_of(entry.spec());
        let is_the_same = |stuck: &&Stuck| match &stuck.file {
            Some(BeforeStart::Log(path)) => logs.has(path),
            Some(BeforeStart::Script(path)) => script.as_ref() == Some(path),
            None => (&stuck.program, &stuck.cwd) == (&plan.program, &plan.cwd),
        };
        if let Some(stuck) = self.stuck.iter().find(is_the_same) {
            return Err(format!("{}: an earlier start still waits for it", stuck.what));
        }
        let number = self.next_number();
        let flight = Arc::new(Flight::default());
        let looked_at = LookedAt::default();
        let begun = BegunBy::default();
        let pending = Pending {
            number,
            flight: Arc::clone(&flight),
            looked_at: Arc::clone(&looked_at),
            begun: Arc::clone(&begun),
            known,
            program: plan.program.clone(),
            cwd: plan.cwd.clone(),
            ordered: now,
            deadline: now + START_DEADLINE,
            signals: Vec::new(),
        };
        let back = self.back.clone();
        let read = script_to_look_into(entry.spec(), slot);
        let order = Box::new(move || {
            let thread = procinfo::own_thread();
            let _first = begun.set((thread, waited_by(thread).unwrap_or_default()));
            aids.make(&mut plan);
            let look = |file: Option<BeforeStart>| {
                *looked_at.lock().unwrap_or_else(PoisonError::into_inner) = file;
            };
            let special_logs = logs.special(|path| look(Some(BeforeStart::Log(path.to_owned()))));
            look(script.clone().map(BeforeStart::Script));
            let refused = script.as_deref().map_or(Ok(()), refuse_special_script);
            look(None);
            let child = refused.and_then(|()| process::spawn_watched(plan, &flight));
            let result = StartResult { child, special_logs };
            // The engine is gone only when the daemon ends.
            let _gone = back.send(Back::Started { number, result });
            if let Some(cache) = aids.cache.filter(|_| slot == 0) {
                cache.trim();
            }
            if read.is_some_and(|script| has_own_primary(&script)) {
                let _gone = back.send(Back::OwnPrimary { app, slot, generation });
            }
        });
        if self.starter.order(order).is_err() {
            return Err("no thread can be had to start it".to_owned());
        }
        self.work.begun(app, number, now);
        self.pending.insert(key, pending);
        Ok(())
    }

    fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A thread has started a process, or could not. Nothing comes of a start that was given up.
    pub(super) fn finish(
        &mut self,
        number: u64,
        child: Result<Child, SpawnError>,
        now: Time,
    ) -> Option<(ProcessKey, StartOutcome)> {
        self.work.done(number);
        let key = self.pending.iter().find(|(_, pending)| pending.number == number).map(|(key, _)| *key);
        let Some((key, pending)) = key.and_then(|key| self.pending.remove_entry(&key)) else {
            // It was given up, and nobody else knows of it: it is reaped as an orphan.
            self.stuck.retain(|stuck| stuck.number != number);
            if let Ok(child) = child {
                let _gone = child.signal(9);
            }
            return None;
        };
        let Pending { known: Known { ends, mark, worker, group }, signals, .. } = pending;
        let outcome = match child {
            Ok(child) => {
                self.shortage.end();
                StartOutcome::Begun(Box::new(Begun { child, ends, mark, worker, group, signals }))
            }
            // A signal that came meanwhile has what it wanted.
            Err(error) if !signals.is_empty() => StartOutcome::Failed(format!("{error}: {}", error.source)),
            Err(error) => {
                let why = format!("{error}: {}", error.source);
                match self.postpone_or_fail(key, &error.source, why, now) {
                    Ok(()) => StartOutcome::Postponed,
                    Err(why) => StartOutcome::Failed(why),
                }
            }
        };
        Some((key, outcome))
    }

    /// Has a process and its tree signalled. One whose start was not begun is as one that ended at once: the event says
    /// so.
    pub(super) fn signal(&mut self, key: ProcessKey, signal: i32) -> Option<Event> {
        let (app, slot, generation) = key;
        if self.work.cancel(app, slot, generation) {
            return Some(Event::Exited(generation, Exit::Signal(signal)));
        }
        if !self.keep_signal(key, signal) {
            self.work.signal(app, slot, generation, signal);
        }
        None
    }

    /// Keeps a signal for a process that is being started; says whether it is.
    fn keep_signal(&mut self, key: ProcessKey, signal: i32) -> bool {
        let Some(pending) = self.pending.get_mut(&key) else { return false };
        if signal == 9 {
            pending.flight.cancel();
        }
        if pending.signals.len() < SIGNALS_MAX {
            pending.signals.push(signal);
        }
        true
    }

    /// Whether a command that is no worker is being started.
    #[cfg(test)]
    pub(super) fn has_helpers(&self) -> bool {
        !self.helpers.is_empty()
    }

    /// Whether a child of ours is being started, or waits to be taken over.
    pub(super) fn is_being_started(&self, pid: u32) -> bool {
        let workers = self.pending.values().map(|pending| &pending.flight);
        let helpers = self.helpers.values().map(|helper| &helper.flight);
        workers.chain(helpers).any(|flight| flight.pid() == pid)
    }

    /// Where threads and tasks send to the engine.
    pub(super) fn back(&self) -> mpsc::UnboundedSender<Back> {
        self.back.clone()
    }

    /// Has a thread start a process that is no worker, by an order that may look for its program first. It is refused while
    /// an earlier start of the same `command` was given up and has not come back.
    pub(super) fn start_helper(
        &mut self,
        command: HelperCommand,
        order: impl FnOnce(&Flight) -> Result<Child, String> + Send + 'static,
    ) -> (Arc<Flight>, oneshot::Receiver<Result<Child, String>>) {
        let (waits, started) = oneshot::channel();
        if self.helpers.values().any(|helper| helper.hangs() && helper.command == command) {
            let _waits = waits
                .send(Err("an earlier start of its command still waits; a file system may hang".to_owned()));
            return (Arc::default(), started);
        }
        let number = self.next_number();
        let flight = Arc::new(Flight::default());
        let (back, theirs) = (self.back.clone(), Arc::clone(&flight));
        let order = Box::new(move || {
            let result = order(&theirs);
            // The engine is gone only when the daemon ends.
            let _gone = back.send(Back::HelperStarted { number, result, waits });
        });
        // Refused: the sender is dropped, which tells.
        if self.starter.order(order).is_ok() {
            self.helpers.insert(number, Helping { flight: Arc::clone(&flight), command });
        }
        (flight, started)
    }

    /// A process that is no worker has started, or could not be started: the part that ordered it gets the result.
    pub(super) fn hand_over_helper(
        &mut self,
        number: u64,
        result: Result<Child, String>,
        waits: oneshot::Sender<Result<Child, String>>,
        processes: &mut Processes,
    ) {
        self.helpers.remove(&number);
        if let Ok(child) = &result {
            processes.note_begun(child.pid);
        }
        if let Err(Ok(child)) = waits.send(result) {
            // Nobody waits any more: it is reaped as an orphan.
            processes.note_gone(child.pid);
            let _gone = child.signal_group(9);
        }
    }

    /// When there is something to do next.
    pub(super) fn next_wake(&self) -> Option<Time> {
        let deadline = self.pending.values().map(|pending| pending.deadline).min();
        self.work.next_wake().into_iter().chain(deadline).min()
    }

    /// Gives up the starts that have had their time and do not wait for a core alone; says why.
    pub(super) fn give_up(&mut self, now: Time) -> Vec<(ProcessKey, String)> {
        let helpers = self.helpers.values().filter(|helper| helper.hangs()).count();
        let hang = self.stuck.len() + helpers >= Starter::THREADS_MAX;
        let is_late = |(_, pending): &(&ProcessKey, &mut Pending)| pending.deadline <= now;
        let (mut late, mut cpu_pressure) = (Vec::new(), None);
        for (key, pending) in self.pending.iter_mut().filter(is_late) {
            let cpu_pressure = *cpu_pressure.get_or_insert_with(|| Pressure::of_machine().cpu);
            match more_time(pending.as_late(hang, cpu_pressure, now)) {
                Some(more) => pending.deadline = now + more,
                None => late.push(*key),
            }
        }
        late.into_iter().filter_map(|key| Some((key, self.give_up_one(key, now)?))).collect()
    }

    fn give_up_one(&mut self, key: ProcessKey, now: Time) -> Option<String> {
        let pending = self.pending.remove(&key)?;
        pending.flight.cancel();
        let what = pending.busy_with();
        let why = format!(
            "{what}: no answer within {} s; a file system may hang, or the new process was stopped",
            now.since(pending.ordered).as_secs()
        );
        self.work.done(pending.number);
        let file = pending.file();
        let Pending { number, program, cwd, .. } = pending;
        self.stuck.push(Stuck { number, program, cwd, file, what });
        Some(why)
    }
}
