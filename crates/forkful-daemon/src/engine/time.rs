//! What is due, and when the engine wants to be woken next.

use std::io;
use std::time::Duration;

use forkful_core::Time;
use forkful_core::supervisor::Event;

use super::Engine;
use super::app::{App, AppId, Later};

impl Engine {
    /// Carries out what is due.
    pub(super) fn on_time(&mut self) {
        let now = self.clock.now();
        self.give_up_starts(now);
        let due: Vec<AppId> = self
            .apps
            .iter()
            .filter(|(_, entry)| entry.next_wake().is_some_and(|at| at <= now))
            .map(|(id, _)| *id)
            .collect();
        for app in due {
            self.app_on_time(app, now);
        }
    }

    pub(super) fn app_on_time(&mut self, app: AppId, now: Time) {
        let Some(entry) = self.apps.get_mut(&app) else { return };
        if entry.primary.next_wake().is_some_and(|at| at <= now) {
            entry.primary.on_time(now);
        }
        if entry.supervisor.next_wake().is_some_and(|at| at <= now) {
            self.note_missing(app, now);
            self.supervise(app, Event::Time);
        }
        while let Some(entry) = self.apps.get_mut(&app)
            && let Some(first) = entry.later.first_entry()
            && first.key().0 <= now
        {
            let later = first.remove();
            self.do_later(app, later);
        }
        self.take_primary_events(app);
        self.upkeep(app, now);
    }

    pub(super) fn do_later(&mut self, app: AppId, later: Later) {
        match later {
            Later::ClearTree(slot, generation) => self.work.clear(app, slot, generation),
            Later::LookStuck { slot, generation, asked, used } => {
                self.look_stuck(app, slot, generation, asked, used);
            }
        }
    }

    /// Has something done later.
    pub(crate) fn later(&mut self, app: AppId, after: Duration, later: Later) {
        let at = self.clock.now() + after;
        self.next_later += 1;
        if let Some(entry) = self.apps.get_mut(&app) {
            entry.later.insert((at, self.next_later), later);
        }
    }

    /// Has the reactor wake when something is due next.
    pub(super) fn set_timer(&mut self) -> io::Result<()> {
        let apps = self.apps.values().filter_map(App::next_wake).min();
        let wake = apps
            .into_iter()
            .chain(self.work.next_wake())
            .chain(self.next_start_deadline())
            .chain(self.next_look())
            .min();
        if wake != self.timer_set {
            self.timer.set(wake.map(|at| at.since(self.clock.now())))?;
            self.timer_set = wake;
        }
        Ok(())
    }
}
