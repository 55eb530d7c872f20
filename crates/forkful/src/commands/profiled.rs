//! Which worker a profile is about.

use forkful_api::types::{AppView, Status, WorkerView};
use forkful_core::profile::foremost;

use crate::exit::{Exit, Failure};

/// What a worker has most of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Load {
    Cpu,
    Heap,
}

impl Load {
    fn of(self, worker: &WorkerView) -> Option<f64> {
        let names = match self {
            Self::Cpu => ["event_loop_utilization", "cpu_cores"],
            Self::Heap => ["heap_used_bytes", "memory_bytes"],
        };
        names.iter().find_map(|name| worker.metrics.get(*name).copied())
    }
}

/// The worker that the targets name by its id, else the online one with the largest load.
pub(super) fn worker_of(app: &AppView, targets: &[String], load: Load) -> Result<u32, Failure> {
    let is_named = |worker: &WorkerView| targets.iter().any(|target| target.parse() == Ok(worker.pm_id));
    let names_one = app.workers.iter().any(is_named);
    let chosen = app
        .workers
        .iter()
        .filter(|worker| worker.status == Status::Online && (!names_one || is_named(worker)));
    foremost(chosen.map(|worker| (worker.pm_id, load.of(worker)))).ok_or_else(|| {
        let error = format!("no worker of {} is online that could be profiled", app.definition.name);
        Failure::new(Exit::Failed, error).hint("`forkful list` shows the states of its workers")
    })
}
