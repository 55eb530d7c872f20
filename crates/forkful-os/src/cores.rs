//! How many cores this process may really use: the online cores, minus what affinity, cpuset and CPU quota
//! take away.
//!
//! The quotas of all ancestors of the process's control group count, in version 1, version 2 or both at once.
//! Fractions of a core are rounded down, because a worker on half a core waits for the other half. At least
//! one.

mod cgroup;

pub(crate) use cgroup::{hierarchies, own_groups};

use std::fmt;
use std::path::Path;

/// The number of cores, with its reasons.
#[derive(Debug, Clone, PartialEq)]
pub struct UsableCores {
    /// Usable cores, at least 1.
    pub count: u16,
    /// Online cores.
    pub online: u16,
    /// All limits, tightest first.
    pub limits: Vec<CoreLimit>,
}

/// A limit on the number of cores.
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
    /// A control group has a CPU quota.
    Quota {
        /// In cores; often a fraction.
        cores: f64,
        /// Path of the group within its hierarchy.
        cgroup: String,
    },
}

impl UsableCores {
    /// Cores that an app may use, with fractions; a quota of its own is in thousandths of a core.
    pub fn of_app(&self, max_millicores: Option<u32>) -> f64 {
        let own = max_millicores.map(|millicores| f64::from(millicores) / 1000.0);
        self.limits.iter().map(CoreLimit::cores).chain(own).fold(f64::from(self.online), f64::min)
    }

    /// Why there are no more, to be read behind "because": `of a cpuset of 2 of cgroup /`.
    pub fn reason(&self) -> Option<String> {
        self.limits.first().map(|limit| format!("of a {limit}"))
    }
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

/// The number of cores that this process may use now.
pub fn usable_cores() -> UsableCores {
    let online = crate::procinfo::read_text("/sys/devices/system/cpu/online")
        .ok()
        .and_then(|text| cgroup::count_list(&text));
    let affinity = affinity();
    usable_cores_under(Path::new("/"), online.or(affinity).unwrap_or(1), affinity)
}

/// The same with `proc` and `sys` below `root`, and the machine's numbers as arguments.
fn usable_cores_under(root: &Path, online: u16, affinity: Option<u16>) -> UsableCores {
    let mut limits = Vec::new();
    limits.extend(affinity.map(|cores| CoreLimit::Affinity { cores }));
    limits.extend(cgroup::limits(root));
    limits.retain(|limit| limit.cores() < f64::from(online));
    // Stable, so that the affinity caused by a cpuset is listed after tighter limits only.
    limits.sort_by(|a, b| a.cores().total_cmp(&b.cores()));
    limits.dedup();
    let tightest = limits.first().map_or(f64::from(online), CoreLimit::cores);
    UsableCores { count: (tightest.floor() as u16).max(1), online, limits }
}

/// The number of cores that the calling thread may use; unknown above 1024.
fn affinity() -> Option<u16> {
    #[cfg(target_os = "linux")]
    let count = rustix::thread::sched_getaffinity(None).ok()?.count();
    #[cfg(not(target_os = "linux"))]
    let count = std::thread::available_parallelism().ok()?.get();
    u16::try_from(count).ok()
}

#[cfg(test)]
mod tests;
