//! What the supervisors of a daemon's apps see of each other.

use std::collections::{BTreeMap, BTreeSet};

use super::{AppId, AppSupervisor, Standing};

/// How far the apps are that matter to this one.
pub fn others_of<T: AsRef<AppSupervisor>>(apps: &BTreeMap<AppId, T>, app: AppId) -> Vec<Standing> {
    let own = apps.get(&app).map(AsRef::as_ref).filter(|own| own.looks_at_others());
    let Some(own) = own else { return Vec::new() };
    let others = apps.iter().map(|(id, other)| (*id, other.as_ref()));
    let standing = |(id, other): (AppId, &AppSupervisor)| Standing {
        id,
        name: other.spec().name.clone(),
        readiness: other.readiness(),
        is_ending: other.is_ending(),
    };
    others.filter(|(id, other)| own.looks_at(*id, &other.spec().name)).map(standing).collect()
}

/// Which apps of `among` run and depend on this one, so that they are stopped before it.
pub fn dependents_of<T: AsRef<AppSupervisor>>(
    apps: &BTreeMap<AppId, T>,
    app: AppId,
    among: &[AppId],
) -> BTreeSet<AppId> {
    let Some(own) = apps.get(&app) else { return BTreeSet::new() };
    let name = &own.as_ref().spec().name;
    let depends = |id: &AppId| *id != app && apps.get(id).is_some_and(|other| other.as_ref().runs_on(name));
    among.iter().copied().filter(depends).collect()
}

/// The apps that wait for others.
pub fn waiting_for_others<T: AsRef<AppSupervisor>>(apps: &BTreeMap<AppId, T>) -> Vec<AppId> {
    apps.iter().filter(|(_, own)| own.as_ref().waits_for_others()).map(|(id, _)| *id).collect()
}
