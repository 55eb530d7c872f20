//! The steps of `forkful doctor --fix` within commands: which trials of apps are open, and which steps are recorded. What a command
//! means for a trial is decided by `forkful_core::doctor`.

use forkful_api::types::{ErrorCode, ErrorReply, FixNote};
use forkful_core::doctor::{End, Role, words};
use forkful_core::pages::Page;

use super::app::{App, AppId};
use super::apps::Apps;
use super::clock::wall_ms;
use super::commands::refuse;
use super::conversation::Conversations;
use super::jobs::{Job, Part};
use super::targets::Selection;
use crate::command::Verb;
use crate::logs::LogService;

/// What a command is for the trial of an app.
#[derive(Debug, Default)]
pub(super) struct TrialPart {
    role: Role,
    /// It reloads the app, and a reload that fails leaves the app's definition as it was.
    reloads: bool,
    /// The app was reloaded.
    pub(super) reloaded: bool,
}

impl TrialPart {
    fn end(&self, failed: bool) -> End {
        match (failed, self.reloads, self.reloaded) {
            (false, false, _) | (false, true, true) => End::Done,
            // Without a failure, it was dropped before it began.
            (_, true, _) => End::Undone,
            (true, false, _) => End::Partly,
        }
    }
}

impl Apps {
    /// Whether a command may begin a trial: an app has one at a time.
    pub(super) fn check_trial(&self, selection: &Selection, fix: Option<&FixNote>) -> Result<(), ErrorReply> {
        if !Role::of(fix, false).is_trial() {
            return Ok(());
        }
        let open = selection.keys().find_map(|app| {
            let entry = self.get(app)?;
            Some((entry.spec().name.clone(), entry.upkeep.trial.as_ref()?))
        });
        let Some((name, trial)) = open else { return Ok(()) };
        let error = format!("{name} has an earlier change of `doctor --fix` that nobody has decided about");
        let hint = format!("undo that change with `{}`, or keep it with `{}`", trial.undo, trial.keep);
        Err(refuse(ErrorCode::Conflict, &error, Some(Page::DoctorFix.hint(hint))))
    }

    /// A command begins for an app.
    pub(super) fn begin_trial_part(
        &mut self,
        app: AppId,
        fix: Option<&FixNote>,
        (verb, gives_settings): (Verb, bool),
    ) -> TrialPart {
        let role = Role::of(fix, gives_settings);
        if let Some(entry) = self.get_mut(app).filter(|_| role != Role::Other) {
            entry.upkeep.trial = role.begin(entry.upkeep.trial.take(), wall_ms());
            self.note_unwritten(app);
        }
        TrialPart { role, reloads: verb == Verb::Reload, reloaded: false }
    }
}

impl Conversations {
    /// A command has ended: the trials that it settles are over, and steps that are done are recorded.
    pub(super) fn end_trial_parts(&mut self, job: &Job, apps: &mut Apps, logs: &LogService) {
        for (app, Part { failures, trial, .. }) in
            job.parts().filter(|(_, part)| part.trial.role != Role::Other)
        {
            let end = trial.end(!failures.is_empty());
            let Some(entry) = apps.get_mut(app) else { continue };
            entry.upkeep.trial = trial.role.end(entry.upkeep.trial.take(), end);
            if let Some(noticed) = trial.role.noticed(end) {
                self.note(noticed, entry, logs);
            }
            apps.note_unwritten(app);
        }
    }
}

impl App {
    /// A change that nobody has decided about, in words.
    pub(super) fn trial_note(&self) -> Option<String> {
        self.upkeep.trial.as_ref().map(|trial| words::undecided(trial, wall_ms()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_that_failed_or_was_dropped_has_changed_nothing() {
        let part = |reloads, reloaded| TrialPart { role: Role::Settings, reloads, reloaded };
        assert_eq!(part(true, true).end(false), End::Done);
        assert_eq!(part(true, true).end(true), End::Undone);
        assert_eq!(part(true, false).end(false), End::Undone);
        assert_eq!(part(false, false).end(false), End::Done);
        assert_eq!(part(false, false).end(true), End::Partly);
    }
}
