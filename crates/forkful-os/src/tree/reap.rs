//! Adopts orphans of workers: they become our children, and we must reap their zombies.

use std::collections::HashSet;
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::Snapshot;
use crate::keeper::Keeping;
use crate::procinfo::read_text;

/// The process that orphans are re-parented to if it is not this one: the keeper. 0: none.
static KEEPER: AtomicU32 = AtomicU32::new(0);

/// Sets the process above us whose children orphans and workers are; 0: they are ours.
pub fn set_head(keeper: u32) {
    KEEPER.store(keeper, Ordering::SeqCst);
}

/// The process above us, if there is one; see [`set_head`].
pub fn keeper() -> Option<u32> {
    Some(KEEPER.load(Ordering::SeqCst)).filter(|keeper| *keeper != 0)
}

/// The process that orphans are re-parented to.
pub(super) fn head() -> u32 {
    keeper().unwrap_or_else(std::process::id)
}

/// Makes this process the parent of all orphans below it, so that none is re-parented to pid 1. Not inherited
/// by children. Without effect where only the portable mechanisms are used: orphans go to pid 1.
pub fn set_subreaper() -> io::Result<()> {
    if crate::portable::is_on() {
        return Ok(());
    }
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// Reaps every zombie child of this process that is not `known`, and returns their number.
///
/// Call it after SIGCHLD or periodically, also if this process is pid 1. `known` must return true for all
/// children that other code in this process waits for, and for those that are being started
/// ([`crate::process::Flight::pid`]). If there is no zombie, it is one system call.
pub fn reap_orphans(known: &dyn Fn(u32) -> bool, keeping: &Keeping) -> io::Result<usize> {
    let mut reaped = reap_orphans_of(keeping, known);
    loop {
        match any_zombie()? {
            None => return Ok(reaped),
            Some(pid) if known(pid) => break,
            Some(pid) => reaped += usize::from(reap(pid)),
        }
    }
    // A known zombie hides the ones behind it, so all children must be checked.
    for pid in children()? {
        if !known(pid) {
            reaped += usize::from(reap(pid));
        }
    }
    Ok(reaped)
}

/// Makes the keeper reap its zombie children that are not `known`.
fn reap_orphans_of(keeping: &Keeping, known: &dyn Fn(u32) -> bool) -> usize {
    if !keeping.is_on() {
        return 0;
    }
    let own = std::process::id();
    let orphans = children_at(&format!("/proc/{}/task", head())).unwrap_or_default();
    let orphans = orphans.into_iter().filter(|pid| *pid != own && !known(*pid));
    let zombies = orphans.filter(|pid| crate::procinfo::end_of(*pid).is_ok());
    zombies.map(|pid| keeping.reap(pid)).count()
}

/// Any zombie child; it is not reaped.
fn any_zombie() -> io::Result<Option<u32>> {
    match look_for_zombie() {
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        found => found,
    }
}

/// Whether this process certainly has no child.
pub(super) fn is_childless() -> bool {
    look_for_zombie().is_err_and(|error| error.raw_os_error() == Some(libc::ECHILD))
}

/// A child that has ended; `ECHILD` if there is no child at all.
fn look_for_zombie() -> io::Result<Option<u32>> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the kernel fills in the zeroed structure, or leaves it when there is no zombie.
    let result = unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: initialised to zeros at least, and the pid is valid for what waitid returns.
    let pid = unsafe { info.assume_init().si_pid() };
    Ok(u32::try_from(pid).ok().filter(|pid| *pid != 0))
}

/// The children of all threads of this process.
fn children() -> io::Result<Vec<u32>> {
    match children_by_thread() {
        Ok(children) => Ok(children),
        // Kernels without CONFIG_PROC_CHILDREN.
        Err(_) => Ok(Snapshot::take(&HashSet::new())?.children_of_ours()),
    }
}

fn children_by_thread() -> io::Result<Vec<u32>> {
    children_at("/proc/self/task")
}

/// The children of the process whose threads are listed in this folder.
pub(super) fn children_at(threads: &str) -> io::Result<Vec<u32>> {
    let mut children = Vec::new();
    for thread in std::fs::read_dir(threads)? {
        let text = read_text(thread?.path().join("children"))?;
        children.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    Ok(children)
}

fn reap(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options)).is_ok_and(|status| status.is_some())
}
