//! Texts of exits, faults and other values of a slot.

use std::fmt;
use std::time::Duration;

use super::{Exit, FailReason, Fault, Generation, SlotNumber, Verb};

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for SlotNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => match crate::signals::name(*signal) {
                Some(name) => f.write_str(name),
                None => write!(f, "signal {signal}"),
            },
            Self::SpawnFailed(why) => write!(f, "could not be started: {why}"),
        }
    }
}

impl fmt::Display for FailReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CrashLoop { count, window } => {
                write!(f, "{count} unstable exits in {}", minutes(*window))
            }
        }
    }
}

/// `10 min`, `90 s`.
fn minutes(window: Duration) -> String {
    let secs = window.as_secs_f64();
    if secs >= 60.0 && secs % 60.0 == 0.0 { format!("{} min", secs / 60.0) } else { format!("{secs} s") }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart => "restart",
            Self::Delete => "delete",
            Self::Retire => "scale",
            Self::Replace => "reload",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReadyInTime { waited } => write!(f, "not ready within {} s", waited.as_secs_f64()),
            Self::Exited(exit @ (Exit::Code(_) | Exit::Signal(_))) => write!(f, "ended with {exit}"),
            Self::Exited(exit @ Exit::SpawnFailed(_)) => exit.fmt(f),
            Self::Cancelled { by } => write!(f, "cancelled by a later `{by}`"),
            Self::Deleting => f.write_str("the worker is being deleted"),
            Self::BeingReplaced => f.write_str("the worker is being reloaded already"),
            Self::DependencyFailed { name } => {
                write!(f, "not started: it depends on `{name}`, which does not run")
            }
            Self::TooManyWaiting => f.write_str("too many commands wait for this worker already"),
        }
    }
}
