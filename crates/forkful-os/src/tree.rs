//! A worker's whole process tree: who belongs to it, signals to all of it, and the orphans it leaves.
//!
//! A process belongs to a worker when it descends from it, when it is in the worker's session or process group,
//! or when it was re-parented to us (we are the subreaper) and carries the worker's marker in the environment it
//! was executed with. What leaves all of these (a double fork, `setsid` *and* a cleared environment) is not found;
//! nor is a process that overwrote its environment with a title.
//!
//! The worker itself must not have been reaped: its zombie keeps the ids of its group and session from being
//! given to anyone else.

mod reap;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;

pub use reap::{reap_orphans, set_subreaper};
pub use snapshot::Snapshot;

use crate::process::{Child, pidfd_signal};

/// The environment variable that marks what belongs to a worker.
pub const MARKER_VARIABLE: &str = "FORKFUL_WORKER";

/// How often SIGKILL looks for processes that were born while it killed. A tree that forks faster than this many
/// passes over `/proc` is killed by the caller's next attempt.
const KILL_ROUNDS_MAX: usize = 8;

/// A living process of a worker's tree.
#[derive(Debug)]
pub struct Member {
    /// Its number.
    pub pid: u32,
    /// A hold on exactly this process.
    pub pidfd: OwnedFd,
    start_time: u64,
}

impl Member {
    /// Sends signal number `sig`; `ESRCH` when it has ended.
    pub fn signal(&self, sig: i32) -> io::Result<()> {
        pidfd_signal(&self.pidfd, sig)
    }
}

/// Every living process of the tree, the worker itself first. One pass over `/proc`; for several workers at
/// once take one [`Snapshot`]. Empty also when `/proc` cannot be read.
pub fn members(child: &Child, marker: &str) -> Vec<Member> {
    Snapshot::take().map(|snapshot| snapshot.members(child, marker)).unwrap_or_default()
}

/// Sends `sig` to every living process of the tree, the worker itself first, and returns how many got it.
/// SIGKILL is repeated for those that were born meanwhile.
pub fn signal_tree(child: &Child, marker: &str, sig: i32) -> usize {
    let rounds = if sig == libc::SIGKILL { KILL_ROUNDS_MAX } else { 1 };
    let mut reached = HashSet::new();
    for _ in 0..rounds {
        let mut anyone_new = false;
        for member in members(child, marker) {
            let identity = (member.pid, member.start_time);
            if !reached.contains(&identity) && member.signal(sig).is_ok() {
                reached.insert(identity);
                anyone_new = true;
            }
        }
        if !anyone_new {
            break;
        }
    }
    reached.len()
}
