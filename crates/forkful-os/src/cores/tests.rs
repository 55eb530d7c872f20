//! Fake root directories with the files of container runtimes, systemd and plain machines.

use std::path::Path;

use super::*;

/// A directory with these files.
fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }
    dir
}

fn under(files: &[(&str, &str)], online: u16, affinity: u16) -> (u16, Vec<String>) {
    let dir = root(files);
    let usable = usable_cores_under(dir.path(), online, Some(affinity));
    assert_eq!(usable.online, online);
    (usable.count, usable.limits.iter().map(ToString::to_string).collect())
}

const MOUNT_V2: &str = "35 24 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
const MOUNTS_V1: &str = "\
    30 24 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
    31 30 0:26 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
    32 30 0:27 / /sys/fs/cgroup/cpuset rw shared:10 - cgroup cgroup rw,cpuset\n";

#[test]
fn an_app_has_the_tightest_of_all_limits_with_its_fraction() {
    let limits =
        vec![CoreLimit::Quota { cores: 2.5, cgroup: "/a".to_owned() }, CoreLimit::Affinity { cores: 4 }];
    let usable = UsableCores { count: 2, online: 8, limits };
    let close = |cores: f64, expected: f64| (cores - expected).abs() < 1e-9;
    assert!(close(usable.of_app(None), 2.5));
    assert!(close(usable.of_app(Some(1500)), 1.5));
    assert!(close(usable.of_app(Some(6000)), 2.5));
    assert!(close(UsableCores { limits: Vec::new(), ..usable }.of_app(None), 8.0));
}

#[test]
fn without_limits_every_online_core_counts() {
    assert_eq!(under(&[], 8, 8), (8, vec![]));
    let max = [
        ("proc/self/cgroup", "0::/user.slice\n"),
        ("proc/self/mountinfo", MOUNT_V2),
        ("sys/fs/cgroup/user.slice/cpu.max", "max 100000\n"),
    ];
    assert_eq!(under(&max, 8, 8), (8, vec![]));
}

#[test]
fn the_tightest_quota_of_all_ancestors_counts_rounded_down() {
    let nested = [
        ("proc/self/cgroup", "0::/a/b/c\n"),
        ("proc/self/mountinfo", MOUNT_V2),
        ("sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
        ("sys/fs/cgroup/a/b/cpu.max", "400000 100000\n"),
        ("sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n"),
    ];
    let limits = vec!["CPU quota 1.5 of cgroup /a".to_owned(), "CPU quota 4 of cgroup /a/b".to_owned()];
    assert_eq!(under(&nested, 8, 8), (1, limits));
}

#[test]
fn a_quota_below_one_core_still_leaves_one() {
    let half = [
        ("proc/self/cgroup", "0::/\n"),
        ("proc/self/mountinfo", MOUNT_V2),
        ("sys/fs/cgroup/cpu.max", "25000 100000\n"),
    ];
    assert_eq!(under(&half, 16, 16), (1, vec!["CPU quota 0.25 of cgroup /".to_owned()]));
}

#[test]
fn version_one_quota_and_cpuset_are_found_in_their_own_hierarchies() {
    let files = [
        ("proc/self/cgroup", "4:cpuset:/jobs\n3:cpu,cpuacct:/jobs/one\n1:name=systemd:/x\n"),
        ("proc/self/mountinfo", MOUNTS_V1),
        ("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us", "350000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/jobs/one/cpu.cfs_quota_us", "-1\n"),
        ("sys/fs/cgroup/cpu,cpuacct/jobs/one/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/cpuset/jobs/cpuset.cpus", "0-3,6\n"),
        ("sys/fs/cgroup/cpuset/cpuset.cpus", "0-7\n"),
    ];
    let limits = vec!["CPU quota 3.5 of cgroup /jobs".to_owned(), "cpuset of 5 of cgroup /jobs".to_owned()];
    assert_eq!(under(&files, 8, 8), (3, limits));
}

#[test]
fn a_hybrid_machine_has_its_quota_in_either_version() {
    let mounts = format!("{MOUNTS_V1}36 30 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    let files = [
        ("proc/self/cgroup", "3:cpu,cpuacct:/\n0::/system.slice/app.service\n"),
        ("proc/self/mountinfo", mounts.as_str()),
        ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "50000\n"),
        ("sys/fs/cgroup/unified/system.slice/app.service/cpu.max", "230000 100000\n"),
    ];
    let limits = vec![
        "CPU quota 2.3 of cgroup /system.slice/app.service".to_owned(),
        "CPU quota 4 of cgroup /".to_owned(),
    ];
    assert_eq!(under(&files, 8, 8), (2, limits));
}

#[test]
fn a_container_without_a_cgroup_namespace_sees_its_part_of_the_hierarchy() {
    let docker = [
        ("proc/self/cgroup", "3:cpu,cpuacct:/docker/abc/inner\n"),
        (
            "proc/self/mountinfo",
            "31 30 0:26 /docker/abc /sys/fs/cgroup/cpu\\040x ro master:9 - cgroup cgroup rw,cpu,cpuacct\n",
        ),
        ("sys/fs/cgroup/cpu x/cpu.cfs_quota_us", "200000\n"),
        ("sys/fs/cgroup/cpu x/cpu.cfs_period_us", "100000\n"),
    ];
    assert_eq!(under(&docker, 8, 8), (2, vec!["CPU quota 2 of cgroup /docker/abc".to_owned()]));
    // A group outside of the mounted part: the top of the mount counts.
    let outside = [
        ("proc/self/cgroup", "0::/../other\n"),
        ("proc/self/mountinfo", MOUNT_V2),
        ("sys/fs/cgroup/cpu.max", "300000 100000\n"),
    ];
    assert_eq!(under(&outside, 8, 8), (3, vec!["CPU quota 3 of cgroup /".to_owned()]));
}

#[test]
fn affinity_counts_and_broken_files_do_not() {
    let broken = [
        ("proc/self/cgroup", "0::/a\ngarbage\n7::/x\n"),
        ("proc/self/mountinfo", MOUNT_V2),
        ("sys/fs/cgroup/a/cpu.max", "many 100000\n"),
        ("sys/fs/cgroup/a/cpuset.cpus.effective", "\n"),
        ("sys/fs/cgroup/cpuset.cpus.effective", "3-1\n"),
    ];
    assert_eq!(under(&broken, 8, 3), (3, vec!["CPU affinity of 3".to_owned()]));
}

#[test]
fn this_machine_has_an_answer_that_agrees_with_its_affinity() {
    let usable = usable_cores();
    assert!(usable.count >= 1 && usable.count <= usable.online);
    assert!(usable.count <= affinity().unwrap());
    assert!(Path::new("/proc/self/cgroup").exists());
}
