//! Memory plans of apps (`memory: auto`): what is known goes in, and the plan is kept for starts, looks and lists. What it
//! says is decided by `forkful_core::memory_plan`.

use std::time::Duration;

use forkful_api::types::MemoryPlanView;
use forkful_core::Time;
use forkful_core::memory_plan::{Available, Claim, Heap, Inputs, MemoryPlan, OwnOptions, Replaces, Source};
use forkful_core::spec::AppSpec;
use forkful_os::memory_limit::{machine_bytes, memory_limit};

use super::app::{App, AppId};
use super::apps::Apps;

/// A limit of a control group is read again after so long: somebody may have changed it.
const LIMIT_FRESH: Duration = Duration::from_secs(10);

/// What the memory of all apps is limited to, when it was looked up last.
#[derive(Debug, Default)]
pub(super) struct SharedMemory(Option<(Time, Available)>);

impl SharedMemory {
    fn look(&mut self, now: Time) -> Available {
        let fresh = self.0.take().filter(|(at, _)| now.since(*at) < LIMIT_FRESH);
        let (at, available) = fresh.unwrap_or_else(|| (now, found()));
        self.0 = Some((at, available.clone()));
        available
    }
}

fn found() -> Available {
    match memory_limit() {
        Some(limit) => Available { bytes: limit.bytes, source: Source::Group(limit.cgroup) },
        None => Available { bytes: machine_bytes().unwrap_or(u64::MAX), source: Source::Machine },
    }
}

impl Apps {
    /// Plans the memory of an app that wants it.
    pub(super) fn plan_memory(&mut self, app: AppId, now: Time) {
        let wanted = self.get(&app).is_some_and(|entry| entry.spec().memory_auto);
        let plan = wanted.then(|| self.memory_plan(app, now)).flatten();
        let Some(entry) = self.get_mut(app) else { return };
        if let Some(plan) = plan.as_ref().filter(|plan| entry.upkeep.memory.as_ref() != Some(plan)) {
            log_line!("forkful: {}: memory: {plan}", entry.spec().name);
        }
        entry.upkeep.memory = plan;
    }

    /// What the client of a command is told of an app's plan.
    pub(super) fn memory_note(&mut self, app: AppId, now: Time) -> Option<String> {
        self.plan_memory(app, now);
        let plan = self.get(&app)?.upkeep.memory.as_ref()?;
        Some(format!("memory: {plan}"))
    }

    fn memory_plan(&mut self, app: AppId, now: Time) -> Option<MemoryPlan> {
        let shared = self.shared_memory.look(now);
        let entry = self.get(&app)?;
        let spec = entry.spec();
        let own = spec.limits.memory_bytes.filter(|bytes| *bytes <= shared.bytes);
        let available = own.map_or(shared, |bytes| Available { bytes, source: Source::MemoryMax });
        let others: Vec<Claim> = match available.source {
            Source::MemoryMax => Vec::new(),
            Source::Group(_) | Source::Machine => {
                let others = self.iter().filter(|(id, other)| **id != app && !other.supervisor.is_at_rest());
                others.map(|(_, other)| claim_of(other.spec())).collect()
            }
        };
        Some(MemoryPlan::new(&Inputs {
            available: &available,
            workers: match spec.autoscale {
                // There has to be room for all that may come.
                Some(bounds) => bounds.max,
                None => entry.places.len().max(1).try_into().unwrap_or(u16::MAX),
            },
            others: &others,
            node_major: entry.node_major().or(spec.launch.node_major),
            own: OwnOptions::of(spec),
        }))
    }
}

/// What an app has of the memory that all share.
fn claim_of(spec: &AppSpec) -> Claim {
    let by_workers = spec.renewal.max_memory_bytes.map(|bytes| bytes.saturating_mul(spec.instances.into()));
    Claim { workers: spec.instances, bytes: spec.limits.memory_bytes.or(by_workers) }
}

impl App {
    /// What one of its workers has said of itself.
    fn node_major(&self) -> Option<u16> {
        let processes = self.places.values().flat_map(|place| place.processes.values());
        processes.filter_map(|process| process.node_version).map(|version| version.major).next_back()
    }

    /// Own memory above which a worker is replaced by its plan.
    pub(super) fn own_memory_limit(&self) -> Option<u64> {
        match self.upkeep.memory.as_ref()?.replaces {
            Replaces::Above(bytes) => Some(bytes),
            Replaces::Users | Replaces::NoRoom => None,
        }
    }

    /// What Node.js is told by the plan.
    pub(super) fn heap_options(&self) -> Vec<String> {
        self.upkeep.memory.as_ref().map(MemoryPlan::node_options).unwrap_or_default()
    }

    /// What lists show of its plan.
    pub(super) fn memory_view(&self) -> Option<MemoryPlanView> {
        let plan = self.upkeep.memory.as_ref()?;
        Some(MemoryPlanView {
            text: plan.to_string(),
            limit_bytes: plan.available.bytes,
            limit_of: plan.available.source.to_string(),
            worker_bytes: plan.share,
            heap_mib: match plan.heap {
                Heap::Mib(mib) => Some(mib),
                Heap::Users | Heap::TooSmall => None,
            },
            replaced_above_bytes: self.own_memory_limit(),
        })
    }
}
