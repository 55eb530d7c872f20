//! Configuration files: which files are some, where their apps are, and what each app says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::deploy::{self, DeployTarget};
use crate::error::{ConfigError, Place, Warning};
use crate::faults::Faults;
use crate::keys::{self, Support};
use crate::options::{AppOptions, KeyOrigin, Origin, join_key};
use crate::read::script::JsEvaluator;
use crate::read::{self, SyntaxFault};
use crate::resolve::default_name;
use crate::statics;
use crate::tree::{Entry, Lines, Node, Spot, Value};
use crate::values;

/// The most bytes of a configuration; 1,000 apps need some 500 KB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The extensions of configurations, in the order in which [`find_default`] looks for them.
const EXTENSIONS: &[&str] = &["js", "cjs", "mjs", "ts", "mts", "cts", "json", "yaml", "yml", "toml"];

/// Keys beside `apps` that are read elsewhere or by others.
const OTHER_TOP_LEVEL_KEYS: &[&str] = &["deploy", "static", "$schema"];

/// Keys under which a package.json holds apps.
const PACKAGE_KEYS: &[&str] = &["forkful", "pm2"];

/// Without these an app cannot be looked at any further.
const BASIC_KEYS: &[&str] = &["script", "cwd", "interpreter"];

/// A configuration that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigFile {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// Its apps, in order, at least one.
    pub apps: Vec<AppOptions>,
    /// What is odd about it.
    pub warnings: Vec<Warning>,
    /// What a JavaScript config printed while it was evaluated.
    pub output: String,
    /// The whole document, for what is beside the apps.
    tree: Node,
}

impl ConfigFile {
    /// Where the apps can be deployed to. Read only when asked for, so that a block that is not filled
    /// in yet keeps no app from being started.
    pub fn deploy_targets(&self) -> Result<Vec<DeployTarget>, ConfigError> {
        let mut faults = Faults::default();
        let targets = deploy::all_targets(&self.tree, &self.path, &mut faults);
        faults.or_value(targets)
    }

    pub(crate) fn tree(&self) -> &Node {
        &self.tree
    }
}

/// The grammar of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON with comments and trailing commas.
    Json,
    /// YAML 1.2.
    Yaml,
    /// TOML.
    Toml,
    /// JavaScript or TypeScript, to be evaluated.
    Script,
}

impl Format {
    fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "js" | "cjs" | "mjs" | "ts" | "mts" | "cts" => Some(Self::Script),
            "json" | "json5" | "jsonc" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            "toml" => Some(Self::Toml),
            _ => None,
        }
    }
}

/// Whether a path names a configuration and not a script: a data format, or a script whose name contains `.config.`.
pub fn is_config(path: &Path) -> bool {
    match Format::of(path) {
        Some(Format::Script) => {
            path.file_name().is_some_and(|name| name.to_string_lossy().contains(".config."))
        }
        Some(Format::Json | Format::Yaml | Format::Toml) => true,
        None => false,
    }
}

/// The configuration of a directory: `forkful.config.*`, else `ecosystem.config.*`, else PM2's older
/// `ecosystem.*`, else a package.json that has a key for one.
pub fn find_default(dir: &Path) -> Option<PathBuf> {
    let older = ["json", "json5", "yml", "yaml"].map(|extension| dir.join(format!("ecosystem.{extension}")));
    ["forkful.config", "ecosystem.config"]
        .iter()
        .flat_map(|stem| EXTENSIONS.iter().map(move |extension| dir.join(format!("{stem}.{extension}"))))
        .chain(older)
        .find(|path| path.is_file())
        .or_else(|| Some(dir.join("package.json")).filter(|path| holds_apps(path)))
}

/// Whether a package.json has a key for us.
fn holds_apps(path: &Path) -> bool {
    let text = read_text(path).unwrap_or_default();
    read::json::parse(&text).is_ok_and(|tree| PACKAGE_KEYS.iter().any(|key| tree.get(key).is_some()))
}

/// Reads a configuration. Nothing is looked up yet but what its syntax needs.
pub fn load(path: &Path, evaluator: &dyn JsEvaluator) -> Result<ConfigFile, ConfigError> {
    load_only(path, evaluator, &[])
}

/// [`load`] for the apps of these names (all, when there are none): a fault in another app is a warning, and that app
/// is left out.
pub fn load_only(
    path: &Path,
    evaluator: &dyn JsEvaluator,
    only: &[String],
) -> Result<ConfigFile, ConfigError> {
    let Read { config, faults, .. } = read_with_text(path, evaluator, How { only, is_strict: false }).1?;
    faults.or_value(config)
}

/// How a configuration is read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct How<'a> {
    /// Apps that are wanted; all, when empty.
    pub(crate) only: &'a [String],
    /// Whether what is understood, but probably not meant, is a fault too.
    pub(crate) is_strict: bool,
}

/// A configuration that was read to its end, whatever is wrong with it.
pub(crate) struct Read {
    /// What is right about it.
    pub(crate) config: ConfigFile,
    /// What is wrong with it.
    pub(crate) faults: Faults,
    /// Apps of which so much is wrong that it makes no sense to look further, as `apps[0]`.
    pub(crate) unusable: BTreeSet<String>,
}

/// Reads a file, and yields its text too.
pub(crate) fn read_with_text(
    path: &Path,
    evaluator: &dyn JsEvaluator,
    how: How<'_>,
) -> (String, Result<Read, ConfigError>) {
    let format = Format::of(path).ok_or_else(|| ConfigError::UnknownFormat { path: path.to_owned() });
    match format.and_then(|format| Ok((format, read_text(path)?))) {
        Err(fault) => (String::new(), Err(fault)),
        Ok((Format::Script, text)) => {
            let read = evaluated(&text, path, evaluator, how);
            (text, read)
        }
        Ok((format, text)) => {
            let read = read_text_as(&text, format, path, how);
            (text, read)
        }
    }
}

fn evaluated(
    text: &str,
    path: &Path,
    evaluator: &dyn JsEvaluator,
    how: How<'_>,
) -> Result<Read, ConfigError> {
    let absolute =
        std::path::absolute(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    let result = evaluator.evaluate(&absolute).map_err(|fault| ConfigError::Evaluate {
        place: Place {
            file: Some(path.to_owned()),
            at: fault.line.map(|line| Lines::new(text).whole(line)),
            key: String::new(),
        },
        message: fault.message,
        hint: fault.hint,
    })?;
    let mut read = apps_of(&read::script::tree(&result), path, how)?;
    read.config.output = result.output;
    Ok(read)
}

/// Reads a configuration from a text; `path` is what messages call it and what relative paths start from.
/// A script cannot be read this way.
pub fn parse(text: &str, format: Format, path: &Path) -> Result<ConfigFile, ConfigError> {
    let Read { config, faults, .. } = read_text_as(text, format, path, How::default())?;
    faults.or_value(config)
}

/// [`parse`] for the apps of these names, with all that is wrong.
pub(crate) fn read_text_as(
    text: &str,
    format: Format,
    path: &Path,
    how: How<'_>,
) -> Result<Read, ConfigError> {
    let tree = match format {
        Format::Json => read::json::parse(text),
        Format::Yaml => read::yaml::parse(text),
        Format::Toml => read::toml::parse(text),
        Format::Script => return Err(ConfigError::UnknownFormat { path: path.to_owned() }),
    };
    let tree = tree.map_err(|SyntaxFault { at, message }| ConfigError::Syntax {
        place: Place { file: Some(path.to_owned()), at, key: String::new() },
        message,
    })?;
    apps_of(&tree, path, how)
}

fn read_text(path: &Path) -> Result<String, ConfigError> {
    let read = |source| ConfigError::Read { path: path.to_owned(), source };
    let metadata = fs_err::metadata(path).map_err(read)?;
    if !metadata.is_file() {
        let kind = if metadata.is_dir() { "is a directory" } else { "is not a regular file" };
        return Err(read(std::io::Error::other(kind)));
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(ConfigError::TooLarge {
            path: path.to_owned(),
            bytes: metadata.len(),
            bytes_max: FILE_BYTES_MAX,
        });
    }
    let bytes = fs_err::read(path).map_err(read)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        ConfigError::Syntax {
            place: Place {
                file: Some(path.to_owned()),
                at: Some(Spot::of_line(valid.split(|byte| *byte == b'\n').count())),
                key: String::new(),
            },
            message: "the text is not UTF-8".to_owned(),
        }
    })?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Finds the apps in a document and reads each.
fn apps_of(tree: &Node, path: &Path, how: How<'_>) -> Result<Read, ConfigError> {
    let mut reader =
        Reader { path, how, warnings: Vec::new(), faults: Faults::default(), unusable: BTreeSet::new() };
    let files = statics::apps(tree, path, &mut reader.warnings, &mut reader.faults);
    let mut apps = match reader.apps(tree) {
        // A configuration may hold nothing but directories to serve.
        Err(ConfigError::Shape { .. }) if !files.is_empty() && has_no_apps(tree) => Vec::new(),
        Err(ConfigError::Shape { .. }) if reader.faults.count() > 0 && has_no_apps(tree) => Vec::new(),
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

fn check_names(apps: &[AppOptions], faults: &mut Faults) {
    let mut names = BTreeSet::new();
    for app in apps {
        if let Some(name) = app.declared_name()
            && !names.insert(name.clone())
        {
            faults.add(ConfigError::DuplicateName { place: app.app_place(), name });
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
        Place { file: Some(self.path.to_owned()), at, key: key.to_owned() }
    }

    fn shape(&self, node: &Node, key: &str, message: impl Into<String>) -> ConfigError {
        ConfigError::Shape { place: self.place(node.at, key), message: message.into() }
    }

    fn apps(&mut self, tree: &Node) -> Result<Vec<AppOptions>, ConfigError> {
        let (nodes, key): (&Node, &str) = match &tree.value {
            Value::List(_) => (tree, ""),
            Value::Table(entries) => {
                let holder = std::iter::once(&"apps").chain(PACKAGE_KEYS).find_map(|key| tree.get(key));
                match holder {
                    // A package.json may hold all of a configuration: `{ "forkful": { "apps": […] } }`.
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
            Value::List(items) if items.is_empty() => Err(self.shape(nodes, key, "has no apps")),
            Value::List(items) => {
                let mut apps = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    let before = self.faults.count();
                    apps.extend(self.app(item, &format!("{key}[{index}]")));
                    if self.leaves_out(item) && self.faults.count() > before {
                        apps.pop();
                        self.warnings.extend(self.faults.since(before).first().map(left_out));
                    }
                }
                Ok(apps)
            }
            Value::Table(_) => Ok(self.app(nodes, key).into_iter().collect()),
            _ => Err(ConfigError::Value {
                place: self.place(nodes.at, key),
                value: nodes.to_string(),
                expected: "a list of apps".to_owned(),
            }),
        }
    }

    /// Whether an app is certainly none of those that are wanted.
    fn leaves_out(&self, app: &Node) -> bool {
        let text = |key| app.get(key).and_then(|entry| values::text(&entry.node).ok());
        let name = text("name").or_else(|| text("script").as_deref().map(default_name));
        !self.how.only.is_empty() && name.is_some_and(|name| !self.how.only.contains(&name))
    }

    /// The `env` of each target of `deploy`, which PM2 adds to an app that is started with `--env <target>`.
    fn deploy_env(&mut self, tree: &Node) -> BTreeMap<String, BTreeMap<String, String>> {
        let mut blocks = BTreeMap::new();
        let Some(Value::Table(targets)) = tree.get("deploy").map(|entry| &entry.node.value) else {
            return blocks;
        };
        for target in targets {
            let Some(env) = target.node.get("env").filter(|env| !env.node.is_null()) else { continue };
            let block = values::environment(&env.node).map_err(|refusal| {
                let key = format!("deploy.{}.env{}", target.key, refusal.below);
                ConfigError::Value {
                    place: self.place(refusal.at.or(env.at), &key),
                    value: refusal.value,
                    expected: refusal.expected,
                }
            });
            blocks.extend(self.faults.take(block).map(|block| (target.key.clone(), block)));
        }
        blocks
    }

    fn check_top_level(&mut self, entries: &[Entry], holder: &str) {
        // package.json is full of keys that are none of ours.
        if PACKAGE_KEYS.contains(&holder) {
            return;
        }
        for entry in entries {
            let key = entry.key.as_str();
            // `x-…` is the usual place for what YAML anchors refer to.
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

    /// Reads an app; what is wrong with a key is noted, and the other keys are read.
    fn app(&mut self, node: &Node, key: &str) -> Option<AppOptions> {
        let Value::Table(entries) = &node.value else {
            self.faults.add(ConfigError::Value {
                place: self.place(node.at, key),
                value: node.to_string(),
                expected: "an object that describes an app".to_owned(),
            });
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
                self.faults.add(ConfigError::DuplicateKey {
                    place: self.place(entry.at, &join_key(key, &entry.key)),
                    other: first.written,
                });
            }
        }
        options.serves_files = options.get("interpreter").is_none()
            && options.text("script").map(str::trim) == Some(statics::SCRIPT);
        options.origin =
            Some(Origin { file: self.path.to_owned(), app: key.to_owned(), at: node.at, keys: given });
        Some(options)
    }

    /// Variables that are lists or objects: apps get JSON, as PM2 gives it to them for `env`. A check refuses them.
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
            let value = variable.node.to_string();
            if self.how.is_strict {
                let expected = "a string, a number, true or false".to_owned();
                self.faults.add(ConfigError::Value { place, value, expected });
            } else {
                let message = format!("is {value}: the app gets it as JSON");
                self.warnings.push(Warning { place, message });
            }
        }
    }

    /// Reads one key into the options; yields the name of the field that it set.
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
        let refused = |refusal: values::Refusal| {
            let mut place = place.clone();
            place.key.push_str(&refusal.below);
            place.at = refusal.at.or(place.at);
            ConfigError::Value { place, value: refusal.value, expected: refusal.expected }
        };
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

/// A fault in an app that is not wanted.
pub(crate) fn left_out(error: &ConfigError) -> Warning {
    Warning { place: Place::default(), message: format!("{error} (in an app that --only leaves out)") }
}

fn has_no_apps(tree: &Node) -> bool {
    std::iter::once(&"apps").chain(PACKAGE_KEYS).all(|key| {
        tree.get(key).is_none_or(|entry| matches!(&entry.node.value, Value::List(items) if items.is_empty()))
    })
}

fn is_bare_app(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| keys::find(&entry.key).is_some_and(|key| key.name == "script"))
}

pub(crate) fn unknown(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("is an unknown key, ignored; did you mean `{nearest}`?"),
        None => "is an unknown key, ignored".to_owned(),
    }
}
