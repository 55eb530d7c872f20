//! Writes a choice into a configuration file without changing anything else: comments, order, whitespace and
//! all other keys stay byte for byte.
//!
//! The text is edited, then read as a configuration and compared with the old one. If anything except the
//! wanted keys differs, nothing is written, and the user gets the change to make by hand. An edit that
//! misunderstands the syntax is therefore refused and never written.

mod braces;
mod lines;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use forkful_config::{AppOptions, ConfigError, JsEvaluator};
use forkful_os::replace;
use serde_json::json;

/// The environment variable for the size of the thread pool.
pub const POOL_VARIABLE: &str = "UV_THREADPOOL_SIZE";

/// The change to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// `instances`.
    pub workers: u16,
    /// `env.UV_THREADPOOL_SIZE`; `None`: unchanged.
    pub pool: Option<u32>,
}

impl Change {
    /// The change as keys and values.
    pub fn text(&self) -> String {
        let pool = self.pool.map(|pool| format!("\nenv.{POOL_VARIABLE}: \"{pool}\"")).unwrap_or_default();
        format!("instances: {}{pool}", self.workers)
    }
}

/// Why a configuration was not changed.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// It cannot be read as a configuration.
    #[error("the configuration cannot be read")]
    Config(#[from] ConfigError),
    /// The place of the change was not found, or the edit would change other keys.
    #[error("{} is left as it is: {reason}", .file.display())]
    Refused { file: PathBuf, reason: String },
    /// Reading or writing failed.
    #[error("{} cannot be changed", .file.display())]
    File {
        file: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

/// A new configuration for a script that has none.
pub fn fresh(name: &str, script: &str, change: Change) -> String {
    let mut app = json!({ "name": name, "script": script, "instances": change.workers });
    if let Some(pool) = change.pool {
        app["env"] = json!({ POOL_VARIABLE: pool.to_string() });
    }
    let document = json!({ "apps": [app] });
    format!("{}\n", serde_json::to_string_pretty(&document).expect("a document of strings and numbers"))
}

/// Changes the app `name` in a configuration; the name is ignored if there is only one app.
pub fn apply(path: &Path, name: &str, change: Change, evaluator: &dyn JsEvaluator) -> Result<(), PatchError> {
    let failed = |source| PatchError::File { file: path.to_owned(), source };
    let refuse = |reason: &str| PatchError::Refused { file: path.to_owned(), reason: reason.to_owned() };
    let before = forkful_config::load(path, evaluator)?.apps;
    let index = place_of(&before, name).ok_or_else(|| refuse(&format!("it has no app called `{name}`")))?;
    // Follow links, so that the file itself is replaced.
    let real = fs_err::canonicalize(path).map_err(failed)?;
    let text = fs_err::read_to_string(&real).map_err(failed)?;
    let changed = edited(&real, &text, &before[index], index, change)
        .ok_or_else(|| refuse("the place to change is not plain to see"))?;
    let permissions = fs_err::metadata(&real).map_err(failed)?.permissions();
    // Next to the file, because scripts may load files relative to it, and with the same extension, which
    // determines the format.
    let draft = replace::draft(&real, permissions.mode(), changed.as_bytes()).map_err(failed)?;
    draft.as_file().set_permissions(permissions).map_err(failed)?;
    let after = forkful_config::load(draft.path(), evaluator)
        .map_err(|_| refuse("the changed text would be no configuration any more"))?
        .apps;
    if !is_only_that(&before, &after, index, change) {
        return Err(refuse("the change would change more than it should"));
    }
    draft.persist(&real).map_err(|error| failed(error.error))?;
    Ok(())
}

fn place_of(apps: &[AppOptions], name: &str) -> Option<usize> {
    if apps.len() == 1 {
        return Some(0);
    }
    apps.iter().position(|app| {
        let stem = app.text("script").and_then(|script| Path::new(script).file_stem()?.to_str());
        app.text("name").or(stem) == Some(name)
    })
}

/// The changed text; `None` if the place cannot be found.
fn edited(path: &Path, text: &str, app: &AppOptions, index: usize, change: Change) -> Option<String> {
    let extension = path.extension()?.to_str()?;
    match extension {
        "yaml" | "yml" => lines::edit(text, app, change, &lines::YAML),
        "toml" => lines::edit(text, app, change, &lines::TOML),
        "json" | "json5" | "jsonc" => braces::edit(text, index, change, true),
        _ => braces::edit(text, index, change, false),
    }
}

/// Whether two configurations differ only in the change. The position of keys may differ.
fn is_only_that(before: &[AppOptions], after: &[AppOptions], index: usize, change: Change) -> bool {
    if before.len() != after.len() {
        return false;
    }
    let mut wanted = before.to_vec();
    wanted[index].put("instances", change.workers.to_string());
    if let Some(pool) = change.pool {
        wanted[index].env.insert(POOL_VARIABLE.to_owned(), pool.to_string());
    }
    let without_origin = |apps: &[AppOptions]| -> Vec<AppOptions> {
        apps.iter().map(|app| AppOptions { origin: None, ..app.clone() }).collect()
    };
    without_origin(&wanted) == without_origin(after)
}

#[cfg(test)]
mod tests;
