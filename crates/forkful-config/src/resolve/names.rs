//! What an app is called, its group, and what it waits for.

use std::collections::{BTreeMap, BTreeSet};

use forkful_core::spec::{AppName, AppNameFault, Namespace};

use super::{Context, Resolved};
use crate::error::{ConfigError, Place, Warning};
use crate::options::AppOptions;
use crate::tree::quoted;

/// The app's name: as given, or after its script, with `name_prefix` and the chosen block's name.
pub(super) fn name(options: &AppOptions, default: &str, context: &Context) -> Result<AppName, ConfigError> {
    let (base, place) = match options.text("name") {
        Some(name) => (name, options.place("name")),
        None => (default, options.place("script")),
    };
    let mut name = match options.text("name_prefix") {
        Some(prefix) => format!("{prefix}:{base}"),
        None => base.to_owned(),
    };
    if let (Some(true), Some(block)) = (options.flag("append_env_to_name"), &context.env_name) {
        name.push('-');
        name.push_str(block);
    }
    AppName::new(name.as_str()).map_err(|fault| bad_name(place, &name, fault))
}

pub(super) fn namespace(options: &AppOptions) -> Result<Namespace, ConfigError> {
    let Some(name) = options.text("namespace") else { return Ok(Namespace::default()) };
    Namespace::new(name).map_err(|fault| bad_name(options.place("namespace"), name, fault))
}

fn bad_name(place: Place, name: &str, fault: AppNameFault) -> ConfigError {
    let hint = (!place.key.ends_with("name")).then(|| format!("choose a name with {}", place.option("name")));
    let error = ConfigError::at(place, format!("cannot be {}: {fault}", quoted(name)));
    hint.into_iter().fold(error, ConfigError::with_hint)
}

/// The apps that come first. `own` is the app's name, if it is known.
pub(super) fn depends_on(options: &AppOptions, own: Option<&AppName>) -> Result<Vec<AppName>, ConfigError> {
    let place = || options.place("depends_on");
    let mut names: Vec<AppName> = Vec::new();
    for text in options.texts("depends_on").unwrap_or_default() {
        let name = AppName::new(text.as_str()).map_err(|fault| bad_name(place(), &text, fault))?;
        if own == Some(&name) {
            return Err(ConfigError::at(place(), "names the app itself"));
        }
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Warns of apps that come first and are not in the same file: they may run already.
pub(super) fn warn_of_absent(apps: &[AppOptions], resolved: &mut [Resolved]) {
    let declared: BTreeMap<String, &AppOptions> =
        apps.iter().filter_map(|options| Some((options.declared_name()?, options))).collect();
    let names: BTreeSet<String> = resolved.iter().map(|app| app.spec.name.to_string()).collect();
    for Resolved { spec, warnings } in resolved {
        let Some(options) = declared.get(spec.name.as_str()) else { continue };
        let is_here = |name: &str| names.contains(name) || declared.contains_key(name);
        for name in spec.depends_on.iter().filter(|name| !is_here(name.as_str())) {
            let message = format!("names `{name}`, which is not in this file: start `{name}` first");
            warnings.push(Warning { place: options.place("depends_on"), message });
        }
    }
}

/// Refuses apps that wait for each other in a circle. What is not in the same file may run already.
pub(super) fn check_order(apps: &[&AppOptions], resolved: &[Resolved]) -> Result<(), ConfigError> {
    let wants: BTreeMap<&str, Vec<&str>> = resolved
        .iter()
        .map(|app| {
            (
                app.spec.name.as_str(),
                app.spec.depends_on.iter().map(forkful_core::spec::AppName::as_str).collect(),
            )
        })
        .collect();
    for (options, app) in apps.iter().zip(resolved) {
        let start = app.spec.name.as_str();
        let mut path = vec![start];
        if leads_back(start, start, &wants, &mut path, &mut Vec::new()) {
            let message = format!("makes a circle: {}", path.join(" waits for "));
            return Err(ConfigError::at(options.place("depends_on"), message));
        }
    }
    Ok(())
}

/// Whether what `at` waits for comes to `goal` in the end; `path` is then the way.
fn leads_back<'a>(
    at: &'a str,
    goal: &str,
    wants: &BTreeMap<&'a str, Vec<&'a str>>,
    path: &mut Vec<&'a str>,
    seen: &mut Vec<&'a str>,
) -> bool {
    for next in wants.get(at).into_iter().flatten() {
        path.push(next);
        if *next == goal {
            return true;
        }
        if !seen.contains(next) {
            seen.push(next);
            if leads_back(next, goal, wants, path, seen) {
                return true;
            }
        }
        path.pop();
    }
    false
}
