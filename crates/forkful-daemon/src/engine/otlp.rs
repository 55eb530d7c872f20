//! Metrics for OpenTelemetry: what is known of an app is taken on the loop; it is written and posted elsewhere. When, and in which
//! form, is `forkful_core::otlp`.

use std::time::Duration;

use forkful_core::Time;
use forkful_core::metrics::Sample;
use forkful_core::otlp::{
    Exported, Fault, Note, OtlpPolicy, WORKERS_PER_DOCUMENT, WorkerMetrics, document, headers, unread_headers,
};
use forkful_core::supervisor::SlotRecord;
use forkful_os::identity;
use hyper::body::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Back;
use super::app::{App, AppId, Place};
use super::clock::wall_ms;
use crate::logs::LogService;
use crate::webhook;

/// A request takes at most so long.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the daemon waits for the last exports before it ends.
const LAST_WITHIN: Duration = Duration::from_secs(2);

/// Metrics that are to be sent.
#[derive(Debug)]
pub(super) struct OtlpOrder {
    otlp: OtlpPolicy,
    headers: Vec<(String, String)>,
    exported: Exported,
}

impl OtlpOrder {
    /// Writes and posts them, away from the loop. Many workers take several requests, one after the other.
    pub(super) fn send(self, app: AppId, back: mpsc::UnboundedSender<Back>) {
        tokio::task::spawn_local(async move {
            let receiver = self.otlp.url();
            let outcome = self.post().await;
            // The engine is gone only when the daemon ends.
            let _gone = back.send(Back::Exported { app, receiver, outcome });
        });
    }

    /// Writes and posts the last figures of an app. The engine is not told of the outcome, because the app is gone.
    fn send_last(self) -> JoinHandle<()> {
        tokio::task::spawn_local(async move {
            let (app, receiver) = (self.exported.app.clone(), self.otlp.url());
            if let Err(Fault { why, .. }) = self.post().await {
                log_line!("forkful: {app}: the last metrics did not reach {receiver}: {why}");
            }
        })
    }

    async fn post(mut self) -> Result<(), Fault> {
        let mut workers = std::mem::take(&mut self.exported.workers);
        while !workers.is_empty() {
            let rest = workers.split_off(workers.len().min(WORKERS_PER_DOCUMENT));
            let (exported, some) = (self.exported.clone(), std::mem::replace(&mut workers, rest));
            let body = tokio::task::spawn_blocking(move || document(&exported, &some)).await;
            let body = body.map_err(|error| error.to_string())?;
            webhook::post_metrics(&self.otlp, &self.headers, Bytes::from(body), TIMEOUT).await?;
        }
        Ok(())
    }
}

/// Exports of apps that are deleted.
#[derive(Debug, Default)]
pub(super) struct LastExports(Vec<JoinHandle<()>>);

impl LastExports {
    /// An app is deleted, or the daemon ends.
    pub(super) fn begin(&mut self, app: &mut App, logs: &LogService, now: Time) {
        self.0.retain(|export| !export.is_finished());
        self.0.extend(app.last_otlp_order(logs, now).map(OtlpOrder::send_last));
    }

    /// Waits for them, but not for a receiver that does not answer.
    pub(super) async fn finish(&mut self) {
        let all = async {
            for export in self.0.drain(..) {
                // One that has panicked has ended, too.
                let _ended = export.await;
            }
        };
        if tokio::time::timeout(LAST_WITHIN, all).await.is_err() {
            log_line!("forkful: the last metrics did not all arrive within {} s", LAST_WITHIN.as_secs());
        }
    }
}

impl App {
    /// Sends metrics from now on, or does not, as its definition says.
    pub(super) fn follow_otlp(&mut self, now: Time) {
        let Self { supervisor, metrics, .. } = self;
        metrics.otlp.follow(supervisor.spec().otlp.as_ref(), now);
    }

    /// What is to be sent now, if it is time. What it counts is written down first, so that no counter falls when another daemon goes on.
    pub(super) fn otlp_order(&mut self, logs: &LogService, now: Time) -> Option<OtlpOrder> {
        let otlp = self.spec().otlp.clone()?;
        if !self.metrics.otlp.begin(otlp.interval, now) {
            return None;
        }
        self.count_places(logs);
        self.write_counts();
        let workers = self.slots().map(|of_slot| self.worker_metrics(of_slot, now)).collect();
        Some(self.order(otlp, workers))
    }

    /// What is to be sent when it is deleted, or when the daemon ends: the counts of all slots that it has had. Nothing while the
    /// receiver has asked for a pause.
    fn last_otlp_order(&mut self, logs: &LogService, now: Time) -> Option<OtlpOrder> {
        let otlp = self.spec().otlp.clone().filter(|_| !self.metrics.otlp.is_paused(now))?;
        self.count_places(logs);
        self.write_counts();
        let workers = self.counted_slots().map(|slot| WorkerMetrics {
            slot,
            node_version: None,
            uptime_s: None,
            counts: self.counted(slot),
            sample: Sample::default(),
        });
        let workers = workers.collect();
        Some(self.order(otlp, workers))
    }

    fn order(&self, otlp: OtlpPolicy, workers: Vec<WorkerMetrics>) -> OtlpOrder {
        let spec = self.spec();
        let exported = Exported {
            app: spec.name.to_string(),
            namespace: spec.namespace.to_string(),
            host: identity::host_name().unwrap_or_default(),
            version: env!("CARGO_PKG_VERSION"),
            began_ms: self.created_at_ms,
            now_ms: wall_ms(),
            workers,
        };
        OtlpOrder { headers: headers(&spec.launch.env), otlp, exported }
    }

    fn worker_metrics(&self, (slot, record, place): (u16, &SlotRecord, &Place), now: Time) -> WorkerMetrics {
        let process = place.current(record).filter(|process| process.ended.is_none());
        WorkerMetrics {
            slot,
            node_version: process.and_then(|process| Some(process.node_version?.to_string())),
            uptime_s: process.map(|process| now.since(process.spawned).as_secs_f64()),
            counts: self.counted(slot),
            sample: process.map(|process| process.metrics.sample(now)).unwrap_or_default(),
        }
    }

    /// An export has ended; the log has a failure once.
    pub(super) fn on_exported(&mut self, receiver: &str, outcome: Result<(), Fault>, now: Time) {
        let name = &self.supervisor.spec().name;
        match self.metrics.otlp.ended(receiver, outcome, now) {
            None => {}
            Some(Note::Works) => log_line!("forkful: {name}: metrics reach {receiver} again"),
            Some(Note::Fails(why)) => log_line!("forkful: {name}: metrics do not reach {receiver}: {why}"),
        }
    }

    /// What lists say while metrics do not arrive, or not with all their headers.
    pub(super) fn otlp_notes(&self) -> impl Iterator<Item = String> + '_ {
        let otlp = self.spec().otlp.as_ref();
        let fault = otlp.zip(self.metrics.otlp.fault());
        let fault = fault.map(|(otlp, why)| format!("metrics do not reach {}: {why}", otlp.url()));
        let variable = otlp.and_then(|_| unread_headers(&self.spec().launch.env));
        let unread = variable
            .map(|name| format!("a part of {name} is not `name=value`, so it is not sent as a header"));
        fault.into_iter().chain(unread)
    }
}
