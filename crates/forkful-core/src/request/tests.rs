//! What targets select, which definitions are refused, and why.

use super::*;
use crate::spec::{AppName, Namespace};

/// An app with two workers.
#[derive(Debug)]
struct App {
    supervisor: AppSupervisor,
    first_id: u32,
}

impl AsRef<AppSupervisor> for App {
    fn as_ref(&self) -> &AppSupervisor {
        &self.supervisor
    }
}

impl ExistingApp for App {
    fn places(&self) -> impl Iterator<Item = (u16, u32)> {
        (0..2).map(|slot| (slot, self.first_id + u32::from(slot)))
    }
}

fn spec(name: &str, needs: &[&str]) -> AppSpec {
    let depends_on = needs.iter().map(|name| AppName::new(*name).unwrap()).collect();
    AppSpec { depends_on, ..AppSpec::new(AppName::new(name).unwrap()) }
}

fn apps(specs: impl IntoIterator<Item = AppSpec>) -> Apps<App> {
    let app = |(number, spec)| {
        (AppId(number), App { supervisor: AppSupervisor::new(spec, 1), first_id: 10 * number })
    };
    (1..).zip(specs).map(app).collect()
}

/// The names of the selected apps, those of which one worker alone is selected with its slot.
fn meant(apps: &Apps<App>, target: &str) -> String {
    let target = Target::parse(target).unwrap();
    let selection = select(apps, &target, |name| name.starts_with('a'));
    let told = |(id, slots): (&AppId, &Vec<u16>)| {
        let name = &apps[id].supervisor.spec().name;
        if slots.len() == 1 { format!("{name}:{}", slots[0]) } else { name.to_string() }
    };
    selection.iter().map(told).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_target_selects_workers_apps_a_namespace_or_what_runs_a_script() {
    let in_namespace = |name: &str, namespace: &str, script: &str| {
        let mut spec = spec(name, &[]);
        spec.namespace = Namespace::new(namespace).unwrap();
        spec.launch.script = Some(script.to_owned());
        spec
    };
    let mut program = spec("e", &[]);
    program.launch.program = "/srv/program".into();
    let apps = apps([
        in_namespace("jobs.js", "default", "/srv/a.js"),
        in_namespace("a", "jobs.js", "/srv/b.js"),
        in_namespace("b", "web/api", "/srv/jobs.js"),
        in_namespace("c", "default", "/srv/web/api"),
        in_namespace("d", "default", "/srv/d.js"),
        program,
    ]);
    for (target, selected) in [
        ("all", "jobs.js a b c d e"),
        ("jobs.js", "jobs.js"),
        ("web/api", "b"),
        ("default", "jobs.js c d e"),
        ("21", "a:1"),
        ("99", ""),
        ("/^a/", "a"),
        ("gone", ""),
        ("/srv/program", "e"),
        // Typed in a folder: first a name, then a namespace, then a script.
        ("/srv/./jobs.js", "jobs.js"),
        ("/srv/jobs.js", "b"),
        ("/elsewhere/./web/api", "b"),
        ("/srv/web/api", "c"),
        ("/srv/./d.js", "d"),
        ("/./srv/d.js", "d"),
        ("/elsewhere/./d.js", ""),
    ] {
        assert_eq!(meant(&apps, target), selected, "{target}");
    }
}

#[test]
fn apps_are_ordered_after_those_that_they_depend_on_and_none_that_is_needed_is_deleted() {
    let apps = apps([spec("web", &["api"]), spec("api", &["db"]), spec("db", &[])]);
    let both = |ids: &[u32]| ids.iter().map(|id| (AppId(*id), vec![0, 1])).collect::<Selection>();
    let order: Vec<u32> = in_order(&apps, both(&[1, 2, 3])).into_iter().map(|(id, _)| id.0).collect();
    assert_eq!(order, [3, 2, 1]);
    assert_eq!(check_deletion(&apps, &both(&[1, 2])), Ok(()));
    assert_eq!(check_deletion(&apps, &both(&[1, 2, 3])), Ok(()));
    let fault = NeedsFault::Deleted { app: "api".to_owned(), needed: "db".to_owned() };
    assert_eq!(check_deletion(&apps, &both(&[1, 3])), Err(fault));
    // One of its workers stays.
    assert_eq!(check_deletion(&apps, &Selection::from([(AppId(3), vec![0])])), Ok(()));
}

#[test]
fn definitions_are_refused_that_the_existing_apps_do_not_allow() {
    let apps = apps([spec("web", &["db"]), spec("db", &[]), spec("lost", &["gone"])]);
    let check = |changed: &[(u32, AppSpec)], new: &[AppSpec], is_whole: bool| {
        let changed: BTreeMap<_, _> =
            changed.iter().map(|(id, spec)| (AppId(*id), Rc::new(spec.clone()))).collect();
        let whole = changed.keys().copied().filter(|_| is_whole).collect();
        Definitions { changed: &changed, whole: &whole, new }.check(&apps)
    };
    let name = |name: &str| name.to_owned();
    let missing = |app: &str| Refusal::Needs(NeedsFault::Missing { app: name(app), needed: name("gone") });
    let mut lost = spec("lost", &["gone"]);
    lost.instances = 3;
    for (changed, new, is_whole, refusal) in [
        (&[][..], &[spec("new", &["web"]), spec("other", &["new"])][..], false, None),
        (&[], &[spec("db", &[])], false, Some(Refusal::Exists(name("db")))),
        (&[], &[spec("new", &[]), spec("new", &[])], false, Some(Refusal::DefinedTwice)),
        (&[], &[spec("new", &["gone"])], false, Some(missing("new"))),
        (&[(1, spec("site", &["db"]))], &[], false, None),
        (&[(1, spec("db", &[]))], &[], false, Some(Refusal::Taken(name("db")))),
        (&[(2, spec("store", &[]))], &[], false, Some(Refusal::Needed { app: name("db"), by: name("web") })),
        (
            &[(1, spec("new", &["db"]))],
            &[spec("new", &[])],
            false,
            Some(Refusal::NamedTwice(NamedTwice(name("new")))),
        ),
        // It lacks an app already; only a definition as a whole says so again.
        (&[(3, lost.clone())], &[], false, None),
        (&[(3, lost.clone())], &[], true, Some(missing("lost"))),
        (&[(1, spec("web", &["gone"]))], &[], false, Some(missing("web"))),
    ] {
        assert_eq!(check(changed, new, is_whole).err(), refusal, "{changed:?} {new:?} {is_whole}");
    }
}

#[test]
fn a_start_sees_what_an_app_runs_and_how_many_of_its_workers_run() {
    let apps = apps([spec("web", &[])]);
    let (identity, running) = as_started(&apps, "web").unwrap();
    assert_eq!((identity.name, running), ("web", 0));
    assert_eq!(as_started(&apps, "api"), None);
}

#[test]
fn a_refusal_says_what_to_do() {
    let told = |refusal: Refusal| {
        format!("{refusal} ({})", refusal.hint().map_or_else(String::new, |hint| hint.text))
    };
    let exists = told(Refusal::Exists("my api".to_owned()));
    assert!(
        exists.starts_with("an app named `my api` exists already (`forkful restart 'my api'` or"),
        "{exists}"
    );
    let needed = told(Refusal::Needed { app: "db".to_owned(), by: "web".to_owned() });
    assert_eq!(needed, "`web` depends on `db` by its name (change its `depends_on` first)");
    assert_eq!(told(Refusal::DefinedTwice), "an app is defined twice in one request ()");
}
