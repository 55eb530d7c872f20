//! Deployments are recorded, so that they can be marked on plots.

use forkful_api::apply::ApplyRequest;
use forkful_api::incidents::{IncidentKind, IncidentsQuery};
use forkful_api::types::{AppDefinition, Deployment};

use super::reload::version;
use super::*;
use crate::command::Talk;

impl World {
    /// The versions that are recorded.
    async fn deployed(&mut self) -> Vec<String> {
        let (reply, listed) = tokio::sync::oneshot::channel();
        self.engine.on_command(Command::Talk(Talk::Incidents { query: IncidentsQuery::default(), reply }));
        let listed = tokio::time::timeout(PATIENCE, listed).await.unwrap().unwrap().unwrap();
        let deployed = listed.incidents.into_iter().filter(|one| one.kind == IncidentKind::Deployed);
        deployed.map(|incident| format!("{}: {}", incident.app, incident.reason)).collect()
    }
}

#[test]
fn the_version_that_a_command_brings_is_recorded_of_each_app_that_gets_it() {
    locally(async {
        let mut world = World::new();
        world.engine.start_now(vec![version("1001", 1)]);
        world.turn_until_answered().await;
        let by_file = |seconds: &str, code_changed_at_ms: u64, deployed: &str| ActionRequest {
            definitions: vec![AppDefinition::from(&version(seconds, 1))],
            code_changed_at_ms: [("app".to_owned(), code_changed_at_ms)].into(),
            deployment: Deployment::of(deployed),
            ..request("app")
        };
        for (verb, request) in [
            (Verb::Reload, by_file("1001", u64::MAX, "v2")),
            // It leaves the app alone.
            (Verb::Reload, by_file("1001", 1, "v3")),
            (Verb::Restart, ActionRequest { deployment: Deployment::of("v4"), ..request("app") }),
            (Verb::Restart, request("app")),
        ] {
            let answer = world.ask(verb, request);
            world.turn_until_answered().await;
            assert!(told(answer).await.apps[0].ok);
        }
        assert_eq!(world.deployed().await, ["app: v2", "app: v4"]);

        let (reply, mut applied) = tokio::sync::oneshot::channel();
        let request = ApplyRequest {
            apps: vec![AppDefinition::from(&version("1002", 1))],
            prune: false,
            dry_run: false,
            update_env: false,
            code_changed_at_ms: std::collections::BTreeMap::new(),
            deployment: Deployment::of("v5"),
        };
        world.engine.on_command(Command::Apply { request, reply });
        let began = Instant::now();
        while applied.try_recv().is_err() {
            assert!(began.elapsed() < PATIENCE, "the apply never ends");
            world.turn().await;
        }
        assert_eq!(world.deployed().await, ["app: v2", "app: v4", "app: v5"]);
        world.close().await;
    });
}
