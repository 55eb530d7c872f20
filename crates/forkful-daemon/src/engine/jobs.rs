//! Commands under way: which slots still owe an answer, and what the client is told at the end.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use forkful_api::types::{ActionReply, AppOutcome};
use forkful_core::slot::{Exit, Fault, Outcome};
use forkful_core::spec::Mode;
use forkful_core::stderr_excerpt::{cause, next_step};
use forkful_core::supervisor::Answer;

use super::app::{App, AppId, ListenFault};
use super::commands::answer;
use super::faults::Ours;
use super::{Engine, Phase};
use crate::command::Reply;

pub(crate) use forkful_core::supervisor::JobId;

/// A command under way.
pub(crate) struct Job {
    /// Who waits; `None` when the client did not want to.
    pub(crate) reply: Option<Reply<ActionReply>>,
    /// Answers still owed.
    pub(crate) open: usize,
    pub(crate) parts: BTreeMap<AppId, Part>,
    /// What is known already of apps that take no part.
    pub(crate) known: Vec<AppOutcome>,
    /// The whole daemon ends when this one does.
    pub(crate) ends_daemon: bool,
}

/// What a command has come to at one app.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) name: String,
    /// The folder that the app runs in.
    pub(crate) cwd: String,
    pub(crate) pm_ids: Vec<u32>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) notes: Vec<String>,
    /// Sentence that goes before the first failure, such as that a reload kept the old version.
    pub(crate) preface: Option<String>,
    pub(crate) hint: Option<String>,
    /// Workers that have ended with code 0 and rest.
    pub(crate) finished: usize,
    /// Nothing has changed, and so nothing was done.
    pub(crate) unchanged: bool,
    /// The app did not exist before.
    pub(crate) started: bool,
    /// Workers that ignored the stop signal and were killed.
    pub(crate) killed: Killed,
}

/// Workers that ignored the stop signal, and which signal that was.
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

/// A slot where it did not come to what was asked for.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) pm_id: u32,
    pub(crate) fault: Fault,
    pub(crate) listen_fault: Option<ListenFault>,
}

impl Job {
    /// Whether somebody waited for the answer and does not any more.
    pub(super) fn has_client_left(&self) -> bool {
        self.reply.as_ref().is_some_and(tokio::sync::oneshot::Sender::is_closed)
    }
}

impl Part {
    pub(crate) fn new(name: &str, cwd: &Path) -> Self {
        Self { name: name.to_owned(), cwd: cwd.display().to_string(), ..Self::default() }
    }

    /// Notes a slot's answer.
    pub(crate) fn take(
        &mut self,
        pm_id: u32,
        outcome: Outcome,
        listen_fault: Option<ListenFault>,
        mode_listens: bool,
    ) {
        match outcome {
            Outcome::Online { confirmed: false } if mode_listens => {
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
            Outcome::Failed(fault) => self.failures.push(Failure { pm_id, fault, listen_fault }),
        }
    }

    pub(crate) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The worker whose stderr explains the failure.
    pub(crate) fn culprit(&self) -> Option<u32> {
        self.failures
            .iter()
            .find(|failure| matches!(failure.fault, Fault::Exited(_) | Fault::NotReadyInTime { .. }))
            .map(|failure| failure.pm_id)
    }

    pub(crate) fn into_outcome(mut self, stderr_tail: Vec<String>, ours: &Ours) -> AppOutcome {
        self.notes.extend(self.killed.note());
        let first = self.failures.first();
        let (error, hint) = match first {
            None => (None, self.hint),
            Some(failure) => {
                let (text, hint) = explain(&self.name, &self.cwd, failure, &stderr_tail, ours);
                let text = match self.preface {
                    Some(preface) => format!("{preface}: {text}"),
                    None => text,
                };
                (Some(text), self.hint.or(hint))
            }
        };
        AppOutcome {
            unchanged: self.unchanged,
            started: self.started,
            finished: self.finished > 0 && self.finished == self.pm_ids.len(),
            ok: first.is_none(),
            name: self.name,
            pm_ids: self.pm_ids,
            error,
            hint,
            notes: self.notes,
            stderr_tail: if first.is_some() { stderr_tail } else { Vec::new() },
        }
    }
}

fn explain(
    app: &str,
    cwd: &str,
    failure: &Failure,
    stderr_tail: &[String],
    ours: &Ours,
) -> (String, Option<String>) {
    let pm_id = failure.pm_id;
    let own = || super::faults::listen_fault_in(app, stderr_tail, ours);
    if matches!(failure.fault, Fault::Exited(_) | Fault::NotReadyInTime { .. })
        && let Some(fault) = failure.listen_fault.clone().or_else(own)
    {
        return (fault.error, fault.hint);
    }
    let logs = || Some(format!("`forkful logs {pm_id} --err` shows all of the worker's stderr"));
    match &failure.fault {
        Fault::Exited(Exit::SpawnFailed(why)) => {
            (format!("worker {pm_id} could not be started: {why}"), None)
        }
        Fault::Exited(exit) => {
            let text = format!("worker {pm_id} ended with {exit} before it was ready");
            match cause(stderr_tail) {
                Some(cause) => (format!("{text}: {cause}"), next_step(cause, cwd).or_else(logs)),
                None if stderr_tail.is_empty() => {
                    let hint = "the worker wrote nothing to stderr; `forkful logs` shows its output";
                    (text, Some(hint.to_owned()))
                }
                None => (text, logs()),
            }
        }
        Fault::NotReadyInTime { waited } => (
            format!("worker {pm_id} was not ready within {} s", waited.as_secs_f64()),
            Some("give it longer with `--listen-timeout <ms>`, or see why with `forkful logs`".to_owned()),
        ),
        other => (format!("worker {pm_id}: {other}"), None),
    }
}

impl Engine {
    /// It did not come to what was asked of a slot.
    pub(super) fn note_failed(&mut self, job: JobId, app: AppId, slot: Option<u16>, fault: Fault) {
        let pm_id = slot.and_then(|slot| self.pm_id(app, slot)).unwrap_or(0);
        if let Some(part) = self.part(job, app) {
            part.failures.push(Failure { pm_id, fault, listen_fault: None });
        }
    }

    pub(crate) fn new_job<T>(
        &mut self,
        reply: Option<T>,
        into: impl FnOnce(T) -> Reply<ActionReply>,
    ) -> JobId {
        self.next_job += 1;
        let id = JobId(self.next_job);
        let reply = reply.map(into);
        self.jobs.insert(
            id,
            Job { reply, open: 0, parts: BTreeMap::new(), known: Vec::new(), ends_daemon: false },
        );
        id
    }

    /// An app takes part in a job.
    pub(crate) fn join(&mut self, job: JobId, app: AppId) {
        let Some(entry) = self.apps.get(&app) else { return };
        if let Some(job) = self.jobs.get_mut(&job) {
            job.parts
                .entry(app)
                .or_insert_with(|| Part::new(entry.spec().name.as_str(), &entry.spec().launch.cwd));
        }
    }

    /// A worker ignored the stop signal for as long as it may, and was killed: every command under way for its app says
    /// so.
    pub(crate) fn note_killed(&mut self, app: AppId, slot: u16) {
        let Some(entry) = self.apps.get(&app) else { return };
        let Some(place) = entry.places.get(&slot) else { return };
        for part in self.jobs.values_mut().filter_map(|job| job.parts.get_mut(&app)) {
            part.killed.pm_ids.push(place.pm_id);
            part.killed.signal = entry.spec().stop.signal.0;
            part.killed.timeout = entry.spec().stop.kill_timeout;
        }
    }

    /// What is known already of apps that take no part in a job.
    pub(crate) fn note_all_known(&mut self, job: JobId, outcomes: Vec<AppOutcome>) {
        if let Some(job) = self.jobs.get_mut(&job) {
            job.known.extend(outcomes);
        }
    }

    /// A job owes one answer more.
    pub(crate) fn expect_answer(&mut self, job: JobId, app: AppId) {
        self.join(job, app);
        if let Some(job) = self.jobs.get_mut(&job) {
            job.open += 1;
        }
    }

    pub(crate) fn part(&mut self, job: JobId, app: AppId) -> Option<&mut Part> {
        self.jobs.get_mut(&job).and_then(|job| job.parts.get_mut(&app))
    }

    /// Notes a slot's answer.
    pub(super) fn note_outcome(&mut self, job: JobId, app: AppId, answer: Answer) {
        let entry = self.apps.get(&app);
        let listens = entry.is_some_and(|entry| entry.spec().mode == Mode::Cluster);
        let place = entry.and_then(|entry| entry.places.get(&answer.slot));
        let pm_id = place.map_or(0, |place| place.pm_id);
        if let Some(part) = self.part(job, app) {
            if !part.pm_ids.contains(&pm_id) {
                part.pm_ids.push(pm_id);
            }
            part.take(pm_id, answer.outcome, answer.listen_fault, listens);
        }
        self.answered(job);
    }

    /// A job has got one of its answers.
    pub(crate) fn answered(&mut self, job: JobId) {
        if let Some(job) = self.jobs.get_mut(&job) {
            job.open = job.open.saturating_sub(1);
        }
    }

    /// Replies to every command that has all its answers.
    pub(crate) fn finish_jobs(&mut self) {
        let done: Vec<JobId> = self.jobs.iter().filter(|(_, job)| job.open == 0).map(|(id, _)| *id).collect();
        if !done.is_empty() {
            // What a reply says holds after a crash too.
            self.save_changes();
        }
        for id in done {
            let Some(job) = self.jobs.remove(&id) else { continue };
            if job.ends_daemon {
                self.phase = Phase::Ended;
            }
            let Some(reply) = job.reply else { continue };
            let ticket = self.save_ticket();
            let known = job.known;
            let mut parts = Vec::with_capacity(job.parts.len());
            for (app, mut part) in job.parts {
                let lacks = self.apps.get(&app).map(App::lacks).unwrap_or_default();
                lacks.into_iter().for_each(|lack| part.note(lack.to_string()));
                parts.push(part);
            }
            let tails: Vec<_> =
                parts.iter().map(|part| part.culprit().map(|pm_id| self.tail_of(pm_id))).collect();
            let ours = if tails.iter().any(Option::is_some) { self.ours() } else { Ours::default() };
            self.replies.push(tokio::task::spawn_local(async move {
                let mut apps = known;
                for (part, tail) in parts.into_iter().zip(tails) {
                    let tail = match tail {
                        Some(tail) => tail.await.unwrap_or_default(),
                        None => Vec::new(),
                    };
                    apps.push(part.into_outcome(tail, &ours));
                }
                if let Some(ticket) = ticket
                    && let Some(fault) = ticket.fault().await
                    && let Some(app) = apps.first_mut()
                {
                    app.notes.push(fault);
                }
                answer(reply, Ok(ActionReply { apps }));
            }));
        }
    }

    /// The last lines of stderr of the process that failed: the one that ended last, or the present one.
    pub(super) fn tail_of(&mut self, pm_id: u32) -> tokio::sync::oneshot::Receiver<Vec<String>> {
        let mut places = self.apps.values_mut().flat_map(|entry| entry.places.values_mut());
        let ended = places.find(|place| place.pm_id == pm_id).and_then(|place| place.exit_tail.take());
        ended.unwrap_or_else(|| self.logs.stderr_tail(pm_id))
    }

    /// Replies to a client that does not wait: which apps take part.
    pub(crate) fn answer_at_once(&self, job: JobId, reply: Option<Reply<ActionReply>>) {
        let (Some(reply), Some(job)) = (reply, self.jobs.get(&job)) else { return };
        let parts = job.parts.values().map(|part| {
            let notes = part.notes.clone();
            Part { notes, name: part.name.clone(), started: part.started, ..Part::default() }
                .into_outcome(Vec::new(), &Ours::default())
        });
        let apps = job.known.iter().cloned().chain(parts).collect();
        answer(reply, Ok(ActionReply { apps }));
    }
}
