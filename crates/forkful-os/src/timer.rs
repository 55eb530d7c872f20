//! A timer with a descriptor, for a [`crate::reactor::Reactor`]: exact to microseconds, while an event loop's
//! own timers are exact to milliseconds.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// A one-shot timer on the monotonic clock. Register it with `READ | EDGE`; after it has fired it only needs
/// to be set again.
#[derive(Debug)]
pub struct Timer(OwnedFd);

impl Timer {
    /// A timer that is not set.
    pub fn new() -> io::Result<Self> {
        Ok(Self(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?))
    }

    /// Becomes readable `after` from now, replacing any earlier setting; `None` is never.
    pub fn set(&self, after: Option<Duration>) -> io::Result<()> {
        // Zero would mean never.
        let after = after.map_or(Duration::ZERO, |after| after.max(Duration::from_nanos(1)));
        let it_value = Timespec::try_from(after).map_err(io::Error::other)?;
        let value = Itimerspec { it_interval: Timespec::default(), it_value };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &value)?;
        Ok(())
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reactor::{Interest, Reactor};

    #[test]
    fn it_fires_once_each_time_it_is_set_and_never_when_it_is_not() {
        let reactor = Reactor::new().unwrap();
        let timer = Timer::new().unwrap();
        reactor.add(timer.as_fd(), 7, Interest::READ | Interest::EDGE).unwrap();
        let mut events = Vec::new();
        for after in [Duration::ZERO, Duration::from_micros(300)] {
            timer.set(Some(after)).unwrap();
            reactor.wait(&mut events, None).unwrap();
            assert_eq!(events.drain(..).map(|event| event.token).collect::<Vec<_>>(), [7]);
            reactor.wait(&mut events, Some(Duration::ZERO)).unwrap();
            assert!(events.is_empty());
        }
        timer.set(Some(Duration::from_micros(1))).unwrap();
        timer.set(None).unwrap();
        reactor.wait(&mut events, Some(Duration::from_millis(2))).unwrap();
        assert!(events.is_empty());
    }
}
