//! Describes an unexpected end of a process in words.

use std::time::Duration;

use crate::leaving;
use crate::signals;
use crate::slot::{Exit, Generation, Slot, State, StopReason};
use crate::stderr_excerpt;

const SIGKILL: i32 = 9;

/// The role of a process in its slot when it ended unexpectedly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It was serving or starting.
    Serving,
    /// It was serving while its successor was starting.
    Replaced,
    /// It was to replace a serving process.
    Successor,
    /// The daemon stopped it because it was not ready in time.
    NotReady { waited: Duration },
    /// The daemon stopped it because it had closed its channel.
    Disconnected,
}

/// Why Forkful ended a process that stood still (`stuck` says what it was doing) or was not ready in time, in words; `None` if it did not.
pub fn by_forkful(stuck: Option<&str>, role: Role) -> Option<String> {
    match (stuck, role) {
        (Some(report), _) => Some(format!("killed by Forkful: {report}")),
        (None, Role::NotReady { waited }) => {
            Some(format!("not ready within {} s, so Forkful ended it", waited.as_secs_f64()))
        }
        (None, Role::Disconnected | Role::Serving | Role::Replaced | Role::Successor) => None,
    }
}

/// The role of a process in its slot; `None` if a command stopped it.
pub fn role(slot: &Slot, generation: Generation) -> Option<Role> {
    // An ending process closes its channel too; the daemon stopped it only if it continued to run after that.
    let has_disconnected = slot.disconnected.is_some_and(|leaver| {
        leaver.generation == generation && !matches!(leaver.state, leaving::State::Draining { .. })
    });
    match &slot.state {
        State::Online(running) if running.generation == generation && has_disconnected => {
            Some(Role::Disconnected)
        }
        State::Starting { generation: of, .. } if *of == generation => Some(Role::Serving),
        State::Online(running) if running.generation == generation => Some(Role::Serving),
        State::Replacing { old, .. } if old.generation == generation => Some(Role::Replaced),
        State::Replacing { new, .. } if *new == generation => Some(Role::Successor),
        State::Stopping { generation: of, why: StopReason::NotReady { waited }, .. } if *of == generation => {
            Some(Role::NotReady { waited: *waited })
        }
        State::Stopped { .. }
        | State::Starting { .. }
        | State::Online(_)
        | State::Replacing { .. }
        | State::Stopping { .. }
        | State::Backoff { .. }
        | State::Failed { .. } => None,
    }
}

/// How a process ended, and the known causes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Death {
    pub exit: Exit,
    pub role: Role,
    /// The kernel's part, in words: it killed the process for lack of memory.
    pub kernel: Option<String>,
    /// The daemon killed it because its event loop was blocked; the text says what it was doing.
    pub stuck: Option<String>,
}

impl Death {
    /// The reason in words. `excerpt` is the end of its stderr with the error line first.
    pub fn reason(&self, excerpt: &[String]) -> String {
        let Self { exit, role, kernel, stuck } = self;
        if let Some(reason) = by_forkful(stuck.as_deref(), *role) {
            return reason;
        }
        if *role == Role::Disconnected {
            return format!("it closed its channel, so Forkful ended it ({exit})");
        }
        if let Some(kernel) = kernel {
            return kernel.clone();
        }
        let cause = stderr_excerpt::cause_of(excerpt, exit);
        if let Some(cause) = cause.filter(|cause| stderr_excerpt::is_heap_limit(cause)) {
            return format!("its JavaScript heap was full ({exit}): {cause}");
        }
        match exit {
            exit if *exit == Exit::UNKNOWN => {
                let unknown = "how it ended is not known";
                cause.map_or_else(|| unknown.to_owned(), |cause| format!("{unknown}: {cause}"))
            }
            Exit::SpawnFailed(_) => exit.to_string(),
            Exit::Signal(signal) => by_signal(*signal, exit, cause),
            Exit::Code(code) => by_code(*code, cause, excerpt),
        }
    }
}

fn by_signal(signal: i32, exit: &Exit, cause: Option<&str>) -> String {
    let meaning = match signals::name(signal) {
        _ if signal == SIGKILL => {
            "another process killed it: neither Forkful nor the kernel for lack of memory did"
        }
        Some("SIGSEGV" | "SIGBUS") => "native code used memory that it does not have",
        Some("SIGILL" | "SIGTRAP") => "native code gave up, or the CPU does not know an instruction",
        Some("SIGFPE") => "native code made an arithmetic error",
        Some("SIGABRT") => "it aborted itself",
        Some("SIGSYS") => "it made a system call that it is not allowed to make",
        Some("SIGXCPU") => "it used more CPU time than its limit",
        Some("SIGXFSZ") => "it wrote a file larger than its limit",
        _ => "another process sent the signal, or the worker itself",
    };
    match cause {
        Some(cause) => format!("{exit}: {meaning}: {cause}"),
        None => format!("{exit}: {meaning}"),
    }
}

fn by_code(code: i32, cause: Option<&str>, excerpt: &[String]) -> String {
    // Node.js exits with these codes on an uncaught error.
    let is_uncaught = matches!(code, 1 | 7) && excerpt.iter().any(|line| line.starts_with("    at "));
    match cause {
        Some(cause) if is_uncaught => format!("uncaught error (exit code {code}): {cause}"),
        Some(cause) => format!("exit code {code}: {cause}"),
        None => format!("it ended by itself with exit code {code}"),
    }
}
