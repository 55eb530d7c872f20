//! `forkful apply`: what makes the apps of a daemon what a configuration file says, in which order, and how it is taken
//! back when a new version does not become ready.
//!
//! Apps that are missing start first, then apps with another definition are reloaded one after the other, and only when
//! all of that has succeeded the apps go that the file does not name. A failure ends the plan: what was done is undone
//! in the opposite order. Nothing that was removed has to be brought back, for removals are the last steps.

mod claims;
mod planning;

use serde::{Deserialize, Serialize};

use crate::spec::{AppSpec, RunningSince, is_same, may_stay};

pub use claims::{Claims, Conflict, Doing};
pub use planning::{Planned, plan};

/// What has to be done to one app, in the order of a plan's steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Change {
    /// It does not exist, or nothing of it runs: it starts.
    Start,
    /// Its definition or its code has changed: its workers are replaced.
    Reload,
    /// Only the number of its workers has changed.
    Scale,
    Keep,
    /// The file does not name it: it goes.
    Remove,
}

/// An app that exists.
#[derive(Debug, Clone, Copy)]
pub struct Existing<'a> {
    pub spec: &'a AppSpec,
    /// Whether nothing of it runs and nothing is planned.
    pub is_at_rest: bool,
    /// When its processes were started, and its code last changed.
    pub since: RunningSince,
}

/// What has to be done for an app to become what the file says.
pub fn change(existing: Option<Existing<'_>>, wanted: &AppSpec) -> Change {
    match existing {
        // The file does not start it: it rests, or waits for a time of `cron_restart`.
        Some(Existing { spec, is_at_rest: true, .. })
            if !wanted.autostart && is_same(spec, wanted) && spec.instances == wanted.instances =>
        {
            Change::Keep
        }
        Some(Existing { spec, is_at_rest: false, since }) if may_stay(spec, wanted, since) => {
            if spec.instances == wanted.instances_from(spec.instances) { Change::Keep } else { Change::Scale }
        }
        Some(Existing { is_at_rest: false, .. }) => Change::Reload,
        Some(Existing { is_at_rest: true, .. }) | None => Change::Start,
    }
}

/// One app of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step<T> {
    /// Which app, in the driver's terms.
    pub app: T,
    /// What is done to it.
    pub change: Change,
    /// Whether it existed before.
    pub existed: bool,
}

/// What the driver is to do next; its outcome goes to [`Apply::done`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action<T> {
    /// Carry out a step.
    Do(Step<T>),
    /// Make an app what it was before the plan: an app that did not exist is deleted, any other app gets its previous
    /// definition back.
    Undo(Step<T>),
}

/// Which definition of an app is meant: `Wanted` is what the file says, `Before` is what the app had when the plan began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    Wanted,
    Before,
}

/// What an action is as a command for its app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The app is made, or what exists of it is started as the file says.
    Start,
    Stop,
    Delete,
    /// It gets as many workers as this definition says.
    Scale(Version),
    /// Its workers are replaced by those of this definition.
    Reload(Version),
}

impl<T> Action<T> {
    pub fn order(&self) -> Order {
        match self {
            Self::Do(step) => match step.change {
                Change::Start => Order::Start,
                Change::Scale => Order::Scale(Version::Wanted),
                Change::Reload | Change::Keep => Order::Reload(Version::Wanted),
                Change::Remove => Order::Delete,
            },
            Self::Undo(step) => match step.change {
                // An app that existed did not run before.
                Change::Start if step.existed => Order::Stop,
                Change::Start | Change::Remove => Order::Delete,
                Change::Scale => Order::Scale(Version::Before),
                Change::Reload | Change::Keep => Order::Reload(Version::Before),
            },
        }
    }
}

/// What became of the command of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Became {
    pub is_done: bool,
    /// Some of the app's workers are new.
    pub replaced_some: bool,
    /// In fork mode the old process of a worker has ended before the new one fails.
    pub forks: bool,
}

impl Became {
    /// How a step went.
    pub fn outcome(self, change: Change) -> Outcome {
        let replaces = matches!(change, Change::Reload | Change::Scale);
        if self.is_done {
            Outcome::Done
        } else if replaces && (self.replaced_some || self.forks) {
            Outcome::Partial
        } else {
            Outcome::Unchanged
        }
    }
}

/// A plan under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apply<T> {
    steps: Vec<Step<T>>,
    progress: Progress,
    /// Another daemon may have carried out the action under way.
    is_again: bool,
}

/// How far a plan is; steps are named by their indices.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Progress {
    next: usize,
    /// The step under way, and whether it is undone.
    current: Option<(usize, bool)>,
    /// What has to be undone if a later step fails.
    done: Vec<usize>,
    has_failed: bool,
}

/// How a step went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is as it should be.
    Done,
    /// It is not, and the app is what it was before.
    Unchanged,
    /// It is not, and some of its workers are new.
    Partial,
}

impl<T: Clone> Apply<T> {
    /// A plan of these steps, in which each app comes after those that it depends on.
    pub fn new(steps: impl IntoIterator<Item = Step<T>>) -> Self {
        let mut steps: Vec<Step<T>> = steps.into_iter().collect();
        // The sort is stable, so that the order of apps within one kind of change stays.
        steps.sort_by_key(|step| step.change);
        Self { steps, progress: Progress::default(), is_again: false }
    }

    /// A plan that another daemon had begun. The action that was under way then comes again.
    pub fn resume(steps: Vec<Step<T>>, progress: Progress) -> Self {
        let is_again = progress.current.is_some();
        Self { steps, progress, is_again }
    }

    /// Whether another daemon may have carried out the action under way, in part or as a whole.
    pub fn is_again(&self) -> bool {
        self.is_again
    }

    /// How far it is.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// All steps in the order in which they are carried out, with the apps that stay as they are.
    pub fn steps(&self) -> &[Step<T>] {
        &self.steps
    }

    /// The action under way, or else the next action. `None` at the end of the plan.
    pub fn advance(&mut self) -> Option<Action<T>> {
        if self.progress.current.is_none() {
            self.progress.current = if self.progress.has_failed {
                self.progress.done.pop().map(|at| (at, true))
            } else {
                self.next_step().map(|at| (at, false))
            };
        }
        let (at, is_undone) = self.progress.current?;
        let step = self.steps.get(at)?.clone();
        Some(if is_undone { Action::Undo(step) } else { Action::Do(step) })
    }

    /// The next step that changes its app.
    fn next_step(&mut self) -> Option<usize> {
        let rest = self.steps.iter().enumerate().skip(self.progress.next);
        let (at, _) = rest.into_iter().find(|(_, step)| step.change != Change::Keep)?;
        self.progress.next = at + 1;
        Some(at)
    }

    /// How the action went that [`Self::advance`] gave.
    pub fn done(&mut self, outcome: Outcome) {
        let is_again = std::mem::take(&mut self.is_again);
        let Some((at, false)) = self.progress.current.take() else { return };
        let Some(step) = self.steps.get(at) else { return };
        let is_touched = match outcome {
            Outcome::Done | Outcome::Partial => true,
            // An app that was to be made exists, even where none of its workers runs. One that another daemon had begun to change may
            // be what the file says, although the second try has failed.
            Outcome::Unchanged => !step.existed || is_again,
        };
        self.progress.has_failed |= outcome != Outcome::Done;
        if is_touched {
            self.progress.done.push(at);
        }
    }

    /// Whether a step failed, so that everything was undone.
    pub fn has_failed(&self) -> bool {
        self.progress.has_failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::AppName;

    fn step(app: &'static str, change: Change) -> Step<&'static str> {
        Step { app, change, existed: change != Change::Start }
    }

    /// The names of all actions of a plan in which the named steps fail, undone ones with a minus.
    fn run(steps: &[Step<&'static str>], fails: &[(&str, Outcome)]) -> (String, bool) {
        let mut plan = Apply::new(steps.iter().cloned());
        let mut told = Vec::new();
        while let Some(action) = plan.advance() {
            let outcome = match &action {
                Action::Do(step) => {
                    told.push(step.app.to_owned());
                    fails
                        .iter()
                        .find(|(app, _)| *app == step.app)
                        .map_or(Outcome::Done, |(_, outcome)| *outcome)
                }
                Action::Undo(step) => {
                    told.push(format!("-{}", step.app));
                    Outcome::Done
                }
            };
            plan.done(outcome);
        }
        (told.join(" "), plan.has_failed())
    }

    fn steps() -> Vec<Step<&'static str>> {
        vec![
            step("gone", Change::Remove),
            step("same", Change::Keep),
            step("more", Change::Scale),
            step("b", Change::Reload),
            step("a", Change::Reload),
            step("new", Change::Start),
        ]
    }

    #[test]
    fn what_is_missing_comes_first_and_what_goes_comes_last() {
        assert_eq!(run(&steps(), &[]), ("new b a more gone".to_owned(), false));
    }

    #[test]
    fn a_plan_tells_its_steps_in_their_order_with_what_stays() {
        let plan = Apply::new(steps());
        let told: Vec<_> = plan.steps().iter().map(|step| step.app).collect();
        assert_eq!(told, ["new", "b", "a", "more", "same", "gone"]);
        assert_eq!(Apply::new([step("same", Change::Keep)]).advance(), None);
    }

    #[test]
    fn a_failure_undoes_what_was_done_and_removes_nothing() {
        assert_eq!(run(&steps(), &[("a", Outcome::Unchanged)]), ("new b a -b -new".to_owned(), true));
        assert_eq!(run(&steps(), &[("a", Outcome::Partial)]), ("new b a -a -b -new".to_owned(), true));
        assert_eq!(
            run(&steps(), &[("more", Outcome::Unchanged)]),
            ("new b a more -a -b -new".to_owned(), true)
        );
    }

    #[test]
    fn an_app_that_its_file_does_not_start_stays_at_rest_until_the_file_changes() {
        let mut app = AppSpec::new(AppName::new("job").unwrap());
        app.autostart = false;
        let since = RunningSince { oldest_start_ms: None, code_changed_ms: Some(7) };
        let rests = |wanted: &AppSpec| change(Some(Existing { spec: &app, is_at_rest: true, since }), wanted);
        assert_eq!(rests(&app), Change::Keep);
        assert_eq!(rests(&AppSpec { autostart: true, ..app.clone() }), Change::Start);
        assert_eq!(rests(&AppSpec { instances: 2, ..app.clone() }), Change::Start);
        assert_eq!(rests(&AppSpec { pid_file: Some("job.pid".into()), ..app.clone() }), Change::Start);
    }

    #[test]
    fn each_action_is_one_command_for_its_app() {
        let order = |step: Step<&'static str>| (Action::Do(step.clone()).order(), Action::Undo(step).order());
        let table = [
            (step("new", Change::Start), Order::Start, Order::Delete),
            (Step { existed: true, ..step("rests", Change::Start) }, Order::Start, Order::Stop),
            (step("more", Change::Scale), Order::Scale(Version::Wanted), Order::Scale(Version::Before)),
            (step("a", Change::Reload), Order::Reload(Version::Wanted), Order::Reload(Version::Before)),
            (step("gone", Change::Remove), Order::Delete, Order::Delete),
        ];
        for (step, done, undone) in table {
            assert_eq!(order(step.clone()), (done, undone), "{step:?}");
        }
    }

    #[test]
    fn a_failure_that_left_new_workers_is_a_partial_one() {
        let failed = Became { is_done: false, replaced_some: false, forks: false };
        let table = [
            (Became { is_done: true, ..failed }, Change::Reload, Outcome::Done),
            (failed, Change::Reload, Outcome::Unchanged),
            (Became { replaced_some: true, ..failed }, Change::Reload, Outcome::Partial),
            (Became { forks: true, ..failed }, Change::Scale, Outcome::Partial),
            (Became { forks: true, replaced_some: true, ..failed }, Change::Start, Outcome::Unchanged),
        ];
        for (became, change, outcome) in table {
            assert_eq!(became.outcome(change), outcome, "{became:?} {change:?}");
        }
    }

    #[test]
    fn an_app_that_could_not_be_started_is_not_left_behind() {
        assert_eq!(run(&steps(), &[("new", Outcome::Unchanged)]), ("new -new".to_owned(), true));
        let rests = Step { existed: true, ..step("rests", Change::Start) };
        assert_eq!(run(&[rests], &[("rests", Outcome::Unchanged)]), ("rests".to_owned(), true));
    }

    #[test]
    fn another_daemon_goes_on_with_the_action_that_was_under_way() {
        // The same plan, each action of which another daemon begins again before its outcome is known.
        let interrupted = |fails: &str| {
            let (mut plan, mut told) = (Apply::new(steps()), Vec::new());
            while let Some(before) = plan.advance() {
                let progress = serde_json::to_string(plan.progress()).unwrap();
                plan = Apply::resume(plan.steps().to_vec(), serde_json::from_str(&progress).unwrap());
                assert_eq!(plan.advance().as_ref(), Some(&before));
                let (Action::Do(step) | Action::Undo(step)) = &before;
                let is_undone = matches!(before, Action::Undo(_));
                told.push(format!("{}{}", if is_undone { "-" } else { "" }, step.app));
                plan.done(if step.app == fails { Outcome::Unchanged } else { Outcome::Done });
            }
            (told.join(" "), plan.has_failed())
        };
        assert_eq!(interrupted("none"), run(&steps(), &[]));
        // What may have been changed before is taken back.
        assert_eq!(interrupted("a"), run(&steps(), &[("a", Outcome::Partial)]));
    }

    #[test]
    fn a_change_that_may_have_been_carried_out_before_is_taken_back_when_it_fails() {
        let mut plan = Apply::new([step("a", Change::Reload)]);
        plan.advance();
        let mut plan = Apply::resume(plan.steps().to_vec(), plan.progress().clone());
        assert!(matches!(plan.advance(), Some(Action::Do(_))));
        plan.done(Outcome::Unchanged);
        assert!(matches!(plan.advance(), Some(Action::Undo(step)) if step.app == "a"));
        plan.done(Outcome::Done);
        assert_eq!(plan.advance(), None);
    }

    #[test]
    fn progress_that_does_not_fit_its_steps_ends_the_plan() {
        let progress = Progress { next: 9, current: Some((9, false)), done: vec![7], has_failed: false };
        let mut plan = Apply::resume(steps(), progress);
        assert_eq!(plan.advance(), None);
        plan.done(Outcome::Done);
        assert_eq!(plan.advance(), None);
    }

    #[test]
    fn a_failure_while_undoing_does_not_end_the_undoing() {
        let mut plan = Apply::new(steps());
        plan.advance();
        plan.done(Outcome::Done);
        plan.advance();
        plan.done(Outcome::Partial);
        for app in ["b", "new"] {
            assert!(matches!(plan.advance(), Some(Action::Undo(step)) if step.app == app));
            plan.done(Outcome::Unchanged);
        }
        assert_eq!(plan.advance(), None);
    }
}
