//! What a request means for the apps that exist: which apps and workers its targets select, what becomes of the apps that it
//! defines, in which order it is performed, and why it is refused. Nothing is done before all of it is clear.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::rc::Rc;

use crate::pages::{Hint, Page};
use crate::spec::AppSpec;
use crate::start::{Identity, NamedTwice};
use crate::supervisor::{AppId, AppSupervisor};
use crate::targets::Target;
use crate::upkeep::needs::{self, NeedsFault};
use crate::upkeep::order;
use crate::words::shell_word;

/// An app that exists.
pub trait ExistingApp: AsRef<AppSupervisor> {
    /// Its slots in order, each with the id of its worker.
    fn places(&self) -> impl Iterator<Item = (u16, u32)>;
}

/// The apps that exist.
pub type Apps<A> = BTreeMap<AppId, A>;

/// Selected apps, each with its selected slots.
pub type Selection = BTreeMap<AppId, Vec<u16>>;

/// The app of a name.
pub fn find<A: AsRef<AppSupervisor>>(apps: &Apps<A>, name: &str) -> Option<AppId> {
    apps.iter().find(|(_, app)| app.as_ref().spec().name.as_str() == name).map(|(id, _)| *id)
}

/// What a target selects. `is_match` says whether the pattern of the target matches a name.
pub fn select<A: ExistingApp>(apps: &Apps<A>, target: &Target, is_match: impl Fn(&str) -> bool) -> Selection {
    match target {
        Target::All => all_of(apps, |_| true),
        Target::Id(id) => worker(apps, *id),
        Target::Pattern(_) => all_of(apps, |spec| is_match(spec.name.as_str())),
        Target::Script(_) | Target::Name(_) | Target::NameOrScript { .. } => {
            named(apps, target.name(), target.script().as_deref())
        }
    }
}

/// The app with this name, else the apps in the namespace of that name, else those that run this script.
fn named<A: ExistingApp>(apps: &Apps<A>, name: Option<&str>, script: Option<&str>) -> Selection {
    let of_name = |is_meant: fn(&AppSpec, &str) -> bool| {
        name.map(|name| all_of(apps, |spec| is_meant(spec, name))).filter(|meant| !meant.is_empty())
    };
    of_name(|spec, name| spec.name.as_str() == name)
        .or_else(|| of_name(|spec, name| spec.namespace.as_str() == name))
        .or_else(|| script.map(|script| all_of(apps, |spec| runs(spec, script))))
        .unwrap_or_default()
}

fn all_of<A: ExistingApp>(apps: &Apps<A>, is_meant: impl Fn(&AppSpec) -> bool) -> Selection {
    let meant = apps.iter().filter(|(_, app)| is_meant(app.as_ref().spec()));
    meant.map(|(id, app)| (*id, app.places().map(|(slot, _)| slot).collect())).collect()
}

fn worker<A: ExistingApp>(apps: &Apps<A>, id: u32) -> Selection {
    let place = |(app, entry): (&AppId, &A)| {
        let (slot, _) = entry.places().find(|(_, worker)| *worker == id)?;
        Some((*app, vec![slot]))
    };
    apps.iter().find_map(place).into_iter().collect()
}

/// Whether an app was created from this script. A program that runs itself is its own script.
fn runs(spec: &AppSpec, path: &str) -> bool {
    match &spec.launch.script {
        Some(script) => script == path,
        None => spec.launch.program == Path::new(path),
    }
}

/// The selected apps, each after its dependencies.
pub fn in_order<A: AsRef<AppSupervisor>>(apps: &Apps<A>, selection: Selection) -> Vec<(AppId, Vec<u16>)> {
    let mut selection: Vec<_> = selection.into_iter().collect();
    if selection.len() > 1 {
        order::sort_by_needs(&mut selection, |(app, _)| {
            apps.get(app).map(|entry| order::needs_of(entry.as_ref().spec())).unwrap_or_default()
        });
    }
    selection
}

/// Whether workers may be deleted: no remaining app may depend on an app that is deleted as a whole.
pub fn check_deletion<A: ExistingApp>(apps: &Apps<A>, selection: &Selection) -> Result<(), NeedsFault> {
    let whole = selection.iter().filter_map(|(app, slots)| {
        let entry = apps.get(app).filter(|entry| entry.places().count() == slots.len())?;
        Some(entry.as_ref().spec().name.to_string())
    });
    let existing = apps.values().map(|entry| order::needs_of(entry.as_ref().spec()));
    needs::check(existing, [], &whole.collect())
}

/// An app as a start sees it: what it runs, and how many of its workers run.
pub fn as_started<'a, A: AsRef<AppSupervisor>>(
    apps: &'a Apps<A>,
    name: &str,
) -> Option<(Identity<'a>, usize)> {
    let app = find(apps, name).and_then(|id| apps.get(&id))?.as_ref();
    let running = app.slots().values().filter(|record| !record.slot.has_no_process()).count();
    Some((Identity::from(&**app.spec()), running))
}

/// The definitions of a request.
#[derive(Debug)]
pub struct Definitions<'a> {
    /// What apps that exist are from now on.
    pub changed: &'a BTreeMap<AppId, Rc<AppSpec>>,
    /// Those of them that the request defines as a whole; of the others it names what changes.
    pub whole: &'a BTreeSet<AppId>,
    /// Apps that do not exist yet.
    pub new: &'a [AppSpec],
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A new app would have the name of an app that exists.
    Exists(String),
    /// An app would be renamed to the name of an app that exists.
    Taken(String),
    /// An app would be renamed that another app depends on.
    Needed {
        app: String,
        by: String,
    },
    DefinedTwice,
    NamedTwice(NamedTwice),
    Needs(NeedsFault),
}

impl Definitions<'_> {
    /// Whether the apps that exist allow these definitions.
    pub fn check<A: AsRef<AppSupervisor>>(&self, apps: &Apps<A>) -> Result<(), Refusal> {
        let mut names = BTreeSet::new();
        for spec in self.new {
            if find(apps, spec.name.as_str()).is_some() {
                return Err(Refusal::Exists(spec.name.to_string()));
            }
            if !names.insert(spec.name.as_str()) {
                return Err(Refusal::DefinedTwice);
            }
        }
        let existing = |id: &AppId| apps.get(id).map(|app| &**app.as_ref().spec());
        self.changed.iter().try_for_each(|(id, spec)| check_name(apps, existing(id), spec))?;
        // An app may already lack another one; a change of something else does not have to mend that.
        let says_needs = |(id, spec): &(&AppId, &Rc<AppSpec>)| {
            self.whole.contains(*id)
                || existing(id).is_none_or(|existing| existing.depends_on != spec.depends_on)
        };
        let changed = self.changed.iter().filter(says_needs).map(|(_, spec)| &**spec);
        let wanted = self.new.iter().chain(changed).map(order::needs_of);
        let needs = apps.values().map(|app| order::needs_of(app.as_ref().spec()));
        needs::check(needs, wanted, &BTreeSet::new()).map_err(Refusal::Needs)?;
        self.check_names(apps)
    }

    /// After the request, no two apps have the same name.
    fn check_names<A: AsRef<AppSupervisor>>(&self, apps: &Apps<A>) -> Result<(), Refusal> {
        let others = apps.iter().filter(|(id, _)| !self.changed.contains_key(*id));
        let others = others.map(|(_, app)| &**app.as_ref().spec());
        let mut names = BTreeSet::new();
        let mut all = others.chain(self.changed.values().map(|spec| &**spec)).chain(self.new);
        match all.find(|spec| !names.insert(spec.name.as_str())) {
            Some(twice) => Err(Refusal::NamedTwice(NamedTwice(twice.name.to_string()))),
            None => Ok(()),
        }
    }
}

/// Whether an app may get the name of its new definition.
fn check_name<A: AsRef<AppSupervisor>>(
    apps: &Apps<A>,
    existing: Option<&AppSpec>,
    spec: &AppSpec,
) -> Result<(), Refusal> {
    let Some(existing) = existing.filter(|existing| existing.name != spec.name) else { return Ok(()) };
    if find(apps, spec.name.as_str()).is_some() {
        return Err(Refusal::Taken(spec.name.to_string()));
    }
    let mut specs = apps.values().map(|app| app.as_ref().spec());
    match specs.find(|other| other.depends_on.contains(&existing.name)) {
        Some(by) => Err(Refusal::Needed { app: existing.name.to_string(), by: by.name.to_string() }),
        None => Ok(()),
    }
}

impl Refusal {
    /// What to do about it.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::Exists(name) => {
                let word = shell_word(name);
                Some(Page::AppExists.hint(format!(
                    "`forkful restart {word}` or `forkful reload {word}` for new code; another `--name` for a second app"
                )))
            }
            Self::Taken(_) => Some(Page::AppExists.hint("choose another name")),
            Self::Needed { .. } => Some(Page::Start.hint("change its `depends_on` first")),
            Self::Needs(fault) => fault.hint(),
            Self::DefinedTwice | Self::NamedTwice(_) => None,
        }
    }

    /// Whether another state of the apps would allow the request.
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::Exists(_) | Self::Taken(_) | Self::Needed { .. } => true,
            Self::Needs(_) | Self::DefinedTwice | Self::NamedTwice(_) => false,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists(name) | Self::Taken(name) => write!(f, "an app named `{name}` exists already"),
            Self::Needed { app, by } => write!(f, "`{by}` depends on `{app}` by its name"),
            Self::DefinedTwice => f.write_str("an app is defined twice in one request"),
            Self::NamedTwice(twice) => twice.fmt(f),
            Self::Needs(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests;
