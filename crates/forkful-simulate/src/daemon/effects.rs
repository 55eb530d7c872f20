//! Performs the effects of supervisors.

use std::collections::BTreeSet;

use forkful_core::slot::{self, Exit, Generation, Outcome, State, StopReason};
use forkful_core::spec::Mode;
use forkful_core::supervisor::{
    Answer, AppId, AppSupervisor, Asked, Context, Effect, Event, JobId, Readiness, others_of,
};

use forkful_dispatch::Event as Input;

use super::App;
use crate::machine::{Phase, Pid, Process, Signal};
use crate::plant::Plant;
use crate::queue::Happening;
use crate::watch::Invariant;
use crate::world::World;

impl World {
    /// Feeds an event to an app's supervisor and performs the effects.
    pub(crate) fn supervise(&mut self, app: AppId, event: Event) {
        if !self.lives() {
            return;
        }
        let mut others = others_of(&self.daemon.apps, app);
        if self.plant == Some(Plant::NeedsIgnored) {
            for other in &mut others {
                other.readiness = Readiness::Ready;
                other.is_ending = false;
            }
        }
        self.note_asked(app, &event);
        let is_time = event == Event::Time;
        self.daemon.has_moved |= event != Event::OthersMoved;
        let wall = self.wall();
        let Some(entry) = self.daemon.apps.get_mut(&app) else { return };
        let (jobs, clients) = (&self.daemon.jobs, &self.clients);
        let has_left = |id: &JobId| jobs.has_client_left(*id, |job| clients.has_left(job));
        let abandoned: Vec<JobId> = entry.supervisor.waiting_reloads().filter(has_left).collect();
        let context = Context { now: self.now, wall: &wall, others: &others, abandoned: &abandoned };
        self.watch.clusters = entry.supervisor.spec().mode == Mode::Cluster;
        self.watch.kill_timeout = entry.supervisor.policy().stop.kill_timeout;
        let was_rolling = entry.supervisor.is_rolling();
        let was_held = entry.supervisor.waits_for_others();
        let hour = entry.supervisor.next_strike_ms();
        let mut effects = std::mem::take(&mut self.daemon.effects);
        if let Some(trace) = &mut self.trace {
            trace.push(format!("    {}: {event:?}", entry.supervisor.spec().name));
        }
        let looks = entry.supervisor.only_looks(&event, self.now);
        let before = (looks && self.kept.is_dying()).then(|| entry.supervisor.clone());
        entry.supervisor.step(event, &context, &mut effects);
        self.daemon.holds_some |= entry.supervisor.waits_for_others();
        let is_rolling = entry.supervisor.is_rolling();
        let goes_on = was_held && !entry.supervisor.waits_for_others();
        let has_struck = is_time && hour.is_some() && hour < entry.supervisor.next_strike_ms();
        self.watch.touched.insert(app);
        if has_struck {
            self.note_strike(app);
        }
        if goes_on || !is_rolling {
            self.watch.excuse_all(app);
        }
        let is_look = effects.iter().all(Effect::is_look);
        self.write_down(app, before.filter(|_| is_look), &effects);
        for effect in effects.drain(..) {
            if !self.lives() {
                break;
            }
            self.trace(|| format!("      → {effect:?}"));
            self.perform(app, effect);
        }
        if !self.kept.is_dead {
            self.note_performed(app);
        }
        if has_struck {
            self.check_strike(app);
        }
        self.daemon.effects = effects;
        self.excuse_leaving(app);
        // During a rolling reload each serving slot must keep serving.
        if is_rolling && !was_rolling {
            let serving = self.serving_slots(app);
            self.watch.guard(app, serving);
        }
    }

    /// The processes of an app whose end its supervisor was not informed of.
    pub(crate) fn processes_of(&self, app: AppId) -> impl Iterator<Item = (u16, Generation, &Process)> + '_ {
        let own = self.daemon.pids_of(app);
        own.filter_map(|(whose, pid)| Some((whose.1, whose.2, self.machine.processes.get(*pid)?)))
    }

    /// The slots of an app in which a worker serves.
    pub(crate) fn serving_slots(&self, app: AppId) -> BTreeSet<u16> {
        let serving = self.processes_of(app).filter(|(_, _, process)| process.serves());
        serving.map(|(slot, _, _)| slot).collect()
    }

    pub(super) fn perform(&mut self, app: AppId, effect: Effect) {
        self.notable += usize::from(effect != Effect::Observe);
        match effect {
            Effect::Spawn(slot, generation) => {
                self.spawn(app, slot, generation);
                self.plant_at_spawn(app, slot, generation);
            }
            Effect::Signal(slot, generation) => {
                self.check_stop_order(app, slot);
                self.note_stop_signal(app, slot, generation);
                self.order_signal(app, slot, generation, Signal::Stop);
            }
            Effect::Kill(slot, generation) => {
                self.check_kill(app, slot, generation);
                if !self.plants(Plant::LostKill) {
                    self.order_signal(app, slot, generation, Signal::Kill);
                }
            }
            Effect::OpenTraffic(slot, generation) => self.set_traffic(app, slot, generation, true),
            Effect::CloseTraffic(slot, generation) => {
                if !self.plants(Plant::TrafficStaysOpen) {
                    self.set_traffic(app, slot, generation, false);
                }
            }
            Effect::Drain { slot, generation, .. } => self.order_drain(app, slot, generation),
            Effect::SlotAdded(slot) => {
                if let Some(entry) = self.daemon.apps.get_mut(&app) {
                    entry.places.insert(slot);
                }
                self.count_slots(app);
            }
            Effect::SlotRemoved(slot, _) => {
                if let Some(entry) = self.daemon.apps.get_mut(&app) {
                    entry.places.remove(&slot);
                }
                self.count_slots(app);
                self.watch.forget_slot(app, slot);
            }
            Effect::Removed => self.remove_app(app),
            Effect::Answered(answer) => {
                if !self.plants(Plant::LostAnswer) {
                    self.on_answer(app, answer);
                }
            }
            Effect::Owed(job) => self.owe(job, app),
            Effect::Settled(job) => {
                self.settled(job);
                if self.plants(Plant::AnsweredTwice) {
                    self.settled(job);
                }
            }
            Effect::Changed => {
                let is_lost = self.watch.is_of_load && self.plant == Some(Plant::ScalingUnsaved);
                if !is_lost && !self.plants(Plant::LostChange) {
                    self.daemon.saving.note_change();
                }
            }
            Effect::LookAtSockets(slot, generation) => self.look_at_sockets(app, slot, generation),
            Effect::Observe => self.observe(app),
            Effect::LookWhetherStuck(slot, generation) => self.look_whether_stuck(app, slot, generation),
            Effect::AskHealth(slot, generation) => self.ask_health(app, slot, generation),
            Effect::WarmUp { slot, generation, .. } => self.warm_up(app, slot, generation),
            Effect::Defined => self.follow_definition(app),
            Effect::Report(slot, report) => self.check_report(app, slot, &report),
            Effect::Notice(slot, notice) => self.note_notice(app, slot, &notice),
            Effect::Note(..) | Effect::FinishedBefore(..) => {}
            Effect::Failed(job, ..) => self.fail_job(job),
            Effect::Reloaded(job, result) => self.note_reloaded(job, &result),
        }
    }

    /// The kernel distributes sticky clients over all slots.
    fn count_slots(&mut self, app: AppId) {
        let slots = self.daemon.apps.get(&app).map_or(0, App::slot_count);
        if self.plant != Some(Plant::SlotsUntold) {
            self.dispatch(app, Input::Slots(slots));
        }
    }

    fn spawn(&mut self, app: AppId, slot: u16, generation: Generation) {
        let Some(entry) = self.daemon.apps.get(&app) else { return };
        let is_there = entry.places.contains(&slot);
        if !is_there || !self.watch.is_new(app, slot, generation) {
            let name = &entry.supervisor.spec().name;
            let why = if is_there { "is started again" } else { "is started where no slot is" };
            self.watch.fail(Invariant::StartedOnce, format!("{name} {slot}: generation {generation} {why}"));
        }
        self.check_needed(app);
        let plan = self.plan_of(app, slot, generation);
        let queued = plan.queued;
        let whose = (app, slot, generation);
        let pid = self.machine.order(whose, plan);
        self.daemon.pids.insert(whose, pid);
        self.after(queued, Happening::Begin(pid));
    }

    /// A new app with dependencies is started when they are ready.
    fn check_needed(&mut self, app: AppId) {
        if !self.watch.waits_for_needed.remove(&app) {
            return;
        }
        let Some(entry) = self.daemon.apps.get(&app) else { return };
        let is_ready = |name| {
            let other = self.daemon.find(name).map(|id| &self.daemon.apps[&id].supervisor);
            other.map(AppSupervisor::readiness) == Some(Readiness::Ready)
        };
        let spec = entry.supervisor.spec();
        if let Some(missing) = spec.depends_on.iter().find(|name| !is_ready(name)) {
            let seen = format!("{} is started, and {missing} is not ready", spec.name);
            self.watch.fail(Invariant::DependenciesFirst, seen);
        }
    }

    /// An app that others depend on is stopped when they no longer run.
    fn check_stop_order(&mut self, app: AppId, slot: u16) {
        let Some(first) = self.watch.stops_after.get(&app) else { return };
        let Some(entry) = self.daemon.apps.get(&app) else { return };
        let state = entry.supervisor.slot(slot).map(|record| &record.slot.state);
        if !matches!(state, Some(State::Stopping { why: StopReason::Stop | StopReason::Delete, .. })) {
            return;
        }
        // An app that another command restarts is not waited for.
        let runs = |id: &&AppId| self.daemon.apps.get(id).is_some_and(|other| other.supervisor.is_ending());
        if let Some(other) = first.iter().find(runs) {
            let name = |id: &AppId| self.daemon.apps[id].supervisor.spec().name.clone();
            let seen = format!("{} is stopped, and {} that depends on it runs", name(&app), name(other));
            self.watch.fail(Invariant::DependenciesFirst, seen);
        }
    }

    fn plant_at_spawn(&mut self, app: AppId, slot: u16, generation: Generation) {
        if self.plants(Plant::DoubleSpawn) {
            self.spawn(app, slot, generation);
        }
        if self.plant == Some(Plant::OldLeavesFirst) {
            let is_other = |own: &(u16, Generation)| own.0 == slot && own.1 != generation;
            let all = self.processes_of(app).map(|(slot, generation, _)| (slot, generation));
            for (slot, other) in all.filter(is_other).collect::<Vec<_>>() {
                self.order_signal(app, slot, other, Signal::Stop);
            }
        }
    }

    fn order_signal(&mut self, app: AppId, slot: u16, generation: Generation, signal: Signal) {
        let whose = (app, slot, generation);
        let Some(pid) = self.daemon.pids.get(&whose).copied() else { return };
        let is_queued = self.machine.processes.get(pid).is_some_and(|process| process.phase == Phase::Queued);
        if is_queued {
            // A process whose start was not begun counts as ended at once.
            self.machine.processes.remove(pid);
            self.daemon.pids.remove(&whose);
            let exit = Exit::Signal(if signal == Signal::Kill { 9 } else { 2 });
            self.tell_later(app, slot, slot::Event::Exited(generation, exit));
            return;
        }
        if signal == Signal::Stop {
            self.dispatch_for(pid, Input::Stopping);
        }
        self.signal(pid, signal);
        if self.plants(Plant::ExitToldEarly) {
            self.tell_later(app, slot, slot::Event::Exited(generation, Exit::Code(0)));
        }
    }

    fn set_traffic(&mut self, app: AppId, slot: u16, generation: Generation, open: bool) {
        let Some(pid) = self.daemon.pids.get(&(app, slot, generation)).copied() else { return };
        if let Some(process) = self.machine.processes.get_mut(pid) {
            process.has_traffic = open;
            let event = if open { Input::Open } else { Input::CloseTraffic };
            self.dispatch_for(pid, event);
        }
    }

    /// An app has a new definition: its balance mode follows.
    fn follow_definition(&mut self, app: AppId) {
        if let Some(entry) = self.daemon.apps.get(&app) {
            let spec = entry.supervisor.spec();
            let balance = spec.balance;
            if let Some(primary) = self.net.primaries.get_mut(&app) {
                primary.follow(spec);
            }
            self.dispatch(app, Input::Balance(balance));
        }
        self.excuse_clock(app);
        self.follow_load(app);
    }

    fn order_drain(&mut self, app: AppId, slot: u16, generation: Generation) {
        if let Some(pid) = self.daemon.pids.get(&(app, slot, generation)).copied() {
            self.drain(pid);
        }
    }

    /// The last slot of an app is removed, and with it the app.
    fn remove_app(&mut self, app: AppId) {
        self.daemon.apps.remove(&app);
        self.forget_written(app);
        self.drop_primary(app);
        self.watch.excuse_all(app);
        self.watch.waits_for_needed.remove(&app);
        self.watch.stops_after.remove(&app);
        self.watch.renewed.remove(&app);
        self.net.groups.remove(&app);
    }

    fn on_answer(&mut self, app: AppId, answer: Answer) {
        let Asked::Job(job, _) = answer.asked else { return };
        self.check_stopped(app, job, &answer);
        if let Some(job) = self.daemon.jobs.get_mut(job) {
            job.faults += usize::from(matches!(answer.outcome, Outcome::Failed(_)));
            job.answered += 1;
        }
        self.settled(job);
    }

    /// When a stop is answered, the slot has no processes except those started since.
    fn check_stopped(&mut self, app: AppId, job: JobId, answer: &Answer) {
        let since = match answer.outcome {
            Outcome::Deleted => u64::MAX,
            Outcome::Stopped => self.daemon.jobs.get(job).map_or(0, |job| job.began_at),
            Outcome::Online { .. }
            | Outcome::AlreadyOnline
            | Outcome::Finished(_)
            | Outcome::Replaced
            | Outcome::Failed(_) => return,
        };
        let slot = (app, answer.slot);
        let left = self.machine.processes.values().find(|process| {
            let is_old = (process.whose.0, process.whose.1) == slot && process.ordered <= since;
            is_old && process.phase == Phase::Alive
        });
        if let Some(left) = left {
            let seen = format!("{:?} was answered, and {:?} runs", answer.outcome, left.whose);
            self.watch.fail(Invariant::StoppedLeavesNothing, seen);
        }
    }

    /// Removes a process whose end was reported.
    pub(super) fn forget_process(&mut self, pid: Pid) {
        let Some(process) = self.machine.processes.remove(pid) else { return };
        if process.has_traffic {
            let seen = format!("{:?} has ended, and connections still go to it", process.whose);
            self.watch.fail(Invariant::TrafficFollows, seen);
        }
    }
}

impl App {
    pub(crate) fn new(supervisor: AppSupervisor) -> Self {
        Self { supervisor, places: BTreeSet::new() }
    }
}
