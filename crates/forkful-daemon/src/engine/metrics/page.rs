//! The metrics page: what is known of all apps, for Prometheus.

use forkful_api::types::Status;
use forkful_core::Time;
use forkful_core::metrics::exposition::{Family, Format, Label, Page};
use forkful_core::spec::Named as _;
use forkful_core::supervisor::SlotRecord;

use crate::engine::app::{App, AppId, Place};
use crate::engine::app_metrics::MetricsOrder;
use crate::engine::apps::Apps;
use crate::engine::outgoing::hosts_of;
use crate::engine::view::status_of;
use crate::logs::LogService;

const BUILD: Family = Family::gauge("forkful_build_info", "The version of Forkful.");
const WORKERS: Family = Family::gauge("forkful_app_workers", "Workers that an app has.");
const RELOADS: Family = Family::counter("forkful_app_reloads_total", "Reloads of an app, by their result.");
const UP: Family = Family::gauge("forkful_worker_up", "1 while a worker is online.");
const STATE: Family = Family::gauge(
    "forkful_worker_state",
    "1 with the state of a worker: online, launching, stopping, stopped, finished, errored or waiting restart.",
);
const STARTED: Family =
    Family::gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.");
const VERSION: Family = Family::gauge("nodejs_version_info", "Node.js version info.");
const BLOCKED: Family =
    Family::gauge("forkful_worker_blocked_seconds", "For how long a worker's event loop has not answered.");
const HANDED_OVER: Family = Family::counter(
    "forkful_connections_handed_over_total",
    "Connections that the daemon handed to a worker.",
);
const RESCUED: Family = Family::counter(
    "forkful_connections_rescued_total",
    "Connections taken out of the queue of a stuck, dead or leaving worker.",
);
const LOST: Family = Family::counter(
    "forkful_connections_lost_total",
    "Connections that a worker may have had when it died, so that no other got them.",
);
const SUSPECTED: Family = Family::counter(
    "forkful_workers_suspected_total",
    "Times that a worker was found not to turn its event loop.",
);
const STEERED: Family = Family::counter(
    "forkful_steering_changes_total",
    "Times that the choice of workers for connections changed.",
);

const OUTGOING: Family = Family::gauge(
    "forkful_outgoing_connections",
    "Established TCP connections that a worker has opened itself, by host and port; at most 16 hosts of a worker.",
);

/// The page with some apps. What it counts is written down first, so that no counter falls when another daemon goes on.
pub(crate) fn metrics_page(
    apps: &mut Apps,
    logs: &LogService,
    chosen: &[AppId],
    format: Format,
    now: Time,
) -> MetricsOrder {
    for id in chosen {
        if let Some(entry) = apps.get_mut(*id) {
            entry.count_places(logs);
            entry.write_counts();
        }
        apps.note_unwritten(*id);
    }
    let mut page = Page::new(format);
    page.add(&BUILD, &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    for entry in chosen.iter().filter_map(|id| apps.get(id)) {
        add_app(&mut page, entry, now);
    }
    let own = |entry: &App| {
        let reports = entry.metrics.own.reports();
        (!reports.is_empty()).then(|| (entry.spec().name.to_string(), reports))
    };
    MetricsOrder { page, apps: chosen.iter().filter_map(|id| own(apps.get(id)?)).collect() }
}

fn add_app(page: &mut Page, entry: &App, now: Time) {
    let name = entry.spec().name.to_string();
    let app: Label<'_> = ("app", &name);
    page.add(&WORKERS, &[app], entry.places.len() as f64);
    for (result, count) in ["ok", "failed"].into_iter().zip(entry.metrics.reloads) {
        page.add(&RELOADS, &[app, ("result", result)], count as f64);
    }
    for (address, _, counters) in entry.primary.addresses() {
        let labels = [app, ("address", address)];
        for (family, count) in [
            (&HANDED_OVER, counters.handed_over),
            (&RESCUED, counters.rescued),
            (&LOST, counters.lost),
            (&SUSPECTED, counters.suspected),
            (&STEERED, counters.steered),
        ] {
            page.add(family, &labels, count as f64);
        }
    }
    for (slot, record, place) in entry.slots() {
        let slot_name = slot.to_string();
        let labels = [app, ("worker", slot_name.as_str())];
        add_worker(page, &labels, (record, place), entry, now);
        let sample = place.current(record).map(|process| process.metrics.sample(now)).unwrap_or_default();
        page.add_worker(&labels, &entry.counted(slot), &sample);
        for host in hosts_of(record, place) {
            page.add(&OUTGOING, &[labels[0], labels[1], ("host", &host.host)], f64::from(host.connections));
        }
    }
}

fn add_worker(
    page: &mut Page,
    labels: &[Label<'_>; 2],
    (record, place): (&SlotRecord, &Place),
    entry: &App,
    now: Time,
) {
    let process = place.current(record).filter(|process| process.ended.is_none());
    let status = status_of(record, process.is_some());
    page.add(&UP, labels, f64::from(u8::from(status == Status::Online)));
    page.add(&STATE, &[labels[0], labels[1], ("state", status.name())], 1.0);
    let Some(process) = process else { return };
    if let Some(inventory) = &process.metrics.inventory {
        page.add_inventory(labels, inventory);
    }
    page.add(&STARTED, labels, process.started_at_ms as f64 / 1000.0);
    let silent = entry.primary.owes_since(process.worker).map(|since| now.since(since));
    let blocked = forkful_core::steering::blocked::blocked_for(silent).unwrap_or_default();
    page.add(&BLOCKED, labels, blocked.as_secs_f64());
    if let Some(version) = process.node_version {
        let [full, major] = [format!("v{version}"), version.major.to_string()];
        let [minor, patch] = [version.minor, version.patch].map(|part| part.to_string());
        let parts = [("version", full.as_str()), ("major", &major), ("minor", &minor), ("patch", &patch)];
        let labels: Vec<Label<'_>> = labels.iter().copied().chain(parts).collect();
        page.add(&VERSION, &labels, 1.0);
    }
}
