//! Looks at the workers: those who ask for a list are told which event loops do not turn, so the workers are asked
//! first, and those that do not answer at once are waited for, a little.

use std::collections::BTreeSet;

use forkful_core::Time;
use forkful_core::app_metrics::ANSWER_PATIENCE;
use forkful_core::probes::{Answer, Probe, Probes, Seen};
use forkful_core::steering::blocked::{LOOK_PATIENCE, blocked_for, is_awaited};

use super::app::{App, AppId};
use super::app_metrics::{MergeOrder, Reading};
use super::apps::Apps;
use crate::command::Command;

/// Questions that wait for the workers' answers.
#[derive(Default)]
pub(super) struct Looks {
    waiting: Vec<Look>,
    /// Apps with workers that want the merged metrics.
    merges: BTreeSet<AppId>,
    probes: Probes,
    /// What workers have answered of their prom-clients.
    pub(super) reading: Reading,
}

struct Look {
    command: Command,
    /// Apps whose workers may still have to answer; those behind one that has to are not looked at.
    left: Vec<AppId>,
    until: Time,
}

impl Look {
    fn is_scrape(&self) -> bool {
        matches!(self.command, Command::Metrics { .. })
    }

    /// Whether a worker still has time to answer.
    fn is_awaited(&mut self, apps: &Apps, now: Time) -> bool {
        while let Some(app) = self.left.last() {
            if apps.get(app).is_some_and(|entry| is_answer_awaited(entry, now)) {
                return true;
            }
            self.left.pop();
        }
        false
    }
}

impl Looks {
    /// Asks the workers of the apps that a command is about whether their loops turn; the command is answered
    /// after that.
    pub(super) fn begin(&mut self, command: Command, apps: &mut Apps, concerned: &[AppId], now: Time) {
        for app in concerned {
            let Some(entry) = apps.get_mut(*app) else { continue };
            let living = entry.shown();
            let asked = living.filter(|process| process.ended.is_none()).map(|process| process.worker);
            for worker in asked.collect::<Vec<_>>() {
                // What does not speak Node's protocol would owe an answer for ever.
                if entry.primary.has_agent(worker) {
                    entry.primary.ask_whether_it_turns(worker, now);
                }
            }
        }
        self.waiting.push(Look { command, left: concerned.to_vec(), until: now + LOOK_PATIENCE });
    }

    /// Workers were asked for what their prom-clients have; the command is answered after that.
    pub(super) fn begin_scrape(&mut self, command: Command, now: Time) {
        self.waiting.push(Look { command, left: Vec::new(), until: now + ANSWER_PATIENCE });
    }

    /// Takes the commands that need not wait any longer; none does unless `may_wait`.
    pub(super) fn take_done(&mut self, apps: &Apps, may_wait: bool, now: Time) -> Vec<Command> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let is_scraped = self.waiting.iter().any(Look::is_scrape);
        let metrics_awaited = is_scraped && apps.values().any(|entry| entry.metrics.own.is_awaited(now));
        let done = self.waiting.extract_if(.., |look| {
            let is_late = !may_wait || look.until <= now;
            is_late || !(if look.is_scrape() { metrics_awaited } else { look.is_awaited(apps, now) })
        });
        done.map(|look| look.command).collect()
    }

    /// A worker of an app wants the merged metrics of all of them.
    pub(super) fn begin_merge(&mut self, app: AppId) {
        self.merges.insert(app);
    }

    /// Asks workers whose metrics are wanted by others of their app, and takes what is to be merged now.
    pub(super) fn take_merges(&mut self, apps: &mut Apps, may_wait: bool, now: Time) -> Vec<MergeOrder> {
        let mut orders = Vec::new();
        self.merges.retain(|app| {
            orders.extend(apps.merge_order(*app, may_wait, now));
            apps.get(app).is_some_and(|entry| !entry.metrics.askers.is_empty())
        });
        orders
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        self.waiting.iter().map(|look| look.until).min()
    }

    /// What a probe of a container platform is told.
    pub(super) fn probe(&mut self, probe: Probe, apps: &Apps, is_stopping: bool, now: Time) -> Answer {
        let seen = apps.iter().map(|(id, entry)| {
            let is_blocked =
                |worker| blocked_for(entry.primary.owes_since(worker).map(|since| now.since(since)));
            let blocked = entry.slots().filter_map(|(slot, record, place)| {
                place.current(record).and_then(|process| is_blocked(process.worker)).map(|_| slot)
            });
            Seen { id: *id, supervisor: &entry.supervisor, blocked: blocked.collect() }
        });
        self.probes.answer(probe, seen, is_stopping)
    }
}

/// Whether a worker of an app still has time to answer.
fn is_answer_awaited(entry: &App, now: Time) -> bool {
    entry.shown().filter(|process| process.ended.is_none()).any(|process| {
        let since = entry.primary.owes_since(process.worker);
        entry.primary.has_agent(process.worker) && is_awaited(since.map(|since| now.since(since)))
    })
}
