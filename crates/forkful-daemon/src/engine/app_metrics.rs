//! What apps measure of themselves with prom-client: their workers are asked at a scrape, and what they say is merged away from the
//! loop. Who is waited for, and what stays of workers that have ended, is `forkful_core::app_metrics`.

use std::sync::Arc;

use forkful_cluster::protocol::incoming::MetricsAnswer;
use forkful_cluster::{MessageRefused, WorkerId};
use forkful_core::Time;
use forkful_core::app_metrics::{Answer, AppReport, app_page, merge};
use forkful_core::metrics::Inventory;
use forkful_core::metrics::exposition::{Family, FamilyKind, Page, is_own};
use forkful_core::primary_habits::Lack;
use tokio::sync::mpsc;

use super::Back;
use super::app::{App, AppId};
use super::apps::Apps;

const LEFT_OUT: Family = Family {
    name: "forkful_app_metrics_left_out",
    kind: FamilyKind::Gauge,
    help: "Metrics of the app's prom-client that are not on this page.",
};

/// The metrics page, but for what apps measure of themselves.
#[derive(Debug)]
pub struct MetricsOrder {
    pub(crate) page: Page,
    /// Of each app that has any: its name, and the reports of its workers.
    pub(crate) apps: Vec<(String, Vec<Arc<AppReport>>)>,
}

impl MetricsOrder {
    /// Merges the reports, and gives the whole page. It takes some milliseconds for thousands of series, so not on the loop.
    pub(crate) fn finish(self) -> String {
        let Self { mut page, apps } = self;
        let merged: Vec<(&str, AppReport)> = apps
            .iter()
            .map(|(name, reports)| (name.as_str(), merge(reports.iter().map(AsRef::as_ref))))
            .collect();
        let named: Vec<_> = merged.iter().map(|(name, report)| (Some(*name), report)).collect();
        let written = app_page(&named, page.format(), is_own);
        for ((name, _), left_out) in merged.iter().zip(written.left_out) {
            page.add(&LEFT_OUT, &[("app", name)], f64::from(left_out));
        }
        page.finish(&written.text)
    }
}

/// The merged metrics of an app for workers that want them (`metrics: "merge"`).
#[derive(Debug)]
pub(super) struct MergeOrder {
    app: AppId,
    /// Each with its question.
    askers: Vec<(u32, u64)>,
    reports: Vec<Arc<AppReport>>,
}

/// What came of it: JSON.
#[derive(Debug)]
pub(crate) struct Merged {
    app: AppId,
    askers: Vec<(u32, u64)>,
    text: String,
}

impl MergeOrder {
    /// Merges, away from the loop.
    pub(super) fn merge(self, back: mpsc::UnboundedSender<Back>) {
        let Self { app, askers, reports } = self;
        tokio::task::spawn_blocking(move || {
            let text = merge(reports.iter().map(AsRef::as_ref)).write();
            // The engine is gone only when the daemon ends.
            let _gone = back.send(Back::Merged(Box::new(Merged { app, askers, text })));
        });
    }
}

impl App {
    /// Asks its workers for what their prom-clients have.
    pub(super) fn ask_for_metrics(&mut self, now: Time) {
        let Self { workers, places, primary, metrics, .. } = self;
        for (worker, (slot, generation)) in workers.all() {
            let process = places.get(&slot).and_then(|place| place.processes.get(&generation));
            let lives = process.is_some_and(|process| process.ended.is_none());
            if !lives || !primary.has_agent(worker) {
                continue;
            }
            if metrics.own.ask(worker.0, now) {
                primary.ask_for_metrics(worker, now);
            }
            // The page says for how long a blocked event loop has owed an answer.
            primary.ask_whether_it_turns(worker, now);
        }
    }

    /// An agent has said what its process holds.
    pub(super) fn note_inventory(&mut self, worker: WorkerId, inventory: Option<Box<Inventory>>) {
        if let (Some(process), Some(inventory)) = (self.process_of(worker), inventory) {
            process.metrics.inventory = Some(inventory);
        }
    }

    /// An agent has answered. What is returned is to be read, and comes back by [`Apps::on_reports`].
    pub(super) fn on_metrics(&mut self, worker: WorkerId, answer: MetricsAnswer) -> Option<Unread> {
        let own = &mut self.metrics.own;
        if self.workers.process_of(worker).is_some() && own.expects(worker.0) {
            match answer {
                MetricsAnswer::None => own.has_none(worker.0),
                MetricsAnswer::Failed => own.failed(worker.0),
                MetricsAnswer::Report { text, left_out } => {
                    own.reads(worker.0);
                    return Some(Unread { worker, text, left_out });
                }
            }
        }
        None
    }
}

/// A worker's answer, not read yet.
#[derive(Debug)]
pub(super) struct Unread {
    worker: WorkerId,
    text: Box<str>,
    left_out: u32,
}

/// A worker's answer; `None` where it makes no sense.
#[derive(Debug)]
pub(crate) struct Reported {
    app: AppId,
    worker: WorkerId,
    answer: Option<Answer>,
}

/// Has answers read away from the loop: each takes some milliseconds. One thread at a time does it; what comes meanwhile waits.
/// A worker has few answers there at a time, see `forkful_core::app_metrics::Collection::expects`.
#[derive(Debug, Default)]
pub(super) struct Reading {
    waiting: Vec<(AppId, Unread)>,
    is_busy: bool,
}

impl Reading {
    pub(super) fn read(&mut self, app: AppId, unread: Unread, back: &mpsc::UnboundedSender<Back>) {
        self.waiting.push((app, unread));
        if !self.is_busy {
            self.begin(back);
        }
    }

    /// What was read last has come back.
    pub(super) fn go_on(&mut self, back: &mpsc::UnboundedSender<Back>) {
        self.is_busy = false;
        if !self.waiting.is_empty() {
            self.begin(back);
        }
    }

    fn begin(&mut self, back: &mpsc::UnboundedSender<Back>) {
        self.is_busy = true;
        let (waiting, back) = (std::mem::take(&mut self.waiting), back.clone());
        tokio::task::spawn_blocking(move || {
            let reports = waiting.into_iter().map(|(app, unread)| unread.read(app)).collect();
            // The engine is gone only when the daemon ends.
            let _gone = back.send(Back::Reported(reports));
        });
    }
}

impl Unread {
    fn read(self, app: AppId) -> Reported {
        let Self { worker, text, left_out } = self;
        let report = AppReport::read(&text).map(|mut report| {
            report.left_out = report.left_out.saturating_add(left_out);
            report
        });
        Reported { app, worker, answer: report.map(Answer::from) }
    }
}

impl Apps {
    /// Answers have been read.
    pub(super) fn on_reports(&mut self, reports: Vec<Reported>) {
        for Reported { app, worker, answer } in reports {
            let Some(entry) = self.get_mut(app) else { continue };
            let own = &mut entry.metrics.own;
            if own.answered(worker.0, answer) {
                own.write_down();
                self.note_unwritten(app);
            }
        }
    }

    /// Asks the workers of an app for their metrics when one of them wants them all, and gives what is to be merged now. What it
    /// counts is written down first, so that no counter falls when another daemon goes on.
    pub(super) fn merge_order(&mut self, app: AppId, may_wait: bool, now: Time) -> Option<MergeOrder> {
        let entry = self.get_mut(app)?;
        if entry.metrics.askers.begin(now) {
            entry.ask_for_metrics(now);
        }
        let is_awaited = may_wait && entry.metrics.own.is_awaited(now);
        let askers = entry.metrics.askers.take_done(is_awaited, now);
        if askers.is_empty() {
            return None;
        }
        entry.write_counts();
        let reports = entry.metrics.own.reports();
        self.note_unwritten(app);
        Some(MergeOrder { app, askers, reports })
    }

    /// Answers the workers that want the merged metrics.
    pub(super) fn on_merged(&mut self, merged: &Merged, now: Time) {
        let Some(entry) = self.get_mut(merged.app) else { return };
        for (worker, question) in &merged.askers {
            let worker = WorkerId(*worker);
            match entry.primary.tell_merged(worker, *question, &merged.text, now) {
                Ok(()) | Err(MessageRefused::NoChannel) => {}
                Err(MessageRefused::NotReading | MessageRefused::TooLong) => {
                    entry.note_lack(worker, Lack::Unmerged);
                }
            }
        }
    }

    /// Asks the workers of some apps for what their prom-clients have.
    pub(super) fn ask_for_metrics(&mut self, chosen: &[AppId], now: Time) {
        for id in chosen {
            if let Some(entry) = self.get_mut(*id) {
                entry.ask_for_metrics(now);
            }
        }
    }
}
