//! Trials of `forkful doctor --fix` that are open: the change is in place, or on its way, and nobody has decided about it. A trial
//! ends when its change is kept or taken back, or when another command gives the app settings. It stays open when the doctor is
//! killed; then it says how to undo the change.

use serde::{Deserialize, Serialize};

use crate::incidents::{FixNote, FixStep, Noticed};

/// The commands that settle a trial by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TrialCommands {
    /// Makes the change again, which keeps it; at most 1024 bytes.
    pub keep: String,
    /// Gives the app the earlier setting; at most 1024 bytes.
    pub undo: String,
}

/// A trial that is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OpenTrial {
    /// When the change was ordered, in milliseconds since 1970.
    pub since_ms: u64,
    /// The command that keeps the change.
    pub keep: String,
    /// The command that undoes the change.
    pub undo: String,
}

/// What a command is for the trial of an app.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Role {
    /// A step of `forkful doctor --fix`.
    Fix(FixNote),
    /// It gives the app settings.
    Settings,
    #[default]
    Other,
}

/// How a command has ended for an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Done,
    /// It failed, and the app has the settings that it had.
    Undone,
    /// It failed, and the app may have the new settings.
    Partly,
}

impl Role {
    /// What a command is that may have a note of the doctor, and that may give the app settings.
    pub fn of(fix: Option<&FixNote>, gives_settings: bool) -> Self {
        match (fix, gives_settings) {
            (Some(fix), _) => Self::Fix(fix.clone()),
            (None, true) => Self::Settings,
            (None, false) => Self::Other,
        }
    }

    /// Whether it begins a trial.
    pub fn is_trial(&self) -> bool {
        matches!(self, Self::Fix(FixNote { step: FixStep::Try, .. }))
    }

    /// The trial of the app when the command has begun.
    pub fn begin(&self, open: Option<OpenTrial>, now_ms: u64) -> Option<OpenTrial> {
        match self {
            Self::Fix(FixNote { step: FixStep::Try, commands: Some(commands), .. }) => {
                let TrialCommands { keep, undo } = commands.clone();
                Some(OpenTrial { since_ms: now_ms, keep, undo })
            }
            Self::Fix(_) | Self::Settings | Self::Other => open,
        }
    }

    /// The trial of the app when the command has ended.
    pub fn end(&self, open: Option<OpenTrial>, end: End) -> Option<OpenTrial> {
        let ends = match (self, end) {
            (Self::Fix(FixNote { step: FixStep::Try, .. }), End::Undone) => true,
            (Self::Fix(FixNote { step: FixStep::Try, .. }), End::Done | End::Partly) => false,
            (Self::Fix(FixNote { step: FixStep::Revert | FixStep::Keep, .. }) | Self::Settings, end) => {
                end == End::Done
            }
            (Self::Other, _) => false,
        };
        open.filter(|_| !ends)
    }

    /// What is to be noted when the command has ended: a step that is done.
    pub fn noticed(&self, end: End) -> Option<Noticed> {
        match self {
            Self::Fix(note) if end == End::Done => note.noticed(),
            Self::Fix(_) | Self::Settings | Self::Other => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incidents::IncidentKind;

    fn role(step: FixStep) -> Role {
        let commands = (step == FixStep::Try).then(|| TrialCommands {
            keep: "forkful scale web 4".to_owned(),
            undo: "forkful scale web 2".to_owned(),
        });
        Role::of(Some(&FixNote { step, reason: "why".to_owned(), commands }), true)
    }

    fn kind(noticed: Option<Noticed>) -> Option<IncidentKind> {
        match noticed? {
            Noticed::Incident { kind, .. } => Some(kind),
            Noticed::Stuck(..) => None,
        }
    }

    #[test]
    fn a_trial_is_open_until_somebody_decides_about_its_change() {
        let opened = role(FixStep::Try).begin(None, 5);
        assert_eq!(
            opened.as_ref().map(|trial| (trial.since_ms, trial.undo.as_str())),
            Some((5, "forkful scale web 2"))
        );
        let settles = |role: &Role, end| role.end(role.begin(opened.clone(), 9), end).is_none();
        let (revert, keep) = (role(FixStep::Revert), role(FixStep::Keep));
        for (role, end, expected) in [
            (&role(FixStep::Try), End::Done, false),
            (&role(FixStep::Try), End::Partly, false),
            (&role(FixStep::Try), End::Undone, true),
            (&revert, End::Done, true),
            (&revert, End::Undone, false),
            (&revert, End::Partly, false),
            (&keep, End::Done, true),
            (&Role::Settings, End::Done, true),
            (&Role::Settings, End::Undone, false),
            (&Role::Other, End::Done, false),
        ] {
            assert_eq!(settles(role, end), expected, "{role:?} {end:?}");
        }
        assert_eq!(Role::of(None, true), Role::Settings);
        assert_eq!(Role::of(None, false), Role::Other);
    }

    #[test]
    fn a_step_is_noted_when_it_is_done_and_not_before() {
        for (step, expected) in [
            (FixStep::Try, Some(IncidentKind::FixTried)),
            (FixStep::Revert, Some(IncidentKind::FixReverted)),
            (FixStep::Keep, None),
        ] {
            assert_eq!(kind(role(step).noticed(End::Done)), expected);
            for end in [End::Undone, End::Partly] {
                assert_eq!(role(step).noticed(end), None, "{step:?} {end:?}");
            }
        }
        assert_eq!(Role::Settings.noticed(End::Done), None);
    }
}
