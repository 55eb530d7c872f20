//! What clients are shown of the engine's state.

use std::collections::BTreeMap;

use forkful_api::types::{AppRows, AppView, DispatchView, Status, WorkerRow, WorkerView};
use forkful_cluster::Primary;
use forkful_core::Time;
use forkful_core::metrics::Readings;
use forkful_core::slot::{Exit, State};
use forkful_core::steering::blocked::blocked_for;
use forkful_core::supervisor::{AppSupervisor, SlotRecord};
use forkful_os::procinfo;

use super::app::{App, Place, places_mut, public_definition};
use super::apps::Apps;
use super::exit_tail::ExitTail;
use super::groups::worker_usage;
use super::outgoing::hosts_of;
use crate::logs::LogService;

/// The most crashing workers that a table names.
const CRASH_NOTES_MAX: usize = 5;

/// Why nothing reaches a worker that is online.
const NOT_LISTENING: &str = "not listening: the app has closed its servers";

/// To show an app changes nothing that is due or written down.
impl Apps {
    /// What all apps look like now.
    pub(crate) fn list(&mut self, now: Time, logs: &LogService) -> Vec<AppView> {
        self.values_to_show().map(|entry| entry.view(None, now, logs)).collect()
    }

    /// What the table shows of all apps.
    pub(crate) fn table(&mut self, now: Time) -> Vec<AppRows> {
        self.values_to_show().map(|entry| entry.rows(now)).collect()
    }

    /// Workers that end again and again, which their state alone does not show while they run again.
    pub(crate) fn crash_notes(&mut self, now: Time) -> Vec<String> {
        let workers = self.values_to_show().flat_map(|entry| {
            let App { supervisor, places, removed, .. } = entry;
            let supervisor: &AppSupervisor = supervisor;
            let name = &supervisor.spec().name;
            places_mut(supervisor, places, removed).map(move |(_, record, place)| (name, record, place))
        });
        let crashing = workers.filter_map(|(name, record, place)| {
            let times = match record.slot.crashes_in_a_row(now) {
                0 => return None,
                1 => "once".to_owned(),
                many => format!("{many} times in a row"),
            };
            if matches!(record.slot.state, State::Backoff { .. } | State::Failed { .. }) {
                return None;
            }
            let pm_id = place.pm_id;
            if record.last_exit == Some(Exit::Code(0)) {
                return Some(format!(
                    "{name}: worker {pm_id} has ended {times} with exit code 0 and is started again each time; a program \
                     that ends when its work is done needs `--no-autorestart`"
                ));
            }
            let exit = record.last_exit.as_ref();
            let cause = exit_cause(place).or_else(|| place.exit_tail.cause_of(exit?).map(str::to_owned));
            let cause = cause.map_or(String::new(), |cause| format!(" ({cause})"));
            let last = |exit| format!(", last {}{cause}", ending(exit));
            let exit = exit.map_or(String::new(), last);
            Some(format!(
                "{name}: worker {pm_id} has crashed {times}{exit}; `forkful logs {pm_id} --err` shows its stderr"
            ))
        });
        crashing.take(CRASH_NOTES_MAX).collect()
    }

    /// Workers whose lines are lost because a log file cannot be written: of each app the first, and how many more.
    pub(super) fn log_faults(&self, logs: &LogService) -> Vec<String> {
        let of_app = |entry: &App| {
            let mut places =
                entry.places.values().filter_map(|place| Some((place.pm_id, logs.fault(place.pm_id)?)));
            let (pm_id, fault) = places.next()?;
            let others = match places.count() {
                0 => String::new(),
                1 => ", and of 1 other".to_owned(),
                others => format!(", and of {others} others"),
            };
            Some(format!("lines of worker {pm_id} of {} are lost{others}: {fault}", entry.spec().name))
        };
        self.values().filter_map(of_app).collect()
    }
}

impl App {
    fn rows(&mut self, now: Time) -> AppRows {
        let spec = self.spec();
        let launch = &spec.launch;
        AppRows {
            name: spec.name.to_string(),
            namespace: spec.namespace.to_string(),
            mode: spec.mode,
            script: launch.script.clone().unwrap_or_else(|| launch.program.display().to_string()),
            listening: self.primary.addresses().map(|(address, ..)| address.to_owned()).collect(),
            watch: spec.watch.is_some(),
            uid: launch.run_as.as_ref().map(|user| user.uid),
            autoscale: spec.autoscale,
            workers: {
                let Self { supervisor, places, removed, primary, .. } = self;
                let slots = places_mut(supervisor, places, removed);
                slots.map(|(_, record, place)| worker_row(record, place, primary, now)).collect()
            },
        }
    }

    /// What it looks like now, with all workers or with one.
    pub(crate) fn view(&mut self, only: Option<u16>, now: Time, logs: &LogService) -> AppView {
        let usage = self.usage(now);
        let (definition, env_names) = public_definition(self.spec());
        let dispatch: Vec<DispatchView> = self
            .primary
            .addresses()
            .map(|(address, balance, counters)| DispatchView {
                address: address.to_owned(),
                mode: balance,
                handed_over: counters.handed_over,
                rescued: counters.rescued,
                lost: counters.lost,
                suspected: counters.suspected,
                steered: counters.steered,
            })
            .collect();
        let stalls = Some(*self.stalls.total()).filter(|total| total.stalls > 0);
        self.count_places(logs);
        let counters: BTreeMap<u16, Readings> =
            self.places.keys().map(|slot| (*slot, self.counted(*slot).values)).collect();
        let outgoing = self.hosts();
        let last_scaling = self.supervisor.last_scaling().map(str::to_owned);
        let Self { supervisor, places, removed, primary, .. } = self;
        let workers = places_mut(supervisor, places, removed)
            .filter(|(slot, ..)| only.is_none_or(|only| only == *slot))
            .map(|(slot, record, place)| {
                let mut view = worker_view(slot, (record, place), primary, now, logs);
                let counted = counters.get(&slot).into_iter().flat_map(Readings::iter);
                view.metrics.extend(counted.map(|(metric, value)| (metric.name.to_owned(), value)));
                view
            })
            .collect();
        AppView {
            definition,
            env_names,
            notes: self.notes(),
            trial: self.upkeep.trial.clone(),
            listening: dispatch.iter().map(|view| view.address.clone()).collect(),
            created_at_ms: self.created_at_ms,
            usage,
            stalls,
            memory_plan: self.memory_view(),
            last_scaling,
            outgoing,
            dispatch,
            workers,
        }
    }
}

fn worker_row(record: &SlotRecord, place: &mut Place, primary: &Primary, now: Time) -> WorkerRow {
    let pid =
        place.current(record).filter(|process| process.ended.is_none()).map(|process| process.child.pid);
    let spawned = place.current(record).map(|process| process.spawned);
    let (cpu_percent, memory_bytes) = match (pid, spawned) {
        (Some(pid), Some(spawned)) => {
            place.cpu.look(pid, spawned, now);
            (place.cpu.percent, procinfo::resident_bytes(pid).unwrap_or(0))
        }
        _ => (0.0, 0),
    };
    let living = place.current(record).filter(|process| process.ended.is_none());
    let closed = status(record) == Status::Online
        && living.is_some_and(|process| primary.has_closed_all(process.worker));
    let silent = living.and_then(|process| primary.owes_since(process.worker)).map(|since| now.since(since));
    WorkerRow {
        blocked_ms: blocked_for(silent).map(|silent| silent.as_millis() as u64),
        pm_id: place.pm_id,
        pid,
        status: status_of(record, pid.is_some()),
        restarts: record.slot.counters.restarts,
        crashes: record.slot.counters.crashes,
        started_at_ms: place.started_at_ms(record),
        cpu_percent,
        memory_bytes,
        reason: reason(record, place).or_else(|| closed.then(|| NOT_LISTENING.to_owned())),
    }
}

fn worker_view(
    slot: u16,
    (record, place): (&SlotRecord, &mut Place),
    primary: &Primary,
    now: Time,
    logs: &LogService,
) -> WorkerView {
    let row = worker_row(record, place, primary, now);
    let WorkerRow { pm_id, pid, status, restarts, crashes, started_at_ms, cpu_percent, memory_bytes, .. } =
        row;
    let usage = worker_usage(record, place, now);
    let readings = place.current(record).map(|process| process.metrics.sample(now)).unwrap_or_default();
    let last_exit = record.last_exit.as_ref();
    WorkerView {
        usage,
        pm_id,
        slot,
        pid,
        status,
        restarts,
        crashes,
        unstable_restarts: record.slot.counters.unstable.len() as u32,
        started_at_ms,
        cpu_percent,
        memory_bytes,
        out_log_path: place.out_file.to_string_lossy().into_owned(),
        error_log_path: place.error_file.to_string_lossy().into_owned(),
        last_exit: last_exit.map(|exit| match exit_cause(place) {
            Some(cause) => format!("{exit}: {cause}"),
            None if *exit == Exit::UNKNOWN => "how it ended is not known".to_owned(),
            None => exit.to_string(),
        }),
        exit_code: last_exit.filter(|exit| **exit != Exit::UNKNOWN).and_then(|exit| match exit {
            Exit::Code(code) => Some(*code),
            Exit::Signal(signal) => Some(128 + signal),
            Exit::SpawnFailed(_) => None,
        }),
        reason: row.reason,
        blocked_ms: row.blocked_ms,
        renewed: record.upkeep.renewed.clone(),
        health_fault: record.upkeep.health_fault().map(str::to_owned),
        loop_delay_ms: readings.get("event_loop_delay_p99_ms"),
        metrics: readings.iter().map(|(metric, value)| (metric.name.to_owned(), value)).collect(),
        stderr_tail: Vec::new(),
        dropped_log_lines: logs.dropped_lines(pm_id),
        log_fault: logs.fault(pm_id).as_deref().map(str::to_owned),
        node_version: place
            .current(record)
            .and_then(|process| process.node_version)
            .map(|version| version.to_string()),
        outgoing: hosts_of(record, place),
        reports: place.current(record).map(|process| process.reports.clone()).unwrap_or_default(),
    }
}

/// Why the last process ended, where its exit does not say it: memory had run out.
fn exit_cause(place: &mut Place) -> Option<String> {
    place.exit_cause.clone().or_else(|| place.exit_tail.heap_limit())
}

fn status(record: &SlotRecord) -> Status {
    match &record.slot.state {
        State::Stopped { last_exit: Some(Exit::Code(0)) } if record.wanted => Status::Finished,
        State::Stopped { .. } if !record.slot.leaving.is_empty() => Status::Stopping,
        State::Stopped { .. } => Status::Stopped,
        State::Starting { .. } => Status::Launching,
        State::Online(_) | State::Replacing { .. } => Status::Online,
        State::Stopping { .. } => Status::Stopping,
        State::Backoff { .. } => Status::WaitingRestart,
        State::Failed { .. } => Status::Errored,
    }
}

/// The status of a worker as clients see it. When its process has ended it is not online any more, also while what the process has
/// left is cleared away: clients that look for an online worker expect a process id.
pub(super) fn status_of(record: &SlotRecord, lives: bool) -> Status {
    shown(status(record), lives)
}

fn shown(status: Status, lives: bool) -> Status {
    match status {
        Status::Online if !lives => Status::Stopping,
        other => other,
    }
}

/// Why a worker is in its state; the cause comes first, where it is known.
fn reason(record: &SlotRecord, place: &mut Place) -> Option<String> {
    let listen = record.listen_fault.as_ref().map(|fault| fault.error.clone());
    let known = place.exit_cause.clone().or_else(|| listen.clone());
    let because = |text: String, exit: &Exit, tail: &mut ExitTail| match known
        .as_deref()
        .or_else(|| tail.cause_of(exit))
    {
        Some(cause) => format!("{cause} ({text})"),
        None => text,
    };
    match &record.slot.state {
        State::Failed { reason, last_exit } => {
            Some(because(format!("{reason}; last {}", ending(last_exit)), last_exit, &mut place.exit_tail))
        }
        State::Backoff { attempt, last_exit, .. } => {
            let text = format!("{} consecutive restart; last {}", ordinal(*attempt), ending(last_exit));
            Some(because(text, last_exit, &mut place.exit_tail))
        }
        State::Online(running) if !running.confirmed => Some(match listen {
            Some(fault) => format!("{fault}; it has not said that it is ready"),
            None => "it has not said that it is ready: it does not listen on any port".to_owned(),
        }),
        State::Replacing { .. } => Some("a new version is starting".to_owned()),
        State::Stopped { .. } | State::Starting { .. } | State::Online(_) | State::Stopping { .. } => listen,
    }
}

/// An exit, as it reads behind "last".
fn ending(exit: &Exit) -> String {
    match exit {
        exit if *exit == Exit::UNKNOWN => "exit not known".to_owned(),
        Exit::SpawnFailed(why) => format!("start failed: {why}"),
        Exit::Code(_) => exit.to_string(),
        Exit::Signal(_) => format!("exit by {exit}"),
    }
}

/// `1st`, `2nd`, `3rd`, `11th`.
fn ordinal(number: u32) -> String {
    let ending = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_online_without_a_process() {
        assert_eq!(shown(Status::Online, true), Status::Online);
        assert_eq!(shown(Status::Online, false), Status::Stopping);
        for status in [Status::Launching, Status::WaitingRestart, Status::Stopped, Status::Errored] {
            assert_eq!(shown(status, false), status);
        }
    }
}
