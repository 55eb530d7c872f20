//! One request starts what its targets name and define, or nothing.

use forkful_api::types::{AppChange, AppDefinition, StartFault, StartRequest, StartStep, StartTarget};
use forkful_core::start::IfRunning;

use super::*;

impl World {
    fn start_targets(&mut self, targets: Vec<StartTarget>, change: Option<AppChange>) -> Answer {
        let (reply, answer) = tokio::sync::oneshot::channel();
        let request = StartRequest { targets, change, wait: true, ..StartRequest::default() };
        self.engine.on_command(Command::Start { request, reply });
        answer
    }
}

fn existing(text: &str) -> StartTarget {
    StartTarget { text: Some(text.to_owned()), ..StartTarget::default() }
}

fn definition(name: &str, if_running: IfRunning) -> StartTarget {
    let mut spec = spec(name, SLEEP, 1);
    spec.autostart = false;
    StartTarget { apps: vec![AppDefinition::from(&spec)], if_running, ..StartTarget::default() }
}

#[test]
fn one_request_starts_names_and_definitions() {
    locally(async {
        let mut world = World::new();
        world.start("runs", SLEEP, 1);
        world.start("copied", SLEEP, 1);
        world.start("runs-too", SLEEP, 1);
        world.turn_until_answered().await;
        let targets = vec![
            definition("runs", IfRunning::Refuse),
            definition("copied", IfRunning::StartAnother),
            StartTarget { text: Some("new".to_owned()), ..definition("new", IfRunning::Refuse) },
            definition("runs-too", IfRunning::LeaveExisting),
        ];
        let answer = world.start_targets(targets, None);
        world.turn_until_answered().await;
        let reply = told(answer).await;
        let meant = reply.targets.iter().flat_map(|target| &target.apps);
        let meant: Vec<_> = meant.map(|app| (app.name.as_str(), app.step)).collect();
        let (refused, new) = (StartStep::Refused, StartStep::New);
        assert_eq!(
            meant,
            [("runs", refused), ("copied-2", new), ("new", new), ("runs-too", StartStep::Left)]
        );
        let outcomes: Vec<_> = reply.apps.iter().map(|app| (app.name.as_str(), app.ok)).collect();
        assert_eq!(outcomes, [("runs", false), ("copied-2", true), ("new", true)]);
        assert_eq!(reply.apps[0].error.as_deref(), Some("already running, with 1 worker"));

        // It rests and its name is known now: the same text names it, and the change is for it alone.
        let change: AppChange =
            serde_json::from_value(serde_json::json!({ "definition": { "kill_timeout_ms": 9 } })).unwrap();
        let again = StartTarget { text: Some("new".to_owned()), ..definition("new", IfRunning::Refuse) };
        let answer = world.start_targets(vec![again], Some(change));
        world.turn_until_answered().await;
        let reply = told(answer).await;
        assert_eq!(reply.targets[0].apps[0].step, StartStep::Start);
        assert_eq!(reply.apps[0].notes, ["kill_timeout: 5s → 9ms"]);
        world.close().await;
    });
}

#[test]
fn a_request_with_a_fault_starts_nothing() {
    locally(async {
        let mut world = World::new();
        world.start("runs", SLEEP, 1);
        world.turn_until_answered().await;
        let fault = StartFault { error: "no such script".to_owned(), hint: None, see: None };
        let absent = StartTarget { fault: Some(fault), ..existing("absent") };
        let twice = [definition("new", IfRunning::Refuse), definition("new", IfRunning::Refuse)].to_vec();
        let unchangeable = AppChange {
            by_app: forkful_api::types::ByApp {
                new_app_only: Some("--uid".to_owned()),
                ..Default::default()
            },
            ..AppChange::default()
        };
        let name = [("name".to_owned(), "first".into())].into_iter().collect();
        let renamed = AppChange { definition: name, ..AppChange::default() };
        for (targets, change, error) in [
            (vec![existing("77")], None, "no app or worker `77`"),
            (vec![absent], None, "no such script"),
            (twice, None, "two apps would have the name `new`"),
            // The new name of one is that of another, which this request makes.
            (vec![existing("runs")], Some(renamed), "two apps would have the name `first`"),
            (vec![existing("runs")], Some(unchangeable), "--uid cannot be changed of an app that exists"),
        ] {
            let targets = std::iter::once(definition("first", IfRunning::Refuse)).chain(targets).collect();
            let refusal = world.start_targets(targets, change).try_recv().unwrap().unwrap_err();
            assert_eq!(refusal.error, error);
        }
        assert_eq!(world.engine.apps.len(), 1);
        world.close().await;
    });
}
