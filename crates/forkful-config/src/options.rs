//! What a user may say about an app, whatever the source. Everything is optional and nothing is
//! looked up: types are right, meaning comes with [`resolve`](crate::resolve()).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::error::{ConfigError, Place};
use crate::keys::{self, Kind, KnownKey};
use crate::resolve::default_name;
use crate::tree::{self, Node, Spot};
use crate::values::{self, Refusal};

/// Where options came from, so that a fault found later still names file, line and key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// The configuration file, as the user named it.
    pub file: PathBuf,
    /// The app's place in it, as `apps[0]`; empty when the file holds a single bare app.
    pub app: String,
    /// Where the app begins, where the format has lines.
    pub at: Option<Spot>,
    /// The keys that the file gives, as it spells them, with their lines.
    pub keys: BTreeMap<String, KeyOrigin>,
}

/// One key of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyOrigin {
    /// As the file spells it (`maxRestarts`, `exec`).
    pub written: String,
    /// Where the key stands, where the format has lines.
    pub at: Option<Spot>,
}

/// What a user said about an app. Values have the form in which they travel to the daemon: a key that is a field of
/// `AppDefinition` has that field's value, so that these are a part of a definition.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AppOptions {
    /// The values by key, but for `env`.
    pub values: BTreeMap<&'static str, Value>,
    /// Environment variables, added to the caller's.
    pub env: BTreeMap<String, String>,
    /// Named blocks (`env_production` is `production`), each added when chosen.
    pub env_blocks: BTreeMap<String, BTreeMap<String, String>>,
    /// There is no script: the app is Forkful's own server of files (`static`, or `script: "serve"`).
    pub serves_files: bool,
    /// What `deploy.<name>.env` adds when that name is chosen, between `env` and the named block; empty for a target
    /// without `env`.
    pub deploy_env: BTreeMap<String, BTreeMap<String, String>>,
    /// The configuration file that these options came from; `None` for the command line.
    pub origin: Option<Origin>,
    /// Keys that the command line gave.
    pub overlaid: BTreeSet<&'static str>,
}

impl AppOptions {
    /// Options that name a script and nothing else.
    pub fn of_script(script: impl Into<String>) -> Self {
        Self::default().with("script", script.into())
    }

    /// The same with the value of a key, in the form that [`AppOptions::get`] yields.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.put(key, value);
        self
    }

    /// Puts the value of a key, in the form that [`AppOptions::get`] yields.
    pub fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.values.insert(keys::named(key).name, value.into());
    }

    /// Takes a key away.
    pub fn remove(&mut self, key: &str) {
        self.values.remove(keys::named(key).name);
    }

    /// The value of a key, where it was given; null where it was given as none.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(keys::named(key).name)
    }

    /// The value of a key that takes a text or a path.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// The value of a key that takes a path.
    pub fn path(&self, key: &str) -> Option<&Path> {
        self.text(key).map(Path::new)
    }

    /// The value of a key that takes `true` or `false`.
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.get(key)?.as_bool()
    }

    /// The value of a key that takes a list of texts.
    pub fn texts(&self, key: &str) -> Option<Vec<String>> {
        let items = self.get(key)?.as_array()?;
        Some(items.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    }

    /// The keys that were given, but for `env`.
    pub fn given(&self) -> impl Iterator<Item = &'static KnownKey> {
        self.values.keys().map(|name| keys::named(name))
    }

    /// The part of a definition that these options are as they stand.
    pub(crate) fn plain_fields(&self) -> Map<String, Value> {
        let plain = self.given().filter(|key| key.is_plain);
        plain.map(|key| (key.fields[0].to_owned(), self.values[key.name].clone())).collect()
    }

    /// What `port` sets.
    pub fn port_variable(&self) -> Option<(String, String)> {
        self.get("port").map(|port| ("PORT".to_owned(), port.to_string()))
    }

    /// Reads a value as a configuration has it.
    pub(crate) fn read(&mut self, key: &KnownKey, node: &Node) -> Result<(), Refusal> {
        match key.kind {
            Kind::Environment => self.env = values::environment(node)?,
            Kind::Any => {}
            kind => drop(self.values.insert(key.name, values::read(kind, node)?)),
        }
        Ok(())
    }

    /// Gives a key a value as an option of the command line writes it (`set("kill_timeout", "10s")`),
    /// with the same types and messages as in a file. A key that takes an object, such as `env`, is not given this way.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), ConfigError> {
        self.set_node(key, &Node { at: None, value: tree::Value::Text(text.to_owned()) })
    }

    fn set_node(&mut self, key: &str, node: &Node) -> Result<(), ConfigError> {
        let place = Place::command_line(key);
        let Some(known) = keys::find(key) else {
            return Err(Refusal::new(node, "a known option").of(place));
        };
        self.read(known, node).map_err(|refusal| Refusal { below: String::new(), ..refusal }.of(place))
    }

    /// The same for a key that takes a list, or one of `true` and `false`.
    pub fn set_list(&mut self, key: &str, texts: &[String]) -> Result<(), ConfigError> {
        match texts {
            [] => Ok(()),
            [one] => self.set(key, one),
            many => {
                let node = |value| Node { at: None, value };
                let items = many.iter().map(|text| node(tree::Value::Text(text.clone()))).collect();
                self.set_node(key, &node(tree::Value::List(items)))
            }
        }
    }

    /// Lets `over` (the command line) win over what is here (a file). Environment variables are
    /// added to the file's, also where a named block has them; everything else replaces it.
    pub fn overlay(&mut self, over: Self) {
        // In the environment of an app, `port` comes after `env`.
        if over.env.contains_key("PORT") && over.get("port").is_none() {
            self.forget_origin("port");
            self.remove("port");
        }
        for (key, value) in over.values {
            self.forget_origin(key);
            self.overlaid.insert(key);
            self.values.insert(key, value);
        }
        for name in over.env.keys() {
            for block in self.env_blocks.values_mut().chain(self.deploy_env.values_mut()) {
                block.remove(name);
            }
        }
        if !over.env.is_empty() {
            self.overlaid.insert("env");
        }
        self.env.extend(over.env);
        for (name, block) in over.env_blocks {
            self.env_blocks.entry(name).or_default().extend(block);
        }
    }

    /// These options as the command line's own: no file says anything else.
    #[must_use]
    pub fn of_command_line(self) -> Self {
        let serves_files = self.serves_files;
        let mut options = Self { serves_files, ..Self::default() };
        options.overlay(self);
        options
    }

    /// Where each key was given, as [`AppSpec::origins`](forkful_core::spec::AppSpec::origins) has it.
    pub(crate) fn origins(&self) -> BTreeMap<String, String> {
        let of_file = self.origin.iter().flat_map(|origin| {
            let file = origin.file.display();
            let is_of_program = origin.file.as_os_str().is_empty();
            origin.keys.iter().map(move |(key, given)| {
                let place = match given.at {
                    _ if is_of_program => join_key(&origin.app, &given.written),
                    Some(at) => format!("{file}:{}", at.line),
                    None => format!("{file}: {}", join_key(&origin.app, &given.written)),
                };
                (key.clone(), place)
            })
        });
        let of_command_line = self.overlaid.iter().map(|key| ((*key).to_owned(), "command line".to_owned()));
        of_file.chain(of_command_line).collect()
    }

    fn forget_origin(&mut self, key: &str) {
        if let Some(origin) = &mut self.origin {
            origin.keys.remove(key);
        }
    }

    /// Whether the file (not the command line) gave this key.
    pub(crate) fn is_from_file(&self, key: &str) -> bool {
        self.origin.as_ref().is_some_and(|origin| origin.keys.contains_key(key))
    }

    /// Where a key was given: in the file, or on the command line.
    pub(crate) fn place(&self, key: &str) -> Place {
        match &self.origin {
            Some(origin) => match origin.keys.get(key) {
                Some(given) => Place {
                    file: Some(origin.file.clone()),
                    at: given.at,
                    key: join_key(&origin.app, &given.written),
                },
                None => Place::command_line(key),
            },
            None => Place::command_line(key),
        }
    }

    /// The app's name, as far as it can be told without looking for the script.
    pub fn declared_name(&self) -> Option<String> {
        let default = || {
            if self.serves_files {
                return Some(crate::statics::default_name(&self.env));
            }
            self.text("script").map(default_name)
        };
        self.text("name").map(str::to_owned).or_else(default)
    }

    /// Where the app as a whole stands.
    pub(crate) fn app_place(&self) -> Place {
        match &self.origin {
            Some(origin) => Place { file: Some(origin.file.clone()), at: origin.at, key: origin.app.clone() },
            None => Place { key: "the command line".to_owned(), ..Place::default() },
        }
    }
}

/// `apps[0]` and `name` as `apps[0].name`.
pub(crate) fn join_key(app: &str, key: &str) -> String {
    if app.is_empty() { key.to_owned() } else { format!("{app}.{key}") }
}
