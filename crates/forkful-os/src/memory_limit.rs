//! How much memory this process and those beside it may use: what the machine has, less what control groups allow.
//!
//! A limit counts for every ancestor of the process's group, in version 1 and version 2.

use std::fmt;
use std::path::Path;

use crate::cores::hierarchies;
use crate::procinfo::read_text;

/// The tightest limit of a control group, if it is below what the machine has.
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

/// The limit that holds for this process now; `None` where only the machine's memory is one.
pub fn memory_limit() -> Option<MemoryLimit> {
    limit_under(Path::new("/"))
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
            // `max` is no number, and version 1 has a huge one instead.
            let bytes = read_text(directory.join(file)).ok()?.trim().parse().ok()?;
            (bytes < machine).then_some(MemoryLimit { bytes, cgroup })
        }));
    }
    limits.into_iter().min_by_key(|limit| limit.bytes)
}

fn total_bytes(root: &Path) -> Option<u64> {
    let text = read_text(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
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
    fn version_1_has_a_number_that_means_none() {
        let file = "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes";
        let with =
            |limit| under(&[MEMINFO, V1, ("proc/self/cgroup", "4:memory:/docker/abc\n"), (file, limit)]);
        assert_eq!(with("9223372036854771712\n"), None);
        assert_eq!(with("268435456\n").as_deref(), Some("memory limit 256 MiB of cgroup /docker/abc"));
    }

    #[test]
    fn what_cannot_be_read_limits_nothing() {
        assert_eq!(under(&[]), None);
        assert_eq!(under(&[MEMINFO, V2, ("proc/self/cgroup", "0::/a\n")]), None);
        assert_eq!(under(&[V2, ("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "x\n")]), None);
    }
}
