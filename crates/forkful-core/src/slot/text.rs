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
            exit if *exit == Self::UNKNOWN => f.write_str("an unknown exit"),
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
                let exits = crate::words::count(*count as usize, "unstable exit");
                write!(f, "{exits} in {}", minutes(*window))
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

impl Fault {
    /// In words, where the daemon ends: `kill` deletes all workers.
    pub fn at_the_end(&self) -> String {
        match self {
            Self::Cancelled { by: Verb::Delete } => "cancelled by a later `kill`".to_owned(),
            other => other.to_string(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_that_is_not_known_is_no_code() {
        assert_eq!(Exit::UNKNOWN.to_string(), "an unknown exit");
        assert_eq!(Fault::Exited(Exit::UNKNOWN).to_string(), "ended with an unknown exit");
        assert_eq!(Exit::Code(255).to_string(), "exit code 255");
    }

    #[test]
    fn where_the_daemon_ends_it_is_kill_that_cancels() {
        let by = |by| Fault::Cancelled { by };
        assert_eq!(by(Verb::Delete).at_the_end(), "cancelled by a later `kill`");
        assert_eq!(by(Verb::Stop).at_the_end(), "cancelled by a later `stop`");
        assert_eq!(by(Verb::Delete).to_string(), "cancelled by a later `delete`");
    }
}
