//! Commands in progress: the number of missing answers, and the replies to clients.

use forkful_core::jobs::Counted;
use forkful_core::supervisor::{AppId, JobId, ReloadResult};

use crate::watch::Invariant;
use crate::world::World;

/// A command in progress.
#[derive(Debug)]
pub(crate) struct Job {
    /// The client that waits for it.
    pub(crate) request: Option<usize>,
    /// The number of ordered starts when it began.
    pub(crate) began_at: u64,
    /// The number of failures, and of slots that have answered or have a new process.
    pub(crate) faults: usize,
    pub(crate) answered: usize,
}

/// Clients' requests.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    pub(crate) requests: Vec<Request>,
}

/// A client's request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) answers: u32,
    pub(crate) has_left: bool,
}

impl Clients {
    pub(crate) fn has_left(&self, job: &Job) -> bool {
        job.request.is_some_and(|request| self.requests[request].has_left)
    }

    /// A new request; returns its number.
    pub(crate) fn ask(&mut self) -> usize {
        self.requests.push(Request { answers: 0, has_left: false });
        self.requests.len() - 1
    }

    /// The client of a command in progress disconnects; selected by number, modulo the number of clients.
    pub(crate) fn leave(&mut self, number: u64) {
        let waits = |request: &&mut Request| request.answers == 0 && !request.has_left;
        let mut waiting: Vec<&mut Request> = self.requests.iter_mut().filter(waits).collect();
        let count = waiting.len().max(1) as u64;
        if let Some(request) = waiting.get_mut((number % count) as usize) {
            request.has_left = true;
        }
    }
}

impl World {
    pub(super) fn new_job(&mut self, request: Option<usize>) -> JobId {
        self.daemon.jobs.begin(Job { request, began_at: self.machine.ordered(), faults: 0, answered: 0 })
    }

    pub(super) fn owe(&mut self, job: JobId, app: AppId) {
        if self.daemon.jobs.owe(job) == Counted::Over {
            let seen = format!("app {} owes an answer to command {}, which is over", app.0, job.0);
            self.watch.fail(Invariant::OwedAndSettled, seen);
        }
    }

    pub(super) fn settled(&mut self, job: JobId) {
        if self.daemon.jobs.settle(job) == Counted::Over {
            let seen = format!("command {} gets an answer that it is not owed", job.0);
            self.watch.fail(Invariant::OwedAndSettled, seen);
        }
    }

    /// Replies to every command that has all its answers.
    pub(super) fn finish_jobs(&mut self) {
        if self.kept.is_dead {
            return;
        }
        let done = self.daemon.jobs.take_done();
        if !done.is_empty() {
            self.save_changes();
        }
        for (id, job) in done {
            if let Some(request) = job.request {
                self.reply_when_saved(request);
            }
            self.end_step(id, &job);
        }
    }

    pub(super) fn note_reloaded(&mut self, job: Option<JobId>, result: &ReloadResult) {
        if let Some(job) = job.and_then(|job| self.daemon.jobs.get_mut(job)) {
            job.faults += usize::from(result.failure.is_some());
            job.answered += result.replaced.len();
        }
    }

    /// A part of a command has failed.
    pub(super) fn fail_job(&mut self, job: JobId) {
        if let Some(job) = self.daemon.jobs.get_mut(job) {
            job.faults += 1;
        }
    }

    /// Replies to a client.
    pub(super) fn reply(&mut self, request: usize, what: &str) {
        if self.kept.is_dead {
            return;
        }
        self.trace(|| format!("      ⇒ request {request}: {what}"));
        let asked = &mut self.clients.requests[request];
        asked.answers += 1;
        if asked.answers > 1 {
            self.watch.fail(Invariant::AnsweredOnce, format!("request {request} is answered twice"));
        }
    }
}
