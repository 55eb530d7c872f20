//! Targets of requests that match nothing.

use super::*;

#[test]
fn optional_targets_that_match_nothing_are_left_out_unless_no_target_matches() {
    locally(async {
        let mut world = World::new();
        world.start("api", SLEEP, 1);
        world.turn_until_answered().await;
        let ask = |world: &mut World, targets: &[&str], optional: &[&str]| {
            let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
            let wanted = ActionRequest {
                targets: owned(targets),
                optional_targets: owned(optional),
                ..request("api")
            };
            world.ask(Verb::Stop, wanted)
        };
        let stopped = ask(&mut world, &[], &["gone", "api"]);
        world.turn_until_answered().await;
        let reply = told(stopped).await;
        assert_eq!(reply.apps.len(), 1);
        assert_eq!(reply.warnings, ["no app or worker `gone`"]);
        for (targets, optional, error) in [
            (&[][..], &["gone", "away"][..], "no app or worker `gone`"),
            (&["typo"], &["api"], "no app or worker `typo`"),
            (&["/srv/./gone.js"], &[], "no app runs /srv/gone.js"),
        ] {
            let mut refused = ask(&mut world, targets, optional);
            let refusal = refused.try_recv().expect("it is refused at once").expect_err("nothing matches");
            assert_eq!(refusal.error, error);
        }
        world.close().await;
    });
}
