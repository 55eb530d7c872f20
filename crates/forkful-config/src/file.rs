//! Configuration files: which files are configurations, and how each is read. `reader.rs` reads the apps of a
//! document.

mod reader;

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::deploy::{self, DeployTarget};
use crate::error::{ConfigError, Place, Warning};
use crate::faults::Faults;
use crate::options::AppOptions;
use crate::read::script::{JsEvaluator, ScriptPlace};
use crate::read::{self, SyntaxFault};
use crate::regular;
use crate::tree::{Lines, Node, Spot};
use reader::apps_of;
pub(crate) use reader::{left_out, unknown};

/// Maximum bytes of a configuration; 1,000 apps need about 500 KB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The extensions of configurations, in the order in which [`find_default`] looks for them.
const EXTENSIONS: &[&str] = &["js", "cjs", "mjs", "ts", "mts", "cts", "json", "yaml", "yml", "toml"];

/// Top-level keys next to `apps` that are read elsewhere or by other programs.
const OTHER_TOP_LEVEL_KEYS: &[&str] = &["deploy", "static", "$schema"];

/// Keys of a package.json that contain apps.
const PACKAGE_KEYS: &[&str] = &["forkful", "pm2"];

/// Without these an app cannot be checked any further.
const BASIC_KEYS: &[&str] = &["script", "cwd", "interpreter"];

/// A parsed configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigFile {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// Its apps, in order; at least one, unless it was read for its `deploy` section.
    pub apps: Vec<AppOptions>,
    /// Its warnings.
    pub warnings: Vec<Warning>,
    /// What a JavaScript config printed while it was evaluated.
    pub output: String,
    /// The whole document, for sections other than the apps.
    pub(crate) tree: Node,
}

impl ConfigFile {
    /// The deployment targets. Read only on request, so that an unfinished block does not prevent apps from
    /// being started.
    pub fn deploy_targets(&self) -> Result<Vec<DeployTarget>, ConfigError> {
        let mut faults = Faults::default();
        let targets = deploy::all_targets(&self.tree, &self.path, &mut faults);
        faults.or_value(targets)
    }
}

/// The format of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON with comments and trailing commas.
    Json,
    /// YAML 1.2.
    Yaml,
    /// TOML.
    Toml,
    /// JavaScript or TypeScript, which is evaluated.
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

/// Whether a path is a configuration and not a script: a data format, or a script whose name contains
/// `.config.`.
pub fn is_config(path: &Path) -> bool {
    match Format::of(path) {
        Some(Format::Script) => {
            path.file_name().is_some_and(|name| name.to_string_lossy().contains(".config."))
        }
        Some(Format::Json | Format::Yaml | Format::Toml) => true,
        None => false,
    }
}

/// The configuration of a directory: `forkful.config.*`, otherwise `ecosystem.config.*`, otherwise PM2's
/// older `ecosystem.*`, otherwise a package.json with a key for one.
pub fn find_default(dir: &Path) -> Option<PathBuf> {
    let older = ["json", "json5", "yml", "yaml"].map(|extension| dir.join(format!("ecosystem.{extension}")));
    ["forkful.config", "ecosystem.config"]
        .iter()
        .flat_map(|stem| EXTENSIONS.iter().map(move |extension| dir.join(format!("{stem}.{extension}"))))
        .chain(older)
        .find(|path| path.is_file())
        .or_else(|| Some(dir.join("package.json")).filter(|path| holds_apps(path)))
}

/// Whether a package.json has one of our keys.
fn holds_apps(path: &Path) -> bool {
    let text = read_text(path).unwrap_or_default();
    read::json::parse(&text).is_ok_and(|tree| PACKAGE_KEYS.iter().any(|key| tree.get(key).is_some()))
}

/// Reads a configuration. Nothing is looked up except what its syntax needs.
pub fn load(path: &Path, evaluator: &dyn JsEvaluator) -> Result<ConfigFile, ConfigError> {
    load_only(path, evaluator, &[])
}

/// [`load`] for the apps that these texts of `--only` choose (without texts, all): an error in another app is a
/// warning, and that app is omitted.
pub fn load_only(
    path: &Path,
    evaluator: &dyn JsEvaluator,
    only: &[String],
) -> Result<ConfigFile, ConfigError> {
    loaded(path, evaluator, How { only, ..How::default() })
}

/// [`load`] of a configuration that may have a `deploy` section alone.
pub fn load_for_deploy(path: &Path, evaluator: &dyn JsEvaluator) -> Result<ConfigFile, ConfigError> {
    loaded(path, evaluator, How { is_for_deploy: true, ..How::default() })
}

fn loaded(path: &Path, evaluator: &dyn JsEvaluator, how: How<'_>) -> Result<ConfigFile, ConfigError> {
    let Read { config, faults, .. } = read_with_text(path, evaluator, how).1?;
    faults.or_value(config)
}

/// How a configuration is read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct How<'a> {
    /// The wanted apps, as in [`chosen_names`](crate::chosen_names); if empty, all.
    pub(crate) only: &'a [String],
    /// Whether settings that are valid but probably not intended are errors.
    pub(crate) is_strict: bool,
    /// Whether a `deploy` section is enough, without apps.
    pub(crate) is_for_deploy: bool,
}

/// A completely read configuration, with its errors.
pub(crate) struct Read {
    /// The valid parts.
    pub(crate) config: ConfigFile,
    /// The errors.
    pub(crate) faults: Faults,
    /// Apps with too many errors for further checks, as `apps[0]`.
    pub(crate) unusable: BTreeSet<String>,
}

/// Reads a file, and returns its text too.
pub(crate) fn read_with_text(
    path: &Path,
    evaluator: &dyn JsEvaluator,
    how: How<'_>,
) -> (String, Result<Read, ConfigError>) {
    let format = Format::of(path).ok_or_else(|| unknown_format(path));
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
    let absolute = std::path::absolute(path).map_err(|cause| unreadable(path, cause))?;
    let result = evaluator.evaluate(&absolute).map_err(|fault| {
        let lines = Lines::new(text);
        let at = fault.at.map(|ScriptPlace { line, column, length }| match column {
            Some(column) => lines.columns(line, column, length),
            None => lines.whole(line),
        });
        let error = ConfigError::at(Place::in_file(path, at, ""), fault.message);
        fault.hint.into_iter().fold(error, ConfigError::with_hint)
    })?;
    let mut tree = Node::from_json(&result.value);
    read::located::locate(&mut tree, text);
    let mut read = apps_of(&tree, path, how)?;
    read.config.output = result.output;
    Ok(read)
}

/// Reads a configuration from a text; `path` is its name in messages and the base of relative paths. A script
/// cannot be read this way.
pub fn parse(text: &str, format: Format, path: &Path) -> Result<ConfigFile, ConfigError> {
    let Read { config, faults, .. } = read_text_as(text, format, path, How::default())?;
    faults.or_value(config)
}

/// Reads a configuration that is in no file; messages name `name` and no position, and relative paths start beside it.
pub fn of_value(value: &serde_json::Value, name: &Path) -> Result<ConfigFile, ConfigError> {
    let Read { config, faults, .. } = apps_of(&Node::from_json(value), name, How::default())?;
    faults.or_value(config)
}

/// [`parse`] for the apps with these names, with all errors.
pub(crate) fn read_text_as(
    text: &str,
    format: Format,
    path: &Path,
    how: How<'_>,
) -> Result<Read, ConfigError> {
    let tree = tree_of(text, format).ok_or_else(|| unknown_format(path))?;
    let tree =
        tree.map_err(|SyntaxFault { at, message }| ConfigError::at(Place::in_file(path, at, ""), message))?;
    apps_of(&tree, path, how)
}

/// Parses a text by its format; `None` for a script, which has to be evaluated.
pub(crate) fn tree_of(text: &str, format: Format) -> Option<Result<Node, SyntaxFault>> {
    match format {
        Format::Json => Some(read::json::parse(text)),
        Format::Yaml => Some(read::yaml::parse(text)),
        Format::Toml => Some(read::toml::parse(text)),
        Format::Script => None,
    }
}

fn unknown_format(path: &Path) -> ConfigError {
    ConfigError::new(format!("cannot tell the format of {} by its name", path.display()))
        .with_hint("known are .js, .cjs, .mjs, .ts, .json, .yaml, .yml and .toml")
}

fn unreadable(path: &Path, cause: std::io::Error) -> ConfigError {
    let is_missing = cause.kind() == std::io::ErrorKind::NotFound;
    let error = ConfigError::new(format!("cannot read {}", path.display())).caused_by(cause);
    if is_missing {
        return error
            .with_hint("name a script or a configuration file; `forkful.config.js` is the usual one");
    }
    error
}

fn read_text(path: &Path) -> Result<String, ConfigError> {
    let read = |cause| unreadable(path, cause);
    let mut bytes = Vec::new();
    let mut file = regular::open(path).map_err(read)?;
    file.by_ref().take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(read)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(ConfigError::new(format!(
            "{} has {} bytes; a configuration has at most {FILE_BYTES_MAX}",
            path.display(),
            file.metadata().map_err(read)?.len()
        )));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = Spot::of_line(valid.split(|byte| *byte == b'\n').count());
        ConfigError::at(Place::in_file(path, Some(line), ""), "the text is not UTF-8")
    })?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}
