//! A timer exact to microseconds; the runtime's own timer is exact to milliseconds.

use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::clock::{Clock, Nanos};

pub(super) struct Timer {
    fd: AsyncFd<forkful_os::timer::Timer>,
}

impl Timer {
    /// Must be called within a runtime.
    #[expect(deprecated, reason = "its successor is unsafe; the descriptor is owned, and stays what it is")]
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self { fd: AsyncFd::with_interest(forkful_os::timer::Timer::new()?, Interest::READABLE)? })
    }

    /// Waits until `at`; returns at once if it is in the past.
    pub(super) async fn until(&self, at: Nanos, clock: Clock) {
        loop {
            let now = clock.now();
            if now >= at || self.fd.get_ref().set(Some(Duration::from_nanos(at - now))).is_err() {
                return;
            }
            // An earlier setting may have fired; then it is set again.
            let Ok(mut guard) = self.fd.readable().await else { return };
            guard.clear_ready();
        }
    }
}
