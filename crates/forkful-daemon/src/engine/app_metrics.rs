//! What apps measure of themselves with prom-client: their workers are asked at a scrape, and what they say is merged away from the
//! loop. Who is waited for, and what stays of workers that have ended, is `forkful_core::app_metrics`.

use std::sync::Arc;

use forkful_cluster::WorkerId;
use forkful_cluster::protocol::incoming::MetricsAnswer;
use forkful_core::Time;
use forkful_core::app_metrics::{AppReport, app_page, merge};
use forkful_core::metrics::exposition::{Family, FamilyKind, Page, is_own};

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

impl App {
    /// Asks its workers for what their prom-clients have.
    pub(super) fn ask_for_metrics(&mut self, now: Time) {
        let Self { workers, places, primary, metrics, .. } = self;
        for (worker, (slot, generation)) in &workers.places {
            let process = places.get(slot).and_then(|place| place.processes.get(generation));
            let lives = process.is_some_and(|process| process.ended.is_none());
            if lives && primary.has_agent(*worker) && metrics.own.ask(worker.0, now) {
                primary.ask_for_metrics(*worker, now);
            }
        }
    }

    /// An agent has answered.
    pub(super) fn on_metrics(&mut self, worker: WorkerId, answer: MetricsAnswer) {
        let own = &mut self.metrics.own;
        if self.workers.places.contains_key(&worker) && own.expects(worker.0) {
            match answer {
                MetricsAnswer::None => own.has_none(worker.0),
                MetricsAnswer::Failed => own.answered(worker.0, None),
                MetricsAnswer::Text(text) => own.answered(worker.0, AppReport::read(&text)),
            }
        }
    }
}

impl Apps {
    /// Asks the workers of some apps for what their prom-clients have.
    pub(super) fn ask_for_metrics(&mut self, chosen: &[AppId], now: Time) {
        for id in chosen {
            if let Some(entry) = self.get_mut(*id) {
                entry.ask_for_metrics(now);
            }
        }
    }
}
