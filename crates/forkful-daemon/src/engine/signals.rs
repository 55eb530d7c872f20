//! Signals that the process gets, and what they mean for the workers.

use std::io;

use forkful_os::tree;

use super::Engine;

/// What the process is told by signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// A child has ended.
    Child,
    /// End in an orderly way.
    Stop(i32),
    Forward(i32),
}

/// The signals that are listened to.
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

impl Engine {
    pub(super) fn on_signal(&mut self, signal: Signal) {
        match signal {
            Signal::Child => {
                // Zombies that are left are looked for again at the next child's end.
                let is_ours = |pid| self.pids.contains(&pid) || self.is_being_started(pid);
                let _failed = tree::reap_orphans(&is_ours);
            }
            Signal::Stop(number) => {
                if self.echo {
                    self.forward_stop(number);
                } else {
                    self.kill(None);
                }
            }
            // In the background SIGUSR2, the only one of these, asks what PM2 does on it.
            Signal::Forward(_) if !self.echo => drop(self.logs.reopen()),
            Signal::Forward(number) => self.signal_all(number),
        }
    }

    /// Foreground: the first stop signal is passed on as it is, a second one does not wait any more.
    pub(super) fn forward_stop(&mut self, number: i32) {
        if self.stop_signal.is_some() {
            self.signal_all(9);
        } else {
            self.stop_signal = Some(number);
            self.kill(None);
        }
    }

    pub(super) fn signal_all(&mut self, number: i32) {
        for process in self.apps.values().flat_map(|a| a.places.values()).flat_map(|p| p.processes.values()) {
            if process.ended.is_none() {
                // It may have ended this moment.
                let _gone = process.child.signal(number);
            }
        }
    }
}
