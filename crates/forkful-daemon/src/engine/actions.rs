//! Feeds events to the supervisors of apps, and performs what they decide.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use forkful_cluster::protocol::incoming::NodeVersion;
use forkful_cluster::{PrimaryEvent, WorkerId};
use forkful_core::Time;
use forkful_core::primary_habits::Lack;
use forkful_core::slot::{self, Exit, Generation, Report};
use forkful_core::spec::{Mode, pid_file_of};
use forkful_core::supervisor::{Answer, Asked, Context, Effect, Event, others_of};
use forkful_os::{reactor::Interest, tree};

use super::Engine;
use super::app::{App, AppId};
use super::jobs::{Job, JobId};
use super::launch::{lowest_port_of, other_user};
use crate::home::AgentPlace;

/// Between two looks at who has the port that a worker did not get.
const OWNER_LOOK_PAUSE: Duration = Duration::from_secs(1);
/// A view of all processes serves signals for so long.
pub(super) const LOOK_FRESH: Duration = Duration::from_millis(100);

impl Engine {
    /// Feeds an event to a slot.
    pub(crate) fn feed(&mut self, app: AppId, slot: u16, event: slot::Event) {
        self.supervise(app, Event::Slot(slot, event));
    }

    /// Has an event fed to an app's supervisor after what is being done now.
    pub(crate) fn tell(&mut self, app: AppId, event: Event) {
        self.told.push_back((app, event));
    }

    /// Feeds an event to an app's supervisor and performs what follows.
    pub(crate) fn supervise(&mut self, app: AppId, event: Event) {
        let now = self.clock.now();
        let others = others_of(&self.apps, app);
        let Some(entry) = self.apps.get_mut(&app) else { return };
        let jobs = &self.jobs;
        let has_left = |job: &JobId| jobs.get(job).is_some_and(Job::has_client_left);
        let abandoned: Vec<JobId> = entry.supervisor.waiting_reloads().filter(has_left).collect();
        let context = Context { now, others: &others, abandoned: &abandoned };
        let mut effects = std::mem::take(&mut self.effects);
        entry.supervisor.step(event, &context, &mut effects);
        self.holds_some |= entry.supervisor.waits_for_others();
        for effect in effects.drain(..) {
            self.perform(app, effect, now);
        }
        self.effects = effects;
    }

    fn perform(&mut self, app: AppId, effect: Effect, now: Time) {
        match effect {
            Effect::Spawn(slot, generation) => self.work.start(app, slot, generation),
            Effect::Signal(slot, generation) => self.ask_to_leave(app, slot, generation, now),
            Effect::Kill(slot, generation) => self.order_signal(app, slot, generation, 9),
            Effect::OpenTraffic(slot, generation) => {
                self.with_worker(app, slot, generation, |primary, worker| primary.open(worker, now));
            }
            Effect::CloseTraffic(slot, generation) => {
                self.with_worker(app, slot, generation, |primary, worker| primary.close_traffic(worker, now));
            }
            Effect::Drain { slot, generation, job } => self.drain(app, slot, generation, job, now),
            Effect::Defined => self.follow_definition(app, now),
            Effect::SlotAdded(slot) => self.add_place(app, slot),
            Effect::SlotRemoved(slot) => self.remove_place(app, slot),
            Effect::Removed => self.remove_app(app),
            Effect::Changed => self.note_change(),
            Effect::Report(slot, report) => self.report(app, slot, &report),
            Effect::Answered(answer) => self.on_answer(app, answer),
            Effect::Owed(job) => self.expect_answer(job, app),
            Effect::Settled(job) => self.answered(job),
            Effect::Note(job, note) => {
                if let Some(part) = self.part(job, app) {
                    part.note(note.to_string());
                }
            }
            Effect::FinishedBefore(job, slot) => self.note_finished_before(app, slot, job),
            Effect::Failed(job, slot, fault) => self.note_failed(job, app, slot, fault),
            Effect::Reloaded(job, result) => self.note_reloaded(app, job, result),
            Effect::LookAtSockets(slot, generation) => self.look_at_sockets(app, slot, generation),
            Effect::Observe => self.observe(app),
            Effect::AskHealth(slot, generation) => self.ask_worker(app, slot, generation, now),
            Effect::Notice(slot, notice) => {
                let name = self.name_of(app);
                match slot {
                    Some(slot) => log_line!("forkful: {name} worker {slot}: {notice}"),
                    None => log_line!("forkful: {name}: {notice}"),
                }
            }
        }
    }

    /// An app has another definition: its listeners, its log files and what looks after its workers follow.
    fn follow_definition(&mut self, app: AppId, now: Time) {
        let Some(entry) = self.apps.get_mut(&app) else { return };
        let spec = Rc::clone(entry.supervisor.spec());
        entry.primary.set_balance(spec.balance, now);
        entry.primary.set_owner(other_user(&spec), lowest_port_of(&spec));
        entry.name_log_files(&self.home.logs());
        self.begin_upkeep(app);
    }

    fn name_of(&self, app: AppId) -> String {
        self.apps.get(&app).map_or_else(String::new, |entry| entry.spec().name.to_string())
    }

    /// Asks a process to end, in the way that its app wants: by a signal to its tree or to it alone, or by a message.
    fn ask_to_leave(&mut self, app: AppId, slot: u16, generation: Generation, now: Time) {
        let Some(entry) = self.apps.get_mut(&app) else { return };
        let stop = entry.spec().stop;
        let signal = self.stop_signal.unwrap_or(stop.signal.0);
        let process = entry.process(slot, generation).filter(|process| process.ended.is_none());
        let worker = process.map(|process| process.worker);
        if let Some(worker) = worker.filter(|_| entry.spec().mode == Mode::Cluster) {
            entry.primary.stopping(worker, now);
        }
        if let Some(worker) = worker
            && stop.by_message
            && self.stop_signal.is_none()
            && entry.primary.send_message(worker, b"\"shutdown\"", now).is_ok()
        {
            return;
        }
        let process = entry.process(slot, generation).filter(|process| process.ended.is_none());
        match process {
            Some(process) if !stop.whole_tree => {
                // It may have ended this moment.
                let _gone = process.child.signal(signal);
            }
            Some(_) | None => self.order_signal(app, slot, generation, signal),
        }
    }

    fn with_worker(
        &mut self,
        app: AppId,
        slot: u16,
        generation: Generation,
        act: impl FnOnce(&mut forkful_cluster::Primary, WorkerId),
    ) {
        if let Some(entry) = self.apps.get_mut(&app)
            && let Some(worker) = entry.worker(slot, generation)
        {
            act(&mut entry.primary, worker);
        }
    }

    fn drain(&mut self, app: AppId, slot: u16, generation: Generation, job: Option<JobId>, now: Time) {
        let clustered = self.apps.get(&app).is_some_and(|entry| entry.spec().mode == Mode::Cluster);
        if clustered {
            let mut left = Vec::new();
            self.with_worker(app, slot, generation, |primary, worker| left = primary.drain(worker, now));
            self.note_left(app, job, &left);
        } else {
            self.tell(app, Event::Slot(slot, slot::Event::Drained(generation)));
        }
    }

    /// Tells the client of a command that the app listens on these addresses no more.
    pub(super) fn note_left(&mut self, app: AppId, job: Option<JobId>, left: &[String]) {
        if let Some(part) = job.and_then(|job| self.part(job, app)) {
            for address in left {
                part.note(format!("{address} is closed: the new version does not listen there"));
            }
        }
    }

    /// The agent's file for workers of an app, which must be able to read it.
    pub(super) fn agent_for(&self, app: AppId) -> Option<AgentPlace> {
        let spec = self.apps.get(&app).map(App::spec).filter(|spec| spec.agent)?;
        if other_user(spec).is_some() {
            return Some(AgentPlace::ForOthers);
        }
        self.agent.as_ref().map(|_installed| AgentPlace::Home(self.home.clone()))
    }

    /// Puts the process id of a worker into its file, once.
    pub(super) fn write_pid_file(&mut self, app: AppId, slot: u16, generation: Generation) {
        let Some(entry) = self.apps.get_mut(&app) else { return };
        let Some(pid_file) = entry.spec().pid_file.clone() else { return };
        let Some(place) = entry.places.get_mut(&slot) else { return };
        let path = pid_file_of(&pid_file, place.pm_id);
        let Some(process) = place.processes.get_mut(&generation) else { return };
        if process.pid_file.is_none() {
            process.pid_file = Some(path.clone());
            self.pid_files.write(path, process.child.pid);
        }
    }

    /// A worker's agent is loaded, and the app's own code begins.
    fn on_greeting(&mut self, app: AppId, worker: WorkerId, node: Option<NodeVersion>) {
        let Some(entry) = self.apps.get_mut(&app) else { return };
        if let Some(process) = entry.process_of(worker) {
            process.node_version = node;
        }
        let Some((slot, generation)) = entry.find_worker(worker) else { return };
        self.feed(app, slot, slot::Event::Greeted(generation));
    }

    /// Has the end of a process noticed.
    pub(super) fn watch_process(
        &mut self,
        pidfd: &std::os::fd::OwnedFd,
        app: AppId,
        slot: u16,
        generation: Generation,
    ) -> std::io::Result<()> {
        use std::os::fd::AsFd;
        self.next_watch += 1;
        let watch = self.next_watch;
        let token = super::PROCESS_BIT | watch;
        self.reactor.add(pidfd.as_fd(), token, Interest::READ)?;
        self.watched.insert(watch, (app, slot, generation));
        Ok(())
    }

    pub(crate) fn signal_tree(&mut self, app: AppId, slot: u16, generation: Generation, signal: i32) {
        // One look at all processes serves many signals: stopping hundreds of workers must not keep the
        // connections of others waiting. Who is born meanwhile is cleared away when the worker has ended.
        self.look_at_processes(self.clock.now() - LOOK_FRESH);
        if let Some(process) = self.apps.get(&app).and_then(|entry| entry.process(slot, generation))
            && process.ended.is_none()
        {
            let snapshot = self.snapshot.as_ref().map(|(_, snapshot)| snapshot);
            tree::signal_tree_in(snapshot, &process.child, process.mark, signal);
        }
    }

    /// What a primary has noticed.
    pub(crate) fn take_primary_events(&mut self, app: AppId) {
        while let Some(event) = self.apps.get_mut(&app).and_then(|entry| entry.primary.take_event()) {
            self.on_primary_event(app, event);
        }
    }

    fn on_primary_event(&mut self, app: AppId, event: PrimaryEvent) {
        let locate = |engine: &Self, worker| engine.apps.get(&app).and_then(|a| a.find_worker(worker));
        match event {
            PrimaryEvent::Online(_) => {}
            PrimaryEvent::Message { worker, line } => self.on_message(app, worker, &line),
            PrimaryEvent::Greeted { worker, node } => self.on_greeting(app, worker, node),
            PrimaryEvent::LacksWorkers(worker) => self.note_lack(app, worker, Lack::ClusterMetrics),
            PrimaryEvent::Report { worker, report } => self.on_agent_report(app, worker, report),
            PrimaryEvent::Listening(worker) => {
                self.note_sockets();
                if let Some((slot, generation)) = locate(self, worker) {
                    self.on_listening(app, slot, generation);
                }
            }
            PrimaryEvent::Ready(worker) => {
                if let Some((slot, generation)) = locate(self, worker) {
                    self.supervise(app, Event::SaidReady(slot, generation));
                }
            }
            PrimaryEvent::ListenFailed { worker, address, errno, port } => {
                if let Some((slot, _)) = locate(self, worker)
                    && self.may_look_for_owner(app, slot)
                {
                    let name = self.name_of(app);
                    let fault = super::faults::listen_fault(&name, &address, errno, port, &self.ours());
                    self.supervise(app, Event::ListenRefused(slot, fault));
                }
            }
            PrimaryEvent::Disconnected(worker) => {
                if let Some((slot, generation)) = locate(self, worker) {
                    self.feed(app, slot, slot::Event::Disconnected(generation));
                }
            }
        }
    }

    /// Keeps the note of the apps' unix sockets true, as far as new ones go.
    pub(super) fn note_sockets(&mut self) {
        let files = self.apps.values().flat_map(|entry| entry.primary.socket_files());
        let files: BTreeSet<PathBuf> = files.map(Path::to_owned).collect();
        if !self.echo && !files.is_subset(&self.noted_sockets) {
            if let Some(persistence) = &self.persistence {
                let (home, files) = (self.home.clone(), files.clone());
                persistence.writer.errand(move |_| crate::left_behind::note_sockets(&home, &files));
            }
            self.noted_sockets = files;
        }
    }

    /// Who has a port is found by a look at every process's descriptors: not at each of the listens of an app
    /// that tries again and again.
    fn may_look_for_owner(&mut self, app: AppId, slot: u16) -> bool {
        let now = self.clock.now();
        let Some(entry) = self.apps.get_mut(&app) else { return false };
        let known = entry.supervisor.slot(slot).is_some_and(|record| record.listen_fault.is_some());
        let Some(place) = entry.places.get_mut(&slot) else { return false };
        let may = !known || place.owner_looked_at.is_none_or(|at| now.since(at) >= OWNER_LOOK_PAUSE);
        if may {
            place.owner_looked_at = Some(now);
        }
        may
    }

    /// Notes what happened for lists; a supervisor that talks does so on stderr.
    fn report(&mut self, app: AppId, slot: u16, report: &Report) {
        if let Report::Exited { exit, .. } = report {
            self.last_exit = Some(exit.clone());
        }
        if let Report::Online { generation, .. } = report {
            self.write_pid_file(app, slot, *generation);
        }
        if let Report::Killed(_) = report {
            self.note_killed(app, slot);
        }
        self.publish_report(app, slot, report);
        if let Some(text) = super::faults::report_text(report) {
            let name = self.name_of(app);
            log_line!("forkful: {name} worker {slot}: {text}");
        }
    }

    /// A slot has answered a command.
    fn on_answer(&mut self, app: AppId, answer: Answer) {
        self.publish_answer(app, &answer);
        if let Asked::Job(job, _) = answer.asked {
            self.note_outcome(job, app, answer);
        }
    }

    /// Tells the exit of a process, once it and its tree are gone.
    pub(crate) fn exited(&mut self, app: AppId, slot: u16, generation: Generation, exit: Exit) {
        self.feed(app, slot, slot::Event::Exited(generation, exit));
    }
}
