//! Signals that interrupt a command: Ctrl-C, SIGTERM and a closed terminal.

use std::future::pending;
use std::io;
use std::time::Duration;

use forkful_os::process::{is_ignored, reset};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

use crate::exit::{Exit, Failure};

/// A signal this soon after the first is the same key press: npm and npx pass on what the terminal has sent to
/// the command too.
const SAME_PRESS: Duration = Duration::from_millis(250);

/// The signals; they do not end the program until this is dropped.
pub(super) struct Interrupts {
    interrupt: Awaited,
    terminate: Awaited,
    hangup: Awaited,
    /// One of them has come.
    came: bool,
}

/// A signal; nothing if the program was started with SIGHUP ignored, as by `nohup`. Shells start commands in the background of a script
/// with SIGINT ignored, and whoever sends it to one of those means it.
struct Awaited(Option<(SignalKind, Signal)>);

impl Awaited {
    fn new(kind: SignalKind, may_be_ignored: bool) -> io::Result<Self> {
        let is_ignored = may_be_ignored && is_ignored(kind.as_raw_value())?;
        Ok(Self(if is_ignored { None } else { Some((kind, signal(kind)?)) }))
    }

    async fn recv(&mut self) {
        match &mut self.0 {
            Some((_, signal)) => drop(signal.recv().await),
            None => pending().await,
        }
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        if let Some((kind, _)) = self.0 {
            // It cannot fail for a signal that had a handler.
            let _reset = reset(kind.as_raw_value());
        }
    }
}

impl Interrupts {
    pub(super) fn new() -> Result<Self, Failure> {
        let of = |kind| {
            Awaited::new(kind, kind == SignalKind::hangup()).map_err(|e| {
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
            () = self.interrupt.recv() => {}
            () = self.terminate.recv() => {}
            () = self.hangup.recv() => {}
        }
        self.came = true;
    }

    /// Waits for a second signal that a person has sent on purpose. A terminal that closes sends several hangups.
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

    /// Waits for a signal that a person or another program sends: not for the end of the terminal.
    pub(super) async fn on_purpose(&mut self) {
        tokio::select! {
            () = self.interrupt.recv() => {}
            () = self.terminate.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the process has a handler for a signal.
    fn is_handled(kind: SignalKind) -> bool {
        let status = fs_err::read_to_string("/proc/self/status").unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() >> (kind.as_raw_value() - 1) & 1 == 1
    }

    #[test]
    fn a_signal_is_awaited_unless_it_was_ignored_and_ends_the_program_afterwards() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _guard = runtime.enter();
        let kind = SignalKind::user_defined2();
        let awaited = Awaited::new(kind, true).unwrap();
        assert!(awaited.0.is_some() && is_handled(kind));
        drop(awaited);
        assert!(!is_handled(kind));

        forkful_os::process::ignore_stray_signals().unwrap();
        let kind = SignalKind::user_defined1();
        let ignored = Awaited::new(kind, true).unwrap();
        assert!(ignored.0.is_none() && !is_handled(kind));
        drop(ignored);
        assert!(is_ignored(kind.as_raw_value()).unwrap());
    }
}
