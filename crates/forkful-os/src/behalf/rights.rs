//! Temporarily gives one thread of a root process the file rights of a user (setfsuid(2)).

use std::io;

use rustix::io::Errno;

/// Linux' limit for the number of groups.
const GROUPS_MAX: usize = 65_536;
/// An invalid user or group id: queries the current one.
const NO_CHANGE: u32 = u32::MAX;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

/// Runs `work` with the file rights of a user, who also owns the files it creates: the kernel checks each
/// step as for a process of that user. It affects only this thread, and only if the thread has root's rights;
/// a process of another user keeps its own rights. `work` must not panic in a thread that continues.
pub fn as_user<T>(rights: &Rights, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if !has_roots_rights() {
        return work();
    }
    let before = Rights { uid: file_user(), gid: file_group(), groups: groups()? };
    set_groups(&rights.groups)?;
    let restored = Restored(before);
    set_file_group(rights.gid);
    set_file_user(rights.uid);
    // These two calls do not report errors.
    if (file_user(), file_group()) != (rights.uid, rights.gid) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("the system does not let this process act as user {}", rights.uid),
        ));
    }
    let outcome = work();
    drop(restored);
    outcome
}

/// Whether this thread can access everybody's files.
pub(super) fn has_roots_rights() -> bool {
    file_user() == 0
}

/// The rights to restore at the end, in reverse order.
struct Restored(Rights);

impl Drop for Restored {
    fn drop(&mut self) {
        set_file_user(self.0.uid);
        set_file_group(self.0.gid);
        let is_whole = (file_user(), file_group()) == (self.0.uid, self.0.gid);
        if set_groups(&self.0.groups).is_err() || !is_whole {
            // A thread with partly restored rights must not continue.
            std::process::abort();
        }
    }
}

fn file_user() -> u32 {
    set_file_user(NO_CHANGE)
}

fn file_group() -> u32 {
    set_file_group(NO_CHANGE)
}

/// Returns the previous one.
fn set_file_user(uid: u32) -> u32 {
    // SAFETY: the argument and the result are numbers.
    (unsafe { libc::syscall(libc::SYS_setfsuid, uid) }) as u32
}

/// Returns the previous one.
fn set_file_group(gid: u32) -> u32 {
    // SAFETY: the argument and the result are numbers.
    (unsafe { libc::syscall(libc::SYS_setfsgid, gid) }) as u32
}

fn groups() -> io::Result<Vec<u32>> {
    Ok(rustix::process::getgroups()?.into_iter().map(rustix::fs::Gid::as_raw).collect())
}

/// Only for this thread: the C library's function changes all threads.
fn set_groups(groups: &[u32]) -> io::Result<()> {
    if groups.len() > GROUPS_MAX {
        return Err(Errno::INVAL.into());
    }
    // SAFETY: the pointer is valid for that many groups, and the kernel only reads them.
    match unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
