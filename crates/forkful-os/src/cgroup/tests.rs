//! With real groups, if this machine allows creating them (usually as root).

use std::path::PathBuf;

use super::*;
use crate::process::{Child, SpawnPlan, spawn};
use crate::testing::{Guarded, shell, wait_exit, wait_until};

fn groups() -> Option<(Instance, Groups)> {
    let instance = Instance::random();
    let groups = Groups::make(instance);
    if groups.is_none() {
        eprintln!("skipped: no control group can be made here");
    }
    Some((instance, groups?))
}

/// Starts a shell in a group.
fn start_in(group: Membership, script: &str) -> Guarded {
    let (mut plan, _output): (SpawnPlan, _) = shell(script, &[("PATH", "/usr/bin:/bin")]);
    plan.groups = Some(group);
    Guarded(spawn(plan).unwrap())
}

/// A shell command that leaves a process without session, environment, limit and parent of the worker.
const SHEDS: &str = "env -i setsid prlimit --locks=unlimited sleep 1000 >/dev/null 2>&1 & sleep 0.1; exit 0";

#[test]
fn a_group_knows_what_has_shed_every_other_mark() {
    let Some((_, groups)) = groups() else { return };
    let app = groups.app("app", GroupLimits::default()).unwrap();
    let (one, membership) = app.worker("one", app.limits()).unwrap();
    let (other, _) = app.worker("other", app.limits()).unwrap();
    let child = start_in(membership, SHEDS);
    assert_eq!(wait_exit(&child.0), crate::process::Exit::Code(0));
    assert!(one.is_populated() && !other.is_populated());
    assert!(one.kill() >= 1);
    wait_until("all of them to be gone", || !one.is_populated());
    assert_eq!(other.kill(), 0);
    let path = one.tree.path.clone();
    drop(one);
    assert!(!path.exists());
}

#[test]
fn what_a_supervisor_has_left_behind_is_found_by_its_instance() {
    let Some((instance, groups)) = groups() else { return };
    let app = groups.app("app", GroupLimits::default()).unwrap();
    let (worker, membership) = app.worker("one", app.limits()).unwrap();
    let folders: Vec<PathBuf> = groups.trees.all().iter().map(|tree| tree.path.clone()).collect();
    let child = start_in(membership, SHEDS);
    wait_exit(&child.0);
    // As if a supervisor were killed: nothing is removed.
    std::mem::forget(worker);
    std::mem::forget(groups);
    assert_eq!(clear_left_behind(Instance::random()), 0);
    assert!(clear_left_behind(instance) >= 1);
    wait_until("the groups to be gone", || {
        clear_left_behind(instance);
        folders.iter().all(|folder| !folder.exists())
    });
}

#[test]
fn a_process_that_wants_more_than_its_app_may_have_is_killed_and_counted() {
    let Some((_, groups)) = groups() else { return };
    let limits = GroupLimits { memory_bytes: Some(32 << 20), millicores: Some(500) };
    let app = match groups.app("app", limits) {
        Ok(app) => app,
        Err(error) => return eprintln!("skipped: {error}: {}", error.source),
    };
    let (_worker, membership) = app.worker("one", app.limits()).unwrap();
    assert!(membership.is_required);
    // A shell that doubles a text until it is out of memory.
    let child: Guarded = start_in(membership, "a=xxxxxxxxxxxxxxxx; while :; do a=$a$a; done");
    let _: &Child = &child.0;
    assert_eq!(wait_exit(&child.0), crate::process::Exit::Signal(libc::SIGKILL, false));
    assert!(app.out_of_memory_kills().is_some_and(|kills| kills >= 1));
    let usage = app.usage();
    assert!(usage.cpu_time.is_some_and(|time| !time.is_zero()) && usage.memory_bytes.is_some(), "{usage:?}");
    // Limits can be removed again.
    groups.app("app", GroupLimits::default()).unwrap();
    let tree = app.memory.as_ref().unwrap();
    assert_ne!(tree.read(memory_limit_file(tree.version)).unwrap().trim(), (32 << 20).to_string());
}

#[test]
fn a_child_that_must_join_and_cannot_does_not_start() {
    let null = || -> OwnedFd { OpenOptions::new().read(true).open("/dev/null").unwrap().into() };
    for (is_required, starts) in [(true, false), (false, true)] {
        let (mut plan, _output) = shell("exit 3", &[]);
        plan.groups = Some(Membership { files: vec![null()], is_required });
        match spawn(plan) {
            Ok(child) => {
                let child = Guarded(child);
                assert!(starts);
                assert_eq!(wait_exit(&child.0), crate::process::Exit::Code(3));
            }
            Err(error) => assert_eq!((starts, error.step), (false, crate::process::SpawnStep::Group)),
        }
    }
}

#[test]
fn the_group_of_an_app_is_found_again_with_its_limits_as_they_are() {
    let Some((_, groups)) = groups() else { return };
    assert!(groups.app_again("app").is_none());
    let made = groups.app("app", GroupLimits::default()).unwrap();
    let again = groups.app_again("app").unwrap();
    let trees = |group: &AppGroup| {
        let AppGroup { members, memory, cpu_time, cpu_limit, .. } = group;
        (members.clone(), memory.clone(), cpu_time.clone(), cpu_limit.clone())
    };
    assert_eq!(trees(&again), trees(&made));
    let limited = GroupLimits { memory_bytes: Some(64 << 20), millicores: Some(500) };
    if groups.app("app", limited).is_err() {
        return eprintln!("skipped: no limit can be set here");
    }
    let memory = made.memory.as_ref().unwrap();
    let again = groups.app_again("app").unwrap();
    assert_eq!(memory.number(memory_limit_file(memory.version)), Some(64 << 20));
    assert_eq!(again.limits(), limited);
}

#[test]
fn a_group_knows_whether_the_kernel_keeps_its_limits() {
    let Some((_, groups)) = groups() else { return };
    let (none, limited) =
        (GroupLimits::default(), GroupLimits { memory_bytes: Some(64 << 20), millicores: None });
    let mut app = groups.app("app", none).unwrap();
    assert!(app.keeps(none) && !app.keeps(limited));
    assert!(groups.app_again("app").unwrap().keeps(none));
    // Somebody removes it: it keeps nothing, and no worker can start in it.
    app.remove();
    assert!(app.limit(limited).is_err());
    assert!(app.limits() == limited && !app.keeps(limited));
    assert!(app.worker("one", none).is_err());
    assert!(groups.app("app", none).unwrap().keeps(none));
}

#[test]
fn the_way_out_of_a_workers_group_is_known() {
    let cases = [
        ("/sys/fs/cgroup/unified/forkful-1f/app-1/1f-2", Some("/sys/fs/cgroup/unified")),
        ("/sys/fs/cgroup/a/forkful-1f/app-1/1f-2/forkful-2e/app-1/x", Some("/sys/fs/cgroup/a")),
        ("/sys/fs/cgroup/system.slice/forkful-daemon", None),
        ("/sys/fs/cgroup/forkful.service", None),
        ("/", None),
    ];
    for (path, expected) in cases {
        assert_eq!(outside(Path::new(path)), expected.map(PathBuf::from), "{path}");
    }
}

#[test]
fn workers_of_an_app_have_accounts_of_their_own() {
    let Some((_, groups)) = groups() else { return };
    let app = groups.app("app", GroupLimits::default()).unwrap();
    let (busy, membership) = app.worker("busy", app.limits()).unwrap();
    let (idle, _) = app.worker("idle", app.limits()).unwrap();
    if busy.tree.version == Version::One {
        assert_eq!(busy.usage(), GroupUsage::default());
        return eprintln!("skipped: no control group of version 2 can be made here");
    }
    let child = start_in(membership, "n=0; while [ $n -lt 300000 ]; do n=$((n + 1)); done");
    wait_exit(&child.0);
    let (used, rest) = (busy.usage(), idle.usage());
    assert!(used.cpu_time.unwrap() > rest.cpu_time.unwrap(), "{used:?} {rest:?}");
    let has_memory = busy.tree.path.join("memory.current").exists();
    let passed_on = app.memory.as_ref().is_some_and(|tree| tree.version == Version::Two);
    assert_eq!((used.memory_bytes.is_some(), has_memory), (passed_on, passed_on), "{used:?}");
}

/// A folder that looks like a group, with these files.
fn pretended(version: Version, files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let tree = Tree { path: folder.path().to_owned(), version };
    (folder, tree)
}

#[test]
fn controllers_are_passed_on_only_by_a_group_that_is_left_without_processes() {
    let leaf = format!("{}/cgroup.procs", hierarchy::LEAF);
    // The group's type (the root has none), its processes; the processes of the leaf, and what is passed on then.
    for (kind, processes, moved, passed) in [
        (Some("domain"), "", "", "+cpu"),
        (Some("domain"), "17\n", "17", "+cpu"),
        (Some("domain"), "17\n18\n", "", ""),
        (None, "1\n17\n", "", "+cpu"),
    ] {
        let mut files = vec![("cgroup.procs", processes), ("cgroup.subtree_control", ""), (&leaf, "")];
        files.extend(kind.map(|kind| ("cgroup.type", kind)));
        let (_folder, tree) = pretended(Version::Two, &files);
        hierarchy::prepare_group(&tree, &["cpu"], "17");
        let read = |file: &str| tree.read(file).unwrap();
        assert_eq!(
            (read(&leaf).as_str(), read("cgroup.subtree_control").as_str()),
            (moved, passed),
            "{kind:?} {processes:?}"
        );
    }
}

#[test]
fn a_limit_of_memory_is_one_of_swap_too() {
    let (_folder, two) = pretended(Version::Two, &[("memory.max", ""), ("memory.swap.max", "")]);
    two.limit_memory(Some(64 << 20)).unwrap();
    assert_eq!((two.number("memory.max"), two.number("memory.swap.max")), (Some(64 << 20), Some(0)));
    // A kernel that does not account for swap.
    let (_folder, without) = pretended(Version::Two, &[("memory.max", "")]);
    without.limit_memory(Some(64 << 20)).unwrap();

    let Some((_, groups)) = groups() else { return };
    for mebi in [64, 128, 32] {
        let limits = GroupLimits { memory_bytes: Some(mebi << 20), millicores: None };
        let Ok(app) = groups.app("app", limits) else {
            return eprintln!("skipped: no limit can be set here");
        };
        let memory = app.memory.as_ref().unwrap();
        assert_eq!(memory.number(memory_limit_file(memory.version)), Some(mebi << 20));
        let (file, expected) = match memory.version {
            Version::Two => ("memory.swap.max", 0),
            Version::One => ("memory.memsw.limit_in_bytes", mebi << 20),
        };
        assert_eq!(memory.number(file).unwrap_or(expected), expected);
    }
}
