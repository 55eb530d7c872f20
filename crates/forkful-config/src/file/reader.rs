//! Reads a document: its apps, key by key, and their errors.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{BASIC_KEYS, ConfigFile, How, OTHER_TOP_LEVEL_KEYS, PACKAGE_KEYS, Read};
use crate::error::{ConfigError, Place, Warning};
use crate::faults::Faults;
use crate::keys::{self, Support};
use crate::only::chosen_names;
use crate::options::{AppOptions, KeyOrigin, Origin, join_key};
use crate::resolve::default_name;
use crate::statics;
use crate::tree::{Entry, Node, Spot, Value};
use crate::values::{self, Refusal};

/// Finds the apps in a document and reads each.
pub(super) fn apps_of(tree: &Node, path: &Path, how: How<'_>) -> Result<Read, ConfigError> {
    let mut reader =
        Reader { path, how, warnings: Vec::new(), faults: Faults::default(), unusable: BTreeSet::new() };
    let files = statics::apps(tree, path, &mut reader.warnings, &mut reader.faults);
    let needs_apps = !how.is_for_deploy || tree.get("deploy").is_none();
    let mut apps = match reader.apps(tree) {
        Err(_) if has_no_apps(tree) && !needs_apps => Vec::new(),
        // A configuration may consist only of directories to serve.
        Err(_) if has_no_apps(tree) && (!files.is_empty() || reader.faults.count() > 0) => Vec::new(),
        Err(fault) if reader.faults.count() > 0 => {
            reader.faults.add(fault);
            Vec::new()
        }
        apps => apps?,
    };
    apps.extend(files);
    let deploy_env = reader.deploy_env(tree);
    if !deploy_env.is_empty() {
        apps.iter_mut().for_each(|app| app.deploy_env.clone_from(&deploy_env));
    }
    check_names(&apps, &mut reader.faults);
    let Reader { warnings, faults, unusable, .. } = reader;
    let config =
        ConfigFile { path: path.to_owned(), apps, warnings, output: String::new(), tree: tree.clone() };
    Ok(Read { config, faults, unusable })
}

/// Whether an app is certainly not wanted; without names, all are.
fn leaves_out(wanted: &[String], app: &Node) -> bool {
    !wanted.is_empty() && name_of(app).is_some_and(|name| !wanted.contains(&name))
}

fn name_of(app: &Node) -> Option<String> {
    let text = |key| app.get(key).and_then(|entry| values::text(&entry.node).ok());
    text("name").or_else(|| text("script").as_deref().map(default_name))
}

fn check_names(apps: &[AppOptions], faults: &mut Faults) {
    let mut names = BTreeSet::new();
    for app in apps {
        if let Some(name) = app.declared_name()
            && !names.insert(name.clone())
        {
            faults.add(ConfigError::duplicate_name(app.app_place(), &name));
        }
    }
}

struct Reader<'a> {
    path: &'a Path,
    how: How<'a>,
    warnings: Vec<Warning>,
    faults: Faults,
    unusable: BTreeSet<String>,
}

impl Reader<'_> {
    fn place(&self, at: Option<Spot>, key: &str) -> Place {
        Place::in_file(self.path, at, key)
    }

    fn shape(&self, node: &Node, key: &str, message: impl Into<String>) -> ConfigError {
        ConfigError::at(self.place(node.at, key), message)
            .with_hint(r#"a configuration is { "apps": [{ "script": "app.js" }] }"#)
    }

    fn apps(&mut self, tree: &Node) -> Result<Vec<AppOptions>, ConfigError> {
        let (nodes, key): (&Node, &str) = match &tree.value {
            Value::List(_) => (tree, ""),
            Value::Table(entries) => {
                let holder = std::iter::once(&"apps").chain(PACKAGE_KEYS).find_map(|key| tree.get(key));
                match holder {
                    // A package.json may contain a whole configuration: `{ "forkful": { "apps": […] } }`.
                    Some(holder) if holder.key != "apps" && holder.node.get("apps").is_some() => {
                        return self.apps(&holder.node);
                    }
                    Some(holder) => {
                        self.check_top_level(entries, &holder.key);
                        (&holder.node, holder.key.as_str())
                    }
                    None if is_bare_app(entries) => return Ok(self.app(tree, "").into_iter().collect()),
                    None => return Err(self.shape(tree, "", "there is neither `apps` nor a `script`")),
                }
            }
            Value::Null => return Err(self.shape(tree, "", "there is nothing in it")),
            _ => return Err(self.shape(tree, "", format!("there is {tree} instead of apps"))),
        };
        match &nodes.value {
            Value::List(items) if items.is_empty() => {
                let message = if key.is_empty() { "there are no apps in it" } else { "is an empty list" };
                Err(self.shape(nodes, key, message))
            }
            Value::List(items) => {
                let mut apps = Vec::with_capacity(items.len());
                let names: Vec<String> = items.iter().filter_map(name_of).collect();
                let wanted = chosen_names(self.how.only, &names);
                for (index, item) in items.iter().enumerate() {
                    let before = self.faults.count();
                    apps.extend(self.app(item, &format!("{key}[{index}]")));
                    if leaves_out(&wanted, item) && self.faults.count() > before {
                        apps.pop();
                        self.warnings.extend(self.faults.since(before).first().map(left_out));
                    }
                }
                Ok(apps)
            }
            Value::Table(_) => Ok(self.app(nodes, key).into_iter().collect()),
            _ => Err(Refusal::new(nodes, "a list of apps").of(self.place(nodes.at, key))),
        }
    }

    /// The `env` of each `deploy` target, which PM2 adds to an app that is started with `--env <target>`. Targets without
    /// one are there too: their names may be chosen.
    fn deploy_env(&mut self, tree: &Node) -> BTreeMap<String, BTreeMap<String, String>> {
        let mut blocks = BTreeMap::new();
        let Some(Value::Table(targets)) = tree.get("deploy").map(|entry| &entry.node.value) else {
            return blocks;
        };
        for target in targets {
            let Value::Table(_) = &target.node.value else { continue };
            let Some(env) = target.node.get("env").filter(|env| !env.node.is_null()) else {
                blocks.insert(target.key.clone(), BTreeMap::new());
                continue;
            };
            let place = self.place(env.at, &format!("deploy.{}.env", target.key));
            let block = values::environment(&env.node).map_err(|refusal| refusal.of(place));
            blocks.extend(self.faults.take(block).map(|block| (target.key.clone(), block)));
        }
        blocks
    }

    fn check_top_level(&mut self, entries: &[Entry], holder: &str) {
        // package.json has many keys of other programs.
        if PACKAGE_KEYS.contains(&holder) {
            return;
        }
        for entry in entries {
            let key = entry.key.as_str();
            // `x-…` is the usual place for values that YAML anchors refer to.
            if key == holder || OTHER_TOP_LEVEL_KEYS.contains(&key) || key.starts_with("x-") {
                continue;
            }
            let message = if keys::find(key).is_some() {
                "belongs into an app, not beside `apps`: ignored".to_owned()
            } else {
                unknown(keys::nearest(key, ["apps", "deploy"].into_iter()))
            };
            self.warnings.push(Warning { place: self.place(entry.at, key), message });
        }
    }

    /// Reads an app; errors of a key are recorded, and the other keys are read.
    fn app(&mut self, node: &Node, key: &str) -> Option<AppOptions> {
        let Value::Table(entries) = &node.value else {
            let refusal = Refusal::new(node, "an object that describes an app");
            self.faults.add(refusal.of(self.place(node.at, key)));
            return None;
        };
        let mut options = AppOptions::default();
        let mut given: BTreeMap<String, KeyOrigin> = BTreeMap::new();
        for entry in entries {
            let origin = KeyOrigin { written: entry.key.clone(), at: entry.at };
            let read = self.read_key(&mut options, entry, key);
            if read.is_err() && keys::find(&entry.key).is_some_and(|known| BASIC_KEYS.contains(&known.name)) {
                self.unusable.insert(key.to_owned());
            }
            let Some(name) = self.faults.take(read).flatten() else { continue };
            if let Some(first) = given.insert(name, origin) {
                // PM2 has files that give a key and its alias.
                let is_same =
                    |other: &&Entry| other.key == first.written && other.node.value == entry.node.value;
                if first.written != entry.key && entries.iter().any(|other| is_same(&other)) {
                    continue;
                }
                let place = self.place(entry.at, &join_key(key, &entry.key));
                let message = format!("is given twice, the other time as `{}`", first.written);
                self.faults.add(ConfigError::at(place, message).with_hint("keep one of the two"));
            }
        }
        options.serves_files = options.get("interpreter").is_none()
            && options.text("script").map(str::trim) == Some(statics::SCRIPT);
        options.origin =
            Some(Origin { file: self.path.to_owned(), app: key.to_owned(), at: node.at, keys: given });
        Some(options)
    }

    /// Variables that are lists or objects: apps get JSON, as with PM2's `env`. A check refuses them.
    fn structured_variables(&mut self, entry: &Entry, place: &Place) {
        let Value::Table(variables) = &entry.node.value else { return };
        for variable in variables {
            if !matches!(variable.node.value, Value::List(_) | Value::Table(_)) {
                continue;
            }
            let place = Place {
                key: format!("{}.{}", place.key, variable.key),
                at: variable.node.at.or(place.at),
                ..place.clone()
            };
            if self.how.is_strict {
                let refusal = Refusal::new(&variable.node, "a string, a number, true or false");
                self.faults.add(refusal.of(place));
            } else {
                let message = format!("is {}: the app gets it as JSON", variable.node);
                self.warnings.push(Warning { place, message });
            }
        }
    }

    /// Reads one key into the options; returns the name of the field that it set.
    fn read_key(
        &mut self,
        options: &mut AppOptions,
        entry: &Entry,
        app: &str,
    ) -> Result<Option<String>, ConfigError> {
        let place = self.place(entry.at, &join_key(app, &entry.key));
        if entry.node.is_null() {
            return Ok(None);
        }
        let refused = |refusal: Refusal| refusal.of(place.clone());
        if entry.key == "env" || entry.key.starts_with("env_") {
            self.structured_variables(entry, &place);
        }
        let Some(known) = keys::find(&entry.key) else {
            if let Some(name) = entry.key.strip_prefix("env_").filter(|name| !name.is_empty()) {
                let block = values::environment(&entry.node).map_err(refused)?;
                options.env_blocks.insert(name.to_owned(), block);
                return Ok(Some(entry.key.clone()));
            }
            let message = unknown(keys::nearest_key(&entry.key));
            self.warnings.push(Warning { place, message });
            return Ok(None);
        };
        match known.support {
            Support::Now => options.read(known, &entry.node).map_err(refused)?,
            Support::Foreign => {
                let message = format!("{}: ignored", known.doc);
                self.warnings.push(Warning { place, message });
                return Ok(None);
            }
        }
        Ok(Some(known.name.to_owned()))
    }
}

fn has_no_apps(tree: &Node) -> bool {
    std::iter::once(&"apps").chain(PACKAGE_KEYS).all(|key| {
        tree.get(key).is_none_or(|entry| matches!(&entry.node.value, Value::List(items) if items.is_empty()))
    })
}

fn is_bare_app(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| keys::find(&entry.key).is_some_and(|key| key.name == "script"))
}

/// An error in an app that is not wanted.
pub(crate) fn left_out(error: &ConfigError) -> Warning {
    Warning { place: Place::default(), message: format!("{error} (in an app that --only leaves out)") }
}

pub(crate) fn unknown(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("is an unknown key, ignored; did you mean `{nearest}`?"),
        None => "is an unknown key, ignored".to_owned(),
    }
}
