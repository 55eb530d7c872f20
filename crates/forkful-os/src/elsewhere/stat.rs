//! Resource use and state of a process, from libproc of macOS.

use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;

/// Nearly all files are shorter.
pub(crate) const USUAL_LENGTH: usize = 8192;

/// What is used of a process's description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: u32,
    pub(crate) is_zombie: bool,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    /// Unknown; never equal to a worker's.
    pub(crate) session: u32,
    /// Microseconds since 1970.
    pub(crate) start_time: u64,
}

impl Stat {
    pub(crate) fn is_living(&self) -> bool {
        !self.is_zombie
    }

    /// Whether it has a core or waits for one.
    pub(crate) fn is_runnable(&self) -> bool {
        is_running(self.pid).unwrap_or(false)
    }
}

/// Asks for a structure of libproc about a process.
fn info<T>(pid: u32, flavor: libc::c_int) -> io::Result<T> {
    let pid = i32::try_from(pid).map_err(|_| Errno::SRCH)?;
    let mut found = MaybeUninit::<T>::zeroed();
    let size = size_of::<T>() as libc::c_int;
    // SAFETY: the kernel writes at most `size` bytes of a plain structure.
    let written = unsafe { libc::proc_pidinfo(pid, flavor, 0, found.as_mut_ptr().cast(), size) };
    if written != size {
        return Err(Errno::SRCH.into());
    }
    // SAFETY: the structures are integers, for which zeros are valid, and were filled in.
    Ok(unsafe { found.assume_init() })
}

pub(crate) fn read_stat(pid: u32) -> io::Result<Stat> {
    let found: libc::proc_bsdinfo = info(pid, libc::PROC_PIDTBSDINFO)?;
    Ok(Stat {
        pid,
        is_zombie: found.pbi_status == libc::SZOMB,
        parent: found.pbi_ppid,
        group: found.pbi_pgid,
        session: 0,
        start_time: found.pbi_start_tvsec * 1_000_000 + found.pbi_start_tvusec,
    })
}

/// Whether a process is there and no zombie.
pub fn is_living(pid: u32) -> bool {
    read_stat(pid).is_ok_and(|stat| stat.is_living())
}

/// The processes of the machine.
pub(crate) fn all_pids() -> io::Result<Vec<u32>> {
    /// Processes that start between the two calls.
    const MORE: usize = 64;
    // SAFETY: without a buffer, the number of processes is returned.
    let count = unsafe { libc::proc_listallpids(std::ptr::null_mut(), 0) };
    let mut pids = vec![0_i32; usize::try_from(count).map_err(|_| io::Error::last_os_error())? + MORE];
    let bytes = size_of_val(pids.as_slice()) as libc::c_int;
    // SAFETY: the buffer has that many bytes.
    let count = unsafe { libc::proc_listallpids(pids.as_mut_ptr().cast(), bytes) };
    pids.truncate(usize::try_from(count).map_err(|_| io::Error::last_os_error())?);
    Ok(pids.into_iter().filter_map(|pid| u32::try_from(pid).ok()).collect())
}

/// Only children of a keeper are asked for.
pub(crate) fn end_of(_pid: u32) -> io::Result<(u64, i32)> {
    Err(crate::portable::unsupported())
}

/// Whether a process belongs to this user.
pub(crate) fn is_of_this_user(pid: u32) -> bool {
    info::<libc::proc_bsdinfo>(pid, libc::PROC_PIDTBSDINFO)
        .is_ok_and(|found| found.pbi_uid == crate::identity::euid())
}

/// When the process started, in microseconds since 1970.
pub fn start_time(pid: u32) -> io::Result<u64> {
    Ok(read_stat(pid)?.start_time)
}

/// CPU time of the process in user mode and in kernel mode.
pub(super) fn cpu_times(pid: u32) -> io::Result<(Duration, Duration)> {
    let found: libc::proc_taskinfo = info(pid, libc::PROC_PIDTASKINFO)?;
    Ok((ticks(found.pti_total_user), ticks(found.pti_total_system)))
}

/// CPU time used so far by all threads of the process.
pub fn cpu_time(pid: u32) -> io::Result<Duration> {
    cpu_times(pid).map(|(user, system)| user + system)
}

/// From the units of the Mach clock.
#[expect(deprecated, reason = "libc points to another crate, for one function")]
fn ticks(count: u64) -> Duration {
    let mut base = MaybeUninit::<libc::mach_timebase_info>::zeroed();
    // SAFETY: the structure is two integers, which the call fills in.
    let base = unsafe {
        libc::mach_timebase_info(base.as_mut_ptr());
        base.assume_init()
    };
    Duration::from_nanos(count * u64::from(base.numer) / u64::from(base.denom.max(1)))
}

/// Memory of a process in RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    /// All of it, including shared pages.
    pub bytes: u64,
    /// The same: what is shared is not known.
    pub own_bytes: u64,
}

/// Memory of the process in RAM, including shared pages, in bytes.
pub fn resident_bytes(pid: u32) -> io::Result<u64> {
    resident(pid).map(|resident| resident.bytes)
}

/// Memory of the process in RAM.
pub fn resident(pid: u32) -> io::Result<Resident> {
    let found: libc::proc_taskinfo = info(pid, libc::PROC_PIDTASKINFO)?;
    Ok(Resident { bytes: found.pti_resident_size, own_bytes: found.pti_resident_size })
}

/// Whether a thread of the process is running or ready to run.
pub fn is_running(pid: u32) -> io::Result<bool> {
    let found: libc::proc_taskinfo = info(pid, libc::PROC_PIDTASKINFO)?;
    Ok(found.pti_numrunning > 0)
}

/// It is not known.
pub fn waits_in(_pid: u32) -> Option<String> {
    None
}

/// The path of the program alone; empty if the process is gone.
pub fn command_line(pid: u32) -> Vec<String> {
    let mut path = [0_u8; libc::PROC_PIDPATHINFO_MAXSIZE as usize];
    let size = path.len() as u32;
    // SAFETY: the buffer has that many bytes.
    let length = unsafe { libc::proc_pidpath(pid.cast_signed(), path.as_mut_ptr().cast(), size) };
    let text = String::from_utf8_lossy(&path[..usize::try_from(length).unwrap_or(0)]).into_owned();
    if text.is_empty() { Vec::new() } else { vec![text.replace(char::is_control, "\u{fffd}")] }
}

/// The whole text of a file, with invalid UTF-8 replaced.
pub(crate) fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    let mut bytes = Vec::with_capacity(USUAL_LENGTH);
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Scheduling statistics of a process's main thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scheduled {
    /// Time on a core.
    pub ran: Duration,
    /// Time it was ready to run but had no core.
    pub waited: Duration,
}

/// The calling thread's id. The functions here do not know threads.
pub fn own_thread() -> u32 {
    u32::MAX
}

/// They are not known.
pub fn scheduled(_pid: u32) -> io::Result<Scheduled> {
    Err(crate::portable::unsupported())
}

/// They are not known.
pub fn major_faults(_pid: u32) -> io::Result<u64> {
    Err(crate::portable::unsupported())
}
