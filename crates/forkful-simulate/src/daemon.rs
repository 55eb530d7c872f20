//! The simulated daemon: does what the real daemon's engine does around the pure parts, without processes and
//! sockets.
//!
//! - `commands`: clients' requests, as events of supervisors · `effects`: effects of supervisors
//! - `apps`: the apps, and their next deadline
//! - `applying`: plans of several commands · `jobs`: commands in progress, and their replies
//! - `saving`: the saved state, a crash, and restoring it · `takeover`: a death of the daemon that its
//!   workers survive

mod applying;
mod apps;
mod commands;
mod effects;
mod jobs;
mod saving;
mod takeover;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use forkful_core::Time;
use forkful_core::apply::Claims;
use forkful_core::jobs::OpenJobs;
use forkful_core::late_start::START_DEADLINE;
use forkful_core::random::Random;
use forkful_core::request::{self, ExistingApp};
use forkful_core::saving::Saving;
use forkful_core::slot::{Event, Exit, Generation, OwnSocket, ReadySign};
use forkful_core::spec::{AppName, Mode};
use forkful_core::supervisor::{
    AppId, AppSupervisor, Effect, Event as AppEvent, Sockets, Warmed, waiting_for_others,
};

use forkful_dispatch::Event as Input;

use crate::definition::first_worker_of;
use crate::disk::Saved;
use crate::machine::{Deed, Phase, Pid, Whose};
use crate::net::Asking;
use crate::plan::StartPlan;
use crate::plant::Plant;
use crate::queue::Happening;
use crate::world::World;

use applying::Applying;
use apps::Apps;
pub(crate) use jobs::{Clients, Job, Request};
pub(crate) use takeover::Kept;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Daemon {
    pub(crate) apps: Apps,
    pub(crate) jobs: OpenJobs<Job>,
    /// Configurations that are being applied.
    applies: Vec<Applying>,
    /// The apps that they change.
    claims: Claims,
    /// The processes whose end the supervisors were not informed of.
    pub(crate) pids: BTreeMap<Whose, Pid>,
    /// Pending internal events.
    pub(crate) told: VecDeque<(AppId, AppEvent)>,
    holds_some: bool,
    /// Some app may have progressed since the apps that wait for others were last checked.
    has_moved: bool,
    pub(crate) saving: Saving,
    /// The newest state known to be on disk.
    saved: u64,
    /// Replies that wait for a state to be on disk.
    patient: Vec<Patient>,
    /// Entries of a saved state that are about to be started.
    pending: Vec<Saved>,
    effects: Vec<Effect>,
    chance: Random,
    next_app: u32,
    timer: Option<Time>,
}

/// A reply that waits for a state to be on disk.
#[derive(Debug)]
struct Patient {
    request: usize,
    ticket: Option<u64>,
    /// The number of events at the time it was ready.
    ready: usize,
    /// The state that should be on disk by then.
    state: Vec<Saved>,
    /// Apps whose workers are being deleted.
    going: Vec<AppName>,
}

/// An app of the daemon.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) supervisor: AppSupervisor,
    /// The existing slots, according to effects.
    pub(crate) places: BTreeSet<u16>,
}

impl App {
    /// The number of slots, those without a worker included.
    pub(crate) fn slot_count(&self) -> u16 {
        self.places.last().map_or(0, |last| last + 1)
    }
}

impl AsRef<AppSupervisor> for App {
    fn as_ref(&self) -> &AppSupervisor {
        &self.supervisor
    }
}

impl ExistingApp for App {
    fn places(&self) -> impl Iterator<Item = (u16, u32)> {
        let first = first_worker_of(self.supervisor.spec());
        self.places.iter().map(move |slot| (*slot, first + u32::from(*slot)))
    }
}

impl Daemon {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            apps: Apps::default(),
            jobs: OpenJobs::default(),
            applies: Vec::new(),
            claims: Claims::default(),
            pids: BTreeMap::new(),
            told: VecDeque::new(),
            holds_some: false,
            has_moved: false,
            saving: Saving::default(),
            saved: 0,
            patient: Vec::new(),
            pending: Vec::new(),
            effects: Vec::new(),
            chance: Random::new(seed),
            next_app: 0,
            timer: None,
        }
    }

    pub(crate) fn find(&self, name: &AppName) -> Option<AppId> {
        request::find(&self.apps, name.as_str())
    }

    /// Whether an app with this name exists, or is about to be started from the saved state.
    fn is_known(&self, name: &AppName) -> bool {
        self.find(name).is_some() || self.pending.iter().any(|saved| saved.spec.name == *name)
    }

    /// The processes of an app, by slot and generation.
    pub(crate) fn pids_of(&self, app: AppId) -> impl Iterator<Item = (&Whose, &Pid)> {
        self.pids.range((app, 0, Generation(0))..=(app, u16::MAX, Generation(u32::MAX)))
    }

    /// The next deadline of a supervisor.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.apps.next_wake()
    }
}

impl World {
    /// Performs what is due, and the consequences of the last event.
    pub(crate) fn turn(&mut self) {
        self.on_time();
        self.settle();
        if !self.kept.is_dead {
            self.set_timer();
            self.set_net_timer();
        }
    }

    fn settle(&mut self) {
        loop {
            match self.daemon.told.pop_front() {
                Some((app, event)) => {
                    self.supervise(app, event);
                    self.free_ports(app);
                }
                None if !self.go_on_with_held() && !self.follow_net() => break,
                None => {}
            }
        }
        if !self.kept.is_dead {
            self.finish_jobs();
            self.save_changes();
        }
    }

    fn go_on_with_held(&mut self) -> bool {
        let is_asked = self.daemon.holds_some && !self.kept.is_dead;
        if !(is_asked && std::mem::take(&mut self.daemon.has_moved)) {
            return false;
        }
        let waiting = waiting_for_others(&self.daemon.apps);
        self.daemon.holds_some = !waiting.is_empty();
        let mut any = false;
        for app in waiting {
            self.supervise(app, AppEvent::OthersMoved);
            any |= !self.daemon.apps.get(&app).is_some_and(|app| app.supervisor.waits_for_others());
        }
        self.daemon.has_moved |= any;
        any
    }

    fn on_time(&mut self) {
        let now = self.now;
        if self.daemon.next_wake().is_none_or(|at| at > now) {
            return;
        }
        let is_due = |app: &App| app.supervisor.next_wake().is_some_and(|at| at <= now);
        let due: Vec<AppId> =
            self.daemon.apps.iter().filter(|(_, app)| is_due(app)).map(|(id, _)| *id).collect();
        for app in due {
            self.supervise(app, AppEvent::Time);
        }
    }

    fn set_timer(&mut self) {
        let wake = self.daemon.next_wake();
        if wake != self.daemon.timer {
            self.daemon.timer = wake;
            if let Some(at) = wake.filter(|_| !self.plants(Plant::ForgottenDeadline)) {
                self.at(at.max(self.now), Happening::Wake);
            }
        }
    }

    /// The timer has fired; returns whether it is the current timer.
    pub(crate) fn on_wake(&mut self) -> bool {
        let is_set = self.daemon.timer.is_some_and(|at| at <= self.now);
        if is_set {
            self.daemon.timer = None;
        }
        is_set
    }

    pub(crate) fn feed(&mut self, app: AppId, slot: u16, event: Event) {
        self.supervise(app, AppEvent::Slot(slot, event));
    }

    /// Feeds an event to a slot after the current work.
    fn tell_later(&mut self, app: AppId, slot: u16, event: Event) {
        self.daemon.told.push_back((app, AppEvent::Slot(slot, event)));
    }

    /// Checks the sockets of a process.
    fn look_at_sockets(&mut self, app: AppId, slot: u16, generation: Generation) {
        let Some(pid) = self.daemon.pids.get(&(app, slot, generation)).copied() else { return };
        let process = self.machine.processes.get(pid);
        if process.is_some_and(|process| process.phase == Phase::Alive) {
            let seen = self.sockets_seen(app, slot, generation, pid);
            self.daemon.told.push_back((app, AppEvent::Sockets(slot, generation, seen)));
        }
    }

    /// The result of checking a live process's sockets.
    pub(crate) fn sockets_seen(&self, app: AppId, slot: u16, generation: Generation, pid: Pid) -> Sockets {
        let record = self.daemon.apps.get(&app).and_then(|entry| entry.supervisor.slot(slot));
        let old = record.and_then(|record| record.followed_by(generation));
        let old = old.and_then(|old| self.daemon.pids.get(&(app, slot, old))).copied();
        let own = |pid: Pid| {
            let process = self.machine.processes.get(pid);
            process.is_some_and(|process| process.listens).then_some(OwnSocket::Tcp)
        };
        let mut seen = self.shared_sockets(app, pid, old);
        seen.follows_listener |= old.and_then(own).is_some();
        seen.own = own(pid);
        seen
    }

    /// When no process of an app runs, its ports are free.
    fn free_ports(&mut self, app: AppId) {
        let is_at_rest = self.daemon.apps.get(&app).is_some_and(|entry| entry.supervisor.is_at_rest());
        if is_at_rest && self.processes_of(app).next().is_none() {
            self.dispatch(app, Input::CloseAll);
        }
    }

    /// Checks a worker's health.
    fn ask_health(&mut self, app: AppId, slot: u16, generation: Generation) {
        let asks_first = self.plant == Some(Plant::AskedBefore);
        if asks_first {
            self.ask_whether_it_turns(app, slot, generation);
        }
        if let Some(pid) = self.daemon.pids.get(&(app, slot, generation)).copied() {
            match self.ask_by_connection(app, pid) {
                Asking::ByConnection(number, timeout) => {
                    self.after(timeout, Happening::Asked(pid, self.daemons, Some(number)));
                }
                Asking::Busy => self.daemon.told.push_back((app, AppEvent::ChannelBusy { slot, generation })),
                Asking::Otherwise => {
                    let process = self.machine.processes.get(pid);
                    let after = process.map_or(Duration::ZERO, |process| process.plan.latency);
                    self.after(after, Happening::Asked(pid, self.daemons, None));
                }
            }
        }
        if !asks_first {
            self.ask_whether_it_turns(app, slot, generation);
        }
    }

    /// Sends a worker a request before it gets traffic.
    fn warm_up(&mut self, app: AppId, slot: u16, generation: Generation) {
        match self.daemon.pids.get(&(app, slot, generation)).copied() {
            Some(pid) => {
                let after =
                    self.machine.processes.get(pid).map_or(Duration::ZERO, |process| process.plan.latency);
                self.after(after, Happening::Warmed(pid, self.daemons));
            }
            None => {
                let outcome = Warmed::Failed("it is gone".to_owned());
                self.daemon.told.push_back((app, AppEvent::Warmed { slot, generation, outcome }));
            }
        }
    }

    /// It answers, unless it hangs; then its warm-up times out. Returns whether the daemon that sent the
    /// request still exists.
    pub(crate) fn on_warmed(&mut self, pid: Pid, daemon: u32) -> bool {
        let Some(process) = self.machine.processes.get(pid) else { return false };
        let (app, slot, generation) = process.whose;
        let is_told = daemon == self.daemons && process.is_well();
        if is_told {
            self.supervise(app, AppEvent::Warmed { slot, generation, outcome: Warmed::Answered });
        }
        is_told
    }

    /// A worker answers a health check or fails it. Returns whether the daemon that asked still exists.
    pub(crate) fn on_asked(&mut self, pid: Pid, daemon: u32, by: Option<u32>) -> bool {
        let Some(process) = self.machine.processes.get(pid) else { return false };
        let (app, slot, generation) = process.whose;
        let is_well = match by {
            Some(number) => self.was_taken(number),
            None => self.calm || process.is_well(),
        };
        let answer = if is_well { Ok(()) } else { Err("no answer".to_owned()) };
        let is_there = daemon == self.daemons;
        if is_there {
            self.supervise(app, AppEvent::Health { slot, generation, answer });
        }
        is_there
    }

    /// Begins a queued start.
    pub(crate) fn begin_start(&mut self, pid: Pid) {
        let refuses = self.now < self.machine.refuses_until && !self.calm;
        let forgets_group = self.plants(Plant::GroupForgotten);
        let Some(process) = self.machine.processes.get_mut(pid) else { return };
        let (app, slot, generation) = process.whose;
        process.phase = Phase::Starting;
        process.joins_group = !forgets_group;
        let after = match process.plan.start {
            StartPlan::Runs(after) if refuses => {
                process.plan.start = StartPlan::Refused(after);
                Some(after)
            }
            StartPlan::Runs(after) | StartPlan::Refused(after) => Some(after),
            StartPlan::Hangs => None,
        };
        match after {
            Some(after) => self.after(after, Happening::StartOver(pid)),
            None => self.after(START_DEADLINE, Happening::GiveUpStart(pid)),
        }
        self.feed(app, slot, Event::Begun(generation, self.now));
    }

    /// A start has succeeded or failed.
    pub(crate) fn on_start_over(&mut self, pid: Pid) {
        let Some(process) = self.machine.processes.get(pid) else { return };
        let (app, slot, generation) = process.whose;
        if matches!(process.plan.start, StartPlan::Refused(_)) {
            return self.fail_start(pid, "no such file");
        }
        let clusters =
            self.daemon.apps.get(&app).is_some_and(|entry| entry.supervisor.spec().mode == Mode::Cluster);
        if clusters {
            self.attach(pid);
        }
        self.begin_life(pid);
        self.supervise(app, AppEvent::Runs(slot, generation));
        if self.plant == Some(Plant::ReadyTooEarly) {
            self.feed(app, slot, Event::Ready(generation, ReadySign::Message));
        }
    }

    /// A process was never created: its slot is informed soon.
    pub(crate) fn fail_start(&mut self, pid: Pid, why: &str) {
        let Some(process) = self.machine.processes.remove(pid) else { return };
        let (app, slot, generation) = process.whose;
        self.daemon.pids.remove(&process.whose);
        self.tell_later(app, slot, Event::SpawnFailed(generation, why.to_owned()));
    }

    /// Informs the daemon of what a process has done.
    pub(crate) fn tell(&mut self, pid: Pid, deed: &Deed) {
        let Some(process) = self.machine.processes.get(pid) else { return };
        let (app, slot, generation) = process.whose;
        let event = match deed {
            Deed::Greet => Event::Greeted(generation),
            Deed::Ready(sign) => return self.hear_ready(app, slot, generation, *sign),
            Deed::Drained => Event::Drained(generation),
            Deed::Disconnect => Event::Disconnected(generation),
            Deed::Die(_) | Deed::Listen(_) | Deed::Close(_) => return,
        };
        self.feed(app, slot, event);
    }

    /// A process without a channel may report that it is ready.
    fn hear_ready(&mut self, app: AppId, slot: u16, generation: Generation, sign: ReadySign) {
        match sign {
            ReadySign::Message => self.supervise(app, AppEvent::SaidReady(slot, generation)),
            ReadySign::Listening => {}
        }
    }

    /// Informs the daemon that a process has ended.
    pub(crate) fn on_seen(&mut self, pid: Pid) {
        let Some(process) = self.machine.processes.get(pid) else { return };
        let ((app, slot, generation), exit) = (process.whose, process.exit.clone());
        if self.plants(Plant::LostExit) {
            self.detach(pid);
            self.daemon.pids.remove(&(app, slot, generation));
            self.machine.processes.remove(pid);
            return;
        }
        // First, the connections that the worker had not accepted go to other workers.
        self.detach(pid);
        self.feed(app, slot, Event::Exited(generation, exit.unwrap_or(Exit::Code(0))));
        if self.kept.is_dead {
            return;
        }
        self.daemon.pids.remove(&(app, slot, generation));
        self.forget_process(pid);
        self.free_ports(app);
    }
}
