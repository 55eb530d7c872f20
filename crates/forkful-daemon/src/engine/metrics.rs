//! What is measured of workers: what their agents say, and what the kernel says of their processes. The table of all of it is
//! `forkful_core::metrics`; what follows from two looks is worked out there, too. Nothing here is an event of a supervisor.
//!
//! - `outside`: one process, seen from outside · `pressure`: for what an app waits · `records`: the history of slots · `page`: the
//!   metrics page · `turns`: which processes are looked at more closely
//!
//! Each app is looked at once a second while any of its workers does something, and seldom otherwise.

mod outside;
mod page;
mod pressure;
mod records;
mod turns;

use std::collections::BTreeMap;
use std::time::Duration;

use forkful_cluster::ReportPace;
use forkful_cluster::protocol::incoming::AgentReport;
use forkful_core::Time;
use forkful_core::app_metrics::{Askers, Collection};
use forkful_core::metrics::{
    Counts, Follower, Inventory, QUIET_EVERY, REPORT_EVERY, Readings, Sample, Totals,
};
use forkful_core::otlp::Pace;
use forkful_core::outgoing::{Outgoing, Peers};
use forkful_core::slot::Generation;
use forkful_core::steering::blocked::may_be_blocked;
use forkful_core::supervisor::{ReloadResult, SlotRecord};

use super::app::{App, AppId, Place, Process};
use super::clock::wall_ms;
use super::cpu_sample::CpuSample;
use super::outgoing::AppOutgoing;
use crate::history::{History, HistoryOrder};
use crate::logs::LogService;
use outside::{Account, GroupMemory, Outside};
pub(super) use pressure::Machine;
use pressure::PressureWatch;
use records::Records;
use turns::Turns;

pub(super) use page::metrics_page;

/// An app's processes are looked at so often while they do something.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A process that uses less of a core than this does nothing.
const IDLE_CORES: f64 = 0.02;

/// How often agents report while nobody looks.
pub(super) const USUAL_PACE: ReportPace =
    ReportPace { every: REPORT_EVERY, quiet: Some(QUIET_EVERY), at_once: false };
/// How often they report while somebody looks at a list. An idle worker has little to tell, and there may be hundreds.
pub(super) const LISTED_PACE: ReportPace =
    ReportPace { every: REPORT_EVERY, quiet: Some(Duration::from_secs(2)), at_once: true };
/// How often they report while somebody looks at their app closely, as the doctor does.
pub(super) const WATCHED_PACE: ReportPace = ReportPace { every: REPORT_EVERY, quiet: None, at_once: true };

/// What is measured of an app.
#[derive(Default)]
pub(crate) struct AppMetrics {
    /// When its processes are looked at next.
    next: Option<Time>,
    /// Counters of its slots; those of slots that are gone stay.
    totals: BTreeMap<u16, Box<Totals>>,
    /// What is recorded of its slots.
    records: Records,
    pressure: PressureWatch,
    /// Whose values are read that cost more to read.
    turns: Turns,
    /// The CPU time of all its processes.
    pub(super) cpu: CpuSample,
    /// What its workers measure of themselves.
    pub(super) own: Collection,
    /// When they are sent for OpenTelemetry.
    pub(super) otlp: Pace,
    /// Those of them that want all of it.
    pub(super) askers: Askers,
    /// When the connections that they have opened are read.
    pub(super) outgoing: AppOutgoing,
    /// Its reloads: those that succeeded, those that did not.
    pub(super) reloads: [u64; 2],
}

/// What is measured of a process.
#[derive(Default)]
pub(crate) struct ProcessMetrics {
    /// Since when its event loop has not answered, at the last look: a process that has ended has no channel to ask.
    pub(super) silent_since: Option<Time>,
    follower: Follower,
    /// When its agent last reported.
    said_at: Option<Time>,
    outside: Option<Outside>,
    /// Its agent knows that its thread pool is there.
    knows_pool: bool,
    /// The connections that it has opened, at the last reading.
    pub(super) outgoing: Outgoing,
    /// Those of them that were there at the reading before.
    pub(super) kept: Outgoing,
    /// The number of that reading.
    pub(super) table: Option<u64>,
    /// The servers that its agent knows.
    pub(super) peers: Peers,
    /// What it held at the last scrape.
    pub(super) inventory: Option<Box<Inventory>>,
}

/// What was counted of a place when its counters were last added to the totals of its slot: what its worker has written since this
/// daemon knows it, and the restarts and crashes of its supervisor, which `reset` sets to 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PlaceCounts {
    log_bytes: u64,
    dropped_lines: u64,
    restarts: u32,
    crashes: u32,
}

impl PlaceCounts {
    fn of(logs: &LogService, pm_id: u32, record: Option<&SlotRecord>) -> Self {
        let (log_bytes, dropped_lines) = (logs.bytes(pm_id), logs.dropped_lines(pm_id));
        Self { log_bytes, dropped_lines, ..Self::default() }.with_restarts(record)
    }

    fn with_restarts(self, record: Option<&SlotRecord>) -> Self {
        let counters = record.map(|record| &record.slot.counters);
        let (restarts, crashes) = counters.map_or((0, 0), |counters| (counters.restarts, counters.crashes));
        Self { restarts, crashes, ..self }
    }

    /// What a slot whose counters go on with `counts` had counted before: the supervisor may know of more, and `reset` sets its
    /// counters to 0.
    fn resumed(record: Option<&SlotRecord>, counts: &Readings) -> Self {
        let counted = |name| counts.get(name).unwrap_or_default() as u32;
        let known = Self::default().with_restarts(record);
        Self {
            restarts: known.restarts.min(counted("restarts_total")),
            crashes: known.crashes.min(counted("crashes_total")),
            ..known
        }
    }

    fn since(self, before: Self) -> Readings {
        let more = |now: u32, before: u32| f64::from(now.saturating_sub(before));
        Readings::of(&[
            ("log_bytes_total", self.log_bytes.saturating_sub(before.log_bytes) as f64),
            ("log_lines_dropped_total", self.dropped_lines.saturating_sub(before.dropped_lines) as f64),
            ("restarts_total", more(self.restarts, before.restarts)),
            ("crashes_total", more(self.crashes, before.crashes)),
        ])
    }
}

impl ProcessMetrics {
    /// Its agent has reported.
    pub(super) fn on_report(&mut self, report: Box<AgentReport>, now: Time) {
        self.follower.on_report(report);
        self.said_at = Some(now);
    }

    /// The connections that it has opened were read; maybe also how many it has accepted.
    pub(super) fn note_connections(&mut self, accepted: Option<u32>) {
        let mut readings = Readings::of(&[("outgoing_connections", f64::from(self.outgoing.total()))]);
        if let Some(accepted) = accepted {
            readings.take("connections", f64::from(accepted));
        }
        self.follower.measured(&readings);
    }

    /// What is known of it now.
    pub(super) fn sample(&self, now: Time) -> Sample {
        self.follower.sample(self.is_fresh(now))
    }

    /// What was last known of it, however long ago.
    pub(super) fn last_sample(&self) -> Sample {
        self.follower.sample(true)
    }

    fn is_fresh(&self, now: Time) -> bool {
        self.said_at.is_some_and(|at| self.follower.is_fresh(now.since(at)))
    }

    /// Whether it has done something since the last look.
    fn is_active(&self, now: Time) -> bool {
        let agent_is_busy = self.is_fresh(now) && self.follower.report().is_some_and(|report| !report.quiet);
        agent_is_busy || self.follower.sample(false).get("cpu_cores").is_none_or(|cores| cores > IDLE_CORES)
    }

    fn counts(&self) -> Counts {
        self.follower.counts()
    }
}

impl AppMetrics {
    fn count_place(&mut self, slot: u16, place: &mut Place, record: Option<&SlotRecord>, logs: &LogService) {
        let now = PlaceCounts::of(logs, place.pm_id, record);
        let before = std::mem::replace(&mut place.counted, now);
        if now != before || !self.totals.contains_key(&slot) {
            self.totals.entry(slot).or_default().add(&now.since(before));
        }
    }
}

impl App {
    /// When its processes are looked at next.
    pub(super) fn next_look(&self) -> Option<Time> {
        self.metrics.next
    }

    /// A process has been started, or was taken over.
    pub(super) fn note_measurable(&mut self, since: Time) {
        let first = since + LOOK_EVERY;
        self.metrics.next = Some(self.metrics.next.map_or(first, |next| next.min(first)));
    }

    /// Its processes, if it has any, are first looked at then.
    pub(super) fn look_from(&mut self, first: Time) {
        self.metrics.next = self.metrics.next.map(|_| first);
    }

    /// A worker does something again.
    pub(super) fn note_active(&mut self, now: Time) {
        let soon = now + LOOK_EVERY;
        self.metrics.next = self.metrics.next.map(|next| next.min(soon));
    }

    /// A process of a slot and its tree are gone.
    pub(super) fn count_ended(&mut self, slot: u16, generation: Generation, process: &Process) {
        let totals = self.metrics.totals.entry(slot).or_default();
        totals.note(generation, &process.metrics.counts());
        totals.end(generation);
        for worker in self.workers.of((slot, generation)) {
            self.metrics.own.ended(worker.0);
        }
        self.metrics.own.write_down();
    }

    /// Counts what its workers have written, and how often they were restarted, since the last time. That is counted for each slot and
    /// not for a process: what the last process of a slot wrote arrives after its end, and during a reload two of them write.
    pub(super) fn count_places(&mut self, logs: &LogService) {
        for (slot, place) in &mut self.places {
            let record = self.supervisor.slot(*slot).or_else(|| self.removed.get(slot));
            self.metrics.count_place(*slot, place, record, logs);
        }
    }

    /// The same for a slot that goes; the supervisor does not know it any more.
    pub(super) fn count_removed(&mut self, slot: u16, record: &SlotRecord, logs: &LogService) {
        if let Some(place) = self.places.get_mut(&slot) {
            self.metrics.count_place(slot, place, Some(record), logs);
        }
    }

    /// The counters that lists show are set to 0 next; those of metrics go on from what was counted until now.
    pub(super) fn count_before_reset(&mut self, slots: &[u16], logs: &LogService) {
        self.count_places(logs);
        self.write_counts();
        for (_, place) in self.places.iter_mut().filter(|(slot, _)| slots.contains(slot)) {
            place.counted = place.counted.with_restarts(None);
        }
    }

    /// Looks at all its processes, if it is time; says whether it was.
    pub(super) fn take_samples(&mut self, logs: &LogService, machine: &mut Machine, now: Time) -> bool {
        if self.metrics.next.is_none_or(|next| next > now) {
            return false;
        }
        self.count_places(logs);
        let Self { supervisor, places, primary, metrics, group, .. } = self;
        let throttling = group.as_ref().and_then(forkful_os::cgroup::AppGroup::throttling);
        let throttling = throttling.or_else(|| machine.throttling());
        let (mut lives, mut active) = (false, false);
        metrics.turns.begin();
        let pressure = metrics.pressure.look(group.as_ref(), machine, now);
        let own_memory = supervisor.spec().limits.memory_bytes.map(|limit| GroupMemory {
            limit: Some(limit),
            used: group.as_ref().and_then(|group| group.usage().memory_bytes),
        });
        for (slot, place) in places.iter_mut() {
            for (generation, process) in
                place.processes.iter_mut().filter(|(_, process)| process.ended.is_none())
            {
                lives = true;
                let pid = process.child.pid;
                let outside = process.metrics.outside.get_or_insert_with(|| Outside::new(pid));
                let account = Account { throttling, queued: primary.queued(process.worker) };
                process.metrics.silent_since = primary.owes_since(process.worker);
                let has_turn = metrics.turns.take(*slot, outside.is_due());
                let rare = has_turn.then(|| own_memory.unwrap_or_else(|| machine.memory(now)));
                let Ok(readings) = outside.look(&account, rare) else { continue };
                process.metrics.follower.measured(&readings);
                process.metrics.follower.measured(&pressure);
                if !process.metrics.knows_pool
                    && readings.get("pool_threads").is_some_and(|threads| threads > 0.0)
                {
                    process.metrics.knows_pool = true;
                    primary.tell_of_pool(process.worker, now);
                }
                active |= process.metrics.is_active(now);
                let cpu_cores = process.metrics.follower.sample(false).get("cpu_cores");
                if may_be_blocked(cpu_cores) && primary.has_agent(process.worker) {
                    primary.ask_whether_it_turns(process.worker, now);
                }
                metrics.totals.entry(*slot).or_default().note(*generation, &process.metrics.counts());
            }
        }
        metrics.next = lives.then(|| now + if active { LOOK_EVERY } else { QUIET_EVERY });
        let current = |(slot, record, place): (u16, &SlotRecord, &Place)| {
            let process = place.current(record).filter(|process| process.ended.is_none())?;
            Some((slot, process.metrics.sample(now)))
        };
        let samples: Vec<_> = self.slots().filter_map(current).collect();
        let AppMetrics { totals, records, reloads, .. } = &mut self.metrics;
        for (slot, sample) in samples {
            records.record(
                slot,
                &sample,
                totals.get(&slot).map_or_else(Totals::default, |totals| (**totals).clone()),
                *reloads,
            );
        }
        true
    }

    /// Where its history is kept, which goes on where a daemon before has ended.
    pub(super) fn keep_history(&mut self, app: AppId, history: History) {
        self.metrics.records = Records::new(app, history);
        let slots: Vec<u16> = self.places.keys().copied().collect();
        for slot in slots {
            let Some(head) = self.metrics.records.resume(slot) else { continue };
            let (ended, living) = head.totals.parts();
            let place = self.places.get_mut(&slot);
            for (generation, process) in place.into_iter().flat_map(|place| &mut place.processes) {
                if let Some((_, counts)) = living.iter().find(|(of, _)| of == generation) {
                    process.metrics.outside = Some(Outside::resume(process.child.pid, &counts.values));
                }
            }
            let is_there = |generation| self.process(slot, generation).is_some();
            let mut totals = Totals::resume(ended.clone(), living.to_vec(), is_there);
            // Earlier versions have not counted restarts.
            totals.add(&Readings::of(&[("restarts_total", 0.0), ("crashes_total", 0.0)]));
            if let Some(place) = self.places.get_mut(&slot) {
                place.counted = PlaceCounts::resumed(self.supervisor.slot(slot), &totals.sum().values);
            }
            self.metrics.totals.insert(slot, Box::new(totals));
            for (reloads, written) in self.metrics.reloads.iter_mut().zip(head.reloads) {
                *reloads = (*reloads).max(written);
            }
        }
    }

    /// What is kept of some of its slots.
    pub(super) fn history(&self, slots: &[u16]) -> HistoryOrder {
        let workers = slots.iter().filter_map(|slot| {
            let place = self.places.get(slot)?;
            Some((*slot, place.pm_id, self.metrics.records.area(*slot)))
        });
        HistoryOrder {
            app: self.spec().name.to_string(),
            reader: self.metrics.records.reader(),
            workers: workers.collect(),
            now_s: wall_ms() / 1000,
        }
    }

    /// A reload is over. One that another command ended has neither succeeded nor failed.
    pub(super) fn note_reload(&mut self, result: &ReloadResult) {
        let [succeeded, failed] = &mut self.metrics.reloads;
        match &result.failure {
            None => *succeeded += 1,
            Some(failure) if failure.fault.is_by_command() => {}
            Some(_) => *failed += 1,
        }
    }

    /// Notes what its slots have counted until now, and writes it down.
    pub(super) fn write_counts(&mut self) {
        let AppMetrics { totals, records, reloads, .. } = &mut self.metrics;
        for (slot, place) in &self.places {
            let of_slot = totals.entry(*slot).or_default();
            for (generation, process) in &place.processes {
                of_slot.note(*generation, &process.metrics.counts());
            }
            records.write_totals(*slot, (**of_slot).clone(), *reloads);
        }
        self.metrics.own.write_down();
    }

    /// The slots of which something was counted, with those that are gone.
    pub(super) fn counted_slots(&self) -> impl Iterator<Item = u16> {
        self.metrics.totals.keys().copied()
    }

    /// The counters of a slot over all its processes, as they were noted last.
    pub(super) fn counted(&self, slot: u16) -> Counts {
        self.metrics.totals.get(&slot).map(|totals| totals.sum()).unwrap_or_default()
    }
}
