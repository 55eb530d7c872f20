//! Between workers and those who watch or speak with them: steps of their lives and their messages are
//! published, messages and actions delivered.

use std::collections::HashMap;
use std::time::Duration;

use forkful_api::conversation::{
    DaemonEvent, EnvironmentReply, LifeStep, MessageEvent, MessageRequest, ProcessEvent, TriggerRequest,
    WorkerReply, WorkersReply,
};
use forkful_api::jlist;
use forkful_api::types::{ErrorCode, ErrorReply};
use forkful_cluster::WorkerId;
use forkful_cluster::protocol::incoming::{is_log4js, is_report};
use forkful_core::slot::{Generation, Outcome, Report, Verb as SlotVerb};
use forkful_core::spec::environment::shown_value;
use forkful_core::supervisor::{Answer, Asked};
use serde_json::Value;
use tokio::sync::oneshot;

use super::Engine;
use super::app::AppId;
use super::commands::{answer, refuse};
use crate::command::{Reply, Talk};
use crate::events::Hub;
use crate::worker_message::{self, WorkerMessage};

/// Actions that wait for an answer; a bound on what clients can leave behind.
const TRIGGERS_MAX: usize = 1024;

/// What the engine keeps for this.
#[derive(Debug, Default)]
pub(crate) struct Conversations {
    hub: Hub,
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

impl Engine {
    /// Serves a client that watches or speaks.
    pub(crate) fn talk(&mut self, talk: Talk) {
        match talk {
            Talk::Watch { query, reply } => {
                let subscription = self.conversations.hub.subscribe(&query);
                self.hear_messages();
                answer(reply, Ok(subscription));
            }
            Talk::Message { request, reply } => {
                let replied = self.send_messages(&request);
                answer(reply, replied);
            }
            Talk::Trigger { request, reply } => self.trigger(&request, reply),
            Talk::Stdin { request, reply } => self.write_stdin(request, reply),
            Talk::Environment { target, show_secrets, reply } => {
                let environment = self.environment(&target, show_secrets);
                answer(reply, environment);
            }
        }
    }

    /// Has channels read what somebody wants to know, and nothing else.
    pub(crate) fn hear_messages(&mut self) {
        let wanted = self.conversations.hub.wants_messages();
        for entry in self.apps.values_mut() {
            entry.primary.hear_messages(wanted);
        }
    }

    /// A slot has answered.
    pub(crate) fn publish_answer(&mut self, app: AppId, answer: &Answer) {
        let step = match answer.asked {
            Asked::Job(_, SlotVerb::Start) => LifeStep::Start,
            Asked::Job(_, SlotVerb::Restart) => LifeStep::Restart,
            Asked::Reload | Asked::Job(_, SlotVerb::Replace) => LifeStep::Reload,
            Asked::Job(_, SlotVerb::Stop) => LifeStep::Stop,
            Asked::Job(_, SlotVerb::Delete | SlotVerb::Retire) => LifeStep::Delete,
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
            self.publish_step(app, answer.slot, step, true);
        }
    }

    /// The core reports of a slot.
    pub(crate) fn publish_report(&mut self, app: AppId, slot: u16, report: &Report) {
        match report {
            Report::Online { generation, .. } => {
                let Some(pm_id) = self.pm_id(app, slot) else { return };
                // It is reported again when a process that was taken for ready confirms it.
                if self.conversations.online.insert(pm_id, *generation) != Some(*generation) {
                    self.publish_step(app, slot, LifeStep::Online, false);
                }
            }
            Report::Exited { .. } => self.publish_step(app, slot, LifeStep::Exit, false),
            Report::GaveUp { .. } => self.publish_step(app, slot, LifeStep::RestartOverlimit, false),
            Report::StartFailed { .. }
            | Report::Replaced { .. }
            | Report::ReplaceFailed { .. }
            | Report::Stopped
            | Report::RestartScheduled { .. }
            | Report::Killed(_)
            | Report::Left { .. } => {}
        }
    }

    fn publish_step(&mut self, app: AppId, slot: u16, event: LifeStep, manually: bool) {
        if let (LifeStep::Delete, Some(pm_id)) = (event, self.pm_id(app, slot)) {
            self.conversations.online.remove(&pm_id);
        }
        if !self.conversations.hub.is_watched() {
            return;
        }
        let Some(view) = self.view_slot(app, slot) else { return };
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
        self.conversations.hub.publish(&name, pm_id, &DaemonEvent::Process(Box::new(event)));
    }

    pub(super) fn pm_id(&self, app: AppId, slot: u16) -> Option<u32> {
        self.apps.get(&app).and_then(|entry| entry.places.get(&slot)).map(|place| place.pm_id)
    }

    /// A worker said something.
    pub(crate) fn on_message(&mut self, app: AppId, worker: WorkerId, line: &[u8]) {
        let is_for_another = is_log4js(line) && self.on_log4js(app, worker, line);
        if is_for_another && !self.conversations.hub.wants_messages() {
            return;
        }
        if !is_report(line) && !self.conversations.hub.wants_messages() {
            // The last one who wanted to know has gone.
            return self.hear_messages();
        }
        let Some(entry) = self.apps.get_mut(&app) else { return };
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
        self.conversations.hub.publish(&name, pm_id, &DaemonEvent::Message(event));
    }

    fn on_action_done(&mut self, app: AppId, worker: WorkerId, action: &str, result: Value) {
        let is_it = |trigger: &Trigger| {
            trigger.app == app
                && trigger.worker == worker
                && trigger.action == action
                && !trigger.done.is_closed()
        };
        if let Some(index) = self.conversations.triggers.iter().position(is_it) {
            // A client that has gone needs no answer.
            let _gone = self.conversations.triggers.remove(index).done.send(result);
        }
    }

    /// A worker's process has ended: it answers nothing any more.
    pub(crate) fn forget_triggers(&mut self, app: AppId, worker: WorkerId) {
        self.conversations.triggers.retain(|trigger| trigger.app != app || trigger.worker != worker);
    }

    pub(crate) fn partners(&self, targets: &[String]) -> Result<Vec<Partner>, ErrorReply> {
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

    fn send_messages(&mut self, request: &MessageRequest) -> Result<WorkersReply, ErrorReply> {
        let line = request.message.to_string();
        let partners = self.partners(&request.targets)?;
        let workers =
            partners.into_iter().map(|partner| self.send_message(&partner, line.as_bytes())).collect();
        Ok(WorkersReply { workers })
    }

    fn send_message(&mut self, partner: &Partner, line: &[u8]) -> WorkerReply {
        let now = self.clock.now();
        let error = match (partner.worker, self.apps.get_mut(&partner.app)) {
            (Some(worker), Some(entry)) => {
                entry.primary.send_message(worker, line, now).err().map(|refused| refused.to_string())
            }
            _ => Some("it does not run".to_owned()),
        };
        WorkerReply { app: partner.name.clone(), pm_id: partner.pm_id, error, result: None }
    }

    fn trigger(&mut self, request: &TriggerRequest, reply: Reply<WorkersReply>) {
        let partners = match self.partners(&request.targets) {
            Ok(partners) => partners,
            Err(refusal) => return answer(reply, Err(refusal)),
        };
        self.conversations.triggers.retain(|trigger| !trigger.done.is_closed());
        if self.conversations.triggers.len() + partners.len() > TRIGGERS_MAX {
            let error = format!("more than {TRIGGERS_MAX} actions wait for an answer");
            return answer(reply, Err(refuse(ErrorCode::Conflict, &error, None)));
        }
        let line = worker_message::order(&request.action, request.params.as_ref());
        let mut waiting = Vec::with_capacity(partners.len());
        for partner in partners {
            waiting.push(self.begin_action(&partner, &request.action, &line));
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
        action: &str,
        line: &[u8],
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
        if let Err(fault) = self.knows_action(partner.app, worker, action) {
            return refused(fault);
        }
        let reply = self.send_message(partner, line);
        if reply.error.is_some() {
            return (reply, None);
        }
        let (done, result) = oneshot::channel();
        let action = action.to_owned();
        self.conversations.triggers.push(Trigger { app: partner.app, worker, action, done });
        (reply, Some(result))
    }

    fn knows_action(&self, app: AppId, worker: WorkerId, action: &str) -> Result<(), String> {
        let entry = self.apps.get(&app);
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

    fn environment(&self, target: &str, show_secrets: bool) -> Result<EnvironmentReply, ErrorReply> {
        let selection = self.select(&[target.to_owned()])?;
        let shown = |(name, value): (&String, &String)| {
            let value = if show_secrets { value } else { shown_value(name, value) };
            (name.clone(), value.to_owned())
        };
        let apps = selection.keys().filter_map(|app| self.apps.get(app));
        let of_app = |entry: &super::app::App| {
            (entry.spec().name.to_string(), entry.spec().launch.env.iter().map(shown).collect())
        };
        Ok(EnvironmentReply { apps: apps.map(of_app).collect() })
    }
}
