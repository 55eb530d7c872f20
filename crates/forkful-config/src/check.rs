//! Finds all errors of a configuration at once, for `forkful validate`.

use std::path::Path;

use crate::deploy::{self, DeployTarget};
use crate::error::{ConfigError, Warning};
use crate::faults::Faults;
use crate::file::{self, Format, How, Read};
use crate::options::AppOptions;
use crate::read::script::JsEvaluator;
use crate::resolve::{self, Context, Resolved};

/// The content of a configuration, and all its errors.
#[derive(Debug, Default)]
pub struct Report {
    /// The valid apps.
    pub apps: Vec<Resolved>,
    /// The valid deployment targets.
    pub targets: Vec<DeployTarget>,
    /// Errors of the file, its apps and its targets; empty if the configuration is usable.
    pub faults: Vec<ConfigError>,
    /// Warnings.
    pub warnings: Vec<Warning>,
    /// What a JavaScript config printed while it was evaluated.
    pub output: String,
    /// The file's text, for excerpts; empty if the file cannot be read.
    pub text: String,
}

const STRICT: How<'static> = How { only: &[], is_strict: true, is_for_deploy: false };

/// Checks a file. Unlike [`load`](crate::load()) it continues after each error.
pub fn check(path: &Path, evaluator: &dyn JsEvaluator, context: &Context) -> Report {
    match file::read_with_text(path, evaluator, STRICT) {
        (text, Ok(read)) => report(text, read, context),
        (text, Err(fault)) => Report { text, faults: vec![fault], ..Report::default() },
    }
}

/// Checks a text; `path` is its name in messages and the base of relative paths.
pub fn check_text(text: String, format: Format, path: &Path, context: &Context) -> Report {
    match file::read_text_as(&text, format, path, STRICT) {
        Ok(read) => report(text, read, context),
        Err(fault) => Report { text, faults: vec![fault], ..Report::default() },
    }
}

fn report(text: String, read: Read, context: &Context) -> Report {
    let Read { mut config, mut faults, unusable } = read;
    let targets = deploy::all_targets(&config.tree, &config.path, &mut faults);
    let mut warnings = std::mem::take(&mut config.warnings);
    let apps = std::mem::take(&mut config.apps);
    // If the script or directory of an app is unreadable, further checks would only report consequential
    // errors.
    let is_usable =
        |app: &AppOptions| app.origin.as_ref().is_none_or(|origin| !unusable.contains(&origin.app));
    let usable: Vec<AppOptions> = apps.into_iter().filter(is_usable).collect();
    let mut resolved = resolve::all(&usable, context, &mut faults);
    for app in &mut resolved {
        warnings.append(&mut app.warnings);
    }
    for options in &usable {
        if let Some(fault) = resolve::instances::leaves_no_worker(options, context) {
            warnings.retain(|warning| warning.place != options.place("instances"));
            faults.add(fault);
        }
    }
    Report { apps: resolved, targets, faults: sorted(faults), warnings, output: config.output, text }
}

/// Sorts errors by their order in the file.
fn sorted(faults: Faults) -> Vec<ConfigError> {
    let mut list = faults.into_list();
    list.sort_by_key(|fault| fault.place().and_then(|place| place.at).map(|at| (at.line, at.start)));
    list
}
