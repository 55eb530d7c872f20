//! What a request means: which apps that exist, as what, and which are new. Nothing is done before all of it is clear.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use forkful_api::types::{ActionRequest, AppChange, AppDefinition, ErrorCode, ErrorReply, Scaled};
use forkful_core::pages::Page;
use forkful_core::request::{Definitions, Refusal, Selection};
use forkful_core::scale::{ScaleTarget, oversubscription};
use forkful_core::spec::AppSpec;
use forkful_core::words::shell_word;

use super::app::{App, AppId};
use super::apps::Apps;
use super::commands::refuse;
use super::targets::Roster;

/// What an action is about.
#[derive(Default)]
pub(super) struct Resolved {
    /// Apps that exist, each with the slots that are meant.
    pub(super) selection: Selection,
    /// What some of them are from now on.
    pub(super) specs: BTreeMap<AppId, Rc<AppSpec>>,
    /// Apps that do not exist yet.
    pub(super) new: Vec<AppSpec>,
    /// What changes do not do.
    pub(super) warnings: Vec<String>,
}

/// What is to be said of more workers than there are cores.
pub(super) fn oversubscription_by(Scaled { from, to }: Scaled) -> Option<String> {
    let cores = forkful_os::cores::usable_cores();
    oversubscription(to, cores.count, cores.reason().as_deref()).filter(|_| to > from)
}

impl Apps {
    /// How many workers each of these apps is to have, when that is what is asked for.
    pub(super) fn scaled(
        &self,
        selection: &Selection,
        target: Option<ScaleTarget>,
    ) -> Result<BTreeMap<AppId, Scaled>, ErrorReply> {
        let Some(target) = target else { return Ok(BTreeMap::new()) };
        let cores = forkful_os::cores::usable_cores().count;
        let apps = selection.keys().filter_map(|id| Some((*id, self.get(id)?)));
        let resolved = apps.map(|(id, entry)| {
            let AppSpec { instances: from, autoscale, name, .. } = entry.spec();
            match target.resolve(*from, cores, *autoscale) {
                Ok(to) => Ok((id, Scaled { from: *from, to })),
                Err(refused) => {
                    let hint = match autoscale {
                        Some(_) => format!(
                            "`forkful restart {} -i 2` sets a fixed number, `-i 1..4` other bounds",
                            shell_word(name.as_str())
                        ),
                        None => "`forkful stop` stops all workers of an app".to_owned(),
                    };
                    let hint = Page::Workers.hint(hint);
                    Err(refuse(ErrorCode::BadRequest, &refused.to_string(), Some(hint)))
                }
            }
        });
        resolved.collect()
    }
}

impl Roster<'_> {
    /// What an action's request means. Its definitions and changes are taken out of it.
    pub(super) fn resolve(self, request: &mut ActionRequest) -> Result<Resolved, ErrorReply> {
        let definitions = std::mem::take(&mut request.definitions);
        let (known, new): (Vec<_>, Vec<_>) =
            definitions.into_iter().partition(|definition| self.find(&definition.name).is_some());
        let known = Known { definitions: known, update_env: request.update_env };
        self.resolved(request.targets.clone(), known, std::mem::take(&mut request.changes), new)
    }

    /// What a start means: apps that exist and rest get their definition and start again, unless they are to be made
    /// without being started.
    pub(super) fn resolve_start(
        self,
        definitions: Vec<AppDefinition>,
        (stopped, update_env): (bool, bool),
    ) -> Result<Resolved, ErrorReply> {
        if definitions.is_empty() {
            return Err(refuse(ErrorCode::BadRequest, "no app to start", None));
        }
        let rests = |definition: &AppDefinition| {
            let entry = self.find(&definition.name).and_then(|id| self.apps.get(&id));
            !stopped && entry.is_some_and(App::is_at_rest)
        };
        let (known, new): (Vec<_>, Vec<_>) = definitions.into_iter().partition(rests);
        self.resolved(Vec::new(), Known { definitions: known, update_env }, Vec::new(), new)
    }

    /// Checks all parts of a request: the targets and the known apps that get another definition, the changes to them,
    /// and the new apps.
    pub(super) fn resolved(
        self,
        mut targets: Vec<String>,
        known: Known,
        changes: Vec<AppChange>,
        new: Vec<AppDefinition>,
    ) -> Result<Resolved, ErrorReply> {
        let new = self.check_all_new(new)?;
        let (changes, common): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|change| change.name.is_some());
        let common = self.common_changes(common, &targets)?;
        let whole: BTreeSet<AppId> =
            known.definitions.iter().filter_map(|definition| self.find(&definition.name)).collect();
        targets.extend(known.definitions.iter().map(|definition| definition.name.clone()));
        let mut selection =
            if targets.is_empty() && !new.is_empty() { Selection::new() } else { self.select(&targets)? };
        let mut specs = self.new_specs(known, changes, &selection)?;
        let CommonChanges { changes, warnings } = common;
        for (id, change) in changes {
            let Some(entry) = self.apps.get(&id) else { continue };
            selection.insert(id, entry.places.keys().copied().collect());
            add(&mut specs, id, self.changed(id, change)?)?;
        }
        let definitions = Definitions { changed: &specs, whole: &whole, new: &new };
        definitions.check(self.apps)?;
        Ok(Resolved { selection, specs, new, warnings })
    }

    /// Changes of all apps of the targets, for each of these apps.
    fn common_changes(self, common: Vec<AppChange>, targets: &[String]) -> Result<CommonChanges, ErrorReply> {
        let mut all = CommonChanges::default();
        for change in common {
            let selection = self.select(targets)?;
            let present = selection.keys().filter_map(|id| self.apps.get(id));
            let present: Vec<AppDefinition> =
                present.map(|entry| AppDefinition::from(entry.spec())).collect();
            all.warnings.extend(change.check_all(&present)?);
            all.changes.extend(selection.into_keys().map(|id| (id, change.clone())));
        }
        Ok(all)
    }

    fn check_all_new(self, definitions: Vec<AppDefinition>) -> Result<Vec<AppSpec>, ErrorReply> {
        let convert = |definition: AppDefinition| {
            self.check_is_not_carried(&definition.name)?;
            into_spec(definition)
        };
        definitions.into_iter().map(convert).collect()
    }

    fn new_specs(
        self,
        known: Known,
        changes: Vec<AppChange>,
        selection: &Selection,
    ) -> Result<BTreeMap<AppId, Rc<AppSpec>>, ErrorReply> {
        let mut specs = BTreeMap::new();
        for definition in known.definitions {
            let name = definition.name.clone();
            let spec = self.defined_again(into_spec(definition)?, known.update_env);
            let id = self.find(&name).ok_or_else(|| self.no_such(&name))?;
            add(&mut specs, id, spec)?;
        }
        for change in changes {
            let name = change.name.as_deref().unwrap_or_default();
            let Some(id) = self.find(name).filter(|id| selection.contains_key(id)) else {
                let error = format!("`{name}` is changed, but is not a target");
                return Err(refuse(ErrorCode::BadRequest, &error, None));
            };
            add(&mut specs, id, self.changed(id, change)?)?;
        }
        Ok(specs)
    }

    /// An app as a definition wants it. One that exists keeps what it inherited, unless it is to get the caller's environment.
    pub(super) fn defined_again(self, mut wanted: AppSpec, update_env: bool) -> AppSpec {
        let existing = self.find(wanted.name.as_str()).and_then(|id| self.apps.get(&id));
        if let Some(entry) = existing.filter(|_| !update_env) {
            wanted.launch.keep_inherited(&entry.spec().launch);
        }
        wanted
    }

    /// An app as it will be, when the rest of it stays.
    fn changed(self, id: AppId, change: AppChange) -> Result<AppSpec, ErrorReply> {
        let entry =
            self.apps.get(&id).ok_or_else(|| refuse(ErrorCode::NoSuchTarget, "the app is gone", None))?;
        let present = AppDefinition::from(entry.spec());
        into_spec(change.apply(&present, forkful_os::identity::euid())?)
    }

    /// Whether no entry that is only saved has this name.
    pub(super) fn check_is_not_carried(self, name: &str) -> Result<(), ErrorReply> {
        if let Some(carried) = self.carried(name) {
            let error = format!("an app named `{name}` is saved already: {}", carried.fault);
            let word = shell_word(name);
            let hint = format!("`forkful delete {word}` forgets it; another `--name` for a second app");
            let hint = Page::Saved.hint(hint);
            return Err(refuse(ErrorCode::Conflict, &error, Some(hint)));
        }
        Ok(())
    }
}

/// Definitions of apps that exist.
#[derive(Default)]
pub(super) struct Known {
    pub(super) definitions: Vec<AppDefinition>,
    /// The apps get the caller's environment.
    pub(super) update_env: bool,
}

/// Changes of several apps, by app.
#[derive(Default)]
struct CommonChanges {
    changes: Vec<(AppId, AppChange)>,
    warnings: Vec<String>,
}

/// An app gets one new definition in a request.
fn add(specs: &mut BTreeMap<AppId, Rc<AppSpec>>, id: AppId, spec: AppSpec) -> Result<(), ErrorReply> {
    match specs.insert(id, Rc::new(spec)) {
        None => Ok(()),
        Some(_) => Err(ErrorReply::from(Refusal::DefinedTwice)),
    }
}

pub(super) fn into_spec(definition: AppDefinition) -> Result<AppSpec, ErrorReply> {
    AppSpec::try_from(definition).map_err(ErrorReply::from)
}
