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

/// A file names the apps that come first as it names its own apps, without `name_prefix` and the chosen block. These names become the
/// full ones, also of apps that are not wanted now.
pub(super) fn complete_dependencies(
    apps: &[AppOptions],
    options_of: &[&AppOptions],
    resolved: &mut [Resolved],
    context: &Context,
) {
    let declared = apps.iter().filter_map(|options| {
        let declared = options.declared_name()?;
        let full = name(options, &declared, context).ok()?;
        Some((declared, full))
    });
    let mut full_names: BTreeMap<String, AppName> = declared.collect();
    for (options, app) in options_of.iter().zip(resolved.iter()) {
        full_names.extend(options.declared_name().map(|declared| (declared, app.spec.name.clone())));
    }
    for app in resolved {
        let mut names = Vec::new();
        for name in std::mem::take(&mut app.spec.depends_on) {
            let name = full_names.get(name.as_str()).cloned().unwrap_or(name);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        app.spec.depends_on = names;
    }
}

/// Warns of apps that come first and are not in the same file: they may run already. `options_of` are the options of `resolved`.
pub(super) fn warn_of_absent(
    apps: &[AppOptions],
    options_of: &[&AppOptions],
    resolved: &mut [Resolved],
    context: &Context,
) {
    let full_name = |options: &AppOptions| name(options, &options.declared_name()?, context).ok();
    let mut names: BTreeSet<String> =
        apps.iter().filter_map(full_name).map(|name| name.to_string()).collect();
    names.extend(resolved.iter().map(|app| app.spec.name.to_string()));
    for (options, Resolved { spec, warnings }) in options_of.iter().zip(resolved) {
        let is_here = |name: &str| names.contains(name);
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
