//! What is due, and when the engine wants to be woken next.

use std::io;

use forkful_core::Time;
use forkful_core::slot;
use forkful_core::supervisor::Event;

use super::app::{AppId, Later};
use super::work::Done;
use super::{Engine, Phase};

impl Engine {
    /// Carries out what is due.
    pub(super) fn on_time(&mut self) {
        let now = self.clock.now();
        if self.life.stop.as_mut().is_some_and(|stop| stop.take_due(now)) {
            self.kill(None);
        }
        for ((app, slot, generation), why) in self.starts.give_up(now) {
            self.tell(app, Event::Slot(slot, slot::Event::SpawnFailed(generation, why)));
        }
        for app in self.apps.due(now) {
            self.app_on_time(app, now);
        }
    }

    fn app_on_time(&mut self, app: AppId, now: Time) {
        let Some(entry) = self.apps.get_mut(app) else { return };
        if entry.primary.next_wake().is_some_and(|at| at <= now) {
            entry.primary.on_time(now);
        }
        if entry.supervisor.next_wake().is_some_and(|at| at <= now) {
            for (slot, fault) in entry.missing_faults(now) {
                self.supervise(app, Event::ListenRefused(slot, fault));
            }
            self.supervise(app, Event::Time);
        }
        while let Some(later) = self.apps.get_mut(app).and_then(|entry| entry.later.take_due(now)) {
            self.do_later(app, later);
        }
        if self.apps.take_samples(app, &self.logs, now) {
            self.options.rest.note_look();
            self.apps.look_outgoing(app, now);
            let load = self.apps.load(app, now);
            self.supervise_some(app, load.map(Event::Load));
        }
        if let Some(entry) = self.apps.get_mut(app)
            && let Some(order) = entry.otlp_order(&self.logs, now)
        {
            order.send(app, self.inbox.back.clone());
            self.apps.note_unwritten(app);
        }
        self.take_primary_events(app);
        if let Some(entry) = self.apps.get_mut(app) {
            entry.upkeep(now);
        }
    }

    fn do_later(&mut self, app: AppId, later: Later) {
        match later {
            Later::ClearTree(slot, generation) => self.starts.work.clear(app, slot, generation),
            Later::AdoptSockets(slot, generation, looks) => {
                let now = self.clock.now();
                self.options.rest.note_look();
                if let Some(entry) = self.apps.get_mut(app) {
                    entry.adopt_sockets(slot, generation, looks, now);
                }
            }
        }
    }

    /// Has the reactor wake when something is due next.
    pub(super) fn set_timer(&mut self) -> io::Result<()> {
        let wake = self
            .apps
            .next_wake()
            .into_iter()
            .chain(self.starts.next_wake())
            .chain(self.looks.next_wake())
            .chain(self.makes_way_by())
            .chain(self.life.stop.and_then(|stop| stop.at))
            .min();
        self.wake.wake_at(wake, self.clock.now())
    }

    /// Whether something may be worked on now.
    pub(super) fn has_work(&self) -> bool {
        self.starts.work.next_wake().is_some_and(|at| at <= self.clock.now())
    }

    /// Does a turn's share of what waits.
    pub(super) fn work_some(&mut self) -> Done {
        let mut done = Done::default();
        let began = self.clock.now();
        // One look serves all that have ended before it.
        let is_being_started = |pid| self.starts.is_being_started(pid);
        let has_orphans = self.starts.work.has_clears() && self.processes.has_orphans(is_being_started);
        let orphans_since = has_orphans.then_some(began);
        while let Some(key) = self.starts.work.next_clear(&mut done) {
            self.clear_tree(key, orphans_since);
        }
        while let Some((key, signal)) = self.starts.work.next_signal(&mut done) {
            let (app, slot, generation) = key;
            if let Some(process) = self.apps.get(&app).and_then(|entry| entry.process(slot, generation)) {
                self.processes.signal_tree(process, signal, self.clock.now());
            }
        }
        while let Some(key) = self.starts.work.next_start(&mut done, began) {
            self.spawn(key);
            self.starts.work.note_started(self.clock.now());
        }
        if self.starts.work.is_empty() {
            self.processes.forget_look();
        }
        done
    }

    /// Replies to every command that has all its answers; says whether there were any.
    pub(super) fn finish_jobs(&mut self) -> bool {
        let done = self.jobs.take_done();
        if done.is_empty() {
            return false;
        }
        let mut are_trials = false;
        for job in &done {
            are_trials |= self.conversations.end_trial_parts(job, &mut self.apps, &self.logs);
        }
        if are_trials {
            self.note_change();
        }
        // What a reply says holds after a crash too.
        self.save_changes();
        for mut job in done {
            if job.ends_daemon && !self.apps.is_empty() {
                // A worker refused the command, or an app was made meanwhile: without the daemon it would run unsupervised.
                self.stop_all(job.take_clients());
            } else if job.ends_daemon {
                self.life.phase = Phase::Ended;
            }
            let ticket = self.persistence.as_ref().and_then(super::persistence::Persistence::ticket);
            self.jobs.reply(job, &mut self.apps, &self.logs, ticket);
        }
        true
    }

    /// Answers the looks that need not wait any longer.
    pub(super) fn finish_looks(&mut self) {
        let may_wait = self.life.phase == Phase::Serving;
        for command in self.looks.take_done(&self.apps, may_wait, self.clock.now()) {
            self.answer_look(command);
        }
        for order in self.looks.take_merges(&mut self.apps, may_wait, self.clock.now()) {
            order.merge(self.inbox.back.clone());
        }
    }
}
