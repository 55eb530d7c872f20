//! A worker's whole process tree: who belongs to it, signals to all of it, and the orphans it leaves.
//!
//! A process belongs to a worker when it descends from it, when it is in the worker's session or process group,
//! or when it was re-parented to us (we are the subreaper) and carries the worker's [`Mark`], which it can hardly lose.
//!
//! The worker itself must not have been reaped: its zombie keeps the ids of its group and session from being
//! given to anyone else.

mod mark;
mod reap;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;

pub use mark::{Instance, MARK_VARIABLE, Mark, Marks};
pub use reap::{keeper, reap_orphans, set_head, set_subreaper};
pub use snapshot::Snapshot;

use crate::process::{Child, pidfd_signal};

/// How often SIGKILL looks for processes that were born while it killed. A tree that forks faster than this many
/// passes over `/proc` is killed by the caller's next attempt.
const KILL_ROUNDS_MAX: usize = 8;

/// A living process of a worker's tree.
#[derive(Debug)]
pub struct Member {
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
pub fn members(child: &Child, mark: Mark) -> Vec<Member> {
    Snapshot::take(&HashSet::new()).map(|snapshot| snapshot.members(child, mark)).unwrap_or_default()
}

/// Sends `sig` to every living process of the tree, the worker itself first, and returns how many got it.
/// SIGKILL is repeated for those that were born meanwhile.
pub fn signal_tree(child: &Child, mark: Mark, sig: i32) -> usize {
    let rounds = if sig == libc::SIGKILL { KILL_ROUNDS_MAX } else { 1 };
    let mut reached = HashSet::new();
    signal_leader(child, sig, &mut reached);
    for _ in 0..rounds {
        if !signal_members(members(child, mark), sig, &mut reached) {
            break;
        }
    }
    reached.len()
}

/// [`signal_tree`] after one look that several workers share. Without a snapshot (`/proc` cannot be read, descriptors
/// have run out) the worker itself is reached all the same.
pub fn signal_tree_in(snapshot: Option<&Snapshot>, child: &Child, mark: Mark, sig: i32) -> usize {
    let mut reached = HashSet::new();
    signal_leader(child, sig, &mut reached);
    let members = snapshot.map(|snapshot| snapshot.members(child, mark)).unwrap_or_default();
    signal_members(members, sig, &mut reached);
    reached.len()
}

/// By the descriptor that we have anyway.
fn signal_leader(child: &Child, sig: i32, reached: &mut HashSet<(u32, u64)>) {
    let lives = matches!(child.try_wait(false), Ok(None));
    if lives && child.signal(sig).is_ok() {
        reached.insert((child.pid, child.start_time));
    }
}

/// Says whether anyone got it for the first time.
fn signal_members(members: Vec<Member>, sig: i32, reached: &mut HashSet<(u32, u64)>) -> bool {
    let mut anyone_new = false;
    for member in members {
        let identity = (member.pid, member.start_time);
        if !reached.contains(&identity) && member.signal(sig).is_ok() {
            reached.insert(identity);
            anyone_new = true;
        }
    }
    anyone_new
}

/// Whether this process has a child that is not `known`: what a dead worker leaves behind becomes our child, so that
/// without one there is nothing to look for. True also when it cannot be told.
pub fn has_foreign_children(known: &dyn Fn(u32) -> bool) -> bool {
    let own = std::process::id();
    let heads = [own, reap::head()];
    let heads = if heads[0] == heads[1] { &heads[..1] } else { &heads[..] };
    heads.iter().any(|head| {
        let children = reap::children_at(&format!("/proc/{head}/task"));
        children.map_or(true, |children| children.into_iter().any(|pid| pid != own && !known(pid)))
    })
}
