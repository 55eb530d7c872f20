//! Commands under way: how many answers each still lacks, when it is over, and what is known of those of earlier daemons.

use std::collections::{BTreeMap, BTreeSet};

use crate::supervisor::JobId;

/// The commands under way; `J` is what a driver keeps of one.
#[derive(Debug)]
pub struct OpenJobs<J> {
    open: BTreeMap<JobId, Entry<J>>,
    /// The newest command.
    last: u64,
    /// The newest command of earlier daemons.
    before: u64,
    /// Those of earlier daemons for which no client waited.
    unwatched_before: BTreeSet<JobId>,
}

#[derive(Debug)]
struct Entry<J> {
    job: J,
    /// Answers that are missing.
    answers: usize,
}

/// Whose answers were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Of a command under way.
    Open,
    /// Of a command of an earlier daemon: nobody waits for it.
    Before,
    /// Of a command that is over, or that lacks no answer.
    Over,
}

impl<J> Default for OpenJobs<J> {
    fn default() -> Self {
        Self { open: BTreeMap::new(), last: 0, before: 0, unwatched_before: BTreeSet::new() }
    }
}

impl<J> OpenJobs<J> {
    /// A command begins. It is over as soon as [`Self::take_done`] finds that no answer is missing.
    pub fn begin(&mut self, job: J) -> JobId {
        self.last += 1;
        let id = JobId(self.last);
        self.open.insert(id, Entry { job, answers: 0 });
        id
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub fn get(&self, id: JobId) -> Option<&J> {
        self.open.get(&id).map(|open| &open.job)
    }

    pub fn get_mut(&mut self, id: JobId) -> Option<&mut J> {
        self.open.get_mut(&id).map(|open| &mut open.job)
    }

    pub fn ids(&self) -> impl Iterator<Item = JobId> + '_ {
        self.open.keys().copied()
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut J> {
        self.open.values_mut().map(|open| &mut open.job)
    }

    /// A command that is refused after it has begun.
    pub fn remove(&mut self, id: JobId) -> Option<J> {
        self.open.remove(&id).map(|open| open.job)
    }

    /// All commands under way, which another daemon goes on with.
    pub fn take_all(&mut self) -> impl Iterator<Item = J> + use<J> {
        std::mem::take(&mut self.open).into_values().map(|open| open.job)
    }

    /// A command waits for one answer more.
    pub fn owe(&mut self, id: JobId) -> Counted {
        match self.open.get_mut(&id) {
            Some(open) => {
                open.answers += 1;
                Counted::Open
            }
            None => self.not_open(id),
        }
    }

    /// A command has got one of its answers.
    pub fn settle(&mut self, id: JobId) -> Counted {
        match self.open.get_mut(&id) {
            Some(open) if open.answers > 0 => {
                open.answers -= 1;
                Counted::Open
            }
            Some(_) => Counted::Over,
            None => self.not_open(id),
        }
    }

    fn not_open(&self, id: JobId) -> Counted {
        if id.0 <= self.before { Counted::Before } else { Counted::Over }
    }

    /// The commands that lack no answer: they are over.
    pub fn take_done(&mut self) -> Vec<(JobId, J)> {
        let is_done = |(id, open): (&JobId, &Entry<J>)| (open.answers == 0).then_some(*id);
        let done: Vec<JobId> = self.open.iter().filter_map(is_done).collect();
        done.into_iter().filter_map(|id| Some((id, self.remove(id)?))).collect()
    }

    /// Whether the client of a command has gone without waiting for the answer, as those of earlier daemons have.
    /// `has_left` says so of a command under way.
    pub fn has_client_left(&self, id: JobId, has_left: impl Fn(&J) -> bool) -> bool {
        let of_before = || id.0 <= self.before && !self.unwatched_before.contains(&id);
        self.get(id).map_or_else(of_before, has_left)
    }

    /// The newest command: another daemon counts on from there.
    pub fn newest(&self) -> u64 {
        self.last
    }

    /// The commands for which no client waits, those of earlier daemons among them: another daemon carries them out.
    pub fn unwatched(&self, is_watched: impl Fn(&J) -> bool) -> BTreeSet<JobId> {
        let own = self.open.iter().filter(|(_, open)| !is_watched(&open.job)).map(|(id, _)| *id);
        own.chain(self.unwatched_before.iter().copied()).collect()
    }

    /// Goes on with the numbers of an earlier daemon, whose clients are gone; for `unwatched` none had waited.
    pub fn resume_after(&mut self, last: u64, unwatched: BTreeSet<JobId>) {
        (self.last, self.before, self.unwatched_before) = (last, last, unwatched);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_over_when_each_answer_that_it_is_owed_has_come() {
        let mut jobs = OpenJobs::default();
        let (two, none) = (jobs.begin("two"), jobs.begin("none"));
        assert_eq!((jobs.owe(two), jobs.owe(two)), (Counted::Open, Counted::Open));
        assert_eq!(jobs.take_done(), [(none, "none")]);
        assert_eq!(jobs.settle(two), Counted::Open);
        assert_eq!(jobs.take_done(), []);
        assert_eq!((jobs.settle(two), jobs.settle(two)), (Counted::Open, Counted::Over));
        assert_eq!(jobs.take_done(), [(two, "two")]);
        assert_eq!((jobs.owe(two), jobs.settle(two)), (Counted::Over, Counted::Over));
        assert!(jobs.is_empty());
    }

    #[test]
    fn another_daemon_counts_on_and_knows_whose_clients_are_gone() {
        let mut jobs = OpenJobs::default();
        let (waited, alone) = (jobs.begin(true), jobs.begin(false));
        let unwatched = jobs.unwatched(|is_watched| *is_watched);
        assert_eq!(unwatched, [alone].into());
        let mut next = OpenJobs::default();
        next.resume_after(jobs.newest(), unwatched);
        assert_eq!((next.owe(waited), next.settle(alone)), (Counted::Before, Counted::Before));
        assert!(next.has_client_left(waited, |_| false) && !next.has_client_left(alone, |_| true));
        let own = next.begin(true);
        assert_eq!(own, JobId(3));
        assert!(next.has_client_left(own, |_| true) && !next.has_client_left(own, |_| false));
        assert_eq!(next.unwatched(|is_watched| *is_watched), [alone].into());
        assert_eq!(next.take_all().collect::<Vec<_>>(), [true]);
    }
}
