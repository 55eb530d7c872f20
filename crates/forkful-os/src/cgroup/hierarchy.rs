//! Finds the hierarchies in which this process may create groups.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::cores::own_groups;

/// The version of a hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

/// A group with its subtree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) path: PathBuf,
    pub(super) version: Version,
}

/// Where to create groups, by purpose.
#[derive(Debug)]
pub(super) struct Hierarchies {
    pub(super) members: Tree,
    pub(super) memory: Option<Tree>,
    pub(super) cpu_time: Option<Tree>,
    pub(super) cpu_limit: Option<Tree>,
}

impl Hierarchies {
    /// The writable groups that contain this process.
    pub(super) fn find(root: &Path) -> Option<Self> {
        let own = own_groups(root);
        let two = own.iter().find(|group| group.controllers.is_empty());
        // A supervisor that has moved to its leaf group creates its groups next to the leaf.
        let two = two.map(|group| without_leaf(&group.path)).and_then(|path| writable(&path, Version::Two));
        let one = |controller: &str| {
            let group = own.iter().find(|group| group.controllers.iter().any(|name| name == controller))?;
            writable(&group.path, Version::One)
        };
        let delegated = two.as_ref().map(passed_on).unwrap_or_default();
        let two_with =
            |controller: &str| two.clone().filter(|_| delegated.iter().any(|name| name == controller));
        Some(Self {
            memory: two_with("memory").or_else(|| one("memory")),
            // Version 2 counts CPU time without a controller.
            cpu_time: two.clone().or_else(|| one("cpuacct")),
            cpu_limit: two_with("cpu").or_else(|| one("cpu")),
            members: two.or_else(|| one("freezer"))?,
        })
    }

    /// Enables the memory and CPU controllers of version 2 for new groups, if this process's group has them.
    /// A group whose controllers are enabled for its children may not contain processes (except the root), so
    /// a process that is alone in its group, as under a service manager, moves to a group below it.
    pub(super) fn prepare(root: &Path) {
        let own = own_groups(root);
        let two =
            own.iter().find(|group| group.controllers.is_empty()).map(|group| without_leaf(&group.path));
        let Some(tree) = two.and_then(|path| writable(&path, Version::Two)) else { return };
        let available = tree.read("cgroup.controllers").unwrap_or_default();
        let wanted = |name: &&str| available.split_ascii_whitespace().any(|has| has == *name);
        let wanted: Vec<&str> = CONTROLLERS.into_iter().filter(wanted).collect();
        if !wanted.is_empty() {
            prepare_group(&tree, &wanted, &std::process::id().to_string());
        }
    }

    /// The same one level down, created if missing. `None` if the processes in it could not be found again.
    pub(super) fn below(&self, name: &str) -> Option<Self> {
        let below = |tree: &Option<Tree>| tree.as_ref().and_then(|tree| tree.below(name).ok());
        let trees = Self {
            members: self.members.below(name).ok()?,
            memory: below(&self.memory),
            cpu_time: below(&self.cpu_time),
            cpu_limit: below(&self.cpu_limit),
        };
        if trees.members.version == Version::Two {
            pass_on_all(&self.members, &trees.members);
        }
        Some(trees)
    }

    /// All trees, without duplicates.
    pub(super) fn all(&self) -> Vec<&Tree> {
        let mut all = vec![&self.members];
        for tree in [&self.memory, &self.cpu_time, &self.cpu_limit].into_iter().flatten() {
            if !all.contains(&tree) {
                all.push(tree);
            }
        }
        all
    }
}

/// The controllers for limits and counters.
const CONTROLLERS: [&str; 2] = ["memory", "cpu"];

/// The group of a supervisor that had to move to make room for its apps' groups.
pub(super) const LEAF: &str = "forkful-daemon";

/// Enables controllers for the groups below. A group with processes is left alone if they cannot be moved: the kernel refuses `memory`
/// there, but accepts `cpu`, which makes the group threaded and the groups below invalid (cgroup-v2, "Threads").
pub(super) fn prepare_group(tree: &Tree, wanted: &[&str], own_pid: &str) {
    // Only the root has no type; its processes are no obstacle.
    let is_root = tree.read("cgroup.type").is_none();
    let processes = tree.read("cgroup.procs").unwrap_or_default();
    if !is_root && !processes.trim().is_empty() {
        let is_alone = processes.lines().eq([own_pid]);
        let has_moved =
            is_alone && tree.below(LEAF).is_ok_and(|leaf| leaf.write("cgroup.procs", own_pid).is_ok());
        if !has_moved {
            return;
        }
    }
    pass_on(tree, wanted);
}

fn without_leaf(path: &Path) -> PathBuf {
    if path.ends_with(LEAF) { path.parent().unwrap_or(path).to_owned() } else { path.to_owned() }
}

/// The group, if other groups can be created in it.
fn writable(path: &Path, version: Version) -> Option<Tree> {
    let may = |path: &Path, what| access(path, what).is_ok();
    let is_writable = may(path, Access::WRITE_OK | Access::EXEC_OK);
    (is_writable && may(&path.join("cgroup.procs"), Access::WRITE_OK))
        .then(|| Tree { path: path.to_owned(), version })
}

/// Returns whether all of them are enabled for the groups below.
fn pass_on(tree: &Tree, controllers: &[&str]) -> bool {
    controllers.iter().all(|name| tree.write("cgroup.subtree_control", &format!("+{name}")).is_ok())
}

/// Enables what the level above enables. Returns whether all of it is enabled.
pub(super) fn pass_on_all(above: &Tree, tree: &Tree) -> bool {
    let passed = passed_on(above);
    let passed: Vec<&str> =
        CONTROLLERS.into_iter().filter(|name| passed.iter().any(|has| has == name)).collect();
    pass_on(tree, &passed)
}

/// The controllers of groups below this one.
fn passed_on(tree: &Tree) -> Vec<String> {
    let passed = tree.read("cgroup.subtree_control").unwrap_or_default();
    passed.split_ascii_whitespace().map(str::to_owned).collect()
}
