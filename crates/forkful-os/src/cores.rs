//! How many cores this process may really use: what is online, less what affinity, cpuset and CPU quota take away.
//!
//! A quota counts for every ancestor of the process's control group, in version 1, version 2 and both at once; half
//! cores are rounded down, because a worker on a half core waits for the other half. Never less than one.

mod cgroup;

pub(crate) use cgroup::{hierarchies, own_groups};

use std::fmt;
use std::path::Path;

/// The answer, with its reasons.
#[derive(Debug, Clone, PartialEq)]
pub struct UsableCores {
    /// Cores to count on; at least 1.
    pub count: u16,
    /// Cores that are online.
    pub online: u16,
    /// Everything that takes cores away, the tightest first.
    pub limits: Vec<CoreLimit>,
}

/// One thing that takes cores away.
#[derive(Debug, Clone, PartialEq)]
pub enum CoreLimit {
    /// The process is bound to some cores (`taskset`, `AllowedCPUs=`, or a cpuset that is not visible here).
    Affinity { cores: u16 },
    /// A control group is bound to some cores.
    Cpuset {
        cores: u16,
        /// Path of the group within its hierarchy.
        cgroup: String,
    },
    /// A control group may use so much CPU time in a period.
    Quota {
        /// In cores; often a fraction.
        cores: f64,
        /// Path of the group within its hierarchy.
        cgroup: String,
    },
}

impl CoreLimit {
    /// The limit in cores.
    pub fn cores(&self) -> f64 {
        match self {
            Self::Affinity { cores } | Self::Cpuset { cores, .. } => f64::from(*cores),
            Self::Quota { cores, .. } => *cores,
        }
    }
}

impl fmt::Display for CoreLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Affinity { cores } => write!(f, "CPU affinity of {cores}"),
            Self::Cpuset { cores, cgroup } => write!(f, "cpuset of {cores} of cgroup {cgroup}"),
            Self::Quota { cores, cgroup } => {
                write!(f, "CPU quota {} of cgroup {cgroup}", (cores * 100.0).round() / 100.0)
            }
        }
    }
}

/// The cores that this process may use now.
pub fn usable_cores() -> UsableCores {
    let online = crate::procinfo::read_text("/sys/devices/system/cpu/online")
        .ok()
        .and_then(|text| cgroup::count_list(&text));
    let affinity = affinity();
    usable_cores_under(Path::new("/"), online.or(affinity).unwrap_or(1), affinity)
}

/// The same with the `proc` and `sys` below `root`, and the machine's numbers given.
fn usable_cores_under(root: &Path, online: u16, affinity: Option<u16>) -> UsableCores {
    let mut limits = Vec::new();
    limits.extend(affinity.map(|cores| CoreLimit::Affinity { cores }));
    limits.extend(cgroup::limits(root));
    limits.retain(|limit| limit.cores() < f64::from(online));
    // Stable, so that the affinity that a cpuset causes comes after nothing but tighter limits.
    limits.sort_by(|a, b| a.cores().total_cmp(&b.cores()));
    limits.dedup();
    let tightest = limits.first().map_or(f64::from(online), CoreLimit::cores);
    UsableCores { count: (tightest.floor() as u16).max(1), online, limits }
}

/// The number of cores that the calling thread may run on; more than 1024 make it unknown.
fn affinity() -> Option<u16> {
    let set = rustix::thread::sched_getaffinity(None).ok()?;
    u16::try_from(set.count()).ok()
}

#[cfg(test)]
mod tests;
