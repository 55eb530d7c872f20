//! A control group for each app, with a group below it for the process tree of each worker (cgroups(7), the
//! kernel's `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/`).
//!
//! A process cannot leave its group without rights that apps do not have, so a group also finds descendants
//! that removed every other mark. Version 2 is used if it is writable (a service with `Delegate=yes`, or
//! root); otherwise the freezer of version 1. Memory and CPU come from version 2 if its controllers are
//! available, otherwise from version 1. If no hierarchy is writable, there are no groups, and only limits
//! depend on them.
//!
//! Everything here is a few reads and writes of kernel files that do not wait. Only joining may wait, and
//! happens in the child (see [`Membership`]).

mod hierarchy;
mod kill;
#[cfg(test)]
mod tests;

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::pressure::Pressure;
use crate::tree::Instance;
use hierarchy::{Hierarchies, Tree, Version};

/// The groups of a supervisor.
#[derive(Debug)]
pub struct Groups {
    trees: Hierarchies,
}

/// The group of an app.
#[derive(Debug)]
pub struct AppGroup {
    /// The tree in which its processes are found.
    members: Tree,
    memory: Option<Tree>,
    cpu_time: Option<Tree>,
    cpu_limit: Option<Tree>,
    limits: GroupLimits,
    /// The kernel has these limits.
    are_set: bool,
}

/// The group of a worker and its descendants.
#[derive(Debug)]
pub struct WorkerGroup {
    tree: Tree,
}

/// Open files with which a child joins its groups before it executes its program.
#[derive(Debug)]
pub struct Membership {
    pub(crate) files: Vec<OwnedFd>,
    /// If joining fails, the child does not start: it would run without its limits.
    pub(crate) is_required: bool,
}

/// An app's limits; `None`: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupLimits {
    /// Bytes of memory of all its processes.
    pub memory_bytes: Option<u64>,
    /// CPU time in thousandths of a core.
    pub millicores: Option<u32>,
}

/// Resource use of an app or a worker, as the kernel counts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupUsage {
    /// Memory without the inactive part of the page cache.
    pub memory_bytes: Option<u64>,
    /// Since the group was created.
    pub cpu_time: Option<Duration>,
}

/// How often and how long a CPU quota was exhausted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttling {
    pub periods: u64,
    /// Periods in which the quota was exhausted.
    pub throttled: u64,
    pub time: Duration,
}

/// The groups with a CPU quota that contain this process and its descendants: those of a container or a
/// service.
#[derive(Debug, Default)]
pub struct Surroundings {
    quotas: Vec<Tree>,
}

/// A limit could not be set.
#[derive(Debug, thiserror::Error)]
#[error("cannot set {what}")]
pub struct LimitError {
    pub what: &'static str,
    #[source]
    pub source: io::Error,
}

/// The period of CPU quotas in microseconds; the kernel's default.
const CPU_PERIOD_US: u64 = 100_000;
/// Version 1 shows no limit as the largest number of whole pages.
const NO_MEMORY_LIMIT_BYTES: u64 = 1 << 62;
/// The kernel's smallest quota.
const CPU_QUOTA_MIN_US: u64 = 1000;

impl Groups {
    /// Creates the parent of a supervisor's groups; `None` if no hierarchy is writable.
    pub fn make(instance: Instance) -> Option<Self> {
        if crate::portable::is_on() {
            return None;
        }
        Hierarchies::prepare(Path::new("/"));
        Hierarchies::find(Path::new("/"))?.below(&folder_of(instance)).map(|trees| Self { trees })
    }

    /// Creates the group of an app, or changes the limits of an existing group. Hierarchies in which it
    /// cannot be created are skipped.
    pub fn app(&self, name: &str, limits: GroupLimits) -> Result<AppGroup, LimitError> {
        let failed = |what| move |source| LimitError { what, source };
        let is_new = !self.trees.all().iter().any(|tree| tree.path.join(name).is_dir());
        let members = self.trees.members.below(name).map_err(failed("up its control group"))?;
        let mut group = self.group(members, limits, |tree| tree.below(name).ok());
        if group.members.version == Version::Two {
            // If this succeeds, the groups of workers have their own counters.
            hierarchy::pass_on_all(&self.trees.members, &group.members);
        }
        // A new group has no limits.
        if !is_new || limits != GroupLimits::default() {
            group.write_limits()?;
        }
        group.are_set = true;
        Ok(group)
    }

    /// The group of an app that an earlier supervisor has created, with the limits that it has. `None` if it
    /// does not exist.
    pub fn app_again(&self, name: &str) -> Option<AppGroup> {
        let there = |tree: &Tree| {
            let path = tree.path.join(name);
            path.is_dir().then_some(Tree { path, version: tree.version })
        };
        let mut group = self.group(there(&self.trees.members)?, GroupLimits::default(), there);
        group.limits = group.read_limits();
        group.are_set = true;
        Some(group)
    }

    fn group(&self, members: Tree, limits: GroupLimits, below: impl Fn(&Tree) -> Option<Tree>) -> AppGroup {
        let below = |tree: &Option<Tree>| tree.as_ref().and_then(&below);
        AppGroup {
            members,
            memory: below(&self.trees.memory),
            cpu_time: below(&self.trees.cpu_time),
            cpu_limit: below(&self.trees.cpu_limit),
            limits,
            are_set: false,
        }
    }
}

impl Drop for Groups {
    /// Removes the supervisor's groups, which are empty.
    fn drop(&mut self) {
        for tree in self.trees.all() {
            remove_all(&tree.path);
        }
    }
}

/// Moves this process to a group below its own if it is alone in it, and if groups with limits can only be
/// created then. For a process above the supervisor, before it starts the supervisor.
pub fn make_room() {
    Hierarchies::prepare(Path::new("/"));
}

/// Kills every process in the groups of another supervisor, and removes the groups once they are empty.
/// Returns the number of processes.
pub fn clear_left_behind(instance: Instance) -> usize {
    if crate::portable::is_on() {
        return 0;
    }
    let Some(trees) = Hierarchies::find(Path::new("/")) else { return 0 };
    let folder = folder_of(instance);
    let mut killed = 0;
    for tree in trees.all() {
        let left = Tree { path: tree.path.join(&folder), version: tree.version };
        if left.path.is_dir() {
            killed += kill::everything_below(&left);
            remove_all(&left.path);
        }
    }
    killed
}

/// Moves this process out of the group of another supervisor's worker, which would kill it together with that
/// worker; for a daemon that a worker has started. If it is not permitted, the process stays.
pub fn leave_others() {
    if crate::portable::is_on() {
        return;
    }
    let own = std::process::id().to_string();
    for group in crate::cores::own_groups(Path::new("/")) {
        if let Some(outside) = outside(&group.path) {
            let version = if group.controllers.is_empty() { Version::Two } else { Version::One };
            let tree = |path: PathBuf| Tree { path, version };
            // A version 2 group whose controllers are enabled for its children accepts no process, but then
            // the other one does.
            let _refused = tree(outside.clone())
                .write("cgroup.procs", &own)
                .or_else(|_| tree(outside.join(hierarchy::LEAF)).write("cgroup.procs", &own));
        }
    }
}

/// The group that contains the groups of the outermost supervisor, for the group of a worker.
fn outside(path: &Path) -> Option<PathBuf> {
    let is_supervisors = |folder: &&Path| {
        let name = folder.file_name().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
        name.strip_prefix(FOLDER_PREFIX).is_some_and(|instance| Instance::parse(instance).is_some())
    };
    path.ancestors().filter(is_supervisors).last()?.parent().map(Path::to_owned)
}

/// Prefix of the folder of a supervisor's groups.
const FOLDER_PREFIX: &str = "forkful-";

fn folder_of(instance: Instance) -> String {
    format!("{FOLDER_PREFIX}{instance}")
}

impl AppGroup {
    pub fn limits(&self) -> GroupLimits {
        self.limits
    }

    /// Gives it other limits. After an error, too, they count as set, so that the same error does not come again.
    pub fn limit(&mut self, limits: GroupLimits) -> Result<(), LimitError> {
        self.limits = limits;
        self.are_set = false;
        self.write_limits()?;
        self.are_set = true;
        Ok(())
    }

    /// Whether the kernel keeps exactly these limits, as far as this supervisor knows.
    pub fn keeps(&self, limits: GroupLimits) -> bool {
        self.are_set && self.limits == limits
    }

    /// As the kernel has them.
    fn read_limits(&self) -> GroupLimits {
        let memory = self.memory.as_ref().and_then(|tree| tree.number(memory_limit_file(tree.version)));
        let quota_us = self.cpu_limit.as_ref().and_then(|tree| match tree.version {
            Version::Two => tree.read("cpu.max")?.split_whitespace().next()?.parse::<u64>().ok(),
            Version::One => tree.number("cpu.cfs_quota_us"),
        });
        GroupLimits {
            memory_bytes: memory.filter(|bytes| *bytes < NO_MEMORY_LIMIT_BYTES),
            millicores: quota_us.and_then(|quota_us| u32::try_from(quota_us * 1000 / CPU_PERIOD_US).ok()),
        }
    }

    fn write_limits(&self) -> Result<(), LimitError> {
        let failed = |what| move |source| LimitError { what, source };
        let GroupLimits { memory_bytes, millicores } = self.limits;
        let memory = self.limit_memory(memory_bytes);
        let cores = self.limit_cores(millicores);
        // Without a limit, no controller is needed.
        if memory_bytes.is_some() {
            memory.map_err(failed("its memory limit"))?;
        }
        if millicores.is_some() {
            cores.map_err(failed("its CPU limit"))?;
        }
        Ok(())
    }

    /// Creates the group of a worker that is to keep the `wanted` limits, and the means for a child to join it. The present
    /// limits may be looser, for as long as another version of the app runs.
    pub fn worker(&self, name: &str, wanted: GroupLimits) -> io::Result<(WorkerGroup, Membership)> {
        let tree = self.members.below(name)?;
        // Joining takes time at each start, so unused groups are left out.
        let limits_cores = wanted.millicores.or(self.limits.millicores).is_some();
        let cpu_limit = self.cpu_limit.as_ref().filter(|_| limits_cores);
        let others = [self.memory.as_ref(), self.cpu_time.as_ref(), cpu_limit];
        let others = others.into_iter().flatten().filter(|other| other.version == Version::One);
        let is_required = [wanted, self.limits].iter().any(|limits| *limits != GroupLimits::default());
        let mut files = vec![tree.procs()?];
        for other in others {
            match other.procs() {
                Ok(file) => files.push(file),
                // Counters are less important than the start.
                Err(_) if !is_required => {}
                Err(error) => return Err(error),
            }
        }
        Ok((WorkerGroup { tree }, Membership { files, is_required }))
    }

    /// The group of a running worker that an earlier supervisor has created.
    pub fn worker_again(&self, name: &str) -> WorkerGroup {
        WorkerGroup { tree: Tree { path: self.members.path.join(name), version: self.members.version } }
    }

    /// Resource use of its processes.
    pub fn usage(&self) -> GroupUsage {
        GroupUsage {
            memory_bytes: self.memory.as_ref().and_then(memory_of),
            cpu_time: self.cpu_time.as_ref().and_then(cpu_time_of),
        }
    }

    /// Memory that counts for its limit, in bytes: with all of the page cache.
    pub fn charged_memory(&self) -> Option<u64> {
        self.memory.as_ref().and_then(charged_memory_of)
    }

    /// How often the kernel has killed one of its processes for lack of memory; `None` if the kernel does not
    /// count it.
    pub fn out_of_memory_kills(&self) -> Option<u64> {
        let of = |tree: &Tree| match tree.version {
            Version::Two => tree.field("memory.events", "oom_kill"),
            Version::One => tree.field("memory.oom_control", "oom_kill"),
        };
        self.memory.as_ref().and_then(of)
    }

    /// How its CPU limit has throttled it; `None` without a limit.
    pub fn throttling(&self) -> Option<Throttling> {
        self.cpu_limit.as_ref().filter(|_| self.limits.millicores.is_some()).and_then(throttling_of)
    }

    /// For what its processes wait; `None` if the kernel does not measure it for groups.
    pub fn pressure(&self) -> Option<Pressure> {
        let is_measured = self.members.version == Version::Two;
        is_measured.then(|| Pressure::of_group(&self.members.path)).filter(Pressure::is_known)
    }

    /// Removes it; no process may be in it.
    pub fn remove(&self) {
        let others = [&self.memory, &self.cpu_time, &self.cpu_limit];
        for tree in others.into_iter().flatten().chain([&self.members]) {
            remove_all(&tree.path);
        }
    }

    fn limit_memory(&self, bytes: Option<u64>) -> io::Result<()> {
        let tree = self.memory.as_ref().ok_or_else(|| no_controller("memory"))?;
        tree.limit_memory(bytes)
    }

    fn limit_cores(&self, millicores: Option<u32>) -> io::Result<()> {
        let tree = self.cpu_limit.as_ref().ok_or_else(|| no_controller("cpu"))?;
        let quota = millicores.map(|millicores| {
            (u64::from(millicores) * CPU_PERIOD_US / 1000).max(CPU_QUOTA_MIN_US).to_string()
        });
        match tree.version {
            Version::Two => {
                tree.write("cpu.max", &format!("{} {CPU_PERIOD_US}", quota.as_deref().unwrap_or("max")))
            }
            Version::One => {
                tree.write("cpu.cfs_period_us", &CPU_PERIOD_US.to_string())?;
                tree.write("cpu.cfs_quota_us", quota.as_deref().unwrap_or("-1"))
            }
        }
    }
}

impl Surroundings {
    /// The current ones of this process.
    pub fn find() -> Self {
        let mut quotas = Vec::new();
        for (controllers, groups) in crate::cores::hierarchies(Path::new("/")) {
            let version = if controllers.is_empty() { Version::Two } else { Version::One };
            if version == Version::One && !controllers.iter().any(|name| name == "cpu") {
                continue;
            }
            let trees = groups.into_iter().map(|(path, _)| Tree { path, version });
            quotas.extend(trees.filter(Tree::has_quota));
        }
        Self { quotas }
    }

    /// The group that was throttled for the longest time; `None` without a quota.
    pub fn throttling(&self) -> Option<Throttling> {
        self.quotas.iter().filter_map(throttling_of).max_by_key(|throttling| throttling.time)
    }
}

impl WorkerGroup {
    /// Whether it or a group below contains a process.
    pub fn is_populated(&self) -> bool {
        kill::is_populated(&self.tree)
    }

    /// Resource use of its processes. There are no counters in version 1: each further group would delay a
    /// start.
    pub fn usage(&self) -> GroupUsage {
        let accounts = Some(&self.tree).filter(|tree| tree.version == Version::Two);
        GroupUsage { memory_bytes: accounts.and_then(memory_of), cpu_time: accounts.and_then(cpu_time_of) }
    }

    /// Kills every process in it and below it; returns their number.
    pub fn kill(&self) -> usize {
        kill::everything_below(&self.tree)
    }

    /// The process `first` and the others in it are no longer the first that the kernel kills, if they were.
    pub fn kill_as_usual(&self, first: u32) {
        if !crate::kill_order::is_first(first) {
            return;
        }
        let pids = kill::processes(&self.tree).into_iter();
        pids.for_each(|pid| crate::kill_order::kill_as_usual(pid.unsigned_abs()));
    }
}

impl Drop for WorkerGroup {
    /// Removes it. If it contains a process, it stays until its app's group is removed.
    fn drop(&mut self) {
        remove_all(&self.tree.path);
    }
}

fn memory_limit_file(version: Version) -> &'static str {
    match version {
        Version::Two => "memory.max",
        Version::One => "memory.limit_in_bytes",
    }
}

fn no_controller(name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        format!("the `{name}` controller is not delegated to this process"),
    )
}

fn memory_of(tree: &Tree) -> Option<u64> {
    let cached = tree.field(
        "memory.stat",
        match tree.version {
            Version::Two => "inactive_file",
            Version::One => "total_inactive_file",
        },
    );
    Some(charged_memory_of(tree)?.saturating_sub(cached.unwrap_or(0)))
}

fn charged_memory_of(tree: &Tree) -> Option<u64> {
    tree.number(match tree.version {
        Version::Two => "memory.current",
        Version::One => "memory.usage_in_bytes",
    })
}

fn cpu_time_of(tree: &Tree) -> Option<Duration> {
    match tree.version {
        Version::Two => tree.field("cpu.stat", "usage_usec").map(Duration::from_micros),
        Version::One => tree.number("cpuacct.usage").map(Duration::from_nanos),
    }
}

fn throttling_of(tree: &Tree) -> Option<Throttling> {
    let text = tree.read("cpu.stat")?;
    let field = |name: &str| {
        let mut fields = text.lines().filter_map(|line| line.split_once(' '));
        fields.find(|(field, _)| *field == name)?.1.trim().parse::<u64>().ok()
    };
    let time = match tree.version {
        Version::Two => Duration::from_micros(field("throttled_usec")?),
        Version::One => Duration::from_nanos(field("throttled_time")?),
    };
    Some(Throttling { periods: field("nr_periods")?, throttled: field("nr_throttled")?, time })
}

/// Removes a group and the groups below it, except those with processes.
fn remove_all(path: &Path) {
    for below in folders(path) {
        remove_all(&below);
    }
    // A group in use stays; the next supervisor tries again.
    let _stays = fs::remove_dir(path);
}

/// The groups directly below a group.
fn folders(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

impl Tree {
    fn below(&self, name: &str) -> io::Result<Self> {
        let path = self.path.join(name);
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            Ok(()) | Err(_) => Ok(Self { path, version: self.version }),
        }
    }

    fn procs(&self) -> io::Result<OwnedFd> {
        Ok(OpenOptions::new().write(true).open(self.path.join("cgroup.procs"))?.into())
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        use std::io::Write as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        // From Linux 6.16 on, a limit below what is used makes nobody wait until the kernel has freed the rest.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        // A single write: the kernel handles each write separately.
        let mut opened = OpenOptions::new().write(true).custom_flags(flags).open(self.path.join(file))?;
        opened.write_all(text.as_bytes())
    }

    /// Limits the memory of its processes. Without swap, if the kernel can limit swap: otherwise processes swap instead of being killed.
    fn limit_memory(&self, bytes: Option<u64>) -> io::Result<()> {
        let limit_file = memory_limit_file(self.version);
        let text = |none: &str| bytes.map_or_else(|| none.to_owned(), |bytes| bytes.to_string());
        match self.version {
            Version::Two => {
                self.write(limit_file, &text("max"))?;
                let _no_swap_account =
                    self.write("memory.swap.max", if bytes.is_some() { "0" } else { "max" });
            }
            Version::One => {
                // The limit of memory and swap together may not be below that of memory: it is raised before, and lowered after.
                let limit_both = || self.write("memory.memsw.limit_in_bytes", &text("-1"));
                let _lowered_below = limit_both();
                self.write(limit_file, &text("-1"))?;
                let _no_swap_account = limit_both();
            }
        }
        Ok(())
    }

    fn read(&self, file: &str) -> Option<String> {
        crate::procinfo::read_text(self.path.join(file)).ok()
    }

    fn has_quota(&self) -> bool {
        match self.version {
            Version::Two => self.read("cpu.max").is_some_and(|text| !text.starts_with("max")),
            Version::One => self.read("cpu.cfs_quota_us").is_some_and(|text| !text.starts_with('-')),
        }
    }

    fn number(&self, file: &str) -> Option<u64> {
        self.read(file)?.trim().parse().ok()
    }

    /// Reads a value from lines `name number`.
    fn field(&self, file: &str, name: &str) -> Option<u64> {
        let text = self.read(file)?;
        let mut fields = text.lines().filter_map(|line| line.split_once(' '));
        fields.find(|(field, _)| *field == name)?.1.trim().parse().ok()
    }
}
