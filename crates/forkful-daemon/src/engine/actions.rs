//! Feeds events to the supervisors of apps, and performs what they decide.

use forkful_cluster::protocol::incoming::MetricsAnswer;
use forkful_cluster::{PrimaryEvent, WorkerId};
use forkful_core::Time;
use forkful_core::incidents::{is_bad_health, noticed};
use forkful_core::metrics::Inventory;
use forkful_core::primary_habits::Lack;
use forkful_core::slot::{self, Generation, Report};
use forkful_core::spec::Mode;
use forkful_core::supervisor::{Answer, Asked, Context, Effect, Event, others_of};

use super::app::{App, AppId, ProcessKey};
use super::faults::{Ours, listen_fault, report_text};
use super::jobs::JobId;
use super::readiness::SOCKETS_LOOKS;
use super::{Engine, Phase};
use crate::code_cache::CodeCache;

impl Engine {
    /// Feeds an event to a slot.
    pub(super) fn feed(&mut self, app: AppId, slot: u16, event: slot::Event) {
        self.supervise(app, Event::Slot(slot, event));
    }

    /// Has an event fed to an app's supervisor after what is being done now.
    pub(super) fn tell(&mut self, app: AppId, event: Event) {
        self.inbox.events.push_back((app, event));
    }

    fn tell_some(&mut self, app: AppId, event: Option<Event>) {
        self.inbox.events.extend(event.map(|event| (app, event)));
    }

    /// Feeds an event to an app's supervisor, if there is one.
    pub(super) fn supervise_some(&mut self, app: AppId, event: Option<Event>) {
        if let Some(event) = event {
            self.supervise(app, event);
        }
    }

    /// Feeds an event to an app's supervisor and performs what follows.
    pub(super) fn supervise(&mut self, app: AppId, event: Event) {
        let now = self.clock.now();
        let others = others_of(&self.apps, app);
        let Some(entry) = self.apps.get_mut(app) else { return };
        let bad_health = is_bad_health(&event);
        let has_left = |job: &JobId| self.jobs.has_client_left(*job);
        let abandoned: Vec<JobId> = entry.supervisor.waiting_reloads().filter(has_left).collect();
        let context = Context { now, wall: &self.clock, others: &others, abandoned: &abandoned };
        let mut effects = std::mem::take(&mut self.inbox.effects);
        let only_looks = entry.supervisor.only_looks(&event, now);
        entry.supervisor.step(event, &context, &mut effects);
        entry.note_removed(&effects);
        entry.follow_limits();
        let holds = entry.supervisor.waits_for_others();
        self.apps.note_holds(holds);
        if !only_looks || !effects.iter().all(Effect::is_look) {
            self.apps.note_unwritten(app);
        }
        for effect in effects.drain(..) {
            if let Some(noticed) = noticed(&effect, bad_health)
                && let Some(entry) = self.apps.get_mut(app)
            {
                self.conversations.note(noticed, entry, &self.logs);
            }
            self.perform(app, effect, now);
        }
        self.inbox.effects = effects;
    }

    fn perform(&mut self, app: AppId, effect: Effect, now: Time) {
        match effect {
            Effect::Spawn(slot, generation) => self.starts.work.start(app, slot, generation),
            Effect::Signal(slot, generation) => {
                self.apps.note_silence(app, slot, generation);
                self.ask_to_leave(app, slot, generation, now);
            }
            Effect::Kill(slot, generation) => {
                self.apps.note_silence(app, slot, generation);
                self.order_signal(app, slot, generation, 9);
            }
            Effect::OpenTraffic(slot, generation) => {
                self.with_workers(app, slot, generation, |primary, worker| primary.open(worker, now));
                if let Some(entry) = self.apps.get_mut(app) {
                    entry.adopt_sockets(slot, generation, SOCKETS_LOOKS, now);
                }
            }
            Effect::CloseTraffic(slot, generation) => {
                self.with_workers(app, slot, generation, |primary, worker| {
                    primary.close_traffic(worker, now);
                });
            }
            Effect::Drain { slot, generation, job } => self.drain(app, slot, generation, job, now),
            Effect::Defined => self.follow_definition(app, now),
            Effect::SlotAdded(slot) => self.apps.add_place(app, slot, &self.options.home, now),
            Effect::SlotRemoved(slot, last) => self.apps.remove_place(app, (slot, &last), &self.logs, now),
            Effect::Removed => self.remove_app(app, now),
            Effect::Changed => self.note_change(),
            Effect::Report(slot, report) => self.report(app, slot, &report, now),
            Effect::LookAtSockets(slot, generation) => self.look_at_sockets(app, slot, generation, now),
            Effect::WarmUp { slot, generation, path } => self.warm_up((app, slot, generation), &path, now),
            Effect::Observe => self.observe(app, now),
            Effect::AskHealth(slot, generation) => self.ask_worker((app, slot, generation), now),
            Effect::LookWhetherStuck(slot, generation) => {
                let entry = self.apps.get(&app);
                let event = entry.and_then(|entry| entry.look_whether_stuck(slot, generation, now));
                self.tell_some(app, event);
            }
            Effect::Notice(slot, notice) => {
                let name = self.apps.name_of(app);
                match slot {
                    Some(slot) => log_line!("forkful: {name} worker {slot}: {notice}"),
                    None => log_line!("forkful: {name}: {notice}"),
                }
            }
            Effect::Answered(answer) => self.on_answer(app, answer, now),
            Effect::Owed(job) => self.jobs.expect_answer(job, app, &self.apps),
            Effect::Settled(job) => self.jobs.answered(job),
            Effect::Note(job, note) => {
                let told = self.apps.get(&app).map(|entry| note.told(entry.spec()));
                self.jobs.note(job, app, told);
            }
            Effect::FinishedBefore(job, slot) => {
                self.jobs.note_finished_before(job, app, self.apps.pm_id(app, slot));
            }
            Effect::Failed(job, slot, fault) => {
                let pm_id = slot.and_then(|slot| self.apps.pm_id(app, slot));
                self.jobs.note_failed(job, app, pm_id, fault);
            }
            Effect::Reloaded(job, result) => {
                if let Some(entry) = self.apps.get_mut(app) {
                    entry.note_reload(&result);
                }
                if let Some(job) = job {
                    self.jobs.note_reloaded(job, app, result, &self.apps);
                }
            }
        }
    }

    /// The last slot of an app is gone. Its compiled code goes, unless it is only stopped with the daemon.
    fn remove_app(&mut self, app: AppId, now: Time) {
        if let Some(entry) = self.apps.get(&app).filter(|_| self.life.phase == Phase::Serving) {
            self.conversations.alerts.forget(&entry.spec().name.to_string());
            self.starts.remove_cache(CodeCache::of(&entry.spec().name, &self.options.home));
        }
        if let Some(entry) = self.apps.get_mut(app) {
            self.life.last_exports.begin(entry, &self.logs, now);
        }
        self.apps.remove(app);
    }

    /// Looks at what a process listens on.
    fn look_at_sockets(&mut self, app: AppId, slot: u16, generation: Generation, now: Time) {
        let processes = &mut self.processes;
        let entry = self.apps.get(&app);
        let event = entry.and_then(|entry| entry.look_at_sockets(slot, generation, processes, now));
        self.tell_some(app, event);
    }

    /// Sends a worker a request before it has traffic.
    fn warm_up(&mut self, key: ProcessKey, path: &str, now: Time) {
        let (app, slot, generation) = key;
        let back = &self.inbox.back;
        let outcome = self.apps.get_mut(app).and_then(|entry| entry.warm_up(key, path, back, now));
        self.tell_some(app, outcome.map(|outcome| Event::Warmed { slot, generation, outcome }));
    }

    /// Looks at the memory of an app's workers, and whether they stand still because it is used up.
    fn observe(&mut self, app: AppId, now: Time) {
        self.apps.plan_memory(app, now);
        let event = self.apps.get(&app).map(|entry| self.processes.observe(entry, now));
        let stalls = self.apps.get_mut(app).and_then(|entry| entry.stalled_workers(now));
        self.inbox.events.extend(event.into_iter().chain(stalls).map(|event| (app, event)));
    }

    /// Asks a worker whether it is well.
    fn ask_worker(&mut self, key: ProcessKey, now: Time) {
        let (starts, back) = (&mut self.starts, &self.inbox.back);
        let entry = self.apps.get_mut(key.0);
        let events = entry.map(|entry| entry.ask_worker(key, starts, back, now)).unwrap_or_default();
        self.inbox.events.extend(events.into_iter().map(|event| (key.0, event)));
    }

    /// An app has another definition: its listeners, its log files and what looks after its workers follow.
    fn follow_definition(&mut self, app: AppId, now: Time) {
        let Some(entry) = self.apps.get_mut(app) else { return };
        let home = &self.options.home;
        entry.follow_definition(&home.logs(), now);
        entry.begin_upkeep(app, home.path(), now, &self.inbox.back);
    }

    /// Asks a process to end, in the way that its app wants: by a signal to its tree or to it alone, or by a message.
    fn ask_to_leave(&mut self, app: AppId, slot: u16, generation: Generation, now: Time) {
        let Some(entry) = self.apps.get_mut(app) else { return };
        if let Some(signal) =
            entry.ask_to_leave(slot, generation, self.life.stop.map(|stop| stop.signal), now)
        {
            self.order_signal(app, slot, generation, signal);
        }
    }

    /// Has a process and its tree signalled.
    fn order_signal(&mut self, app: AppId, slot: u16, generation: Generation, signal: i32) {
        if let Some(event) = self.starts.signal((app, slot, generation), signal) {
            self.tell(app, Event::Slot(slot, event));
        }
    }

    fn with_workers(
        &mut self,
        app: AppId,
        slot: u16,
        generation: Generation,
        act: impl Fn(&mut forkful_cluster::Primary, WorkerId),
    ) {
        let Some(entry) = self.apps.get_mut(app) else { return };
        for worker in entry.workers_of(slot, generation) {
            act(&mut entry.primary, worker);
        }
    }

    fn drain(&mut self, app: AppId, slot: u16, generation: Generation, job: Option<JobId>, now: Time) {
        let Some(entry) = self.apps.get_mut(app) else { return };
        let (left, none_reports) = entry.drain(slot, generation, now);
        if none_reports {
            self.tell(app, drained((slot, generation)));
        }
        if let Some(job) = job {
            let told = |address| format!("{address} is closed: the new version does not listen there");
            self.jobs.note(job, app, left.into_iter().map(told));
        }
    }

    /// What a primary has noticed.
    pub(super) fn take_primary_events(&mut self, app: AppId) {
        while let Some(event) = self.apps.get_mut(app).and_then(|entry| entry.primary.take_event()) {
            self.on_primary_event(app, event);
        }
    }

    fn on_primary_event(&mut self, app: AppId, event: PrimaryEvent) {
        let now = self.clock.now();
        let Some(entry) = self.apps.get_mut(app) else { return };
        let event = match event {
            PrimaryEvent::Online(_) => None,
            PrimaryEvent::Message { worker, line } => {
                return self.conversations.on_message(app, worker, &line, &mut self.apps, now);
            }
            PrimaryEvent::Greeted { worker, node } => {
                if let Some(process) = entry.process_of(worker) {
                    process.node_version = node;
                }
                let found = entry.find_worker(worker).filter(|_| entry.is_leader(worker));
                found.map(|(slot, generation)| Event::Slot(slot, slot::Event::Greeted(generation)))
            }
            PrimaryEvent::LacksWorkers(worker) => return entry.note_lack(worker, Lack::ClusterMetrics),
            PrimaryEvent::Unmerged(worker) => return entry.note_lack(worker, Lack::Unmerged),
            PrimaryEvent::Metrics { worker, answer, inventory } => {
                return self.on_metrics(app, worker, answer, inventory);
            }
            PrimaryEvent::WantsMerged { worker, question } => {
                entry.metrics.askers.note(worker.0, question, now);
                return self.looks.begin_merge(app);
            }
            PrimaryEvent::Report { worker, report } => entry.on_agent_report(worker, report, now),
            PrimaryEvent::Peers { worker, peers } => return entry.note_peers(worker, peers),
            PrimaryEvent::Stalled { worker, stalls } => {
                let noted = self.apps.note_stalls(app, worker, stalls);
                return self.conversations.publish_stalls(noted);
            }
            PrimaryEvent::Listening(worker) => {
                let found = entry.find_worker(worker);
                let event = found.map(|(slot, generation)| {
                    let lacks_address = entry.lacks_address(slot, generation);
                    Event::Listening { slot, generation, lacks_address }
                });
                if let Some(persistence) = &mut self.persistence {
                    persistence.note_sockets(entry.primary.socket_files());
                }
                event
            }
            PrimaryEvent::Ready(worker) => {
                entry.find_worker(worker).map(|(slot, generation)| Event::SaidReady(slot, generation))
            }
            PrimaryEvent::ListenFailed { worker, address, errno, port } => {
                let found = entry.find_worker(worker);
                found.filter(|(slot, _)| entry.may_look_for_owner(*slot, now)).map(|(slot, _)| {
                    let name = self.apps.name_of(app);
                    let fault = listen_fault(&name, &address, errno, port, &Ours::of(&self.apps));
                    Event::ListenRefused(slot, fault)
                })
            }
            PrimaryEvent::Drained { worker, stops } => entry.on_drained(worker, stops),
            PrimaryEvent::Disconnected(worker) if entry.spec().mode == Mode::Fork => {
                let event = entry.workers.has_drained(worker).map(drained);
                entry.metrics.own.gone(worker.0);
                if !entry.is_leader(worker) {
                    entry.metrics.own.ended(worker.0);
                    entry.workers.remove(worker);
                }
                event
            }
            PrimaryEvent::Disconnected(worker) => {
                entry.metrics.own.gone(worker.0);
                let found = entry.find_worker(worker);
                found.map(|(slot, generation)| Event::Slot(slot, slot::Event::Disconnected(generation)))
            }
        };
        self.supervise_some(app, event);
    }

    /// A worker's answer about its metrics is read away from the loop.
    fn on_metrics(
        &mut self,
        app: AppId,
        worker: WorkerId,
        answer: MetricsAnswer,
        inventory: Option<Box<Inventory>>,
    ) {
        let Some(entry) = self.apps.get_mut(app) else { return };
        entry.note_inventory(worker, inventory);
        if let Some(unread) = entry.on_metrics(worker, answer) {
            self.looks.reading.read(app, unread, &self.inbox.back);
        }
    }

    /// Notes what happened for lists; a supervisor that talks does so on stderr.
    fn report(&mut self, app: AppId, slot: u16, report: &Report, now: Time) {
        if let Report::Exited { exit, .. } = report {
            self.life.last_exit = Some(exit.clone());
        }
        if let Report::Killed(_) = report {
            self.jobs.note_killed(app, slot, &self.apps);
        }
        if let Some(entry) = self.apps.get_mut(app) {
            if let Report::Online { generation, .. } = report {
                self.processes.write_pid_file(entry, slot, *generation);
                entry.kill_as_usual(slot, *generation);
            }
            self.conversations.note_failed_start((slot, report), entry, now, &self.logs);
            self.conversations.publish_report((slot, report), entry, now, &self.logs);
        }
        if let Some(text) = report_text(report) {
            let name = self.apps.name_of(app);
            log_line!("forkful: {name} worker {slot}: {text}");
        }
    }

    /// A slot has answered a command.
    fn on_answer(&mut self, app: AppId, answer: Answer, now: Time) {
        if let Some(entry) = self.apps.get_mut(app) {
            self.conversations.publish_answer(&answer, entry, now, &self.logs);
        }
        if let Asked::Job(job, _) = answer.asked {
            self.jobs.note_outcome(job, app, answer, &self.apps);
        }
    }
}

impl App {
    /// A worker has nothing left to finish. In cluster mode, one whose app does not handle its stop is disconnected, and ends by
    /// itself.
    fn on_drained(&mut self, worker: WorkerId, stops: bool) -> Option<Event> {
        let process = match self.spec().mode {
            Mode::Fork => self.workers.has_drained(worker),
            Mode::Cluster => self.find_worker(worker).filter(|_| stops),
        };
        process.map(drained)
    }
}

/// A process has nothing left to finish.
fn drained((slot, generation): (u16, Generation)) -> Event {
    Event::Slot(slot, slot::Event::Drained(generation))
}
