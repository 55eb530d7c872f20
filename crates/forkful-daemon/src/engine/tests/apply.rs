//! Configurations that are applied: what is refused before anything is done, and two at once.

use forkful_api::apply::{ApplyReply, ApplyRequest};
use forkful_api::types::{AppDefinition, ErrorReply};
use forkful_core::spec::AppName;

use super::*;

type Applying = tokio::sync::oneshot::Receiver<Result<ApplyReply, ErrorReply>>;

impl World {
    pub(super) fn apply(&mut self, specs: &[AppSpec], prune: bool) -> Applying {
        let (reply, answer) = tokio::sync::oneshot::channel();
        let apps = specs.iter().map(AppDefinition::from).collect();
        let code_changed_at_ms = specs.iter().map(|spec| (spec.name.to_string(), 1)).collect();
        let request = ApplyRequest {
            apps,
            prune,
            dry_run: false,
            update_env: false,
            code_changed_at_ms,
            deployment: None,
        };
        self.engine.on_command(Command::Apply { request, reply });
        answer
    }

    async fn turn_until_applied(&mut self, mut answer: Applying) -> Result<ApplyReply, ErrorReply> {
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < PATIENCE, "the apply never ends");
            self.turn().await;
            if let Ok(answer) = answer.try_recv() {
                return answer;
            }
        }
    }
}

fn needing(name: &str, needs: &[&str]) -> AppSpec {
    let depends_on = needs.iter().map(|name| AppName::new(*name).unwrap()).collect();
    AppSpec { depends_on, ..spec(name, SLEEP, 1) }
}

/// A request with definitions and without targets.
fn defining(specs: &[AppSpec]) -> ActionRequest {
    let definitions = specs.iter().map(AppDefinition::from).collect();
    ActionRequest { targets: Vec::new(), definitions, ..request("all") }
}

#[test]
fn an_existing_app_cannot_come_to_depend_on_an_app_that_does_not_exist() {
    locally(async {
        let mut world = World::new();
        let app = world.start("web", SLEEP, 1);
        world.turn_until_answered().await;
        let applying = world.apply(&[needing("web", &["nobody"])], false);
        let refusal = world.turn_until_applied(applying).await.unwrap_err();
        assert_eq!(refusal.error, "`web` depends on `nobody`, and there is no such app");
        assert_eq!(world.engine.apps[&app].spec().depends_on, []);
        // Nor may existing apps come to wait for each other.
        let circle = [needing("web", &["api"]), needing("api", &["web"])];
        let applying = world.apply(&circle, false);
        let refusal = world.turn_until_applied(applying).await.unwrap_err();
        assert!(refusal.error.contains("wait for each other"), "{refusal:?}");
        world.close().await;
    });
}

#[test]
fn an_app_that_others_depend_on_is_not_pruned() {
    locally(async {
        let mut world = World::new();
        world.engine.start_now(vec![spec("db", SLEEP, 1), needing("web", &["db"])]);
        world.turn_until_answered().await;
        let file = [needing("web", &["db"])];
        let applying = world.apply(&file, false);
        assert!(world.turn_until_applied(applying).await.unwrap().apps.is_empty(), "nothing is deleted");
        let applying = world.apply(&file, true);
        let refusal = world.turn_until_applied(applying).await.unwrap_err();
        assert_eq!(refusal.error, "`web` depends on `db`, which would be deleted");
        let hint = "delete `web` too, or take `db` out of its `depends_on` first";
        assert_eq!(refusal.hint.as_deref(), Some(hint));
        assert_eq!(world.engine.apps.len(), 2);
        // Both are deleted, the app that depends on the other one first.
        let applying = world.apply(&[spec("new", SLEEP, 1)], true);
        let names =
            world.turn_until_applied(applying).await.unwrap().apps.into_iter().map(|app| (app.name, app.ok));
        let expected = ["new", "web", "db"].map(|name| (name.to_owned(), true));
        assert_eq!(names.collect::<Vec<_>>(), expected);
        world.engine.start_now(vec![spec("db", SLEEP, 1), needing("web", &["db"])]);
        world.turn_until_answered().await;
        // With it goes what needs it, and what needs it no more does not hold it.
        let applying = world.apply(&[spec("web", SLEEP, 1)], true);
        assert!(world.turn_until_applied(applying).await.unwrap().apps.iter().all(|app| app.ok));
        assert_eq!(world.engine.apps.len(), 1);
        world.close().await;
    });
}

#[test]
fn an_app_that_others_depend_on_is_not_deleted_without_them() {
    locally(async {
        let mut world = World::new();
        world.engine.start_now(vec![spec("db", SLEEP, 2), needing("web", &["db"])]);
        world.turn_until_answered().await;
        let refusal = world.action(Verb::Delete, "db").try_recv().unwrap().unwrap_err();
        assert_eq!(refusal.error, "`web` depends on `db`, which would be deleted");
        let hint = "delete `web` too, or take `db` out of its `depends_on` first";
        assert_eq!(refusal.hint.as_deref(), Some(hint));
        // One of its two workers may go.
        world.action(Verb::Delete, "0");
        world.turn_until_answered().await;
        assert_eq!(world.engine.apps.len(), 2);
        let targets = vec!["db".to_owned(), "web".to_owned()];
        world.ask(Verb::Delete, ActionRequest { targets, ..request("all") });
        world.turn_until_answered().await;
        assert!(world.engine.apps.is_empty());
    });
}

#[test]
fn a_restart_or_reload_with_a_definition_needs_the_apps_that_it_depends_on() {
    locally(async {
        let mut world = World::new();
        let app = world.start("web", SLEEP, 1);
        world.turn_until_answered().await;
        for verb in [Verb::Restart, Verb::Reload] {
            for specs in [vec![needing("web", &["nobody"])], vec![needing("other", &["nobody"])]] {
                let mut answer = world.ask(verb, defining(&specs));
                let refusal = answer.try_recv().unwrap().unwrap_err();
                let name = &specs[0].name;
                assert_eq!(refusal.error, format!("`{name}` depends on `nobody`, and there is no such app"));
                assert_eq!(refusal.hint.as_deref(), Some("start `nobody` first, or in the same file"));
            }
            assert_eq!(world.engine.apps[&app].spec().depends_on, []);
            assert_eq!(world.engine.apps.len(), 1);
        }
        let both = [needing("web", &["db"]), spec("db", SLEEP, 1)];
        world.ask(Verb::Reload, defining(&both));
        world.turn_until_answered().await;
        assert_eq!(world.engine.apps[&app].spec().depends_on.len(), 1);
        world.close().await;
    });
}

#[test]
fn an_app_that_is_reloaded_or_deleted_at_that_moment_is_not_applied() {
    locally(async {
        let mut world = World::new();
        world.start("web", SLEEP, 1);
        world.turn_until_answered().await;
        for (verb, told) in
            [(Verb::Reload, "`web` is being reloaded"), (Verb::Delete, "`web` is being stopped or deleted")]
        {
            world.action(verb, "web");
            for specs in [[spec("web", SLEEP, 2)], [spec("web", SLEEP, 1)], [spec("other", SLEEP, 1)]] {
                let refusal = world.apply(&specs, true).try_recv().unwrap().unwrap_err();
                assert_eq!(refusal.error, told);
                assert_eq!(
                    refusal.hint.as_deref(),
                    Some("wait until it has ended, and apply the file again")
                );
            }
            world.turn_until_answered().await;
            let applying = world.apply(&[spec("web", SLEEP, 1)], true);
            assert!(world.turn_until_applied(applying).await.unwrap().apps.iter().all(|app| app.ok));
        }
        world.close().await;
    });
}

#[test]
fn a_second_apply_for_the_same_apps_is_refused_while_the_first_changes_them() {
    locally(async {
        let mut world = World::new();
        let kept = spec("kept", SLEEP, 1);
        world.engine.start_now(vec![kept.clone()]);
        world.turn_until_answered().await;
        let two = [spec("api", SLEEP, 1), spec("web", SLEEP, 1), kept.clone()];
        let first = world.apply(&two, false);

        let second = world.apply(&[spec("other", SLEEP, 1), spec("web", SLEEP, 2)], false);
        let refusal = world.turn_until_applied(second).await.unwrap_err();
        assert_eq!(refusal.error, "another `apply` is changing `web`");
        assert_eq!(refusal.hint.as_deref(), Some("wait until it has ended, and apply the file again"));
        assert!(world.engine.apps.find("other").is_none(), "nothing of it is done");
        // Apps that the first one leaves as they are may be changed.
        let beside = world.apply(&[spec("other", SLEEP, 1), spec("kept", SLEEP, 2)], false);
        let names = |reply: ApplyReply| reply.apps.into_iter().map(|app| app.name).collect::<Vec<_>>();
        assert_eq!(names(world.turn_until_applied(beside).await.unwrap()), ["other", "kept"]);
        assert_eq!(names(world.turn_until_applied(first).await.unwrap()), ["api", "web"]);

        let again = world.apply(&[spec("web", SLEEP, 2)], true);
        assert!(world.turn_until_applied(again).await.unwrap().apps.iter().all(|app| app.ok));
        assert_eq!(world.engine.apps.len(), 1, "the others are pruned");
        world.close().await;
    });
}
