//! Signals to the daemon's process, and their meaning for the workers.

use std::io;

/// The meanings of signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// A child has ended.
    Child,
    /// Shut down in order.
    Stop(i32),
    Forward(i32),
}

/// The handled signals.
pub(crate) struct Signals {
    child: tokio::signal::unix::Signal,
    stop: Vec<(i32, tokio::signal::unix::Signal)>,
    forward: Vec<(i32, tokio::signal::unix::Signal)>,
}

impl Signals {
    pub(crate) fn listen(stop: &[i32], forward: &[i32]) -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let all = |numbers: &[i32]| -> io::Result<Vec<_>> {
            numbers.iter().map(|n| Ok((*n, signal(SignalKind::from_raw(*n))?))).collect()
        };
        Ok(Self { child: signal(SignalKind::child())?, stop: all(stop)?, forward: all(forward)? })
    }

    pub(super) async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            for (number, signal) in &mut self.stop {
                if signal.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(Signal::Stop(*number));
                }
            }
            for (number, signal) in &mut self.forward {
                if signal.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(Signal::Forward(*number));
                }
            }
            self.child.poll_recv(context).map(|_| Signal::Child)
        })
        .await
    }
}
