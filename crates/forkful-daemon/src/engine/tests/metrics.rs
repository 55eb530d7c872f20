//! What is counted of workers.

use forkful_core::scale::ScaleTarget;

use super::*;

/// What metrics say now.
pub(super) fn counted(world: &mut World, app: AppId, slot: u16, name: &str) -> Option<f64> {
    let entry = world.engine.apps.get_mut(app).unwrap();
    entry.count_places(&world.engine.logs);
    entry.counted(slot).values.get(name)
}

#[test]
fn restarts_of_metrics_do_not_fall_when_lists_begin_at_zero_again() {
    locally(async {
        let mut world = World::new();
        let app = world.start("app", &["/bin/sleep", "1000"], 2);
        world.turn_until("it runs", |engine| running(engine, app) == 2).await;
        let counted = |world: &mut World| [0, 1].map(|slot| counted(world, app, slot, "restarts_total"));
        assert_eq!(counted(&mut world), [Some(0.0); 2]);
        for _ in 0..2 {
            world.action(Verb::Restart, "app");
            world.turn_until_answered().await;
        }
        assert_eq!(counted(&mut world), [Some(2.0); 2]);
        world.action(Verb::Reset, "app");
        world.turn_until_answered().await;
        assert_eq!(counted(&mut world), [Some(2.0); 2]);
        for instances in [1, 2] {
            let request =
                ActionRequest { instances: Some(ScaleTarget::Exactly(instances)), ..request("app") };
            world.ask(Verb::Scale, request);
            world.turn_until_answered().await;
            world.turn_until("it is scaled", |engine| running(engine, app) == usize::from(instances)).await;
        }
        assert_eq!(counted(&mut world), [Some(2.0); 2]);
        world.action(Verb::Restart, "app");
        world.turn_until_answered().await;
        assert_eq!(counted(&mut world), [Some(3.0); 2]);
        world.close().await;
    });
}

#[test]
fn restarts_that_nothing_has_counted_before_a_reset_or_the_end_of_a_slot_are_kept() {
    locally(async {
        let mut world = World::new();
        let app = world.start("app", &["/bin/sleep", "1000"], 2);
        world.turn_until("it runs", |engine| running(engine, app) == 2).await;
        for verb in [Verb::Restart, Verb::Reset, Verb::Restart] {
            world.action(verb, "app");
            world.turn_until_answered().await;
        }
        let request = ActionRequest { instances: Some(ScaleTarget::Exactly(1)), ..request("app") };
        world.ask(Verb::Scale, request);
        world.turn_until_answered().await;
        world.turn_until("it is scaled", |engine| engine.apps[&app].places.len() == 1).await;
        assert_eq!([0, 1].map(|slot| counted(&mut world, app, slot, "restarts_total")), [Some(2.0); 2]);
        world.close().await;
    });
}
