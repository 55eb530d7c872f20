//! What is known of an app whose number of workers follows the load: what was measured of its workers, and what is left of CPU
//! and memory. What follows from it is decided by `forkful_core::autoscale`.

use std::time::Duration;

use forkful_core::Time;
use forkful_core::autoscale::{Cpu, MemoryOf, MemoryRoom, Signals, WorkerSignals};
use forkful_core::slot::State;
use forkful_core::supervisor::SlotRecord;
use forkful_os::cores::{CoreLimit, usable_cores};
use forkful_os::memory_limit::free_memory;

use super::app::{App, AppId, Place};
use super::apps::Apps;

/// How many cores there are is looked up again after so long: somebody may have changed a quota.
const CORES_FRESH: Duration = Duration::from_secs(10);

/// The cores that all apps may use, in thousandths, when they were looked up last.
#[derive(Debug, Default)]
pub(super) struct SharedCores(Option<(Time, u32)>);

impl SharedCores {
    fn look(&mut self, now: Time) -> u32 {
        let fresh = self.0.filter(|(at, _)| now.since(*at) < CORES_FRESH);
        let (at, millicores) = fresh.unwrap_or_else(|| {
            let cores = usable_cores();
            let tightest = cores.limits.first().map_or(f64::from(cores.online), CoreLimit::cores);
            (now, millicores(tightest))
        });
        self.0 = Some((at, millicores));
        millicores
    }
}

fn millicores(cores: f64) -> u32 {
    (cores * 1000.0) as u32
}

impl Apps {
    /// What an app's number of workers follows; `None` where it is fixed.
    pub(super) fn load(&mut self, app: AppId, now: Time) -> Option<Signals> {
        self.get(&app)?.spec().autoscale?;
        let of_millicores = self.shared_cores.look(now);
        let used_millicores = self.values().map(|entry| entry.used_millicores(now)).sum();
        let entry = self.get(&app)?;
        let mut cpu = vec![Cpu { used_millicores, of_millicores }];
        cpu.extend(
            entry
                .spec()
                .limits
                .millicores
                .map(|of_millicores| Cpu { used_millicores: entry.used_millicores(now), of_millicores }),
        );
        let workers = entry.measured_workers(now);
        let memory = entry.free_memory(&workers);
        Some(Signals { workers, waiting: entry.primary.waiting(), cpu, memory })
    }
}

impl App {
    /// The CPU that its processes used at the last looks.
    fn used_millicores(&self, now: Time) -> u32 {
        let processes = self.places.values().flat_map(|place| place.processes.values());
        let living = processes.filter(|process| process.ended.is_none());
        living.filter_map(|process| process.metrics.sample(now).get("cpu_cores")).map(millicores).sum()
    }

    /// The workers that serve, as far as they were measured.
    fn measured_workers(&self, now: Time) -> Vec<WorkerSignals> {
        let of = |(slot, record, place): (u16, &SlotRecord, &Place)| {
            let State::Online(running) = &record.slot.state else { return None };
            let process = place.processes.get(&running.generation)?;
            WorkerSignals::of(slot, running.generation, &process.metrics.sample(now))
        };
        self.slots().filter_map(of).collect()
    }

    /// The memory that another worker could have.
    fn free_memory(&self, workers: &[WorkerSignals]) -> Option<MemoryRoom> {
        let shared = free_memory().map(|free| MemoryRoom {
            bytes: free.bytes,
            of: if free.by_group { MemoryOf::Group } else { MemoryOf::Machine },
        });
        let own = self.spec().limits.memory_bytes.map(|limit| {
            let counted = self.group.as_ref().and_then(|group| group.usage().memory_bytes);
            let used = counted.unwrap_or_else(|| workers.iter().map(|worker| worker.memory_bytes).sum());
            MemoryRoom { bytes: limit.saturating_sub(used), of: MemoryOf::AppLimit }
        });
        shared.into_iter().chain(own).min_by_key(|room| room.bytes)
    }
}
