//! Options of `restart` and `reload` for existing apps, converted to a change request for the daemon. The
//! options are resolved like those of a new app; only the keys of given options are sent.

use std::collections::{BTreeMap, BTreeSet};

use forkful_api::types::{AppChange, AppDefinition, AppView, ModeKind, RuntimeKind};
use forkful_config::{AppOptions, Change};
use forkful_core::pages::Page;
use forkful_core::spec::environment::is_for_other_users;
use serde_json::{Map, Value};

use crate::cli::AppOptionArgs;
use crate::exit::{Exit, Failure};
use crate::specs::Specs;

/// Node's flag for `source_map_support`, which is one of the interpreter's arguments.
const SOURCE_MAPS: &str = "--enable-source-maps";

/// The requested changes of apps.
pub(crate) struct Wanted<'a> {
    /// The caller's environment and directory.
    pub(crate) specs: &'a Specs,
    /// The given options.
    pub(crate) options: &'a AppOptions,
    /// Add the caller's environment to the app's.
    pub(crate) update_env: bool,
    /// The block of the configuration to apply, for apps that have a block of that name.
    pub(crate) env_name: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    /// From the options of a command line.
    pub(crate) fn of_command_line(specs: &'a Specs, options: &'a AppOptions, args: &AppOptionArgs) -> Self {
        Self { specs, options, update_env: args.other.update_env, env_name: specs.env_name.as_deref() }
    }

    /// Whether nothing is changed.
    pub(crate) fn is_nothing(&self) -> bool {
        !self.update_env && self.env_name.is_none() && *self.options == AppOptions::default()
    }

    /// Refuses a block name that none of the apps has, if they have other blocks: the name is misspelt. Apps
    /// without any blocks get individual messages.
    pub(crate) fn check_block(&self, apps: &[AppView]) -> Result<(), Failure> {
        let Some(name) = self.env_name else { return Ok(()) };
        let blocks = apps.iter().flat_map(|app| app.definition.env_sources.blocks.named.keys());
        let known: BTreeSet<&str> = blocks.map(String::as_str).collect();
        if known.is_empty() || known.contains(name) {
            return Ok(());
        }
        let names: Vec<&str> = apps.iter().map(|app| app.definition.name.as_str()).collect();
        let error = format!("{} has no `env_{name}`", names.join(", "));
        let known: Vec<String> = known.into_iter().map(|name| format!("env_{name}")).collect();
        Err(Failure::new(Exit::WrongUse, error)
            .hint(format!("there is {}", known.join(", ")))
            .see(Page::Environment))
    }

    /// The block for an app.
    fn block(&self, present: &AppDefinition) -> Option<String> {
        let name = self.env_name?;
        if present.env_sources.blocks.named.contains_key(name) {
            return Some(name.to_owned());
        }
        crate::output::warn(&format!("{} has no `env_{name}`: it keeps its environment", present.name));
        None
    }

    /// The change of one app. `present` is its definition from the daemon, without the environment.
    pub(crate) fn of(&self, present: &AppDefinition) -> Result<AppChange, Failure> {
        refuse_unchangeable(self.options, &present.name)?;
        let mut options = as_options(present);
        options.overlay(self.options.clone());
        if options.get("watch").is_none() && refine_watch(&options) {
            options.put("watch", true);
        }
        let after = AppDefinition::from(&self.specs.quietly(&options)?);
        let mut definition = Map::new();
        if let Ok(Value::Object(after)) = serde_json::to_value(&after) {
            let named = keys(self.options, present);
            definition.extend(after.into_iter().filter(|(key, _)| named.contains(&key.as_str())));
        }
        let given = after.origins.iter().filter(|(key, _)| key.as_str() != "env");
        let origins: BTreeMap<&String, &String> = present.origins.iter().chain(given).collect();
        if !definition.is_empty() {
            definition.insert("origins".to_owned(), serde_json::json!(origins));
        }
        if let Some(watch) = watch(self.options, present, &after)? {
            definition.insert("watch".to_owned(), watch);
        }
        Ok(AppChange {
            name: present.name.clone(),
            definition,
            env: self.env(),
            env_name: self.block(present),
            caller_env: self.caller_env(present),
        })
    }

    /// The variables that an app gets from the caller's environment.
    fn caller_env(&self, present: &AppDefinition) -> BTreeMap<String, String> {
        let mut env = if self.update_env { self.specs.env.clone() } else { BTreeMap::new() };
        if present.is_of_another_user(rustix::process::geteuid().as_raw()) {
            env.retain(|name, _| is_for_other_users(name));
        }
        env
    }

    /// The variables set explicitly for the app.
    fn env(&self) -> BTreeMap<String, String> {
        self.options.env.clone().into_iter().chain(self.options.port_variable()).collect()
    }
}

/// An existing app as options, for resolving other options against it.
fn as_options(present: &AppDefinition) -> AppOptions {
    let script = present.script.clone().unwrap_or_else(|| present.program.clone());
    let is_file = script.starts_with('/') && present.script.is_some();
    let is_node = present.runtime == RuntimeKind::Node;
    let (maps, node_args): (Vec<_>, Vec<_>) =
        present.program_args.iter().cloned().partition(|word| word == SOURCE_MAPS);
    let mut options = AppOptions::of_script(script)
        .with("name", present.name.as_str())
        .with("cwd", present.cwd.as_str())
        .with("source_map_support", !maps.is_empty());
    if is_file {
        options.put("interpreter", present.program.as_str());
    }
    if is_node {
        options.put("node_args", node_args);
    }
    options
}

/// Refuses options that determine how an app is started and that the daemon does not report.
fn refuse_unchangeable(options: &AppOptions, name: &str) -> Result<(), Failure> {
    let key = options.given().find(|key| key.change == Change::NewApp).map(|key| match key.option {
        Some(_) => format!("--{}", key.name.replace('_', "-")),
        // From JavaScript, where every key of a configuration can be given.
        None => key.name.to_owned(),
    });
    let block = || (!options.env_blocks.is_empty()).then(|| "an `env_<name>` block".to_owned());
    match key.or_else(block) {
        None => Ok(()),
        Some(option) => {
            let error = format!("{option} cannot be changed of an app that exists");
            Err(Failure::new(Exit::WrongUse, error).hint(format!(
                "`forkful delete {name}` and start it again, or restart it with a config file that changes it"
            )))
        }
    }
}

/// The fields of a definition that the options set, except the watch settings.
fn keys(options: &AppOptions, present: &AppDefinition) -> Vec<&'static str> {
    let fields = options.given().flat_map(|key| key.fields).copied();
    let mut keys: Vec<&str> = fields.filter(|field| *field != "watch").collect();
    // A single process that becomes several shares its port from then on, as with `start -i`; an app
    // configured with several independent processes keeps its mode.
    let is_single = present.mode == ModeKind::Fork && present.instances == 1;
    if options.get("instances").is_some() && is_single && present.runtime == RuntimeKind::Node {
        keys.push("mode");
    }
    keys
}

/// Whether options refine what is watched, beyond enabling it.
fn refine_watch(options: &AppOptions) -> bool {
    options.get("ignore_watch").is_some() || options.get("watch_delay").is_some()
}

/// The new watch settings (null for none), if an option concerns them; settings that were not given stay.
fn watch(
    options: &AppOptions,
    present: &AppDefinition,
    after: &AppDefinition,
) -> Result<Option<Value>, Failure> {
    match (options.get("watch"), &present.watch) {
        (None, _) if !refine_watch(options) => Ok(None),
        (None, None) => Err(Failure::new(
            Exit::WrongUse,
            format!("`{}` is not watched, so there is nothing to ignore or to wait for", present.name),
        )
        .hint("add `--watch`")),
        (Some(Value::Bool(false)), _) => Ok(Some(Value::Null)),
        (given, before) => {
            let mut watch = after.watch.clone();
            if let (Some(watch), Some(before)) = (&mut watch, before) {
                if given.is_none() {
                    watch.paths.clone_from(&before.paths);
                    watch.follow_links = before.follow_links;
                    watch.polling = before.polling;
                }
                if options.get("ignore_watch").is_none() {
                    watch.ignore.clone_from(&before.ignore);
                }
                if options.get("watch_delay").is_none() {
                    watch.delay = before.delay;
                }
            }
            let watch = serde_json::to_value(watch).map_err(|e| Failure::caused(Exit::Failed, e.into()))?;
            Ok(Some(watch))
        }
    }
}
