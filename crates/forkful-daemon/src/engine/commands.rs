//! Converts clients' commands to events of slots.

use std::rc::Rc;

use forkful_api::definition::changes;
use forkful_api::types::{
    ActionReply, ActionRequest, AppDefinition, AppList, AppTable, Deployment, ErrorCode, ErrorReply, FixNote,
    StartRequest,
};
use forkful_core::doctor::Course;
use forkful_core::pages::{Hint, Page};
use forkful_core::request::{Refusal, Selection, check_deletion, in_order};
use forkful_core::slot::{self, Verb as SlotVerb};
use forkful_core::spec::{AppSpec, RunningSince, may_stay};
use forkful_core::supervisor::{Event, FirstStates, ReloadOrder, Whom, dependents_of, others_of};
use forkful_core::words::shell_word;
use tokio::sync::oneshot;

use super::app::AppId;
use super::clock::wall_ms;
use super::exit_tail::{Tail, known_secrets};
use super::jobs::JobId;
use super::metrics::metrics_page;
use super::resolve::{Resolved, oversubscription_by};
use super::start_plan::StartPlan;
use super::targets::Roster;
use super::{Engine, Phase};
use crate::command::{Command, Keep, Reply, Verb};
use crate::history::HistoryOrder;

impl Engine {
    /// Handles a command; its answer is sent now or later through its channel.
    pub(crate) fn on_command(&mut self, command: Command) {
        match command {
            Command::Keep(Keep::Resurrect { reply, .. })
            | Command::Start { reply, .. }
            | Command::Action { verb: Verb::Restart | Verb::Reload | Verb::Scale, reply, .. }
                if self.life.phase != Phase::Serving =>
            {
                refuse_at_the_end(reply);
            }
            Command::Apply { reply, .. } if self.life.phase != Phase::Serving => refuse_at_the_end(reply),
            // An ending daemon saves nothing more, so it accepts no command whose result would have to be saved.
            Command::Action { verb: Verb::Stop | Verb::Delete, reply, .. }
                if self.life.phase == Phase::Closing =>
            {
                refuse_at_the_end(reply);
            }
            Command::Keep(Keep::Save { reply, .. }) if self.life.phase == Phase::Closing => {
                refuse_at_the_end(reply);
            }
            Command::Start { request, reply } => self.start(request, reply),
            Command::Apply { request, reply } => {
                let roster = Roster::of(&self.apps, self.persistence.as_ref());
                self.plans.begin(request, reply, (roster, self.clock.now()), &self.inbox.back);
            }
            Command::Keep(keep) => self.keep(keep),
            Command::Action { verb, request, reply } => self.action(verb, request, reply),
            Command::Describe { target, brief: true, reply } => answer(reply, self.found(&target)),
            Command::List { .. }
            | Command::Table { .. }
            | Command::Describe { .. }
            | Command::Stalls { .. }
            | Command::Probe { .. } => {
                let (concerned, now) = (self.concerned(&command), self.clock.now());
                self.measure_for(&command, &concerned);
                self.looks.begin(command, &mut self.apps, &concerned, now);
                self.finish_looks();
            }
            Command::Metrics { target, format, reply } => {
                let now = self.clock.now();
                let chosen = self.measured(target.as_ref()).unwrap_or_default();
                self.apps.ask_for_metrics(&chosen, now);
                self.looks.begin_scrape(Command::Metrics { target, format, reply }, now);
                self.finish_looks();
            }
            Command::History { target, reply } => answer(reply, self.history(&target)),
            Command::Logs { query, reply } => answer(reply, self.roster().logs_for(&query, &self.logs)),
            Command::Talk(talk) => {
                let (persistence, now) = (self.persistence.as_ref(), self.clock.now());
                self.conversations.serve(talk, &mut self.apps, persistence, now);
            }
            Command::Kill { reply } => self.kill(Some(reply)),
        }
        self.finish_jobs();
    }

    /// The apps of a metrics page.
    fn measured(&self, target: Option<&String>) -> Result<Vec<AppId>, ErrorReply> {
        match target {
            Some(target) => Ok(self.roster().select(std::slice::from_ref(target))?.into_keys().collect()),
            None => Ok(self.apps.keys().copied().collect()),
        }
    }

    /// Lets the agents report while clients need it. A worker handles the order before it answers a probe of
    /// its event loop, so the first reply already has a report.
    fn measure_for(&mut self, command: &Command, concerned: &[AppId]) {
        let now = self.clock.now();
        let closely = matches!(command, Command::Describe { brief: false, .. });
        if closely || matches!(command, Command::List { measure: true, .. }) {
            for app in concerned {
                if let Some(entry) = self.apps.get_mut(*app) {
                    entry.measure(closely, now);
                }
            }
        }
    }

    /// The apps whose workers a command is about.
    fn concerned(&self, command: &Command) -> Vec<AppId> {
        match command {
            Command::Describe { target, .. }
            | Command::Stalls { target, .. }
            | Command::List { target: Some(target), .. } => {
                let selection = self.roster().select(std::slice::from_ref(target));
                selection.unwrap_or_default().into_keys().collect()
            }
            _ => self.apps.keys().copied().collect(),
        }
    }

    /// What is known of the apps that a target means.
    fn found(&mut self, target: &str) -> Result<AppList, ErrorReply> {
        let selection = self.roster().select(&[target.to_owned()])?;
        let (now, logs) = (self.clock.now(), &self.logs);
        let view = |id: &AppId| Some(self.apps.get_mut(*id)?.view(None, now, logs));
        Ok(AppList { apps: selection.keys().filter_map(view).collect(), notes: Vec::new() })
    }

    /// Answers commands that read the state of workers.
    pub(super) fn answer_look(&mut self, command: Command) {
        match command {
            Command::List { target: None, reply, .. } => answer(reply, Ok(self.list())),
            Command::List { target: Some(target), reply, .. } => answer(reply, self.list_of(&target)),
            Command::Table { reply } => answer(reply, Ok(self.table())),
            Command::Describe { target, reply, .. } => self.describe(&target, reply),
            Command::Stalls { target, reply } => {
                let selection = self.roster().select(&[target]);
                answer(reply, self.apps.stalls(selection, self.clock.now()));
            }
            Command::Probe { probe, reply } => {
                let (is_stopping, now) = (self.life.stop.is_some(), self.clock.now());
                answer(reply, Ok(self.looks.probe(probe, &self.apps, is_stopping, now)));
            }
            Command::Metrics { target, format, reply } => {
                let (chosen, now) = (self.measured(target.as_ref()), self.clock.now());
                let page =
                    |chosen: Vec<AppId>| metrics_page(&mut self.apps, &self.logs, &chosen, format, now);
                answer(reply, chosen.map(page));
            }
            other => self.on_command(other),
        }
    }

    fn start(&mut self, request: StartRequest, reply: Reply<ActionReply>) {
        let (wait, are_made_stopped) = (request.wait, request.stopped);
        let StartPlan { resolved, meanings, refused } = match self.roster().plan_start(request) {
            Ok(plan) => plan,
            Err(refusal) => return answer(reply, Err(refusal)),
        };
        let Resolved { selection, mut specs, new, warnings } = resolved;
        // Without targets, a definition says all of an app: its changes are no news.
        let tells_changes = !meanings.is_empty();
        let (waiting, at_once) = if wait { (Some(reply), None) } else { (None, Some(reply)) };
        let job = self.jobs.begin(waiting);
        self.jobs.note_all_known(job, refused);
        self.jobs.explain(job, meanings, warnings);
        for (app, slots) in in_order(&self.apps, selection) {
            self.jobs.join(job, app, &self.apps);
            let spec = specs.remove(&app);
            self.begin_trial_part(job, app, None, (Course::AtOnce, spec.is_some()));
            if tells_changes {
                self.tell_changes(job, app, spec.as_deref());
                self.order(app, Event::Restart { slots, spec, job }, job);
            } else {
                self.supervise(app, Event::Restart { slots, spec, job });
            }
        }
        for spec in new {
            let stopped = are_made_stopped.then(|| (0..spec.instances).collect());
            self.create(spec, job, FirstStates { stopped, ..FirstStates::default() });
        }
        self.jobs.answer_at_once(job, at_once);
    }

    fn action(&mut self, verb: Verb, mut request: ActionRequest, reply: Reply<ActionReply>) {
        let missing = self.roster().take_optional(&mut request);
        let carried = self.take_carried(verb, &mut request.targets);
        if request.targets.is_empty() && !carried.is_empty() {
            let job = self.jobs.begin(Some(reply));
            return self.forget_carried(job, &carried);
        }
        let Resolved { selection, mut specs, new, warnings } = match self.roster().resolve(&mut request) {
            Ok(resolved) => resolved,
            Err(refusal) => return answer(reply, Err(refusal)),
        };
        let may_be_done = self.check_ending(verb, &selection);
        let may_be_done = may_be_done.and_then(|()| self.apps.check_trial(&selection, request.fix.as_ref()));
        let mut scaled = match may_be_done.and_then(|()| self.apps.scaled(&selection, request.instances)) {
            Ok(scaled) => scaled,
            Err(refusal) => return answer(reply, Err(refusal)),
        };
        let (waiting, at_once) = if request.wait { (Some(reply), None) } else { (None, Some(reply)) };
        let job = self.jobs.begin(waiting);
        self.forget_carried(job, &carried);
        self.jobs.explain(job, Vec::new(), [warnings, missing].concat());
        if let Some(verb) = ending(verb) {
            self.stop_in_order(selection, verb, job);
            return self.jobs.answer_at_once(job, at_once);
        }
        let mut reopened = Vec::new();
        for (app, slots) in in_order(&self.apps, selection) {
            self.jobs.join(job, app, &self.apps);
            let spec = specs.remove(&app);
            let alone =
                spec.as_deref().filter(|spec| verb == Verb::Reload && self.stays(app, spec, &request));
            let is_reload = verb == Verb::Reload && alone.is_none() && !self.starts_after_others(app);
            let course = if is_reload { Course::ByReload(None) } else { Course::AtOnce };
            let gives_settings = spec.is_some() || verb == Verb::Scale;
            self.begin_trial_part(job, app, request.fix.as_ref(), (course, gives_settings));
            if let Some(spec) = alone {
                self.leave_alone(app, spec, job);
                continue;
            }
            self.tell_changes(job, app, spec.as_deref());
            self.note_deployment(app, request.deployment.as_ref());
            match verb {
                Verb::Stop | Verb::Delete | Verb::KeepFix => {}
                Verb::Restart => self.order(app, Event::Restart { slots, spec, job }, job),
                Verb::Reload => self.order_reload(app, &slots, spec, job),
                Verb::Scale => {
                    let Some(scaled) = scaled.remove(&app) else { continue };
                    self.jobs.note_scaled(job, app, scaled);
                    self.jobs.note(job, app, oversubscription_by(scaled));
                    self.note_stopped(job, app, scaled.to);
                    self.order(app, Event::Scale { instances: scaled.to, job }, job);
                }
                Verb::Signal => self.signal(app, &slots, request.signal.unwrap_or(15), job),
                Verb::Flush => self.flush(app, &slots, job),
                Verb::ReloadLogs => reopened.push(app),
                Verb::Reset => self.reset(app, &slots),
            }
        }
        self.reopen_logs(reopened, job);
        for spec in new {
            let app = self.create(spec, job, FirstStates::default());
            self.note_deployment(app, request.deployment.as_ref());
            if let Some(part) = self.jobs.part(job, app) {
                part.started = true;
            }
        }
        self.jobs.answer_at_once(job, at_once);
    }

    /// Sets the counters that lists show to 0.
    fn reset(&mut self, app: AppId, slots: &[u16]) {
        if let Some(entry) = self.apps.get_mut(app) {
            entry.count_before_reset(slots, &self.logs);
        }
        slots.iter().for_each(|slot| self.feed(app, *slot, slot::Event::Reset));
    }

    /// Whether no remaining app needs what a command deletes.
    fn check_ending(&self, verb: Verb, selection: &Selection) -> Result<(), ErrorReply> {
        if verb != Verb::Delete {
            return Ok(());
        }
        check_deletion(&self.apps, selection).map_err(|fault| ErrorReply::from(Refusal::Needs(fault)))
    }

    /// The stored history of the first app matched by a target.
    fn history(&self, target: &str) -> Result<HistoryOrder, ErrorReply> {
        let selection = self.roster().select(&[target.to_owned()])?;
        let found = selection.into_iter().find_map(|(app, slots)| Some((self.apps.get(&app)?, slots)));
        let none = || refuse(ErrorCode::NoSuchTarget, &format!("there is no app {target}"), None);
        found.map(|(entry, slots)| entry.history(&slots)).ok_or_else(none)
    }

    fn roster(&self) -> Roster<'_> {
        Roster::of(&self.apps, self.persistence.as_ref())
    }

    /// Whether a configuration file has not changed an app, its number of workers apart.
    fn stays(&self, app: AppId, spec: &AppSpec, request: &ActionRequest) -> bool {
        self.apps.get(&app).is_some_and(|entry| {
            let code_changed_ms = request.code_changed_at_ms.get(entry.spec().name.as_str()).copied();
            let since = RunningSince {
                oldest_start_ms: entry.oldest_start_ms(self.clock.now(), wall_ms()),
                code_changed_ms,
            };
            may_stay(entry.spec(), spec, since)
        })
    }

    /// Whether a reload is a start of the app that waits for other apps.
    fn starts_after_others(&self, app: AppId) -> bool {
        let entry = self.apps.get(&app);
        entry.is_some_and(|entry| entry.supervisor.starts_after_others(&others_of(&self.apps, app)))
    }

    /// Leaves an app unchanged, its number of workers apart.
    fn leave_alone(&mut self, app: AppId, spec: &AppSpec, job: JobId) {
        if let (Some(entry), Some(part)) = (self.apps.get(&app), self.jobs.part(job, app)) {
            part.note_unchanged(entry);
        }
        self.supervise(app, Event::ScaleAsDefined { instances: spec.instances, job });
    }

    /// Reports the changes of an app by a configuration file.
    fn tell_changes(&mut self, job: JobId, app: AppId, spec: Option<&AppSpec>) {
        let (Some(entry), Some(spec)) = (self.apps.get(&app), spec) else { return };
        let changes = changes(&AppDefinition::from(entry.spec()), &AppDefinition::from(spec));
        self.jobs.note_changes(job, app, changes);
    }

    /// Tells of workers that stay stopped when the number of workers changes.
    fn note_stopped(&mut self, job: JobId, app: AppId, instances: u16) {
        let Some(entry) = self.apps.get(&app) else { return };
        let name = shell_word(entry.spec().name.as_str());
        let told = match entry.supervisor.stopped_workers(instances) {
            0 => return,
            1 => format!("1 worker stays stopped; `forkful start {name}` starts it"),
            stopped => format!("{stopped} workers stay stopped; `forkful start {name}` starts them"),
        };
        self.jobs.note(job, app, [told]);
    }

    /// Records that a deployment brings another version of an app.
    fn note_deployment(&mut self, app: AppId, deployment: Option<&Deployment>) {
        if let Some((deployment, entry)) = deployment.zip(self.apps.get_mut(app)) {
            self.conversations.note(deployment.noticed(), entry, &self.logs);
        }
    }

    /// Notes what a command is for the trial of an app, and whether and how it gives the app settings.
    fn begin_trial_part(&mut self, job: JobId, app: AppId, fix: Option<&FixNote>, settings: (Course, bool)) {
        let part = self.apps.begin_trial_part(app, fix, settings);
        if part.is_of_trial() {
            self.note_change();
        }
        self.jobs.note_trial(job, app, part);
    }

    /// Stops or deletes slots of several apps, dependents first.
    fn stop_in_order(&mut self, selection: Selection, verb: SlotVerb, job: JobId) {
        let chosen: Vec<AppId> = selection.keys().copied().collect();
        for (app, slots) in selection {
            self.jobs.join(job, app, &self.apps);
            let first = dependents_of(&self.apps, app, &chosen);
            self.supervise(app, Event::Stop { slots, verb, first, job });
        }
    }

    fn signal(&mut self, app: AppId, slots: &[u16], signal: i32, job: JobId) {
        let notes = self.apps.get(&app).map(|entry| entry.signal(slots, signal));
        self.jobs.note(job, app, notes.into_iter().flatten());
    }

    fn flush(&mut self, app: AppId, slots: &[u16], job: JobId) {
        let Some(entry) = self.apps.get(&app) else { return };
        let done = self.logs.flush(entry.log_paths(slots));
        self.await_logs(vec![app], job, done);
    }

    /// Reopens all log files of all apps, whichever apps were named.
    fn reopen_logs(&mut self, apps: Vec<AppId>, job: JobId) {
        if !apps.is_empty() {
            let done = self.logs.reopen();
            self.await_logs(apps, job, done);
        }
    }

    /// The targets of a `delete` that are saved apps which cannot be started; takes them out of `targets`.
    fn take_carried(&self, verb: Verb, targets: &mut Vec<String>) -> Vec<String> {
        let saved = self.persistence.as_ref().filter(|_| verb == Verb::Delete);
        saved.map(|saved| saved.take_carried(targets, &self.apps)).unwrap_or_default()
    }

    /// Deletes saved apps that cannot be started.
    fn forget_carried(&mut self, job: JobId, names: &[String]) {
        if let Some(persistence) = &mut self.persistence {
            self.jobs.note_all_known(job, persistence.forget_carried(names));
        }
    }

    /// Completes the apps' parts of a job when the log service has answered.
    fn await_logs(&mut self, apps: Vec<AppId>, job: JobId, done: oneshot::Receiver<Result<(), String>>) {
        apps.iter().for_each(|app| self.jobs.expect_answer(job, *app, &self.apps));
        let back = self.inbox.back.clone();
        tokio::task::spawn_local(async move {
            let fault = match done.await {
                Ok(Ok(())) => None,
                Ok(Err(fault)) => Some(fault),
                Err(_) => Some("the log service has ended".to_owned()),
            };
            for app in apps {
                // The engine is gone only when the daemon ends.
                let _gone = back.send(super::Back::Flushed { job, app, fault: fault.clone() });
            }
        });
    }

    /// Stops everything, and then the daemon itself. While that is under way, another client only waits for the same end.
    pub(crate) fn kill(&mut self, reply: Option<Reply<ActionReply>>) {
        self.life.phase = Phase::Closing;
        match self.jobs.ending() {
            Some(ending) => ending.await_too(reply),
            None => self.stop_all(reply.into_iter().collect()),
        }
    }

    /// Deletes every app there is; the daemon ends when they are gone.
    pub(super) fn stop_all(&mut self, replies: Vec<Reply<ActionReply>>) {
        let job = self.jobs.begin_end(replies);
        let all = self.apps.iter().map(|(id, entry)| (*id, entry.places.keys().copied().collect()));
        self.stop_in_order(all.collect(), SlotVerb::Delete, job);
    }

    pub(super) fn list(&mut self) -> AppList {
        AppList { apps: self.apps.list(self.clock.now(), &self.logs), notes: self.notes() }
    }

    /// The workers that a target means, without notes.
    fn list_of(&mut self, target: &str) -> Result<AppList, ErrorReply> {
        let selection = self.roster().select(&[target.to_owned()])?;
        let (now, logs) = (self.clock.now(), &self.logs);
        let views = selection.into_iter().filter_map(|(id, slots)| {
            let mut view = self.apps.get_mut(id)?.view(None, now, logs);
            view.workers.retain(|worker| slots.contains(&worker.slot));
            Some(view)
        });
        Ok(AppList { apps: views.collect(), notes: Vec::new() })
    }

    pub(super) fn table(&mut self) -> AppTable {
        let now = self.clock.now();
        let apps = self.apps.table(now);
        let mut notes = self.notes();
        notes.extend(self.apps.crash_notes(now));
        AppTable { apps, notes }
    }

    fn describe(&mut self, target: &str, reply: Reply<AppList>) {
        let mut apps = match self.found(target) {
            Ok(found) => found.apps,
            Err(refusal) => return answer(reply, Err(refusal)),
        };
        let tails_of = |app: &forkful_api::types::AppView| -> Vec<Option<Tail>> {
            let entry = self.apps.find(&app.definition.name).and_then(|id| self.apps.get(&id));
            let secrets = entry.map(|entry| known_secrets(entry.spec()));
            let tail = |pm_id| {
                let secrets = Rc::clone(secrets.as_ref()?);
                Some(Tail::new(self.logs.stderr_tail(pm_id, None), secrets))
            };
            app.workers.iter().map(|worker| tail(worker.pm_id)).collect()
        };
        let tails: Vec<_> = apps.iter().map(tails_of).collect();
        let mut ended = self.apps.ended_tails();
        tokio::task::spawn_local(async move {
            for (app, tails) in apps.iter_mut().zip(tails) {
                for (worker, tail) in app.workers.iter_mut().zip(tails) {
                    worker.stderr_tail = match tail {
                        Some(tail) => tail.lines().await,
                        None => Vec::new(),
                    };
                    if worker.stderr_tail.is_empty() {
                        worker.stderr_tail = ended.remove(&worker.pm_id).unwrap_or_default();
                    }
                }
            }
            answer(reply, Ok(AppList { apps, notes: Vec::new() }));
        });
    }

    fn order_reload(&mut self, app: AppId, slots: &[u16], spec: Option<Rc<AppSpec>>, job: JobId) {
        let Some(entry) = self.apps.get(&app) else { return };
        let whom = Whom::of(slots, entry.places.len());
        self.order(app, Event::Reload(ReloadOrder { job: Some(job), spec, whom }), job);
    }

    /// Feeds an order to an app; then reports to its client how memory is divided.
    fn order(&mut self, app: AppId, event: Event, job: JobId) {
        self.supervise(app, event);
        self.jobs.note(job, app, self.apps.memory_note(app, self.clock.now()));
    }
}

/// Commands that end workers, in the order of dependencies.
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
        | Verb::Reset
        | Verb::KeepFix => None,
    }
}

/// Refuses commands that would start something while the daemon is ending.
fn refuse_at_the_end<T>(reply: Reply<T>) {
    let hint = Some(Page::Daemon.hint("try again when it has ended"));
    answer(reply, Err(refuse(ErrorCode::Conflict, "the daemon is ending", hint)));
}

pub(crate) fn refuse(code: ErrorCode, error: &str, hint: Option<Hint>) -> ErrorReply {
    ErrorReply::new(code, error, hint)
}

/// A client that has disconnected needs no answer.
pub(crate) fn answer<T>(reply: Reply<T>, result: Result<T, ErrorReply>) {
    let _gone = reply.send(result);
}
