//! Between workers and those who watch or speak with them: steps of their lives and their messages are
//! published, messages and actions delivered.

use std::collections::HashMap;
use std::time::Duration;

use forkful_api::conversation::{
    DaemonEvent, EnvironmentReply, LifeStep, MessageEvent, ProcessEvent, TriggerRequest, WorkerReply,
    WorkersReply,
};
use forkful_api::jlist;
use forkful_api::stalls::StallEvent;
use forkful_api::types::{ErrorCode, ErrorReply};
use forkful_cluster::WorkerId;
use forkful_cluster::protocol::incoming::{is_log4js, is_report};
use forkful_core::Time;
use forkful_core::slot::{Generation, Outcome, Report, Verb as SlotVerb};
use forkful_core::spec::environment::shown_value;
use forkful_core::supervisor::{Answer, Asked};
use serde_json::Value;
use tokio::sync::oneshot;

use super::alerts::AlertDesk;
use super::app::{App, AppId};
use super::apps::Apps;
use super::commands::{answer, refuse};
use super::persistence::Persistence;
use super::profiles::order_profile;
use super::stdin::write_to_all;
use super::targets::Roster;
use crate::command::{Reply, Talk};
use crate::events::Hub;
use crate::incidents::Incidents;
use crate::logs::LogService;
use crate::worker_message::{self, WorkerMessage};

/// Actions that wait for an answer; a bound on what clients can leave behind.
const TRIGGERS_MAX: usize = 1024;

/// What the engine keeps for this.
#[derive(Debug)]
pub(crate) struct Conversations {
    pub(super) hub: Hub,
    /// What happens that nobody asked for.
    pub(super) incidents: Incidents,
    pub(super) alerts: AlertDesk,
    /// Processes that have been said to be online, by the worker's id.
    online: HashMap<u32, Generation>,
    triggers: Vec<Trigger>,
}

/// An action that waits for its answer.
#[derive(Debug)]
struct Trigger {
    app: AppId,
    worker: WorkerId,
    action: String,
    done: oneshot::Sender<Value>,
}

/// A worker to speak with.
pub(crate) struct Partner {
    pub(crate) app: AppId,
    pub(crate) name: String,
    pub(crate) pm_id: u32,
    pub(crate) worker: Option<WorkerId>,
}

impl Conversations {
    pub(crate) fn new(incidents: Incidents) -> Self {
        Self {
            hub: Hub::default(),
            incidents,
            alerts: AlertDesk::default(),
            online: HashMap::new(),
            triggers: Vec::new(),
        }
    }

    /// Serves a client that watches or speaks.
    pub(crate) fn serve(
        &mut self,
        talk: Talk,
        apps: &mut Apps,
        persistence: Option<&Persistence>,
        now: Time,
    ) {
        let roster = Roster::of(apps, persistence);
        match talk {
            Talk::Watch { query, reply } => {
                let subscription = self.hub.subscribe(&query);
                self.hear_messages(apps);
                answer(reply, Ok(subscription));
            }
            Talk::Message { request, reply } => {
                let partners = roster.partners(&request.targets);
                let line = request.message.to_string();
                let send = |partner: &Partner| send_message(apps, partner, line.as_bytes(), now);
                let replied =
                    partners.map(|partners| WorkersReply { workers: partners.iter().map(send).collect() });
                answer(reply, replied);
            }
            Talk::Trigger { request, reply } => match roster.partners(&request.targets) {
                Ok(partners) => self.trigger(&request, partners, apps, reply, now),
                Err(refusal) => answer(reply, Err(refusal)),
            },
            Talk::Stdin { request, reply } => match roster.partners(&request.targets) {
                Ok(partners) => write_to_all(apps, partners, &request.text, reply),
                Err(refusal) => answer(reply, Err(refusal)),
            },
            Talk::Profile { request, reply } => {
                let partners = roster.partners(std::slice::from_ref(&request.target));
                let ordered = partners.and_then(|partners| order_profile(apps, &partners, &request, now));
                answer(reply, ordered);
            }
            Talk::Incidents { query, reply } => self.list_incidents(query, roster, reply),
            Talk::Incident { id, reply } => self.incidents.show(id, reply),
            Talk::Environment { target, show_secrets, reply } => {
                answer(reply, roster.environment(&target, show_secrets));
            }
        }
    }

    /// Has channels read what somebody wants to know, and nothing else.
    pub(crate) fn hear_messages(&mut self, apps: &mut Apps) {
        let wanted = self.hub.wants_messages();
        for entry in apps.values_mut() {
            entry.primary.hear_messages(wanted);
        }
    }

    /// A slot has answered.
    pub(crate) fn publish_answer(&mut self, answer: &Answer, entry: &mut App, now: Time, logs: &LogService) {
        let step = match answer.asked {
            Asked::Job(_, SlotVerb::Start) | Asked::Load(SlotVerb::Start) => LifeStep::Start,
            Asked::Job(_, SlotVerb::Restart) | Asked::Load(SlotVerb::Restart) => LifeStep::Restart,
            Asked::Reload | Asked::Job(_, SlotVerb::Replace) | Asked::Load(SlotVerb::Replace) => {
                LifeStep::Reload
            }
            Asked::Job(_, SlotVerb::Stop) | Asked::Load(SlotVerb::Stop) => LifeStep::Stop,
            Asked::Job(_, SlotVerb::Delete | SlotVerb::Retire)
            | Asked::Load(SlotVerb::Delete | SlotVerb::Retire) => LifeStep::Delete,
        };
        let is_done = match answer.outcome {
            Outcome::Online { .. }
            | Outcome::Finished(_)
            | Outcome::Replaced
            | Outcome::Stopped
            | Outcome::Deleted => true,
            Outcome::AlreadyOnline | Outcome::Failed(_) => false,
        };
        if is_done {
            self.publish_step(answer.slot, (step, true), entry, now, logs);
        }
    }

    /// Something has happened in a slot.
    pub(crate) fn publish_report(
        &mut self,
        (slot, report): (u16, &Report),
        entry: &mut App,
        now: Time,
        logs: &LogService,
    ) {
        let mut asked = false;
        let step = match report {
            Report::Online { generation, .. } => {
                let Some(place) = entry.places.get(&slot) else { return };
                // It is reported again when a process that was taken for ready confirms it.
                if self.online.insert(place.pm_id, *generation) == Some(*generation) {
                    return;
                }
                LifeStep::Online
            }
            Report::Exited { asked: by_command, .. } => {
                asked = *by_command;
                LifeStep::Exit
            }
            Report::GaveUp { .. } => LifeStep::RestartOverlimit,
            Report::StartFailed { .. }
            | Report::Replaced { .. }
            | Report::ReplaceFailed { .. }
            | Report::Stopped
            | Report::RestartScheduled { .. }
            | Report::Killed(_)
            | Report::Left { .. } => return,
        };
        self.publish_step(slot, (step, asked), entry, now, logs);
    }

    fn publish_step(
        &mut self,
        slot: u16,
        (event, manually): (LifeStep, bool),
        entry: &mut App,
        now: Time,
        logs: &LogService,
    ) {
        if let (LifeStep::Delete, Some(place)) = (event, entry.places.get(&slot)) {
            self.online.remove(&place.pm_id);
        }
        if !self.hub.is_watched() {
            return;
        }
        let view = entry.view(Some(slot), now, logs);
        let Some(worker) = view.workers.first() else { return };
        let event = ProcessEvent {
            event,
            manually,
            at_ms: super::clock::wall_ms(),
            app: view.definition.name.clone(),
            pm_id: worker.pm_id,
            pid: worker.pid,
            process: jlist::pm2_env(&view, worker),
        };
        let (name, pm_id) = (event.app.clone(), event.pm_id);
        self.hub.publish(&name, Some(pm_id), &DaemonEvent::Process(Box::new(event)));
    }

    /// Event loops have stood still.
    pub(crate) fn publish_stalls(&mut self, stalls: Vec<StallEvent>) {
        if self.hub.is_watched() {
            for stall in stalls {
                let (app, pm_id) = (stall.app.clone(), stall.stall.pm_id);
                self.hub.publish(&app, Some(pm_id), &DaemonEvent::Stall(stall));
            }
        }
    }

    /// A worker said something.
    pub(crate) fn on_message(
        &mut self,
        app: AppId,
        worker: WorkerId,
        line: &[u8],
        apps: &mut Apps,
        now: Time,
    ) {
        let Some(entry) = apps.get_mut(app) else { return };
        let is_for_another = is_log4js(line) && entry.on_log4js(worker, line, now);
        if is_for_another && !self.hub.wants_messages() {
            return;
        }
        if !is_report(line) && !self.hub.wants_messages() {
            // The last one who wanted to know has gone.
            return self.hear_messages(apps);
        }
        let Some((slot, generation)) = entry.find_worker(worker) else { return };
        let name = entry.spec().name.to_string();
        let Some(place) = entry.places.get_mut(&slot) else { return };
        let Some(process) = place.processes.get_mut(&generation) else { return };
        let Some(message) = worker_message::interpret(line) else { return };
        worker_message::note(&mut process.reports, &message);
        let pm_id = place.pm_id;
        let message = match message {
            WorkerMessage::Done { action, result, message } => {
                self.on_action_done(app, worker, &action, result);
                message
            }
            WorkerMessage::Other(message) => message,
            WorkerMessage::Metrics(_) | WorkerMessage::Action(_) | WorkerMessage::Options(_) => return,
        };
        let at_ms = super::clock::wall_ms();
        let event = MessageEvent { at_ms, app: name, pm_id, message };
        let name = event.app.clone();
        self.hub.publish(&name, Some(pm_id), &DaemonEvent::Message(event));
    }

    fn on_action_done(&mut self, app: AppId, worker: WorkerId, action: &str, result: Value) {
        let is_it = |trigger: &Trigger| {
            trigger.app == app
                && trigger.worker == worker
                && trigger.action == action
                && !trigger.done.is_closed()
        };
        if let Some(index) = self.triggers.iter().position(is_it) {
            // A client that has gone needs no answer.
            let _gone = self.triggers.remove(index).done.send(result);
        }
    }

    /// A worker's process has ended: it answers nothing any more.
    pub(crate) fn forget_triggers(&mut self, app: AppId, worker: WorkerId) {
        self.triggers.retain(|trigger| trigger.app != app || trigger.worker != worker);
    }

    fn trigger(
        &mut self,
        request: &TriggerRequest,
        partners: Vec<Partner>,
        apps: &mut Apps,
        reply: Reply<WorkersReply>,
        now: Time,
    ) {
        self.triggers.retain(|trigger| !trigger.done.is_closed());
        if self.triggers.len() + partners.len() > TRIGGERS_MAX {
            let error = format!("more than {TRIGGERS_MAX} actions wait for an answer");
            return answer(reply, Err(refuse(ErrorCode::Conflict, &error, None)));
        }
        let line = worker_message::order(&request.action, request.params.as_ref());
        let mut waiting = Vec::with_capacity(partners.len());
        for partner in partners {
            waiting.push(self.begin_action(&partner, (&request.action, &line), apps, now));
        }
        let timeout = Duration::from_millis(request.timeout_ms);
        tokio::task::spawn_local(async move {
            let deadline = tokio::time::Instant::now() + timeout;
            let mut workers = Vec::with_capacity(waiting.len());
            for (mut worker, result) in waiting {
                if let Some(result) = result {
                    match tokio::time::timeout_at(deadline, result).await {
                        Ok(Ok(result)) => worker.result = Some(result),
                        Ok(Err(_)) => worker.error = Some("it ended before it answered".to_owned()),
                        Err(_) => {
                            worker.error =
                                Some(format!("it did not answer within {} ms", timeout.as_millis()));
                        }
                    }
                }
                workers.push(worker);
            }
            answer(reply, Ok(WorkersReply { workers }));
        });
    }

    fn begin_action(
        &mut self,
        partner: &Partner,
        (action, line): (&str, &[u8]),
        apps: &mut Apps,
        now: Time,
    ) -> (WorkerReply, Option<oneshot::Receiver<Value>>) {
        let refused = |error: String| {
            (
                WorkerReply {
                    app: partner.name.clone(),
                    pm_id: partner.pm_id,
                    error: Some(error),
                    result: None,
                },
                None,
            )
        };
        let Some(worker) = partner.worker else { return refused("it does not run".to_owned()) };
        if let Err(fault) = knows_action(apps.get(&partner.app), worker, action) {
            return refused(fault);
        }
        let reply = send_message(apps, partner, line, now);
        if reply.error.is_some() {
            return (reply, None);
        }
        let (done, result) = oneshot::channel();
        let action = action.to_owned();
        self.triggers.push(Trigger { app: partner.app, worker, action, done });
        (reply, Some(result))
    }
}

impl Roster<'_> {
    /// The workers that targets mean.
    fn partners(self, targets: &[String]) -> Result<Vec<Partner>, ErrorReply> {
        let selection = self.select(targets)?;
        let of_app = |(app, slots): (AppId, Vec<u16>)| {
            let entry = self.apps.get(&app)?;
            let partner = |slot: u16| {
                let place = entry.places.get(&slot)?;
                let worker = entry.current(slot).filter(|process| process.ended.is_none());
                let worker = worker.map(|process| process.worker);
                Some(Partner { app, name: entry.spec().name.to_string(), pm_id: place.pm_id, worker })
            };
            Some(slots.into_iter().filter_map(partner).collect::<Vec<_>>())
        };
        let mut partners: Vec<Partner> = selection.into_iter().filter_map(of_app).flatten().collect();
        partners.sort_by_key(|partner| partner.pm_id);
        Ok(partners)
    }

    fn environment(self, target: &str, show_secrets: bool) -> Result<EnvironmentReply, ErrorReply> {
        let selection = self.select(&[target.to_owned()])?;
        let shown = |(name, value): (&String, &String)| {
            let value = if show_secrets { value } else { shown_value(name, value) };
            (name.clone(), value.to_owned())
        };
        let apps = selection.keys().filter_map(|app| self.apps.get(app));
        let of_app = |entry: &App| {
            (entry.spec().name.to_string(), entry.spec().launch.env.iter().map(shown).collect())
        };
        Ok(EnvironmentReply { apps: apps.map(of_app).collect() })
    }
}

fn send_message(apps: &mut Apps, partner: &Partner, line: &[u8], now: Time) -> WorkerReply {
    let error = match (partner.worker, apps.get_mut(partner.app)) {
        (Some(worker), Some(entry)) => {
            entry.primary.send_message(worker, line, now).err().map(|refused| refused.to_string())
        }
        _ => Some("it does not run".to_owned()),
    };
    WorkerReply { app: partner.name.clone(), pm_id: partner.pm_id, error, result: None }
}

fn knows_action(entry: Option<&App>, worker: WorkerId, action: &str) -> Result<(), String> {
    let process = entry.and_then(|entry| {
        let (slot, generation) = entry.find_worker(worker)?;
        entry.process(slot, generation)
    });
    let actions = process.map(|process| process.reports.actions.as_slice()).unwrap_or_default();
    if actions.iter().any(|known| known.action_name == action) {
        return Ok(());
    }
    let own = actions.iter().filter(|known| !known.action_name.starts_with("km:"));
    let names: Vec<&str> = own.map(|known| known.action_name.as_str()).collect();
    Err(match names.as_slice() {
        [] => format!("it has no action `{action}`: it has registered none with `@pm2/io`"),
        names => format!("it has no action `{action}`; it has {}", names.join(", ")),
    })
}
