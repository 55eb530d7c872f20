//! Checks of processes' lives: what supervisors order and report.

use std::time::Duration;

use forkful_core::restart::{FORGET_ONE_EVERY, STABLE_LIFE};
use forkful_core::slot::{self, Generation, Report};
use forkful_core::spec::Mode;
use forkful_core::supervisor::{AppId, Event, Notice};

use crate::watch::Invariant;
use crate::world::World;

/// After this time, the effects of faults must be over.
const SETTLED: Duration = Duration::from_secs(300);

impl World {
    /// A client requests processes of an app: resets the count of starts without a pause.
    pub(crate) fn note_asked(&mut self, app: AppId, event: &Event) {
        let asks = matches!(
            event,
            Event::Create { .. }
                | Event::Restart { .. }
                | Event::Reload(_)
                | Event::FilesChanged(_)
                | Event::Scale { .. }
                | Event::ScaleAsDefined { .. }
                | Event::OthersMoved
                | Event::Slot(_, slot::Event::Reset | slot::Event::Command(..))
        );
        let replaces = self.daemon.apps.get(&app).is_some_and(|entry| entry.supervisor.is_reloading());
        if asks || replaces {
            self.forget_unpaused(app);
        }
    }

    fn forget_unpaused(&mut self, app: AppId) {
        let own = (app, 0)..=(app, u16::MAX);
        self.watch.unpaused.range_mut(own).for_each(|(_, count)| *count = 0);
    }

    /// A worker counts as ready once it has listened, or has reported that it is ready.
    fn check_online(&mut self, app: AppId, slot: u16, generation: Generation) {
        let entry = self.daemon.apps.get(&app);
        let clusters = entry.is_some_and(|entry| entry.supervisor.spec().mode == Mode::Cluster);
        let pid = self.daemon.pids.get(&(app, slot, generation)).filter(|pid| self.has_channel(**pid));
        let process = pid.and_then(|pid| self.machine.processes.get(*pid));
        if clusters && self.watch.clusters && process.is_some_and(|process| !process.has_shown) {
            let seen = format!("worker {slot}: generation {generation} counts as ready, and is not");
            self.watch.fail(Invariant::ReadyTruly, seen);
        }
    }

    /// A worker that fails repeatedly is not started twice in a row without a pause.
    pub(crate) fn check_report(&mut self, app: AppId, slot: u16, report: &Report) {
        if self.watch.is_again {
            return;
        }
        let old_life = match report {
            Report::Replaced { old, .. } => {
                let pid = self.daemon.pids.get(&(app, slot, *old));
                pid.and_then(|pid| self.machine.processes.get(*pid)).map(|old| self.now.since(old.began))
            }
            _ => None,
        };
        if let Report::Online { generation, confirmed: true } = report {
            self.check_online(app, slot, *generation);
        }
        let count = self.watch.unpaused.entry((app, slot)).or_default();
        match report {
            Report::Exited { uptime, .. } if *uptime >= FORGET_ONE_EVERY => *count = 0,
            Report::Replaced { .. } if old_life.is_some_and(|life| life >= STABLE_LIFE) => *count = 0,
            Report::RestartScheduled { delay, .. } if delay.is_zero() => *count += 1,
            Report::RestartScheduled { .. } => *count = 1,
            _ => {}
        }
        if *count > 1 {
            self.watch.fail(Invariant::RestartsSlowed, format!("worker {slot} restarts in a loop"));
        }
    }

    pub(crate) fn note_notice(&mut self, app: AppId, slot: Option<u16>, notice: &Notice) {
        if let Notice::HealthCheckFailed { fault, .. } = notice
            && self.calm_since.is_some_and(|since| self.now.since(since) > SETTLED)
        {
            self.watch.fail(Invariant::HealthTruly, format!("worker {slot:?}: {fault}"));
        }
        // At a time of `cron_restart`, workers that run nothing are started without a reload.
        if let Notice::Renewed(_) = notice {
            self.forget_unpaused(app);
        }
        if let (Some(slot), Notice::KilledWhileStuck(_)) = (slot, notice) {
            self.watch.stuck = Some((app, slot));
            self.watch.excuse(app, slot);
        }
    }

    /// A process gets the stop signal: its kill timeout starts.
    pub(crate) fn note_stop_signal(&mut self, app: AppId, slot: u16, generation: Generation) {
        let Some(entry) = self.daemon.apps.get(&app) else { return };
        // The step that requested it may have changed the definition too.
        let patience = entry.supervisor.policy().stop.kill_timeout.min(self.watch.kill_timeout);
        if let Some(pid) = self.daemon.pids.get(&(app, slot, generation))
            && let Some(process) = self.machine.processes.get_mut(*pid)
        {
            process.kill_at.get_or_insert(self.now + patience);
        }
    }

    /// A process is killed once, after its kill timeout.
    pub(crate) fn check_kill(&mut self, app: AppId, slot: u16, generation: Generation) {
        // A daemon that takes over repeats signals that may not have been sent.
        if self.watch.was_taken_over || self.watch.stuck.take_if(|stuck| *stuck == (app, slot)).is_some() {
            return;
        }
        let Some(pid) = self.daemon.pids.get(&(app, slot, generation)) else { return };
        let Some(process) = self.machine.processes.get_mut(*pid) else { return };
        let is_due = process.kill_at.take().is_some_and(|at| at <= self.now);
        if !is_due {
            let seen = format!("worker {slot}: generation {generation} is killed before its time, or again");
            self.watch.fail(Invariant::KilledInTime, seen);
        }
    }
}
