//! Apps whose number of workers follows the load, in the simulated world: how busy their workers are, what the
//! daemon measures of that, and checks of what follows.

use std::time::Duration;

use forkful_core::autoscale::{Cpu, MemoryOf, MemoryRoom, Signals, WorkerSignals};
use forkful_core::slot::{Generation, State};
use forkful_core::spec::AppSpec;
use forkful_core::supervisor::{AppId, AppSupervisor, Event, SlotRecord};

use crate::daemon::App;
use crate::dice::Dice;
use crate::machine::Phase;
use crate::plant::Plant;
use crate::queue::Happening;
use crate::watch::Invariant;
use crate::world::World;

/// Pause between two measurements. The real daemon measures each second, and decides by spans of 5 s and more.
const EVERY: Duration = Duration::from_secs(5);
/// The load of an app changes after this time.
const LOAD_SPAN: Duration = Duration::from_secs(45);
/// Maximum load of an app, in thousandths of a worker that is busy all the time.
const LOAD_MAX: u64 = 6_000;

impl World {
    /// An app is new, or has a new definition, or another daemon: its load is measured if its number of workers
    /// follows the load.
    pub(crate) fn follow_load(&mut self, app: AppId) {
        let entry = self.daemon.apps.get(&app);
        let follows = entry.is_some_and(|entry| entry.supervisor.spec().autoscale.is_some());
        if follows && !std::mem::replace(&mut self.measures, true) {
            self.after(EVERY, Happening::Measure);
        }
    }

    /// Measures all apps whose number of workers follows the load.
    pub(crate) fn measure(&mut self) {
        let of = |(id, entry): (&AppId, &App)| entry.supervisor.spec().autoscale.map(|_| *id);
        let apps: Vec<AppId> = self.daemon.apps.iter().filter_map(of).collect();
        self.measures = !apps.is_empty();
        if self.measures {
            self.after(EVERY, Happening::Measure);
        }
        if self.plant == Some(Plant::LoadForgotten) && self.calm {
            return;
        }
        for app in apps {
            self.tell_load(app);
        }
    }

    /// No daemon is there to measure.
    pub(crate) fn measure_later(&mut self) {
        self.after(EVERY, Happening::Measure);
    }

    fn tell_load(&mut self, app: AppId) {
        let Some(entry) = self.daemon.apps.get(&app) else { return };
        let signals = self.signals(app, &entry.supervisor);
        let before = entry.supervisor.spec().instances;
        let is_steady = self.is_steady(app);
        self.watch.is_of_load = true;
        self.supervise(app, Event::Load(signals));
        self.watch.is_of_load = false;
        if !self.kept.is_dead {
            self.check_scaled(app, before, is_steady);
        }
    }

    /// What the daemon measures: sometimes not of each worker, and sometimes with limits.
    fn signals(&self, app: AppId, supervisor: &AppSupervisor) -> Signals {
        let since = self.now.since_start();
        let mut dice = Dice::of(&[self.seed(), 9, app.0.into(), since.as_millis() as u64]);
        let online = online(supervisor);
        let load = self.load_of(app);
        let each = (load / online.len().max(1) as u64).min(1_000) as u32;
        let has_agent = supervisor.spec().agent;
        let queued = u32::from(each == 1_000) * dice.below(3) as u32;
        let worker = |(slot, generation)| WorkerSignals {
            slot,
            generation,
            loop_permille: has_agent.then_some(each),
            cpu_millicores: each,
            wait_permille: 0,
            throttled_permille: 0,
            queued,
            memory_bytes: 1,
        };
        let mut signals = Signals { workers: online.into_iter().map(worker).collect(), ..Signals::default() };
        if self.calm {
            return signals;
        }
        if dice.percent(5) {
            signals.workers.pop();
        }
        if dice.percent(10) {
            let (used_millicores, of_millicores) = (dice.below(4_000) as u32, 4_000);
            signals.cpu.push(Cpu { used_millicores, of_millicores });
        }
        if dice.percent(10) {
            signals.memory = Some(MemoryRoom { bytes: dice.below(4), of: MemoryOf::Machine });
        }
        signals
    }

    /// The work of an app at this moment. There is none after faults are over.
    fn load_of(&self, app: AppId) -> u64 {
        let span = self.now.since_start().as_secs() / LOAD_SPAN.as_secs();
        let mut dice = Dice::of(&[self.seed(), 10, app.0.into(), span]);
        if self.calm || dice.percent(40) { 0 } else { dice.below(LOAD_MAX) }
    }

    /// Whether each slot of an app has one process, which serves, and nothing else is in progress.
    fn is_steady(&self, app: AppId) -> bool {
        let Some(entry) = self.daemon.apps.get(&app) else { return false };
        let supervisor = &entry.supervisor;
        let processes = self.processes_of(app);
        let lives = processes.filter(|(.., process)| matches!(process.phase, Phase::Alive | Phase::Dead));
        let slots: Vec<u16> = lives.map(|(slot, ..)| slot).collect();
        !supervisor.is_reloading() && slots.iter().eq(supervisor.slots().keys())
    }

    /// The number of workers after a measurement.
    fn check_scaled(&mut self, app: AppId, before: u16, is_steady: bool) {
        let Some(entry) = self.daemon.apps.get(&app) else { return };
        let supervisor = &entry.supervisor;
        let spec = supervisor.spec();
        let (Some(bounds), after) = (spec.autoscale, spec.instances) else { return };
        if after == before {
            return;
        }
        let ready = supervisor.slots().iter().filter(|(slot, record)| {
            supervisor.stays(**slot) && matches!(record.slot.state, State::Online(_))
        });
        let ready = ready.count() as u16;
        let seen = format!("{} has {after} workers instead of {before}, {ready} are ready", spec.name);
        if !bounds.allow(after) || (after < before && ready < bounds.min) {
            self.watch.fail(Invariant::ScalesWithin, format!("{seen}, bounds {bounds}"));
        } else if !is_steady {
            self.watch.fail(Invariant::ScalesAtRest, seen);
        }
    }

    /// At the end, apps without load have as few workers as they may have.
    pub(crate) fn check_load(&mut self) {
        let too_many = self.daemon.apps.values().find_map(|entry| {
            let (supervisor, spec) = (&entry.supervisor, entry.supervisor.spec());
            let bounds = spec.autoscale.filter(|_| !is_renewed(spec))?;
            let all_serve = online(supervisor).len() == supervisor.slots().len();
            (all_serve && spec.instances > bounds.min)
                .then(|| format!("{} has no load and {} workers, bounds {bounds}", spec.name, spec.instances))
        });
        if let Some(seen) = too_many {
            self.watch.fail(Invariant::FollowsLoad, seen);
        }
    }
}

/// The workers that serve and are not being replaced.
fn online(supervisor: &AppSupervisor) -> Vec<(u16, Generation)> {
    let of = |slot: u16, record: &SlotRecord| match &record.slot.state {
        State::Online(running) => Some((slot, running.generation)),
        _ => None,
    };
    supervisor.slots().iter().filter_map(|(slot, record)| of(*slot, record)).collect()
}

/// Whether workers are replaced again and again: then nothing is known of how busy they are.
fn is_renewed(spec: &AppSpec) -> bool {
    let renewal = &spec.renewal;
    let has_limits =
        renewal.max_memory_bytes.is_some() || renewal.max_requests.is_some() || renewal.max_age.is_some();
    has_limits || renewal.cron.is_some() || spec.health.is_some()
}
