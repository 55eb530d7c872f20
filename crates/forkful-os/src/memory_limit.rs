//! How much memory this process's control group may use: the machine's memory, limited by control groups.
//!
//! The limits of all ancestors of the process's group count, in version 1 and version 2.

use std::fmt;
use std::path::Path;

use crate::cores::hierarchies;
use crate::procinfo::read_text;

/// The tightest control group limit, if it is below the machine's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryLimit {
    pub bytes: u64,
    /// Path of the group within its hierarchy.
    pub cgroup: String,
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory limit {} MiB of cgroup {}", self.bytes >> 20, self.cgroup)
    }
}

/// The current limit for this process; `None` if only the machine's memory limits it.
pub fn memory_limit() -> Option<MemoryLimit> {
    limit_under(Path::new("/"))
}

/// Memory of the machine.
pub fn machine_bytes() -> Option<u64> {
    #[cfg(not(target_os = "linux"))]
    return memory_size();
    #[cfg(target_os = "linux")]
    total_bytes(Path::new("/"))
}

/// Memory of the machine, from sysctl(3).
#[cfg(not(target_os = "linux"))]
fn memory_size() -> Option<u64> {
    let mut bytes = 0_u64;
    let mut length = size_of::<u64>();
    // SAFETY: the result is an integer of ours, of the given length.
    let outcome = unsafe {
        libc::sysctlbyname(
            c"hw.memsize".as_ptr(),
            (&raw mut bytes).cast(),
            &raw mut length,
            std::ptr::null_mut(),
            0,
        )
    };
    (outcome == 0).then_some(bytes)
}

/// Memory that another process could have without swapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeMemory {
    pub bytes: u64,
    /// Whether the limit of a control group leaves less than the machine has.
    pub by_group: bool,
}

/// What is free now for this process and those beside it; `None` where the kernel does not say.
pub fn free_memory() -> Option<FreeMemory> {
    free_under(Path::new("/"))
}

fn free_under(root: &Path) -> Option<FreeMemory> {
    let machine = meminfo(root, "MemAvailable:").map(|bytes| FreeMemory { bytes, by_group: false });
    let groups = hierarchies(root).into_iter().flat_map(|(controllers, groups)| {
        let version_1 = !controllers.is_empty();
        let has_memory = !version_1 || controllers.iter().any(|name| name == "memory");
        let files = if version_1 {
            ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "]
        } else {
            ["memory.max", "memory.current", "inactive_file "]
        };
        let groups = groups.into_iter().filter(move |_| has_memory);
        groups.filter_map(move |(directory, _)| free_in(&directory, files))
    });
    machine.into_iter().chain(groups).min_by_key(|free| free.bytes)
}

/// What the limit of a group leaves. Pages of files that are not in use are given back when memory is short.
fn free_in(directory: &Path, [limit, used, cached]: [&str; 3]) -> Option<FreeMemory> {
    let number = |file: &str| read_text(directory.join(file)).ok()?.trim().parse::<u64>().ok();
    let limit = number(limit)?;
    let used = number(used)?;
    let stat = read_text(directory.join("memory.stat")).unwrap_or_default();
    let cached = stat.lines().find_map(|line| line.strip_prefix(cached)?.trim().parse().ok());
    let bytes = limit.saturating_sub(used.saturating_sub(cached.unwrap_or(0)));
    Some(FreeMemory { bytes, by_group: true })
}

/// How often the kernel has killed a process of this process's group for lack of memory. In version 2 this
/// includes groups below.
pub fn out_of_memory_kills() -> u64 {
    kills_under(Path::new("/"))
}

fn kills_under(root: &Path) -> u64 {
    let mut kills = 0;
    for (controllers, groups) in hierarchies(root) {
        let file = match controllers.as_slice() {
            [] => "memory.events",
            names if names.iter().any(|name| name == "memory") => "memory.oom_control",
            _ => continue,
        };
        let Some((directory, _)) = groups.into_iter().next() else { continue };
        let text = read_text(directory.join(file)).unwrap_or_default();
        let field = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        kills += field.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or(0);
    }
    kills
}

fn limit_under(root: &Path) -> Option<MemoryLimit> {
    let machine = total_bytes(root).unwrap_or(u64::MAX);
    let mut limits = Vec::new();
    for (controllers, groups) in hierarchies(root) {
        let file = match controllers.as_slice() {
            [] => "memory.max",
            names if names.iter().any(|name| name == "memory") => "memory.limit_in_bytes",
            _ => continue,
        };
        limits.extend(groups.into_iter().filter_map(|(directory, cgroup)| {
            // `max` is not a number; version 1 has a huge number instead.
            let bytes = read_text(directory.join(file)).ok()?.trim().parse().ok()?;
            (bytes < machine).then_some(MemoryLimit { bytes, cgroup })
        }));
    }
    limits.into_iter().min_by_key(|limit| limit.bytes)
}

fn total_bytes(root: &Path) -> Option<u64> {
    meminfo(root, "MemTotal:")
}

fn meminfo(root: &Path, field: &str) -> Option<u64> {
    let text = read_text(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:       24576000 kB\nMemFree: 1 kB\n");
    const V2: (&str, &str) =
        ("proc/self/mountinfo", "35 24 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");
    const V1: (&str, &str) =
        ("proc/self/mountinfo", "33 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");

    fn under(files: &[(&str, &str)]) -> Option<String> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        }
        limit_under(root.path()).map(|limit| limit.to_string())
    }

    #[test]
    fn the_tightest_group_above_counts() {
        let files = [
            MEMINFO,
            V2,
            ("proc/self/cgroup", "0::/pods/api\n"),
            ("sys/fs/cgroup/pods/api/memory.max", "max\n"),
            ("sys/fs/cgroup/pods/memory.max", "536870912\n"),
            ("sys/fs/cgroup/memory.max", "1073741824\n"),
        ];
        assert_eq!(under(&files).as_deref(), Some("memory limit 512 MiB of cgroup /pods"));
    }

    #[test]
    fn the_tightest_limit_says_what_is_free() {
        let free = |files: &[(&str, &str)]| {
            let root = tempfile::tempdir().unwrap();
            for (path, text) in files {
                let path = root.path().join(path);
                fs_err::create_dir_all(path.parent().unwrap()).unwrap();
                fs_err::write(path, text).unwrap();
            }
            free_under(root.path())
        };
        assert_eq!(free(&[]), None);
        let meminfo = ("proc/meminfo", "MemTotal:  24576000 kB\nMemAvailable:  1000 kB\n");
        let machine = FreeMemory { bytes: 1_024_000, by_group: false };
        assert_eq!(free(&[meminfo]), Some(machine));
        let group = ("proc/self/cgroup", "0::/pods/api\n");
        let unlimited = [
            ("sys/fs/cgroup/pods/api/memory.max", "max\n"),
            ("sys/fs/cgroup/pods/api/memory.current", "5\n"),
        ];
        assert_eq!(free(&[[meminfo, V2, group].as_slice(), &unlimited].concat()), Some(machine));
        let limited = [
            ("sys/fs/cgroup/pods/memory.max", "1000\n"),
            ("sys/fs/cgroup/pods/memory.current", "900\n"),
            ("sys/fs/cgroup/pods/memory.stat", "anon 1\ninactive_file 300\n"),
        ];
        let left = FreeMemory { bytes: 400, by_group: true };
        assert_eq!(free(&[[meminfo, V2, group].as_slice(), &limited].concat()), Some(left));
    }

    #[test]
    fn version_1_has_a_number_that_means_none() {
        let file = "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes";
        let with =
            |limit| under(&[MEMINFO, V1, ("proc/self/cgroup", "4:memory:/docker/abc\n"), (file, limit)]);
        assert_eq!(with("9223372036854771712\n"), None);
        assert_eq!(with("268435456\n").as_deref(), Some("memory limit 256 MiB of cgroup /docker/abc"));
    }

    #[test]
    fn kills_of_the_own_group_are_counted() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(kills_under(root.path()), 0);
        for (path, text) in [
            V2,
            ("proc/self/cgroup", "0::/pods/api\n"),
            ("sys/fs/cgroup/pods/api/memory.events", "low 0\noom 5\noom_kill 3\noom_group_kill 0\n"),
            ("sys/fs/cgroup/pods/memory.events", "oom_kill 9\n"),
        ] {
            let path = root.path().join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        }
        assert_eq!(kills_under(root.path()), 3);
    }

    #[test]
    fn what_cannot_be_read_limits_nothing() {
        assert_eq!(under(&[]), None);
        assert_eq!(under(&[MEMINFO, V2, ("proc/self/cgroup", "0::/a\n")]), None);
        assert_eq!(under(&[V2, ("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "x\n")]), None);
    }
}
