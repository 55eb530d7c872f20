//! Scheduling priority for a daemon that works for microseconds at a time next to workers that use all cores.
//!
//! All of it is best effort: if the kernel is too old or refuses, nothing changes. Children started by
//! [`crate::process::spawn`] keep the priority until they execute their program, because the caller waits for
//! that; then they get our original priority. Children started in other ways inherit it.

use std::fs::File;
use std::io::{self, Write as _};
use std::mem::size_of;
use std::sync::OnceLock;
use std::time::Duration;

use crate::procinfo::read_text;

/// The range in which kernels since 6.12 accept a custom slice for a normal thread.
const SLICE_MIN: Duration = Duration::from_micros(100);
const SLICE_MAX: Duration = Duration::from_millis(100);

/// The requested priority if this process had the normal one.
const NICE: i32 = -5;

/// The kernel's group of this session, and its priority: `/autogroup-7 nice 0`. Missing where the kernel has no such groups.
const AUTOGROUP: &str = "/proc/self/autogroup";

/// The attributes before the first request, which children get. Set at most once.
static ORIGINAL: OnceLock<libc::sched_attr> = OnceLock::new();

/// Scheduling attributes that children get.
pub(crate) type Attributes = libc::sched_attr;

/// What the kernel granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// A shorter slice, so that a wake-up preempts sooner (Linux 6.12 and later).
    pub short_slice: bool,
    /// A higher priority (needs `CAP_SYS_NICE` or `RLIMIT_NICE`).
    pub nice: bool,
    /// The same for the session, where the kernel shares CPU time among sessions first (`sched_autogroup`).
    pub session: bool,
}

/// Requests a scheduling slice of `slice` (0.1 to 100 ms) for the calling thread, and nice −5; for the session too if this process leads
/// it, because nice alone counts only within a session where the kernel shares CPU time among sessions first.
///
/// A priority set by the user is kept. Children in sessions of their own have the normal share. Fails only if the thread's current state cannot be read.
pub fn request_short_slice(slice: Duration) -> io::Result<Granted> {
    let before = attributes()?;
    let normal = before.sched_policy == libc::SCHED_OTHER as u32;
    if !normal {
        return Ok(Granted { short_slice: false, nice: false, session: false });
    }
    ORIGINAL.get_or_init(|| libc::sched_attr { sched_runtime: 0, ..before });
    let slice_ns = slice.clamp(SLICE_MIN, SLICE_MAX).as_nanos() as u64;
    let wanted = |nice: i32| libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_nice: nice,
        sched_runtime: slice_ns,
        ..before
    };
    let raised = before.sched_nice == 0 && set_attributes(&wanted(NICE)).is_ok();
    if !raised {
        // Without the privilege for both, only the slice.
        let _ = set_attributes(&wanted(before.sched_nice));
    }
    let after = attributes()?;
    // Older kernels ignore the runtime of a normal thread and report none.
    let session = raised && raise_session();
    Ok(Granted { short_slice: after.sched_runtime == slice_ns, nice: after.sched_nice == NICE, session })
}

/// Raises the share of the session that this process leads, unless somebody has set it.
fn raise_session() -> bool {
    // SAFETY: it only asks for a number.
    let leads = u32::try_from(unsafe { libc::getsid(0) }).is_ok_and(|session| session == std::process::id());
    let is_normal = || read_text(AUTOGROUP).is_ok_and(|text| text.trim_end().ends_with(" nice 0"));
    let raise = || File::options().write(true).open(AUTOGROUP)?.write_all(NICE.to_string().as_bytes());
    leads && is_normal() && raise().is_ok()
}

/// The attributes to restore in a child; `None` if nothing was requested.
pub(crate) fn original_attributes() -> Option<libc::sched_attr> {
    ORIGINAL.get().copied()
}

fn attributes() -> io::Result<libc::sched_attr> {
    // SAFETY: an integer-only structure, for which zeros are valid.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: the kernel writes at most `size` bytes. 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if result == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

fn set_attributes(attributes: &libc::sched_attr) -> io::Result<()> {
    // SAFETY: the structure is valid and names its own size. 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{read_all, start_shell};

    #[test]
    fn what_is_reported_as_granted_is_what_the_kernel_shows_and_children_do_not_inherit_it() {
        // In its own thread, because the request affects only a thread.
        std::thread::spawn(|| {
            let before = attributes().unwrap();
            let granted = request_short_slice(Duration::from_micros(250)).unwrap();
            let after = attributes().unwrap();
            assert_eq!(granted.short_slice, after.sched_runtime == 250_000);
            assert_eq!(granted.nice, before.sched_nice == 0 && after.sched_nice == NICE);
            assert!(!granted.session, "this process leads no session");
            let (_child, output) = start_shell("exec nice", &[("PATH", "/usr/bin:/bin")]);
            assert_eq!(read_all(output).trim(), before.sched_nice.to_string());
            let path = [("PATH", "/usr/bin:/bin")];
            let (_child, output) = start_shell("exec grep se.slice /proc/self/sched", &path);
            // Missing on kernels without scheduler statistics.
            let text = read_all(output);
            assert!(!text.split_whitespace().any(|word| word == "250000"), "{text}");
        })
        .join()
        .unwrap();
    }
}
