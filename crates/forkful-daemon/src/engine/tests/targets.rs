//! What a text means that may be a name or a script, with the folder in which it was typed.

use super::*;
use crate::engine::targets::Roster;

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
        ] {
            let mut refused = ask(&mut world, targets, optional);
            let refusal = refused.try_recv().expect("it is refused at once").expect_err("nothing matches");
            assert_eq!(refusal.error, error);
        }
        world.close().await;
    });
}

#[test]
fn a_text_with_its_folder_is_first_a_name_then_a_namespace_then_a_script() {
    locally(async {
        let mut world = World::new();
        let mut apps = Vec::new();
        for (name, namespace, script) in [
            ("jobs.js", "default", "/srv/a.js"),
            ("a", "jobs.js", "/srv/b.js"),
            ("b", "web/api", "/srv/jobs.js"),
            ("c", "default", "/srv/web/api"),
            ("d", "default", "/srv/d.js"),
        ] {
            let mut spec = spec(name, SLEEP, 1);
            spec.autostart = false;
            spec.namespace = forkful_core::spec::Namespace::new(namespace).unwrap();
            spec.launch.script = Some(script.to_owned());
            apps.push(spec);
        }
        world.engine.start_now(apps);
        let roster = Roster::of(&world.engine.apps, None);
        let meant = |text: &str| {
            let selection = roster.select(&[text.to_owned()]).map_err(|refusal| refusal.error)?;
            let names = selection.keys().filter_map(|id| roster.apps.get(id));
            Ok::<_, String>(names.map(|entry| entry.spec().name.to_string()).collect::<Vec<_>>().join(" "))
        };
        for (text, app) in [
            ("/srv/./jobs.js", "jobs.js"),
            ("/srv/jobs.js", "b"),
            ("/elsewhere/./web/api", "b"),
            ("/srv/web/api", "c"),
            ("/srv/./d.js", "d"),
            ("/./srv/d.js", "d"),
        ] {
            assert_eq!(meant(text).as_deref(), Ok(app), "{text}");
        }
        assert_eq!(meant("/elsewhere/./d.js"), Err("no app runs /elsewhere/d.js".to_owned()));
        world.close().await;
    });
}
