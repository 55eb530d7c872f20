//! What a configuration means for the apps that exist: the steps of its plan, or why it is refused.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Apply, Change, Existing, Step, Version, change};
use crate::request::Refusal;
use crate::spec::{AppName, AppSpec, Mode};
use crate::upkeep::needs;
use crate::upkeep::order;

/// An app of a plan; `D` is a definition in the driver's form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned<D> {
    pub name: AppName,
    /// The mode of its new definition.
    pub mode: Mode,
    /// Its new definition; for an app that is removed, its current one.
    pub wanted: D,
    /// Its definition before the plan, if it existed.
    pub before: Option<D>,
}

impl<D> Planned<D> {
    pub fn version(&self, version: Version) -> Option<&D> {
        match version {
            Version::Wanted => Some(&self.wanted),
            Version::Before => self.before.as_ref(),
        }
    }
}

/// The plan that makes the existing apps what the wanted ones are, each given with its definition in the driver's form.
/// With `prune`, other apps in the namespaces of the wanted ones are removed.
pub fn plan<D: Clone>(
    mut wanted: Vec<(AppSpec, D)>,
    existing: &[Existing<'_>],
    prune: bool,
    describe: impl Fn(&AppSpec) -> D,
) -> Result<Apply<Planned<D>>, Refusal> {
    let names: BTreeSet<AppName> = wanted.iter().map(|(spec, _)| spec.name.clone()).collect();
    if names.len() < wanted.len() {
        return Err(Refusal::DefinedTwice);
    }
    let removed = if prune { removed(&wanted, &names, existing) } else { Vec::new() };
    let deleted = removed.iter().map(|spec| spec.name.to_string()).collect();
    let needs = wanted.iter().map(|(spec, _)| order::needs_of(spec));
    needs::check(existing.iter().map(|app| order::needs_of(app.spec)), needs, &deleted)
        .map_err(Refusal::Needs)?;
    order::sort_by_needs(&mut wanted, |(spec, _)| order::needs_of(spec));
    let changes = wanted.into_iter().map(|(spec, definition)| {
        let found = existing.iter().find(|app| app.spec.name == spec.name).copied();
        let before = found.map(|app| describe(app.spec));
        let change = change(found, &spec);
        let app = Planned { name: spec.name, mode: spec.mode, wanted: definition, before };
        Step { app, change, existed: found.is_some() }
    });
    let removals = removed.into_iter().map(|spec| {
        let (name, definition) = (spec.name.clone(), describe(spec));
        let app = Planned { name, mode: spec.mode, wanted: definition.clone(), before: Some(definition) };
        Step { app, change: Change::Remove, existed: true }
    });
    Ok(Apply::new(changes.chain(removals)))
}

/// The apps that a pruned configuration does not name, each before those that it depends on.
fn removed<'a, D>(
    wanted: &[(AppSpec, D)],
    names: &BTreeSet<AppName>,
    existing: &[Existing<'a>],
) -> Vec<&'a AppSpec> {
    let namespaces: BTreeSet<_> = wanted.iter().map(|(spec, _)| &spec.namespace).collect();
    let is_gone = |spec: &&AppSpec| namespaces.contains(&spec.namespace) && !names.contains(&spec.name);
    let mut gone: Vec<&AppSpec> = existing.iter().map(|app| app.spec).filter(is_gone).collect();
    order::sort_by_needs(&mut gone, |spec| order::needs_of(spec));
    gone.reverse();
    gone
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::RunningSince;

    fn spec(name: &str, needs: &[&str]) -> AppSpec {
        let depends_on = needs.iter().map(|name| AppName::new(*name).unwrap()).collect();
        AppSpec { depends_on, ..AppSpec::new(AppName::new(name).unwrap()) }
    }

    fn runs(spec: &AppSpec) -> Existing<'_> {
        let since = RunningSince { oldest_start_ms: Some(2), code_changed_ms: Some(1) };
        Existing { spec, is_at_rest: false, since }
    }

    /// The steps of a plan in words, or why it is refused.
    fn told(wanted: &[AppSpec], existing: &[AppSpec], prune: bool) -> Result<Vec<String>, String> {
        let wanted = wanted.iter().map(|spec| (spec.clone(), spec.instances)).collect();
        let existing: Vec<Existing<'_>> = existing.iter().map(runs).collect();
        let plan =
            plan(wanted, &existing, prune, |spec| spec.instances).map_err(|refused| refused.to_string())?;
        Ok(plan.steps().iter().map(|step| format!("{} {:?}", step.app.name, step.change)).collect())
    }

    #[test]
    fn a_file_that_is_applied_again_changes_nothing_but_what_has_changed() {
        let existing = [spec("db", &[]), spec("web", &["db"])];
        let wanted =
            [spec("db", &[]), AppSpec { instances: 3, ..spec("web", &["db"]) }, spec("new", &["web"])];
        let steps = ["new Start", "web Scale", "db Keep"].map(str::to_owned).to_vec();
        assert_eq!(told(&wanted, &existing, false), Ok(steps));
    }

    #[test]
    fn what_a_file_does_not_name_is_removed_before_what_it_depends_on() {
        let existing = [spec("db", &[]), spec("api", &["db"]), spec("web", &["api"])];
        let wanted = [spec("new", &[])];
        let steps = ["new Start", "web Remove", "api Remove", "db Remove"].map(str::to_owned).to_vec();
        assert_eq!(told(&wanted, &existing, true), Ok(steps));
        assert_eq!(told(&wanted, &existing, false), Ok(vec!["new Start".to_owned()]));
    }

    #[test]
    fn a_file_that_cannot_be_carried_out_is_refused_as_a_whole() {
        let twice = [spec("web", &[]), spec("web", &[])];
        assert_eq!(told(&twice, &[], false), Err("an app is defined twice in one request".to_owned()));
        let missing = "`web` depends on `db`, and there is no such app".to_owned();
        assert_eq!(told(&[spec("web", &["db"])], &[], false), Err(missing));
        let deleted = "`web` depends on `db`, which would be deleted".to_owned();
        assert_eq!(told(&[spec("web", &["db"])], &[spec("db", &[])], true), Err(deleted));
    }
}
