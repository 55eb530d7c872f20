//! What the engine keeps of an app: its supervisor, its places (slots with their processes), its primary.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use forkful_api::types::{AppDefinition, LogStream};
use forkful_cluster::{Leaving, Primary, WorkerId};
use forkful_core::Time;
use forkful_core::alerts::AlertPolicy;
use forkful_core::memory_kills::MemoryKills;
use forkful_core::primary_habits::Lack;
use forkful_core::request::ExistingApp;
use forkful_core::slot::{Exit, Generation, State};
use forkful_core::spec::{AppSpec, Mode, start_by_clock};
use forkful_core::stalls::Ledger;
use forkful_core::supervisor::{AppSupervisor, Effect, SlotRecord};
use forkful_os::cgroup::AppGroup;

use super::cpu_sample::CpuSample;
use super::exit_tail::ExitTail;
use super::launch::{balance_of, lowest_port_of, other_user};
use super::log_files::{SpecialFiles, log_files};
use super::metrics::{AppMetrics, PlaceCounts};
use super::upkeep::AppUpkeep;

pub(crate) use super::process::{Bonds, Doubt, Ended, Process, Stdin, Workers};
pub(crate) use forkful_core::supervisor::{AppId, ListenFault};

/// Names a process of a worker: its app, its slot, and which of the slot's processes it is.
pub(crate) type ProcessKey = (AppId, u16, Generation);

/// Processes of a slot whose last output is looked for by a daemon that takes over.
const LEFT_MAX: usize = 4;

/// Between two looks at who has the port that a worker did not get.
const OWNER_LOOK_PAUSE: Duration = Duration::from_secs(1);

/// An app that exists.
pub(crate) struct App {
    /// What it is, and every decision about its workers.
    pub(crate) supervisor: Box<AppSupervisor>,
    pub(crate) primary: Box<Primary>,
    /// Places, and processes in them, are on their own: a node of a map has room for eleven, and most apps have one.
    pub(crate) places: BTreeMap<u16, Box<Place>>,
    /// Slots that are gone, and whose end is being told.
    pub(crate) removed: BTreeMap<u16, SlotRecord>,
    pub(crate) created_at_ms: u64,
    /// Its processes by the ids of their workers.
    pub(crate) workers: Workers,
    /// What keeps it in good shape.
    pub(crate) upkeep: Box<AppUpkeep>,
    /// What only another version knows of it; saved again with it.
    pub(crate) unknown_keys: Vec<forkful_api::saved::UnknownKey>,
    /// Things to do later.
    pub(crate) later: Laters,
    /// What was found at the starts so far; see [`SpecialFiles`].
    pub(crate) special_logs: SpecialFiles,
    /// Its control group, once a worker was started.
    pub(crate) group: Option<AppGroup>,
    /// What is measured of its workers.
    pub(crate) metrics: AppMetrics,
    /// The processes that the kernel killed for lack of memory, since a worker was started.
    pub(super) memory_kills: MemoryKills,
    /// What the daemon's log has said of it.
    pub(crate) told: Told,
    /// When and where the event loops of its workers stood still.
    pub(crate) stalls: Ledger,
}

/// What the daemon's log has said of an app, and does not say again.
#[derive(Default)]
pub(crate) struct Told {
    /// What its workers expect of a primary and do not get.
    pub(crate) lacks: BTreeSet<Lack>,
    /// That sockets which its processes share by themselves cannot be taken care of.
    pub(super) adoption: bool,
}

/// What belongs to a slot outside its supervisor: its worker's id and files, and the processes that live in it.
pub(crate) struct Place {
    pub(crate) pm_id: u32,
    pub(crate) processes: BTreeMap<Generation, Box<Process>>,
    /// The processes that were here last: what they wrote at their end may not be read yet.
    pub(crate) left: VecDeque<(WorkerId, Generation)>,
    /// Why the last process ended, where its exit does not say it.
    pub(crate) exit_cause: Option<String>,
    /// What the process did that the daemon is about to kill because its event loop stands still.
    pub(crate) stuck: Option<String>,
    /// When it was last looked up who has the port of a refused listen.
    pub(crate) owner_looked_at: Option<Time>,
    /// The last lines of stderr of the process that ended last, from the log service.
    pub(crate) exit_tail: ExitTail,
    /// When its newest process was started, in wall-clock milliseconds.
    pub(crate) started_at_ms: Option<u64>,
    /// What was counted of it last.
    pub(crate) counted: PlaceCounts,
    pub(crate) cpu: CpuSample,
    /// The same of its process's control group.
    pub(crate) group_cpu: CpuSample,
    pub(crate) out_file: PathBuf,
    pub(crate) error_file: PathBuf,
    pub(crate) combined_file: Option<PathBuf>,
}

/// Something to do later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Later {
    /// Look again whether a tree is gone.
    ClearTree(u16, Generation),
    /// Look again what a process has opened by itself; so many looks may follow.
    AdoptSockets(u16, Generation, u8),
}

impl AsRef<AppSupervisor> for App {
    fn as_ref(&self) -> &AppSupervisor {
        &self.supervisor
    }
}

impl ExistingApp for App {
    fn places(&self) -> impl Iterator<Item = (u16, u32)> {
        self.places.iter().map(|(slot, place)| (*slot, place.pm_id))
    }
}

impl App {
    /// An app without slots.
    pub(crate) fn new(supervisor: AppSupervisor, mut primary: Primary) -> Self {
        let spec = supervisor.spec();
        primary.set_times(spec.slow_start, leaving_of(spec));
        Self {
            supervisor: Box::new(supervisor),
            primary: Box::new(primary),
            places: BTreeMap::new(),
            removed: BTreeMap::new(),
            created_at_ms: super::clock::wall_ms(),
            workers: Workers::default(),
            upkeep: Box::default(),
            unknown_keys: Vec::new(),
            later: Laters::default(),
            special_logs: SpecialFiles::new(),
            group: None,
            metrics: AppMetrics::default(),
            memory_kills: MemoryKills::default(),
            told: Told::default(),
            stalls: Ledger::default(),
        }
    }

    /// Another slot. `folder` is where log files go.
    pub(crate) fn add_place(&mut self, number: u16, pm_id: u32, folder: &std::path::Path) {
        let files = log_files(self.spec(), folder, pm_id, &self.special_logs);
        let place = Place {
            pm_id,
            processes: BTreeMap::new(),
            left: VecDeque::new(),
            exit_cause: None,
            stuck: None,
            owner_looked_at: None,
            exit_tail: ExitTail::default(),
            started_at_ms: None,
            counted: PlaceCounts::default(),
            cpu: CpuSample::default(),
            group_cpu: CpuSample::default(),
            out_file: files.out,
            error_file: files.error,
            combined_file: files.combined,
        };
        self.upkeep.exclude_logs(&place);
        self.places.insert(number, Box::new(place));
    }

    /// Its places have changed: sticky clients are distributed over all slots, with and without a worker.
    pub(crate) fn count_slots(&mut self, now: Time) {
        let slots = self.places.last_key_value().map_or(0, |(last, _)| last.saturating_add(1));
        self.primary.set_slots(slots, now);
    }

    /// Keeps the slots that are gone until the effects before their removal are told.
    pub(crate) fn note_removed(&mut self, effects: &[Effect]) {
        self.removed.clear();
        for effect in effects {
            if let Effect::SlotRemoved(slot, record) = effect {
                self.removed.insert(*slot, (**record).clone());
            }
        }
    }

    /// What it is.
    pub(crate) fn spec(&self) -> &AppSpec {
        self.supervisor.spec()
    }

    /// The process of a slot that people see.
    pub(crate) fn current(&self, slot: u16) -> Option<&Process> {
        self.places.get(&slot)?.current(self.supervisor.slot(slot)?)
    }

    /// The processes that people see, one of each slot that has any.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &Process> {
        self.slots().filter_map(|(_, record, place)| place.current(record))
    }

    /// Its slots, each with its place.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (u16, &SlotRecord, &Place)> {
        self.places.iter().filter_map(|(slot, place)| Some((*slot, self.supervisor.slot(*slot)?, &**place)))
    }

    /// It has another definition: its listeners and its log files follow. `folder` is where log files go.
    pub(crate) fn follow_definition(&mut self, folder: &std::path::Path, now: Time) {
        let spec = Rc::clone(self.supervisor.spec());
        self.primary.set_balance(balance_of(&spec), now);
        self.primary.set_times(spec.slow_start, leaving_of(&spec));
        self.primary.set_owner(other_user(&spec), lowest_port_of(&spec), spec.mode == Mode::Fork);
        self.name_log_files(folder);
    }

    /// Takes over what a start has found out about the paths of log files.
    pub(crate) fn note_special_logs(&mut self, special: SpecialFiles, folder: &std::path::Path) {
        if self.special_logs != special {
            self.special_logs = special;
            self.name_log_files(folder);
        }
    }

    /// The log files of some slots, each once.
    pub(crate) fn log_paths(&self, slots: &[u16]) -> Vec<PathBuf> {
        let places = slots.iter().filter_map(|slot| self.places.get(slot));
        let mut paths: Vec<_> = places.flat_map(|place| place.all_log_paths()).collect();
        paths.sort();
        paths.dedup();
        paths
    }

    /// Says which log files each worker has, by the spec and by what is known of the paths in it.
    pub(crate) fn name_log_files(&mut self, folder: &std::path::Path) {
        for place in self.places.values_mut() {
            let files = log_files(self.supervisor.spec(), folder, place.pm_id, &self.special_logs);
            (place.out_file, place.error_file) = (files.out, files.error);
            place.combined_file = files.combined;
            self.upkeep.exclude_logs(place);
        }
    }

    /// Asks a process to end. `stop_signal`: the one by which the daemon was told to end. Gives the signal that its tree is to get.
    pub(crate) fn ask_to_leave(
        &mut self,
        slot: u16,
        generation: Generation,
        stop_signal: Option<i32>,
        now: Time,
    ) -> Option<i32> {
        let lives = self.process(slot, generation).is_some_and(|process| process.ended.is_none());
        let asking = self.spec().stop.asking(stop_signal, lives);
        if let Some(worker) = self.worker(slot, generation).filter(|_| lives) {
            if self.spec().mode == Mode::Cluster {
                self.primary.stopping(worker, now);
            }
            if asking.by_message && self.primary.send_message(worker, b"\"shutdown\"", now).is_ok() {
                return None;
            }
        }
        if asking.to_tree {
            return Some(asking.signal);
        }
        if let Some(process) = self.process(slot, generation) {
            // It may have ended this moment.
            let _gone = process.child.signal(asking.signal);
        }
        None
    }

    /// Sends a signal to the processes of some slots; says what did not get it.
    pub(crate) fn signal(&self, slots: &[u16], signal: i32) -> Vec<String> {
        let mut notes = Vec::new();
        for slot in slots {
            let Some(place) = self.places.get(slot) else { continue };
            match self.current(*slot) {
                Some(process) => {
                    if let Err(error) = process.child.signal(signal) {
                        notes.push(format!("worker {}: {error}", place.pm_id));
                    }
                }
                None => notes.push(format!("worker {} does not run", place.pm_id)),
            }
        }
        notes
    }

    /// Who has a port is found by a look at every process's descriptors: not at each of the listens of an app
    /// that tries again and again.
    pub(crate) fn may_look_for_owner(&mut self, slot: u16, now: Time) -> bool {
        let known = self.supervisor.slot(slot).is_some_and(|record| record.listen_fault.is_some());
        let Some(place) = self.places.get_mut(&slot) else { return false };
        let may = !known || place.owner_looked_at.is_none_or(|at| now.since(at) >= OWNER_LOOK_PAUSE);
        if may {
            place.owner_looked_at = Some(now);
        }
        may
    }

    /// Finds a process by its worker id.
    pub(crate) fn find_worker(&self, worker: WorkerId) -> Option<(u16, Generation)> {
        self.workers.process_of(worker)
    }

    /// A process was started in a slot.
    pub(crate) fn add_process(&mut self, slot: u16, generation: Generation, process: Process) {
        let Some(place) = self.places.get_mut(&slot) else { return };
        self.workers.add(process.worker, (slot, generation));
        let since = process.spawned;
        place.processes.insert(generation, Box::new(process));
        self.note_measurable(since);
        self.watch_out_of_memory();
    }

    /// A process and its tree are gone.
    pub(crate) fn remove_process(&mut self, slot: u16, generation: Generation) -> Option<Box<Process>> {
        let place = self.places.get_mut(&slot)?;
        let process = place.processes.remove(&generation)?;
        place.left.push_back((process.worker, generation));
        place.left.drain(..place.left.len().saturating_sub(LEFT_MAX));
        self.count_ended(slot, generation, &process);
        for worker in self.workers.of((slot, generation)) {
            self.workers.remove(worker);
        }
        Some(process)
    }

    /// A process by its worker id, to change what is known of it.
    pub(crate) fn process_of(&mut self, worker: WorkerId) -> Option<&mut Process> {
        let (slot, generation) = self.find_worker(worker)?;
        self.places.get_mut(&slot)?.processes.get_mut(&generation).map(|process| &mut **process)
    }

    pub(crate) fn process(&self, slot: u16, generation: Generation) -> Option<&Process> {
        self.places.get(&slot)?.processes.get(&generation).map(|process| &**process)
    }

    pub(crate) fn worker(&self, slot: u16, generation: Generation) -> Option<WorkerId> {
        self.process(slot, generation).map(|process| process.worker)
    }

    /// The workers of a process: in fork mode processes below it may be some, too.
    pub(crate) fn workers_of(&self, slot: u16, generation: Generation) -> Vec<WorkerId> {
        match self.spec().mode {
            Mode::Cluster => self.worker(slot, generation).into_iter().collect(),
            Mode::Fork => self.workers.of((slot, generation)),
        }
    }

    /// Whether a worker is a slot's own process.
    pub(crate) fn is_leader(&self, worker: WorkerId) -> bool {
        let of = self.find_worker(worker);
        of.is_some_and(|(slot, generation)| self.worker(slot, generation) == Some(worker))
    }

    /// The worker of a process that listens, or else the process itself.
    pub(crate) fn listener_of(&self, slot: u16, process: &Process, generation: Generation) -> WorkerId {
        let workers = self.workers_of(slot, generation).into_iter();
        workers.rev().find(|worker| self.primary.has_asked(*worker)).unwrap_or(process.worker)
    }

    /// Tells the workers of a process to finish their requests. Returns the addresses that the app has left with them, and whether
    /// none of them will report that it has finished.
    pub(crate) fn drain(&mut self, slot: u16, generation: Generation, now: Time) -> (Vec<String>, bool) {
        let has_agent = |worker| self.primary.has_agent(worker);
        let none_reports = match self.supervisor.spec().mode {
            Mode::Cluster => false,
            Mode::Fork => self.workers.drain((slot, generation), has_agent),
        };
        let mut left = Vec::new();
        for worker in self.workers_of(slot, generation) {
            if self.primary.has_agent(worker) && self.metrics.own.ask_leaving(worker.0, now) {
                self.primary.ask_for_metrics(worker, now);
            }
            left.extend(self.primary.drain(worker, now));
        }
        (left, none_reports)
    }

    /// When something of this app is due.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        let later = self.later.next_wake();
        let supervisor = self.supervisor.next_wake();
        let merge = self.metrics.askers.next_wake().into_iter().chain(self.metrics.otlp.next_wake()).min();
        [later, supervisor, merge, self.primary.next_wake(), self.next_upkeep(), self.next_look()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether no process is there and none is planned.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.supervisor.is_at_rest() && self.places.values().all(|place| place.processes.is_empty())
    }
}

fn leaving_of(spec: &AppSpec) -> Leaving {
    Leaving { within: spec.stop.drain_timeout, stop: spec.stop.heard_as() }
}

/// The slots of an app, each with its place, to be changed. A slot that is gone is among them until its place is removed,
/// because its end is still to be told.
pub(crate) fn places_mut<'a>(
    supervisor: &'a AppSupervisor,
    places: &'a mut BTreeMap<u16, Box<Place>>,
    removed: &'a BTreeMap<u16, SlotRecord>,
) -> impl Iterator<Item = (u16, &'a SlotRecord, &'a mut Place)> {
    let record = |slot| supervisor.slot(slot).or_else(|| removed.get(&slot));
    places.iter_mut().filter_map(move |(slot, place)| Some((*slot, record(*slot)?, &mut **place)))
}

/// Things to do later, in order of time.
#[derive(Debug, Default)]
pub(crate) struct Laters {
    planned: BTreeMap<(Time, u64), Later>,
    /// Tells two of the same time apart.
    last: u64,
}

impl Laters {
    pub(crate) fn plan(&mut self, at: Time, later: Later) {
        self.last += 1;
        self.planned.insert((at, self.last), later);
    }

    /// Takes the first thing whose time has come.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<Later> {
        let first = self.planned.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }

    /// Nothing that was planned for a slot concerns the next one of its number.
    pub(crate) fn forget(&mut self, slot: u16) {
        self.planned.retain(|_, later| later.slot() != slot);
    }

    fn next_wake(&self) -> Option<Time> {
        self.planned.keys().next().map(|(at, _)| *at)
    }
}

impl Later {
    fn slot(self) -> u16 {
        match self {
            Self::ClearTree(slot, _) | Self::AdoptSockets(slot, ..) => slot,
        }
    }
}

impl App {
    /// When its oldest process was started, in milliseconds of the wall clock as it is set now (`wall_ms`); `None` unless every
    /// worker serves.
    pub(crate) fn oldest_start_ms(&self, now: Time, wall_ms: u64) -> Option<u64> {
        let start = |process: &Process| {
            let age_ms = u64::try_from(now.since(process.spawned).as_millis()).unwrap_or(u64::MAX);
            start_by_clock(process.started_at_ms, age_ms, wall_ms)
        };
        let starts = self.slots().map(|(_, record, place)| match &record.slot.state {
            State::Online(running) => place.processes.get(&running.generation).map(|process| start(process)),
            State::Replacing { .. }
            | State::Stopped { .. }
            | State::Starting { .. }
            | State::Stopping { .. }
            | State::Backoff { .. }
            | State::Failed { .. } => None,
        });
        starts.collect::<Option<Vec<u64>>>()?.into_iter().min()
    }

    /// In how many of these slots the program has ended with code 0 and is not started again.
    pub(crate) fn finished(&self, slots: &[u16]) -> usize {
        let is_finished = |record: &SlotRecord| {
            record.wanted && matches!(record.slot.state, State::Stopped { last_exit: Some(Exit::Code(0)) })
        };
        self.slots().filter(|(slot, record, _)| slots.contains(slot) && is_finished(record)).count()
    }
}

impl Place {
    /// The files that a stream of its worker goes to.
    pub(crate) fn log_paths(&self, stream: LogStream) -> Vec<PathBuf> {
        let own = match stream {
            LogStream::Out => &self.out_file,
            LogStream::Err => &self.error_file,
        };
        std::iter::once(own).chain(&self.combined_file).cloned().collect()
    }

    pub(crate) fn all_log_paths(&self) -> impl Iterator<Item = PathBuf> {
        [&self.out_file, &self.error_file].into_iter().chain(&self.combined_file).cloned()
    }

    /// When the process that people see was started, or the last one where there is none now.
    pub(crate) fn started_at_ms(&self, record: &SlotRecord) -> Option<u64> {
        self.current(record).map(|process| process.started_at_ms).or(self.started_at_ms)
    }

    /// The process that people see: the slot's own, or the one that a scale-down lets finish.
    pub(crate) fn current(&self, record: &SlotRecord) -> Option<&Process> {
        let slot = &record.slot;
        let leaver = || slot.leaving.last().filter(|_| slot.is_going());
        let shown = slot.current().or_else(|| leaver().map(|leaver| leaver.generation));
        shown.and_then(|generation| self.processes.get(&generation)).map(|process| &**process)
    }
}

/// Shown in replies: everything but the environment's values, and those of its blocks, and the path of a webhook.
pub(crate) fn public_definition(spec: &AppSpec) -> (AppDefinition, Vec<String>) {
    let mut definition = AppDefinition::from(spec);
    let names = definition.env.keys().cloned().collect();
    definition.env.clear();
    if let Some(webhook) = definition.alerts.as_mut().and_then(|alerts| alerts.webhook.as_mut()) {
        *webhook = AlertPolicy::shown_webhook(webhook);
    }
    let blocks = &mut definition.env_sources.blocks;
    blocks.named.values_mut().chain([&mut blocks.common]).for_each(BTreeMap::clear);
    (definition, names)
}
