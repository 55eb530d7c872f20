//! Running commands: which slots still owe an answer, and the final reply to the client.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use forkful_api::types::{ActionReply, AppOutcome, ErrorCode, Scaled, TargetMeaning};
use forkful_core::doctor::Course;
use forkful_core::jobs::OpenJobs;
use forkful_core::slot::{Exit, Fault, Outcome};
use forkful_core::spec::Mode;
use forkful_core::stderr_excerpt::Attempt;
use forkful_core::supervisor::{Answer, ReloadResult};
use tokio::task::JoinHandle;

use super::app::{App, AppId, ListenFault};
use super::apps::Apps;
use super::commands::{answer, refuse};
use super::failures::{SlotFailure, explain, in_worker};
use super::faults::Ours;
use super::persistence::{Persistence, SaveTicket};
use super::trials::TrialPart;
use crate::command::Reply;
use crate::logs::LogService;

pub(crate) use forkful_core::supervisor::JobId;

/// A running command.
pub(crate) struct Job {
    /// The waiting clients: none if nobody waits, several if more than one has asked for the end of the daemon.
    replies: Vec<Reply<ActionReply>>,
    parts: BTreeMap<AppId, Part>,
    /// Results that are already known, of apps that do not take part.
    known: Vec<AppOutcome>,
    /// What the targets of a start mean.
    meanings: Vec<TargetMeaning>,
    /// What the command does not do.
    warnings: Vec<String>,
    /// The daemon stops when this command is done.
    pub(crate) ends_daemon: bool,
}

/// The result of a command for one app.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) name: String,
    /// The app's working directory.
    pub(crate) cwd: String,
    pub(crate) pm_ids: Vec<u32>,
    pub(crate) failures: Vec<SlotFailure>,
    /// What was to be done to the app as a whole has failed.
    pub(crate) fault: Option<String>,
    pub(crate) notes: Vec<String>,
    /// How the command changes the app's definition.
    pub(crate) changes: Vec<String>,
    /// The command is a reload, and has failed: the app keeps its old definition.
    pub(crate) is_failed_reload: bool,
    /// A sentence before the first failure, such as that a reload kept the old version.
    pub(crate) preface: Option<String>,
    /// Workers that have ended with code 0 and stay stopped.
    pub(crate) finished: usize,
    /// Nothing has changed, so nothing was done.
    pub(crate) unchanged: bool,
    /// The app did not exist before.
    pub(crate) started: bool,
    /// `scale`: the numbers of workers before and after.
    pub(crate) scaled: Option<Scaled>,
    /// Workers that ignored the stop signal and were killed.
    pub(crate) killed: Killed,
    /// What the command is for the app's trial.
    pub(super) trial: TrialPart,
}

/// Workers that ignored the stop signal, and the signal.
#[derive(Debug, Default)]
pub(crate) struct Killed {
    pm_ids: Vec<u32>,
    signal: i32,
    timeout: Duration,
}

impl Killed {
    fn note(&self) -> Option<String> {
        let (first, others) = self.pm_ids.split_first()?;
        let who = match others.len() {
            0 => format!("worker {first} was killed: it ignored"),
            more => format!("{} workers were killed: they ignored", more + 1),
        };
        Some(format!(
            "{who} {} for {} s; handle the signal in the app, or set `kill_timeout`",
            Exit::Signal(self.signal),
            self.timeout.as_secs_f64()
        ))
    }
}

impl Job {
    /// Another client waits for the answer.
    pub(super) fn await_too(&mut self, reply: Option<Reply<ActionReply>>) {
        self.replies.extend(reply);
    }

    /// Takes the waiting clients: another command answers them.
    pub(super) fn take_clients(&mut self) -> Vec<Reply<ActionReply>> {
        std::mem::take(&mut self.replies)
    }

    /// The results by app.
    pub(super) fn parts(&self) -> impl Iterator<Item = (AppId, &Part)> {
        self.parts.iter().map(|(app, part)| (*app, part))
    }

    fn has_client_left(&self) -> bool {
        !self.replies.is_empty() && self.replies.iter().all(tokio::sync::oneshot::Sender::is_closed)
    }
}

impl Part {
    pub(crate) fn new(name: &str, cwd: &Path) -> Self {
        Self { name: name.to_owned(), cwd: cwd.display().to_string(), ..Self::default() }
    }

    /// Records a slot's answer.
    pub(crate) fn take(
        &mut self,
        pm_id: u32,
        outcome: Outcome,
        listen_fault: Option<ListenFault>,
        mode_listens: bool,
    ) {
        // An app that handles the error of its listen runs on, or ends as if its work were done.
        if let (Outcome::Online { .. } | Outcome::Finished(_), Some(fault)) = (&outcome, &listen_fault) {
            let hint = fault.hint.as_ref().map_or_else(String::new, |hint| format!(": {hint}"));
            self.note(format!("{}, and the app handled the error itself{hint}", fault.error));
        }
        match outcome {
            Outcome::Online { confirmed: false } if mode_listens && listen_fault.is_none() => {
                let note = "it runs, but has not listened on any port yet; \
                            `forkful describe` shows when it does";
                self.note(note.to_owned());
            }
            Outcome::Online { .. } | Outcome::Replaced | Outcome::Stopped | Outcome::Deleted => {}
            Outcome::AlreadyOnline => self.note(format!("worker {pm_id} was online already")),
            Outcome::Finished(exit) => {
                self.finished += usize::from(exit == Exit::Code(0));
                self.note(format!("worker {pm_id} ended with {exit} and is not started again"));
            }
            Outcome::Failed(fault) => {
                self.failures.push(SlotFailure {
                    pm_id,
                    fault,
                    listen_fault,
                    was_ready: false,
                    killed: None,
                    unready: None,
                    again: None,
                });
            }
        }
    }

    pub(crate) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The worker whose stderr explains the failure, and whether its process has ended. A process that is not ready in time
    /// may still run.
    fn culprit(&self) -> Option<(u32, bool)> {
        self.failures.iter().find_map(|failure| match failure.fault {
            Fault::Exited(_) => Some((failure.pm_id, true)),
            Fault::NotReadyInTime { .. } => Some((failure.pm_id, false)),
            _ => None,
        })
    }

    /// `is_ending`: the daemon ends.
    pub(crate) fn into_outcome(
        mut self,
        stderr_tail: Vec<String>,
        ours: &Ours,
        is_ending: bool,
    ) -> AppOutcome {
        if !self.is_failed_reload {
            self.notes.splice(0..0, self.changes);
        }
        self.notes.extend(self.killed.note());
        let attempt = if self.is_failed_reload {
            Attempt::Reload { app: &self.name }
        } else {
            Attempt::Start { app: &self.name }
        };
        let first = self.failures.first();
        let (error, hint) = match first {
            None => (self.fault, None),
            Some(failure) => {
                let (text, hint) = explain(&self.name, (&self.cwd, attempt), failure, &stderr_tail, ours);
                let text = match &failure.fault {
                    fault @ Fault::Cancelled { .. } if is_ending => {
                        in_worker(failure.pm_id, &fault.at_the_end())
                    }
                    _ => text,
                };
                let text = match self.preface {
                    Some(preface) => format!("{preface}: {text}"),
                    None => text,
                };
                (Some(text), hint)
            }
        };
        let (hint, see) = hint.map(|hint| (hint.text, hint.see)).unzip();
        AppOutcome {
            unchanged: self.unchanged,
            started: self.started,
            scaled: self.scaled,
            finished: self.finished > 0 && self.finished == self.pm_ids.len(),
            ok: error.is_none(),
            name: self.name,
            pm_ids: self.pm_ids,
            error,
            hint,
            see,
            notes: self.notes,
            stderr_tail: if first.is_some() { stderr_tail } else { Vec::new() },
        }
    }
}

/// Running commands, and their partial results.
#[derive(Default)]
pub(crate) struct Jobs {
    open: OpenJobs<Job>,
    replies: Vec<JoinHandle<()>>,
    /// Replies to clients that do not wait for the end of their command. They are sent when the state is saved.
    at_once: Vec<(Reply<ActionReply>, ActionReply)>,
    /// A command that ends the daemon has begun.
    is_ending: bool,
}

impl Jobs {
    /// The number of the newest job.
    pub(super) fn newest(&self) -> u64 {
        self.open.newest()
    }

    /// Running commands without a waiting client.
    pub(super) fn unwatched(&self) -> BTreeSet<JobId> {
        self.open.unwatched(|job| !job.replies.is_empty())
    }

    /// Continues the numbering of a previous daemon's jobs, whose clients are gone; some had no waiting
    /// client.
    pub(super) fn resume_after(&mut self, last: u64, unwatched: BTreeSet<JobId>) {
        self.open.resume_after(last, unwatched);
    }

    /// A command begins; without a `reply` no client waits for its end.
    pub(crate) fn begin(&mut self, reply: Option<Reply<ActionReply>>) -> JobId {
        self.open.begin(Job {
            replies: reply.into_iter().collect(),
            parts: BTreeMap::new(),
            known: Vec::new(),
            meanings: Vec::new(),
            warnings: Vec::new(),
            ends_daemon: false,
        })
    }

    /// A command that is refused after all; returns its waiting client, if any.
    pub(crate) fn give_up(&mut self, job: JobId) -> Option<Reply<ActionReply>> {
        self.open.remove(job).and_then(|mut job| job.replies.pop())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Begins the command that ends the daemon.
    pub(crate) fn begin_end(&mut self, replies: Vec<Reply<ActionReply>>) -> JobId {
        let id = self.begin(None);
        if let Some(job) = self.open.get_mut(id) {
            (job.replies, job.ends_daemon) = (replies, true);
        }
        self.is_ending = true;
        id
    }

    /// The command that ends the daemon, if one is under way.
    pub(crate) fn ending(&mut self) -> Option<&mut Job> {
        self.open.values_mut().find(|job| job.ends_daemon)
    }

    /// Whether a client waited for the answer and has disconnected.
    pub(super) fn has_client_left(&self, job: JobId) -> bool {
        self.open.has_client_left(job, Job::has_client_left)
    }

    /// An app takes part in a job.
    pub(crate) fn join(&mut self, job: JobId, app: AppId, apps: &Apps) {
        let Some(entry) = apps.get(&app) else { return };
        if let Some(job) = self.open.get_mut(job) {
            job.parts
                .entry(app)
                .or_insert_with(|| Part::new(entry.spec().name.as_str(), &entry.spec().launch.cwd));
        }
    }

    /// The result of a job for an app that takes part.
    pub(crate) fn part(&mut self, job: JobId, app: AppId) -> Option<&mut Part> {
        self.open.get_mut(job).and_then(|job| job.parts.get_mut(&app))
    }

    /// Adds a note about an app to the client's reply.
    pub(crate) fn note(&mut self, job: JobId, app: AppId, notes: impl IntoIterator<Item = String>) {
        if let Some(part) = self.part(job, app) {
            notes.into_iter().for_each(|note| part.note(note));
        }
    }

    /// What a command was to do to an app has failed.
    pub(super) fn fail(&mut self, job: JobId, app: AppId, fault: Option<String>) {
        if let Some(part) = self.part(job, app) {
            part.fault = part.fault.take().or(fault);
        }
    }

    /// How a command changes the definition of an app that takes part.
    pub(super) fn note_changes(&mut self, job: JobId, app: AppId, changes: Vec<String>) {
        if let Some(part) = self.part(job, app) {
            part.changes = changes;
        }
    }

    /// What a command is for the trial of an app that takes part.
    pub(super) fn note_trial(&mut self, job: JobId, app: AppId, trial: TrialPart) {
        if let Some(part) = self.part(job, app) {
            part.trial = trial;
        }
    }

    /// The numbers of workers of an app before and after.
    pub(super) fn note_scaled(&mut self, job: JobId, app: AppId, scaled: Scaled) {
        if let Some(part) = self.part(job, app) {
            part.scaled = Some(scaled);
        }
    }

    /// Known results of apps that do not take part in a job.
    pub(crate) fn note_all_known(&mut self, job: JobId, outcomes: Vec<AppOutcome>) {
        if let Some(job) = self.open.get_mut(job) {
            job.known.extend(outcomes);
        }
    }

    /// What a command means, and does not do.
    pub(super) fn explain(&mut self, job: JobId, meanings: Vec<TargetMeaning>, warnings: Vec<String>) {
        if let Some(job) = self.open.get_mut(job) {
            (job.meanings, job.warnings) = (meanings, warnings);
        }
    }

    /// A worker ignored the stop signal until its timeout, and was killed: every running command for its app
    /// reports that.
    pub(crate) fn note_killed(&mut self, app: AppId, slot: u16, apps: &Apps) {
        let Some(entry) = apps.get(&app) else { return };
        let Some(place) = entry.places.get(&slot) else { return };
        for part in self.open.values_mut().filter_map(|job| job.parts.get_mut(&app)) {
            part.killed.pm_ids.push(place.pm_id);
            part.killed.signal = entry.spec().stop.signal.0;
            part.killed.timeout = entry.spec().stop.kill_timeout;
        }
    }

    /// A command failed in a slot.
    pub(super) fn note_failed(&mut self, job: JobId, app: AppId, pm_id: Option<u32>, fault: Fault) {
        if let Some(part) = self.part(job, app) {
            part.is_failed_reload = matches!(part.trial.course, Course::ByReload(_));
            part.failures.push(SlotFailure {
                pm_id: pm_id.unwrap_or(0),
                fault,
                listen_fault: None,
                was_ready: false,
                killed: None,
                unready: None,
                again: None,
            });
        }
    }

    /// The program of a slot had already finished.
    pub(super) fn note_finished_before(&mut self, job: JobId, app: AppId, pm_id: Option<u32>) {
        if let (Some(pm_id), Some(part)) = (pm_id, self.part(job, app)) {
            part.note_finished_before(pm_id);
        }
    }

    /// Records how a reload has ended.
    pub(super) fn note_reloaded(&mut self, job: JobId, app: AppId, result: ReloadResult, apps: &Apps) {
        if let (Some(entry), Some(part)) = (apps.get(&app), self.part(job, app)) {
            part.is_failed_reload = result.failure.is_some();
            part.finished += entry.finished(&result.replaced);
            part.note_reloaded(entry, result);
        }
    }

    /// Records a slot's answer.
    pub(super) fn note_outcome(&mut self, job: JobId, app: AppId, answer: Answer, apps: &Apps) {
        let listens = apps.get(&app).is_some_and(|entry| entry.spec().mode == Mode::Cluster);
        let pm_id = apps.pm_id(app, answer.slot).unwrap_or(0);
        if let Some(part) = self.part(job, app) {
            if !part.pm_ids.contains(&pm_id) {
                part.pm_ids.push(pm_id);
            }
            part.take(pm_id, answer.outcome, answer.listen_fault, listens);
        }
        self.answered(job);
    }

    /// A job expects one more answer, of an app.
    pub(crate) fn expect_answer(&mut self, job: JobId, app: AppId, apps: &Apps) {
        self.join(job, app, apps);
        self.expect(job);
    }

    /// A job expects one more answer.
    pub(crate) fn expect(&mut self, job: JobId) {
        self.open.owe(job);
    }

    /// A job has received one of its answers.
    pub(crate) fn answered(&mut self, job: JobId) {
        self.open.settle(job);
    }

    /// Removes and returns the jobs that have all their answers.
    pub(crate) fn take_done(&mut self) -> Vec<Job> {
        self.open.take_done().into_iter().map(|(_, job)| job).collect()
    }

    /// Replies to the client of a finished job, when the stderr lines that explain failures have arrived, and
    /// the state is saved.
    pub(crate) fn reply(&mut self, job: Job, apps: &mut Apps, logs: &LogService, saved: Option<SaveTicket>) {
        if job.replies.is_empty() {
            return;
        }
        let (replies, known, targets, warnings) = (job.replies, job.known, job.meanings, job.warnings);
        let mut parts = Vec::with_capacity(job.parts.len());
        let mut tails = Vec::with_capacity(job.parts.len());
        for (app, mut part) in job.parts {
            let lacks = apps.get(&app).map(App::lacks).unwrap_or_default();
            lacks.into_iter().for_each(|lack| part.note(lack.to_string()));
            for failure in &mut part.failures {
                let Some(entry) = apps.get(&app) else { continue };
                failure.killed = entry.killed_by(failure);
                failure.unready = entry.unready(failure);
                failure.again = entry.starts_again(failure);
            }
            tails.push(part.culprit().and_then(|(pm_id, ended)| apps.tail_of(app, pm_id, ended, logs)));
            parts.push(part);
        }
        let is_ending = self.is_ending;
        let ours = if tails.iter().any(Option::is_some) { Ours::of(apps) } else { Ours::default() };
        self.replies.push(tokio::task::spawn_local(async move {
            let mut apps = known;
            for (part, tail) in parts.into_iter().zip(tails) {
                let tail = match tail {
                    Some(tail) => tail.lines().await,
                    None => Vec::new(),
                };
                apps.push(part.into_outcome(tail, &ours, is_ending));
            }
            answer_when_saved(replies, ActionReply { apps, targets, warnings }, saved).await;
        }));
    }

    /// Prepares the reply to a client that does not wait: which apps take part.
    pub(crate) fn answer_at_once(&mut self, job: JobId, reply: Option<Reply<ActionReply>>) {
        let (Some(reply), Some(job)) = (reply, self.open.get(job)) else { return };
        let parts = job.parts.values().map(|part| {
            let (notes, changes) = (part.notes.clone(), part.changes.clone());
            Part { notes, changes, name: part.name.clone(), started: part.started, ..Part::default() }
                .into_outcome(Vec::new(), &Ours::default(), false)
        });
        let apps = job.known.iter().cloned().chain(parts).collect();
        let (targets, warnings) = (job.meanings.clone(), job.warnings.clone());
        self.at_once.push((reply, ActionReply { apps, targets, warnings }));
    }

    /// Replies to the clients that do not wait, when the state is saved.
    pub(crate) fn reply_at_once(&mut self, persistence: Option<&Persistence>) {
        for (reply, said) in self.at_once.drain(..) {
            let ticket = persistence.and_then(Persistence::ticket);
            self.replies.push(tokio::task::spawn_local(answer_when_saved(vec![reply], said, ticket)));
        }
    }

    /// Another daemon continues the running commands: their clients are told so.
    pub(crate) fn leave_to_successor(&mut self) {
        for reply in self.open.take_all().flat_map(|job| job.replies) {
            let error = "the daemon is being updated; what was begun goes on, see `forkful list`";
            answer(reply, Err(refuse(ErrorCode::Conflict, error, None)));
        }
    }

    /// Removes the sent replies.
    pub(crate) fn forget_given(&mut self) {
        self.replies.retain(|reply| !reply.is_finished());
    }

    /// Waits until every reply is sent.
    pub(crate) async fn give_all(&mut self) {
        for reply in self.replies.drain(..) {
            // A reply that panicked has no receiver.
            let _ended = reply.await;
        }
    }
}

/// Sends a reply to all clients that wait for it, when the state behind it is saved.
async fn answer_when_saved(
    replies: Vec<Reply<ActionReply>>,
    mut said: ActionReply,
    saved: Option<SaveTicket>,
) {
    if let Some(ticket) = saved
        && let Some(fault) = ticket.fault().await
        && let Some(app) = said.apps.first_mut()
    {
        app.notes.push(fault);
    }
    replies.into_iter().for_each(|reply| answer(reply, Ok(said.clone())));
}
