//! What a text means that may be a name or a script, with the folder in which it was typed.

use super::*;
use crate::engine::targets::Roster;

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
