//! What a daemon saved is what the next one starts.

use super::*;

#[test]
fn a_stopped_worker_of_an_app_with_gaps_stays_stopped() {
    locally(async {
        let mut world = World::new();
        let app = world.start("app", SLEEP, 3);
        world.turn_until_answered().await;
        world.action(Verb::Delete, "0");
        world.turn_until("it is gone", |engine| engine.apps[&app].places.len() == 2).await;
        let stopped = world.action(Verb::Stop, "1");
        world.turn_until_answered().await;
        assert!(told(stopped).await.apps[0].ok);
        // As a daemon that ends: what ran is what should run again.
        world.engine.kill(None);
        world.turn_until("all are gone", |engine| engine.apps.is_empty()).await;
        let World { _home: home, engine, .. } = world;
        drop(engine);

        let mut world = World::at(home);
        world.engine.resurrect_now();
        world.turn_until_answered().await;
        let app = AppId(1);
        let entry = &world.engine.apps[&app];
        let wanted: Vec<_> = entry.places.iter().map(|(slot, place)| (*slot, place.wanted)).collect();
        assert_eq!((entry.spec.instances, wanted), (2, vec![(0, false), (1, true)]));
        assert_eq!(world.running(app), 1);
        world.close().await;
    });
}
