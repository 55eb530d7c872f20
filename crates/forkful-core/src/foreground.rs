//! A run in the foreground: what stands before its apps' lines, when the apps are stopped after a signal, and its
//! exit code.

use std::time::Duration;

use crate::Time;
use crate::logs::LineFormat;
use crate::slot::Exit;
use crate::spec::{AppName, AppSpec};

/// A shell's exit code for a program that could not be started.
const NOT_STARTED: i32 = 127;
/// A shell adds the signal number for a program killed by a signal.
const SIGNAL_BASE: i32 = 128;

/// Whether the worker stands before each line of the apps, as in `forkful logs`: `0|api | `.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogPrefix {
    /// For people, with several workers: log collectors read a pipe or a file, and parse the lines of the apps.
    #[default]
    Auto,
    Always,
    Never,
}

/// Where a line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineTarget {
    pub is_terminal: bool,
    /// Other workers write there too.
    pub is_shared: bool,
}

impl LogPrefix {
    /// What stands before the lines of a worker; empty for nothing. A JSON object names its worker itself.
    pub fn text(self, pm_id: u32, app: &AppName, format: LineFormat, target: LineTarget) -> String {
        let is_shown = match self {
            Self::Auto => target.is_terminal && target.is_shared,
            Self::Always => true,
            Self::Never => false,
        };
        if is_shown && format == LineFormat::Raw { format!("{pm_id}|{app} | ") } else { String::new() }
    }
}

/// A stop requested by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// The signal for the workers.
    pub signal: i32,
    /// When the apps are stopped; `None` once they are.
    pub at: Option<Time>,
    /// When the signal came.
    since: Time,
}

/// The same signal so soon after the first one is the same request: `timeout` sends one to the program and one to its group, and npm passes on
/// what the terminal has sent to all.
const SAME_REQUEST: Duration = Duration::from_millis(250);

/// The effect of a stop signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnSignal {
    /// The apps are stopped at [`Stop::at`]; until then they serve while load balancers notice that they
    /// leave.
    Wait(Stop),
    StopApps(Stop),
    /// The signal belongs to the request before it.
    Nothing,
    /// A second signal means that the user does not want to wait.
    KillApps,
}

impl Stop {
    /// `delay` is the time for load balancers.
    pub fn on_signal(under_way: Option<Self>, signal: i32, delay: Duration, now: Time) -> OnSignal {
        match under_way {
            Some(stop) if stop.signal == signal && now.since(stop.since) < SAME_REQUEST => OnSignal::Nothing,
            Some(_) => OnSignal::KillApps,
            None if delay.is_zero() => OnSignal::StopApps(Self { signal, at: None, since: now }),
            None => OnSignal::Wait(Self { signal, at: Some(now + delay), since: now }),
        }
    }

    /// Whether the apps must be stopped now; true only once.
    pub fn take_due(&mut self, now: Time) -> bool {
        self.at.take_if(|at| *at <= now).is_some()
    }
}

/// The longest time that a stop of these apps takes, from the signal to the last SIGKILL: `delay` for load
/// balancers, then the kill timeouts of apps that are stopped one after the other because of their
/// dependencies.
pub fn longest_stop(apps: &[AppSpec], delay: Duration) -> Duration {
    let mut longest = vec![Duration::ZERO; apps.len()];
    // A chain has at most as many apps as there are; with a cycle, which is refused elsewhere, the loop ends
    // nevertheless.
    for _ in apps {
        for (place, app) in apps.iter().enumerate() {
            let dependents =
                apps.iter().zip(&longest).filter(|(other, _)| other.depends_on.contains(&app.name));
            let before = dependents.map(|(_, longest)| *longest).max().unwrap_or_default();
            longest[place] = before + app.stop.kill_timeout;
        }
    }
    delay + longest.into_iter().max().unwrap_or_default()
}

/// The exit code of a run with these exits of its workers. After a stop signal it is that of the last worker,
/// because an app that handles the signal decides itself; otherwise it is the worst.
pub fn exit_code<'a>(was_stopped: bool, last: Option<&Exit>, exits: impl Iterator<Item = &'a Exit>) -> i32 {
    if was_stopped { last.map_or(0, code) } else { exits.map(code).max().unwrap_or(0) }
}

fn code(exit: &Exit) -> i32 {
    match exit {
        Exit::Code(code) => *code,
        Exit::Signal(signal) => SIGNAL_BASE + signal,
        Exit::SpawnFailed(_) => NOT_STARTED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_for_people_unless_the_user_decides() {
        let api = AppName::new("api").unwrap();
        let target = |is_terminal, is_shared| LineTarget { is_terminal, is_shared };
        let text = |prefix: LogPrefix, target| prefix.text(3, &api, LineFormat::Raw, target);
        assert_eq!(text(LogPrefix::Auto, target(true, true)), "3|api | ");
        assert_eq!(text(LogPrefix::Auto, target(false, true)), "");
        assert_eq!(text(LogPrefix::Auto, target(true, false)), "");
        assert_eq!(text(LogPrefix::Always, target(false, false)), "3|api | ");
        assert_eq!(text(LogPrefix::Never, target(true, true)), "");
        assert_eq!(LogPrefix::Always.text(3, &api, LineFormat::Json, target(true, true)), "");
    }

    #[test]
    fn a_stop_waits_for_load_balancers_and_a_second_signal_for_nobody() {
        let (now, delay) = (Time::default(), Duration::from_secs(5));
        let at_once = Stop { signal: 15, at: None, since: now };
        assert_eq!(Stop::on_signal(None, 15, Duration::ZERO, now), OnSignal::StopApps(at_once));
        let mut waiting = Stop { signal: 15, at: Some(now + delay), since: now };
        assert_eq!(Stop::on_signal(None, 15, delay, now), OnSignal::Wait(waiting));
        assert_eq!(Stop::on_signal(Some(waiting), 15, delay, now + SAME_REQUEST / 2), OnSignal::Nothing);
        assert_eq!(Stop::on_signal(Some(waiting), 2, delay, now), OnSignal::KillApps);
        assert_eq!(Stop::on_signal(Some(waiting), 15, delay, now + SAME_REQUEST), OnSignal::KillApps);
        assert!(!waiting.take_due(now));
        assert!(waiting.take_due(now + delay));
        assert!(!waiting.take_due(now + delay), "they are stopped once");
        assert_eq!(Stop::on_signal(Some(waiting), 15, delay, now + delay), OnSignal::KillApps);
    }

    #[test]
    fn a_stop_takes_as_long_as_the_longest_chain_of_apps() {
        let app = |name: &str, seconds, depends_on: &[&str]| {
            let mut spec = AppSpec::new(crate::spec::AppName::new(name).unwrap());
            spec.stop.kill_timeout = Duration::from_secs(seconds);
            spec.depends_on =
                depends_on.iter().map(|name| crate::spec::AppName::new(*name).unwrap()).collect();
            spec
        };
        let apps = [app("web", 3, &["api"]), app("api", 4, &["db"]), app("db", 1, &[]), app("cron", 7, &[])];
        assert_eq!(longest_stop(&apps, Duration::from_secs(5)), Duration::from_secs(5 + 3 + 4 + 1));
        assert_eq!(longest_stop(&apps[3..], Duration::ZERO), Duration::from_secs(7));
    }

    #[test]
    fn a_run_ends_with_the_worst_exit_of_its_workers() {
        let exits = [Exit::Code(0), Exit::Signal(9), Exit::SpawnFailed("no".to_owned()), Exit::Code(3)];
        assert_eq!(exit_code(false, Some(&Exit::Code(0)), exits.iter()), 137);
        assert_eq!(exit_code(false, None, exits[2..].iter()), 127);
        assert_eq!(exit_code(false, None, [].iter()), 0);
    }

    #[test]
    fn a_run_that_was_stopped_ends_as_its_last_worker() {
        let exits = [Exit::Signal(15), Exit::Code(5)];
        assert_eq!(exit_code(true, Some(&exits[1]), exits.iter()), 5);
        assert_eq!(exit_code(true, None, exits.iter()), 0);
    }
}
