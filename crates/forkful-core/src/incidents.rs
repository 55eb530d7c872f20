//! Incidents: what happens to an app that nobody asked for, such as a crash or a failed reload. Here is which effects are
//! one, how its reason reads, and which of the incidents that are kept go when there are too many. The files are the daemon's.

mod death;
mod deployment;
mod keeping;

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::doctor::TrialCommands;
use crate::named;
use crate::slot::{Exit, FailReason, State};
use crate::spec::Named as _;
use crate::supervisor::{Effect, Event, Notice, ReloadFailure};
use crate::words;

pub use death::{Death, Role, by_forkful, role};
pub use deployment::Deployment;
pub use keeping::{BYTES_MAX, ENTRIES_MAX, Entry, ROUTINE_MAX, surplus};

named! {
    /// What kind of incident it is.
    #[derive(PartialOrd, Ord, Hash)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub enum IncidentKind {
        /// A worker ended without being asked to.
        Crash = "crash",
        /// It did so too often, and is given up.
        CrashLoop = "crash_loop",
        /// A reload did not come to its end.
        FailedReload = "failed_reload",
        /// Health checks have failed, and the worker is replaced.
        Unhealthy = "unhealthy",
        /// The event loop of a worker stood still for so long that the worker was killed.
        Stuck = "stuck",
        /// A log file cannot be written, because its disk is full.
        DiskFull = "disk_full",
        /// Autoscaling has added workers.
        ScaledUp = "scaled_up",
        /// Autoscaling has removed workers.
        ScaledDown = "scaled_down",
        /// The workers are busy, and something speaks against more of them.
        NotScaledUp = "not_scaled_up",
        /// `forkful doctor --fix` has changed a setting, and measures whether that helps.
        FixTried = "fix_tried",
        /// The change did not help, and `forkful doctor --fix` has taken it back.
        FixReverted = "fix_reverted",
        /// A deployment restarts or replaces workers.
        Deployed = "deployed",
    }
}

impl IncidentKind {
    /// Whether something is wrong. The other kinds are what an app was set up to do, or what a user asked the doctor to try.
    pub fn is_fault(self) -> bool {
        !matches!(
            self,
            Self::ScaledUp
                | Self::ScaledDown
                | Self::NotScaledUp
                | Self::FixTried
                | Self::FixReverted
                | Self::Deployed
        )
    }

    /// Its name in a sentence.
    pub fn words(self) -> String {
        self.name().replace('_', " ")
    }
}

/// What an effect says of an app, beside the ends of processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Noticed {
    /// An incident of a slot or of the app, why, and what follows.
    Incident { kind: IncidentKind, slot: Option<u16>, reason: String, next: String },
    /// The process of this slot is about to be killed because its event loop stands still; the text says what it did.
    Stuck(u16, String),
}

/// A command's note that it is a step of `forkful doctor --fix`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FixNote {
    /// Which step.
    pub step: FixStep,
    /// The trial: `try` gives it this name, 1 to 64 bytes and unlike any other's; `revert` and `keep` settle the trial of this name and no other.
    pub trial: String,
    /// The change and the verdict behind it, or what was measured; in words, at most 1024 bytes.
    pub reason: String,
    /// With `try`, which needs it: how to settle the trial by hand. The daemon shows it until the trial is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<TrialCommands>,
}

/// A step of `forkful doctor --fix`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FixStep {
    /// It changes a setting.
    Try,
    /// It takes the change back.
    Revert,
    /// It keeps the change.
    Keep,
}

impl FixNote {
    /// The longest name of a trial.
    pub const TRIAL_BYTES_MAX: usize = 64;
    /// The longest reason.
    pub const REASON_BYTES_MAX: usize = 1024;
    /// The longest command: Linux gives a program no longer argument.
    pub const COMMAND_BYTES_MAX: usize = 128 * 1024;

    /// A step of a trial, without commands. A reason that is too long is cut.
    pub fn new(step: FixStep, trial: &str, reason: &str) -> Self {
        Self { step, trial: trial.to_owned(), reason: cut(reason, Self::REASON_BYTES_MAX), commands: None }
    }

    /// What is to be noted of the step, once it is done.
    pub fn noticed(&self) -> Option<Noticed> {
        let (kind, next) = match self.step {
            FixStep::Try => (IncidentKind::FixTried, "the change is kept only if it helps"),
            FixStep::Revert => (IncidentKind::FixReverted, "the earlier setting is restored"),
            FixStep::Keep => return None,
        };
        Some(Noticed::Incident { kind, slot: None, reason: self.reason.clone(), next: next.to_owned() })
    }

    /// Whether it has what its step needs, and its texts are no longer than they may be.
    ///
    /// # Errors
    /// The violated requirement, in a sentence.
    pub fn check(&self) -> Result<(), String> {
        if self.trial.is_empty() {
            return Err("`trial` of `fix` is the name of the trial".to_owned());
        }
        if (self.step == FixStep::Try) != self.commands.is_some() {
            return Err("`commands` of `fix` belong to the step `try`, which needs them".to_owned());
        }
        let commands = self.commands.iter().flat_map(|TrialCommands { keep, undo }| {
            [("keep", keep), ("undo", undo)].map(|(name, way)| (name, way.as_str(), Self::COMMAND_BYTES_MAX))
        });
        let texts = [
            ("trial", self.trial.as_str(), Self::TRIAL_BYTES_MAX),
            ("reason", &self.reason, Self::REASON_BYTES_MAX),
        ];
        match texts.into_iter().chain(commands).find(|(_, text, bytes_max)| text.len() > *bytes_max) {
            Some((name, _, bytes_max)) => Err(format!("`{name}` of `fix` has at most {bytes_max} bytes")),
            None => Ok(()),
        }
    }
}

/// The text, or its beginning and `…` in this many bytes.
fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let most = bytes_max.saturating_sub('…'.len_utf8());
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}…", &text[..end])
}

/// Whether an event says that a worker is not well.
pub fn is_bad_health(event: &Event) -> bool {
    matches!(event, Event::Health { answer: Err(_), .. })
}

/// What is to be noted of an effect. `bad_health`: it follows from a health check that failed, see [`is_bad_health`].
pub fn noticed(effect: &Effect, bad_health: bool) -> Option<Noticed> {
    match effect {
        Effect::Notice(Some(slot), Notice::Renewed(why)) if bad_health => Some(Noticed::Incident {
            kind: IncidentKind::Unhealthy,
            slot: Some(*slot),
            reason: why.clone(),
            next: "it is replaced".to_owned(),
        }),
        Effect::Notice(None, Notice::Scaled { from, to, why }) => Some(scaled(*from, *to, why)),
        Effect::Notice(None, Notice::NotScaled { workers, why }) => Some(Noticed::Incident {
            kind: IncidentKind::NotScaledUp,
            slot: None,
            reason: why.clone(),
            next: format!("there are still {}", words::count(usize::from(*workers), "worker")),
        }),
        Effect::Notice(Some(slot), Notice::KilledWhileStuck(report)) => {
            Some(Noticed::Stuck(*slot, report.clone()))
        }
        Effect::Reloaded(_, result) => result.failure.as_ref().and_then(failed_reload),
        _ => None,
    }
}

/// `None` if another command ended the reload.
fn failed_reload(failure: &ReloadFailure) -> Option<Noticed> {
    let ReloadFailure { slot, fault, listen_fault, old_serves } = failure;
    if fault.is_by_command() {
        return None;
    }
    let reason = match listen_fault {
        Some(listen) => format!("a new worker failed: {fault}: {}", listen.error),
        None => format!("a new worker failed: {fault}"),
    };
    let next = if *old_serves { "the worker before serves on" } else { "the reload ends here" };
    let kind = IncidentKind::FailedReload;
    Some(Noticed::Incident { kind, slot: Some(*slot), reason, next: next.to_owned() })
}

fn scaled(from: u16, to: u16, why: &str) -> Noticed {
    let kind = if to > from { IncidentKind::ScaledUp } else { IncidentKind::ScaledDown };
    let next = format!("from {from} to {}", words::count(usize::from(to), "worker"));
    Noticed::Incident { kind, slot: None, reason: why.to_owned(), next }
}

/// Whether an app's policy takes an end that nobody asked for as the end of the work: its code says so, and the slot rests.
pub fn is_done(exit: &Exit, after: Option<&State>, stop_exit_codes: &[i32]) -> bool {
    let has_code = matches!(exit, Exit::Code(code) if *code == 0 || stop_exit_codes.contains(code));
    has_code && matches!(after, Some(State::Stopped { .. }))
}

/// What follows the end of a process, from what its slot does after it; `None` where the slot is gone.
pub fn follows(role: Role, after: Option<&State>, now: Time) -> (Option<FailReason>, String) {
    let at_once = || (None, "restart at once".to_owned());
    match (role, after) {
        (Role::Successor, _) => (None, "the worker before serves on".to_owned()),
        (_, Some(State::Failed { reason, .. })) => (Some(*reason), format!("given up: {reason}")),
        (_, Some(State::Backoff { start_at, .. })) => {
            let delay = start_at.since(now);
            let delay = match delay.as_millis() {
                short @ ..1000 => format!("{short} ms"),
                _ => format!("{:.1} s", delay.as_secs_f64()),
            };
            (None, format!("restart in {delay}"))
        }
        (Role::Serving, Some(State::Starting { .. })) => at_once(),
        (Role::Replaced, Some(State::Starting { .. })) => {
            (None, "its successor was starting already".to_owned())
        }
        (_, Some(State::Starting { .. } | State::Online(_) | State::Replacing { .. })) => at_once(),
        (_, Some(State::Stopped { .. } | State::Stopping { .. }) | None) => {
            (None, "it is not started again".to_owned())
        }
    }
}
