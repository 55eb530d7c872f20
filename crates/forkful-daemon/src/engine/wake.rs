//! Wakes the event loop: the reactor, which tokio watches, and its timer.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use forkful_core::Time;
use forkful_os::reactor::{Interest, Reactor};
use forkful_os::timer::Timer;
use tokio::io::unix::AsyncFd;

use super::tokens::TIMER_TOKEN;

/// See the module's documentation.
pub(super) struct Wake {
    reactor: Rc<Reactor>,
    timer: Timer,
    /// The timer's setting.
    set: Option<Time>,
}

impl Wake {
    pub(super) fn new() -> io::Result<Self> {
        let (reactor, timer) = (Rc::new(Reactor::new()?), Timer::new()?);
        reactor.add(timer.as_fd(), TIMER_TOKEN, Interest::READ | Interest::EDGE)?;
        Ok(Self { reactor, timer, set: None })
    }

    pub(super) fn reactor(&self) -> &Rc<Reactor> {
        &self.reactor
    }

    /// Lets tokio watch the reactor.
    #[expect(
        deprecated,
        reason = "its successor is unsafe for types that may close early; an OwnedFd cannot"
    )]
    pub(super) fn watch(&self) -> io::Result<AsyncFd<OwnedFd>> {
        let fd = self.reactor.as_fd().try_clone_to_owned()?;
        AsyncFd::with_interest(fd, tokio::io::Interest::READABLE)
    }

    /// The timer has expired.
    pub(super) fn note_rung(&mut self) {
        self.set = None;
    }

    /// Sets the reactor's wake-up time.
    pub(super) fn wake_at(&mut self, at: Option<Time>, now: Time) -> io::Result<()> {
        if at != self.set {
            self.timer.set(at.map(|at| at.since(now)))?;
            self.set = at;
        }
        Ok(())
    }
}
