//! Performs what the core decides for a slot.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forkful_cluster::protocol::incoming::NodeVersion;
use forkful_cluster::{PrimaryEvent, WorkerId};
use forkful_core::Time;
use forkful_core::primary_habits::Lack;
use forkful_core::slot::{Action, Event, Exit, Generation, Outcome, Report};
use forkful_core::spec::{Mode, pid_file_of};
use forkful_os::{reactor::Interest, tree};

use super::app::{AppId, ListenFault};
use super::jobs::JobId;
use super::launch::other_user;
use super::{Answered, Engine, TicketUse};
use crate::home::AgentPlace;

/// Between two looks at who has the port that a worker did not get.
const OWNER_LOOK_PAUSE: Duration = Duration::from_secs(1);
/// A view of all processes serves signals for so long.
pub(super) const LOOK_FRESH: Duration = Duration::from_millis(100);

impl Engine {
    /// Feeds an event to a slot and performs what follows, until nothing does.
    pub(crate) fn feed(&mut self, app: AppId, slot: u16, event: Event) {
        let now = self.clock.now();
        let chance = self.chance();
        let Some(entry) = self.apps.get_mut(&app) else { return };
        let Some(place) = entry.places.get_mut(&slot) else { return };
        let was_finished = place.slot.stays_finished(&entry.spec.restart);
        let actions = place.slot.apply(event, now, &entry.policy, chance);
        place.deadline = place.slot.next_deadline();
        if place.slot.stays_finished(&entry.spec.restart) != was_finished {
            self.note_change();
        }
        for action in actions {
            self.perform(app, slot, action, now);
        }
    }

    fn perform(&mut self, app: AppId, slot: u16, action: Action, now: Time) {
        match action {
            Action::Spawn(generation) => self.work.start(app, slot, generation),
            Action::Signal(generation) => self.ask_to_leave(app, slot, generation, now),
            Action::Kill(generation) => self.order_signal(app, slot, generation, 9),
            Action::OpenTraffic(generation) => self.with_worker(app, slot, generation, |primary, worker| {
                primary.open(worker, now);
            }),
            Action::CloseTraffic(generation) => self.with_worker(app, slot, generation, |primary, worker| {
                primary.close_traffic(worker, now);
            }),
            Action::Drain(generation) => self.drain(app, slot, generation, now),
            // The deadline is read from the slot after each event.
            Action::Wake(_) => {}
            Action::Report(report) => self.report(app, slot, &report),
            Action::Answer(ticket, outcome) => {
                // Noted now: the next process of the slot begins with a clean slate.
                let place = self.apps.get(&app).and_then(|entry| entry.places.get(&slot));
                let listen_fault = place.and_then(|place| place.listen_fault.clone());
                self.answers.push_back(Answered { app, slot, ticket, outcome, listen_fault });
            }
        }
    }

    /// Asks a process to end, in the way that its app wants: by a signal to its tree or to it alone, or by a message.
    fn ask_to_leave(&mut self, app: AppId, slot: u16, generation: Generation, now: Time) {
        let Some(entry) = self.apps.get_mut(&app) else { return };
        let stop = entry.spec.stop;
        let signal = self.stop_signal.unwrap_or(stop.signal.0);
        let process = entry.process(slot, generation).filter(|process| process.ended.is_none());
        let worker = process.map(|process| process.worker);
        if let Some(worker) = worker.filter(|_| entry.spec.mode == Mode::Cluster) {
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

    fn drain(&mut self, app: AppId, slot: u16, generation: Generation, now: Time) {
        let clustered = self.apps.get(&app).is_some_and(|entry| entry.spec.mode == Mode::Cluster);
        if clustered {
            let mut left = Vec::new();
            self.with_worker(app, slot, generation, |primary, worker| left = primary.drain(worker, now));
            let job = self.apps.get(&app).and_then(|entry| entry.reload.as_ref()).map(|reload| reload.job);
            self.note_left(app, job, &left);
        } else {
            self.told.push_back((app, slot, Event::Drained(generation)));
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
        let spec = &self.apps.get(&app).filter(|entry| entry.spec.agent)?.spec;
        if other_user(spec).is_some() {
            return Some(AgentPlace::ForOthers);
        }
        self.agent.as_ref().map(|_installed| AgentPlace::Home(self.home.clone()))
    }

    /// Puts the process id of a worker into its file, once.
    pub(super) fn write_pid_file(&mut self, app: AppId, slot: u16, generation: Generation) {
        let Some(entry) = self.apps.get_mut(&app) else { return };
        let Some(pid_file) = entry.spec.pid_file.clone() else { return };
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
        self.feed(app, slot, Event::Greeted(generation));
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
                    self.on_said_ready(app, slot, generation);
                }
            }
            PrimaryEvent::ListenFailed { worker, address, errno, port } => {
                if let Some((slot, _)) = locate(self, worker)
                    && self.may_look_for_owner(app, slot)
                {
                    let name = self.apps.get(&app).map(|entry| entry.spec.name.to_string());
                    let name = name.unwrap_or_default();
                    let fault = super::faults::listen_fault(&name, &address, errno, port, &self.ours());
                    self.note_listen_fault(app, slot, fault);
                }
            }
            PrimaryEvent::Disconnected(worker) => {
                if let Some((slot, generation)) = locate(self, worker) {
                    self.feed(app, slot, Event::Disconnected(generation));
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

    fn note_listen_fault(&mut self, app: AppId, slot: u16, fault: ListenFault) {
        if let Some(place) = self.apps.get_mut(&app).and_then(|entry| entry.places.get_mut(&slot)) {
            place.listen_fault = Some(fault);
        }
    }

    /// Who has a port is found by a look at every process's descriptors: not at each of the listens of an app
    /// that tries again and again.
    fn may_look_for_owner(&mut self, app: AppId, slot: u16) -> bool {
        let now = self.clock.now();
        let Some(place) = self.apps.get_mut(&app).and_then(|entry| entry.places.get_mut(&slot)) else {
            return false;
        };
        let known = place.listen_fault.is_some();
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
            if let Some(place) = self.apps.get_mut(&app).and_then(|entry| entry.places.get_mut(&slot)) {
                place.last_exit = Some(exit.clone());
            }
        }
        if let Report::Online { generation, .. } = report {
            self.write_pid_file(app, slot, *generation);
        }
        if let Report::Left { .. } = report {
            self.on_old_left(app, slot);
        }
        if let Report::Killed(_) = report {
            self.note_killed(app, slot);
        }
        self.publish_report(app, slot, report);
        self.on_upkeep_report(app, slot, report);
        if let Some(text) = super::faults::report_text(report) {
            let name = self.apps.get(&app).map_or_else(String::new, |entry| entry.spec.name.to_string());
            log_line!("forkful: {name} worker {slot}: {text}");
        }
    }

    /// Hands the answers of slots to the commands that wait for them.
    pub(crate) fn deliver_answers(&mut self) {
        while let Some(answered) = self.answers.pop_front() {
            self.on_answer(answered);
        }
    }

    fn on_answer(&mut self, answered: Answered) {
        let Answered { app, slot, ticket, outcome, listen_fault } = answered;
        let Some(usage) = self.tickets.remove(&ticket) else { return };
        self.publish_answer(app, slot, ticket, usage, &outcome);
        let deleted = outcome == Outcome::Deleted;
        match usage {
            TicketUse::Job(job) => self.note_outcome(job, app, slot, outcome, listen_fault),
            TicketUse::Reload => self.on_reload_answer(app, slot, outcome, listen_fault),
        }
        if deleted {
            self.remove_place(app, slot);
        }
        self.finish_jobs();
    }

    /// Tells the exit of a process, once it and its tree are gone.
    pub(crate) fn exited(&mut self, app: AppId, slot: u16, generation: Generation, exit: Exit) {
        self.feed(app, slot, Event::Exited(generation, exit));
    }
}
