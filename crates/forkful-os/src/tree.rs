//! A worker's process tree: its members, signals to all of them, and the orphans it leaves.
//!
//! A process belongs to a worker if it descends from it, if it is in the worker's session or process group,
//! or if it was re-parented to us (we are the subreaper) and carries the worker's [`Mark`], which is hard to
//! remove.
//!
//! The worker itself must not have been reaped: its zombie prevents its group and session ids from being
//! reused.

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

use crate::process::{Child, pidfd_signal, signal_number};

/// How often SIGKILL looks for processes created while it was killing. If a tree forks faster, the caller's
/// next attempt kills the rest.
const KILL_ROUNDS_MAX: usize = 8;

/// A live process of a worker's tree.
#[derive(Debug)]
pub struct Member {
    pub pid: u32,
    /// Refers to exactly this process, where there are pidfds.
    pidfd: Option<OwnedFd>,
    start_time: u64,
}

impl Member {
    /// Sends signal number `sig`; `ESRCH` if it has ended.
    pub fn signal(&self, sig: i32) -> io::Result<()> {
        if let Some(pidfd) = &self.pidfd {
            return pidfd_signal(pidfd, sig);
        }
        // As close to the check as it can be: the number may be reused between the two.
        match crate::procinfo::start_time(self.pid) {
            Ok(found) if found == self.start_time => signal_number(self.pid, sig),
            _ => Err(rustix::io::Errno::SRCH.into()),
        }
    }
}

/// Every live process of the tree, the worker first. One pass over `/proc`; for several workers use one
/// [`Snapshot`]. Also empty if `/proc` cannot be read.
pub fn members(child: &Child, mark: Mark) -> Vec<Member> {
    Snapshot::take(&HashSet::new()).map(|snapshot| snapshot.members(child, mark)).unwrap_or_default()
}

/// Sends `sig` to every live process of the tree, the worker first, and returns how many received it. SIGKILL
/// is repeated for processes created meanwhile.
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

/// [`signal_tree`] with a snapshot that several workers share. Without a snapshot (`/proc` cannot be read, no
/// free descriptors) only the worker itself is signalled.
pub fn signal_tree_in(snapshot: Option<&Snapshot>, child: &Child, mark: Mark, sig: i32) -> usize {
    let mut reached = HashSet::new();
    signal_leader(child, sig, &mut reached);
    let members = snapshot.map(|snapshot| snapshot.members(child, mark)).unwrap_or_default();
    signal_members(members, sig, &mut reached);
    reached.len()
}

/// Uses the descriptor that we already have.
fn signal_leader(child: &Child, sig: i32, reached: &mut HashSet<(u32, u64)>) {
    let lives = matches!(child.try_wait(false), Ok(None));
    if lives && child.signal(sig).is_ok() {
        reached.insert((child.pid, child.start_time));
    }
}

/// Returns whether any process received it for the first time.
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

/// Whether this process has a child that is not `known`: what a dead worker leaves behind becomes our child,
/// so without such a child there is nothing to search for. Also true if unknown.
pub fn has_foreign_children(known: &dyn Fn(u32) -> bool) -> bool {
    if crate::portable::is_on() {
        // It becomes a child of pid 1.
        return true;
    }
    let (own, head) = (std::process::id(), reap::head());
    // With a keeper this process usually has none, which one system call says; each of its threads has a list of its own.
    let heads = [own, head];
    let heads = match (own == head, reap::is_childless()) {
        (true, true) => &heads[..0],
        (true, false) => &heads[..1],
        (false, true) => &heads[1..],
        (false, false) => &heads[..],
    };
    heads.iter().any(|head| {
        let children = reap::children_at(&format!("/proc/{head}/task"));
        children.map_or(true, |children| children.into_iter().any(|pid| pid != own && !known(pid)))
    })
}
