//! What happens that nobody asked for, as the engine knows it: what is known of a process before it is gone, and what follows.
//! What is an incident is decided by `forkful_core::incidents`; the files are `crate::incidents`.

use std::path::Path;

use forkful_api::conversation::DaemonEvent;
use forkful_api::incidents::{
    Incident, IncidentKind, IncidentList, IncidentSummary, IncidentsQuery, ProcessEnd,
};
use forkful_api::types::{LogStream, split_targets};
use forkful_core::Time;
use forkful_core::incidents::{Death, Noticed, Role, by_forkful, follows, is_done, role};
use forkful_core::slot::{Exit, Generation, Report, State};
use forkful_core::targets::as_typed;
use tokio::sync::oneshot;

use super::app::{App, Process};
use super::apps::Apps;
use super::conversation::Conversations;
use super::exit_tail::secrets_of;
use super::starting::Starts;
use super::targets::Roster;
use crate::command::Reply;
use crate::incidents::{Draft, Wanted};
use crate::logs::{LogService, StderrTail};

impl App {
    /// Why the daemon ended a process, if it did so by itself.
    pub(super) fn own_kill(&self, slot: u16, generation: Generation) -> Option<String> {
        let role = role(&self.supervisor.slot(slot)?.slot, generation)?;
        by_forkful(self.places.get(&slot)?.stuck.as_deref(), role)
    }

    /// What is known of a process that has ended and is about to be forgotten; `None` when somebody asked for its end. `kernel`
    /// says in words that the kernel killed it.
    pub(super) fn dying(
        &mut self,
        slot: u16,
        generation: Generation,
        exit: &Exit,
        kernel: Option<String>,
    ) -> Option<Draft> {
        let role = role(&self.supervisor.slot(slot)?.slot, generation)?;
        let stuck = self.places.get_mut(&slot)?.stuck.take();
        let kind = if stuck.is_some() { IncidentKind::Stuck } else { IncidentKind::Crash };
        let mut draft = self.draft(kind, Some(slot), self.process(slot, generation));
        draft.death = Some(Death { exit: exit.clone(), role, kernel, stuck });
        Some(draft)
    }

    /// An incident of now, about a slot, with what is known of its process.
    fn draft(&self, kind: IncidentKind, slot: Option<u16>, process: Option<&Process>) -> Draft {
        let spec = self.spec();
        let at_ms = super::clock::wall_ms();
        let metrics = process.map(|process| process.metrics.last_sample()).unwrap_or_default();
        let end = process.map(|process| ProcessEnd {
            pid: Some(process.child.pid),
            uptime_ms: at_ms.saturating_sub(process.started_at_ms),
            node_version: process.node_version.map(|version| version.to_string()),
            ..ProcessEnd::default()
        });
        let summary = IncidentSummary {
            id: 0,
            at_ms,
            kind,
            app: spec.name.to_string(),
            pm_id: slot.and_then(|slot| Some(self.places.get(&slot)?.pm_id)),
            reason: String::new(),
            next: None,
        };
        let metrics = metrics.iter().map(|(metric, value)| (metric.name.to_owned(), value)).collect();
        Draft {
            incident: Incident {
                summary,
                end,
                stderr_tail: Vec::new(),
                is_uncaught: false,
                hint: None,
                metrics,
            },
            death: None,
            tail: None,
            secrets: secrets_of(spec),
            cwd: spec.launch.cwd.to_string_lossy().into_owned(),
        }
    }
}

impl Draft {
    /// With the last lines that the process wrote to stderr.
    pub(super) fn with_tail(self, tail: oneshot::Receiver<StderrTail>) -> Self {
        Self { tail: Some(tail), ..self }
    }
}

impl Conversations {
    /// A process has ended without being asked to, and its slot knows what follows. `entry` is gone with its last slot.
    pub(super) fn note_death(&mut self, mut draft: Draft, slot: u16, entry: Option<&App>, now: Time) {
        let Some(death) = &draft.death else { return };
        let record = entry.and_then(|entry| entry.supervisor.slot(slot));
        let after = record.map(|record| &record.slot.state);
        let codes = entry.map_or(&[][..], |entry| &entry.spec().restart.stop_exit_codes);
        if is_done(&death.exit, after, codes) {
            return;
        }
        let (given_up, next) = follows(death.role, after, now);
        let summary = &mut draft.incident.summary;
        summary.next = Some(next);
        if given_up.is_some() && summary.kind == IncidentKind::Crash {
            summary.kind = IncidentKind::CrashLoop;
        }
        let end = draft.incident.end.get_or_insert_default();
        match &death.exit {
            exit if *exit == Exit::UNKNOWN => {}
            Exit::Code(code) => end.exit_code = Some(*code),
            Exit::Signal(_) => end.signal = Some(death.exit.to_string()),
            Exit::SpawnFailed(_) => {}
        }
        if let Some(record) = record {
            end.restarts_in_a_row = record.slot.counters.in_a_row;
            end.restarts = record.slot.counters.restarts;
        }
        self.incidents.note(draft);
    }

    /// A start that came to no process.
    pub(super) fn note_failed_start(
        &mut self,
        (slot, report): (u16, &Report),
        entry: &App,
        now: Time,
        logs: &LogService,
    ) {
        let Report::Exited { exit: exit @ Exit::SpawnFailed(_), .. } = report else { return };
        let Some(place) = entry.places.get(&slot) else { return };
        let after = entry.supervisor.slot(slot).map(|record| &record.slot.state);
        let role = if let Some(State::Online(_)) = after { Role::Successor } else { Role::Serving };
        let mut draft = entry.draft(IncidentKind::Crash, Some(slot), None);
        draft.death = Some(Death { exit: exit.clone(), role, kernel: None, stuck: None });
        self.note_death(draft.with_tail(logs.stderr_tail(place.pm_id, None)), slot, Some(entry), now);
    }

    /// Something that is no end of a process.
    pub(super) fn note(&mut self, noticed: Noticed, entry: &mut App, logs: &LogService) {
        match noticed {
            Noticed::Stuck(slot, report) => {
                if let Some(place) = entry.places.get_mut(&slot) {
                    place.stuck = Some(report);
                }
            }
            Noticed::Incident { kind, slot, reason, next } => {
                let process = slot.and_then(|slot| entry.current(slot));
                let mut draft = entry.draft(kind, slot, process);
                // The process lives.
                draft.incident.end = None;
                draft.incident.summary.reason = reason;
                draft.incident.summary.next = Some(next);
                let place = slot.and_then(|slot| entry.places.get(&slot));
                let tail = place.map(|place| logs.stderr_tail(place.pm_id, None));
                self.incidents.note(Draft { tail, ..draft });
            }
        }
    }

    /// The disk of a log file is full.
    pub(super) fn note_full_disk(&mut self, path: &Path, fault: &str, apps: &Apps) {
        let mut writes = apps.values().filter(|entry| {
            let paths = |place: &super::app::Place| {
                [LogStream::Out, LogStream::Err]
                    .iter()
                    .any(|of| place.log_paths(*of).iter().any(|p| p == path))
            };
            entry.places.values().any(|place| paths(place))
        });
        let Some(entry) = writes.next() else { return };
        let mut draft = entry.draft(IncidentKind::DiskFull, None, None);
        draft.incident.summary.reason = format!("cannot write {}: {fault}", path.display());
        draft.incident.summary.next = Some("lines are dropped and counted".to_owned());
        self.incidents.note(draft);
    }

    /// An incident has been written: those who watch hear of it, and those whom its app tells.
    pub(super) fn publish_incident(
        &mut self,
        incident: Incident,
        apps: &Apps,
        starts: &mut Starts,
        now: Time,
    ) {
        if self.hub.is_watched() {
            let summary = incident.summary.clone();
            let (app, pm_id) = (summary.app.clone(), summary.pm_id);
            self.hub.publish(&app, pm_id, &DaemonEvent::Incident(summary));
        }
        let entry = apps.find(&incident.summary.app).and_then(|id| apps.get(&id));
        if let Some(entry) = entry {
            self.alerts.tell(incident, entry.spec(), starts, now);
        }
    }

    /// Lists what is kept of some apps. An app that is gone is known by the incidents that it has had.
    pub(super) fn list_incidents(
        &mut self,
        query: IncidentsQuery,
        roster: Roster<'_>,
        reply: Reply<IncidentList>,
    ) {
        let IncidentsQuery { targets, since_ms, after } = query;
        let targets = split_targets(&targets);
        let (mut names, mut unknown) = (Vec::new(), None);
        for target in &targets {
            names.push(as_typed(target).to_owned());
            match roster.select(std::slice::from_ref(target)) {
                Ok(found) => {
                    let found = found.keys().filter_map(|id| roster.apps.get(id));
                    names.extend(found.map(|entry| entry.spec().name.to_string()));
                }
                Err(refusal) => unknown = Some(refusal),
            }
        }
        let is_all = targets.is_empty() || targets.iter().any(|target| target == "all");
        let apps = (!is_all).then_some(names);
        let unknown = unknown.filter(|_| !is_all);
        self.incidents.list(Wanted { apps, since_ms, after, unknown }, reply);
    }
}
