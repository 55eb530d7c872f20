//! Renewing and killing workers in the simulated world: memory, number of requests, cron patterns, blocked
//! event loops.

use std::time::Duration;

use chrono::{DateTime, Utc};
use forkful_core::Time;
use forkful_core::slot::{Exit, Generation};
use forkful_core::spec::CronPattern;
use forkful_core::supervisor::{AppId, Event, Observation, SlotRecord};
use forkful_core::upkeep::cron::WallClock;
use forkful_dispatch::Event as Input;

use crate::definition::{name, period_of};
use crate::machine::Deed;
use crate::plant::Plant;
use crate::queue::Happening;
use crate::watch::Invariant;
use crate::world::World;

/// The wall clock, since 1970. Few events look at the calendar, so only these pay for it.
#[derive(Debug)]
pub(crate) struct Wall(Duration);

impl WallClock for Wall {
    fn now_ms(&self) -> i64 {
        self.0.as_millis() as i64
    }

    fn next_point(&self, pattern: &CronPattern) -> Option<i64> {
        (DateTime::<Utc>::UNIX_EPOCH + self.0).next_point(pattern)
    }
}

impl World {
    /// Reads the memory of an app's workers.
    pub(crate) fn observe(&mut self, app: AppId) {
        let calm = self.calm;
        let now = self.now;
        let seen = self.processes_of(app).map(|(slot, generation, process)| {
            let (base, per_second) = process.plan.memory;
            let grown = if calm { 0 } else { per_second * now.since(process.began).as_secs() };
            Observation { slot, generation, memory_bytes: base + grown, own: None }
        });
        let seen = seen.collect();
        self.daemon.told.push_back((app, Event::Observed(seen)));
    }

    /// Each health check also checks whether a worker owes a reply.
    pub(crate) fn ask_whether_it_turns(&mut self, app: AppId, slot: u16, generation: Generation) {
        let check = self.daemon.apps.get(&app).and_then(|entry| entry.supervisor.spec().health.clone());
        let pid = self.daemon.pids.get(&(app, slot, generation)).copied();
        if let Some(pid) = pid
            && check.is_some_and(|check| check.stuck_limit.is_some())
        {
            self.dispatch_for(pid, Input::Ask);
            if let Some(since) = self.owes_since(pid) {
                self.daemon.told.push_back((app, Event::Owes { slot, generation, since }));
            }
        }
    }

    /// The time limit of a worker that owes a reply has passed.
    pub(crate) fn look_whether_stuck(&mut self, app: AppId, slot: u16, generation: Generation) {
        let pid = self.daemon.pids.get(&(app, slot, generation)).copied();
        if let Some(pid) = pid
            && self.plant != Some(Plant::StuckForgotten)
        {
            let silent = self.owes_since(pid).map(|since| self.now.since(since)).unwrap_or_default();
            let report = "it hangs".to_owned();
            self.daemon.told.push_back((app, Event::Silent { slot, generation, silent, report }));
        }
    }

    /// The wall-clock time: the run begins at a full hour.
    pub(crate) fn wall(&self) -> Wall {
        let passed =
            if self.plant == Some(Plant::HourMissed) { Duration::ZERO } else { self.now.since_start() };
        Wall(passed)
    }

    /// An app is new, or has a new definition, or another daemon: the times of its cron pattern before that are no concern.
    pub(crate) fn excuse_clock(&mut self, app: AppId) {
        self.watch.renewed.insert(app, self.now);
    }

    /// A time of an app's cron pattern has come. Its supervisor decides from here on what becomes of its workers.
    pub(crate) fn note_strike(&mut self, app: AppId) {
        self.watch.renewed.insert(app, self.now);
        self.watch.forget_order(app);
    }

    /// A time of an app's cron pattern has come: it has also started the workers that waited for it.
    pub(crate) fn check_strike(&mut self, app: AppId) {
        let Some(entry) = self.daemon.apps.get(&app).filter(|_| !self.kept.is_dead) else { return };
        for slot in self.watch.take_awaiting(app) {
            let runs =
                entry.supervisor.slot(slot).is_none_or(|record| record.wanted && !record.waits_for_cron);
            if !runs {
                let name = &entry.supervisor.spec().name;
                let seen = format!("{name} {slot} waited for its hour, and is not started");
                self.watch.fail(Invariant::ClockKept, seen);
            }
        }
    }

    /// Time advances: all due cron renewals were performed.
    pub(crate) fn check_clock(&mut self, to: Time) {
        // The check runs a millisecond later.
        let reached = to.since_start().saturating_sub(Duration::from_millis(2));
        // Patterns have points at whole minutes: between these, time alone makes no renewal late.
        if !self.daemon.apps.begins_minute(reached.as_secs() / 60) {
            return;
        }
        let late = self.daemon.apps.iter().find_map(|(app, entry)| {
            let period = period_of(entry.supervisor.spec())?.as_millis();
            let renewed = self.watch.renewed.get(app)?.since_start().as_millis();
            (reached.as_millis() / period > renewed / period).then(|| entry.supervisor.spec().name.clone())
        });
        if let Some(name) = late {
            self.watch.fail(Invariant::ClockKept, format!("{name} was not renewed"));
        }
    }

    /// An app's files have changed.
    pub(crate) fn touch_files(&mut self, app: usize) {
        let Some(id) = self.daemon.find(&name(app)) else { return };
        if self.daemon.apps[&id].supervisor.spec().watch.is_some() {
            self.watch.forget_order(id);
            self.supervise(id, Event::FilesChanged("app.js changed".to_owned()));
        }
    }

    /// Faults are over: hanging processes continue, or are killed from outside or by the daemon.
    pub(crate) fn release_hung(&mut self) {
        let hung = self.machine.processes.iter().filter(|(_, process)| process.hangs);
        for pid in hung.map(|(pid, _)| pid).collect::<Vec<_>>() {
            let app = self.machine.processes[&pid].whose.0;
            let check = self.daemon.apps.get(&app).and_then(|entry| entry.supervisor.spec().health.as_ref());
            if check.is_some_and(|check| check.stuck_limit.is_some()) {
                continue;
            }
            if self.dice.percent(50) {
                self.after(Duration::ZERO, Happening::Deed(pid, Deed::Die(Exit::Signal(9))));
            } else {
                self.go_on(pid);
            }
        }
    }

    /// A worker whose event loop is watched hangs from now on: only the daemon can end it.
    pub(crate) fn hang_one_that_is_watched(&mut self) {
        let Some(pid) = self.machine.nth_living(self.dice.bits()) else { return };
        let app = self.machine.processes[&pid].whose.0;
        let check = self.daemon.apps.get(&app).and_then(|entry| entry.supervisor.spec().health.as_ref());
        if check.is_some_and(|check| check.stuck_limit.is_some()) {
            self.hang(pid);
        }
    }

    /// At the end no worker serves whose event loop was blocked for longer than its limit.
    pub(crate) fn check_stuck(&mut self) {
        let stuck = self.daemon.apps.iter().find_map(|(app, entry)| {
            let check = entry.supervisor.spec().health.as_ref()?;
            check.stuck_limit?;
            let hangs = self.processes_of(*app).find(|(slot, generation, process)| {
                let online = entry.supervisor.slot(*slot).and_then(SlotRecord::online);
                let pid = self.daemon.pids.get(&(*app, *slot, *generation));
                process.hangs && online == Some(*generation) && pid.is_some_and(|pid| self.can_be_asked(*pid))
            });
            hangs.map(|(slot, ..)| format!("{} {slot}: its loop stands still", entry.supervisor.spec().name))
        });
        if let Some(seen) = stuck {
            self.watch.fail(Invariant::StuckEnd, seen);
        }
    }

    /// Whether a worker is being replaced: ages still increase after faults are over.
    pub(crate) fn renews(&self) -> bool {
        self.daemon.apps.values().any(|entry| {
            let supervisor = &entry.supervisor;
            let leave = supervisor.slots().values().any(|record| !record.slot.leaving.is_empty());
            leave || supervisor.is_reloading()
        })
    }
}
