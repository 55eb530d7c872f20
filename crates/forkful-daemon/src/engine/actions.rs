//! Performs what the core decides for a slot.

use std::time::Duration;

use forkful_api::types::LogStream;
use forkful_cluster::{PrimaryEvent, WorkerId};
use forkful_core::Time;
use forkful_core::slot::{Action, Event, Exit, Generation, Outcome, ReadySign, Report};
use forkful_core::spec::{Mode, Runtime};
use forkful_os::procinfo::{self, ListeningSocket};
use forkful_os::{reactor::Interest, tree};

use super::app::{AppId, EndStep, Later, ListenFault, Process};
use super::launch::{Identity, inspect_port, launch};
use super::{Answered, Engine, TicketUse};
use crate::logs::StreamSpec;

/// First look for a socket of the worker's own; the pauses grow by half each.
const SOCKET_LOOK_FIRST: Duration = Duration::from_millis(80);
/// Longest pause between two looks.
const SOCKET_LOOK_MAX: Duration = Duration::from_millis(500);
/// A disconnected worker may finish what it does after its last response before it is signalled.
const AFTER_DISCONNECT: Duration = Duration::from_millis(500);

impl Engine {
    /// Feeds an event to a slot and performs what follows, until nothing does.
    pub(crate) fn feed(&mut self, app: AppId, slot: u16, event: Event) {
        let now = self.clock.now();
        let chance = self.chance();
        let Some(entry) = self.apps.get_mut(&app) else { return };
        let Some(place) = entry.places.get_mut(&slot) else { return };
        let actions = place.slot.apply(event, now, &entry.policy, chance);
        place.deadline = place.slot.next_deadline();
        for action in actions {
            self.perform(app, slot, action, now);
        }
    }

    fn perform(&mut self, app: AppId, slot: u16, action: Action, now: Time) {
        match action {
            Action::Spawn(generation) => self.spawn(app, slot, generation, now),
            Action::Signal(generation) => {
                let signal = self.apps.get(&app).map_or(15, |entry| entry.spec.stop.signal.0);
                self.signal_tree(app, slot, generation, self.stop_signal.unwrap_or(signal));
            }
            Action::Kill(generation) => self.signal_tree(app, slot, generation, 9),
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
            self.with_worker(app, slot, generation, |primary, worker| primary.drain(worker, now));
        } else {
            self.later(app, Duration::ZERO, Later::Disconnected(slot, generation));
        }
    }

    fn spawn(&mut self, app: AppId, slot: u16, generation: Generation, now: Time) {
        if self.agent.as_ref().is_some_and(|agent| !agent.exists()) {
            // Somebody has cleaned up; Node would refuse to start without a file that it is told to load.
            self.agent = self.home.install_agent().ok();
        }
        let agent = self.agent.clone();
        let echo = self.echo_for(slot);
        let Some(entry) = self.apps.get_mut(&app) else { return };
        entry.workers_started += 1;
        let worker = WorkerId(entry.workers_started);
        let Some(place) = entry.places.get_mut(&slot) else { return };
        let marker = format!("{}-{}-{}-{}", self.instance, app.0, place.pm_id, worker.0);
        let identity = Identity {
            slot,
            pm_id: place.pm_id,
            worker: worker.0,
            marker: &marker,
            agent: agent.as_deref().filter(|_| entry.spec.agent),
        };
        self.logs.begin_process(place.pm_id);
        let launched = match launch(&entry.spec, &identity) {
            Ok(launched) => launched,
            Err(why) => {
                self.later.push_back((app, slot, Event::SpawnFailed(generation, why)));
                return;
            }
        };
        place.listen_fault = None;
        place.started_at_ms = Some(super::clock::wall_ms());
        let streams = [
            (LogStream::Out, launched.stdout, place.out_file.clone()),
            (LogStream::Err, launched.stderr, place.error_file.clone()),
        ];
        for (stream, pipe, path) in streams {
            let spec = StreamSpec {
                app: entry.spec.name.to_string(),
                pm_id: place.pm_id,
                stream,
                path: self.write_log_files.then_some(path),
                time: entry.spec.logs.time,
                echo: echo.clone(),
            };
            self.logs.attach(spec, pipe);
        }
        self.watch_process(&launched.child.pidfd, app, slot, generation);
        let attached = launched.channel.map(|channel| attach(&mut self.apps, app, worker, channel));
        if let Some(Err(error)) = attached {
            eprintln!("forkful: cannot watch the channel of worker {slot}: {error}");
        }
        let Some(entry) = self.apps.get_mut(&app) else { return };
        let waits_for_socket = !entry.spec.readiness.wait_ready;
        entry.primary.identify(worker, launched.child.pid, slot);
        let Some(place) = entry.places.get_mut(&slot) else { return };
        let process = Process { child: launched.child, worker, marker, spawned: now, ended: None };
        place.processes.insert(generation, process);
        if waits_for_socket {
            self.later(app, SOCKET_LOOK_FIRST, Later::LookForSocket { slot, generation, looks: 0 });
        }
    }

    fn watch_process(&mut self, pidfd: &std::os::fd::OwnedFd, app: AppId, slot: u16, generation: Generation) {
        use std::os::fd::AsFd;
        self.next_watch += 1;
        let watch = self.next_watch;
        self.watched.insert(watch, (app, slot, generation));
        let token = super::PROCESS_BIT | watch;
        if let Err(error) = self.reactor.add(pidfd.as_fd(), token, Interest::READ) {
            eprintln!("forkful: cannot watch a process: {error}");
        }
    }

    pub(crate) fn signal_tree(&mut self, app: AppId, slot: u16, generation: Generation, signal: i32) {
        // One look at all processes serves every signal of a turn: stopping hundreds of workers must not
        // keep the connections of others waiting.
        self.look_at_processes();
        if let Some(process) = self.apps.get(&app).and_then(|entry| entry.process(slot, generation))
            && process.ended.is_none()
        {
            tree::signal_tree_in(self.snapshot.as_ref(), &process.child, &process.marker, signal);
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
            PrimaryEvent::Listening(worker) => {
                if let Some((slot, generation)) = locate(self, worker) {
                    self.feed(app, slot, Event::Ready(generation, ReadySign::Listening));
                }
            }
            PrimaryEvent::Ready(worker) => {
                if let Some((slot, generation)) = locate(self, worker) {
                    self.feed(app, slot, Event::Ready(generation, ReadySign::Message));
                }
            }
            PrimaryEvent::ListenFailed { worker, address, errno, port } => {
                if let Some((slot, _)) = locate(self, worker) {
                    let ours = port.and_then(|port| self.app_on_port(port));
                    let fault = super::faults::listen_fault(&address, errno, port, ours.as_deref());
                    self.note_listen_fault(app, slot, fault);
                }
            }
            PrimaryEvent::Disconnected(worker) => {
                if let Some((slot, generation)) = locate(self, worker) {
                    self.on_disconnected(app, slot, generation);
                }
            }
        }
    }

    /// The name of an app of ours that listens on a port.
    fn app_on_port(&self, port: u16) -> Option<String> {
        let holds = |entry: &super::app::App| {
            entry.primary.addresses().any(|(address, _, _)| {
                address.rsplit_once(':').is_some_and(|(_, number)| number.parse() == Ok(port))
            })
        };
        self.apps.values().find(|entry| holds(entry)).map(|entry| entry.spec.name.to_string())
    }

    fn note_listen_fault(&mut self, app: AppId, slot: u16, fault: ListenFault) {
        if let Some(place) = self.apps.get_mut(&app).and_then(|entry| entry.places.get_mut(&slot)) {
            place.listen_fault = Some(fault);
        }
    }

    /// The channel is closed. Usually the process is about to exit; what still runs after a while
    /// is a worker that cannot serve any more.
    fn on_disconnected(&mut self, app: AppId, slot: u16, generation: Generation) {
        let Some(entry) = self.apps.get_mut(&app) else { return };
        if entry.spec.mode == Mode::Fork && entry.spec.launch.runtime == Runtime::Node {
            // `process.disconnect()` in an app of its own means nothing more than that.
            return;
        }
        let drain_timeout = entry.spec.stop.drain_timeout;
        let Some(place) = entry.places.get(&slot) else { return };
        if !place.shrinking.is_empty() {
            self.later(app, Duration::ZERO, Later::Shrink(slot));
        } else if place.slot.leaving.iter().any(|leaver| leaver.generation == generation) {
            self.later(app, AFTER_DISCONNECT, Later::Disconnected(slot, generation));
        } else if place.serves_by(generation) {
            self.later(app, drain_timeout, Later::EndLeft(slot, generation, EndStep::Signal));
        }
    }

    /// Looks whether a starting worker listens on a socket of its own (`exclusive`, fork mode).
    pub(crate) fn look_for_socket(&mut self, app: AppId, slot: u16, generation: Generation, looks: u32) {
        let Some(entry) = self.apps.get(&app) else { return };
        let Some(place) = entry.places.get(&slot) else { return };
        let Some(process) = place.processes.get(&generation) else { return };
        if process.ended.is_some() || !super::view::awaits_readiness(&place.slot, generation) {
            return;
        }
        if entry.primary.has_asked(process.worker) {
            // It shares its port; the primary says when it listens.
            return;
        }
        let inspector = inspect_port(&entry.spec.launch, process.worker.0);
        let is_apps = |socket: &ListeningSocket| match (socket, inspector) {
            (ListeningSocket::Tcp(_), Some(0)) => false,
            (ListeningSocket::Tcp(address), Some(port)) => address.port() != port,
            (ListeningSocket::Tcp(_), None) | (ListeningSocket::Unix(_), _) => true,
        };
        let sockets = procinfo::listening_sockets_of(process.child.pid).unwrap_or_default();
        if sockets.iter().any(is_apps) {
            self.feed(app, slot, Event::Ready(generation, ReadySign::Listening));
        } else {
            let pause = SOCKET_LOOK_FIRST.mul_f64(1.5_f64.powi(looks.min(8) as i32)).min(SOCKET_LOOK_MAX);
            self.later(app, pause, Later::LookForSocket { slot, generation, looks: looks + 1 });
        }
    }

    /// Notes what happened for lists; a supervisor that talks does so on stderr.
    fn report(&mut self, app: AppId, slot: u16, report: &Report) {
        if let Report::Exited { exit, .. } = report {
            self.last_exit = Some(exit.clone());
            if let Some(place) = self.apps.get_mut(&app).and_then(|entry| entry.places.get_mut(&slot)) {
                place.last_exit = Some(exit.clone());
            }
        }
        if let Report::Left { .. } = report {
            self.on_old_left(app, slot);
        }
        if let Some(text) = super::faults::report_text(report) {
            let name = self.apps.get(&app).map_or_else(String::new, |entry| entry.spec.name.to_string());
            eprintln!("forkful: {name} worker {slot}: {text}");
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

fn attach(
    apps: &mut std::collections::BTreeMap<AppId, super::app::App>,
    app: AppId,
    worker: WorkerId,
    (channel, remote): (std::os::fd::OwnedFd, Option<forkful_os::channel::RemoteEnd>),
) -> std::io::Result<()> {
    match apps.get_mut(&app) {
        Some(entry) => entry.primary.attach(worker, channel, remote),
        None => Ok(()),
    }
}
