//! Starts a process with `fork`, which every Unix has. The child reports a failed step through a socket that its
//! program does not get.

use std::ffi::c_int;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use rustix::fs::{Dir, Mode, OFlags};
use rustix::process::Pid;

use super::prepared::out_of_the_way;
use super::{BlockedSignals, Failed, Kernel, Orders, errno, follow, in_our_memory, step_of};
use crate::process::{RunAs, SpawnStep, ending, reap_child};

/// The highest signal number of any system.
const SIGNAL_MAX: c_int = 64;
/// Descriptors that other threads may open between looking and `fork`.
const LATER_FDS: RawFd = 64;

/// What the child sends: step and error number.
const REPORT_BYTES: usize = 8;

/// Starts the process and waits until it executes its program or fails.
pub(super) fn start(orders: &Orders<'_>) -> Result<(u32, OwnedFd), Failed> {
    let failed = |source| Failed { step: SpawnStep::Clone, source, zombie: None };
    let (mut ours, theirs) = sockets().map_err(failed)?;
    let child = Copy { highest: highest_fd().map_err(failed)? };
    let blocked = BlockedSignals::all();
    // SAFETY: the child has one thread, and makes only async-signal-safe calls until it executes or exits. No handler of
    // ours can run in it, because all signals are blocked until it has reset the dispositions.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: this is the child.
        unsafe { in_child(orders, &child, ours.as_raw_fd(), theirs.as_raw_fd()) }
    }
    let fork_error = io::Error::last_os_error();
    drop(blocked);
    drop(theirs);
    let Some(process) = Pid::from_raw(pid).filter(|_| pid > 0) else { return Err(failed(fork_error)) };
    orders.flight.begin(pid);
    // The child goes on when its number is known to the code that reaps children, and its end is watched.
    let watched = ending::watch(process).and_then(|ended| ours.write_all(&[1]).map(|()| ended));
    let mut report = [0; REPORT_BYTES];
    let reported = watched.and_then(|ended| {
        let length = read_report(&mut ours, &mut report)?;
        Ok((ended, length == REPORT_BYTES))
    });
    let handed_over = orders.flight.end();
    debug_assert_eq!(handed_over, pid);
    match reported {
        Ok((ended, false)) => Ok((pid as u32, ended)),
        Ok((ended, true)) => {
            let [step, error] = [0, 4]
                .map(|at| c_int::from_ne_bytes([report[at], report[at + 1], report[at + 2], report[at + 3]]));
            let step = step_of(step).unwrap_or(SpawnStep::Execute);
            Err(Failed {
                step,
                source: io::Error::from_raw_os_error(error),
                zombie: Some((pid as u32, ended)),
            })
        }
        Err(source) => {
            // It waits for our byte, and ends without it.
            drop(ours);
            let _gone = rustix::process::kill_process(process, rustix::process::Signal::KILL);
            reap_child(pid as u32);
            Err(failed(source))
        }
    }
}

/// Our end and the child's, with numbers that differ from the child's final descriptors.
fn sockets() -> io::Result<(UnixStream, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    Ok((ours, out_of_the_way(theirs.into())?.into()))
}

/// Up to a whole report; the end comes when the program is executed.
fn read_report(ours: &mut UnixStream, report: &mut [u8; REPORT_BYTES]) -> io::Result<usize> {
    let mut length = 0;
    while length < report.len() {
        match ours.read(&mut report[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The child was killed with our byte unread.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// The child's code before it executes the program.
///
/// # Safety
/// Must be called only in the child, with all signals blocked.
unsafe fn in_child(orders: &Orders<'_>, copy: &Copy, parent: RawFd, report: RawFd) -> ! {
    // SAFETY: async-signal-safe calls; the descriptors are open in this copy of the process.
    unsafe {
        // Otherwise the end of the parent would not be seen here.
        libc::close(parent);
        let mut go = [0_u8; 1];
        let heard = loop {
            let read = libc::read(report, go.as_mut_ptr().cast(), 1);
            if read >= 0 || errno() != libc::EINTR {
                break read;
            }
        };
        if heard == 1 {
            let step = follow(orders, copy);
            let mut text = [0_u8; REPORT_BYTES];
            text[..4].copy_from_slice(&step.to_ne_bytes());
            text[4..].copy_from_slice(&errno().to_ne_bytes());
            libc::write(report, text.as_ptr().cast(), REPORT_BYTES);
        }
        libc::_exit(127)
    }
}

/// A child in a copy of our memory.
struct Copy {
    /// The highest open descriptor.
    highest: RawFd,
}

impl Kernel for Copy {
    unsafe fn reset_dispositions(&self) {
        for signal in 1..=SIGNAL_MAX {
            // SAFETY: plain integers. What cannot be set fails without effect.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }

    /// Descriptors stay open until the program is executed: one of them carries the report.
    unsafe fn close_from(&self, first: RawFd) {
        for fd in first..=self.highest.saturating_add(LATER_FDS) {
            // SAFETY: plain integers. What is not open fails without effect.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }

    unsafe fn set_attributes(&self, orders: &Orders<'_>) {
        // SAFETY: this is the child.
        unsafe { in_our_memory::set_attributes(orders) }
    }

    unsafe fn become_user(&self, run_as: &RunAs) -> bool {
        let count = run_as.groups.len();
        // SAFETY: plain integers, and a list that outlives the call. The process has one thread.
        unsafe {
            libc::setgroups(count as _, run_as.groups.as_ptr()) >= 0
                && libc::setgid(run_as.gid) >= 0
                && libc::setuid(run_as.uid) >= 0
        }
    }
}

/// The highest open descriptor of this process.
fn highest_fd() -> io::Result<RawFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(c"/dev/fd", flags, Mode::empty())?;
    let mut highest = folder.as_raw_fd();
    for entry in Dir::read_from(&folder)? {
        let number = entry?.file_name().to_str().ok().and_then(|name| name.parse().ok());
        highest = highest.max(number.unwrap_or(0));
    }
    Ok(highest)
}
