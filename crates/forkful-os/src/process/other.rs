//! A process that is no child of this one.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{pidfd_of, pidfd_signal, signal_number};
use crate::{portable, procinfo};

/// Pause between two looks at a process without a pidfd.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// A process that is no child of this one, and no other process that gets its number later.
#[derive(Debug)]
pub struct Other {
    pid: u32,
    start_time: u64,
    /// Where there are pidfds.
    pidfd: Option<OwnedFd>,
}

impl Other {
    /// The process that has this number now.
    pub fn of(pid: u32) -> io::Result<Self> {
        let pidfd = if portable::is_on() { None } else { Some(pidfd_of(pid)?) };
        Ok(Self { pid, start_time: procinfo::start_time(pid)?, pidfd })
    }

    /// Sends signal number `sig`; `ESRCH` if it has ended.
    pub fn signal(&self, sig: i32) -> io::Result<()> {
        match &self.pidfd {
            Some(pidfd) => pidfd_signal(pidfd, sig),
            None if self.has_ended() => Err(rustix::io::Errno::SRCH.into()),
            // As close to the check as it can be: the number may be reused between the two.
            None => signal_number(self.pid, sig),
        }
    }

    /// Waits for its end; false if that takes longer than `timeout`.
    pub fn ends_within(&self, timeout: Duration) -> bool {
        if let Some(pidfd) = &self.pidfd {
            let timeout =
                Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
            return poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&timeout))
                .is_ok_and(|ready| ready > 0);
        }
        let begun = Instant::now();
        while !self.has_ended() {
            if begun.elapsed() > timeout {
                return false;
            }
            std::thread::sleep(LOOK_PAUSE);
        }
        true
    }

    /// Gone, or a zombie that its parent has not reaped.
    fn has_ended(&self) -> bool {
        procinfo::start_time(self.pid).map_or(true, |found| found != self.start_time)
            || !procinfo::is_living(self.pid)
    }
}
