//! The answers to a container platform's probes of a run in the foreground: whether the apps have started,
//! whether one of their workers can serve, and whether new traffic should come.
//!
//! | probe | says yes | meant for |
//! | --- | --- | --- |
//! | [`Probe::Started`] | once every app was ready | a start that takes long |
//! | [`Probe::Live`] | while every app has at least one worker that can serve, or its first start is in progress | a restart of the container |
//! | [`Probe::Ready`] | while every app has at least one worker that can serve, and no stop was requested | a load balancer |
//!
//! A worker can serve if it is online and its event loop is responsive. A container whose apps are being
//! stopped is alive: it finishes its requests.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::slot::{Exit, State};
use crate::supervisor::{AppId, AppSupervisor};

/// A probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    Started,
    Live,
    Ready,
}

/// The state of an app for a probe.
#[derive(Debug, Clone)]
pub struct Seen<'a> {
    pub id: AppId,
    pub supervisor: &'a AppSupervisor,
    /// The slots whose workers' event loops are blocked.
    pub blocked: BTreeSet<u16>,
}

/// The answer to a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub is_yes: bool,
    /// A line for each app, and one for a requested stop.
    pub text: String,
}

/// Remembers which apps have been ready.
#[derive(Debug, Default)]
pub struct Probes {
    were_ready: BTreeSet<AppId>,
}

/// The state of an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    /// At least one worker serves, or all have finished their work.
    There,
    /// A worker is starting and none serves.
    Coming,
    Missing,
}

impl Probes {
    pub fn answer<'a>(
        &mut self,
        probe: Probe,
        apps: impl IntoIterator<Item = Seen<'a>>,
        is_stopping: bool,
    ) -> Answer {
        let mut answer = Answer { is_yes: true, text: String::new() };
        if is_stopping {
            answer.text.push_str("a stop was asked for\n");
            answer.is_yes = probe != Probe::Ready;
        }
        for app in apps {
            let (service, words) = look(&app);
            if service == Service::There {
                self.were_ready.insert(app.id);
            }
            let had_started = self.were_ready.contains(&app.id);
            answer.is_yes &= match probe {
                Probe::Started => had_started,
                Probe::Ready => service == Service::There,
                Probe::Live => {
                    is_stopping || service == Service::There || service == Service::Coming && !had_started
                }
            };
            // Writing to a String cannot fail.
            let _written = writeln!(answer.text, "{}: {words}", app.supervisor.spec().name);
        }
        answer
    }
}

/// The state of an app, with a description.
fn look(app: &Seen<'_>) -> (Service, String) {
    let (mut serve, mut blocked, mut finished, mut start, mut wait, mut down) = (0, 0, 0, 0, 0, 0);
    for (number, record) in app.supervisor.slots() {
        let count = match &record.slot.state {
            State::Online(_) | State::Replacing { .. } if app.blocked.contains(number) => &mut blocked,
            State::Online(_) | State::Replacing { .. } => &mut serve,
            State::Starting { .. } => &mut start,
            State::Backoff { .. } => &mut wait,
            State::Stopped { last_exit: Some(Exit::Code(0)) } if record.wanted => &mut finished,
            State::Stopped { .. } | State::Stopping { .. } | State::Failed { .. } => &mut down,
        };
        *count += 1;
    }
    let all = app.supervisor.slots().len();
    let service = if serve > 0 || finished == all && all > 0 {
        Service::There
    } else if start > 0 || app.supervisor.waits_for_others() {
        Service::Coming
    } else {
        Service::Missing
    };
    let mut words = format!("{serve} of {all} workers can serve");
    let states = [
        (blocked, "blocked"),
        (finished, "finished"),
        (start, "starting"),
        (wait, "waiting to be restarted"),
        (down, "not running"),
    ];
    for (count, state) in states.into_iter().filter(|(count, _)| *count > 0) {
        let _written = write!(words, ", {count} {state}");
    }
    (service, words)
}
