//! The steps of `forkful doctor --fix`: when they are recorded, and when the trial of an app is open.

use forkful_api::incidents::{IncidentKind, IncidentsQuery};
use forkful_api::types::{AppDefinition, FixNote, FixStep, TrialCommands, TrialState};
use forkful_core::scale::ScaleTarget;

use super::reload::{is_replacing, silent, version};
use super::*;
use crate::command::Talk;

/// A step of the trial `a`.
fn note(step: FixStep) -> Option<FixNote> {
    let commands = (step == FixStep::Try).then(|| TrialCommands {
        keep: "forkful scale app 2".to_owned().into(),
        undo: "forkful scale app 1".to_owned().into(),
    });
    Some(FixNote { commands, ..FixNote::new(step, "a", "why") })
}

/// The same step of another trial.
fn of_another(request: ActionRequest) -> ActionRequest {
    let fix = request.fix.map(|fix| FixNote { trial: "b".to_owned(), ..fix });
    ActionRequest { fix, ..request }
}

fn scale(workers: u16, step: FixStep) -> ActionRequest {
    ActionRequest { instances: Some(ScaleTarget::Exactly(workers)), fix: note(step), ..request("app") }
}

fn reload(spec: &AppSpec, step: FixStep) -> ActionRequest {
    ActionRequest { definitions: vec![AppDefinition::from(spec)], fix: note(step), ..request("app") }
}

impl World {
    /// How to undo the change that nobody has decided about.
    fn open(&self, app: AppId) -> Option<&str> {
        self.engine.apps[&app].upkeep.trial.as_ref().map(|trial| trial.undo.as_str())
    }

    fn state(&self, app: AppId) -> Option<TrialState> {
        self.engine.apps[&app].upkeep.trial.as_ref().map(|trial| trial.state)
    }

    async fn refusal(&mut self, verb: Verb, request: ActionRequest) -> String {
        self.ask(verb, request).await.unwrap().unwrap_err().error
    }

    async fn done(&mut self, verb: Verb, request: ActionRequest) -> bool {
        let answer = self.ask(verb, request);
        self.turn_until_answered().await;
        told(answer).await.apps[0].ok
    }

    /// The steps that are recorded.
    async fn steps(&mut self) -> Vec<IncidentKind> {
        let (reply, listed) = tokio::sync::oneshot::channel();
        self.engine.on_command(Command::Talk(Talk::Incidents { query: IncidentsQuery::default(), reply }));
        let listed = tokio::time::timeout(PATIENCE, listed).await.unwrap().unwrap().unwrap();
        let kinds = listed.incidents.into_iter().map(|incident| incident.kind);
        kinds.filter(|kind| matches!(kind, IncidentKind::FixTried | IncidentKind::FixReverted)).collect()
    }
}

#[test]
fn a_change_is_recorded_once_it_is_in_place_and_open_until_it_is_taken_back() {
    locally(async {
        let mut world = World::new();
        let app = world.start("app", SLEEP, 1);
        world.turn_until_answered().await;
        let tried = world.ask(Verb::Scale, scale(2, FixStep::Try));
        assert_eq!(world.open(app), Some("forkful scale app 1"), "a doctor that is killed now leaves it");
        assert_eq!(world.state(app), Some(TrialState::Changing));
        assert_eq!(world.steps().await, []);
        world.turn_until_answered().await;
        assert_eq!(world.state(app), Some(TrialState::Changed));
        assert!(told(tried).await.apps[0].ok);
        assert_eq!(world.steps().await, [IncidentKind::FixTried]);

        let refused = world.ask(Verb::Scale, scale(3, FixStep::Try)).await.unwrap().unwrap_err();
        assert_eq!(
            refused.error,
            "app has an earlier change of `doctor --fix` that nobody has decided about"
        );
        assert!(refused.hint.unwrap().contains("`forkful scale app 1`"));

        let view = world.engine.list().apps.remove(0);
        assert_eq!(view.trial.unwrap().keep.as_str(), "forkful scale app 2");
        assert!(view.notes[0].contains("undo the change with `forkful scale app 1`"), "{:?}", view.notes);
        assert!(world.done(Verb::Scale, scale(1, FixStep::Revert)).await);
        assert_eq!(world.steps().await, [IncidentKind::FixTried, IncidentKind::FixReverted]);
        assert_eq!(world.open(app), None);
        world.close().await;
    });
}

#[test]
fn a_change_that_fails_is_not_recorded() {
    locally(async {
        let mut world = World::new();
        let app = AppId(world.engine.apps.last + 1);
        world.engine.start_now(vec![version("1001", 2)]);
        world.turn_until_answered().await;
        let failing = silent("1002", Some(Duration::from_millis(50)));
        assert!(!world.done(Verb::Reload, reload(&failing, FixStep::Try)).await);
        assert_eq!((world.steps().await, world.open(app)), (Vec::new(), None));
        world.close().await;
    });
}

#[test]
fn who_keeps_the_change_or_gives_other_settings_ends_the_trial() {
    locally(async {
        let mut world = World::new();
        let app = world.start("app", SLEEP, 1);
        world.turn_until_answered().await;
        assert!(world.done(Verb::Scale, scale(2, FixStep::Try)).await);
        let keep = ActionRequest { fix: note(FixStep::Keep), ..request("app") };
        assert!(world.done(Verb::KeepFix, keep).await);
        assert_eq!(world.open(app), None);

        assert!(world.done(Verb::Scale, scale(3, FixStep::Try)).await);
        assert!(world.done(Verb::Restart, request("app")).await);
        assert!(world.open(app).is_some(), "it has the same settings");
        assert!(world.done(Verb::Scale, ActionRequest { fix: None, ..scale(2, FixStep::Try) }).await);
        assert_eq!(world.open(app), None);
        assert_eq!(world.steps().await, [IncidentKind::FixTried, IncidentKind::FixTried]);
        world.close().await;
    });
}

#[test]
fn a_step_of_another_trial_is_refused_and_changes_nothing() {
    locally(async {
        let mut world = World::new();
        let app = world.start("app", SLEEP, 1);
        world.turn_until_answered().await;
        let none = "app has no such change of `doctor --fix`: it was not made, or it was kept, undone, or followed by another \
                    setting";
        assert_eq!(world.refusal(Verb::Scale, scale(3, FixStep::Revert)).await, none);
        assert!(world.done(Verb::Scale, scale(2, FixStep::Try)).await);
        let revert = of_another(scale(1, FixStep::Revert));
        assert_eq!(world.refusal(Verb::Scale, revert).await, none);
        let keep = of_another(ActionRequest { fix: note(FixStep::Keep), ..request("app") });
        assert_eq!(world.refusal(Verb::KeepFix, keep).await, none);
        assert_eq!(
            (world.open(app), world.state(app)),
            (Some("forkful scale app 1"), Some(TrialState::Changed))
        );
        assert_eq!(world.engine.apps[&app].spec().instances, 2);
        assert_eq!(world.steps().await, [IncidentKind::FixTried]);
        world.close().await;
    });
}

#[test]
fn a_change_that_fails_and_that_some_workers_have_got_stays_open() {
    locally(async {
        let mut world = World::new();
        let app = AppId(world.engine.apps.last + 1);
        world.engine.start_now(vec![version("1001", 2)]);
        world.turn_until_answered().await;
        let tried = world.ask(Verb::Reload, reload(&version("1002", 2), FixStep::Try));
        world.turn_until("the second worker is being replaced", |engine| is_replacing(engine, app, 1)).await;
        let stop = world.ask(Verb::Stop, request("1"));
        world.turn_until_answered().await;
        told(stop).await;
        assert!(!told(tried).await.apps[0].ok);
        assert_eq!(world.state(app), Some(TrialState::Changed));
        world.close().await;
    });
}

#[test]
fn a_configuration_that_takes_workers_back_ends_the_trial() {
    locally(async {
        let mut world = World::new();
        let app = AppId(world.engine.apps.last + 1);
        let one = version("1001", 1);
        world.engine.start_now(vec![one.clone()]);
        world.turn_until_answered().await;
        assert!(world.done(Verb::Scale, scale(2, FixStep::Try)).await);
        let code_changed_at_ms = [("app".to_owned(), 1)].into();
        let by_file = ActionRequest { fix: None, code_changed_at_ms, ..reload(&one, FixStep::Keep) };
        assert!(world.done(Verb::Reload, by_file).await);
        assert_eq!((world.engine.apps[&app].spec().instances, world.open(app)), (1, None));
        world.close().await;
    });
}

#[test]
fn settings_that_were_given_end_the_trial_although_workers_fail() {
    locally(async {
        let mut world = World::new();
        let app = AppId(world.engine.apps.last + 1);
        world.engine.start_now(vec![version("1001", 2)]);
        world.turn_until_answered().await;
        assert!(world.done(Verb::Scale, scale(3, FixStep::Try)).await);
        let failing = silent("1002", Some(Duration::from_millis(50)));
        let reload = ActionRequest { fix: None, ..reload(&failing, FixStep::Keep) };
        assert!(!world.done(Verb::Reload, reload.clone()).await);
        assert!(world.open(app).is_some(), "a reload that fails gives nothing");
        assert!(!world.done(Verb::Restart, reload).await);
        assert_eq!(world.open(app), None);
        world.close().await;
    });
}

#[test]
fn settings_that_were_ordered_before_the_trial_do_not_end_it() {
    locally(async {
        let mut world = World::new();
        let app = AppId(world.engine.apps.last + 1);
        world.engine.start_now(vec![version("1001", 2)]);
        world.turn_until_answered().await;
        let earlier = ActionRequest { fix: None, ..reload(&version("1002", 2), FixStep::Keep) };
        let earlier = world.ask(Verb::Reload, earlier);
        let tried = world.ask(Verb::Scale, scale(3, FixStep::Try));
        world.turn_until_answered().await;
        assert!(told(earlier).await.apps[0].ok && told(tried).await.apps[0].ok);
        assert_eq!(world.state(app), Some(TrialState::Changed));
        world.close().await;
    });
}
