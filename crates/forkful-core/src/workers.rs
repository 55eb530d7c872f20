//! The workers of an app by its processes, and when a process that leaves has finished. In cluster mode each process is one worker.
//! In fork mode a process may have child processes that are workers too: `npm start` runs the server in a child process.

use std::collections::{BTreeMap, BTreeSet};

use crate::slot::Generation;

/// A process: its slot and its start in it.
pub type Process = (u16, Generation);

/// See the module's documentation. `W` names a worker.
#[derive(Debug)]
pub struct Workers<W> {
    /// How many were ever started; the last one's `cluster.worker.id`.
    pub started: u32,
    processes: BTreeMap<W, Process>,
    by_process: BTreeMap<Process, BTreeSet<W>>,
    /// Workers that are finishing their requests; in fork mode only.
    draining: BTreeSet<W>,
}

impl<W: Copy + Ord> Default for Workers<W> {
    fn default() -> Self {
        let (processes, by_process, draining) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { started: 0, processes, by_process, draining }
    }
}

impl<W: Copy + Ord> Workers<W> {
    /// A worker of a process: the process itself, or one below it.
    pub fn add(&mut self, worker: W, process: Process) {
        self.remove(worker);
        self.processes.insert(worker, process);
        self.by_process.entry(process).or_default().insert(worker);
    }

    /// The process of a worker.
    pub fn process_of(&self, worker: W) -> Option<Process> {
        self.processes.get(&worker).copied()
    }

    /// All workers, each with its process.
    pub fn all(&self) -> impl Iterator<Item = (W, Process)> {
        self.processes.iter().map(|(worker, process)| (*worker, *process))
    }

    /// All workers of a process, by their numbers.
    pub fn of(&self, process: Process) -> Vec<W> {
        self.by_process.get(&process).into_iter().flatten().copied().collect()
    }

    /// A process in fork mode is told to finish its requests. Each of its workers with an agent reports when it has finished. Returns true if
    /// no worker has an agent: then there is no report to wait for.
    pub fn drain(&mut self, process: Process, has_agent: impl Fn(W) -> bool) -> bool {
        let finishing: Vec<W> = self.of(process).into_iter().filter(|worker| has_agent(*worker)).collect();
        self.draining.extend(&finishing);
        finishing.is_empty()
    }

    /// A worker has finished or gone. Returns its process if no other worker of the process is still finishing.
    pub fn has_drained(&mut self, worker: W) -> Option<Process> {
        let process = self.process_of(worker).filter(|_| self.draining.remove(&worker))?;
        let is_last = !self.of(process).iter().any(|other| self.draining.contains(other));
        is_last.then_some(process)
    }

    /// A worker is gone.
    pub fn remove(&mut self, worker: W) {
        if let Some(process) = self.processes.remove(&worker)
            && let Some(workers) = self.by_process.get_mut(&process)
        {
            workers.remove(&worker);
            if workers.is_empty() {
                self.by_process.remove(&process);
            }
        }
        self.draining.remove(&worker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Process = (0, Generation(1));
    const NEW: Process = (0, Generation(2));

    fn workers() -> Workers<u32> {
        let mut workers = Workers::default();
        for (worker, process) in [(3, OLD), (1, OLD), (2, NEW), (4, (1, Generation(1)))] {
            workers.add(worker, process);
        }
        workers
    }

    #[test]
    fn a_process_has_its_own_workers() {
        let mut workers = workers();
        assert_eq!((workers.of(OLD), workers.of(NEW)), (vec![1, 3], vec![2]));
        assert!(workers.of((7, Generation(1))).is_empty());
        assert_eq!(workers.process_of(3), Some(OLD));
        workers.add(3, NEW);
        workers.remove(1);
        assert_eq!((workers.of(OLD), workers.of(NEW)), (vec![], vec![2, 3]));
        assert_eq!(workers.all().count(), 3);
    }

    #[test]
    fn a_process_has_finished_when_all_of_its_workers_with_an_agent_have() {
        let mut workers = workers();
        assert_eq!(workers.has_drained(1), None, "nobody asked");
        assert!(!workers.drain(OLD, |_| true));
        assert!(!workers.drain(NEW, |_| true));
        assert_eq!(workers.has_drained(1), None);
        assert_eq!(workers.has_drained(1), None, "said twice");
        assert_eq!(workers.has_drained(3), Some(OLD));
        assert_eq!(workers.has_drained(2), Some(NEW));
    }

    #[test]
    fn a_worker_without_an_agent_is_not_waited_for() {
        let mut workers = workers();
        assert!(!workers.drain(OLD, |worker| worker == 3));
        assert_eq!(workers.has_drained(3), Some(OLD));
        assert!(workers.drain(OLD, |_| false), "nobody says when it has finished");
        // A worker that is gone has nothing to finish.
        assert!(!workers.drain(OLD, |_| true));
        workers.remove(1);
        assert_eq!(workers.has_drained(3), Some(OLD));
    }
}
