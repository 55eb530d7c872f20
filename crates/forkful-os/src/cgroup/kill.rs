//! Kills every process of a group: with one write if the kernel supports it (Linux 5.14), otherwise with
//! signals to frozen processes, which cannot fork meanwhile.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::hierarchy::{Tree, Version};

/// Freezing waits until the processes leave their system calls.
const FREEZE_MAX: Duration = Duration::from_millis(20);
/// Rounds of signals if freezing is not possible; a tree that forks faster is left to the next attempt.
const ROUNDS_MAX: usize = 8;

/// Whether a group or one below it contains a process.
pub(super) fn is_populated(tree: &Tree) -> bool {
    match tree.version {
        Version::Two => tree.field("cgroup.events", "populated") == Some(1),
        Version::One => !processes(tree).is_empty(),
    }
}

/// Kills the processes in a group and below it; returns their number.
pub(super) fn everything_below(tree: &Tree) -> usize {
    if !is_populated(tree) {
        return 0;
    }
    let mut killed: HashSet<i32> = processes(tree).into_iter().collect();
    if tree.version == Version::Two && tree.write("cgroup.kill", "1").is_ok() {
        return killed.len().max(1);
    }
    let rounds = if freeze(tree) { 1 } else { ROUNDS_MAX };
    for _ in 0..rounds {
        let processes = processes(tree);
        for pid in &processes {
            // SAFETY: plain integers. The process was in the group a moment ago; frozen, it still is.
            unsafe {
                libc::kill(*pid, libc::SIGKILL);
            }
        }
        if processes.is_empty() {
            break;
        }
        killed.extend(processes);
    }
    thaw(tree);
    killed.len()
}

/// Returns whether all processes are frozen.
fn freeze(tree: &Tree) -> bool {
    let began = Instant::now();
    let (ordered, done): (bool, &dyn Fn() -> bool) = match tree.version {
        Version::Two => {
            (tree.write("cgroup.freeze", "1").is_ok(), &|| tree.field("cgroup.events", "frozen") == Some(1))
        }
        Version::One => (tree.write("freezer.state", "FROZEN").is_ok(), &|| {
            tree.read("freezer.state").is_some_and(|state| state.trim() == "FROZEN")
        }),
    };
    while ordered && began.elapsed() < FREEZE_MAX {
        if done() {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

fn thaw(tree: &Tree) {
    let (file, text) = match tree.version {
        Version::Two => ("cgroup.freeze", "0"),
        Version::One => ("freezer.state", "THAWED"),
    };
    // Without a freezer there is nothing to thaw.
    let _none = tree.write(file, text);
}

/// The processes of a group and of the groups below.
pub(super) fn processes(tree: &Tree) -> Vec<i32> {
    let own = tree.read("cgroup.procs").unwrap_or_default();
    let own: Vec<i32> = own.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0).collect();
    let below = super::folders(&tree.path).into_iter();
    let below = below.flat_map(|path| processes(&Tree { path, version: tree.version }));
    own.into_iter().chain(below).collect()
}
