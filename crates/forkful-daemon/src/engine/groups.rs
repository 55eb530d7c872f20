//! The control groups of apps: each process joins its group before its program runs, and the group is emptied
//! when its worker has ended.
//!
//! Without a writable hierarchy there are none, and only limits are refused.

use forkful_core::Time;
use forkful_core::slot::Generation;
use forkful_core::spec::{AppSpec, ResourceLimits};
use forkful_core::supervisor::SlotRecord;
use forkful_core::upkeep::renewal;
use forkful_os::cgroup::{AppGroup, GroupLimits, GroupUsage, Groups, LimitError, Membership, WorkerGroup};
use forkful_os::tree::Mark;

use super::app::{App, AppId, Place};
use super::cpu_sample::CpuSample;
use forkful_api::types::{AppUsage, WorkerUsage};

/// Creates the group of a worker that is about to start, within its app's group. Without `groups` none can be
/// created. The text says which limit is unavailable.
pub(super) fn join_group(
    groups: Option<&Groups>,
    app: AppId,
    entry: &mut App,
    mark: Mark,
) -> Result<Option<(WorkerGroup, Membership)>, String> {
    let wanted = limits_of(entry.spec().limits);
    let Some(groups) = groups else {
        return match limit_names(entry.spec()) {
            None => Ok(None),
            Some(names) if forkful_os::portable::is_on() => {
                Err(format!("{names} cannot be kept: there are no control groups in the portable mode"))
            }
            Some(names) => Err(format!(
                "{names} cannot be kept: this system lets the daemon make no control group \
                 (it needs root, or a service with `Delegate=yes`)"
            )),
        };
    };
    let mark = mark.to_string();
    // The group is used again unless its limits change, or somebody has removed it.
    let present = entry.group.as_ref().filter(|group| group.keeps(limits_now(entry)));
    if let Some(joined) = present.and_then(|group| group.worker(&mark, wanted).ok()) {
        return Ok(Some(joined));
    }
    let joined =
        group_of(groups, app, entry).map_err(|error| (error.to_string(), error.source)).and_then(|group| {
            let joined = group.worker(&mark, wanted);
            entry.group = Some(group);
            joined.map_err(|error| ("cannot make its control group".to_owned(), error))
        });
    match joined {
        Ok(joined) => Ok(Some(joined)),
        // A start is more important than its group.
        Err(_) if wanted == GroupLimits::default() => Ok(None),
        Err((what, error)) => Err(format!("{what}: {error}")),
    }
}

/// The group of a worker that is taken over, within its app's group.
pub(super) fn find_group(
    groups: Option<&Groups>,
    app: AppId,
    entry: &mut App,
    mark: Mark,
) -> Option<WorkerGroup> {
    if entry.group.is_none() {
        let groups = groups?;
        let again = groups.app_again(&name_of(app));
        entry.group = again.or_else(|| group_of(groups, app, entry).ok());
    }
    entry.group.as_ref().map(|group| group.worker_again(&mark.to_string()))
}

fn group_of(groups: &Groups, app: AppId, entry: &App) -> Result<AppGroup, LimitError> {
    groups.app(&name_of(app), limits_now(entry))
}

/// The limits that the group of an app should have now.
fn limits_now(entry: &App) -> GroupLimits {
    let set = entry.group.as_ref().map_or(entry.spec().limits, |group| {
        let GroupLimits { memory_bytes, millicores } = group.limits();
        ResourceLimits { memory_bytes, millicores }
    });
    limits_of(entry.supervisor.limits(set))
}

fn name_of(app: AppId) -> String {
    format!("app-{}", app.0)
}

fn limits_of(limits: ResourceLimits) -> GroupLimits {
    let ResourceLimits { memory_bytes, millicores } = limits;
    GroupLimits { memory_bytes, millicores }
}

impl App {
    /// Has its group follow the definition, and reloads. A limit that the kernel refuses is set at the next start of a worker.
    pub(super) fn follow_limits(&mut self) {
        let own = limits_of(self.spec().limits);
        if self.group.as_ref().is_none_or(|group| group.limits() == own) {
            return;
        }
        let limits = limits_now(self);
        let Some(group) = self.group.as_mut().filter(|group| group.limits() != limits) else { return };
        if let Err(error) = group.limit(limits) {
            let name = &self.supervisor.spec().name;
            log_line!("forkful: {name}: {error} ({}); it is set when the next worker starts", error.source);
        }
    }

    /// If the memory of the app runs out, the kernel kills the new process, and not the process that serves.
    pub(super) fn kill_first(&self, slot: u16, generation: Generation) {
        if self.spec().limits.memory_bytes.is_some()
            && let Some(process) = self.process(slot, generation)
        {
            forkful_os::kill_order::kill_first(process.child.pid);
        }
    }

    /// The new process serves: the kernel treats it like any other process again.
    pub(super) fn kill_as_usual(&self, slot: u16, generation: Generation) {
        let process = self.process(slot, generation);
        if let Some((pid, group)) =
            process.and_then(|process| Some((process.child.pid, process.group.as_ref()?)))
        {
            group.kill_as_usual(pid);
        }
    }

    /// The use of all its processes, by the kernel's accounts.
    pub(super) fn usage(&mut self, now: Time) -> Option<AppUsage> {
        let group = self.group.as_ref()?;
        let usage = group.usage();
        let out_of_memory_kills = group.out_of_memory_kills().unwrap_or(0);
        let WorkerUsage { memory_bytes, cpu_percent, cpu_time_ms } =
            figures(&usage, &mut self.metrics.cpu, now);
        Some(AppUsage { memory_bytes, cpu_percent, cpu_time_ms, out_of_memory_kills })
    }

    /// Begins to detect when the kernel kills one of its processes for lack of memory.
    pub(super) fn watch_out_of_memory(&mut self) {
        let kills = self.kills_so_far();
        self.memory_kills.begin(kills);
    }

    /// Counted for its group; without a group, for this daemon's.
    fn kills_so_far(&self) -> u64 {
        let of_group = self.group.as_ref().and_then(AppGroup::out_of_memory_kills);
        of_group.unwrap_or_else(forkful_os::memory_limit::out_of_memory_kills)
    }

    /// Reports in words if the kernel has killed the process for lack of memory that has just been killed by somebody.
    pub(super) fn out_of_memory(&mut self, now: Time) -> Option<String> {
        let kills = self.kills_so_far();
        let is_new = self.memory_kills.explain(kills, now);
        let why = match self.spec().limits.memory_bytes {
            Some(bytes) => {
                let limit = renewal::mebi(bytes);
                format!("the kernel killed it: its app had used all of its `memory_max` of {limit}")
            }
            None => "the kernel killed it: memory had run out".to_owned(),
        };
        is_new.then_some(why)
    }
}

/// The use of a worker's process and all descendants, by the kernel's accounts.
pub(super) fn worker_usage(record: &SlotRecord, place: &mut Place, now: Time) -> Option<WorkerUsage> {
    let process = place.current(record).filter(|process| process.ended.is_none())?;
    let (pid, spawned) = (process.child.pid, process.spawned);
    let usage = process.group.as_ref()?.usage();
    if usage == GroupUsage::default() {
        return None;
    }
    place.group_cpu.follow(pid, spawned);
    Some(figures(&usage, &mut place.group_cpu, now))
}

/// The values of a group; takes a sample of its CPU time, unless the last sample is very recent.
fn figures(usage: &GroupUsage, cpu: &mut CpuSample, now: Time) -> WorkerUsage {
    if let Some(used) = usage.cpu_time
        && cpu.is_due(now)
    {
        cpu.take(used, now);
    }
    WorkerUsage {
        memory_bytes: usage.memory_bytes,
        cpu_percent: usage.cpu_time.map(|_| cpu.percent),
        cpu_time_ms: usage.cpu_time.map(|time| time.as_millis() as u64),
    }
}

/// The limits of an app.
fn limit_names(spec: &AppSpec) -> Option<&'static str> {
    match (spec.limits.memory_bytes, spec.limits.millicores) {
        (None, None) => None,
        (Some(_), None) => Some("`memory_max`"),
        (None, Some(_)) => Some("`cpu_max`"),
        (Some(_), Some(_)) => Some("`memory_max` and `cpu_max`"),
    }
}
