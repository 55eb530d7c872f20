//! The steps of `forkful doctor --fix` within commands: which trials of apps are open, and which steps are recorded. What a command
//! means for a trial is decided by `forkful_core::doctor`.

use forkful_api::types::{ErrorCode, ErrorReply, FixNote};
use forkful_core::doctor::{Course, Refusal, Role, check_step, words};
use forkful_core::pages::Page;
use forkful_core::request::Selection;

use super::app::{App, AppId};
use super::apps::Apps;
use super::clock::wall_ms;
use super::commands::refuse;
use super::conversation::Conversations;
use super::jobs::{Job, Part};
use crate::logs::LogService;

/// What a command is for the trial of an app.
#[derive(Debug, Default)]
pub(super) struct TrialPart {
    role: Role,
    pub(super) course: Course,
}

impl TrialPart {
    /// Whether the command changes a trial, or may end it.
    pub(super) fn is_of_trial(&self) -> bool {
        self.role != Role::Other
    }
}

impl Apps {
    /// Whether all these apps may have a step of the doctor.
    pub(super) fn check_trial(&self, selection: &Selection, fix: Option<&FixNote>) -> Result<(), ErrorReply> {
        let Some(fix) = fix else { return Ok(()) };
        selection.keys().filter_map(|app| self.get(app)).try_for_each(|entry| {
            let name = &entry.spec().name;
            check_step(fix, entry.upkeep.trial.as_ref()).map_err(|refusal| refused(name.as_str(), refusal))
        })
    }

    /// A command begins for an app. `gives_settings`: it gives the app settings, in this way.
    pub(super) fn begin_trial_part(
        &mut self,
        app: AppId,
        fix: Option<&FixNote>,
        (course, gives_settings): (Course, bool),
    ) -> TrialPart {
        let Some(entry) = self.get_mut(app) else { return TrialPart::default() };
        let role = Role::of(fix, gives_settings, entry.upkeep.trial.as_ref());
        if role != Role::Other {
            entry.upkeep.trial = role.begin(entry.upkeep.trial.take(), wall_ms());
            self.note_unwritten(app);
        }
        TrialPart { role, course }
    }
}

fn refused(app: &str, refusal: Refusal<'_>) -> ErrorReply {
    let (error, hint) = match refusal {
        Refusal::IsOpen(trial) => (
            format!("{app} has an earlier change of `doctor --fix` that nobody has decided about"),
            format!("undo that change with {}, or keep it with {}", trial.undo, trial.keep),
        ),
        Refusal::IsNotOpen => (
            format!(
                "{app} has no such change of `doctor --fix`: it was not made, or it was kept, undone, or followed by another setting"
            ),
            "`forkful describe` shows the settings of an app, and a change that nobody has decided about"
                .to_owned(),
        ),
    };
    refuse(ErrorCode::Conflict, &error, Some(Page::DoctorFix.hint(hint)))
}

impl Conversations {
    /// A command has ended: the trials that it settles are over, and steps that are done are recorded. Says whether there was a trial.
    pub(super) fn end_trial_parts(&mut self, job: &Job, apps: &mut Apps, logs: &LogService) -> bool {
        let mut are_any = false;
        for (app, Part { failures, trial, .. }) in job.parts().filter(|(_, part)| part.trial.is_of_trial()) {
            are_any = true;
            let end = trial.course.end(!failures.is_empty());
            let Some(entry) = apps.get_mut(app) else { continue };
            entry.upkeep.trial = trial.role.end(entry.upkeep.trial.take(), end);
            if let Some(noticed) = trial.role.noticed(end) {
                self.note(noticed, entry, logs);
            }
            apps.note_unwritten(app);
        }
        are_any
    }
}

impl App {
    /// A change that nobody has decided about, in words.
    pub(super) fn trial_note(&self) -> Option<String> {
        self.upkeep.trial.as_ref().map(words::undecided)
    }
}
