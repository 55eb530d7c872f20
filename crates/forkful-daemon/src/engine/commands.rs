//! What clients ask for, turned into events of slots.

use std::collections::BTreeMap;
use std::rc::Rc;

use forkful_api::definition::changes;
use forkful_api::types::{
    ActionReply, ActionRequest, AppDefinition, AppList, ErrorCode, ErrorReply, StartRequest,
};
use forkful_core::slot::{self, Verb as SlotVerb};
use forkful_core::spec::{AppSpec, RunningSince, may_stay};
use forkful_core::supervisor::{Event, FirstStates, ReloadOrder, Whom};
use tokio::sync::oneshot;

use super::app::{AppId, Place};
use super::jobs::JobId;
use super::resolve::Resolved;
use super::{Engine, Phase};
use crate::command::{Command, Keep, Reply, Verb};

impl Engine {
    /// Takes one command; its answer comes now or later through its own channel.
    pub(crate) fn on_command(&mut self, command: Command) {
        match command {
            Command::Keep(Keep::Resurrect { reply, .. })
            | Command::Start { reply, .. }
            | Command::Action { verb: Verb::Restart | Verb::Reload | Verb::Scale, reply, .. }
                if self.phase != Phase::Serving =>
            {
                refuse_at_the_end(reply);
            }
            Command::Apply { reply, .. } if self.phase != Phase::Serving => refuse_at_the_end(reply),
            Command::Start { request, reply } => self.start(request, reply),
            Command::Apply { request, reply } => self.apply(request, reply),
            Command::Keep(Keep::Save { request, reply }) => self.save(&request, reply),
            Command::Keep(Keep::Resurrect { request, reply }) => self.resurrect(request, reply),
            Command::Keep(Keep::Rewrite) => self.rewrite_home(),
            Command::Keep(Keep::Clear { reply }) => self.clear_saved(reply),
            Command::Action { verb, request, reply } => self.action(verb, request, reply),
            Command::List { .. } | Command::Table { .. } | Command::Describe { .. } => self.look(command),
            Command::Logs { query, reply } => {
                let lines = self.logs_for(&query);
                answer(reply, lines);
            }
            Command::Talk(talk) => self.talk(talk),
            Command::Kill { reply } => self.kill(Some(reply)),
        }
        self.finish_jobs();
    }

    /// Answers what asks for the state of workers.
    pub(super) fn answer_look(&mut self, command: Command) {
        match command {
            Command::List { measure, reply } => {
                if measure {
                    self.measure_loops();
                }
                answer(reply, Ok(self.list()));
            }
            Command::Table { reply } => answer(reply, Ok(self.table())),
            Command::Describe { target, reply } => self.describe(&target, reply),
            other => self.on_command(other),
        }
    }

    fn start(&mut self, request: StartRequest, reply: Reply<ActionReply>) {
        let Resolved { selection, mut specs, new } = match self.resolve_start(request.apps, request.stopped) {
            Ok(resolved) => resolved,
            Err(refusal) => return answer(reply, Err(refusal)),
        };
        let (waiting, at_once) = if request.wait { (Some(reply), None) } else { (None, Some(reply)) };
        let job = self.new_job(waiting, |reply| reply);
        for (app, slots) in self.in_order(selection) {
            self.join(job, app);
            self.supervise(app, Event::Restart { slots, spec: specs.remove(&app), job });
        }
        for spec in new {
            let stopped = request.stopped.then(|| (0..spec.instances).collect());
            self.create_with(spec, job, FirstStates { stopped, finished: Vec::new() });
        }
        self.answer_at_once(job, at_once);
    }

    fn action(&mut self, verb: Verb, mut request: ActionRequest, reply: Reply<ActionReply>) {
        let mut forgotten = Vec::new();
        if verb == Verb::Delete {
            forgotten = self.forget_carried(&mut request.targets);
            if request.targets.is_empty() && !forgotten.is_empty() {
                let job = self.new_job(Some(reply), |reply| reply);
                return self.note_all_known(job, forgotten);
            }
        }
        let Resolved { selection, mut specs, new } = match self.resolve(&mut request) {
            Ok(resolved) => resolved,
            Err(refusal) => return answer(reply, Err(refusal)),
        };
        let (waiting, at_once) = if request.wait { (Some(reply), None) } else { (None, Some(reply)) };
        let job = self.new_job(waiting, |reply| reply);
        self.note_all_known(job, forgotten);
        if let Some(verb) = ending(verb) {
            self.stop_in_order(selection.into_iter().collect(), verb, job);
            return self.answer_at_once(job, at_once);
        }
        for (app, slots) in self.in_order(selection) {
            self.join(job, app);
            let spec = specs.remove(&app);
            let code_changed_ms = self.code_changed_ms(app, &request.code_changed_at_ms);
            if verb == Verb::Reload && self.leave_alone(app, spec.as_deref(), code_changed_ms, job) {
                continue;
            }
            self.tell_changes(job, app, spec.as_deref());
            match verb {
                Verb::Stop | Verb::Delete => {}
                Verb::Restart => self.supervise(app, Event::Restart { slots, spec, job }),
                Verb::Reload => self.order_reload(app, &slots, spec, job),
                Verb::Scale => {
                    let instances = request.instances.unwrap_or(1);
                    self.supervise(app, Event::Scale { instances, job });
                }
                Verb::Signal => self.signal(app, &slots, request.signal.unwrap_or(15), job),
                Verb::Flush => self.flush(app, &slots, job),
                Verb::ReloadLogs => self.reopen_logs(app, job),
                Verb::Reset => {
                    for slot in slots {
                        self.feed(app, slot, slot::Event::Reset);
                    }
                }
            }
        }
        for spec in new {
            let app = self.create(spec, job);
            if let Some(part) = self.part(job, app) {
                part.started = true;
            }
        }
        self.answer_at_once(job, at_once);
    }

    fn code_changed_ms(&self, app: AppId, times: &BTreeMap<String, u64>) -> Option<u64> {
        times.get(self.apps.get(&app)?.spec().name.as_str()).copied()
    }

    /// Leaves an app alone that a configuration file has not changed; says whether it did.
    fn leave_alone(
        &mut self,
        app: AppId,
        spec: Option<&AppSpec>,
        code_changed_ms: Option<u64>,
        job: JobId,
    ) -> bool {
        let (Some(entry), Some(spec)) = (self.apps.get(&app), spec) else { return false };
        let oldest_start_ms = entry.oldest_start_ms();
        let since = RunningSince { oldest_start_ms, code_changed_ms };
        if !may_stay(entry.spec(), spec, since) {
            return false;
        }
        let pm_ids: Vec<u32> = entry.places.values().map(|place| place.pm_id).collect();
        let instances = spec.instances;
        if let Some(part) = self.part(job, app) {
            part.unchanged = true;
            part.pm_ids = pm_ids;
            part.note("neither its definition nor its code has changed; `--force` reloads it".to_owned());
        }
        self.supervise(app, Event::ScaleAsDefined { instances, job });
        true
    }

    /// What a configuration file has changed about an app.
    fn tell_changes(&mut self, job: JobId, app: AppId, spec: Option<&AppSpec>) {
        let (Some(entry), Some(spec)) = (self.apps.get(&app), spec) else { return };
        let told = changes(&AppDefinition::from(entry.spec()), &AppDefinition::from(spec));
        if let Some(part) = self.part(job, app) {
            told.into_iter().for_each(|change| part.note(change));
        }
    }

    fn signal(&mut self, app: AppId, slots: &[u16], signal: i32, job: JobId) {
        let Some(entry) = self.apps.get(&app) else { return };
        let mut notes = Vec::new();
        for slot in slots {
            let Some(place) = entry.places.get(slot) else { continue };
            let record = entry.supervisor.slot(*slot);
            match record.and_then(|record| place.current(record)) {
                Some(process) => {
                    if let Err(error) = process.child.signal(signal) {
                        notes.push(format!("worker {}: {error}", place.pm_id));
                    }
                }
                None => notes.push(format!("worker {} does not run", place.pm_id)),
            }
        }
        if let Some(part) = self.part(job, app) {
            for note in notes {
                part.note(note);
            }
        }
    }

    /// All log files of all apps are opened anew, whichever apps were named.
    pub(crate) fn reopen_logs(&mut self, app: AppId, job: JobId) {
        let done = self.logs.reopen();
        self.await_logs(app, job, done);
    }

    fn flush(&mut self, app: AppId, slots: &[u16], job: JobId) {
        let Some(entry) = self.apps.get(&app) else { return };
        let mut paths: Vec<_> =
            slots.iter().filter_map(|slot| entry.places.get(slot)).flat_map(Place::all_log_paths).collect();
        paths.sort();
        paths.dedup();
        let done = self.logs.flush(paths);
        self.await_logs(app, job, done);
    }

    /// Completes the app's part of a job when the log service has answered.
    fn await_logs(&mut self, app: AppId, job: JobId, done: oneshot::Receiver<Result<(), String>>) {
        self.expect_answer(job, app);
        let back = self.back.clone();
        tokio::task::spawn_local(async move {
            let fault = match done.await {
                Ok(Ok(())) => None,
                Ok(Err(fault)) => Some(fault),
                Err(_) => Some("the log service has ended".to_owned()),
            };
            // The engine is gone only when the daemon ends.
            let _gone = back.send(super::Back::Flushed { job, app, fault });
        });
    }

    /// Stops everything, and then the daemon itself.
    pub(crate) fn kill(&mut self, reply: Option<Reply<ActionReply>>) {
        self.phase = Phase::Closing;
        let job = self.new_job(reply, |reply| reply);
        if let Some(job) = self.jobs.get_mut(&job) {
            job.ends_daemon = true;
        }
        let all = self.apps.iter().map(|(id, entry)| (*id, entry.places.keys().copied().collect()));
        self.stop_in_order(all.collect(), SlotVerb::Delete, job);
    }

    pub(super) fn list(&mut self) -> AppList {
        let ids: Vec<AppId> = self.apps.keys().copied().collect();
        AppList { apps: ids.into_iter().filter_map(|id| self.view(id)).collect(), notes: self.notes() }
    }

    fn describe(&mut self, target: &str, reply: Reply<AppList>) {
        let selection = match self.select(&[target.to_owned()]) {
            Ok(selection) => selection,
            Err(refusal) => return answer(reply, Err(refusal)),
        };
        let mut apps: Vec<_> = selection.keys().filter_map(|id| self.view(*id)).collect();
        let tails: Vec<Vec<_>> = apps
            .iter()
            .map(|app| app.workers.iter().map(|worker| self.logs.stderr_tail(worker.pm_id)).collect())
            .collect();
        let mut ended = self.ended_tails();
        tokio::task::spawn_local(async move {
            for (app, tails) in apps.iter_mut().zip(tails) {
                for (worker, tail) in app.workers.iter_mut().zip(tails) {
                    worker.stderr_tail = tail.await.unwrap_or_default();
                    if worker.stderr_tail.is_empty() {
                        worker.stderr_tail = ended.remove(&worker.pm_id).unwrap_or_default();
                    }
                }
            }
            answer(reply, Ok(AppList { apps, notes: Vec::new() }));
        });
    }

    /// What the processes that ended last wrote, by the worker's id: what a process that has written nothing itself is
    /// described with.
    fn ended_tails(&mut self) -> BTreeMap<u32, Vec<String>> {
        let places = self.apps.values_mut().flat_map(|entry| entry.places.values_mut());
        places.map(|place| (place.pm_id, place.exit_tail.lines().to_vec())).collect()
    }

    fn order_reload(&mut self, app: AppId, slots: &[u16], spec: Option<Rc<AppSpec>>, job: JobId) {
        let Some(entry) = self.apps.get(&app) else { return };
        let whom = match slots {
            [slot] if entry.places.len() > 1 => Whom::Slot(*slot),
            _ => Whom::All,
        };
        self.supervise(app, Event::Reload(ReloadOrder { job: Some(job), spec, whom }));
    }
}

/// What ends workers, in the order in which apps depend on each other.
fn ending(verb: Verb) -> Option<SlotVerb> {
    match verb {
        Verb::Stop => Some(SlotVerb::Stop),
        Verb::Delete => Some(SlotVerb::Delete),
        Verb::Restart
        | Verb::Reload
        | Verb::Scale
        | Verb::Signal
        | Verb::Flush
        | Verb::ReloadLogs
        | Verb::Reset => None,
    }
}

/// Refuses what would start something while the daemon is ending.
fn refuse_at_the_end<T>(reply: Reply<T>) {
    let hint = Some("try again when it has ended".to_owned());
    answer(reply, Err(refuse(ErrorCode::Conflict, "the daemon is ending", hint)));
}

pub(crate) fn refuse(code: ErrorCode, error: &str, hint: Option<String>) -> ErrorReply {
    ErrorReply { code, error: error.to_owned(), hint }
}

/// A client that has gone needs no answer.
pub(crate) fn answer<T>(reply: Reply<T>, result: Result<T, ErrorReply>) {
    let _gone = reply.send(result);
}
