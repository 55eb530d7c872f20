//! Signals that interrupt a trial: Ctrl-C, SIGTERM and a closed terminal.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

use crate::exit::{Exit, Failure};

/// A signal this soon after the first is the same key press: npm and npx pass on what the terminal has sent to
/// the command too.
const SAME_PRESS: Duration = Duration::from_millis(250);

/// The signals; they do not end the program from now on.
pub(super) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    /// One of them has come.
    came: bool,
}

impl Interrupts {
    pub(super) fn new() -> Result<Self, Failure> {
        let of = |kind| {
            signal(kind).map_err(|e| {
                Failure::caused(Exit::Failed, anyhow::Error::new(e).context("cannot handle signals"))
            })
        };
        Ok(Self {
            interrupt: of(SignalKind::interrupt())?,
            terminate: of(SignalKind::terminate())?,
            hangup: of(SignalKind::hangup())?,
            came: false,
        })
    }

    /// Waits for any of them.
    pub(super) async fn first(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
        self.came = true;
    }

    /// Waits for a second one that somebody has sent on purpose. A terminal that closes sends several hangups.
    pub(super) async fn again(&mut self) {
        if !self.came {
            self.first().await;
        }
        let forever = async {
            loop {
                self.on_purpose().await;
            }
        };
        let _elapsed: Result<(), _> = timeout(SAME_PRESS, forever).await;
        self.on_purpose().await;
    }

    async fn on_purpose(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
