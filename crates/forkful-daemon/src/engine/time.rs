//! What is due, and when the engine wants to be woken next.

use std::io;
use std::time::Duration;

use forkful_core::Time;
use forkful_core::slot::Event;
use forkful_core::supervisor::SlotRecord;

use super::Engine;
use super::app::{App, AppId, Later};

/// The time of a worker whose start is not over begins so much later, each time that it would have passed.
const START_LOOK: Duration = Duration::from_millis(10);

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
        for slot in entry.supervisor.due_slots(now) {
            // A start that has just failed must not count as one that is ready by now.
            if self.told.iter().any(|(of, told, _)| (*of, *told) == (app, slot)) {
                continue;
            }
            // What has not been started yet is not late.
            let unborn = self.work.unborn(app, slot).or_else(|| self.starting(app, slot));
            if let Some(generation) = unborn {
                self.feed(app, slot, Event::Begun(generation, now + START_LOOK));
                let record = self.apps.get(&app).and_then(|entry| entry.supervisor.slot(slot));
                if record.and_then(SlotRecord::deadline).is_none_or(|at| at > now) {
                    continue;
                }
            }
            self.note_missing(app, slot, now);
            self.feed(app, slot, Event::Deadline);
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
            Later::LookForSocket { slot, generation, looks } => {
                self.look_for_socket(app, slot, generation, looks);
            }
            Later::SaidReady(slot, generation) => self.trust_ready(app, slot, generation),
            Later::ClearTree(slot, generation) => self.work.clear(app, slot, generation),
            Later::LookStuck { slot, generation, asked, used } => {
                self.judge_stuck(app, slot, generation, asked, used);
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
