//! A timer exact to microseconds; the runtime's own timer is exact to milliseconds.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::clock::{Clock, Nanos};
use crate::http1::engine::timespec;

pub(super) struct Timer {
    fd: AsyncFd<OwnedFd>,
}

impl Timer {
    /// Must be called within a runtime.
    #[expect(deprecated, reason = "its successor is unsafe; the descriptor is owned, and stays what it is")]
    pub(super) fn new() -> std::io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let fd = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self { fd: AsyncFd::with_interest(fd, Interest::READABLE)? })
    }

    /// Waits until `at`; returns at once if it is in the past.
    pub(super) async fn until(&self, at: Nanos, clock: Clock) {
        loop {
            let now = clock.now();
            if now >= at {
                return;
            }
            let never = Timespec { tv_sec: 0, tv_nsec: 0 };
            let setting = Itimerspec { it_interval: never, it_value: timespec(at - now) };
            let set = rustix::time::timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::empty(), &setting);
            let Ok(mut guard) = self.fd.readable().await else { return };
            let mut expirations = [0; 8];
            let read = rustix::io::read(guard.get_inner(), &mut expirations);
            if matches!(read, Err(Errno::AGAIN)) || set.is_err() {
                guard.clear_ready();
            }
        }
    }
}
