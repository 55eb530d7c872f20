//! Trials of `forkful doctor --fix` that are open: the change is in place, or on its way, and nobody has decided about it. A trial
//! ends when its change is kept or taken back, or when another command gives the app settings. It stays open when the doctor is
//! killed; then it says how to undo the change. A step names its trial, so that no doctor settles another one's.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::setting::Setting;
use crate::incidents::{FixNote, FixStep, Noticed};
use crate::slot::Fault;
use crate::supervisor::ReloadResult;

/// A way to settle a trial by hand. As a text, a command is what begins with the program's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum ByHand {
    Command(String),
    /// What to do, where a command would show a secret.
    Words(String),
}

impl ByHand {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Command(text) | Self::Words(text) => text,
        }
    }
}

impl From<String> for ByHand {
    fn from(text: String) -> Self {
        if text.starts_with("forkful ") { Self::Command(text) } else { Self::Words(text) }
    }
}

impl From<ByHand> for String {
    fn from(way: ByHand) -> Self {
        match way {
            ByHand::Command(text) | ByHand::Words(text) => text,
        }
    }
}

/// For a sentence: commands are quoted, words are not.
impl fmt::Display for ByHand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command) => write!(f, "`{command}`"),
            Self::Words(words) => f.write_str(words),
        }
    }
}

/// How to settle a trial by hand: by commands, or in words where a command would show a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TrialCommands {
    /// Makes the change again, which keeps it; at most 131072 bytes.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub keep: ByHand,
    /// Gives the app the earlier setting; at most 131072 bytes.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub undo: ByHand,
}

impl TrialCommands {
    /// Those of a change of the app with this name.
    pub fn new(app: &str, new: &Setting, old: &Setting) -> Self {
        let is_secret = new.is_secret() || old.is_secret();
        let of = |setting: &Setting, in_words: fn(&Setting, &str) -> ByHand| {
            if is_secret { in_words(setting, app) } else { ByHand::Command(setting.command(app)) }
        };
        Self { keep: of(new, Setting::change_in_words), undo: of(old, Setting::earlier_in_words) }
    }
}

/// A trial that is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OpenTrial {
    /// Its name, by which `revert` and `keep` settle it; empty if a daemon that gave no names has written of it.
    #[serde(default)]
    pub id: String,
    /// When the change was ordered, in milliseconds since 1970.
    pub since_ms: u64,
    /// How far it has come.
    #[serde(default)]
    pub state: TrialState,
    /// The command that keeps the change; what to do in words, if the command would show a secret.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub keep: ByHand,
    /// The command that undoes the change; what to do in words, if the command would show a secret.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub undo: ByHand,
}

/// How far a trial has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TrialState {
    /// The change is being made.
    Changing,
    /// The change is in place, in some workers at least.
    #[default]
    Changed,
    /// The change is being taken back.
    Reverting,
    /// The daemon ended while the change was being made or taken back: how far that came is unknown.
    CutOff,
}

impl OpenTrial {
    /// The trial, of which another daemon has written. The commands of that daemon have no end here.
    #[must_use]
    pub fn taken_over(self) -> Self {
        let state = match self.state {
            TrialState::Changed => TrialState::Changed,
            TrialState::Changing | TrialState::Reverting | TrialState::CutOff => TrialState::CutOff,
        };
        Self { state, ..self }
    }
}

/// Why a step of the doctor is refused for an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal<'a> {
    /// It would begin a trial, and this one is open: an app has one at a time.
    IsOpen(&'a OpenTrial),
    /// It would settle a trial that is not open.
    IsNotOpen,
}

/// Whether the app whose open trial is given may have this step.
///
/// # Errors
/// Why not.
pub fn check<'a>(step: &FixNote, open: Option<&'a OpenTrial>) -> Result<(), Refusal<'a>> {
    match (step.step, open) {
        (FixStep::Try, None) => Ok(()),
        (FixStep::Try, Some(open)) => Err(Refusal::IsOpen(open)),
        (FixStep::Revert | FixStep::Keep, Some(open)) if open.id == step.trial => Ok(()),
        (FixStep::Revert | FixStep::Keep, _) => Err(Refusal::IsNotOpen),
    }
}

/// What a command is for the trial of an app.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Role {
    /// A step of `forkful doctor --fix`.
    Fix(FixNote),
    /// It gives the app settings, and may end the trial of this name, which was open when it began.
    Settings(String),
    #[default]
    Other,
}

/// How a command has ended for an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Done,
    /// It failed in workers, and the app has the new settings.
    Given,
    /// It failed, and the app has the settings that it had, but workers may have the new ones.
    Partly,
    /// It failed, and the app and its workers have the settings that they had.
    Undone,
}

/// How a command gives an app settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Course {
    /// When it begins.
    #[default]
    AtOnce,
    /// By a reload, which takes them back when it fails; and how the reload ended. It has no end if it was dropped or refused.
    ByReload(Option<End>),
}

impl Course {
    /// The reload has ended.
    pub fn reloaded(&mut self, result: &ReloadResult) {
        let end = match &result.failure {
            None => End::Done,
            // A command that takes the app over decides about its workers.
            Some(failure) if result.replaced.is_empty() => match failure.fault {
                Fault::Cancelled { .. } => End::Undone,
                _ if failure.old_serves => End::Undone,
                _ => End::Partly,
            },
            Some(_) => End::Partly,
        };
        if let Self::ByReload(ended) = self {
            *ended = Some(end);
        }
    }

    /// How the command has ended. `failed`: in a worker at least.
    pub fn end(self, failed: bool) -> End {
        match (self, failed) {
            (Self::AtOnce, false) => End::Done,
            // After its reload, a command gives the app the number of workers.
            (Self::AtOnce | Self::ByReload(Some(End::Done)), true) => End::Given,
            (Self::ByReload(None), _) => End::Undone,
            (Self::ByReload(Some(end)), _) => end,
        }
    }
}

impl Role {
    /// What a command is that may have a note of the doctor, and that may give the app settings. `open`: the trial of the app.
    pub fn of(fix: Option<&FixNote>, gives_settings: bool, open: Option<&OpenTrial>) -> Self {
        match (fix, open) {
            (Some(fix), _) => Self::Fix(fix.clone()),
            (None, Some(open)) if gives_settings => Self::Settings(open.id.clone()),
            (None, _) => Self::Other,
        }
    }

    /// The trial of the app when the command has begun.
    #[must_use]
    pub fn begin(&self, open: Option<OpenTrial>, now_ms: u64) -> Option<OpenTrial> {
        match (self, open) {
            (Self::Fix(FixNote { step: FixStep::Try, trial, commands: Some(commands), .. }), _) => {
                let (id, TrialCommands { keep, undo }) = (trial.clone(), commands.clone());
                Some(OpenTrial { id, since_ms: now_ms, state: TrialState::Changing, keep, undo })
            }
            (Self::Fix(FixNote { step: FixStep::Revert, trial, .. }), Some(open)) if open.id == *trial => {
                Some(OpenTrial { state: TrialState::Reverting, ..open })
            }
            (Self::Fix(_) | Self::Settings(_) | Self::Other, open) => open,
        }
    }

    /// The trial of the app when the command has ended.
    #[must_use]
    pub fn end(&self, open: Option<OpenTrial>, end: End) -> Option<OpenTrial> {
        let open = open?;
        match self {
            Self::Fix(fix) if fix.trial == open.id => Self::end_of_step(fix.step, open, end),
            Self::Settings(trial) if *trial == open.id && matches!(end, End::Done | End::Given) => None,
            Self::Fix(_) | Self::Settings(_) | Self::Other => Some(open),
        }
    }

    fn end_of_step(step: FixStep, open: OpenTrial, end: End) -> Option<OpenTrial> {
        let state = match (step, end) {
            (FixStep::Try, End::Undone) | (FixStep::Revert | FixStep::Keep, End::Done) => return None,
            // It may be that the change is being taken back already.
            (FixStep::Try, _) if open.state != TrialState::Changing => open.state,
            (FixStep::Try | FixStep::Revert, _) => TrialState::Changed,
            (FixStep::Keep, _) => open.state,
        };
        Some(OpenTrial { state, ..open })
    }

    /// What is to be noted when the command has ended: a step that is done.
    pub fn noticed(&self, end: End) -> Option<Noticed> {
        match self {
            Self::Fix(note) if end == End::Done => note.noticed(),
            Self::Fix(_) | Self::Settings(_) | Self::Other => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incidents::IncidentKind;
    use crate::slot::{Exit, Verb};
    use crate::supervisor::ReloadFailure;

    fn step(step: FixStep, trial: &str) -> FixNote {
        let commands = (step == FixStep::Try).then(|| TrialCommands {
            keep: "forkful scale web 4".to_owned().into(),
            undo: "forkful scale web 2".to_owned().into(),
        });
        FixNote { commands, ..FixNote::new(step, trial, "why") }
    }

    fn role(of: FixStep) -> Role {
        Role::of(Some(&step(of, "a")), true, None)
    }

    fn open(id: &str) -> OpenTrial {
        Role::of(Some(&step(FixStep::Try, id)), true, None).begin(None, 5).unwrap()
    }

    fn settings() -> Role {
        Role::of(None, true, Some(&open("a")))
    }

    fn kind(noticed: Option<Noticed>) -> Option<IncidentKind> {
        match noticed? {
            Noticed::Incident { kind, .. } => Some(kind),
            Noticed::Stuck(..) => None,
        }
    }

    #[test]
    fn a_trial_is_open_until_somebody_decides_about_its_change() {
        let opened = open("a");
        assert_eq!((opened.since_ms, opened.undo.as_str()), (5, "forkful scale web 2"));
        let (tries, revert, keep) = (role(FixStep::Try), role(FixStep::Revert), role(FixStep::Keep));
        let (settings, other) = (settings(), Role::of(None, false, Some(&open("a"))));
        for (role, end, expected) in [
            (&tries, End::Done, false),
            (&tries, End::Given, false),
            (&tries, End::Partly, false),
            (&tries, End::Undone, true),
            (&revert, End::Done, true),
            (&revert, End::Given, false),
            (&revert, End::Partly, false),
            (&revert, End::Undone, false),
            (&keep, End::Done, true),
            (&settings, End::Done, true),
            (&settings, End::Given, true),
            (&settings, End::Partly, false),
            (&settings, End::Undone, false),
            (&other, End::Done, false),
        ] {
            assert_eq!(role.end(role.begin(Some(open("a")), 9), end).is_none(), expected, "{role:?} {end:?}");
        }
        assert_eq!(Role::of(None, true, None), Role::Other, "it found no trial, and ends none");
    }

    #[test]
    fn a_command_settles_no_trial_but_its_own() {
        let other = Some(open("b"));
        for role in [role(FixStep::Try), role(FixStep::Revert), role(FixStep::Keep), settings()] {
            for end in [End::Done, End::Given, End::Partly, End::Undone] {
                assert_eq!(role.end(other.clone(), end), other, "{role:?} {end:?}");
            }
        }
        assert_eq!(role(FixStep::Revert).begin(other.clone(), 9), other);
    }

    #[test]
    fn a_step_is_refused_unless_it_begins_a_trial_alone_or_settles_the_one_that_is_open() {
        let (mine, other) = (open("a"), open("b"));
        let not = Err(Refusal::IsNotOpen);
        for (of, open, expected) in [
            (FixStep::Try, None, Ok(())),
            (FixStep::Try, Some(&mine), Err(Refusal::IsOpen(&mine))),
            (FixStep::Try, Some(&other), Err(Refusal::IsOpen(&other))),
            (FixStep::Revert, None, not),
            (FixStep::Revert, Some(&mine), Ok(())),
            (FixStep::Revert, Some(&other), not),
            (FixStep::Keep, None, not),
            (FixStep::Keep, Some(&mine), Ok(())),
            (FixStep::Keep, Some(&other), not),
        ] {
            assert_eq!(check(&step(of, "a"), open), expected, "{of:?} {open:?}");
        }
    }

    #[test]
    fn a_trial_knows_how_far_it_has_come() {
        let (tries, revert, keep) = (role(FixStep::Try), role(FixStep::Revert), role(FixStep::Keep));
        let state = |trial: &Option<OpenTrial>| trial.as_ref().map(|trial| trial.state);
        let changing = Some(open("a"));
        assert_eq!(state(&changing), Some(TrialState::Changing));
        let reverting = revert.begin(changing.clone(), 9);
        assert_eq!(state(&reverting), Some(TrialState::Reverting));
        assert_eq!(state(&keep.begin(changing.clone(), 9)), Some(TrialState::Changing));
        for (role, before, end, expected) in [
            (&tries, &changing, End::Done, TrialState::Changed),
            (&tries, &changing, End::Partly, TrialState::Changed),
            (&tries, &reverting, End::Done, TrialState::Reverting),
            (&revert, &reverting, End::Partly, TrialState::Changed),
            (&revert, &reverting, End::Undone, TrialState::Changed),
            (&keep, &reverting, End::Undone, TrialState::Reverting),
        ] {
            assert_eq!(state(&role.end(before.clone(), end)), Some(expected), "{role:?} {before:?} {end:?}");
        }
    }

    #[test]
    fn a_step_that_another_daemon_began_is_cut_off() {
        for (before, expected) in [
            (TrialState::Changing, TrialState::CutOff),
            (TrialState::Changed, TrialState::Changed),
            (TrialState::Reverting, TrialState::CutOff),
            (TrialState::CutOff, TrialState::CutOff),
        ] {
            assert_eq!(OpenTrial { state: before, ..open("a") }.taken_over().state, expected);
        }
    }

    #[test]
    fn what_a_command_leaves_depends_on_how_it_gives_settings() {
        let exited = Fault::Exited(Exit::Code(1));
        let cancelled = Fault::Cancelled { by: Verb::Stop };
        let reloaded = |replaced: &[u16], failure: Option<(&Fault, bool)>| {
            let failure = failure.map(|(fault, old_serves)| ReloadFailure {
                slot: 1,
                fault: fault.clone(),
                listen_fault: None,
                old_serves,
            });
            let result = ReloadResult { rolling: true, replaced: replaced.to_vec(), total: 2, failure };
            let mut course = Course::ByReload(None);
            course.reloaded(&result);
            course
        };
        for (course, failed, expected) in [
            (Course::AtOnce, false, End::Done),
            (Course::AtOnce, true, End::Given),
            // Its client had gone before it began, or too many reloads waited.
            (Course::ByReload(None), false, End::Undone),
            (Course::ByReload(None), true, End::Undone),
            (reloaded(&[0, 1], None), false, End::Done),
            // A worker of the new number failed afterwards.
            (reloaded(&[0, 1], None), true, End::Given),
            (reloaded(&[], Some((&exited, true))), true, End::Undone),
            (reloaded(&[], Some((&exited, false))), true, End::Partly),
            (reloaded(&[], Some((&cancelled, false))), true, End::Undone),
            (reloaded(&[0], Some((&exited, true))), true, End::Partly),
            (reloaded(&[0], Some((&cancelled, false))), true, End::Partly),
        ] {
            assert_eq!(course.end(failed), expected, "{course:?} {failed}");
        }
        let mut at_once = Course::AtOnce;
        at_once.reloaded(&ReloadResult { rolling: true, replaced: Vec::new(), total: 1, failure: None });
        assert_eq!(at_once, Course::AtOnce);
    }

    #[test]
    fn a_step_is_noted_when_it_is_done_and_not_before() {
        for (step, expected) in [
            (FixStep::Try, Some(IncidentKind::FixTried)),
            (FixStep::Revert, Some(IncidentKind::FixReverted)),
            (FixStep::Keep, None),
        ] {
            assert_eq!(kind(role(step).noticed(End::Done)), expected);
            for end in [End::Given, End::Partly, End::Undone] {
                assert_eq!(role(step).noticed(end), None, "{step:?} {end:?}");
            }
        }
        assert_eq!(settings().noticed(End::Done), None);
    }
}
