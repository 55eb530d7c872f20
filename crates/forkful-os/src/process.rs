//! Child processes: starting them without leaking descriptors, and watching and signalling them by pidfd.
//!
//! A [`Child`] that has ended stays a zombie until it is explicitly reaped. Until then its pid and its
//! process group id cannot be reused, so its tree can be signalled safely.

#[cfg(target_os = "linux")]
mod becoming;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere/becoming.rs"]
mod becoming;
mod ending;
mod flight;
mod hygiene;
mod other;
mod program;
mod spawn;

use std::io;
use std::os::fd::OwnedFd;
#[cfg(target_os = "linux")]
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus, waitid};

pub use becoming::become_program;
pub use flight::Flight;
pub use hygiene::{ignore_hangup, ignore_stray_signals, is_ignored, prepare_long_life, reset};
pub use other::Other;
pub use program::{is_executable, open_program, own_program, path_of, runs_program, set_name};
pub use spawn::{Standing, needs_shell, spawn, spawn_watched};

use crate::keeper::Keeping;

/// The description of a process to start. It leads a new session and inherits only the descriptors named
/// here.
#[derive(Debug)]
pub struct SpawnPlan {
    /// Path of the executable; not searched in `PATH`. A text without a `#!` line is run by `/bin/sh`.
    pub program: PathBuf,
    /// All arguments, beginning with `argv[0]`.
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    pub cwd: PathBuf,
    /// Becomes descriptor 0; `None` is `/dev/null`.
    pub stdin: Option<OwnedFd>,
    /// Becomes descriptor 1.
    pub stdout: OwnedFd,
    /// Becomes descriptor 2.
    pub stderr: OwnedFd,
    /// Becomes descriptor 3; its blocking mode is unchanged.
    pub channel: Option<OwnedFd>,
    /// The user it runs as; `None` is this process's user.
    pub run_as: Option<RunAs>,
    /// A number that it and its descendants carry: see [`crate::tree::Mark`].
    pub mark: Option<crate::tree::Mark>,
    /// The control groups that it and its descendants join.
    pub groups: Option<crate::cgroup::Membership>,
    /// With a keeper, the process becomes the keeper's child and outlives this process.
    pub keeping: Keeping,
}

/// A user and groups for a process; only root can set others than its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunAs {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

/// The step at which starting a process failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpawnStep {
    /// An argument, variable or path contains a NUL byte, or a variable's name is empty or contains `=`.
    Arguments,
    /// The descriptors could not be prepared.
    Descriptors,
    /// The kernel could not create the process.
    Clone,
    /// Joining the control group failed.
    Group,
    /// Creating the session failed.
    Session,
    /// Changing to the user or group failed.
    User,
    /// Entering the working directory failed.
    ChangeDirectory,
    /// Executing the program failed.
    Execute,
}

/// Why a process was not started.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.describe())]
pub struct SpawnError {
    pub step: SpawnStep,
    /// The path of the failed step: the program or the directory.
    pub path: PathBuf,
    #[source]
    pub source: io::Error,
}

impl SpawnError {
    pub fn errno(&self) -> i32 {
        self.source.raw_os_error().unwrap_or(libc::EINVAL)
    }

    /// Whether the kernel knows no such programs.
    fn is_unknown_format(&self) -> bool {
        self.step == SpawnStep::Execute && self.errno() == libc::ENOEXEC
    }

    fn describe(&self) -> String {
        let path = self.path.display();
        match self.step {
            SpawnStep::Arguments => {
                format!("an argument, variable or path for {path} cannot be passed to a program")
            }
            SpawnStep::Descriptors => format!("cannot prepare the descriptors for {path}"),
            SpawnStep::Clone => format!("cannot make a process for {path}"),
            SpawnStep::Group => format!("cannot put {path} into its control group"),
            SpawnStep::Session => format!("cannot create a session for {path}"),
            SpawnStep::User => format!("cannot start {path} as another user"),
            SpawnStep::ChangeDirectory => format!("cannot enter the working directory {path}"),
            SpawnStep::Execute if self.is_unknown_format() => {
                format!("{path} is no program for this machine: it is for another architecture, or damaged")
            }
            SpawnStep::Execute => format!("cannot execute {path}"),
        }
    }
}

/// A process that we started and have not reaped.
#[derive(Debug)]
pub struct Child {
    /// Its pid, which is also its session and process group id.
    pub pid: u32,
    /// Readable once it has ended, and forever after: stop watching it then.
    pub pidfd: OwnedFd,
    /// When it started, in the kernel's ticks since boot (`/proc/PID/stat`, field 22). Together with the pid
    /// it identifies the process across restarts of the daemon.
    pub start_time: u64,
    /// Its parent: this process, or the keeper, which reaps it on request.
    pub keeping: Keeping,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it; whether it dumped core.
    Signal(i32, bool),
}

impl Child {
    /// How it ended, or `None` while it is alive. Unless `reap` is set, it stays a zombie and the call can be
    /// repeated; once reaped, `ECHILD`.
    pub fn try_wait(&self, reap: bool) -> io::Result<Option<Exit>> {
        if self.keeping.is_on() {
            return self.try_wait_kept(reap);
        }
        let mut options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        if !reap {
            options |= WaitIdOptions::NOWAIT;
        }
        let status = rustix::io::retry_on_intr(|| waitid(self.wait_id(), options))?;
        Ok(status.as_ref().and_then(Exit::from_status))
    }

    /// How `waitid` is told which child is meant.
    fn wait_id(&self) -> WaitId<'_> {
        #[cfg(target_os = "linux")]
        if !crate::portable::is_on() {
            return WaitId::PidFd(self.pidfd.as_fd());
        }
        // Until it is reaped, which only this process does, the number is its own. 1 is nobody's child.
        WaitId::Pid(i32::try_from(self.pid).ok().and_then(Pid::from_raw).unwrap_or(Pid::INIT))
    }

    /// The same for a child of the keeper: it stays a zombie until the keeper is told to reap it, so that its
    /// exit can be read meanwhile.
    fn try_wait_kept(&self, reap: bool) -> io::Result<Option<Exit>> {
        if !is_readable(&self.pidfd)? {
            return Ok(None);
        }
        let exit = match crate::procinfo::end_of(self.pid) {
            Ok((started, _)) if started != self.start_time && self.start_time != 0 => {
                return Err(Errno::CHILD.into());
            }
            // The kernel also returns 0 if we lack permission.
            Ok((_, 0)) if !crate::procinfo::is_of_this_user(self.pid) => {
                self.keeping.ask(self.pid).unwrap_or(Exit::Code(0))
            }
            Ok((_, status)) => Exit::from_wait_status(status),
            // There is no free descriptor: the keeper knows it, too.
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE)) => {
                self.keeping.ask(self.pid).ok_or(Errno::CHILD)?
            }
            Err(_gone) => return Err(Errno::CHILD.into()),
        };
        if reap {
            self.keeping.reap(self.pid);
        }
        Ok(Some(exit))
    }

    /// Sends signal number `sig` to its process group while it is not reaped: until then the group id cannot
    /// be reused. `ESRCH` if the group is empty.
    pub fn signal_group(&self, sig: i32) -> io::Result<()> {
        // If it is reaped, the number may belong to another group.
        self.try_wait(false)?;
        let group = i32::try_from(self.pid).map_err(io::Error::other)?;
        // SAFETY: plain integers.
        if unsafe { libc::kill(-group, sig) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// A process of the previous daemon, by its pid and start time; `None` if it is gone. A start time of 0 is not known: the daemon
    /// had no descriptor left to read it.
    pub fn adopt(pid: u32, pidfd: OwnedFd, start_time: u64, keeping: Keeping) -> Option<Self> {
        // The descriptor refers to the process itself, so the pid is its own until it is reaped.
        let found = crate::procinfo::start_time(pid).ok()?;
        let is_the_same = if start_time == 0 { !is_reaped(&pidfd) } else { found == start_time };
        is_the_same.then_some(Self { pid, pidfd, start_time: found, keeping })
    }

    /// Sends signal number `sig` only to this process. No effect on a zombie; `ESRCH` once reaped.
    pub fn signal(&self, sig: i32) -> io::Result<()> {
        if !crate::portable::is_on() {
            return pidfd_signal(&self.pidfd, sig);
        }
        // If it is reaped, the number may belong to another process.
        match self.try_wait(false) {
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Err(Errno::SRCH.into()),
            _ => signal_number(self.pid, sig),
        }
    }
}

impl Exit {
    /// From a status as `wait(2)` returns it.
    pub(crate) fn from_wait_status(status: i32) -> Self {
        let signal = status & 0x7f;
        if signal == 0 { Self::Code(status >> 8 & 0xff) } else { Self::Signal(signal, status & 0x80 != 0) }
    }

    pub(crate) fn from_status(status: &WaitIdStatus) -> Option<Self> {
        if let Some(code) = status.exit_status() {
            return Some(Self::Code(code));
        }
        status.terminating_signal().map(|signal| Self::Signal(signal, status.dumped()))
    }
}

/// Whether the process of a pidfd has ended and somebody has taken its exit: its number may be another's.
fn is_reaped(pidfd: &OwnedFd) -> bool {
    pidfd_signal(pidfd, 0).is_err_and(|error| error.raw_os_error() == Some(libc::ESRCH))
}

/// Whether a descriptor is readable now: a pidfd is when its process has ended.
fn is_readable(fd: &OwnedFd) -> io::Result<bool> {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    Ok(rustix::io::retry_on_intr(|| poll(&mut fds, Some(&Timespec::default())))? > 0)
}

/// Waits until it is readable.
fn wait_readable(fd: &OwnedFd) -> io::Result<()> {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    rustix::io::retry_on_intr(|| poll(&mut fds, None))?;
    Ok(())
}

/// How a child of this process ended; `None` while it is alive, or if it is not a child.
pub fn how_child_ended(pid: u32) -> Option<Exit> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    let status = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options)).ok()??;
    Exit::from_status(&status)
}

/// Reaps a child of this process, if it has ended.
pub fn reap_child(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let _gone = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options));
    }
}

/// Sends signal number `sig` (0 only checks) to the process with this number now.
pub(crate) fn signal_number(pid: u32, sig: i32) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0).ok_or(Errno::SRCH)?;
    // SAFETY: plain integers.
    if unsafe { libc::kill(pid, sig) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A pidfd of a process.
pub fn pidfd_of(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    #[cfg(target_os = "linux")]
    return Ok(rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?);
    #[cfg(not(target_os = "linux"))]
    ending::watch(pid)
}

/// Sends a signal to exactly this process.
pub fn signal_by_pidfd(pidfd: &OwnedFd, sig: i32) -> io::Result<()> {
    pidfd_signal(pidfd, sig)
}

/// There are no pidfds.
#[cfg(not(target_os = "linux"))]
pub(crate) fn pidfd_signal(_pidfd: &OwnedFd, _sig: i32) -> io::Result<()> {
    Err(crate::portable::unsupported())
}

/// Sends signal number `sig` (0 only checks) by pidfd, including real-time signals, for which rustix has no
/// safe name.
#[cfg(target_os = "linux")]
pub(crate) fn pidfd_signal(pidfd: &OwnedFd, sig: i32) -> io::Result<()> {
    // SAFETY: plain integers and a null siginfo, which means "as kill would".
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            sig,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
